//! Steps as long as their estimated error allows.

use super::super::Step;
use super::super::adaptive::{self, Control};
use super::{ERROR, HeatStepper, PRODUCT, STATE, THREE, TWO};
use crate::options::Scheme;
use crate::outcome::Outcome;
use crate::solver::Observer;
use crate::stencil::{Diffusion, Supports};
use crate::{Ratio, Result, Scalar};

impl<B: Supports<Diffusion>> HeatStepper<B> {
    /// Takes a step as long as its estimated error allows.
    pub(super) fn step_within(&mut self, control: &mut Control<B>, observer: &mut Observer<'_>) -> Result<Step> {
        let (tolerance, end) = (control.tolerance, self.options.steps.end);
        let (mut iterations, mut rejected, mut notes) = (0, 0, Vec::new());
        loop {
            let (dt, is_last) = adaptive::length(self.wanted, [self.time, end], rejected, tolerance)?;
            if dt != self.dt {
                self.change(None, dt)?;
            }
            self.set_rhs(None)?;
            self.set_guess()?;
            let mut first = self.solve(observer)?;
            iterations += first.iterations;
            // Those of rejected lengths stay.
            first.notes.splice(0..0, notes.drain(..));
            let time = if is_last { end } else { self.time + dt };
            let number = self.taken + 1;
            let step = Step { number, time, dt, error: None, rejected, iterations, outcome: first, is_taken: false };
            if !step.outcome.converged() {
                return Ok(step);
            }
            let (error, mut outcome) = self.estimate(control, &mut iterations, observer)?;
            let mut step = step;
            let all = [std::mem::take(&mut step.outcome.notes), std::mem::take(&mut outcome.notes)].concat();
            let Some(error) = error else {
                outcome.notes = all;
                return Ok(Step { outcome, iterations, ..step });
            };
            let next = adaptive::next_length(self.options.scheme, dt, error, tolerance, rejected == 0);
            if error > tolerance || error.is_nan() {
                rejected += 1;
                notes = all;
                self.wanted = next;
                continue;
            }
            // A step shortened by the end does not determine later lengths.
            if !is_last {
                self.wanted = next;
            }
            self.backend.convert(&control.states[0], self.system.solution_mut())?;
            self.advance()?;
            (self.taken, self.time) = (number, time);
            step.outcome.notes = all;
            return Ok(Step { error: Some(error), iterations, is_taken: true, ..step });
        }
    }

    /// Estimates the error of a step from its solution, which is copied to the first of the control's states, by
    /// further solves; returns the outcome of a solve that did not converge instead.
    fn estimate(
        &mut self,
        control: &mut Control<B>,
        iterations: &mut usize,
        observer: &mut Observer<'_>,
    ) -> Result<(Option<f64>, Outcome)> {
        let [first, second] = &mut control.states;
        self.backend.convert(self.system.solution(), first)?;
        // 2w − u is the linear extrapolation.
        self.extrapolate(None)?;
        self.set_rhs(Some(first))?;
        let mut outcome = self.solve(observer)?;
        *iterations += outcome.iterations;
        let is_third = self.options.scheme == Scheme::CrankNicolson;
        if is_third && outcome.converged() {
            self.backend.convert(self.system.solution(), second)?;
            self.extrapolate(Some(first))?;
            self.set_rhs(Some(second))?;
            let notes = std::mem::take(&mut outcome.notes);
            outcome = self.solve(observer)?;
            outcome.notes.splice(0..0, notes);
            *iterations += outcome.iterations;
        }
        if !outcome.converged() {
            return Ok((None, outcome));
        }
        let Self { backend, system, u, scalars, .. } = self;
        let w = system.solution_mut();
        let [two, three] = [TWO, THREE].map(|scalar| Ratio::new(scalar, Scalar::ONE));
        if is_third {
            // w₃ − 3w₂ + 3w₁ − u
            backend.axpy(three.negated(), second, w, scalars)?;
            backend.axpy(three, first, w, scalars)?;
            backend.axpy(Ratio::ONE.negated(), u, w, scalars)?;
        } else {
            // w₂ − 2w₁ + u
            backend.axpy(two.negated(), first, w, scalars)?;
            backend.axpy(Ratio::ONE, u, w, scalars)?;
        }
        let factor = if is_third { 2.0 / 3.0 } else { 0.5 };
        let error = factor * adaptive::ratio(backend, [&*u, &*first, &*w], second, scalars, [STATE, PRODUCT, ERROR])?;
        Ok((Some(if error.is_nan() { f64::INFINITY } else { error }), outcome))
    }

    /// Computes w := 2w − before, w the current solution, and u as `before` by default.
    fn extrapolate(&mut self, before: Option<&B::Vector<f64>>) -> Result<()> {
        let Self { backend, system, u, scalars, .. } = self;
        let w = system.solution_mut();
        backend.scale(2.0, w)?;
        backend.axpy(Ratio::ONE.negated(), before.unwrap_or(u), w, scalars)
    }
}
