//! The fused steps: which kernels, in which order.

use std::any::Any;

use isobar_core::backend::{Backend, Ratio, Slot};
use isobar_core::error::Result;
use isobar_core::layout::{Colour, Layout};
use isobar_core::operator::{
    Direction, Guess, LineOperator, LineSolver, MultigridOperator, OnBackend, Operator, Relaxation, ascend_unfused,
};
use isobar_core::options::Smoother;
use isobar_core::real::{Precision, Real};

use super::TensorProduct;
use super::launches::Residuals;
use crate::cuda::Cuda;
use crate::driver::lock;
use crate::scalars::Scalars;
use crate::vector::Vector;

/// Whether a sweep overwrites columns whatever they hold, so that it can be fused with what comes before.
fn overwrites(relaxation: Relaxation) -> bool {
    relaxation.smoother == Smoother::LineRedBlack && relaxation.rho == 1.0
}

/// The residuals that a sweep leaves.
fn left_by(relaxation: Relaxation) -> Residuals {
    if overwrites(relaxation) && relaxation.first == Colour::Red { Residuals::Red } else { Residuals::All }
}

impl<T: Real> OnBackend<Cuda> for TensorProduct<T> {
    fn backend(&self) -> &Cuda {
        &self.cuda
    }
}

impl<T: Real> Operator<Cuda, T> for TensorProduct<T> {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn apply(&self, x: &Vector<T>, y: &mut Vector<T>) -> Result<()> {
        self.apply_to(x, y)
    }

    fn divide_by_diagonal(&self, r: &Vector<T>, z: &mut Vector<T>) -> Result<()> {
        self.divide(r, z)
    }

    fn residual(
        &self,
        f: &Vector<T>,
        u: &Vector<T>,
        r: &mut Vector<T>,
        norm: Slot,
        scalars: &mut Scalars,
    ) -> Result<()> {
        self.residual_of(Residuals::All, f, u, r, norm, scalars)
    }

    fn residual_norm(
        &self,
        f: &Vector<T>,
        u: &Vector<T>,
        _scratch: &mut Vector<T>,
        norm: Slot,
        scalars: &mut Scalars,
    ) -> Result<()> {
        self.residual_norm_of(Residuals::All, f, u, norm, scalars)
    }

    fn norm_needs_scratch(&self) -> bool {
        false
    }

    /// A second p: blocks update it while others still read the first.
    fn reserve_direction(&self) -> Result<usize> {
        let mut spare = lock(&self.spare);
        if spare.is_none() {
            *spare = Some(Vector::zeros(self.cuda.context(), &self.layout)?);
        }
        Ok(self.layout.len() * size_of::<T>())
    }

    fn advance_direction(
        &self,
        v: Direction<'_, Vector<T>>,
        alpha: Ratio,
        beta: Ratio,
        sigma: Slot,
        scalars: &mut Scalars,
    ) -> Result<()> {
        self.reserve_direction()?;
        if let Some(next) = lock(&self.spare).as_mut() {
            // What is p now becomes the one before.
            v.p.swap(next);
            self.advance([v.z, next], [v.u, v.p, v.q], [alpha, beta], sigma, scalars)?;
        }
        Ok(())
    }
}

impl<T: Real> LineSolver<Cuda, T> for TensorProduct<T> {
    fn solve_lines(&self, r: &Vector<T>, z: &mut Vector<T>) -> Result<()> {
        self.precondition(r, z)
    }

    fn precondition_residual(
        &self,
        r: &mut Vector<T>,
        q: &Vector<T>,
        z: &mut Vector<T>,
        alpha: Ratio,
        out: [Slot; 2],
        scalars: &mut Scalars,
    ) -> Result<()> {
        self.precondition_update(r, q, z, alpha, out, scalars)
    }
}

impl<T: Real> LineOperator<Cuda, T> for TensorProduct<T> {
    fn smooth(
        &self,
        relaxation: Relaxation,
        guess: Guess,
        f: &Vector<T>,
        u: &mut Vector<T>,
        scratch: &mut Vector<T>,
    ) -> Result<()> {
        let Relaxation { smoother, rho, first } = relaxation;
        let fused = overwrites(relaxation);
        if guess == Guess::Zero && !fused {
            self.cuda.clear(u)?;
        }
        match smoother {
            Smoother::LineJacobi => {
                self.relax_all(rho, f, u, scratch)?;
                u.swap(scratch);
                Ok(())
            }
            Smoother::LineRedBlack if fused => {
                match guess {
                    Guess::Zero => self.sweep_from_zero(first, f, u)?,
                    Guess::Given => self.sweep(first, f, u)?,
                }
                self.sweep(first.other(), f, u)
            }
            Smoother::LineRedBlack => {
                self.relax(rho, first, f, u)?;
                self.relax(rho, first.other(), f, u)
            }
        }
    }

    fn needs_scratch(&self, smoother: Smoother) -> bool {
        smoother == Smoother::LineJacobi
    }
}

