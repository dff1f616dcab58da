//! Deflation's step, A Z a computed where it is subtracted. Safety of all memory accesses: see the module
//! `kernels`.

use isobar_core::backend::{HostScalars, Slot};
use isobar_core::error::Result;
use isobar_core::layout::Colour;
use isobar_core::real::Real;
use isobar_core::region::RegionOperator;
use pulp::Simd;

use super::faces::{FaceRow, Faces};
use super::kernels::{Couplings, rows};
use super::rows::{Around, Geometry, HalfPlane, Planes, Which};
use super::{ChunkScratch, Diffusion, Kernel, PLANES};
use crate::cpu::Cpu;
use crate::half_plane::RowSum;
use crate::region::Regions;
use crate::shared::{Row, Shared};
use crate::vector::Vector;

/// q −= A v;  Σ p q
struct Subtract<T> {
    h: HalfPlane,
    /// v, whose planes are elsewhere.
    v: Shared<T>,
    planes: Planes,
    p: Shared<T>,
    q: Shared<T>,
}

impl<T: Real> Kernel<T> for Subtract<T> {
    type Output = [f64; 2];

    #[inline(always)]
    fn run<S: Simd, F: Faces<T>>(self, simd: S, g: &Geometry<T>, faces: &F) -> [f64; 2] {
        let Self { h, v, planes, p, q } = self;
        let there = HalfPlane { planes, ..h };
        let mut sum = RowSum::new(simd);
        for w in rows(g) {
            let (places, elsewhere) = (g.places(&h, w, Which::All), g.places(&there, w, Which::All));
            let t = faces.row(simd, g, &h, w, &places);
            let position = g.position(&h, w);
            let ahead = [p.ahead(position), q.ahead(position)];
            // SAFETY: see the top of this file.
            let (around, own, p, mut q) = unsafe {
                (
                    Around::new(simd, g, v, &elsewhere, w.n),
                    v.packs(simd, g.position(&there, w), w.n),
                    p.packs(simd, position, w.n),
                    q.packs_mut(simd, position, w.n),
                )
            };
            for i in 0..q.len() {
                t.fetch_ahead(i);
                ahead[0].fetch(i, Row::<S, T>::LANES);
                ahead[1].fetch(i, Row::<S, T>::LANES);
                let av = Couplings::of(&t, g.is_tall(), i).apply(t.shift(i), own.get(i), &around, i);
                let value = q.get(i) - av;
                sum.add_product(p.get(i), value);
                q.set(i, value);
            }
            sum.end_short_row();
        }
        [sum.total(), 0.0]
    }
}

impl<T: Real> Diffusion<T> {
    /// Where Z a of the planes around j is, computed unless it is there already.
    fn expand_around(&self, j: usize, regions: &Regions, a: &[f64], s: &mut ChunkScratch<T>) -> Planes {
        let len = self.geometry.plane_len();
        let around = [self.geometry.beside(j, false).0, j, self.geometry.beside(j, true).0];
        let starts = [0, 1, 2].map(|n| {
            // Neighbours have different places, at a periodic end too.
            let (plane, place) = (around[n], (j + n) % PLANES);
            if s.kept[place] != Some(plane) {
                s.kept[place] = Some(plane);
                regions.expand(plane, a, &mut s.planes.entries_mut()[place * len..(place + 1) * len]);
            }
            (place * len) as isize
        });
        Planes { south: starts[0], here: starts[1], north: starts[2] }
    }
}

impl<T: Real> RegionOperator<Cpu, T> for Diffusion<T> {
    fn subtract_regional(
        &self,
        regions: &Regions,
        a: &Vec<f64>,
        p: &Vector<T>,
        q: &mut Vector<T>,
        sigma: Slot,
        scalars: &mut HostScalars,
    ) -> Result<()> {
        let (p, q) = (p.share(), q.share_mut());
        let mut scratch = self.scratch();
        for chunk in &mut scratch.chunks {
            chunk.kept = [None; PLANES];
        }
        let sums = Shared::of(&mut scratch.sums);
        let stage = |j: usize, s: &mut ChunkScratch<T>| {
            let planes = self.expand_around(j, regions, a, s);
            let v = s.planes.share();
            let mut total = 0.0;
            for colour in Colour::BOTH {
                total += self.run(Subtract { h: self.half_plane(j, colour), v, planes, p, q })[0];
            }
            Self::store(sums, j, [total, 0.0]);
        };
        self.pass(&mut scratch, &[&stage]);
        scalars.0[sigma.index()] = Self::total(&scratch, 0);
        Ok(())
    }
}
