//! The command as one of several processes, started by `mpirun`.

use std::ops::ControlFlow;
use std::time::Duration;

use isobar::{Error, Ranks};

use crate::failure::{Failure, Result};
use crate::interrupt;

/// Whether this process leaves it to rank 0 to say what there is to say.
pub fn is_silent() -> bool {
    Ranks::launched().is_some_and(|rank| rank > 0)
}

/// Waits where rank 0 has something to say: launchers end a job as soon as a process of it ends with a failure, and rank 0
/// might not have said it yet. When it has, its own failure ends this process too.
pub fn let_rank_0_speak() {
    if is_silent() {
        std::thread::sleep(Duration::from_secs(2));
    }
}

/// Agrees on whether all ranks have got so far; without ranks, this one.
///
/// # Errors
/// The first failure of any, which names its rank.
pub fn agree<R>(ranks: Option<&Ranks>, mine: Result<R>) -> Result<R> {
    match ranks {
        None => mine,
        Some(ranks) => Ok(ranks.agree(mine.map_err(|failure| Error::Unsupported(failure.to_string())))?),
    }
}

/// What came of a step that all ranks take together, in which one may fail while the others wait for it.
///
/// # Errors
/// As [`agree`]; where only this rank can have failed, the whole job ends here.
pub fn together<R>(ranks: Option<&Ranks>, result: isobar::Result<R>) -> Result<R> {
    if let (Some(ranks), Err(error @ (Error::Device { .. } | Error::OutOfMemory { .. } | Error::Io(_)))) =
        (ranks, &result)
    {
        ranks.abort(&error.to_string());
    }
    agree(ranks, result.map_err(Failure::from))
}

/// The sum of all ranks' values, or the value itself.
///
/// # Errors
/// A failure of MPI.
pub fn sum<const N: usize>(ranks: Option<&Ranks>, mut values: [f64; N]) -> Result<[f64; N]> {
    if let Some(ranks) = ranks {
        ranks.sum(&mut values)?;
    }
    Ok(values)
}

/// What an iteration is told: to go on, or to stop; the same on all ranks, whichever was asked for an end.
pub fn flow(ranks: Option<&Ranks>) -> ControlFlow<()> {
    let Some(ranks) = ranks else { return interrupt::flow() };
    let mut requests = [f64::from(u8::from(interrupt::requested()))];
    match ranks.sum(&mut requests) {
        Ok(()) if requests == [0.0] => ControlFlow::Continue(()),
        _ => ControlFlow::Break(()),
    }
}

/// Ends the whole job where this process ends by a defect: the others would wait for it.
pub struct AbortOnPanic<'r>(pub &'r Ranks);

impl Drop for AbortOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.abort("it ended by a defect of isobar");
        }
    }
}
