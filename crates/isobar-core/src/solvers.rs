//! Solvers that are compiled once, in the crate of their back end.

/// Makes the contents of a back end's module `solvers`: functions that return its solvers as objects, on one device or on one of several ranks. None of them is generic, so nothing of a solver is compiled again where they are called.
#[macro_export]
macro_rules! compile_solvers {
    ($backend:ty) => {
        use $crate::bench::{Setup, Timed, time_iteration, time_setup};
        use $crate::build::{Solve, System};
        use $crate::error::Result;
        use $crate::options::SolverOptions;
        use $crate::precond::OwnPreconditioner;
        use $crate::problem::Heat;
        use $crate::stepping::{Evolve, HeatOptions, HeatStepper};

        $crate::compile_solvers!(@solvers $backend, tensor_product, TensorProduct);
        $crate::compile_solvers!(@solvers $backend, diffusion, Diffusion);
        $crate::compile_solvers!(@solvers $backend, stored, StoredMatrix);
        $crate::compile_solvers!(@solvers $backend, own, OwnOperator);

        $crate::compile_solvers!(@heat $backend);
    };
    (@solvers $backend:ty, $name:ident, $stencil:ident) => {
        pub mod $name {
            #![doc = concat!("Solvers of a [`", stringify!($stencil), "`].")]

            use $crate::stencil::$stencil;

            use super::*;

            /// Makes a solver, perhaps with a preconditioner of the caller's own.
            pub fn solver(
                backend: &$backend,
                stencil: &$stencil,
                options: &SolverOptions,
                own: Option<Box<dyn OwnPreconditioner>>,
            ) -> Result<Box<dyn Solve<$stencil>>> {
                Ok(match own {
                    None => Box::new(System::new(backend, stencil, options)?),
                    Some(own) => Box::new(System::with_preconditioner(backend, stencil, options, own)?),
                })
            }

            /// Times setting up, and every step of an iteration.
            pub fn bench(
                backend: &$backend,
                stencil: &$stencil,
                options: &SolverOptions,
            ) -> Result<(Setup, Vec<Timed>)> {
                let setup = time_setup(backend, stencil, options)?;
                let steps = System::new(backend, stencil, options)?.description().traffic.clone();
                Ok((setup, time_iteration(backend, stencil, options, &steps)?))
            }
        }
    };
    (@heat $backend:ty) => {
        /// Makes a stepper of the heat equation.
        pub fn heat(
            backend: &$backend,
            heat: Heat,
            options: HeatOptions,
            solver: &SolverOptions,
        ) -> Result<Box<dyn Evolve>> {
            Ok(Box::new(HeatStepper::new(backend, heat, options, solver)?))
        }
    };
}
