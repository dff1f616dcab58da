//! Deflation's step, which computes A Z a where it is subtracted. Safety of all memory accesses: see the module `kernels`.

use isobar_core::prelude::{Real, Result, Sum};
use pulp::Simd;

use super::kernels::{Applied, around};
use super::{
    ChunkSpace, Coefficients, Entries, Kernel, PLANES, RowCoefficients, SevenPoint, Stored, TileCoefficients, store,
};
use crate::aggregate::Aggregates;
use crate::geometry::Planes;
use crate::{Cpu, Geometry, HalfPlane, Row, RowSum, Shared, Vector};

/// Computes q −= A v; Σ p q.
struct Subtract<T> {
    h: HalfPlane,
    /// The vector v, whose planes are stored in the workspace.
    v: Shared<T>,
    there: HalfPlane,
    p: Shared<T>,
    q: Shared<T>,
}

impl<T: Real> Kernel<T> for Subtract<T> {
    type Output = [f64; 2];

    #[inline(always)]
    fn run<S: Simd, C: Coefficients<T>>(self, simd: S, g: Geometry<'_, T>, c: &C) -> [f64; 2] {
        let Self { h, v, there, p, q } = self;
        let mut sum = RowSum::new(simd);
        let tile = c.tile(simd, g, &h, g.all_columns());
        // SAFETY: see the top of this file, here and below.
        let v = unsafe { around(g, v, &there, g.all_columns()) };
        for w in g.rows() {
            let (row, position, n) = (tile.row(w.k), g.position(&h, w), w.columns.n);
            let ahead = [p.ahead(position), q.ahead(position)];
            // SAFETY: as above.
            let (av, p, mut q) =
                unsafe { (Applied::new(simd, &v, w.k), p.packs(simd, position, n), q.packs_mut(simd, position, n)) };
            for i in 0..q.len() {
                row.fetch_ahead(i);
                ahead[0].fetch(i, Row::<S, T>::LANES);
                ahead[1].fetch(i, Row::<S, T>::LANES);
                let entries = row.get(i);
                let value = entries.less_weighted(q.get(i), av.get(&entries, i));
                sum.add_product(p.get(i), value);
                q.set(i, value);
            }
            sum.end_short_row();
        }
        [sum.total(), 0.0]
    }
}

impl<C: Stored<T>, T: Real> SevenPoint<C, T> {
    /// Returns the places of Z a of the planes around j among the chunk's own planes, and computes the missing ones.
    fn expand_around(
        &self,
        j: usize,
        aggregates: &Aggregates,
        a: &[f64],
        planes: Shared<T>,
        space: &mut ChunkSpace<T>,
    ) -> Planes {
        let (g, len) = (self.geometry(), self.geometry().plane_len());
        let around = [g.number_beside(j, false), j as isize, g.number_beside(j, true)];
        let starts = [0, 1, 2].map(|n| {
            // Neighbours have different places, at a periodic end too.
            let (plane, place) = (around[n], (j + n) % PLANES);
            let start = self.own_plane(space, place);
            if space.kept[place] != Some(plane) {
                space.kept[place] = Some(plane);
                // SAFETY: a chunk's planes belong to one thread.
                aggregates.expand(plane, a, unsafe { planes.row_mut(start, len) });
            }
            start
        });
        Planes { south: starts[0], here: starts[1], north: starts[2] }
    }

    /// q −= A Z a;  σ = ⟨p, q⟩
    pub(crate) fn subtract(
        &self,
        aggregates: &Aggregates,
        a: &[f64],
        p: &Vector<T>,
        q: &mut Vector<T>,
        sigma: Sum<'_, Cpu>,
    ) -> Result<()> {
        let (p, q) = (p.share(), q.share_mut());
        let (c, mut workspace) = (self.coefficients(), self.workspace());
        workspace.forget_planes();
        let (sums, v) = (Shared::of(&mut workspace.sums), workspace.planes.share_mut());
        let g = self.geometry();
        let stage = |j: usize, space: &mut ChunkSpace<T>| {
            let planes = self.expand_around(j, aggregates, a, v, space);
            let sum = self.on_both(&c, j, |h| Subtract { h, v, there: g.half_plane_in(j, h.colour, planes), p, q });
            store(sums, j, sum);
        };
        self.pass(&mut workspace, &[&stage]);
        self.reduce(&workspace, sigma)
    }
}
