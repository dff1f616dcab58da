//! The subcommands, one module each. Each returns the exit status of the process.

pub mod bench;
pub mod completions;
pub mod devices;
pub mod effective;
pub mod export;
mod heat;
mod restart;
pub mod scaling;
pub mod solve;
mod writer;

use isobar::Stop;

use crate::run::Run;
use crate::{INTERRUPTED, NOT_CONVERGED, SUCCESS, interrupt};

/// Returns the exit status of a solve.
fn status(run: &Run) -> u8 {
    // Another rank may have received the signal.
    if interrupt::requested() || run.outcome.stop == Stop::Interrupted {
        INTERRUPTED
    } else if run.outcome.converged() {
        SUCCESS
    } else {
        NOT_CONVERGED
    }
}
