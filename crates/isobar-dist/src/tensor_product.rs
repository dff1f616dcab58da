//! The tensor-product operator on several ranks.

use std::sync::Arc;

use isobar_core::error::{Error, Result};
use isobar_core::layout::Layout;
use isobar_core::operator::mixed::UnfusedTop;
use isobar_core::operator::{Capabilities, MixedTop, Relaxation};
use isobar_core::options::{Choice, Method, Preconditioner, SolverOptions};
use isobar_core::real::Real;
use isobar_core::stencil::parts::{SupportsPartLevels, SupportsParts};
use isobar_core::stencil::{Hierarchy, Lines, Modes, Stencil, Supports, TensorProduct};

use crate::distributed::Distributed;
use crate::levels::by_coarsening;
use crate::operator::DistributedOperator;

type Part<B, T> = <B as SupportsParts<TensorProduct>>::Part<T>;

impl<B: SupportsPartLevels<TensorProduct>> Supports<TensorProduct> for Distributed<B> {
    type Operator<T: Real> = DistributedOperator<B, Part<B, T>>;

    /// Multigrid: vertical modes are not for several ranks yet.
    fn choice(&self, _: &TensorProduct, _: &Arc<Self::Operator<f64>>, _: &SolverOptions) -> Result<Choice> {
        Ok(Choice::new(Method::Multigrid, Preconditioner::Line))
    }

    fn layout(&self, stencil: &TensorProduct) -> Result<Layout> {
        self.slab(stencil.shape())?.layout(stencil.shape())
    }

    fn operator<T: Real>(&self, stencil: &TensorProduct) -> Result<Arc<Self::Operator<T>>> {
        self.part(stencil)
    }

    fn update<T: Real>(&self, operator: &Self::Operator<T>, stencil: &TensorProduct) -> Result<()> {
        self.inner().update_part(operator.part(), stencil)
    }

    fn capabilities<T: Real>(&self, operator: &Arc<Self::Operator<T>>) -> Capabilities<Self, T> {
        operator.capabilities()
    }

    fn lines<T: Real>(
        &self,
        _: &TensorProduct,
        operator: &Arc<Self::Operator<T>>,
    ) -> Result<Option<Lines<Self, TensorProduct, T>>> {
        Ok(Some(Lines { solver: Arc::clone(operator) as _, update: None }))
    }

    fn hierarchy<T: Real>(
        &self,
        stencil: &TensorProduct,
        finest: &Arc<Self::Operator<T>>,
        wanted: Option<usize>,
    ) -> Result<Option<Hierarchy<Self, TensorProduct, T>>> {
        by_coarsening(self, stencil, finest, wanted).map(Some)
    }

    fn modes<T: Real, C: Real>(
        &self,
        _: &TensorProduct,
        _: &Arc<Self::Operator<T>>,
        _: &SolverOptions,
        _: f64,
    ) -> Result<Option<Modes<Self, TensorProduct, T, C>>> {
        Err(Error::Unsupported(
            "vertical modes on several ranks; use solver.method = \"multigrid\", or the preconditioner \"line\"".into(),
        ))
    }

    fn mixed_top(
        &self,
        double: &Arc<Self::Operator<f64>>,
        single: &Arc<Self::Operator<f32>>,
        hierarchy: &Hierarchy<Self, TensorProduct, f32>,
        relaxation: Relaxation,
    ) -> Result<Option<Box<dyn MixedTop<Self>>>> {
        let transfer = hierarchy.transfers.first().cloned();
        let top = UnfusedTop::new(Arc::clone(double) as _, Arc::clone(single) as _, transfer, relaxation)?;
        Ok(Some(Box::new(top)))
    }
}
