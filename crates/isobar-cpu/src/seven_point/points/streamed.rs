//! Cycles of plain sweeps on grids with layers: the sweeps follow each other through the planes, which stay in cache.

use isobar_core::prelude::{PointCycle, Real, Sum};

use super::TILES;
use super::sweep::Sweep;
use crate::seven_point::{SevenPoint, Stored, store};
use crate::{Cpu, Shared, wavefront};

/// Sweeps of a pass: with more of them planes of large grids no longer stay in cache.
const MOST_SWEEPS: usize = 4;

impl<C: Stored<T>, T: Real> SevenPoint<C, T> {
    /// Returns whether a cycle is computed sweep by sweep: in three dimensions the overlap of tiles costs more than it saves, unless
    /// the grid is as small as one tile.
    pub(super) fn is_streamed(&self, cycle: &PointCycle) -> bool {
        let shape = self.layout.shape();
        let is_large = shape.nz > 1 && shape.cells() > TILES[2].iter().product::<usize>();
        let is_whole = self.layout.halo() == [0, 0];
        is_large && is_whole && cycle.is_exact(shape, self.periodic)
    }

    /// Computes v = u after k sweeps, w = u after k − 1, and ‖f − A u‖² of the first u. With momentum, `before` is the u before that.
    pub(super) fn stream(
        &self,
        cycle: &PointCycle,
        [f, u, v, w]: [Shared<T>; 4],
        before: Option<Shared<T>>,
        (norm, scalars): Sum<'_, Cpu>,
    ) {
        let (omega, k) = (T::from_f64(cycle.relaxation), cycle.sub_iterations);
        let momentum = before.map(|_| T::from_f64(cycle.momentum));
        // The first two sweeps take momentum from these, later ones from what they overwrite.
        let befores = [before, before.map(|_| u)];
        let (g, c, mut workspace) = (self.geometry(), self.coefficients(), self.workspace());
        let sums = Shared::of(&mut workspace.sums);
        // Alternates so that the last sweep writes v; a sweep overwrites the input of the previous one.
        let to = |s: usize| if (k - s) % 2 == 1 { v } else { w };
        let sweep = |s: usize, j: usize| {
            if let Some(&Some(before)) = befores.get(s) {
                let (start, len) = (g.plane_start(j), 2 * g.layout.half_plane());
                // SAFETY: see the top of `kernels`; nobody writes `befores`.
                unsafe { to(s).row_mut(start, len).copy_from_slice(before.row(start, len)) };
            }
            let u = if s == 0 { u } else { to(s - 1) };
            let sum = self.on_both(&c, j, |h| Sweep { h, omega, momentum, f, u, v: to(s) });
            if s == 0 {
                store(sums, j, sum);
            }
        };
        for first in (0..k).step_by(MOST_SWEEPS) {
            let stages = MOST_SWEEPS.min(k - first);
            let chunks = self.chunks(&workspace, stages);
            wavefront::run(self.cpu(), chunks, &|s, j, _| sweep(first + s, j));
        }
        scalars.reduce(norm, [workspace.total(0)]);
    }
}
