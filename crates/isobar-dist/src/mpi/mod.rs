//! This module makes ranks of processes, over any MPI library that is installed.
//!
//! Nothing is linked: the library is found at run time, and its handles are of one of three kinds, see [`Family`]. It is searched only if a launcher such as
//! `mpirun` has started this process, so that everything else works without MPI.
//!
//! * `library` finds the library and its family; `functions` its functions; `channel` messages,
//! * `job` processes that start and end MPI through this library, watched by `watch`, and ended if one fails,
//! * `guest` a communicator of a program that has started MPI itself; `settle` what its ranks do if one fails; `turn` the
//!   turns of its threads.

mod channel;
mod failure;
mod functions;
mod guest;
mod job;
mod library;
mod settle;
mod turn;
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

/// Returns whether an MPI launcher has started this process as one of several. An empty `$ISOBAR_MPI` means no: a program that is itself a rank may start
/// others.
pub fn is_launched() -> bool {
    launched_rank().is_some() && launched_ranks() != Some(1)
}

/// Returns the rank of this process, according to the launcher.
pub fn launched_rank() -> Option<usize> {
    if std::env::var_os(library::VARIABLE).is_some_and(|path| path.is_empty()) {
        return None;
    }
    RANKS.iter().find_map(|(rank, _)| std::env::var(rank).ok()?.trim().parse().ok())
}

/// Returns the number of the job's processes on this machine, if the launcher reports it.
pub fn ranks_here() -> Option<usize> {
    ["MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE", "PALS_LOCAL_SIZE"]
        .iter()
        .find_map(|name| std::env::var(name).ok()?.trim().parse().ok())
}

/// Returns the number of processes that the launcher has started, if it reports it.
fn launched_ranks() -> Option<usize> {
    RANKS.iter().filter(|(rank, _)| std::env::var_os(rank).is_some()).find_map(|(_, size)| {
        let size = std::env::var(size).ok()?;
        size.trim().parse().ok()
    })
}

/// An MPI that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The library's one-line description of itself.
    pub version: String,
    /// The family that it belongs to.
    pub family: Family,
    /// The library's name or path.
    pub library: String,
}

/// Finds the MPI that a job would use.
///
/// # Errors
/// [`Error::Device`](isobar_core::Error::Device) if none is found, or it cannot be used, with the reason and a remedy.
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

/// Joins the job that this process was started in. May be called once per process.
///
/// # Errors
/// [`Error::Device`](isobar_core::Error::Device) if there is no MPI, it does not start, or it is another MPI than the launcher's: each process would then be a
/// job of its own.
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

/// Makes ranks of a program's communicator, given as the Fortran handle that `MPI_Comm_c2f` returns. The program starts MPI before and ends it after; its own
/// messages are never matched. All ranks of the communicator must call this.
///
/// If one rank fails, all get its error, see [`together`](crate::together()); none ends the program.
///
/// # Errors
/// [`Error::Device`](isobar_core::Error::Device) if MPI does not run in this process; [`Error::Invalid`](isobar_core::Error::Invalid) for a number that is no
/// communicator.
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
