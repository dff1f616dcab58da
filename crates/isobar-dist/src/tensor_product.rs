//! The tensor-product operator on several ranks.

use std::sync::Arc;

use isobar_core::error::Result;
use isobar_core::layout::Layout;
use isobar_core::operator::mixed::{ChangeTop, UnfusedTop};
use isobar_core::operator::{Capabilities, MixedSmoother, MixedTop, Relaxation};
use isobar_core::options::{Choice, Method, Preconditioner, SolverOptions};
use isobar_core::real::Real;
use isobar_core::stencil::parts::{SupportsPartModes, SupportsParts};
use isobar_core::stencil::{Hierarchy, Lines, Modes, Stencil, Supports, TensorProduct};

use crate::distributed::Distributed;
use crate::levels::by_coarsening;
use crate::mixed::DistributedSteps;
use crate::modes::by_modes;
use crate::operator::DistributedOperator;

type Part<B, T> = <B as SupportsParts<TensorProduct>>::Part<T>;

impl<B: SupportsPartModes> Supports<TensorProduct> for Distributed<B>
where
    Part<B, f64>: MixedSmoother<B>,
{
    type Operator<T: Real> = DistributedOperator<B, Part<B, T>>;

    /// What one rank takes; where x is divided, multigrid for vertical modes.
    fn choice(&self, stencil: &TensorProduct, _: &Arc<Self::Operator<f64>>, options: &SolverOptions) -> Result<Choice> {
        let alone = stencil.choice(options);
        if self.has_whole_rows() || alone.method != Method::Modes {
            return Ok(alone);
        }
        let why = "multigrid: ranks that divide x share no vertical modes".to_owned();
        Ok(Choice { why: Some(why), ..Choice::new(Method::Multigrid, Preconditioner::Line) })
    }

    fn layout(&self, stencil: &TensorProduct) -> Result<Layout> {
        self.patch(stencil.shape())?.layout(stencil.shape(), [false; 2])
    }

    fn operator<T: Real>(&self, stencil: &TensorProduct) -> Result<Arc<Self::Operator<T>>> {
        self.part(stencil)
    }

    fn update<T: Real>(&self, operator: &Self::Operator<T>, stencil: &TensorProduct) -> Result<()> {
        self.inner().update_part(operator.part(), stencil)
    }

    fn capabilities<T: Real>(&self, operator: &Arc<Self::Operator<T>>) -> Capabilities<Self, T> {
        Capabilities { points: self.points::<TensorProduct, T>(operator), ..operator.capabilities() }
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
        stencil: &TensorProduct,
        operator: &Arc<Self::Operator<T>>,
        options: &SolverOptions,
        tolerance: f64,
    ) -> Result<Option<Modes<Self, TensorProduct, T, C>>> {
        by_modes(self, stencil, operator, options, tolerance).map(Some)
    }

    fn mixed_top(
        &self,
        double: &Arc<Self::Operator<f64>>,
        single: &Arc<Self::Operator<f32>>,
        hierarchy: &Hierarchy<Self, TensorProduct, f32>,
        relaxation: Relaxation,
    ) -> Result<Option<Box<dyn MixedTop<Self>>>> {
        let transfer = hierarchy.transfers.first().cloned();
        // Coarse levels that every rank has whole are too small for it to matter.
        let is_whole = hierarchy.levels.get(1).is_none_or(|level| level.layout().halo() == [0; 2]);
        let is_fused = !is_whole || !self.has_others();
        let steps = match transfer {
            Some(_) if is_fused && self.has_whole_rows() => {
                self.inner().change_steps(double.part(), single.part(), relaxation)?
            }
            _ => None,
        };
        let top = UnfusedTop::new(Arc::clone(double) as _, Arc::clone(single) as _, transfer, relaxation)?;
        Ok(Some(match steps {
            Some(steps) => Box::new(ChangeTop::new(top, Box::new(DistributedSteps::new(double, steps)))),
            None => Box::new(top),
        }))
    }
}
