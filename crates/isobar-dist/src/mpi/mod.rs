//! Ranks that are processes, over whatever MPI is there.
//!
//! Nothing is linked: the library is found at run time, and its handles are of one of three kinds, see [`Family`]. It is
//! looked for only where a launcher such as `mpirun` has started this process, so that all else works without.
//!
//! * `library` where it is, and whose; `functions` what it offers, `channel` messages by it,
//! * `job` processes that are this library's own, which it starts, watches (`watch`), and ends where one fails,
//! * `guest` a communicator of a program that has started MPI for itself; `settle` what its ranks do where one fails.

mod channel;
mod failure;
mod functions;
mod guest;
mod job;
mod library;
mod settle;
mod watch;

use std::sync::Arc;

use isobar_core::error::Result;

use crate::communicator::Communicator;
use failure::failure;
pub use functions::Family;
use functions::{Handle, Mpi};
use library::Opened;

/// The environment variables of launchers: the rank, and the number of ranks.
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
    /// Its description of itself, in one line.
    pub version: String,
    /// The family that it belongs to.
    pub family: Family,
    /// The library's name or path.
    pub library: String,
}

/// The MPI that a job would use.
///
/// # Errors
/// [`Error::Device`](isobar_core::Error::Device) where none is found, or it cannot be used, saying why and what to do.
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
/// [`Error::Device`](isobar_core::Error::Device) where there is no MPI, it fails to start, or is another one than the launcher's: each process would
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

/// Takes part in what a program does on one of its communicators, which it names by a number, as Fortran does: that of
/// `MPI_Comm_c2f`. The program starts MPI before and ends it after; its own messages are never met. A call of all ranks.
///
/// Where one rank fails all get to know, see [`together`](crate::together()); none ends the program.
///
/// # Errors
/// [`Error::Device`](isobar_core::Error::Device) where MPI does not run in this process; [`Error::Invalid`](isobar_core::Error::Invalid) for a number that is no communicator.
pub fn on_communicator(communicator: i32) -> Result<Arc<dyn Communicator>> {
    fn on<H: Handle>(mpi: Mpi<H>, communicator: i32) -> Option<Result<Arc<dyn Communicator>>> {
        match guest::is_running(&mpi) {
            Ok(true) => {}
            Ok(false) => return None,
            Err(error) => return Some(Err(error)),
        }
        Some(guest::Guest::new(mpi, communicator).map(|guest| Arc::new(guest) as Arc<dyn Communicator>))
    }
    let running = library::loaded().into_iter().find_map(|opened| match opened {
        Opened::Integers(mpi) => on(mpi, communicator),
        Opened::Pointers(mpi) => on(mpi, communicator),
    });
    running.unwrap_or_else(|| {
        Err(failure(
            "MPI is not initialised in this process: call MPI_Init first, and MPI_Finalize after the last use of the communicator; \
             the program must link MPI as a shared library"
                .into(),
        ))
    })
}
