//! The solvers that the back end offers for the stencil.

use std::sync::Arc;

use isobar_core::operator::MixedTop;
use isobar_core::prelude::{
    Backend, Capabilities, Hierarchy, Layout, Real, Relaxation, Result, Smoother, SolverOptions, Stencil, Supports,
};
use isobar_core::stencil::tensor_levels::{by_coarsening, by_modes};
use isobar_core::stencil::{self, Lines, Modes, StoredFaces, by_stored_faces};
use isobar_dist::PartBackend;

use super::TensorProduct;
use super::mixed::StreamedSteps;
use crate::cuda::Cuda;
use crate::seven_point::{Kernels, SevenPoint, Steps};

impl Supports<stencil::TensorProduct> for Cuda {
    type Operator<T: Real> = SevenPoint<TensorProduct<T>>;

    fn layout(&self, stencil: &stencil::TensorProduct) -> Result<Layout> {
        let shape = Stencil::shape(stencil);
        self.own_rows(shape)?.layout(shape, false)
    }

    fn operator<T: Real>(&self, stencil: &stencil::TensorProduct) -> Result<Arc<Self::Operator<T>>> {
        let Some(ranks) = self.ranks() else { return SevenPoint::new(self, stencil) };
        let shape = Stencil::shape(stencil);
        let slab = ranks.slabs(shape)?.of(ranks.rank());
        SevenPoint::made_of(TensorProduct::with_room_for(self, stencil, slab)?, stencil)
    }

    fn update<T: Real>(&self, operator: &Self::Operator<T>, stencil: &stencil::TensorProduct) -> Result<bool> {
        operator.update(stencil)
    }

    fn capabilities<T: Real>(&self, operator: &Arc<Self::Operator<T>>) -> Capabilities<Self, T> {
        Capabilities::of_columns(operator)
    }

    fn lines<T: Real>(
        &self,
        _: &stencil::TensorProduct,
        operator: &Arc<Self::Operator<T>>,
    ) -> Result<Option<Lines<Self, stencil::TensorProduct, T>>> {
        operator.kernels().prepare(Steps::Lines)?;
        Ok(Some(Lines { solver: Arc::clone(operator) as _, update: None }))
    }

    fn stored_faces<T: Real>(
        &self,
        stencil: &stencil::TensorProduct,
    ) -> Result<Option<StoredFaces<Self, stencil::TensorProduct, T>>> {
        // Subdomains of stored faces are not supported.
        if self.ranks().is_some() { Ok(None) } else { by_stored_faces(self, stencil) }
    }

    fn hierarchy<T: Real>(
        &self,
        stencil: &stencil::TensorProduct,
        finest: &Arc<Self::Operator<T>>,
        smoother: Smoother,
        wanted: Option<usize>,
    ) -> Result<Option<Hierarchy<Self, stencil::TensorProduct, T>>> {
        if smoother.begins_with_points() {
            return Ok(None);
        }
        finest.kernels().prepare(Steps::Sweeps)?;
        Ok(Some(by_coarsening(self, stencil, finest, wanted)?.0))
    }

    fn modes<T: Real, C: Real>(
        &self,
        stencil: &stencil::TensorProduct,
        operator: &Arc<Self::Operator<T>>,
        options: &SolverOptions,
        tolerance: f64,
    ) -> Result<Option<Modes<Self, stencil::TensorProduct, T, C>>> {
        by_modes(self, stencil, operator, options, tolerance).map(Some)
    }

    fn mixed_top(
        &self,
        double: &Arc<Self::Operator<f64>>,
        single: &Arc<Self::Operator<f32>>,
        hierarchy: &Hierarchy<Self, stencil::TensorProduct, f32>,
        relaxation: Relaxation,
    ) -> Result<Option<MixedTop<Self>>> {
        let transfer = hierarchy.transfers.first().cloned();
        // Coarse levels that every rank holds completely are too small for this to matter.
        let is_gathered =
            double.layout_of().is_part() && hierarchy.levels.get(1).is_none_or(|level| !level.layout().is_part());
        let steps = match transfer {
            Some(_) if !is_gathered => StreamedSteps::new(double, single, relaxation)?,
            _ => None,
        };
        if steps.is_none() {
            double.kernels().prepare(Steps::Sweeps)?;
        }
        let top = MixedTop::new(Arc::clone(double) as _, Arc::clone(single) as _, transfer, relaxation)?;
        Ok(Some(top.with_changes(steps.map(|steps| Box::new(steps) as _))))
    }
}
