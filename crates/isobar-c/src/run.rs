//! Solvers and time steppers, with what their reports need.

use std::ffi::{CString, c_char};
use std::time::Instant;

use isobar::{Description, Outcome, Ranks, Shape};
use isobar_case::Label;
use isobar_case::report::{Checks, Seconds, to_json};

use crate::handle::{Exclusive, hand_out};
use crate::status::{Failure, ISOBAR_OK, Result};
use crate::together::{on_all, own_shape};

/// A solver or a time stepper, with what its reports need.
pub(crate) struct Run<W> {
    pub(crate) work: W,
    label: Label,
    /// Seconds of setup.
    setup: f64,
    /// The outcome of the last solve, and the seconds of the call.
    pub(crate) last: Option<(Outcome, f64)>,
    report: CString,
    /// The ranks among which the grid is divided.
    pub(crate) ranks: Option<Ranks>,
}

impl<W> Run<W> {
    /// Calls a function on all ranks, with the shape of this rank's arrays.
    pub(crate) fn on_all<R>(&mut self, call: impl FnOnce(&mut W, Option<&Ranks>, Shape) -> Result<R>) -> Result<R> {
        let Self { work, label, ranks, .. } = self;
        let ranks = ranks.as_ref();
        on_all(ranks, || call(work, ranks, own_shape(ranks, label.shape)?))
    }
}

impl<W> Exclusive<Run<W>> {
    /// Keeps what has been made since `clock`; `name` is its name in messages.
    pub(crate) fn of(name: &'static str, work: W, label: Label, clock: Instant, ranks: Option<&Ranks>) -> Self {
        let setup = clock.elapsed().as_secs_f64();
        Self::new(name, Run { work, label, setup, last: None, report: CString::default(), ranks: ranks.cloned() })
    }

    /// Calls a function on all ranks, with the shape of this rank's arrays.
    pub(crate) fn on_all(&self, call: impl FnOnce(&mut W, Option<&Ranks>, Shape) -> Result<()>) -> Result<i32> {
        self.lock()?.on_all(call)?;
        Ok(ISOBAR_OK)
    }

    /// Writes the report of the last solve to `text`; without one, fails with the message `none`.
    ///
    /// # Safety
    /// `text` is writable.
    pub(crate) unsafe fn hand_out_report(
        &self,
        describe: fn(&W) -> &Description,
        none: &str,
        text: *mut *const c_char,
    ) -> Result<i32> {
        let mut run = self.lock()?;
        let (outcome, total) = run.last.as_ref().ok_or_else(|| Failure::invalid(none))?;
        let seconds = Seconds::of_solve(run.setup, outcome, *total);
        let report = to_json(&run.label.report(describe(&run.work), outcome, Checks::NONE, seconds));
        run.report = CString::new(report).map_err(|error| Failure::invalid(error.to_string()))?;
        // SAFETY: promised by the caller.
        unsafe { hand_out("text", text, run.report.as_ptr())? };
        Ok(ISOBAR_OK)
    }
}
