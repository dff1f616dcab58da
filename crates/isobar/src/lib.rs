//! isobar solves the linear systems of elliptic PDEs on structured grids, matrix-free and fast.
//!
//! A solve has four parts: a problem says what to solve, options say how, a device says where, and
//! the outcome says what came of it.
//!
//! ```
//! use isobar::{ArrayView, ArrayViewMut, Device, Guess};
//! use isobar::grid::GridOptions;
//! use isobar::options::SolverOptions;
//! use isobar::problem::{Helmholtz, RhsKind, Weighting};
//!
//! # fn main() -> isobar::Result<()> {
//! // The anisotropic pressure equation on one panel of the cubed sphere.
//! let grid = GridOptions { nx: 16, ny: 16, nz: 8, ..GridOptions::default() };
//! let problem = Helmholtz { grid, ..Helmholtz::default() };
//! let stencil = problem.stencil()?;
//!
//! // Multigrid with red–black line relaxation, to a relative residual of 1e-5, on all cores.
//! let mut solver = isobar::solver(&Device::cpu()?, &stencil, &SolverOptions::default())?;
//!
//! let rhs = problem.rhs(RhsKind::Random, 0, Weighting::None)?;
//! let mut u = vec![0.0; rhs.len()];
//! let outcome = solver.solve(
//!     ArrayView::c_order(&rhs, stencil.shape())?,
//!     &mut ArrayViewMut::c_order(&mut u, stencil.shape())?,
//!     Guess::Zero,
//!     &mut |progress| println!("{:3} {:.1e}", progress.iteration, progress.relative_residual),
//! )?;
//! assert!(outcome.converged());
//! assert!(outcome.relative_residual <= 1e-5); // the true residual, always
//! # Ok(())
//! # }
//! ```
//!
//! Diffusion with a coefficient in every cell is a [`problem::DiffusionProblem`], with boundary values, sources,
//! wells and inactive cells; it is solved in the same way.
//!
//! Your own operator, as long as its coefficients factorise into vertical vectors and horizontal
//! fields, is a [`stencil::TensorProduct::new`]; your own arrays, in whatever order, are an
//! [`ArrayView::new`] with strides.
//!
//! # Where things are
//! * [`grid`], [`problem`], [`stencil`]: what is solved,
//! * [`options`], [`outcome`]: what goes into a solve and what comes out,
//! * [`solver`](mod@solver), [`precond`], [`deflation`], [`null_space`], [`operator`], [`backend`]: how it is done,
//!   should you want to build solvers yourself,
//! * [`cpu`]: the multi-threaded back end; [`cuda`]: NVIDIA GPUs, needing nothing of CUDA until one is opened;
//!   [`reference`](mod@reference): the plain one that specifies both.

mod device;

pub use isobar_core::{backend, conformance, grid, operator, options, outcome, precond, problem, real, reference};
pub use isobar_core::{
    bench, deflation, error, layout, null_space, region, simd, solver, stencil, traffic, triangular,
};
pub use isobar_cpu as cpu;
pub use isobar_cuda as cuda;

pub use device::{Device, bench, solver};
pub use error::{Error, Result};
pub use layout::{ArrayView, ArrayViewMut, Shape};
pub use operator::Guess;
pub use outcome::{Outcome, Stop};
pub use solver::{Progress, Solve};
