//! Grids, stencils, solvers and the reference back end of isobar: no devices.
//!
//! Start at the facade crate `isobar`; `ARCHITECTURE.md` in the repository has the picture. Modules import one way, each from the
//! previous ones:
//!
//! * [`error`], [`real`], [`simd`], [`layout`], [`array`](mod@array), [`traffic`], [`outcome`], [`forms`], [`options`]: plain data,
//! * [`policy`] the choice of method, preconditioner and precision, and their replacements,
//! * [`team`] threads, [`execute`] passes on the host, [`eigen`] small eigenproblems, [`direct`] separable matrices, [`backend`] the interface of a
//!   device,
//! * [`operator`] the operations with a matrix on a device,
//! * `algebraic` multigrid by aggregation, of sparse matrices on the host,
//! * [`grid`], [`stencil`] matrices as data, [`problem`] equations that they come from,
//! * [`precond`], [`solver`] the methods,
//! * [`build`] makes a solver from options, and judges its results,
//! * [`stepping`] the heat equation through time,
//! * [`mod@reference`] is the back end that specifies the others; [`conformance`] tests them against it; [`mod@bench`] times them,
//! * [`compile_solvers`] makes the solvers of a back end; [`prelude`] has the names that back ends use most.
//!
//! Functions that work on a device or pass messages may fail with [`Error::Device`] or [`Error::OutOfMemory`]; sections on errors list other errors.

mod algebraic;
pub mod array;
pub mod backend;

pub mod bench;
pub mod build;
pub mod conformance;

pub mod direct;

mod disjoint_sets;
pub mod eigen;
mod elimination;
pub mod error;
pub mod execute;
pub mod forms;
pub mod grid;
pub mod large_pages;
pub mod layout;
pub mod operator;
pub mod options;
pub mod outcome;
pub mod policy;
pub mod precond;
pub mod prelude;
pub mod problem;
pub mod real;
pub mod reference;
pub mod simd;
pub mod solver;
mod solvers;
pub mod stencil;
pub mod stepping;
pub mod team;
pub mod traffic;

pub use error::{Error, Result};

// The names of arrays, layouts and devices that most files of this crate use; the modules that define them do not use these.
pub(crate) use array::{ArrayView, ArrayViewMut, DeviceArray, Source, Target};
pub(crate) use backend::{AggregateMap, Backend, HostScalars, Ratio, Scalar, Sum, Sums};
pub(crate) use execute::{Execute, Host, Serial};
pub(crate) use layout::{Colour, Layout, Shape, Slab};
pub(crate) use real::{Precision, Real};
pub(crate) use team::{get_or_make, lock, read, write};
