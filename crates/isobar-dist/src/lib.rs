//! Grids divided among several devices.
//!
//! A back end that can hold subdomains of a grid, [`PartBackend`], becomes one of several ranks by [`join`]: every rank has one, and all
//! run the same solver on slabs of rows. Solvers do not know; a step fills the halo rows that it reads, and its sums are those of all
//! ranks.
//!
//! * [`Communicator`] what ranks need of a transport: [`threads`] of one process, [`mpi`] between processes; [`together`] what they
//!   all do or none,
//! * [`Ranks`] a job as a back end knows it, [`Slabs`] which rank has which rows,
//! * [`part`] what a back end offers, and how its halo rows are filled,
//! * [`levels`] those of multigrid: divided while slabs are thick enough, then whole on every rank,
//! * [`modes`] vertical modes, of whose problems every rank solves some,
//! * [`diffusion`] what `auto` takes on ranks.
//!
//! Sums are taken in the order of ranks, so that all ranks know the same numbers and take the same decisions, whatever
//! arrives first.

mod collect;
pub mod communicator;
pub mod diffusion;
mod edge;
mod joined;
pub mod levels;
pub mod modes;
#[cfg(unix)]
pub mod mpi;
pub mod part;
mod patience;
mod ranks;
mod slabs;
pub mod threads;
mod together;
mod told;

pub use collect::{collect_layers, gather};
pub use communicator::{Communicator, Message};
pub use joined::{collect, device, join, own_rows, require_order, require_sweeps};
pub use part::PartBackend;
pub use ranks::{Ranks, Watched};
pub use slabs::Slabs;
pub use together::together;
pub use told::{Kind, Tell, Told};
