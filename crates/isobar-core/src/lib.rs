//! Grids, stencils, solvers and the reference back end of isobar: no threads, no devices.
//!
//! Start at the facade crate `isobar`; `ARCHITECTURE.md` in the repository has the picture.
//!
//! * [`grid`], [`stencil`], [`problem`] say what is to be solved,
//! * [`operator`], [`triangular`], [`region`] are the steps; [`precond`], [`deflation`], [`solver`] make solvers of
//!   them, over any [`backend`]; [`null_space`] takes care of singular systems,
//! * [`mod@reference`] is the back end that specifies the others; [`conformance`] holds them to it,
//! * [`options`] and [`outcome`] are what a user gives and gets.

pub mod backend;
pub mod bench;

pub mod conformance;
pub mod deflation;
mod disjoint_sets;
pub mod error;
pub mod grid;
pub mod layout;
pub mod null_space;
pub mod operator;
pub mod options;
pub mod outcome;
pub mod precond;
pub mod problem;
pub mod real;
pub mod reference;
pub mod region;
pub mod simd;
pub mod solver;
pub mod stencil;
pub mod traffic;
pub mod triangular;

pub use error::{Error, Result};
