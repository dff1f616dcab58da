//! Lines of the 27-point operator in four colours: (i mod 2, j mod 2), each a set of half planes.

use isobar_core::prelude::{Backend, Colour, Guess, LineSmoother, Pack, Real, Relaxation, Result, Smoother, Sweep};
use isobar_core::stencil::galerkin::couplings::COLOURS;
use pulp::{Simd, WithSimd};

use super::operator::{Level27, Numbers, Workspace};
use super::streams::{Order, Values, Which, parts};
use crate::wavefront::{self, Chunks};
use crate::{Cpu, Row, RowMut, Shared, Vector, blas};

/// Computes v = u + ρ(M⁻¹(f − (A − M) u) − u) on a half plane.
struct Relax<'a, T> {
    level: &'a Level27<T>,
    numbers: &'a Numbers<T>,
    j: usize,
    parity: usize,
    rho: T,
    f: Shared<T>,
    u: Shared<T>,
    /// u itself or another vector.
    v: Shared<T>,
    values: &'a mut [T],
    which: Which,
    ring: Option<&'a [Vec<T>; 2]>,
}

impl<T: Real> WithSimd for Relax<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { level, numbers, j, parity, rho, f, u, v, values, which, ring } = self;
        let (pitch, start, nz) = (level.layout.pitch(), level.start(j, parity), level.grid.shape.nz);
        let half_plane = level.layout.half_plane();
        for part @ (first, beyond) in parts(nz) {
            let (position, n) = (start + (first * pitch) as isize, (beyond - first) * pitch);
            // SAFETY: each half plane is written by one thread; where v is u, only half planes of this colour are written, and only those of
            // others are read here; here and below.
            let (streams, f) = unsafe {
                (level.streams(simd, numbers, (j, parity), part, which, Values { u, ring }), f.packs(simd, position, n))
            };
            let mut out = RowMut::new(simd, &mut values[first * pitch..beyond * pitch]);
            streams.add_to(
                &mut out,
                #[inline(always)]
                |i| f.get(i),
            );
        }
        // SAFETY: as above.
        unsafe {
            let (entry, sum) = level.sum_at_end(numbers, (j, parity), which, Values { u, ring }, None);
            values[entry] = f.row(start + entry as isize, 1)[0] + sum;
        }
        let across = &numbers.across[2 * j + Level27::<T>::colour(j, parity)];
        for wrapped in &across.couplings {
            let other = match (wrapped.in_ring, ring) {
                (Some((side, entry)), Some(ring)) => ring[usize::from(side)][entry as usize],
                // SAFETY: as above; an entry of this half plane, or of one of another colour.
                _ => unsafe { u.row(wrapped.position, 1)[0] },
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
        if rho != T::ONE {
            // SAFETY: as above; this half plane, which nobody else writes.
            let u = unsafe { u.packs(simd, start, half_plane) };
            let (rho, mut values) = (Pack::splat(simd, rho), RowMut::new(simd, values));
            for i in 0..values.len() {
                values.set(i, rho.mul_add(values.get(i) - u.get(i), u.get(i)));
            }
        }
        // SAFETY: as above.
        unsafe { v.row_mut(start, half_plane) }.copy_from_slice(values);
    }
}

impl<T: Real> Level27<T> {
    /// Prepares a vector for [`Level27::sweep`]: streams read beyond the ends of their half planes and multiply by 0, which does not
    /// remove a NaN.
    pub(super) fn prepare(&self, guess: Guess, u: &mut Vector<T>) {
        if guess == Guess::Zero {
            blas::fill(&self.cpu, T::ZERO, u);
        }
    }

