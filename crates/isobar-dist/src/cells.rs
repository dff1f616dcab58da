//! Steps that go from cell to cell, on several ranks: relaxation of points, and what is made of triangular parts.

use isobar_core::backend::part::{PartBackend, nothing};
use isobar_core::backend::{Ratio, Scalar, Sums};
use isobar_core::error::{Error, Result};
use isobar_core::layout::{Colour, needs_whole_rows};
use isobar_core::operator::part::{PartPoints, PartTriangular};
use isobar_core::operator::{Operator, PointSmoother, Triangular};
use isobar_core::options::PointCycle;
use isobar_core::real::Real;

use crate::distributed::Distributed;
use crate::operator::DistributedOperator;
use crate::vector::Vector;

/// Whether parts go through unknowns in order.
fn require_order<B: PartBackend, T: Real, O: PartTriangular<B, T> + ?Sized>(
    operator: &DistributedOperator<B, O>,
) -> Result<()> {
    if !operator.ranks().has_whole_rows() {
        return Err(needs_whole_rows("incomplete Poisson and incomplete Cholesky"));
    }
    if Operator::<_, T>::layout(&**operator.part()).divides_ring() {
        // The order of unknowns does not go around.
        return Err(Error::Unsupported("incomplete Cholesky on ranks that divide a ring in y; run on one".into()));
    }
    Ok(())
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
        self.part().relax_points_part(cycle, &*f, &mut *u, v, norm, scalars)?;
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
        if block > 1 || !self.ranks().has_whole_rows() {
            require_order::<B, T, O>(self)?;
        }
        self.part().factorise(block, relaxation, pivots)?;
        self.ranks().inner().fill(pivots, &Colour::BOTH, &mut nothing)
    }

    fn substitutes(&self) -> bool {
        require_order::<B, T, O>(self).is_ok()
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
        require_order::<B, T, O>(self)?;
        self.part().substitute(block, &*inverse_pivots.part()?, &*r.part()?, z.part_mut())
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
        require_order::<B, T, O>(self)?;
        self.part().substitute_residual(block, &*pivots, r, &*q, z, alpha, out, scalars)?;
        self.combine([out.get(0), out.get(1)], scalars)
    }
}
