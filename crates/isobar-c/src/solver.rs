//! Solving.

use std::ffi::{CString, c_char, c_void};
use std::ops::ControlFlow;
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::time::Instant;

use isobar::{Device, Guess, Outcome, Stop};
use isobar_case::report::{Checks, Seconds, to_json};
use isobar_case::{Label, solver_options};

use crate::array::Array;
use crate::problem::{Problem, hand_out_handle, required};
use crate::status::{
    Failure, ISOBAR_BUSY, ISOBAR_INTERNAL, ISOBAR_INTERRUPTED, ISOBAR_NOT_CONVERGED, ISOBAR_OK, Result, coded,
};
use crate::text;

/// A solver with all its memory, on one device. It keeps nothing of the problem that it was made from.
pub struct Solver(Mutex<State>);

struct State {
    solver: isobar::Solver,
    label: Label,
    /// Seconds of making it.
    setup: f64,
    last: Option<(Outcome, f64)>,
    report: CString,
}

/// Sees every iteration; anything but 0 ends the solve. It is called on the thread that solves, or one of the solver's, and must not use
/// that solver.
pub type Progress = Option<unsafe extern "C" fn(data: *mut c_void, iteration: usize, relative_residual: f64) -> i32>;

/// A caller's data on its way to the caller's function.
struct Data(*mut c_void);

// SAFETY: nothing is done with it but to hand it to the caller's function, which is told that it may be another thread's.
unsafe impl Send for Data {}

impl Solver {
    fn lock(&self) -> Result<MutexGuard<'_, State>> {
        self.0.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => {
                let message =
                    "the solver is in use; use it from one thread at a time, and not in its own progress function";
                Failure { code: ISOBAR_BUSY, message: message.into() }
            }
            TryLockError::Poisoned(_) => {
                let message = "the solver has met an internal error; free it, and make a new one";
                Failure { code: ISOBAR_INTERNAL, message: message.into() }
            }
        })
    }
}

/// Makes a solver. `options` are the keys of section "solver" of a case file, as TOML or as a JSON object, such as "tolerance = 1e-8"; null
/// stands for those of the problem's case, or for none. `device` is "auto", "cpu", "cuda" or "cuda:N"; null is "auto".
/// `threads` is how many the CPU uses; 0 is one a core.
///
/// # Safety
/// `problem` is a handle, texts end with a zero, `out` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isobar_solver_create(
    problem: *const Problem,
    options: *const c_char,
    device: *const c_char,
    threads: usize,
    out: *mut *mut Solver,
) -> i32 {
    coded(|| {
        let make = || {
            let clock = Instant::now();
            // SAFETY: promised by the caller.
            let (problem, options, device) = unsafe {
                (required("problem", problem)?, text::optional("options", options)?, text::optional("device", device)?)
            };
            let options = options.map_or_else(|| Ok(problem.0.options()), solver_options)?;
            let device = Device::parse(device.unwrap_or("auto"), (threads > 0).then_some(threads))?;
            let solver = problem.0.matrix.solver(&device, &options)?;
            let setup = clock.elapsed().as_secs_f64();
            let label = problem.0.label();
            let state = State { solver, label, setup, last: None, report: CString::default() };
            Ok(Solver(Mutex::new(state)))
        };
        // SAFETY: promised by the caller.
        unsafe { hand_out_handle(out, make) }
    })
}

