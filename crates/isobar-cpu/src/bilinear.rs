//! Restriction and prolongation of the tensor-product operator, a whole plane at a time. Safety of all memory accesses:
//! see the module `seven_point::kernels`.

use std::sync::Arc;

use isobar_core::backend::{Backend, HostScalars, Scalar};
use isobar_core::error::Result;
use isobar_core::layout::{Colour, Layout};
use isobar_core::operator::{
    Guess, LineSmoother, Sweep, Transfer, prolong_smooth_unfused, smooth_residual_restrict_unfused,
};
use isobar_core::options::Smoother;
use isobar_core::real::Real;
use pulp::{Simd, WithSimd};

use crate::cpu::Cpu;
use crate::geometry::{Around, Geometry, HalfPlane, View, Which, Window, starts_by_parity};
use crate::seven_point::kernels::ResidualRow;
use crate::seven_point::{ChunkSpace, Coefficients, Entries, Kernel, RowCoefficients, TileCoefficients};
use crate::shared::{RowMut, Shared};
use crate::tensor_product::{Factors, TensorProduct};
use crate::vector::Vector;

/// The transfer between two levels of the tensor-product operator.
#[derive(Debug)]
pub struct Bilinear<T: Real> {
    fine: Arc<TensorProduct<T>>,
    coarse: Layout,
}

