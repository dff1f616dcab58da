//! isobar solves the linear systems of elliptic PDEs on structured grids, matrix-free and fast.
//!
//! A solve has four parts: a problem, a [`Solver`] with its method, a [`Device`], and an [`Outcome`].
//!
//! ```
//! use isobar::Solver;
//! use isobar::grid::GridOptions;
//! use isobar::problem::{Helmholtz, RhsKind, Weighting};
//!
//! # fn main() -> isobar::Result<()> {
//! // The anisotropic pressure equation on one panel of the cubed sphere.
//! let grid = GridOptions { nx: 16, ny: 16, nz: 8, ..GridOptions::default() };
//! let problem = Helmholtz { grid, ..Helmholtz::default() };
//! let rhs = problem.rhs(RhsKind::Random, 0, Weighting::None)?;
//! let mut u = vec![0.0; rhs.len()];
//!
//! // Multigrid with red–black line relaxation, to a relative residual of 1e-5, on the first GPU or on all cores.
//! let mut solver = Solver::new(&problem.stencil()?)?;
//! let outcome = solver.solve(&rhs, &mut u)?;
//! assert!(outcome.converged());
//! assert!(outcome.relative_residual <= 1e-5); // the true residual, always
//! # Ok(())
//! # }
//! ```
//!
//! Diffusion with a coefficient in every cell is a [`problem::DiffusionProblem`], with boundary values, sources, wells
//! and inactive cells. Coefficients that change from one time step to the next are changed in place:
//!
//! ```
//! use isobar::problem::{Boundary, Coefficient, DiffusionProblem};
//! use isobar::{Device, Shape, Solver};
//!
//! # fn main() -> isobar::Result<()> {
//! let shape = Shape::new(20, 12, 6);
//! let mut problem = DiffusionProblem::new(shape, Coefficient::Isotropic(vec![1.0; shape.cells()]));
//! problem.boundary[0] = [Boundary::Dirichlet(1.0), Boundary::Dirichlet(0.0)];
//! let mut solver = Solver::builder(&problem.stencil()?).tolerance(1e-8).device(&Device::cpu()?).build()?;
//!
//! let mut u = vec![0.0; shape.cells()];
//! for step in 0..3 {
//!     let kappa = (0..shape.cells()).map(|n| 1.0 + (n % 7) as f64 * f64::from(step)).collect();
//!     problem.coefficient = Coefficient::Isotropic(kappa);
//!     solver.update(&problem.stencil()?)?;
//!     let rhs = problem.rhs(None, 0, Default::default())?;
//!     assert!(solver.solve_from(&rhs, &mut u)?.converged());
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Through time, the heat equation is a [`TimeStepper`]:
//!
//! ```
//! use isobar::options::{Scheme, SolverOptions, StepGuess, Steps};
//! use isobar::problem::Heat;
//! use isobar::{Device, HeatOptions, Shape, TimeStepper};
//!
//! # fn main() -> isobar::Result<()> {
//! let heat = Heat::unit_box(Shape::new(10, 8, 6))?; // points inside the unit box, u = 0 on its sides
//! let mut u = heat.sine([1.0; 3]);
//! let steps = Steps::new(1e-3, 0.02)?;
//! let options = HeatOptions { steps, error: None, scheme: Scheme::CrankNicolson, guess: StepGuess::Previous };
//! let mut stepper = TimeStepper::new(&Device::cpu()?, heat, options, &SolverOptions::default())?;
//! stepper.set(&u)?;
//! for _ in 0..steps.count() {
//!     assert!(stepper.step()?.is_taken);
//! }
//! stepper.state(&mut u)?;
//! # Ok(())
//! # }
//! ```
//!
//! * Results of a solution: [`problem::Flow`] has the fluxes through faces and sides, a [`Sample`] its effective conductivity.
//! * Your own coefficients, as long as they factorise into vertical vectors and horizontal fields, are a
//!   [`stencil::TensorProduct::new`]; any matrix is a [`stencil::StoredMatrix`], and a function that applies one a
//!   [`stencil::OwnOperator`].
//! * Your own arrays, in any order, are an [`ArrayView::new`] with strides; those in the memory of a GPU a
//!   [`DeviceArray`], coefficients among them ([`Device::diffusion`]); those of another language a [`RawArray`].
//! * Your own preconditioner enters by [`SolverBuilder::own_preconditioner`].
//!
//! The parts of solvers, to build your own, are in [`internals`].

mod arrays;
mod bench;
mod cards;
mod device;
mod divided;
mod effective;
mod heat;
mod matrix;
mod memory;
mod on_rows;
mod process;
mod ranks;
mod raw;
mod solver;

pub use isobar_core::{error, grid, options, outcome, problem, stencil};

pub use isobar_core::array::{ArrayView, ArrayViewMut, DeviceArray};
pub use isobar_core::build::Description;
pub use isobar_core::large_pages::LargePages;
pub use isobar_core::layout::Shape;
pub use isobar_core::operator::Guess;
pub use isobar_core::precond::OwnPreconditioner;
pub use isobar_core::real::Precision;
pub use isobar_core::solver::{Observer, Progress};
pub use isobar_core::stepping::{HeatOptions, Moment, Step};
pub use isobar_cuda::problem::{Derivatives, DeviceFaces, DeviceProblem};

pub use arrays::{Input, Output};
pub use bench::{Setup, Timed, bench};
pub use cards::Cards;
pub use device::Device;
pub use effective::{Effective, Sample};
pub use error::{Error, Result};
pub use heat::TimeStepper;
pub use matrix::Matrix;
pub use memory::{Memory, predict_memory};
pub use outcome::{Outcome, Stop};
pub use ranks::Ranks;
pub use raw::{RawArray, RawMemory};
pub use solver::{Solver, SolverBuilder};

/// The parts of solvers: iterations over fused steps, and the back ends that implement them. Its contents change more often
/// than the rest.
///
/// * [`backend`](internals::backend), [`operator`](internals::operator): the operations of a device, and a matrix there,
/// * [`OfProcess`](internals::OfProcess): a value that a forked process must not use,
/// * [`precond`](internals::precond), [`solver`](internals::solver), [`build`](internals::build): the methods, and their
///   assembly,
/// * [`cpu`](internals::cpu): the multi-threaded back end; [`cuda`](internals::cuda): NVIDIA GPUs; [`dist`](internals::dist):
///   grids divided among ranks; [`reference`](mod@internals::reference): the plain back end that specifies the others, against
///   which [`conformance`](internals::conformance) tests them.
pub mod internals {
    pub use crate::device::DeviceName;
    pub use crate::process::OfProcess;
    pub use isobar_core::{
        array, backend, bench, build, conformance, execute, forms, layout, operator, policy, precond, real, reference,
        simd, solver, stepping, team, traffic,
    };
    pub use isobar_cpu as cpu;
    pub use isobar_cuda as cuda;
    pub use isobar_dist as dist;
}