/// Solves A u = b. Begins with u = 0, or, where `from_u` is not 0, with what `u` holds. `b` and `u` may be the same array, and
/// may be in host memory or in that of the solver's device. `progress` may be null. Returns ISOBAR_OK where the true residual meets the
/// tolerance; after ISOBAR_NOT_CONVERGED and ISOBAR_INTERRUPTED u holds what was reached.
///
/// # Safety
/// `solver` is a handle; the arrays are what they say, and nobody else uses them meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isobar_solver_solve(
    solver: *mut Solver,
    b: *const Array,
    u: *const Array,
    from_u: i32,
    progress: Progress,
    data: *mut c_void,
) -> i32 {
    coded(|| {
        // SAFETY: promised by the caller.
        let (solver, b, u) = unsafe { (required("solver", solver)?, required("b", b)?, required("u", u)?) };
        let mut state = solver.lock()?;
        let clock = Instant::now();
        let (from, to) = (b.raw("b")?, u.raw("u")?);
        let guess = if from_u == 0 { Guess::Zero } else { Guess::Given };
        let data = Data(data);
        let mut observe = move |seen: &isobar::Progress| {
            // All of it, not the pointer inside alone.
            let data = &data;
            // SAFETY: the caller's function with the caller's data.
            let wish = progress.map_or(0, |f| unsafe { f(data.0, seen.iteration, seen.relative_residual) });
            if wish == 0 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        };
        // SAFETY: promised by the caller.
        let outcome = unsafe { state.solver.solve_raw(&from, &to, guess, &mut observe)? };
        let code = match outcome.stop {
            Stop::Converged => Ok(ISOBAR_OK),
            Stop::Interrupted => Err((ISOBAR_INTERRUPTED, "the progress function ended the solve".to_owned())),
            stop => {
                let (after, reached) = (outcome.iterations, outcome.relative_residual);
                let advice = outcome.advice.as_ref().map(|advice| format!("; {advice}")).unwrap_or_default();
                let text =
                    format!("not converged: {stop} after {after} iterations, relative residual {reached:.3e}{advice}");
                Err((ISOBAR_NOT_CONVERGED, text))
            }
        };
        state.last = Some((outcome, clock.elapsed().as_secs_f64()));
        code.map_err(|(code, message)| Failure { code, message })
    })
}

/// v = A u
///
/// # Safety
/// As isobar_solver_solve.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isobar_solver_apply(solver: *mut Solver, u: *const Array, v: *const Array) -> i32 {
    coded(|| {
        // SAFETY: promised by the caller.
        let (solver, u, v) = unsafe { (required("solver", solver)?, required("u", u)?, required("v", v)?) };
        let mut state = solver.lock()?;
        // SAFETY: promised by the caller.
        unsafe { state.solver.apply_raw(&u.raw("u")?, &v.raw("v")?)? };
        Ok(ISOBAR_OK)
    })
}

/// Gives the solver the coefficients of another problem, which differs in nothing else: in place, for the next time step.
///
/// # Safety
/// Both are handles.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isobar_solver_update(solver: *mut Solver, problem: *const Problem) -> i32 {
    coded(|| {
        // SAFETY: promised by the caller.
        let (solver, problem) = unsafe { (required("solver", solver)?, required("problem", problem)?) };
        problem.0.matrix.update(&mut solver.lock()?.solver)?;
        Ok(ISOBAR_OK)
    })
}

/// The report of the last solve as JSON, with the keys of the command's --report; its `checks` and the bandwidth of a copy are null. The text is valid
/// until the solver is used again.
///
/// # Safety
/// `solver` is a handle; `text` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isobar_solver_report(solver: *mut Solver, text: *mut *const c_char) -> i32 {
    coded(|| {
        // SAFETY: promised by the caller.
        let solver = unsafe { required("solver", solver)? };
        if text.is_null() {
            return Err(Failure::invalid("the place for the text is a null pointer"));
        }
        let mut state = solver.lock()?;
        let Some((outcome, total)) = &state.last else {
            return Err(Failure::invalid("no solve to report; call isobar_solver_solve first"));
        };
        let seconds = Seconds::of_solve(state.setup, outcome, *total);
        let report = state.label.report(state.solver.description(), outcome, Checks::NONE, seconds);
        let report = CString::new(to_json(&report)).map_err(|error| Failure::invalid(error.to_string()))?;
        state.report = report;
        // SAFETY: not null, and can be written, as the caller promises.
        unsafe { *text = state.report.as_ptr() };
        Ok(ISOBAR_OK)
    })
}

/// Frees a solver; null is allowed.
///
/// # Safety
/// `solver` is a handle that is not used again, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isobar_solver_free(solver: *mut Solver) {
    if !solver.is_null() {
        coded(|| {
            // SAFETY: made by `hand_out_handle`, and not used again, as the caller promises.
            drop(unsafe { Box::from_raw(solver) });
            Ok(ISOBAR_OK)
        });
    }
}
