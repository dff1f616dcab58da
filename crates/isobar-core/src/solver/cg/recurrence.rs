//! The recurrence of conjugate gradients.

use std::sync::Arc;

use super::UNUSED;
use super::observation::Due;
use super::steps::Steps;
use crate::backend::AggregateBackend;
use crate::operator::{Diagonal, Direction, ResidualUpdate};
use crate::precond::Preconditioner;
use crate::{Ratio, Real, Result, Scalar, Sums};

/// ρ = ⟨r, z⟩ and ‖r‖² before even and before odd iterations.
const RHO_NORM: [Sums<2>; 2] = [Sums::new(0), Sums::new(2)];
/// ρ
pub(super) const RHO: [Scalar; 2] = [RHO_NORM[0].get(0), RHO_NORM[1].get(0)];
/// ‖r‖², or ‖D^−½ r‖²
pub(super) const NORM: [Scalar; 2] = [RHO_NORM[0].get(1), RHO_NORM[1].get(1)];
/// σ = ⟨p, q⟩ of even and odd iterations.
pub(super) const SIGMA: [Scalar; 2] = [Scalar::new(4), Scalar::new(5)];
/// ⟨z, q⟩ of even and odd iterations.
const ZQ: [Scalar; 2] = [Scalar::new(6), Scalar::new(7)];

/// The vectors of an iteration and the steps that change them.
pub(super) struct Recurrence<B: AggregateBackend, T: Real, S: Real> {
    pub(super) backend: B,
    pub(super) steps: Box<dyn Steps<B, T, S>>,
    pub(super) preconditioner: Box<dyn Preconditioner<B, S>>,
    /// The diagonal D, and D⁻¹ r, if the norm is ‖D^−½ r‖.
    pub(super) scaled: Option<(Arc<dyn Diagonal<B, S>>, B::Vector<S>)>,
    pub(super) r: B::Vector<S>,
    /// M⁻¹ r, unless M = 1.
    pub(super) z: Option<B::Vector<S>>,
    /// The p of even iterations, or of all.
    p: B::Vector<T>,
    /// The p of odd iterations, if the operator cannot advance p in place.
    pub(super) p_odd: Option<B::Vector<T>>,
    q: B::Vector<S>,
}

impl<B: AggregateBackend, T: Real, S: Real> Recurrence<B, T, S> {
    pub(super) fn new(steps: Box<dyn Steps<B, T, S>>, preconditioner: Box<dyn Preconditioner<B, S>>) -> Result<Self> {
        let backend = steps.operator().backend().clone();
        let layout = *steps.operator().layout();
        let needs_next = steps.needs_next_direction()?;
        let has_z = !preconditioner.is_identity() || steps.rounds();
        Ok(Self {
            preconditioner,
            scaled: None,
            r: backend.zeros(&layout)?,
            z: has_z.then(|| backend.zeros(&layout)).transpose()?,
            p: backend.zeros(&layout)?,
            p_odd: needs_next.then(|| backend.zeros(&layout)).transpose()?,
            q: backend.zeros(&layout)?,
            steps,
            backend,
        })
    }

    /// Returns the scalars of the norms that are watched: those of ‖r‖² are ρ's where z is r.
    pub(super) fn watched(&self) -> [Scalar; 2] {
        if self.z.is_none() && self.scaled.is_none() { RHO } else { NORM }
    }

    /// Prepares iteration 0: z = M⁻¹ r, and α and β without effect.
    pub(super) fn start(&mut self, b: &B::Vector<T>, u: &mut B::Vector<T>, scalars: &mut B::Scalars) -> Result<()> {
        self.steps.correct_before((b, u, &mut self.r), NORM[0].of(scalars))?;
        // With p = q = 0 the very first α and β have no effect: no iteration is special. Iteration 0 advances from the
        // direction of odd iterations, where these have one of their own.
        self.backend.clear(self.p_odd.as_mut().unwrap_or(&mut self.p))?;
        self.backend.clear(&mut self.q)?;
        self.backend.set(scalars, RHO[1], 1.0)?;
        self.backend.set(scalars, SIGMA[1], 1.0)?;
        self.backend.set(scalars, ZQ[0], 0.0)?;
        self.update_residual(Ratio::ZERO, 0, scalars)
    }

