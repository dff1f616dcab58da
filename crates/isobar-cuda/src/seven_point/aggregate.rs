//! Operations of deflation and singular systems. Those that do not pass over the matrix are computed on the host from
//! the operator's stencil.

use isobar_core::operator::aggregate::{Components, Entry};
use isobar_core::prelude::{AggregateMap, AggregateOperator, Diffusion, Host, Real, Result};

use super::passes::Passes;
use super::{Kernels, SevenPoint};
use crate::aggregate::{AggregateVector, Aggregates};
use crate::launch::refuse_while_recording;
use crate::{Cuda, Sum, Vector};

impl<T: Real> SevenPoint<Passes<T>> {
    /// Returns the stencil with all coefficients on the host.
    fn on_host(&self) -> Result<Diffusion> {
        self.kernels.stencil().on_host(|array| self.kernels.cuda().read_array(array))
    }
}

impl<T: Real> AggregateOperator<Cuda, T> for SevenPoint<Passes<T>> {
    fn subtract_aggregated(
        &self,
        aggregates: &Aggregates,
        a: &AggregateVector,
        p: &Vector<T>,
        q: &mut Vector<T>,
        (sigma, scalars): Sum<'_>,
    ) -> Result<()> {
        let vectors = [aggregates.ids(), a.pointer(), p.pointer(), q.pointer()];
        self.kernels.pass_with_sums("subtract_aggregated", &vectors, scalars.pointer(sigma))?;
        self.sum([sigma], scalars)
    }

    fn clear_inactive(&self, x: &mut Vector<T>) -> Result<()> {
        self.kernels.pass("clear_inactive", &[x.pointer()])
    }

    fn galerkin(&self, map: &AggregateMap) -> Result<Vec<Entry>> {
        Ok(self.on_host()?.galerkin(map))
    }

    /// Finds the connected components. Most matrices have one, which the GPU detects quickly. On a subdomain the host
    /// examines the whole grid.
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
        let stencil = self.kernels.stencil();
        if let Some(known) = stencil.known_components() {
            return Ok(known);
        }
        match self.kernels.marks()? {
            Some(marks) => Ok(stencil.components_by_marks(&Host, &marks)),
            None => Ok(self.on_host()?.components(&Host)),
        }
    }

    fn bodies(&self) -> Result<AggregateMap> {
        Ok(self.on_host()?.bodies(&Host))
    }
}
