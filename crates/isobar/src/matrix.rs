//! Matrices that a solver can be made for.

use isobar_core::bench::{Setup, Timed};
use isobar_core::build::MatrixSize;
use isobar_core::precond::OwnPreconditioner;
use isobar_core::prelude::{Choice, Diffusion, Error, Result, Shape, Solve, SolverOptions, Stencil, TensorProduct};
use isobar_core::stencil::{OwnOperator, StoredMatrix};

use crate::device::Device;
use crate::divided::one_rank_only;
use crate::on_rows::on_ranks;

/// A matrix as data: it makes a [`Solver`](crate::Solver) and changes its coefficients.
pub trait Matrix: sealed::Sealed {}

/// A solver of one kind of matrix.
pub enum Inner {
    TensorProduct(Box<dyn Solve<TensorProduct>>),
    Diffusion(Box<dyn Solve<Diffusion>>),
    Stored(Box<dyn Solve<StoredMatrix>>),
    Own(Box<dyn Solve<OwnOperator>>),
}

pub(crate) mod sealed {
    use super::*;

    /// `Sealed` makes, updates and times solvers of a matrix on a device.
    pub trait Sealed {
        /// Returns the shape of the grid.
        fn grid(&self) -> Shape;
        /// Returns the properties that determine a solver's memory, and the solver that suits the matrix if these options
        /// leave that open.
        fn size(&self, options: &SolverOptions) -> (MatrixSize, Choice);
        /// Makes a solver.
        fn make(
            &self,
            device: &Device,
            options: &SolverOptions,
            own: Option<Box<dyn OwnPreconditioner>>,
        ) -> Result<Inner>;
        /// Changes the coefficients of a solver made for a matrix of this kind.
        fn update(&self, solver: &mut Inner) -> Result<()>;
        /// Times setting up and the steps of an iteration.
        fn bench(&self, device: &Device, options: &SolverOptions) -> Result<(Setup, Vec<Timed>)>;
    }
}

macro_rules! matrices {
    ($($kind:ident: $matrix:ty, $solvers:ident;)*) => {$(
        impl Matrix for $matrix {}

        impl sealed::Sealed for $matrix {
            fn grid(&self) -> Shape {
                Stencil::shape(self)
            }

            fn size(&self, options: &SolverOptions) -> (MatrixSize, Choice) {
                (MatrixSize::from(self), self.choice(options))
            }

            fn make(
                &self,
                device: &Device,
                options: &SolverOptions,
                own: Option<Box<dyn OwnPreconditioner>>,
            ) -> Result<Inner> {
                let (ranks, has_own) = (device.ranks(), own.is_some());
                if has_own && (ranks.is_some() || matches!(device, Device::Cards(_))) {
                    return Err(one_rank_only("a preconditioner of your own"));
                }
                Ok(Inner::$kind(match device {
                    Device::Cards(cards) => cards.solver(self, |backend| {
                        isobar_cuda::solvers::$solvers::solver(backend, self, options, None)
                    })?,
                    Device::Cpu(backend) => on_ranks(ranks, self, options, || {
                        isobar_cpu::solvers::$solvers::solver(backend, self, options, own)
                    })?,
                    Device::Cuda(backend) => on_ranks(ranks, self, options, || {
                        isobar_cuda::solvers::$solvers::solver(backend, self, options, own)
                    })?,
                }))
            }

            fn update(&self, solver: &mut Inner) -> Result<()> {
                match solver {
                    Inner::$kind(solver) => solver.update(self),
                    _ => Err(Error::invalid(
                        "the new matrix",
                        "of another kind than the solver was made for; make a new solver",
                    )),
                }
            }

            fn bench(&self, device: &Device, options: &SolverOptions) -> Result<(Setup, Vec<Timed>)> {
                match device {
                    _ if device.ranks().is_some() => Err(one_rank_only("timing steps")),
                    Device::Cpu(backend) => isobar_cpu::solvers::$solvers::bench(backend, self, options),
                    Device::Cuda(backend) => isobar_cuda::solvers::$solvers::bench(backend, self, options),
                    Device::Cards(_) => Err(one_rank_only("timing steps")),
                }
            }
        }
    )*};
}
matrices! {
    TensorProduct: TensorProduct, tensor_product;
    Diffusion: Diffusion, diffusion;
    Stored: StoredMatrix, stored;
    Own: OwnOperator, own;
}

/// Calls a method of the solver of any kind.
macro_rules! each {
    ($inner:expr, $solver:ident => $call:expr) => {
        match $inner {
            Inner::TensorProduct($solver) => $call,
            Inner::Diffusion($solver) => $call,
            Inner::Stored($solver) => $call,
            Inner::Own($solver) => $call,
        }
    };
}
pub(crate) use each;