    /// Runs one sweep, then `after(j, chunk)` on all planes, each when its neighbours have been swept. The colours of a plane follow
    /// each other, and the two kinds of planes one plane apart, so that coefficients are in cache when the next colour reads them.
    /// `fill` fills the halo rows of u.
    pub(super) fn sweep(
        &self,
        numbers: &Numbers<T>,
        workspace: &mut Workspace<T>,
        (relaxation, guess): (Relaxation, Guess),
        [f, u]: [Shared<T>; 2],
        after: Option<&(dyn Fn(usize, usize) + Sync)>,
        fill: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()> {
        let (order, rho) = (Order::of(relaxation), T::from_f64(relaxation.rho));
        let Workspace { values, ring, .. } = workspace;
        let (count, spaces, ny) = (values.len(), Shared::of(values), self.grid.shape.ny);
        let relax = |j: usize, parity: usize, thread: usize, which: Which, ring: Option<&[Vec<T>; 2]>| {
            // SAFETY: each thread has its own.
            let values = unsafe { &mut spaces.row_mut(thread as isize, 1)[0][..] };
            self.cpu.dispatch::<T, _>(Relax { level: self, numbers, j, parity, rho, f, u, v: u, values, which, ring });
        };
        if self.is_odd_ring() {
            for [column, plane] in (0..4).map(|n| order.colour(n)) {
                if plane == 0 {
                    for (copy, j) in ring.iter_mut().zip([0, ny - 1]) {
                        // SAFETY: nobody else works on the vector now.
                        copy.copy_from_slice(unsafe { u.row(self.start(j, column), self.layout.half_plane()) });
                    }
                }
                let ring = &*ring;
                let planes = (ny + 1 - plane) / 2;
                let threads = count.min(planes).max(1);
                self.cpu.for_each(threads, |thread| {
                    for n in planes * thread / threads..planes * (thread + 1) / threads {
                        relax(2 * n + plane, column, thread, Which::Across, Some(ring));
                    }
                });
            }
            if let Some(after) = after {
                self.for_each_plane(count, after);
            }
            return Ok(());
        }
        let which = match guess {
            Guess::Zero => Which::Before(order),
            Guess::Given => Which::Across,
        };
        let stages = if after.is_some() { 3 } else { 2 };
        let chunks = Chunks::new(ny, count, stages);
        let chunks = if self.grid.periodic[1] { chunks.periodic() } else { chunks };
        let stage = |stage: usize, j: usize, chunk: usize| match (stage, after) {
            (2, Some(after)) => after(j, chunk),
            _ => {
                for [column, plane] in [2 * stage, 2 * stage + 1].map(|n| order.colour(n)) {
                    if j % 2 == plane {
                        relax(j, column, chunk, which, None);
                    }
                }
            }
        };
        // A sweep from zero reads only planes that were swept before.
        let chunks = chunks.open(self.layout.halo().map(|rows| rows > 0), guess == Guess::Given);
        // Streams also read entries beside their half planes, halo rows included, which therefore must not be in transfer.
        wavefront::run_part(&self.cpu, chunks, &stage, &mut |_, _| fill())
    }
}

impl<T: Real> Level27<T> {
    /// Computes v = one sweep of line Jacobi from u, whose halo rows are filled.
    fn sweep_at_once(&self, rho: f64, f: &Vector<T>, u: &Vector<T>, v: &mut Vector<T>) {
        let (numbers, mut workspace, rho) = (self.numbers(), self.workspace(), T::from_f64(rho));
        let (f, u, v) = (f.share(), u.share(), v.share_mut());
        let values = &mut workspace.values;
        let (count, spaces) = (values.len(), Shared::of(values));
        self.for_each_plane(count, |j, thread| {
            for parity in [0, 1] {
                // SAFETY: each thread has its own.
                let values = unsafe { &mut spaces.row_mut(thread as isize, 1)[0][..] };
                let which = Which::Across;
                self.cpu.dispatch::<T, _>(Relax {
                    level: self,
                    numbers: &numbers,
                    j,
                    parity,
                    rho,
                    f,
                    u,
                    v,
                    values,
                    which,
                    ring: None,
                });
            }
        });
    }
}

impl<T: Real> LineSmoother<Cpu, T> for Level27<T> {
    fn smooth(&self, sweep: Sweep<'_, Vector<T>>) -> Result<()> {
        let Sweep { relaxation, guess, f, u, scratch } = sweep;
        self.prepare(guess, u);
        if relaxation.smoother == Smoother::LineJacobi {
            self.cpu.fill(u, &Colour::BOTH)?;
            self.sweep_at_once(relaxation.rho, f, u, scratch);
            std::mem::swap(u, scratch);
            return Ok(());
        }
        let (numbers, mut workspace, vectors) = (self.numbers(), self.workspace(), [f.share(), u.share_mut()]);
        let fill = &mut || self.cpu.fill(u, &Colour::BOTH);
        self.sweep(&numbers, &mut workspace, (relaxation, guess), vectors, None, fill)
    }

    fn colours(&self) -> usize {
        COLOURS
    }

    fn needs_scratch(&self, smoother: Smoother) -> bool {
        smoother == Smoother::LineJacobi
    }
}
