//! The fused steps, each a list of stages.

use isobar_core::backend::{HostScalars, Ratio, Slot};
use isobar_core::error::Result;
use isobar_core::layout::{Colour, Layout};
use isobar_core::operator::{
    Direction, Guess, LineOperator, LineSolver, MultigridOperator, OnBackend, Operator, Relaxation,
};
use isobar_core::options::Smoother;
use isobar_core::real::Real;
use isobar_core::triangular::TriangularOperator;

use super::kernels::{Apply, Divide, Residual, Scale};
use super::lines::{Correction, Precondition, Relax, Solve};
use super::transfer::{Prolong, Restrict};
use super::triangular::{IncompletePoisson, RelaxLower, RelaxUpper};
use super::{ChunkScratch, Diffusion, PLANES, Scratch, Stage};
use crate::blas;
use crate::cpu::Cpu;
use crate::shared::Shared;
use crate::vector::Vector;

/// The most stages that a pass has.
const MAX_STAGES: usize = 4;

impl<T> OnBackend<Cpu> for Diffusion<T> {
    fn backend(&self) -> &Cpu {
        &self.cpu
    }
}

impl<T: Real> Diffusion<T> {
    /// A pass of one stage that sums up, into up to two slots.
    fn summing_pass(
        &self,
        stage: impl Fn(usize, &mut ChunkScratch<T>) -> [f64; 2] + Sync,
        out: &[Slot],
        scalars: &mut HostScalars,
    ) {
        let mut scratch = self.scratch();
        let sums = Shared::of(&mut scratch.sums);
        self.pass(&mut scratch, &[&|j, s| Self::store(sums, j, stage(j, s))]);
        for (which, slot) in out.iter().enumerate() {
            scalars.0[slot.index()] = Self::total(&scratch, which);
        }
    }

    /// u += αp;  p = z + βp on plane j
    fn advance_plane(&self, j: usize, alpha: T, beta: T, u: Shared<T>, p: Shared<T>, z: Shared<T>) {
        let len = self.geometry.plane_len();
        let start = (j * len) as isize;
        // SAFETY: this stage has plane j of u and p to itself; z is only read.
        let (u, p, z) = unsafe { (u.row_mut(start, len), p.row_mut(start, len), z.row(start, len)) };
        self.cpu.dispatch::<T, _>(blas::Advance { alpha, beta, u, p, z });
    }

    /// u += a x on plane j
    fn add_plane<R: Real>(&self, j: usize, a: T, x: Shared<R>, u: Shared<T>) {
        let len = self.geometry.plane_len();
        let start = (j * len) as isize;
        // SAFETY: this stage has plane j of u to itself; that of x is complete.
        let (x, u) = unsafe { (x.row(start, len), u.row_mut(start, len)) };
        self.cpu.dispatch::<T, _>(blas::Axpy { a, x, y: u });
    }

    fn relax(&self, j: usize, colour: Colour, rho: T, f: Shared<T>, u: Shared<T>, scratch: &mut ChunkScratch<T>) {
        self.run(Relax { h: self.half_plane(j, colour), rho, f, u, scratch });
    }

    /// z = M⁻¹ r on one colour
    fn solve(&self, j: usize, colour: Colour, r: Shared<T>, z: Shared<T>, scratch: &mut ChunkScratch<T>) {
        self.run(Solve { h: self.half_plane(j, colour), r, z, scratch });
    }

    /// Only red–black relaxation without over-relaxation, of columns that are no rings, can do without old values;
    /// for the others a guess of zero must be written out.
    fn prepare(&self, relaxation: Relaxation, guess: Guess, u: &mut Vector<T>) -> Guess {
        let ignores_old =
            relaxation.smoother == Smoother::LineRedBlack && relaxation.rho == 1.0 && !self.geometry.periodic[2];
        if guess == Guess::Zero && !ignores_old {
            blas::fill(&self.cpu, T::ZERO, u);
            return Guess::Given;
        }
        guess
    }

