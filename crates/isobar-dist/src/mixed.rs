//! The finest level of a mixed-precision cycle on several ranks.

use std::sync::Arc;

use isobar_core::backend::Scalar;
use isobar_core::backend::part::{PartBackend, nothing};
use isobar_core::error::Result;
use isobar_core::layout::Colour;
use isobar_core::operator::mixed::ChangeSteps;

use crate::distributed::Distributed;
use crate::operator::DistributedOperator;
use crate::vector::Vector;

/// The fused steps of a rank's part, whose coarser level is divided too. Each fills the halo rows that its part's step reads, five
/// halves of a row a cycle beside those of the coarse correction. Rows begin with an even one, so that colours are those of the
/// whole grid.
pub(crate) struct DistributedSteps<B: PartBackend, O> {
    operator: Arc<DistributedOperator<B, O>>,
    part: Box<dyn ChangeSteps<B>>,
}

impl<B: PartBackend, O> DistributedSteps<B, O> {
    pub(crate) fn new(operator: &Arc<DistributedOperator<B, O>>, part: Box<dyn ChangeSteps<B>>) -> Self {
        Self { operator: Arc::clone(operator), part }
    }
}

impl<B: PartBackend, O: Send + Sync> ChangeSteps<Distributed<B>> for DistributedSteps<B, O> {
    /// The halo rows of e are those that it was restricted with.
    fn correct_red(
        &self,
        f: &Vector<B::Vector<f64>>,
        e: &Vector<B::Vector<f32>>,
        coarse_u: &Vector<B::Vector<f32>>,
        u: &mut Vector<B::Vector<f64>>,
        w: &mut Vector<B::Vector<f32>>,
    ) -> Result<()> {
        self.operator.ranks().inner().fill(u.part_mut(), &[Colour::Black], &mut nothing)?;
        self.operator.fill_to_read(coarse_u)?;
        self.part.correct_red(&*f.part()?, &*e.part()?, &*coarse_u.part()?, u.part_mut(), w.part_mut())
    }

    fn change_black(
        &self,
        f: &Vector<B::Vector<f64>>,
        u: &mut Vector<B::Vector<f64>>,
        w: &mut Vector<B::Vector<f32>>,
    ) -> Result<()> {
        self.operator.ranks().inner().fill(u.part_mut(), &[Colour::Red], &mut nothing)?;
        self.part.change_black(&*f.part()?, u.part_mut(), w.part_mut())
    }

    fn begin_red(
        &self,
        w: &Vector<B::Vector<f32>>,
        e: &mut Vector<B::Vector<f32>>,
        norm: Scalar,
        scalars: &mut B::Scalars,
    ) -> Result<()> {
        self.operator.ranks().inner().fill(&mut *w.halo()?, &[Colour::Black], &mut nothing)?;
        self.part.begin_red(&*w.part()?, e.part_mut(), norm, scalars)?;
        self.operator.combine([norm], scalars)
    }

    fn end_black(&self, e: &mut Vector<B::Vector<f32>>) -> Result<()> {
        self.operator.ranks().inner().fill(e.part_mut(), &[Colour::Red], &mut nothing)?;
        self.part.end_black(e.part_mut())
    }

    fn restrict(&self, e: &Vector<B::Vector<f32>>, coarse_f: &mut Vector<B::Vector<f32>>) -> Result<()> {
        self.operator.ranks().inner().fill(&mut *e.halo()?, &[Colour::Black], &mut nothing)?;
        self.part.restrict(&*e.part()?, coarse_f.part_mut())
    }
}
