//! The names that back ends and tests of solvers use most. Files of this crate name the modules that
//! they import from, so that their order shows, but for names of arrays, layouts and devices.

pub use crate::array::{ArrayView, ArrayViewMut, DeviceArray, Source, Target};
pub use crate::backend::{AggregateMap, Backend, HostScalars, Meanwhile, Ratio, Scalar, SharedDirect, Shares, Sum};
pub use crate::build::{Solve, System};
pub use crate::direct::{Basis, Separable};
pub use crate::error::{Error, Result};
pub use crate::execute::{Execute, Host, Serial};
pub use crate::grid::{Geometry, GridOptions, VerticalProfile};
pub use crate::layout::{Colour, Layout, Shape, Slab};
pub use crate::operator::{
    AggregateOperator, Capabilities, Diagonal, Expansion, Guess, LineSmoother, LineSolver, MixedSmoother,
    ModalTransfer, Operator, PointSmoother, Relaxation, ResidualUpdate, Sweep, Transfer, Triangular,
};
pub use crate::options::{
    CoarseSolve, Compatibility, Count, CyclePrecision, Deflation, JacobiOptions, Method, ModesOptions,
    MultigridOptions, Norm, PointCycle, Preconditioner, Scheme, Smoother, SolverOptions, Start, StepGuess, Steps,
    Stripes,
};
pub use crate::outcome::{Outcome, Stop};
pub use crate::policy::Choice;
pub use crate::problem::materials::Bubbles;
pub use crate::problem::{
    Boundary, Coefficient, DiffusionProblem, Heat, Helmholtz, RhsKind, Spacing, Weighting, random,
};
pub use crate::real::{Precision, Real};
pub use crate::reference::Reference;
pub use crate::simd::Pack;
pub use crate::solver::{Observer, ignore};
pub use crate::stencil::{
    Axis, Coefficients, Diffusion, Hierarchy, Side, Stencil, Supports, TensorProduct, VerticalModes,
};
pub use crate::stepping::{Evolve, HeatOptions, HeatStepper};
pub use crate::team::{get_or_make, lock, read, write};
