//! Operations of deflation and singular systems. Those that do not pass over the matrix are computed on the host from
//! the operator's stencil.

use isobar_core::operator::aggregate::{Components, Entry};
use isobar_core::prelude::{AggregateMap, AggregateOperator, Real, Result, Sum};

use super::kind::Kind;
use super::passes::Passes;
use super::{Kernels, SevenPoint};
use crate::aggregate::{AggregateVector, Aggregates};
use crate::launch::refuse_while_recording;
use crate::{Cuda, Vector};

impl<K: Kind, T: Real> AggregateOperator<Cuda, T> for SevenPoint<Passes<K, T>> {
    fn subtract_aggregated(
        &self,
        aggregates: &Aggregates,
        a: &AggregateVector,
        p: &Vector<T>,
        q: &mut Vector<T>,
        (sigma, scalars): Sum<'_, Cuda>,
    ) -> Result<()> {
        let vectors = [aggregates.ids(), a.pointer(), p.pointer(), q.pointer()];
        self.kernels.pass_with_sums("subtract_aggregated", &vectors, scalars.pointer(sigma))?;
        self.sum([sigma], scalars)
    }

    fn clear_inactive(&self, x: &mut Vector<T>) -> Result<()> {
        self.kernels.pass("clear_inactive", &[x.pointer()])
    }

    fn galerkin(&self, map: &AggregateMap) -> Result<Vec<Entry>> {
        K::galerkin(self.kernels.cuda(), &self.kernels.stencil(), map)
    }

    /// Most matrices have one component, which the GPU detects quickly. On a subdomain the host looks at the whole grid.
    fn components(&self) -> Result<Option<Components>> {
        refuse_while_recording("looking for connected components")?;
        let shape = self.layout_of().shape();
        if !self.layout_of().is_part() {
            match self.kernels.census()? {
                [0.0, tied] if tied > 0.0 => return Ok(None),
                [0.0, _] if shape.cells() > 1 => {
                    return Ok(Some(Components { all: AggregateMap::whole(shape), anchored: vec![false] }));
                }
                _ => {}
            }
        }
        // Some cells may be inactive.
        self.kernels.prepare_pass("clear_inactive")?;
        K::components(self.kernels.cuda(), &self.kernels.stencil(), || self.kernels.marks())
    }

    fn bodies(&self) -> Result<AggregateMap> {
        K::bodies(self.kernels.cuda(), &self.kernels.stencil())
    }
}
