//! This crate divides grids among several devices.
//!
//! A back end that can hold subdomains of a grid, [`PartBackend`], becomes one of several ranks by [`join`]: every rank has one, and all
//! run the same solver on slabs of rows. The solver itself does not change: a step fills the halo rows that it reads, and its sums are
//! those of all ranks.
//!
//! * [`Communicator`] the interface of a transport: [`threads`] of one process, or [`mpi`] between processes; [`together`] collective
//!   operations,
//! * [`Ranks`] a job as a back end uses it, [`Slabs`] the rows of each rank,
//! * [`part`] the interface of a back end with subdomains, and how its halo rows are filled,
//! * [`levels`] the levels of multigrid: divided while slabs are thick enough, then whole on every rank,
//! * [`modes`] vertical modes, whose problems are divided among the ranks,
//! * [`divided`] redistribution between rows and layers, for modes and for the lines of direct solvers,
//! * [`diffusion`] what `auto` chooses on ranks.
//!
//! Sums are added in the order of ranks, whatever arrives first, so that all ranks have the same numbers and take the same decisions.

mod collect;
pub mod communicator;
pub mod diffusion;
pub mod divided;
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
