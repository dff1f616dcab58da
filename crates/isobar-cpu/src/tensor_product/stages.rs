//! What each stage of a pass does to one plane.
//!
//! Every function here is called by [`wavefront::run`](crate::wavefront::run), whose schedule makes the
//! memory accesses sound: a stage at plane j has planes j of the vectors it writes to itself, and
//! planes j − 1 … j + 1 of the vectors it reads are written by no other stage meanwhile.

use isobar_core::layout::Colour;
use isobar_core::real::Real;

use super::kernels::{Apply, Divide, Residual, ResidualNorm, ResidualStore};
use super::lines::{JacobiCorrection, Precondition, Relax, Solve};
use super::transfer::{Prolong, Restrict};
use super::{ChunkScratch, TensorProduct};
use crate::blas::{Advance, Axpy};
use crate::shared::Shared;

/// What a restriction adds up.
#[derive(Clone, Copy)]
pub(super) enum Restricted<T> {
    /// A vector.
    Vector(Shared<T>),
    /// f − A u, known to vanish on the colours that are not named.
    Residual {
        /// Right-hand side.
        f: Shared<T>,
        /// Solution.
        u: Shared<T>,
        /// Where the residual does not vanish.
        colours: &'static [Colour],
    },
    /// f − A u after one sweep from zero, on the colour swept first. Its columns were solved with zeros
    /// around them, so that all that is left is −d Σ α u of what the second half sweep put there: no
    /// vertical term, no difference of large numbers.
    AfterSweepFromZero {
        /// Solution.
        u: Shared<T>,
        /// The colour swept first.
        first: Colour,
    },
}

impl<T: Real> TensorProduct<T> {
    /// Stores a plane's sum.
    fn store(sums: Shared<[f64; 2]>, j: usize, values: [f64; 2]) {
        // SAFETY: a stage runs once on each plane.
        unsafe { sums.set(j as isize, values) };
    }

    /// y = A x, and Σ x y where asked for.
    pub(super) fn apply_plane(&self, j: usize, x: Shared<T>, y: Shared<T>, sums: Option<Shared<[f64; 2]>>) {
        let half = |colour| self.cpu.dispatch::<T, _>(Apply { a: self, h: self.half_plane(j, colour), x, y });
        let [red, black] = Colour::BOTH.map(half);
        if let Some(sums) = sums {
            Self::store(sums, j, [red + black, 0.0]);
        }
    }

    /// z = D⁻¹ r
    pub(super) fn divide_plane(&self, j: usize, r: Shared<T>, z: Shared<T>) {
        for colour in Colour::BOTH {
            self.cpu.dispatch::<T, _>(Divide { a: self, h: self.half_plane(j, colour), r, z });
        }
    }

    /// Σ (f − A u)² over the given colours; stores the residual where asked for, zero on the others.
    pub(super) fn residual_plane<R: Real>(
        &self,
        j: usize,
        colours: &[Colour],
        f: Shared<T>,
        u: Shared<T>,
        r: Option<Shared<R>>,
        sums: Shared<[f64; 2]>,
        s: &mut ChunkScratch<T>,
    ) {
        let mut total = 0.0;
        for colour in Colour::BOTH {
            let h = self.half_plane(j, colour);
            if colours.contains(&colour) {
                let residual = Residual { a: self, h, f, u };
                total += match r {
                    Some(r) => self.cpu.dispatch::<T, _>(ResidualStore { residual, r, row: &mut s.row }),
                    None => self.cpu.dispatch::<T, _>(ResidualNorm(residual)),
                };
            } else if let Some(r) = r {
                // SAFETY: this stage has plane j of r to itself.
                unsafe { r.row_mut(h.start, self.layout.half_plane()) }.fill(R::ZERO);
            }
        }
        Self::store(sums, j, [total, 0.0]);
    }

    /// u += αp;  p = z + βp
    pub(super) fn advance_plane(&self, j: usize, alpha: T, beta: T, u: Shared<T>, p: Shared<T>, z: Shared<T>) {
        let len = 2 * self.layout.half_plane();
        let start = (j * len) as isize;
        // SAFETY: this stage has plane j of u and p to itself; z is only read.
        let (u, p, z) = unsafe { (u.row_mut(start, len), p.row_mut(start, len), z.row(start, len)) };
        self.cpu.dispatch::<T, _>(Advance { alpha, beta, u, p, z });
    }