    /// Runs iteration n, which depends on n through its parity alone.
    pub(super) fn iterate(&mut self, n: usize, u: &mut B::Vector<T>, scalars: &mut B::Scalars) -> Result<()> {
        let (now, next) = (n % 2, (n + 1) % 2);
        let is_variable = self.preconditioner.is_variable();
        let (p, after) = match &mut self.p_odd {
            None => (&mut self.p, None),
            Some(odd) if now == 0 => (odd, Some(&mut self.p)),
            Some(odd) => (&mut self.p, Some(odd)),
        };
        let direction = Direction {
            u,
            p,
            next: after,
            z: self.z.as_mut().unwrap_or(&mut self.r),
            q: &mut self.q,
            alpha: Ratio::new(RHO[next], SIGMA[next]),
            beta: if is_variable {
                Ratio::new(ZQ[now], SIGMA[next]).negated()
            } else {
                Ratio::new(RHO[now], RHO[next])
            },
            sigma: SIGMA[now],
        };
        self.steps.advance(direction, scalars)?;
        self.update_residual(Ratio::new(RHO[now], SIGMA[now]), next, scalars)?;
        if is_variable {
            self.sum_zq(next, scalars)?;
        }
        if self.scaled.is_some() {
            self.scaled_norm(next, scalars)?;
        }
        Ok(())
    }

    /// r −= αq;  z = M⁻¹ r;  ρ and ‖r‖² of this parity.
    fn update_residual(&mut self, alpha: Ratio, parity: usize, scalars: &mut B::Scalars) -> Result<()> {
        let Self { backend, preconditioner, r, z, q, .. } = self;
        let Some(z) = z else { return backend.axpy_norm(alpha.negated(), q, r, RHO[parity].of(scalars)) };
        preconditioner.precondition_residual(ResidualUpdate { r, q: &*q, z, alpha, out: RHO_NORM[parity] }, scalars)
    }

    /// Computes ⟨z, q⟩ of this parity.
    fn sum_zq(&self, parity: usize, scalars: &mut B::Scalars) -> Result<()> {
        self.backend.dot(self.z.as_ref().unwrap_or(&self.r), &self.q, ZQ[parity].of(scalars))
    }

    /// Computes ‖D^−½ r‖² of this parity.
    pub(super) fn scaled_norm(&mut self, parity: usize, scalars: &mut B::Scalars) -> Result<()> {
        let Some((diagonal, scaled)) = &mut self.scaled else { return Ok(()) };
        diagonal.divide_by_diagonal(&self.r, scaled)?;
        self.backend.dot(&self.r, scaled, NORM[parity].of(scalars))
    }

    /// u += αp with the numbers of an iteration of this parity.
    pub(super) fn advance_u(&self, parity: usize, u: &mut B::Vector<T>, scalars: &B::Scalars) -> Result<()> {
        let p = match &self.p_odd {
            Some(odd) if parity == 1 => odd,
            _ => &self.p,
        };
        self.backend.axpy(Ratio::new(RHO[parity], SIGMA[parity]), p, u, scalars)
    }

    /// Computes r = b − A u again after an iteration of parity `last`, and z if that is due too.
    pub(super) fn renew(
        &mut self,
        due: Due,
        last: usize,
        [b, u]: [&mut B::Vector<T>; 2],
        scalars: &mut B::Scalars,
    ) -> Result<()> {
        self.advance_u(last, u, scalars)?;
        self.steps.residual((b, u, &mut self.r), UNUSED.of(scalars))?;
        let is_variable = self.preconditioner.is_variable();
        // u has this α already: the next step adds nothing. β reads the other number of the two.
        let (scalar, value) = if is_variable { (RHO[last], 0.0) } else { (SIGMA[last], f64::INFINITY) };
        self.backend.set(scalars, scalar, value)?;
        if due == Due::Both {
            self.update_residual(Ratio::ZERO, 1 - last, scalars)?;
            if is_variable {
                self.sum_zq(1 - last, scalars)?;
            }
        }
        Ok(())
    }
}
