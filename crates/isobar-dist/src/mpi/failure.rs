//! Failures of MPI.

use isobar_core::error::Error;

pub(super) fn failure(message: String) -> Error {
    Error::Device { device: "mpi".into(), message }
}