    /// z = M⁻¹ r
    pub(super) fn solve_plane(&self, j: usize, r: Shared<T>, z: Shared<T>, s: &mut ChunkScratch<T>) {
        for colour in Colour::BOTH {
            self.cpu.dispatch::<T, _>(Solve { a: self, h: self.half_plane(j, colour), r, z, scratch: s });
        }
    }

    /// r −= αq;  z = M⁻¹ r;  Σ r z;  Σ r²
    pub(super) fn precondition_plane(
        &self,
        j: usize,
        alpha: T,
        r: Shared<T>,
        q: Shared<T>,
        z: Shared<T>,
        sums: Shared<[f64; 2]>,
        s: &mut ChunkScratch<T>,
    ) {
        let mut totals = [0.0; 2];
        for colour in Colour::BOTH {
            let h = self.half_plane(j, colour);
            let [rz, rr] = self.cpu.dispatch::<T, _>(Precondition { a: self, h, alpha, r, q, z, scratch: s });
            totals[0] += rz;
            totals[1] += rr;
        }
        Self::store(sums, j, totals);
    }

    /// u += ρ(M⁻¹(f − (A − M) u) − u) on one colour
    pub(super) fn relax(
        &self,
        j: usize,
        colour: Colour,
        from_zero: bool,
        rho: T,
        f: Shared<T>,
        u: Shared<T>,
        s: &mut ChunkScratch<T>,
    ) {
        let h = self.half_plane(j, colour);
        self.cpu.dispatch::<T, _>(Relax { a: self, h, from_zero, rho, f, u, scratch: s });
    }

    /// δ = M⁻¹(f − A u), kept at position `kept`
    pub(super) fn jacobi_correction(
        &self,
        j: usize,
        f: Shared<T>,
        u: Shared<T>,
        corrections: Shared<T>,
        kept: isize,
        s: &mut ChunkScratch<T>,
    ) {
        for colour in Colour::BOTH {
            let h = self.half_plane(j, colour);
            let kept = kept + (colour as usize * self.layout.half_plane()) as isize;
            self.cpu.dispatch::<T, _>(JacobiCorrection { a: self, h, f, u, corrections, kept, scratch: s });
        }
    }

    /// u += ρδ
    pub(super) fn add_correction(&self, j: usize, rho: T, u: Shared<T>, corrections: Shared<T>, kept: isize) {
        let len = 2 * self.layout.half_plane();
        // SAFETY: this stage has plane j of u to itself, and the corrections of plane j are complete.
        let (u, delta) = unsafe { (u.row_mut((j * len) as isize, len), corrections.row(kept, len)) };
        self.cpu.dispatch::<T, _>(Axpy { a: rho, x: delta, y: u });
    }

    /// u += e on the given colours
    pub(super) fn correct_plane<R: Real>(&self, j: usize, colours: &[Colour], e: Shared<R>, u: Shared<T>) {
        for &colour in colours {
            let (start, len) = (self.half_plane(j, colour).start, self.layout.half_plane());
            // SAFETY: this stage has plane j of u to itself; e is only read.
            let (e, u) = unsafe { (e.row(start, len), u.row_mut(start, len)) };
            self.cpu.dispatch::<T, _>(Axpy { a: T::ONE, x: e, y: u });
        }
    }

    /// f_c = R … for the coarse plane that fine planes j − 1 and j make up; does nothing for even j.
    pub(super) fn restrict_plane(
        &self,
        j: usize,
        coarse: &Self,
        what: Restricted<T>,
        coarse_f: Shared<T>,
        s: &mut ChunkScratch<T>,
    ) {
        if j % 2 == 1 {
            self.cpu.dispatch::<T, _>(Restrict { a: self, coarse, j, what, coarse_f, row: &mut s.row });
        }
    }

    /// u += P u_c on the given colours
    pub(super) fn prolong_plane(
        &self,
        j: usize,
        coarse: &Self,
        colours: &'static [Colour],
        coarse_u: Shared<T>,
        u: Shared<T>,
        s: &mut ChunkScratch<T>,
    ) {
        self.cpu.dispatch::<T, _>(Prolong { a: self, coarse, j, colours, coarse_u, u, row: &mut s.row });
    }
}
