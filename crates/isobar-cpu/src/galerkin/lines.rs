//! Lines of the 27-point operator in four colours: (i mod 2, j mod 2), each a set of half planes.

use isobar_core::error::Result;
use isobar_core::layout::Colour;
use isobar_core::operator::{Guess, LineSmoother, Relaxation};
use isobar_core::options::Smoother;
use isobar_core::real::Real;
use isobar_core::simd::Pack;
use pulp::{Simd, WithSimd};

use super::operator::{Level27, Numbers, Workspace, parts};
use crate::blas;
use crate::cpu::Cpu;
use crate::shared::{Row, RowMut, Shared};
use crate::vector::Vector;

/// u += ρ(M⁻¹(f − (A − M) u) − u) on a half plane
struct Relax<'a, T> {
    level: &'a Level27<T>,
    numbers: &'a Numbers<T>,
    j: usize,
    parity: usize,
    rho: T,
    f: Shared<T>,
    u: Shared<T>,
    values: &'a mut [T],
    ring: &'a [Vec<T>; 2],
}

impl<T: Real> WithSimd for Relax<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { level, numbers, j, parity, rho, f, u, values, ring } = self;
        let (pitch, start, nz) = (level.layout.pitch(), level.start(j, parity), level.grid.shape.nz);
        let half_plane = level.layout.half_plane();
        for part @ (first, beyond) in parts(nz) {
            let (position, n) = (start + (first * pitch) as isize, (beyond - first) * pitch);
            // SAFETY: only half planes of this colour are written, each by one thread, and only those of others are read
            // here; here and below.
            let (streams, f) = unsafe {
                (level.streams(simd, numbers, (j, parity), part, u, false, Some(ring)), f.packs(simd, position, n))
            };
            let mut out = RowMut::new(simd, &mut values[first * pitch..beyond * pitch]);
            for i in 0..out.len() {
                out.set(i, streams.add_to(f.get(i), i));
            }
        }
        if let Some(entry) = level.ends(parity) {
            // SAFETY: as above.
            values[entry] = unsafe {
                f.row(start + entry as isize, 1)[0] + level.sum_at(numbers, (j, parity), entry, u, None, Some(ring))
            };
        }
        let across = &numbers.across[2 * j + Level27::<T>::colour(j, parity)];
        for wrapped in &across.couplings {
            let other = match wrapped.in_ring {
                Some((which, entry)) => ring[usize::from(which)][entry as usize],
                // SAFETY: as above; of this half plane, or of one of another colour.
                None => unsafe { u.row(wrapped.position, 1)[0] },
            };
            values[wrapped.entry as usize] += wrapped.coupling * other;
        }
        for &(entry, lag) in &across.lagging {
            // SAFETY: as above.
            values[entry as usize] += lag * unsafe { u.row(start + entry as isize, 1)[0] };
        }
        // SAFETY: as above.
        let inverses = unsafe { numbers.inverse_pivots.share().row(start, half_plane) };
        let vertical = numbers.vertical(start, half_plane);
        for k in 0..nz {
            let (before, row) = values.split_at_mut(k * pitch);
            let mut y = RowMut::new(simd, &mut row[..pitch]);
            let inverse = Row::<S, T>::new(simd, &inverses[k * pitch..(k + 1) * pitch]);
            match (k.checked_sub(1), vertical) {
                (Some(below), Some(c)) => {
                    let before = Row::<S, T>::new(simd, &before[below * pitch..]);
                    let c = Row::<S, T>::new(simd, &c[below * pitch..k * pitch]);
                    for i in 0..y.len() {
                        y.set(i, c.get(i).mul_add(before.get(i), y.get(i)) * inverse.get(i));
                    }
                }
                _ => (0..y.len()).for_each(|i| y.set(i, y.get(i) * inverse.get(i))),
            }
        }
        if let Some(c) = vertical {
            for k in (0..nz - 1).rev() {
                let (row, above) = values[k * pitch..].split_at_mut(pitch);
                let mut y = RowMut::new(simd, row);
                let above = Row::<S, T>::new(simd, &above[..pitch]);
                let inverse = Row::<S, T>::new(simd, &inverses[k * pitch..(k + 1) * pitch]);
                let c = Row::<S, T>::new(simd, &c[k * pitch..(k + 1) * pitch]);
                for i in 0..y.len() {
                    y.set(i, (c.get(i) * inverse.get(i)).mul_add(above.get(i), y.get(i)));
                }
            }
        }
        // SAFETY: as above.
        let u = unsafe { u.row_mut(start, half_plane) };
        if rho == T::ONE {
            u.copy_from_slice(values);
            return;
        }
        let (rho, mut u, values) = (Pack::splat(simd, rho), RowMut::new(simd, u), Row::<S, T>::new(simd, values));
        for i in 0..u.len() {
            u.set(i, rho.mul_add(values.get(i) - u.get(i), u.get(i)));
        }
    }
}

impl<T: Real> LineSmoother<Cpu, T> for Level27<T> {
    fn smooth(
        &self,
        relaxation: Relaxation,
        guess: Guess,
        f: &Vector<T>,
        u: &mut Vector<T>,
        _: &mut Vector<T>,
    ) -> Result<()> {
        if guess == Guess::Zero {
            blas::fill(&self.cpu, T::ZERO, u);
        }
        let (numbers, mut workspace) = (self.numbers(), self.workspace());
        let rho = T::from_f64(relaxation.rho);
        let (f, u) = (f.share(), u.share_mut());
        let Workspace { values, ring, .. } = &mut *workspace;
        let threads = values.len();
        let spaces = Shared::of(values);
        let ny = self.grid.shape.ny;
        for n in 0..4 {
            let colour = if relaxation.first == Colour::Red { n } else { 3 - n };
            let (parity, plane_parity) = (colour % 2, colour / 2);
            if plane_parity == 0 && !ring[0].is_empty() {
                for (copy, j) in ring.iter_mut().zip([0, ny - 1]) {
                    // SAFETY: nobody else works on the vector now.
                    copy.copy_from_slice(unsafe { u.row(self.start(j, parity), self.layout.half_plane()) });
                }
            }
            let ring = &*ring;
            let planes = (ny + 1 - plane_parity) / 2;
            let threads = threads.min(planes).max(1);
            self.cpu.for_each(threads, |thread| {
                // SAFETY: each thread has its own.
                let values = unsafe { &mut spaces.row_mut(thread as isize, 1)[0] };
                for plane in planes * thread / threads..planes * (thread + 1) / threads {
                    let (j, values) = (2 * plane + plane_parity, &mut values[..]);
                    let numbers = &*numbers;
                    self.cpu.dispatch::<T, _>(Relax { level: self, numbers, j, parity, rho, f, u, values, ring });
                }
            });
        }
        Ok(())
    }

    fn needs_scratch(&self, _: Smoother) -> bool {
        false
    }
}
