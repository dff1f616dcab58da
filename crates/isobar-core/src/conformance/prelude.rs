//! The names that tests of solvers use most.

pub use crate::array::{ArrayView, ArrayViewMut, DeviceArray};
pub use crate::backend::{Backend, Scalar};
pub use crate::build::{Solve, System};
pub use crate::error::{Error, Result};
pub use crate::grid::{Geometry, GridOptions, VerticalProfile};
pub use crate::layout::{Layout, Shape};
pub use crate::operator::{Guess, LineSolver, Operator};
pub use crate::options::{
    CoarseSolve, Compatibility, Count, CyclePrecision, Deflation, Form, JacobiOptions, Method, ModesOptions,
    MultigridOptions, Norm, Preconditioner, Scheme, Smoother, SolverOptions, Start, StepGuess, Steps, Stripes,
};
pub use crate::outcome::{Outcome, Stop};
pub use crate::problem::materials::Bubbles;
pub use crate::problem::{
    Boundary, Coefficient, DiffusionProblem, Heat, Helmholtz, RhsKind, Spacing, Weighting, random,
};
pub use crate::real::Precision;
pub use crate::reference::Reference;
pub use crate::solver::ignore;
pub use crate::stencil::{Axis, Coefficients, Diffusion, Side, Stencil, Supports, TensorProduct};
pub use crate::stepping::{Evolve, HeatOptions, HeatStepper};
