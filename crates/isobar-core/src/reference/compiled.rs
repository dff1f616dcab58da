//! Solvers on the reference back end, for development builds: test programs link them and need not compile them for themselves.

use super::Reference;
use crate::build::{Solve, System};
use crate::error::Result;
use crate::options::SolverOptions;
use crate::precond::OwnPreconditioner;
use crate::problem::Heat;
use crate::stencil::{Diffusion, OwnOperator, Stencil, StoredMatrix, Supports, TensorProduct};
use crate::stepping::{Evolve, HeatOptions, HeatStepper};

fn solver<S: Stencil + 'static>(
    stencil: &S,
    options: &SolverOptions,
    own: Option<Box<dyn OwnPreconditioner>>,
) -> Result<Box<dyn Solve<S>>>
where
    Reference: Supports<S>,
{
    Ok(match own {
        None => Box::new(System::new(&Reference, stencil, options)?),
        Some(own) => Box::new(System::with_preconditioner(&Reference, stencil, options, own)?),
    })
}

macro_rules! solvers {
    ($($name:ident: $stencil:ty),*) => {$(
        /// Makes a solver, perhaps with a preconditioner of the caller's own.
        pub fn $name(
            stencil: &$stencil,
            options: &SolverOptions,
            own: Option<Box<dyn OwnPreconditioner>>,
        ) -> Result<Box<dyn Solve<$stencil>>> {
            solver(stencil, options, own)
        }
    )*};
}
solvers!(tensor_product: TensorProduct, diffusion: Diffusion, stored_matrix: StoredMatrix, own_operator: OwnOperator);

/// Makes a stepper of the heat equation.
pub fn heat(heat: Heat, options: HeatOptions, solver: &SolverOptions) -> Result<Box<dyn Evolve>> {
    Ok(Box::new(HeatStepper::new(&Reference, heat, options, solver)?))
}