    /// A pass with the stages of one red–black sweep in the middle.
    fn pass_around_sweep(
        &self,
        scratch: &mut Scratch<T>,
        before: Option<Stage<'_, T>>,
        relaxation: Relaxation,
        guess: Guess,
        f: Shared<T>,
        u: Shared<T>,
        after: Option<Stage<'_, T>>,
    ) {
        let rho = T::from_f64(relaxation.rho);
        let first = |j: usize, s: &mut ChunkScratch<T>| match guess {
            Guess::Zero => self.solve(j, relaxation.first, f, u, s),
            Guess::Given => self.relax(j, relaxation.first, rho, f, u, s),
        };
        let second = |j: usize, s: &mut ChunkScratch<T>| self.relax(j, relaxation.first.other(), rho, f, u, s);
        let mut stages: [Stage<'_, T>; MAX_STAGES] = [&first; MAX_STAGES];
        let mut count = 0;
        for stage in [before, Some(&first as Stage<'_, T>), Some(&second), after].into_iter().flatten() {
            stages[count] = stage;
            count += 1;
        }
        self.pass(scratch, &stages[..count]);
    }
}

impl<T: Real> Operator<Cpu, T> for Diffusion<T> {
    fn layout(&self) -> &Layout {
        Diffusion::layout(self)
    }

    fn apply(&self, x: &Vector<T>, y: &mut Vector<T>) -> Result<()> {
        let (x, y) = (x.share(), y.share_mut());
        self.pass(
            &mut self.scratch(),
            &[&|j, _| {
                self.on_both(j, |h| Apply { h, x, y });
            }],
        );
        Ok(())
    }

    fn divide_by_diagonal(&self, r: &Vector<T>, z: &mut Vector<T>) -> Result<()> {
        let (r, z) = (r.share(), z.share_mut());
        self.pass(
            &mut self.scratch(),
            &[&|j, _| {
                self.on_both(j, |h| Divide { h, r, z });
            }],
        );
        Ok(())
    }

    fn residual(
        &self,
        f: &Vector<T>,
        u: &Vector<T>,
        r: &mut Vector<T>,
        norm: Slot,
        scalars: &mut HostScalars,
    ) -> Result<()> {
        let (f, u, r) = (f.share(), u.share(), r.share_mut());
        self.summing_pass(|j, _| self.on_both(j, |h| Residual { h, f, u, r: Some((r, 0)) }), &[norm], scalars);
        Ok(())
    }

    fn residual_norm(
        &self,
        f: &Vector<T>,
        u: &Vector<T>,
        _: &mut Vector<T>,
        norm: Slot,
        scalars: &mut HostScalars,
    ) -> Result<()> {
        let (f, u) = (f.share(), u.share());
        self.summing_pass(|j, _| self.on_both(j, |h| Residual { h, f, u, r: None }), &[norm], scalars);
        Ok(())
    }

    fn norm_needs_scratch(&self) -> bool {
        false
    }

    fn coefficient_vectors(&self) -> f64 {
        self.coefficient_vectors
    }

    fn scale_residual(
        &self,
        r: &mut Vector<T>,
        q: &Vector<T>,
        z: &mut Vector<T>,
        alpha: Ratio,
        out: [Slot; 2],
        scalars: &mut HostScalars,
    ) -> Result<()> {
        let alpha = T::from_f64(alpha.value(&scalars.0));
        let (r, q, z) = (r.share_mut(), q.share(), z.share_mut());
        self.summing_pass(|j, _| self.on_both(j, |h| Scale { h, alpha, r, q, z }), &out, scalars);
        Ok(())
    }

    fn advance_direction(
        &self,
        v: Direction<'_, Vector<T>>,
        alpha: Ratio,
        beta: Ratio,
        sigma: Slot,
        scalars: &mut HostScalars,
    ) -> Result<()> {
        let [alpha, beta] = [alpha, beta].map(|ratio| T::from_f64(ratio.value(&scalars.0)));
        let (u, p, z, q) = (v.u.share_mut(), v.p.share_mut(), v.z.share(), v.q.share_mut());
        let mut scratch = self.scratch();
        let sums = Shared::of(&mut scratch.sums);
        let advance = |j: usize, _: &mut ChunkScratch<T>| self.advance_plane(j, alpha, beta, u, p, z);
        let apply = |j: usize, _: &mut ChunkScratch<T>| {
            Self::store(sums, j, self.on_both(j, |h| Apply { h, x: p, y: q }));
        };
        self.pass(&mut scratch, &[&advance, &apply]);
        scalars.0[sigma.index()] = Self::total(&scratch, 0);
        Ok(())
    }
}

impl<T: Real> LineSolver<Cpu, T> for Diffusion<T> {
    fn line_coefficient_vectors(&self) -> f64 {
        self.coefficient_vectors
    }

    fn solve_lines(&self, r: &Vector<T>, z: &mut Vector<T>) -> Result<()> {
        let (r, z) = (r.share(), z.share_mut());
        let solve = |j: usize, s: &mut ChunkScratch<T>| {
            for colour in Colour::BOTH {
                self.solve(j, colour, r, z, s);
            }
        };
        self.pass(&mut self.scratch(), &[&solve]);
        Ok(())
    }

    fn precondition_residual(
        &self,
        r: &mut Vector<T>,
        q: &Vector<T>,
        z: &mut Vector<T>,
        alpha: Ratio,
        out: [Slot; 2],
        scalars: &mut HostScalars,
    ) -> Result<()> {
        let alpha = T::from_f64(alpha.value(&scalars.0));
        let (r, q, z) = (r.share_mut(), q.share(), z.share_mut());
        let stage = |j: usize, scratch: &mut ChunkScratch<T>| {
            let mut totals = [0.0; 2];
            for colour in Colour::BOTH {
                let h = self.half_plane(j, colour);
                let sums = self.run(Precondition { h, alpha, r, q, z, scratch: &mut *scratch });
                totals = [totals[0] + sums[0], totals[1] + sums[1]];
            }
            totals
        };
        self.summing_pass(stage, &out, scalars);
        Ok(())
    }
}

impl<T: Real> LineOperator<Cpu, T> for Diffusion<T> {
    fn smooth(
        &self,
        relaxation: Relaxation,
        guess: Guess,
        f: &Vector<T>,
        u: &mut Vector<T>,
        scratch: &mut Vector<T>,
    ) -> Result<()> {
        let guess = self.prepare(relaxation, guess, u);
        let (f, u) = (f.share(), u.share_mut());
        if relaxation.smoother == Smoother::LineRedBlack {
            self.pass_around_sweep(&mut self.scratch(), None, relaxation, guess, f, u, None);
            return Ok(());
        }
        // Corrections of a plane wait until its neighbours have theirs.
        let (delta, rho) = (scratch.share_mut(), T::from_f64(relaxation.rho));
        let correction = |j: usize, s: &mut ChunkScratch<T>| {
            for colour in Colour::BOTH {
                self.run(Correction { h: self.half_plane(j, colour), f, u, delta, scratch: &mut *s });
            }
        };
        let correct = |j: usize, _: &mut ChunkScratch<T>| self.add_plane(j, rho, delta, u);
        self.pass(&mut self.scratch(), &[&correction, &correct]);
        Ok(())
    }

    fn needs_scratch(&self, smoother: Smoother) -> bool {
        smoother == Smoother::LineJacobi
    }
}

impl<T: Real> TriangularOperator<Cpu, T> for Diffusion<T> {
    fn relax_lower(
        &self,
        r: &Vector<T>,
        w: &Vector<T>,
        v: &mut Vector<T>,
        rho: Option<(Slot, &mut HostScalars)>,
    ) -> Result<()> {
        let (r, w, v) = (r.share(), w.share(), v.share_mut());
        let stage = |j: usize| self.on_both(j, |h| RelaxLower { h, r, w, v });
        match rho {
            Some((slot, scalars)) => self.summing_pass(|j, _| stage(j), &[slot], scalars),
            None => self.pass(
                &mut self.scratch(),
                &[&|j, _| {
                    stage(j);
                }],
            ),
        }
        Ok(())
    }

    fn relax_upper(&self, v: &Vector<T>, w: &Vector<T>, z: &mut Vector<T>) -> Result<()> {
        let (v, w, z) = (v.share(), w.share(), z.share_mut());
        self.pass(
            &mut self.scratch(),
            &[&|j, _| {
                self.on_both(j, |h| RelaxUpper { h, v, w, z });
            }],
        );
        Ok(())
    }

    fn incomplete_poisson(
        &self,
        scaled: bool,
        inverse_diagonal: &Vector<T>,
        r: &Vector<T>,
        z: &mut Vector<T>,
    ) -> Result<()> {
        let (inverse_diagonal, r, z) = (inverse_diagonal.share(), r.share(), z.share_mut());
        let stage = |j: usize, _: &mut ChunkScratch<T>| {
            self.on_both(j, |h| IncompletePoisson { h, scaled, inverse_diagonal, r, z });
        };
        self.pass(&mut self.scratch(), &[&stage]);
        Ok(())
    }

    fn substitute(&self, block: usize, inverse_pivots: &Vector<T>, r: &Vector<T>, z: &mut Vector<T>) -> Result<()> {
        self.substitute_blocks(block, inverse_pivots, r, z);
        Ok(())
    }
}

impl<T: Real> MultigridOperator<Cpu, T> for Diffusion<T> {
    fn has_adjoint_transfers(&self) -> bool {
        true
    }

    fn restrict(&self, coarse: &Self, f: &Vector<T>, coarse_f: &mut Vector<T>) -> Result<()> {
        let transfer = self.transfer(coarse)?;
        let (f, coarse_f) = (f.share(), coarse_f.share_mut());
        let stage = |coarse_j: usize, s: &mut ChunkScratch<T>| {
            let start = |(j, _)| (j * self.geometry.plane_len()) as isize;
            let starts = transfer.planes_into(coarse_j).map(|plane| plane.map_or(0, start));
            let natural = &mut s.natural;
            self.cpu.dispatch::<T, _>(Restrict { transfer, coarse_j, f, starts, coarse_f, natural });
        };
        self.on_planes_of(coarse, stage);
        Ok(())
    }

    fn residual_restrict(
        &self,
        coarse: &Self,
        f: &Vector<T>,
        u: &Vector<T>,
        coarse_f: &mut Vector<T>,
        _: &mut Vector<T>,
    ) -> Result<()> {
        let transfer = self.transfer(coarse)?;
        let (f, u, coarse_f) = (f.share(), u.share(), coarse_f.share_mut());
        let len = self.geometry.plane_len() as isize;
        let stage = |coarse_j: usize, s: &mut ChunkScratch<T>| {
            let mut starts = [0; PLANES];
            for (n, from) in transfer.planes_into(coarse_j).into_iter().enumerate() {
                let Some((j, _)) = from else { continue };
                // The planes of one coarse plane have different places, at a periodic end too.
                let place = (2 * coarse_j + n) % PLANES;
                starts[n] = place as isize * len;
                if s.kept[place] != Some(j) {
                    s.kept[place] = Some(j);
                    self.residual_plane(j, f, u, s.planes.share_mut(), starts[n]);
                }
            }
            let (f, natural) = (s.planes.share(), &mut s.natural);
            self.cpu.dispatch::<T, _>(Restrict { transfer, coarse_j, f, starts, coarse_f, natural });
        };
        self.on_planes_of(coarse, stage);
        Ok(())
    }

    fn prolong(&self, coarse: &Self, coarse_u: &Vector<T>, u: &mut Vector<T>) -> Result<()> {
        let transfer = self.transfer(coarse)?;
        let (coarse_u, u) = (coarse_u.share(), u.share_mut());
        let stage = |j: usize, s: &mut ChunkScratch<T>| {
            self.cpu.dispatch::<T, _>(Prolong { transfer, j, coarse_u, u, natural: &mut s.natural });
        };
        self.pass(&mut self.scratch(), &[&stage]);
        Ok(())
    }

    fn prolong_smooth(
        &self,
        coarse: &Self,
        relaxation: Relaxation,
        f: &Vector<T>,
        coarse_u: &Vector<T>,
        u: &mut Vector<T>,
        scratch: &mut Vector<T>,
        norm: Option<(Slot, &mut HostScalars)>,
    ) -> Result<()> {
        if relaxation.smoother == Smoother::LineJacobi {
            self.prolong(coarse, coarse_u, u)?;
            self.smooth(relaxation, Guess::Given, f, u, scratch)?;
            return norm.map_or(Ok(()), |(slot, scalars)| self.residual_norm(f, u, scratch, slot, scalars));
        }
        let transfer = self.transfer(coarse)?;
        let (f, coarse_u, u) = (f.share(), coarse_u.share(), u.share_mut());
        let prolong = |j: usize, s: &mut ChunkScratch<T>| {
            self.cpu.dispatch::<T, _>(Prolong { transfer, j, coarse_u, u, natural: &mut s.natural });
        };
        let mut scratch = self.scratch();
        let sums = Shared::of(&mut scratch.sums);
        let measure = |j: usize, _: &mut ChunkScratch<T>| {
            Self::store(sums, j, self.on_both(j, |h| Residual { h, f, u, r: None }));
        };
        let after: Option<Stage<'_, T>> = if norm.is_some() { Some(&measure) } else { None };
        self.pass_around_sweep(&mut scratch, Some(&prolong), relaxation, Guess::Given, f, u, after);
        if let Some((slot, scalars)) = norm {
            scalars.0[slot.index()] = Self::total(&scratch, 0);
        }
        Ok(())
    }

    fn correct_smooth_residual<R: Real>(
        &self,
        relaxation: Relaxation,
        f: &Vector<T>,
        e: &Vector<R>,
        u: &mut Vector<T>,
        r: &mut Vector<R>,
        scratch: &mut Vector<T>,
        norm: Slot,
        scalars: &mut HostScalars,
    ) -> Result<()> {
        let (e, r) = (e.share(), r.share_mut());
        let u_shared = u.share_mut();
        let correct = |j: usize, _: &mut ChunkScratch<T>| self.add_plane(j, T::ONE, e, u_shared);
        let is_jacobi = relaxation.smoother == Smoother::LineJacobi;
        if is_jacobi {
            self.pass(&mut self.scratch(), &[&correct]);
            self.smooth(relaxation, Guess::Given, f, u, scratch)?;
        }
        let (f, u) = (f.share(), u.share_mut());
        let len = self.geometry.plane_len();
        let mut scratch = self.scratch();
        let sums = Shared::of(&mut scratch.sums);
        let residual = |j: usize, s: &mut ChunkScratch<T>| {
            Self::store(sums, j, self.residual_plane(j, f, u, s.planes.share_mut(), 0));
            // SAFETY: this stage has plane j of r to itself.
            let r = unsafe { r.row_mut((j * len) as isize, len) };
            for (r, value) in r.iter_mut().zip(&s.planes.entries()[..len]) {
                *r = R::from_f64(value.to_f64());
            }
        };
        if is_jacobi {
            self.pass(&mut scratch, &[&residual]);
        } else {
            self.pass_around_sweep(&mut scratch, Some(&correct), relaxation, Guess::Given, f, u, Some(&residual));
        }
        scalars.0[norm.index()] = Self::total(&scratch, 0);
        Ok(())
    }
}

impl<T: Real> Diffusion<T> {
    /// r = f − A u on plane j, put at `start`;  Σ r²
    fn residual_plane(&self, j: usize, f: Shared<T>, u: Shared<T>, r: Shared<T>, start: isize) -> [f64; 2] {
        let shift = start - (j * self.geometry.plane_len()) as isize;
        self.on_both(j, |h| Residual { h, f, u, r: Some((r, shift)) })
    }

    /// Runs something on the planes of a coarser grid, with this grid's scratch space.
    fn on_planes_of(&self, coarse: &Self, f: impl Fn(usize, &mut ChunkScratch<T>) + Sync) {
        let mut scratch = self.scratch();
        let planes = coarse.layout().shape().ny;
        let threads = scratch.chunks.len().min(planes);
        let spaces = Shared::of(&mut scratch.chunks);
        self.cpu.for_each(threads, |n| {
            // SAFETY: thread n alone uses space n.
            let space = &mut unsafe { spaces.row_mut(n as isize, 1) }[0];
            space.kept = [None; PLANES];
            for j in planes * n / threads..planes * (n + 1) / threads {
                f(j, space);
            }
        });
    }
}
