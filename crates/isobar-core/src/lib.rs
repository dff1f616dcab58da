//! Grids, stencils, solvers and the reference back end of isobar: no threads, no devices.
//!
//! Start at the facade crate `isobar`; `ARCHITECTURE.md` in the repository has the picture.
//!
//! * [`grid`], [`stencil`], [`problem`] say what is to be solved,
//! * [`operator`], [`precond`], [`solver`] solve it, over any [`backend`],
//! * [`mod@reference`] is the back end that specifies the others; [`conformance`] holds them to it,
//! * [`options`] and [`outcome`] are what a user gives and gets.

pub mod backend;
pub mod bench;

pub mod conformance;
pub mod error;
pub mod grid;
pub mod layout;
pub mod operator;
pub mod options;
pub mod outcome;
pub mod precond;
pub mod problem;
pub mod real;
pub mod reference;
pub mod simd;
pub mod solver;
pub mod stencil;
pub mod traffic;

pub use error::{Error, Result};
