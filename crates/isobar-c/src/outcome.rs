//! Results of a solve and progress functions.

use std::ffi::c_void;
use std::ops::ControlFlow;

use isobar::{Outcome, Ranks, Stop};

use crate::status::{Failure, ISOBAR_INTERRUPTED, ISOBAR_NOT_CONVERGED, ISOBAR_OK, Result};

/// A progress function, called after every iteration; a return value other than 0 stops the solve. It is called on the thread that solves or on
/// one of the solver's, with no floating-point exception trapped. It must not use that solver, and must return: a C++ exception or a longjmp that
/// leaves it ends the program or is undefined.
pub type Progress = Option<unsafe extern "C" fn(data: *mut c_void, iteration: usize, relative_residual: f64) -> i32>;

/// A caller's pointer that is passed to the caller's function.
struct Data(*mut c_void);

// SAFETY: it is only passed to the caller's function, which is documented to run on other threads.
unsafe impl Send for Data {}

/// Calls the caller's function after every iteration; on ranks, a stop requested by one rank stops all.
///
/// # Safety
/// `progress` may be called with `data` for as long as the observer is used.
pub(crate) unsafe fn observer(
    progress: Progress,
    data: *mut c_void,
    ranks: Option<&Ranks>,
) -> Result<impl FnMut(&isobar::Progress) -> ControlFlow<()> + Send> {
    let data = Data(data);
    let mut listeners = [f64::from(u8::from(progress.is_some()))];
    if let Some(ranks) = ranks {
        ranks.sum(&mut listeners)?;
    }
    let all = ranks.filter(|_| listeners != [0.0]);
    Ok(move |seen: &isobar::Progress| {
        // Captures the whole struct, not the pointer inside.
        let data = &data;
        // SAFETY: promised by the caller of `observer`.
        let wish = progress.map_or(0, |f| unsafe { f(data.0, seen.iteration, seen.relative_residual) });
        let mut wishes = [f64::from(u8::from(wish != 0))];
        // If the sum over ranks fails, so does the solve.
        let is_asked = all.is_none_or(|ranks| ranks.sum(&mut wishes).is_ok());
        if is_asked && wishes == [0.0] { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })
}

/// Returns the code of a solve.
pub(crate) fn judged(outcome: &Outcome) -> Result<i32> {
    match outcome.stop {
        Stop::Converged => Ok(ISOBAR_OK),
        Stop::Interrupted => Err(Failure::new(ISOBAR_INTERRUPTED, "the progress function stopped the solve")),
        stop => {
            let (after, reached) = (outcome.iterations, outcome.relative_residual);
            let s = if after == 1 { "" } else { "s" };
            let advice = outcome.advice.as_ref().map(|advice| format!("; {advice}")).unwrap_or_default();
            let message =
                format!("not converged: {stop} after {after} iteration{s}, relative residual {reached:.3e}{advice}");
            Err(Failure::new(ISOBAR_NOT_CONVERGED, message))
        }
    }
}
