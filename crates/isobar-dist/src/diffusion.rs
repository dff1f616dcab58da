//! The diffusion operator on several ranks: conjugate gradients, with the diagonal or lines.

use std::sync::Arc;

use isobar_core::error::{Error, Result};
use isobar_core::layout::Layout;
use isobar_core::operator::Capabilities;
use isobar_core::options::{Choice, Method, Preconditioner, SolverOptions};
use isobar_core::real::Real;
use isobar_core::stencil::parts::SupportsParts;
use isobar_core::stencil::{Diffusion, Hierarchy, Lines, Stencil, Supports};

use crate::distributed::Distributed;
use crate::operator::DistributedOperator;

impl<B: SupportsParts<Diffusion>> Supports<Diffusion> for Distributed<B> {
    type Operator<T: Real> = DistributedOperator<B, B::Part<T>>;

    /// Not by multigrid, of which there is none yet.
    fn choice(&self, _: &Diffusion, _: &Arc<Self::Operator<f64>>, _: &SolverOptions) -> Result<Choice> {
        Ok(Choice::new(Method::Cg, Preconditioner::Multigrid))
    }

    fn layout(&self, stencil: &Diffusion) -> Result<Layout> {
        self.slab(stencil.shape())?.layout(stencil.shape())
    }

    fn operator<T: Real>(&self, stencil: &Diffusion) -> Result<Arc<Self::Operator<T>>> {
        if stencil.components().is_some_and(|components| components.floating().count() > 0) {
            return Err(Error::Unsupported(
                "a problem in which nothing fixes u, in all of the grid or in a part of it, on several ranks; fix it (a Dirichlet \
                 side, a well, a reaction), or run on one"
                    .into(),
            ));
        }
        self.part(stencil)
    }

    fn update<T: Real>(&self, operator: &Self::Operator<T>, stencil: &Diffusion) -> Result<()> {
        self.inner().update_part(operator.part(), stencil)
    }

    fn capabilities<T: Real>(&self, operator: &Arc<Self::Operator<T>>) -> Capabilities<Self, T> {
        operator.capabilities()
    }

    fn lines<T: Real>(
        &self,
        _: &Diffusion,
        operator: &Arc<Self::Operator<T>>,
    ) -> Result<Option<Lines<Self, Diffusion, T>>> {
        Ok(Some(Lines { solver: Arc::clone(operator) as _, update: None }))
    }

    fn hierarchy<T: Real>(
        &self,
        _: &Diffusion,
        _: &Arc<Self::Operator<T>>,
        _: Option<usize>,
    ) -> Result<Option<Hierarchy<Self, Diffusion, T>>> {
        Err(Error::Unsupported(
            "multigrid for diffusion on several ranks; use solver.method = \"cg\" with the preconditioner \"line\" or \
             \"jacobi\", or run on one"
                .into(),
        ))
    }
}
