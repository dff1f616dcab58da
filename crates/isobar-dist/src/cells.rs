//! Steps that go from cell to cell, on several ranks: relaxation of points, and what is made of triangular parts.

use isobar_core::backend::part::{PartBackend, nothing};
use isobar_core::backend::{Ratio, Scalar, Sums};
use isobar_core::error::{Error, Result};
use isobar_core::layout::{Colour, needs_whole_rows};
use isobar_core::operator::part::{Handed, PartPoints, PartSubstitution, PartTriangular};
use isobar_core::operator::{Operator, PointSmoother, Triangular};
use isobar_core::options::PointCycle;
use isobar_core::real::Real;

use crate::distributed::Distributed;
use crate::operator::DistributedOperator;
use crate::vector::Vector;

/// A part's steps that hand rows on.
fn substitution<B: PartBackend, T: Real, O: PartTriangular<B, T> + ?Sized>(
    operator: &DistributedOperator<B, O>,
) -> Result<&dyn PartSubstitution<B, T>> {
    if !operator.ranks().has_whole_rows() {
        return Err(needs_whole_rows("incomplete Poisson and incomplete Cholesky"));
    }
    if Operator::<_, T>::layout(&**operator.part()).divides_ring() {
        // The order of unknowns does not go around.
        return Err(Error::Unsupported("incomplete Cholesky on ranks that divide a ring in y; run on one".into()));
    }
    let steps = operator.part().substitution();
    steps.ok_or_else(|| Error::Unsupported("incomplete Cholesky on several of these devices; run on one".into()))
}

/// By sweeps: tiles would go on in other ranks' rows.
impl<B: PartBackend, T: Real, O: PartPoints<B, T> + ?Sized> PointSmoother<Distributed<B>, T>
    for DistributedOperator<B, O>
{
    fn periodic(&self) -> [bool; 3] {
        self.part().periodic()
    }

    fn suggested_tile(&self) -> [usize; 3] {
        self.part().suggested_tile()
    }

    fn prepare(&self, cycle: &PointCycle) -> Result<()> {
        if !cycle.is_sweep() && self.ranks().has_others() {
            let [x, y, z] = cycle.tile;
            return Err(Error::Unsupported(format!(
                "tiles of {x} × {y} × {z} cells on several ranks, whose rows they would share; use \
                 solver.jacobi.sub_iterations = 1 (plain sweeps), which acceleration = \"chebyshev\" makes faster, or run on one"
            )));
        }
        self.part().prepare(cycle)
    }

    fn relax_points(
        &self,
        cycle: &PointCycle,
        f: &Vector<B::Vector<T>>,
        u: &Vector<B::Vector<T>>,
        v: &mut Vector<B::Vector<T>>,
        norm: Scalar,
        scalars: &mut B::Scalars,
    ) -> Result<()> {
        let (f, mut u, v) = (f.part()?, u.halo()?, v.part_mut());
        self.part().relax_points_part(cycle, &*f, &mut *u, v, norm, scalars, &mut self.filling())?;
        self.combine([norm], scalars)
    }
}

impl<B: PartBackend, T: Real, O: PartTriangular<B, T> + ?Sized> Triangular<Distributed<B>, T>
    for DistributedOperator<B, O>
{
    fn relax_lower(
        &self,
        r: &Vector<B::Vector<T>>,
        w: &Vector<B::Vector<T>>,
        v: &mut Vector<B::Vector<T>>,
        rho: Option<(Scalar, &mut B::Scalars)>,
    ) -> Result<()> {
        self.fill_to_read(w)?;
        let (r, w, v) = (r.part()?, w.part()?, v.part_mut());
        let Some((scalar, scalars)) = rho else { return self.part().relax_lower(&*r, &*w, v, None) };
        self.part().relax_lower(&*r, &*w, v, Some((scalar, &mut *scalars)))?;
        self.combine([scalar], scalars)
    }

    fn relax_upper(
        &self,
        v: &Vector<B::Vector<T>>,
        w: &Vector<B::Vector<T>>,
        z: &mut Vector<B::Vector<T>>,
    ) -> Result<()> {
        self.fill_to_read(w)?;
        self.part().relax_upper(&*v.part()?, &*w.part()?, z.part_mut())
    }

    /// D⁻¹ has its halo rows from [`Triangular::factorise`].
    fn incomplete_poisson(
        &self,
        scaled: bool,
        inverse_diagonal: &Vector<B::Vector<T>>,
        r: &Vector<B::Vector<T>>,
        z: &mut Vector<B::Vector<T>>,
    ) -> Result<()> {
        self.fill_to_read(r)?;
        self.part().incomplete_poisson(scaled, &*inverse_diagonal.part()?, &*r.part()?, z.part_mut())
    }

    fn factorise(&self, block: usize, relaxation: f64, inverse_pivots: &mut Vector<B::Vector<T>>) -> Result<()> {
        let pivots = inverse_pivots.part_mut();
        if block == 1 && self.ranks().has_whole_rows() {
            self.part().factorise(block, relaxation, pivots)?;
        } else {
            let steps = substitution(self)?;
            steps.factorise_part(block, relaxation, pivots, &mut |handed| self.ranks().hand_on(handed))?;
        }
        self.fill(pivots, &Colour::BOTH, &mut nothing)
    }

    fn substitutes(&self) -> bool {
        substitution::<B, T, O>(self).is_ok()
    }

    fn substitutes_on_host(&self) -> bool {
        self.ranks().has_others()
    }

    fn substitute(
        &self,
        block: usize,
        inverse_pivots: &Vector<B::Vector<T>>,
        r: &Vector<B::Vector<T>>,
        z: &mut Vector<B::Vector<T>>,
    ) -> Result<()> {
        let (pivots, r, z) = (inverse_pivots.part()?, r.part()?, z.part_mut());
        substitution(self)?.substitute_part(block, &*pivots, &*r, z, &mut |handed| self.ranks().hand_on(handed))
    }

    fn substitute_residual(
        &self,
        block: usize,
        inverse_pivots: &Vector<B::Vector<T>>,
        r: &mut Vector<B::Vector<T>>,
        q: &Vector<B::Vector<T>>,
        z: &mut Vector<B::Vector<T>>,
        alpha: Ratio,
        out: Sums<2>,
        scalars: &mut B::Scalars,
    ) -> Result<()> {
        let (pivots, q, r, z) = (inverse_pivots.part()?, q.part()?, r.part_mut(), z.part_mut());
        let hand_on = &mut |handed: Handed<'_, T>| self.ranks().hand_on(handed);
        substitution(self)?.substitute_residual_part(block, &*pivots, r, &*q, z, alpha, out, scalars, hand_on)?;
        self.combine([out.get(0), out.get(1)], scalars)
    }
}
