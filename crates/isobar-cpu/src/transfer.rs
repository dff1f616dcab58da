//! Transfers between two levels, a whole plane at a time. Safety of all memory accesses: see the module `seven_point::kernels`.

use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use isobar_core::operator::{prolong_smooth_unfused, smooth_residual_restrict_unfused};
use isobar_core::prelude::{
    Backend, Colour, Guess, Layout, LineSmoother, Real, Result, Smoother, Sum, Sweep, Transfer,
};
use pulp::Simd;

use crate::geometry::starts_by_parity;
use crate::seven_point::kernels::{Residuals, around};
use crate::seven_point::{
    ChunkSpace, Coefficients, Entries, Kernel, RowCoefficients, SevenPoint, Stored, TileCoefficients,
};
use crate::{Cpu, Geometry, HalfPlane, RowMut, Shared, Vector, Window};

/// The fine cells of coarse ones, which restriction sums, and interpolation from coarse cells.
pub(crate) trait Planes<T: Real>: Debug + Send + Sync + 'static {
    /// The storage of the finer operator's stencil.
    type Stored: Stored<T> + 'static;

    /// Whether steps skip what a sweep before or after them makes zero or overwrites.
    const SKIPS_SOLVED: bool;

    /// Returns the coarse plane whose last fine plane is j, and its fine planes, for a subdomain with this layout.
    fn ends_with(&self, fine: &Layout, j: usize) -> Option<(usize, Range<usize>)>;

    /// Returns whether a coarse cell consists of two fine ones in x.
    fn halves_x(&self) -> bool;

    /// Returns the fine layers of a coarse one.
    fn layers(&self, coarse_k: usize) -> Range<usize>;

    /// Computes u += P u_c on plane j, on some colours, between grids of these layouts; inlined into vector instructions. `rows` is scratch.
    fn prolong(
        &self,
        grids: (Geometry<'_, T>, &Layout),
        at: (usize, &[Colour]),
        coarse_u: Shared<T>,
        u: Shared<T>,
        rows: &mut [Vec<T>; 2],
    );
}

/// The transfer between two levels.
#[derive(Debug)]
pub(crate) struct PlaneTransfer<T: Real, P: Planes<T>> {
    fine: Arc<SevenPoint<P::Stored, T>>,
    coarse: Layout,
    planes: P,
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

impl<T: Real, P: Planes<T>> PlaneTransfer<T, P> {
    pub(crate) fn new(fine: &Arc<SevenPoint<P::Stored, T>>, coarse: Layout, planes: P) -> Self {
        Self { fine: Arc::clone(fine), coarse, planes }
    }

    /// Computes f_c = R … on the coarse plane whose last fine plane is j; does nothing on others.
    fn restrict_plane(
        &self,
        c: &P::Stored,
        j: usize,
        what: Restricted<T>,
        coarse_f: Shared<T>,
        space: &mut ChunkSpace<T>,
    ) {
        let g = self.fine.geometry();
        let Some((coarse_j, fine_planes)) = self.planes.ends_with(&g.layout, j) else { return };
        let restrict = Restrict { transfer: self, coarse_j, fine_planes, what, coarse_f, rows: &mut space.natural };
        c.run(self.fine.cpu(), g, restrict);
    }

    /// Runs a pass whose only stage restricts.
    fn restriction(&self, what: Restricted<T>, coarse_f: &mut Vector<T>) {
        let coarse_f = coarse_f.share_mut();
        self.fine.plain_pass(|c, j, space| self.restrict_plane(c, j, what, coarse_f, space));
    }

    /// Computes u += P u_c on the given colours of plane j.
    fn prolong_plane(&self, at: (usize, &[Colour]), coarse_u: Shared<T>, u: Shared<T>, space: &mut ChunkSpace<T>) {
        let grids = (self.fine.geometry(), &self.coarse);
        self.fine.cpu().vectorize::<T>(
            #[inline(always)]
            || self.planes.prolong(grids, at, coarse_u, u, &mut space.natural),
        );
    }
}

impl<T: Real, P: Planes<T>> Transfer<Cpu, T> for PlaneTransfer<T, P> {
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
        self.fine.plain_pass(|_, j, space| self.prolong_plane((j, &Colour::BOTH), coarse_u, u, space));
        Ok(())
    }

    fn residual_restrict(&self, f: &Vector<T>, [u, coarse_f, _]: [&mut Vector<T>; 3]) -> Result<()> {
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
        let colours = if P::SKIPS_SOLVED { fine.unsolved(relaxation) } else { &Colour::BOTH };
        let what = match guess {
            Guess::Zero if P::SKIPS_SOLVED => Restricted::AfterSweepFromZero { u: vectors[1], colours },
            _ => Restricted::Residual { vectors, colours },
        };
        let (c, mut workspace) = (fine.coefficients(), fine.workspace());
        let restrict = |j: usize, space: &mut ChunkSpace<T>| self.restrict_plane(&c, j, what, coarse_f, space);
        fine.pass_around_sweeps(&c, &mut workspace, (relaxation, guess, 1), [None, Some(&restrict)], vectors, u)
    }

