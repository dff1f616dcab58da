//! What comes of a solve, and who looks on.

use std::ffi::{CString, c_void};
use std::ops::ControlFlow;

use isobar::{Description, Outcome, Ranks, Stop};
use isobar_case::Label;
use isobar_case::report::{Checks, Seconds, to_json};

use crate::status::{Failure, ISOBAR_INTERRUPTED, ISOBAR_NOT_CONVERGED, ISOBAR_OK, Result};

/// Sees every iteration; anything but 0 ends the solve. It is called on the thread that solves, or one of the solver's, and must not use
/// that solver.
pub type Progress = Option<unsafe extern "C" fn(data: *mut c_void, iteration: usize, relative_residual: f64) -> i32>;

/// A caller's data on its way to the caller's function.
struct Data(*mut c_void);

// SAFETY: nothing is done with it but to hand it to the caller's function, which is told that it may be another thread's.
unsafe impl Send for Data {}

/// Calls the caller's function after every iteration; on ranks, where one has such a function, all end when one of them wants to.
///
/// # Errors
/// A failure of MPI.
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
        // All of it, not the pointer inside alone.
        let data = &data;
        // SAFETY: promised by the caller of `observer`.
        let wish = progress.map_or(0, |f| unsafe { f(data.0, seen.iteration, seen.relative_residual) });
        let mut wishes = [f64::from(u8::from(wish != 0))];
        // Where ranks cannot be asked the call fails in any case.
        let is_asked = all.is_none_or(|ranks| ranks.sum(&mut wishes).is_ok());
        if is_asked && wishes == [0.0] { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })
}

/// The code of a solve.
pub(crate) fn judged(outcome: &Outcome) -> Result<i32> {
    match outcome.stop {
        Stop::Converged => Ok(ISOBAR_OK),
        Stop::Interrupted => Err(Failure::new(ISOBAR_INTERRUPTED, "the progress function ended the solve")),
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

/// The report of a solve, JSON; `seconds` are those of the setup and of the call.
pub(crate) fn report(
    label: &Label,
    description: &Description,
    outcome: &Outcome,
    seconds: [f64; 2],
) -> Result<CString> {
    let [setup, call] = seconds;
    let report = label.report(description, outcome, Checks::NONE, Seconds::of_solve(setup, outcome, call));
    CString::new(to_json(&report)).map_err(|error| Failure::invalid(error.to_string()))
}
