//! Grids divided among several devices.
//!
//! [`Distributed`] makes a back end of any back end that can hold parts of a grid: every rank has one, and all of them run
//! the same solver on slabs of rows, or on rectangles of columns. Solvers do not know; what differs is that halo rows are filled before a step that
//! reads them, and that sums are those of all ranks.
//!
//! * [`Communicator`] what ranks need of a transport: [`threads`] of one process, [`mpi`] between processes; [`together`] what they
//!   all do or none,
//! * [`Patches`] which rank has which columns, [`Slabs`] in one direction,
//! * [`Distributed`] the back end, [`Vector`] its vectors, [`DistributedOperator`] its operators,
//! * [`compile_solvers`] what a back end's crate compiles of all that,
//! * [`levels`] those of multigrid: divided while slabs are thick enough, then whole on every rank; `points` those whose cells are
//!   relaxed each by itself, `galerkin` those of 27 points,
//! * `cells` steps from cell to cell: relaxation of points, and substitution, in which a rank follows the one before,
//! * `modes` vertical modes, of whose problems every rank solves some, on `own` levels; `mixed` the finest level in two precisions.
//!
//! Sums are taken in the order of ranks, so that all ranks know the same numbers and take the same decisions, whatever
//! arrives first.

mod above_lines;
mod cells;
pub mod communicator;
mod diffusion;
mod distributed;
mod galerkin;
pub mod levels;
mod mixed;
mod modes;
#[cfg(unix)]
pub mod mpi;
mod operator;
mod own;
mod patches;
mod patience;
mod points;
mod ranks;
mod slabs;
mod solvers;
mod tensor_product;
pub mod threads;
mod together;
mod vector;

pub use communicator::{Communicator, Message};
pub use distributed::{Distributed, other_number_of_parts};
pub use operator::DistributedOperator;
pub use patches::{Patches, collect_layers, gather};
pub use slabs::Slabs;
pub use together::{Kind, Tell, Told, together};
pub use vector::Vector;
