//! This module runs collective operations: a failure of one rank is reported on all.

use std::panic::{self, AssertUnwindSafe};

use isobar_core::error::Result;

use crate::communicator::Communicator;
use crate::told::{Kind, Tell, Told};

/// Runs a collective operation, which all ranks must call: it succeeds on all, or fails on all with the error of the first rank
/// that has one, if the transport can do that ([`Communicator::settle`]). An operation within another one is a part of it.
///
/// # Errors
/// The first rank's error, on all ranks.
///
/// # Panics
/// Panics if `work` does, after the other ranks have been notified.
pub fn together<R, E: Tell>(world: &dyn Communicator, work: impl FnOnce() -> Result<R, E>) -> Result<R, E> {
    if !world.begin() {
        return work();
    }
    let result = panic::catch_unwind(AssertUnwindSafe(work));
    let mine = match &result {
        Ok(Ok(_)) => None,
        Ok(Err(error)) => Some(error.tell()),
        Err(_) => Some(Told { kind: Kind::Device, message: "it ended by a defect of isobar".into() }),
    };
    let failure = world.settle(mine);
    match (result, failure) {
        (Ok(_), Some((rank, failure))) => Err(E::told([rank, world.size()], failure)),
        (Ok(result), None) => result,
        (Err(panic), _) => panic::resume_unwind(panic),
    }
}
