//! Stencils are data: what a back end needs to compute rows of the matrix.
//!
//! * [`TensorProduct`] vertical vectors times horizontal fields (papers A and B),
//! * [`Diffusion`] one coefficient a cell, faces by harmonic means (papers C, D and E, reservoirs),
//! * [`Csr`] any matrix, for comparison and exchange,
//! * [`matrix_market`] matrices as files.

mod coarsen;
mod csr;
mod diffusion;
mod faces;
pub mod matrix_market;
mod tensor_product;

use std::sync::Arc;

use crate::backend::{Backend, DiffusionBackend, TensorProductBackend};
use crate::deflation::{Deflation, Projection};
use crate::error::{Error, Result};
use crate::layout::Shape;
use crate::null_space::{FloatingParts, NullSpace};
use crate::operator::{MultigridOperator, OnBackend};
use crate::options::{PreconditionerKind, SolverOptions};
use crate::precond::{BlockIc, IncompletePoisson, Neumann, Preconditioner};
use crate::real::Real;

pub use csr::Csr;
pub use diffusion::{Axis, Coefficients, Diffusion, Side};
pub use tensor_product::{Coupling, TensorProduct};

/// A stencil that a back end can put on its device and solvers can be built for.
pub trait Stencil<B: Backend>: Clone + Send + Sync + 'static {
    /// The operator with its coefficients on the device.
    type Operator<T: Real>: MultigridOperator<B, T> + 'static;

    /// The grid.
    fn shape(&self) -> Shape;

    /// Whether A = Aᵀ.
    fn is_symmetric(&self) -> bool;

    /// The same equation with half as many cells in x and y; `None` where no coarser grid helps.
    fn coarsened(&self) -> Option<Self>;

    /// How many multigrid levels are best where nobody says; `None` for as many as there can be.
    fn default_levels(&self) -> Option<usize>;

    /// Puts the stencil on a device.
    ///
    /// # Errors
    /// As [`Backend::zeros`].
    fn operator<T: Real>(&self, backend: &B) -> Result<Self::Operator<T>>;

    /// Puts the stencil on a device as a level of a multigrid hierarchy.
    ///
    /// # Errors
    /// As [`Backend::zeros`].
    fn level<T: Real>(&self, backend: &B) -> Result<Self::Operator<T>> {
        self.operator(backend)
    }

    /// The same where there is the operator already: that one, unless a level is something else.
    ///
    /// # Errors
    /// As [`Backend::zeros`].
    fn level_from<T: Real>(&self, _backend: &B, operator: &Arc<Self::Operator<T>>) -> Result<Arc<Self::Operator<T>>> {
        Ok(Arc::clone(operator))
    }

    /// Preconditioners beyond those that every operator has.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where this stencil has no such preconditioner; what the device reports.
    fn preconditioner<T: Real>(
        &self,
        _operator: &Arc<Self::Operator<T>>,
        options: &SolverOptions,
    ) -> Result<Box<dyn Preconditioner<B, T>>> {
        Err(no_such_preconditioner(options.preconditioner.kind))
    }

    /// The deflation that the options ask for.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where this stencil has none; what the device reports.
    fn projection<T: Real>(
        &self,
        _operator: &Arc<Self::Operator<T>>,
        _options: &SolverOptions,
    ) -> Result<Box<dyn Projection<B, T>>> {
        Err(Error::Unsupported(
            "solver.method: \"deflated-cg\" is for problems of kind \"diffusion\" or \"poisson\"; use \"cg\" or \
             \"multigrid\""
                .into(),
        ))
    }

    /// The vectors that A maps to zero, where there are any.
    ///
    /// # Errors
    /// As [`Backend::zeros`].
    fn null_space(&self, _backend: &B, _options: &SolverOptions) -> Result<Option<Box<dyn NullSpace<B>>>> {
        Ok(None)
    }
}

fn no_such_preconditioner(kind: PreconditionerKind) -> Error {
    Error::Unsupported(format!(
        "solver.preconditioner.kind: {:?} is for problems of kind \"diffusion\" or \"poisson\"; use \"none\", \"jacobi\", \
         \"line\" or \"multigrid\"",
        kind.name()
    ))
}

impl<B: TensorProductBackend> Stencil<B> for TensorProduct {
    type Operator<T: Real> = B::TensorProduct<T>;

    fn shape(&self) -> Shape {
        TensorProduct::shape(self)
    }

    fn is_symmetric(&self) -> bool {
        TensorProduct::is_symmetric(self)
    }

    fn coarsened(&self) -> Option<Self> {
        TensorProduct::coarsened(self)
    }

    /// Beyond that, the vertical couplings leave nothing to do (paper B, section 5.2).
    fn default_levels(&self) -> Option<usize> {
        Some(5)
    }

    fn operator<T: Real>(&self, backend: &B) -> Result<B::TensorProduct<T>> {
        backend.tensor_product(self)
    }
}

impl<B: DiffusionBackend + Clone> Stencil<B> for Diffusion {
    type Operator<T: Real> = B::Diffusion<T>;

    fn shape(&self) -> Shape {
        Diffusion::shape(self)
    }

    fn is_symmetric(&self) -> bool {
        true
    }

    fn coarsened(&self) -> Option<Self> {
        Diffusion::coarsened(self)
    }

    fn default_levels(&self) -> Option<usize> {
        None
    }

    fn operator<T: Real>(&self, backend: &B) -> Result<B::Diffusion<T>> {
        backend.diffusion(self, false)
    }

    fn level<T: Real>(&self, backend: &B) -> Result<B::Diffusion<T>> {
        backend.diffusion(self, true)
    }

    fn level_from<T: Real>(&self, backend: &B, _operator: &Arc<B::Diffusion<T>>) -> Result<Arc<B::Diffusion<T>>> {
        self.level(backend).map(Arc::new)
    }

    fn preconditioner<T: Real>(
        &self,
        operator: &Arc<B::Diffusion<T>>,
        options: &SolverOptions,
    ) -> Result<Box<dyn Preconditioner<B, T>>> {
        let operator = Arc::clone(operator);
        let options = &options.preconditioner;
        Ok(match options.kind {
            PreconditionerKind::Neumann => Box::new(Neumann::new(operator, options.order)?),
            PreconditionerKind::IncompletePoisson => Box::new(IncompletePoisson::new(operator, options.scaling)?),
            PreconditionerKind::BlockIc => {
                let rows = 8 * Diffusion::shape(self).nx;
                Box::new(BlockIc::new(self, operator, options.block.unwrap_or(rows))?)
            }
            kind => return Err(no_such_preconditioner(kind)),
        })
    }

    fn projection<T: Real>(
        &self,
        operator: &Arc<B::Diffusion<T>>,
        options: &SolverOptions,
    ) -> Result<Box<dyn Projection<B, T>>> {
        let backend = operator.backend().clone();
        Ok(Box::new(Deflation::new(&backend, self, Arc::clone(operator), &options.deflation)?))
    }

    fn null_space(&self, backend: &B, options: &SolverOptions) -> Result<Option<Box<dyn NullSpace<B>>>> {
        let space = FloatingParts::new(backend, self, options.compatibility)?;
        Ok(space.map(|space| Box::new(space) as Box<dyn NullSpace<B>>))
    }
}