/// The vector that a restriction sums.
#[derive(Clone, Copy)]
enum Restricted<T> {
    /// A stored vector.
    Vector(Shared<T>),
    /// f − A u, known to vanish on the other colours.
    Residual { vectors: [Shared<T>; 2], colours: &'static [Colour] },
    /// f − A u after one sweep from zero, on the colour swept first. Its columns were solved with zeros around them, so
    /// that the residual is −d Σ α u of the second half sweep's u: no vertical term, no cancellation.
    AfterSweepFromZero { u: Shared<T>, colours: &'static [Colour] },
}

impl<T: Real> Bilinear<T> {
    pub(crate) fn new(fine: &Arc<TensorProduct<T>>, coarse: Layout) -> Self {
        Self { fine: Arc::clone(fine), coarse }
    }

    /// Computes f_c = R … on the coarse plane of fine planes j − 1 and j, or of the last one alone; does nothing on the
    /// first of a pair.
    fn restrict_plane(&self, c: &Factors<T>, j: usize, what: Restricted<T>, coarse_f: Shared<T>, row: &mut [T]) {
        let is_last = j + 1 == self.fine.geometry().layout.shape().ny;
        let fine_planes = match j % 2 {
            1 => [Some(j - 1), Some(j)],
            _ if is_last => [Some(j), None],
            _ => return,
        };
        let restrict = Restrict { coarse: &self.coarse, fine_planes, what, coarse_f, row };
        crate::seven_point::Stored::run(c, self.fine.cpu(), self.fine.geometry(), restrict);
    }

    /// Runs a pass whose only stage restricts.
    fn restriction(&self, what: Restricted<T>, coarse_f: &mut Vector<T>) {
        let coarse_f = coarse_f.share_mut();
        self.fine.plain_pass(|c, j, space| self.restrict_plane(c, j, what, coarse_f, &mut space.natural[0]));
    }

    /// Computes u += P u_c on the given colours of plane j.
    fn prolong_plane(&self, j: usize, colours: &[Colour], coarse_u: Shared<T>, u: Shared<T>, row: &mut [T]) {
        let prolong = Prolong { g: self.fine.geometry(), coarse: &self.coarse, j, colours, coarse_u, u, row };
        self.fine.cpu().dispatch::<T, _>(prolong);
    }
}

impl<T: Real> Transfer<Cpu, T> for Bilinear<T> {
    fn fine(&self) -> &dyn LineSmoother<Cpu, T> {
        &*self.fine
    }

    fn coarse_layout(&self) -> &Layout {
        &self.coarse
    }

    fn restrict(&self, f: &mut Vector<T>, coarse_f: &mut Vector<T>) -> Result<()> {
        self.restriction(Restricted::Vector(f.share()), coarse_f);
        Ok(())
    }

    fn prolong(&self, coarse_u: &mut Vector<T>, u: &mut Vector<T>) -> Result<()> {
        self.fine.cpu().fill(coarse_u, &Colour::BOTH)?;
        let (coarse_u, u) = (coarse_u.share(), u.share_mut());
        self.fine.plain_pass(|_, j, space| self.prolong_plane(j, &Colour::BOTH, coarse_u, u, &mut space.natural[0]));
        Ok(())
    }

    fn residual_restrict(
        &self,
        f: &Vector<T>,
        u: &mut Vector<T>,
        coarse_f: &mut Vector<T>,
        _: &mut Vector<T>,
    ) -> Result<()> {
        self.fine.cpu().fill(u, &Colour::BOTH)?;
        let vectors = [f.share(), u.share()];
        self.restriction(Restricted::Residual { vectors, colours: &Colour::BOTH }, coarse_f);
        Ok(())
    }

    fn smooth_residual_restrict(&self, sweep: Sweep<'_, Vector<T>>, coarse_f: &mut Vector<T>) -> Result<()> {
        if sweep.relaxation.smoother == Smoother::LineJacobi {
            return smooth_residual_restrict_unfused(self, sweep, coarse_f);
        }
        let (fine, Sweep { relaxation, guess, f, u, .. }) = (&self.fine, sweep);
        let guess = fine.prepare(relaxation, guess, u);
        let (vectors, coarse_f) = ([f.share(), u.share_mut()], coarse_f.share_mut());
        let colours = fine.unsolved(relaxation);
        let what = match guess {
            Guess::Zero => Restricted::AfterSweepFromZero { u: vectors[1], colours },
            Guess::Given => Restricted::Residual { vectors, colours },
        };
        let (c, mut workspace) = (fine.coefficients(), fine.workspace());
        let restrict = |j: usize, space: &mut ChunkSpace<T>| {
            self.restrict_plane(&c, j, what, coarse_f, &mut space.natural[0]);
        };
        fine.pass_around_sweeps(&c, &mut workspace, (relaxation, guess, 1), [None, Some(&restrict)], vectors, u)
    }

    fn prolong_smooth(
        &self,
        coarse_u: &mut Vector<T>,
        sweep: Sweep<'_, Vector<T>>,
        norm: Option<(Scalar, &mut HostScalars)>,
    ) -> Result<()> {
        if sweep.relaxation.smoother == Smoother::LineJacobi {
            return prolong_smooth_unfused(self, coarse_u, sweep, norm);
        }
        let (fine, Sweep { relaxation, f, u, .. }) = (&self.fine, sweep);
        fine.cpu().fill(coarse_u, &Colour::BOTH)?;
        let (vectors, coarse_u, needed) = ([f.share(), u.share_mut()], coarse_u.share(), fine.needed(relaxation));
        let prolong = |j: usize, space: &mut ChunkSpace<T>| {
            self.prolong_plane(j, needed, coarse_u, vectors[1], &mut space.natural[0]);
        };
        fine.sweep_after(&prolong, relaxation, vectors, norm, u)
    }
}

/// Computes a coarse plane from one or two fine ones.
struct Restrict<'a, T> {
    coarse: &'a Layout,
    fine_planes: [Option<usize>; 2],
    what: Restricted<T>,
    coarse_f: Shared<T>,
    /// Scratch for a row in natural order.
    row: &'a mut [T],
}

impl<T: Real> Kernel<T> for Restrict<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd, C: Coefficients<T>>(self, simd: S, g: Geometry<'_, T>, c: &C) {
        let Self { coarse, fine_planes, what, coarse_f, row } = self;
        let (n, coarse_n) = (g.layout.pitch(), coarse.pitch());
        let coarse_j = fine_planes[0].unwrap_or_default() / 2;
        let [even, odd] = starts_by_parity(coarse, coarse_j as isize);
        let row = &mut row[..n.max(2 * coarse_n)];
        row.fill(T::ZERO);
        let half_plane = |j: Option<usize>, colour: Colour| {
            let h = g.half_plane(j.unwrap_or_default(), colour);
            let tile = c.tile(simd, g, &h, g.all_columns());
            (h, tile)
        };
        let [first, second] = fine_planes;
        let half_planes = [
            half_plane(first, Colour::Red),
            half_plane(first, Colour::Black),
            half_plane(second, Colour::Red),
            half_plane(second, Colour::Black),
        ];
        let count = if second.is_some() { 4 } else { 2 };
        for w in g.rows() {
            row[..n].fill(T::ZERO);
            let mut sums = RowMut::new(simd, &mut row[..n]);
            // Coarse column m consists of fine columns 2m and 2m + 1, of either colour.
            for (h, tile) in &half_planes[..count] {
                add_row(simd, g, tile, h, w, what, &mut sums);
            }
            let position = (w.k * coarse_n) as isize;
            // SAFETY: see the top of this file; even and odd columns are different half planes.
            let (even, odd) =
                unsafe { (coarse_f.row_mut(even + position, coarse_n), coarse_f.row_mut(odd + position, coarse_n)) };
            for ((pair, even), odd) in row.as_chunks::<2>().0.iter().zip(even).zip(odd) {
                [*even, *odd] = *pair;
            }
        }
    }
}

