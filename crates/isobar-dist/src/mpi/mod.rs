//! Ranks that are processes, over whatever MPI is there.
//!
//! Nothing is linked: the library is found at run time, and its handles are of one of three kinds, see [`Family`]. It is
//! looked for only where a launcher such as `mpirun` has started this process, so that all else works without.

mod job;
mod library;
mod watch;

use std::sync::Arc;

use isobar_core::error::{Error, Result};

use crate::communicator::Communicator;
pub use library::Family;
use library::Opened;

/// What launchers tell the processes that they start: the rank, and the number of ranks.
const RANKS: [(&str, &str); 5] = [
    ("PMI_RANK", "PMI_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMIX_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMIX_RANK", "SLURM_STEP_NUM_TASKS"),
    ("PALS_RANKID", "PALS_NRANKS"),
];

/// Whether an MPI launcher has started this process as one of several. An `$ISOBAR_MPI` that is empty says that it has not: a
/// program that is itself a rank may start others.
pub fn is_launched() -> bool {
    launched_rank().is_some() && launched_ranks() != Some(1)
}

/// The rank that the launcher says this process has.
pub fn launched_rank() -> Option<usize> {
    if std::env::var_os(library::VARIABLE).is_some_and(|path| path.is_empty()) {
        return None;
    }
    RANKS.iter().find_map(|(rank, _)| std::env::var(rank).ok()?.trim().parse().ok())
}

/// How many of a job's processes are on this machine, where the launcher says so.
pub fn ranks_here() -> Option<usize> {
    ["MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE", "PALS_LOCAL_SIZE"]
        .iter()
        .find_map(|name| std::env::var(name).ok()?.trim().parse().ok())
}

/// How many processes the launcher says it has started, where it does.
fn launched_ranks() -> Option<usize> {
    RANKS.iter().filter(|(rank, _)| std::env::var_os(rank).is_some()).find_map(|(_, size)| {
        let size = std::env::var(size).ok()?;
        size.trim().parse().ok()
    })
}

/// An MPI that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// What it calls itself, in one line.
    pub version: String,
    /// Whose handles it has.
    pub family: Family,
    /// The library's name or path.
    pub library: String,
}

/// The MPI that a job would use.
///
/// # Errors
/// [`Error::Device`] where none is found, or it cannot be used, saying why and what to do.
pub fn find() -> Result<Found> {
    let (_, opened) = open()?;
    Ok(opened)
}

fn open() -> Result<(Opened, Found)> {
    let opened = library::open()?;
    let (version, family, library) = match &opened {
        Opened::Integers(mpi) => (mpi.version(), mpi.family, mpi.name.clone()),
        Opened::Pointers(mpi) => (mpi.version(), mpi.family, mpi.name.clone()),
    };
    Ok((opened, Found { version, family, library }))
}

/// Takes part in the job that this process was started in. To be called once a process.
///
/// # Errors
/// [`Error::Device`] where there is no MPI, it fails to start, or is another one than the launcher's: each process would
/// then be a job of its own.
pub fn start() -> Result<Arc<dyn Communicator>> {
    let (opened, found) = open()?;
    let world: Arc<dyn Communicator> = match opened {
        Opened::Integers(mpi) => Arc::new(job::Job::start(mpi)?),
        Opened::Pointers(mpi) => Arc::new(job::Job::start(mpi)?),
    };
    match launched_ranks() {
        Some(started) if started > 1 && world.size() == 1 => Err(failure(format!(
            "{started} processes were started, but {} ({}) sees one: it is not the MPI of that mpirun; set ISOBAR_MPI to \
             the library that is",
            found.version, found.library
        ))),
        _ => Ok(world),
    }
}

fn failure(message: String) -> Error {
    Error::Device { device: "mpi".into(), message }
}