    fn prolong_smooth(
        &self,
        coarse_u: &mut Vector<T>,
        sweep: Sweep<'_, Vector<T>>,
        norm: Option<Sum<'_, Cpu>>,
    ) -> Result<()> {
        if sweep.relaxation.smoother == Smoother::LineJacobi {
            return prolong_smooth_unfused(self, coarse_u, sweep, norm);
        }
        let (fine, Sweep { relaxation, f, u, .. }) = (&self.fine, sweep);
        fine.cpu().fill(coarse_u, &Colour::BOTH)?;
        let (vectors, coarse_u) = ([f.share(), u.share_mut()], coarse_u.share());
        let colours = if P::SKIPS_SOLVED { fine.needed(relaxation) } else { &Colour::BOTH };
        let prolong =
            |j: usize, space: &mut ChunkSpace<T>| self.prolong_plane((j, colours), coarse_u, vectors[1], space);
        fine.sweep_after(&prolong, relaxation, vectors, norm, u)
    }
}

/// Computes a coarse plane from one or two fine ones.
struct Restrict<'a, T: Real, P: Planes<T>> {
    transfer: &'a PlaneTransfer<T, P>,
    coarse_j: usize,
    fine_planes: Range<usize>,
    what: Restricted<T>,
    coarse_f: Shared<T>,
    /// Two rows of scratch memory.
    rows: &'a mut [Vec<T>; 2],
}

impl<T: Real, P: Planes<T>> Kernel<T> for Restrict<'_, T, P> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd, C: Coefficients<T>>(self, simd: S, g: Geometry<'_, T>, c: &C) {
        let Self { transfer: PlaneTransfer { coarse, planes, .. }, coarse_j, fine_planes, what, coarse_f, rows } = self;
        let (n, coarse_n) = (g.layout.pitch(), coarse.pitch());
        let starts = starts_by_parity(coarse, coarse_j as isize);
        let half_plane = |j: usize, colour: Colour| {
            let h = g.half_plane(j, colour);
            let tile = c.tile(simd, g, &h, g.all_columns());
            (h, tile)
        };
        let (first, last) = (fine_planes.start, fine_planes.end - 1);
        let halves = [
            half_plane(first, Colour::Red),
            half_plane(first, Colour::Black),
            half_plane(last, Colour::Red),
            half_plane(last, Colour::Black),
        ];
        let count = if first == last { 2 } else { 4 };
        let is_halved = planes.halves_x();
        let [even, odd] = rows.each_mut().map(|row| &mut row[..n.max(2 * coarse_n)]);
        for coarse_k in 0..coarse.shape().nz {
            even.fill(T::ZERO);
            if !is_halved {
                odd.fill(T::ZERO);
            }
            for k in planes.layers(coarse_k) {
                let w = Window { k, columns: g.all_columns() };
                for (h, tile) in &halves[..count] {
                    // If x is halved, coarse cell m consists of cells 2m and 2m + 1, of either colour.
                    let row = if is_halved || h.parity == 0 { &mut *even } else { &mut *odd };
                    add_row(simd, g, tile, h, w, what, &mut RowMut::new(simd, &mut row[..n]));
                }
            }
            let position = (coarse_k * coarse_n) as isize;
            // SAFETY: see the top of this file; even and odd columns are different half planes.
            let (to_even, to_odd) = unsafe {
                (coarse_f.row_mut(starts[0] + position, coarse_n), coarse_f.row_mut(starts[1] + position, coarse_n))
            };
            if is_halved {
                for ((pair, to_even), to_odd) in even.as_chunks::<2>().0.iter().zip(to_even).zip(to_odd) {
                    [*to_even, *to_odd] = *pair;
                }
            } else {
                to_even.copy_from_slice(&even[..coarse_n]);
                to_odd.copy_from_slice(&odd[..coarse_n]);
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
            let residual = unsafe { Residuals::new(g, [f, u], h, w.columns).row(simd, w.k) };
            for i in 0..residual.len() {
                sums.set(i, sums.get(i) + residual.get(&coefficients.get(i), i));
            }
        }
        Restricted::AfterSweepFromZero { u, colours } if colours.contains(&h.colour) => {
            let coefficients = tile.row(w.k);
            // SAFETY: as above.
            let around = unsafe { around(g, u, h, w.columns).row(simd, w.k) };
            for i in 0..sums.len() {
                let entries = coefficients.get(i);
                let left = entries.horizontal_sum(around.horizontal(i));
                sums.set(i, sums.get(i) + entries.times_weight(left));
            }
        }
        Restricted::Residual { .. } | Restricted::AfterSweepFromZero { .. } => {}
    }
}
