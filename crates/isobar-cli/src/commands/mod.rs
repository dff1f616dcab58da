//! One module a subcommand. Each returns the exit status of the process.

pub mod bench;
pub mod devices;
pub mod export;
pub mod reproduce;
pub mod solve;

use std::path::Path;

use crate::failure::{Failure, Result};
use crate::report::to_json;
use crate::run::Run;
use crate::{INTERRUPTED, NOT_CONVERGED, SUCCESS, interrupt};

/// The exit status that a solve leads to.
fn status(run: &Run) -> u8 {
    if interrupt::requested() {
        INTERRUPTED
    } else if run.outcome.converged() {
        SUCCESS
    } else {
        NOT_CONVERGED
    }
}

/// Writes a report, whole or not at all.
fn write_report<T: serde::Serialize>(path: &Path, report: &T) -> Result<()> {
    isobar_io::atomic::write_whole(path, to_json(report).as_bytes())
        .map_err(|error| Failure::new(format!("--report {error}")))
}
