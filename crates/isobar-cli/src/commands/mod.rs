//! One module a subcommand. Each returns the exit status of the process.

pub mod bench;
pub mod devices;
pub mod export;
mod heat;
pub mod model;
pub mod reproduce;
mod restart;
pub mod scaling;
pub mod solve;
mod trial;
mod writer;

use std::path::Path;

use crate::failure::Result;
use crate::run::Run;
use crate::{INTERRUPTED, NOT_CONVERGED, SUCCESS, files, interrupt};
use isobar_case::report::to_json;

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

/// Writes a report, to a file or to standard output.
fn write_report<T: serde::Serialize>(path: &Path, report: &T) -> Result<()> {
    files::write_text("--report", path, |out| out.write_all(to_json(report).as_bytes()))
}