/// Adds a row of the restricted vector.
#[inline(always)]
fn add_row<S: Simd, T: Real>(
    simd: S,
    g: Geometry<'_, T>,
    tile: &impl TileCoefficients<S, T>,
    h: &HalfPlane,
    w: Window,
    what: Restricted<T>,
    sums: &mut RowMut<'_, S, T>,
) {
    match what {
        Restricted::Vector(f) => {
            // SAFETY: see the top of this file, here and below.
            let f = unsafe { f.packs(simd, g.position(h, w), w.columns.n) };
            for i in 0..f.len() {
                sums.set(i, sums.get(i) + f.get(i));
            }
        }
        Restricted::Residual { vectors: [f, u], colours } if colours.contains(&h.colour) => {
            let coefficients = tile.row(w.k);
            // SAFETY: as above.
            let residual = unsafe { ResidualRow::new(simd, g, f, u, h, w) };
            for i in 0..residual.len() {
                sums.set(i, sums.get(i) + residual.get(&coefficients.get(i), i));
            }
        }
        Restricted::AfterSweepFromZero { u, colours } if colours.contains(&h.colour) => {
            let coefficients = tile.row(w.k);
            // SAFETY: as above.
            let around = unsafe { Around::new(View { simd, g, v: u, h, w, which: Which::All }) };
            for i in 0..sums.len() {
                let entries = coefficients.get(i);
                let left = entries.horizontal_sum(around.horizontal(i));
                sums.set(i, sums.get(i) + entries.times_weight(left));
            }
        }
        Restricted::Residual { .. } | Restricted::AfterSweepFromZero { .. } => {}
    }
}

/// Computes u += P u_c on plane j.
struct Prolong<'a, T> {
    g: Geometry<'a, T>,
    coarse: &'a Layout,
    j: usize,
    colours: &'a [Colour],
    coarse_u: Shared<T>,
    u: Shared<T>,
    /// Scratch for a row in natural order with a ghost at either end.
    row: &'a mut [T],
}

impl<T: Real> WithSimd for Prolong<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { g, coarse, j, colours, coarse_u, u, row } = self;
        let (n, coarse_n, shape, fine) = (g.layout.pitch(), coarse.pitch(), coarse.shape(), g.layout.shape());
        // The last of an odd number of fine columns takes the value of its coarse column.
        let is_alone = |n: usize, count: usize| n + 1 == count && n.is_multiple_of(2);
        // Beyond the subdomain lies its halo row.
        let [before, after] = coarse.halo();
        let here = (j / 2) as isize;
        let far = if j.is_multiple_of(2) { here - 1 } else { here + 1 };
        let rows = -(before as isize)..(shape.ny + after) as isize;
        let far = Some(far).filter(|far| rows.contains(far) && !is_alone(j, fine.ny));
        let (three, one) = (T::from_f64(0.75), T::from_f64(0.25));
        // Outside, the value is mirrored with the opposite sign.
        let [near_weight, far_weight] = match far {
            _ if is_alone(j, fine.ny) => [T::ONE, T::ZERO],
            Some(_) => [three, one],
            None => [three, -one],
        };
        let [near_even, near_odd] = starts_by_parity(coarse, here);
        let [far_even, far_odd] = starts_by_parity(coarse, far.unwrap_or(here));
        let row = &mut row[..n.max(2 * coarse_n) + 2];
        row.fill(T::ZERO);
        for w in g.rows() {
            // SAFETY: see the top of this file, here and below.
            let read = |start: isize| unsafe { coarse_u.row(start + (w.k * coarse_n) as isize, coarse_n) };
            // Between the two coarse rows, in natural order from position 1.
            let between = |near: T, far: T| near_weight * near + far_weight * far;
            let pairs = row[1..].as_chunks_mut::<2>().0;
            for ((((pair, &near_even), &near_odd), &far_even), &far_odd) in
                pairs.iter_mut().zip(read(near_even)).zip(read(near_odd)).zip(read(far_even)).zip(read(far_odd))
            {
                *pair = [between(near_even, far_even), between(near_odd, far_odd)];
            }
            row[0] = -row[1];
            row[1 + shape.nx] = -row[shape.nx];
            for (is_east, at) in [(false, 0), (true, 1 + shape.nx)] {
                if coarse.goes_on_in_x()[usize::from(is_east)] {
                    // SAFETY: as above.
                    let value = |j: isize| unsafe { coarse_u.row(coarse.beyond(is_east, j) + w.k as isize, 1) }[0];
                    row[at] = between(value(here), value(far.unwrap_or(here)));
                }
            }
            for &colour in colours {
                let h = g.half_plane(j, colour);
                // SAFETY: as above.
                let u = unsafe { u.row_mut(g.position(&h, w), n) };
                let is_last_alone = h.parity == 0 && !fine.nx.is_multiple_of(2);
                let columns = if is_last_alone { h.columns - 1 } else { h.columns };
                let (near, far) = (&row[1..1 + columns], &row[2 * h.parity..2 * h.parity + columns]);
                for ((u, &near), &far) in u.iter_mut().zip(near).zip(far) {
                    *u += three * near + one * far;
                }
                if is_last_alone {
                    u[columns] += row[1 + columns];
                }
            }
        }
    }
}
