//! The fused steps, each a list of stages.

use isobar_core::backend::{HostScalars, Ratio, Slot};
use isobar_core::error::Result;
use isobar_core::layout::{Colour, Layout};
use isobar_core::operator::{
    Direction, Guess, LineOperator, LineSolver, MultigridOperator, OnBackend, Operator, Relaxation,
};
use isobar_core::options::Smoother;
use isobar_core::real::Real;

use super::stages::Restricted;
use super::{ChunkScratch, Stage, TensorProduct};
use crate::blas;
use crate::cpu::Cpu;
use crate::shared::Shared;
use crate::vector::Vector;

impl<T> OnBackend<Cpu> for TensorProduct<T> {
    fn backend(&self) -> &Cpu {
        &self.cpu
    }
}

impl<T: Real> Operator<Cpu, T> for TensorProduct<T> {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn apply(&self, x: &Vector<T>, y: &mut Vector<T>) -> Result<()> {
        let (x, y) = (x.share(), y.share_mut());
        self.pass(&mut self.scratch(), &[&|j, _| self.apply_plane(j, x, y, None)]);
        Ok(())
    }

    fn divide_by_diagonal(&self, r: &Vector<T>, z: &mut Vector<T>) -> Result<()> {
        let (r, z) = (r.share(), z.share_mut());
        self.pass(&mut self.scratch(), &[&|j, _| self.divide_plane(j, r, z)]);
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
        let mut scratch = self.scratch();
        let sums = Shared::of(&mut scratch.sums);
        self.pass(&mut scratch, &[&|j, s| self.residual_plane(j, &Colour::BOTH, f, u, Some(r), sums, s)]);
        scalars.0[norm.index()] = Self::total(&scratch, 0);
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
        let mut scratch = self.scratch();
        let sums = Shared::of(&mut scratch.sums);
        self.pass(&mut scratch, &[&|j, s| self.residual_plane(j, &Colour::BOTH, f, u, None::<Shared<T>>, sums, s)]);
        scalars.0[norm.index()] = Self::total(&scratch, 0);
        Ok(())
    }

    fn norm_needs_scratch(&self) -> bool {
        false
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
        self.pass(
            &mut scratch,
            &[&|j, _| self.advance_plane(j, alpha, beta, u, p, z), &|j, _| self.apply_plane(j, p, q, Some(sums))],
        );
        scalars.0[sigma.index()] = Self::total(&scratch, 0);
        Ok(())
    }
}

impl<T: Real> LineSolver<Cpu, T> for TensorProduct<T> {
    fn solve_lines(&self, r: &Vector<T>, z: &mut Vector<T>) -> Result<()> {
        let (r, z) = (r.share(), z.share_mut());
        self.pass(&mut self.scratch(), &[&|j, s| self.solve_plane(j, r, z, s)]);
        Ok(())
    }

    fn precondition_residual(
        &self,
        r: &mut Vector<T>,
        q: &Vector<T>,
        z: &mut Vector<T>,
        alpha: Ratio,
        [rho, norm]: [Slot; 2],
        scalars: &mut HostScalars,
    ) -> Result<()> {
        let alpha = T::from_f64(alpha.value(&scalars.0));
        let (r, q, z) = (r.share_mut(), q.share(), z.share_mut());
        let mut scratch = self.scratch();
        let sums = Shared::of(&mut scratch.sums);
        self.pass(&mut scratch, &[&|j, s| self.precondition_plane(j, alpha, r, q, z, sums, s)]);
        scalars.0[rho.index()] = Self::total(&scratch, 0);
        scalars.0[norm.index()] = Self::total(&scratch, 1);
        Ok(())
    }
}

impl<T: Real> LineOperator<Cpu, T> for TensorProduct<T> {
    fn smooth(
        &self,
        relaxation: Relaxation,
        guess: Guess,
        f: &Vector<T>,
        u: &mut Vector<T>,
        _: &mut Vector<T>,
    ) -> Result<()> {
        let mut scratch = self.scratch();
        match relaxation.smoother {
            Smoother::LineJacobi => {
                self.prepare(relaxation, guess, u);
                self.jacobi_sweep(&mut scratch, relaxation.rho, f.share(), u.share_mut());
            }
            Smoother::LineRedBlack => {
                let guess = self.prepare(relaxation, guess, u);
                self.pass_around_sweep(&mut scratch, None, relaxation, guess, f.share(), u.share_mut(), None);
            }
        }
        Ok(())
    }

    fn needs_scratch(&self, _: Smoother) -> bool {
        false
    }
}

impl<T: Real> TensorProduct<T> {
    /// Only red–black relaxation without over-relaxation can do without old values; for the others a
    /// guess of zero must be written out.
    fn prepare(&self, relaxation: Relaxation, guess: Guess, u: &mut Vector<T>) -> Guess {
        let ignores_old = relaxation.smoother == Smoother::LineRedBlack && relaxation.rho == 1.0;
        if guess == Guess::Zero && !ignores_old {
            blas::fill(&self.cpu, T::ZERO, u);
            return Guess::Given;
        }
        guess
    }
}

