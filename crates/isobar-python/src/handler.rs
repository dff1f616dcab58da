//! The functions that XLA calls for `isobar.jax.solve`.

use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};

use isobar::Progress;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::error::Failure;
use crate::function::{Function, Has, Values};
use crate::interrupt::{self, Listening};
use crate::xla::{Call, CallFrame, Code, Place, XlaError, answer};

extern "C" fn solve_on_host(frame: *mut CallFrame) -> *mut XlaError {
    // SAFETY: XLA's frame.
    unsafe { answer(frame, |call| guarded(call, Place::Host)) }
}

extern "C" fn solve_on_gpu(frame: *mut CallFrame) -> *mut XlaError {
    // SAFETY: XLA's frame.
    unsafe { answer(frame, |call| guarded(call, Place::Gpu)) }
}

/// Solves; a panic must not reach XLA.
fn guarded(call: &Call<'_>, place: Place) -> Result<(), (Code, String)> {
    let solved = catch_unwind(AssertUnwindSafe(|| solve(call, place)));
    solved.unwrap_or_else(|_| Err((Code::Internal, "isobar panicked; please report this".to_owned())))
}

/// Writes x. The arguments are the κ's, c and the geometry's numbers if there are any, and f or a right-hand side.
fn solve(call: &Call<'_>, place: Place) -> Result<(), (Code, String)> {
    let Some(function) = Function::numbered(call.attribute("function")?) else {
        let message = "isobar.jax.solve: its problem does not exist any more, or is another process's; keep a reference to the isobar.Diffusion";
        return Err((Code::FailedPrecondition, message.to_owned()));
    };
    let [mut fields, out] = call.arrays(place)?;
    let has = Has { reaction: call.attribute("has_reaction")? != 0, geometry: call.attribute("has_geometry")? != 0 };
    let kind = if call.attribute("driven")? != 0 { Values::Densities } else { Values::Projected };
    let (Some(values), [out]) = (fields.pop(), &out[..]) else {
        return Err((Code::Internal, "XLA passes no array, or more than one for the solution".to_owned()));
    };
    let listening = interrupt::is_first_thread().then(Listening::begin).flatten();
    let mut observer = |_: &Progress| {
        if listening.is_some() && interrupt::seen() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    // SAFETY: XLA keeps its buffers alive until the handler returns, and those of results are no arguments.
    let solved = unsafe { function.solve(&fields, has, (&values, kind), out, &mut observer) };
    solved.map_err(|failure| {
        let code = match failure {
            Failure::NotConverged(_) => Code::FailedPrecondition,
            Failure::Library(_) | Failure::Case(_) => Code::InvalidArgument,
        };
        (code, failure.message())
    })
}

/// Returns the handlers for arrays on the host and on a GPU, as JAX registers them.
#[pyfunction]
pub(crate) fn xla_handlers(py: Python<'_>) -> PyResult<[Bound<'_, PyCapsule>; 2]> {
    let capsule = |handler: extern "C" fn(*mut CallFrame) -> *mut XlaError| {
        // SAFETY: a function, which lives as long as this module; XLA expects no name.
        unsafe {
            let capsule = pyo3::ffi::PyCapsule_New(handler as *mut std::ffi::c_void, std::ptr::null(), None);
            Bound::from_owned_ptr_or_err(py, capsule).and_then(|capsule| Ok(capsule.cast_into::<PyCapsule>()?))
        }
    };
    Ok([capsule(solve_on_host)?, capsule(solve_on_gpu)?])
}
