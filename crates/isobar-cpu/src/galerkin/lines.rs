//! Lines of the 27-point operator in four colours: (i mod 2, j mod 2), each a set of half planes.

use isobar_core::prelude::{
    Axis, Backend, Colour, Guess, LineSmoother, Pack, Real, Relaxation, Result, Smoother, Sweep,
};
use isobar_core::stencil::galerkin::couplings::{COLOURS, along};
use pulp::{Simd, WithSimd};

use super::operator::{Level27, Numbers, Workspace};
use super::streams::{Order, Values, Which, parts};
use crate::wavefront::{self, Chunks};
use crate::{Cpu, Shared, Vector, blas};

/// A relaxation v = u + ρ(M⁻¹(f − (A − M) u) − u) of a half plane: right-hand sides are gathered layer by layer, then columns are solved.
#[derive(Clone, Copy)]
struct Relax<'a, T> {
    level: &'a Level27<T>,
    numbers: &'a Numbers<T>,
    j: usize,
    parity: usize,
    rho: T,
    f: Shared<T>,
    u: Shared<T>,
    /// The target: u itself or another vector.
    v: Shared<T>,
    /// Scratch for a half plane.
    values: Shared<T>,
    which: Which,
    ring: Option<&'a [Vec<T>; 2]>,
}

impl<T: Real> Relax<'_, T> {
    fn run(self) {
        let Level27 { cpu, layout, grid, .. } = self.level;
        cpu.for_each_piece(layout, grid.shape.nz, |_, first, beyond| {
            cpu.dispatch::<T, _>(Gather { relax: self, layers: (first, beyond) });
        });
        cpu.for_each_columns(layout, |first, beyond| {
            cpu.dispatch::<T, _>(Solve { relax: self, columns: (first, beyond) });
        });
    }
}

/// Computes f − (A − M) u on some layers, first and one past the last.
struct Gather<'a, T> {
    relax: Relax<'a, T>,
    layers: (usize, usize),
}

impl<T: Real> WithSimd for Gather<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Relax { level, numbers, j, parity, f, u, values, which, ring, .. } = self.relax;
        let (pitch, start) = (level.layout.pitch(), level.start(j, parity));
        for part @ (first, beyond) in parts(level.grid.shape.nz, self.layers) {
            let (position, n) = (start + (first * pitch) as isize, (beyond - first) * pitch);
            // SAFETY: each half plane is written by one stage; where v is u, only half planes of this colour are written, and only those of
            // others are read here. The scratch is this half plane's own, and each piece has its own layers. Here and below.
            let (streams, f, mut out) = unsafe {
                (
                    level.streams(simd, numbers, (j, parity), part, which, Values { u, ring }),
                    f.packs(simd, position, n),
                    values.packs_mut(simd, (first * pitch) as isize, n),
                )
            };
            streams.add_to(
                &mut out,
                #[inline(always)]
                |i| f.get(i),
            );
        }
        let own = self.layers.0 * pitch..self.layers.1 * pitch;
        // SAFETY: as above.
        let values = unsafe { values.row_mut(own.start as isize, own.len()) };
        // SAFETY: as above.
        let end = unsafe { level.sum_at_end(numbers, (j, parity), &own, which, Values { u, ring }, None) };
        if let Some((entry, sum)) = end {
            // SAFETY: as above.
            values[entry - own.start] = unsafe { f.row(start + entry as isize, 1)[0] } + sum;
        }
        let across = &numbers.across[2 * j + Level27::<T>::colour(j, parity)];
        for wrapped in across.couplings.iter().filter(|wrapped| own.contains(&(wrapped.entry as usize))) {
            let other = match (wrapped.in_ring, ring) {
                (Some((side, entry)), Some(ring)) => ring[usize::from(side)][entry as usize],
                // SAFETY: as above; an entry of this half plane, or of one of another colour.
                _ => unsafe { u.row(wrapped.position, 1)[0] },
            };
            values[wrapped.entry as usize - own.start] += wrapped.coupling * other;
        }
        for &(entry, lag) in across.lagging.iter().filter(|(entry, _)| own.contains(&(*entry as usize))) {
            // SAFETY: as above.
            values[entry as usize - own.start] += lag * unsafe { u.row(start + entry as isize, 1)[0] };
        }
    }
}

/// Solves the lines of some columns, first and one past the last, a whole number of packs.
struct Solve<'a, T> {
    relax: Relax<'a, T>,
    columns: (usize, usize),
}

impl<T: Real> WithSimd for Solve<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Relax { level, numbers, j, parity, rho, u, v, values, .. } = self.relax;
        let (pitch, start, nz) = (level.layout.pitch(), level.start(j, parity), level.grid.shape.nz);
        let n = self.columns.1 - self.columns.0;
        let row = |k: usize| (k * pitch + self.columns.0) as isize;
        let couplings = numbers.couplings[along(Axis::Z)].as_ref().map(Vector::share);
        let inverses = numbers.inverse_pivots.share();
        for k in 0..nz {
            // SAFETY: as in `Gather`; each piece has its own columns, and nobody writes coefficients. Here and below.
            let (mut y, inverse) =
                unsafe { (values.packs_mut(simd, row(k), n), inverses.packs(simd, start + row(k), n)) };
            match (k.checked_sub(1), couplings) {
                (Some(below), Some(c)) => {
                    // SAFETY: as above.
                    let (before, c) =
                        unsafe { (values.packs(simd, row(below), n), c.packs(simd, start + row(below), n)) };
                    for i in 0..y.len() {
                        y.set(i, c.get(i).mul_add(before.get(i), y.get(i)) * inverse.get(i));
                    }
                }
                _ => (0..y.len()).for_each(|i| y.set(i, y.get(i) * inverse.get(i))),
            }
        }
        if let Some(c) = couplings {
            for k in (0..nz - 1).rev() {
                // SAFETY: as above.
                let (mut y, above, inverse, c) = unsafe {
                    (
                        values.packs_mut(simd, row(k), n),
                        values.packs(simd, row(k + 1), n),
                        inverses.packs(simd, start + row(k), n),
                        c.packs(simd, start + row(k), n),
                    )
                };
                for i in 0..y.len() {
                    y.set(i, (c.get(i) * inverse.get(i)).mul_add(above.get(i), y.get(i)));
                }
            }
        }
        let weight = Pack::splat(simd, rho);
        for k in 0..nz {
            // SAFETY: as above.
            let mut y = unsafe { values.packs_mut(simd, row(k), n) };
            if rho != T::ONE {
                // SAFETY: as above.
                let u = unsafe { u.packs(simd, start + row(k), n) };
                for i in 0..y.len() {
                    y.set(i, weight.mul_add(y.get(i) - u.get(i), u.get(i)));
                }
            }
            // SAFETY: as above.
            let mut v = unsafe { v.packs_mut(simd, start + row(k), n) };
            for i in 0..y.len() {
                v.set(i, y.get(i));
            }
        }
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
            let values = Shared::of(unsafe { &mut spaces.row_mut(thread as isize, 1)[0] });
            Relax { level: self, numbers, j, parity, rho, f, u, v: u, values, which, ring }.run();
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
        // Streams also read entries next to their half planes, halo rows included, which therefore must not be in transfer.
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
                let values = Shared::of(unsafe { &mut spaces.row_mut(thread as isize, 1)[0] });
                let (numbers, which, ring) = (&numbers, Which::Across, None);
                Relax { level: self, numbers, j, parity, rho, f, u, v, values, which, ring }.run();
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