impl<T: Real> MultigridOperator<Cpu, T> for TensorProduct<T> {
    fn restrict(&self, coarse: &Self, f: &Vector<T>, coarse_f: &mut Vector<T>) -> Result<()> {
        let (f, coarse_f) = (f.share(), coarse_f.share_mut());
        self.pass(&mut self.scratch(), &[&|j, s| self.restrict_plane(j, coarse, Restricted::Vector(f), coarse_f, s)]);
        Ok(())
    }

    fn prolong(&self, coarse: &Self, coarse_u: &Vector<T>, u: &mut Vector<T>) -> Result<()> {
        let (coarse_u, u) = (coarse_u.share(), u.share_mut());
        self.pass(&mut self.scratch(), &[&|j, s| self.prolong_plane(j, coarse, &Colour::BOTH, coarse_u, u, s)]);
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
        let (f, u, coarse_f) = (f.share(), u.share(), coarse_f.share_mut());
        let restrict = |j: usize, s: &mut ChunkScratch<T>| {
            self.restrict_plane(j, coarse, Restricted::Residual { f, u, colours: &Colour::BOTH }, coarse_f, s);
        };
        self.pass(&mut self.scratch(), &[&restrict]);
        Ok(())
    }

    fn smooth_residual_restrict(
        &self,
        coarse: &Self,
        relaxation: Relaxation,
        guess: Guess,
        f: &Vector<T>,
        u: &mut Vector<T>,
        coarse_f: &mut Vector<T>,
        scratch: &mut Vector<T>,
    ) -> Result<()> {
        if relaxation.smoother == Smoother::LineJacobi {
            self.smooth(relaxation, guess, f, u, scratch)?;
            return self.residual_restrict(coarse, f, u, coarse_f, scratch);
        }
        let guess = self.prepare(relaxation, guess, u);
        let (f, u, coarse_f) = (f.share(), u.share_mut(), coarse_f.share_mut());
        let what = if guess == Guess::Zero {
            Restricted::AfterSweepFromZero { u, first: relaxation.first }
        } else {
            Restricted::Residual { f, u, colours: Self::unsolved(relaxation) }
        };
        let restrict = |j: usize, s: &mut ChunkScratch<T>| {
            self.restrict_plane(j, coarse, what, coarse_f, s);
        };
        self.pass_around_sweep(&mut self.scratch(), None, relaxation, guess, f, u, Some(&restrict));
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
        let (f, coarse_u, u) = (f.share(), coarse_u.share(), u.share_mut());
        let (needed, unsolved) = (Self::needed(relaxation), Self::unsolved(relaxation));
        let mut scratch = self.scratch();
        let sums = Shared::of(&mut scratch.sums);
        let prolong = |j: usize, s: &mut ChunkScratch<T>| self.prolong_plane(j, coarse, needed, coarse_u, u, s);
        let measure =
            |j: usize, s: &mut ChunkScratch<T>| self.residual_plane(j, unsolved, f, u, None::<Shared<T>>, sums, s);
        let after: Option<Stage<'_, T>> = if norm.is_some() { Some(&measure) } else { None };
        self.pass_around_sweep(&mut scratch, Some(&prolong), relaxation, Guess::Given, f, u, after);
        if let Some((slot, scalars)) = norm {
            scalars.0[slot.index()] = Self::total(&scratch, 0);
        }
        Ok(())
    }

    fn correct_smooth_residual<S: Real>(
        &self,
        relaxation: Relaxation,
        f: &Vector<T>,
        e: &Vector<S>,
        u: &mut Vector<T>,
        r: &mut Vector<S>,
        scratch: &mut Vector<T>,
        norm: Slot,
        scalars: &mut HostScalars,
    ) -> Result<()> {
        let (e_shared, r) = (e.share(), r.share_mut());
        let unsolved = Self::unsolved(relaxation);
        if relaxation.smoother == Smoother::LineJacobi {
            blas::axpy(&self.cpu, T::ONE, e, u);
            self.smooth(relaxation, Guess::Given, f, u, scratch)?;
            let (f, u) = (f.share(), u.share());
            let mut scratch = self.scratch();
            let sums = Shared::of(&mut scratch.sums);
            self.pass(&mut scratch, &[&|j, s| self.residual_plane(j, unsolved, f, u, Some(r), sums, s)]);
            scalars.0[norm.index()] = Self::total(&scratch, 0);
            return Ok(());
        }
        let (f, u) = (f.share(), u.share_mut());
        let needed = Self::needed(relaxation);
        let mut scratch = self.scratch();
        let sums = Shared::of(&mut scratch.sums);
        let correct = |j: usize, _: &mut ChunkScratch<T>| self.correct_plane(j, needed, e_shared, u);
        let residual = |j: usize, s: &mut ChunkScratch<T>| self.residual_plane(j, unsolved, f, u, Some(r), sums, s);
        self.pass_around_sweep(&mut scratch, Some(&correct), relaxation, Guess::Given, f, u, Some(&residual));
        scalars.0[norm.index()] = Self::total(&scratch, 0);
        Ok(())
    }
}