impl<T: Real> MultigridOperator<Cuda, T> for TensorProduct<T> {
    fn restrict(&self, _coarse: &Self, f: &Vector<T>, coarse_f: &mut Vector<T>) -> Result<()> {
        self.restrict_field(f, coarse_f)
    }

    fn prolong(&self, _coarse: &Self, coarse_u: &Vector<T>, u: &mut Vector<T>) -> Result<()> {
        self.prolong_field(coarse_u, u)
    }

    fn residual_restrict(
        &self,
        _coarse: &Self,
        f: &Vector<T>,
        u: &Vector<T>,
        coarse_f: &mut Vector<T>,
        _scratch: &mut Vector<T>,
    ) -> Result<()> {
        self.restrict_residual(Residuals::All, f, u, coarse_f)
    }

    fn smooth_residual_restrict(
        &self,
        _coarse: &Self,
        relaxation: Relaxation,
        guess: Guess,
        f: &Vector<T>,
        u: &mut Vector<T>,
        coarse_f: &mut Vector<T>,
        scratch: &mut Vector<T>,
    ) -> Result<()> {
        self.smooth(relaxation, guess, f, u, scratch)?;
        match (left_by(relaxation), guess) {
            (Residuals::Red, Guess::Zero) => self.restrict_coupling(u, coarse_f),
            (which, _) => self.restrict_residual(which, f, u, coarse_f),
        }
    }

    fn prolong_smooth(
        &self,
        _coarse: &Self,
        relaxation: Relaxation,
        f: &Vector<T>,
        coarse_u: &Vector<T>,
        u: &mut Vector<T>,
        scratch: &mut Vector<T>,
        norm: Option<(Slot, &mut Scalars)>,
    ) -> Result<()> {
        if overwrites(relaxation) {
            self.prolong_sweep(relaxation.first, f, coarse_u, u)?;
            self.sweep(relaxation.first.other(), f, u)?;
        } else {
            self.prolong_field(coarse_u, u)?;
            self.smooth(relaxation, Guess::Given, f, u, scratch)?;
        }
        match norm {
            Some((slot, scalars)) => self.residual_norm_of(left_by(relaxation), f, u, slot, scalars),
            None => Ok(()),
        }
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
        scalars: &mut Scalars,
    ) -> Result<()> {
        if overwrites(relaxation) && self.can_correct::<S>() {
            self.correct_sweep(relaxation.first, f, e, u)?;
            self.sweep(relaxation.first.other(), f, u)?;
        } else {
            self.cuda.axpy(Ratio::ONE, e, u, scalars)?;
            self.smooth(relaxation, Guess::Given, f, u, scratch)?;
        }
        self.residual_of(left_by(relaxation), f, u, r, norm, scalars)
    }

    /// Where both precisions march, `r` then holds the change of a sweep instead, and e is half swept: see
    /// kernels/mixed.cu.
    fn ascend<S: Real, L: MultigridOperator<Cuda, S> + 'static>(
        &self,
        single: [&L; 2],
        relaxation: Relaxation,
        f: &Vector<T>,
        u: &mut Vector<T>,
        coarse_u: &Vector<S>,
        [e, r]: [&mut Vector<S>; 2],
        scratch: &mut Vector<T>,
        norm: Slot,
        scalars: &mut Scalars,
    ) -> Result<()> {
        match self.mixed(single[0], relaxation) {
            Some(finest) => {
                self.correct_sweep_change(f, [e, coarse_u], u, r)?;
                finest.sweep_red_from_change(r, e, norm, scalars)
            }
            None => ascend_unfused(self, single, relaxation, f, u, coarse_u, [e, r], scratch, norm, scalars),
        }
    }

    fn descend<S: Real, L: MultigridOperator<Cuda, S> + 'static>(
        &self,
        single: [&L; 2],
        relaxation: Relaxation,
        [e, r]: [&mut Vector<S>; 2],
        coarse_f: &mut Vector<S>,
        scratch: &mut Vector<S>,
    ) -> Result<()> {
        match self.mixed(single[0], relaxation) {
            Some(finest) => {
                finest.sweep_black_homogeneous(e)?;
                finest.restrict_coupling(e, coarse_f)
            }
            None => single[0].smooth_residual_restrict(single[1], relaxation, Guess::Zero, r, e, coarse_f, scratch),
        }
    }
}

impl<T: Real> TensorProduct<T> {
    /// The finest grid's operator in single precision, where the kernels of mixed.cu do for both.
    fn mixed<'a, S: Real>(&self, single: &'a dyn Any, relaxation: Relaxation) -> Option<&'a TensorProduct<S>> {
        let single = single.downcast_ref::<TensorProduct<S>>()?;
        let mixed = (T::PRECISION, S::PRECISION) == (Precision::F64, Precision::F32);
        let march = self.march.is_some() && single.march.is_some();
        (mixed && march && left_by(relaxation) == Residuals::Red).then_some(single)
    }
}
