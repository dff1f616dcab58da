//! Preconditioned conjugate gradients.

use super::{Iteration, Monitor, StepTraffic};
use crate::backend::{Backend, Ratio, Slot};
use crate::deflation::Projection;
use crate::error::Result;
use crate::layout::Layout;
use crate::operator::{Direction, Guess, Operator, advance_direction_unfused};
use crate::options::Norm;
use crate::precond::Preconditioner;
use crate::real::Real;
use crate::traffic;

/// How the iteration is put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Two passes over the grid an iteration (paper B, section 3.1).
    Fused,
    /// One vector operation after another, as in a textbook; for comparison.
    Textbook,
}

/// Conjugate gradients for a symmetric positive definite A (Hestenes and Stiefel, 1952), with a
/// preconditioner M:
///
/// ```text
/// u += αp;  p = z + βp;  q = A p;  σ = ⟨p, q⟩           (the operator's step)
/// r −= αq;  z = M⁻¹ r;  ρ = ⟨r, z⟩;  ‖r‖²               (the preconditioner's step)
/// α = ρ/σ,  β = ρ/ρ_before
/// ```
///
/// The update of u lags one iteration behind, which lets it share a pass with that of p. Where the
/// preconditioner varies or is not symmetric (a multigrid cycle), β = −⟨z, q⟩/σ instead (Golub and
/// Ye, 1999), which costs one more inner product.
///
/// With a [`Projection`] they are the deflated conjugate gradients of paper D (algorithm 1): q = P A p, and
/// u is corrected in the deflation space before and after.
///
/// Storage: 4 n-vectors (r, z, p, q) beside b and u, on CUDA a fifth, since there p is not updated in
/// place, and one for the norm ‖D^−½ r‖ where that is asked for.
pub struct Cg<B: Backend, A, M, T: Real> {
    backend: B,
    form: Form,
    operator: A,
    preconditioner: M,
    projection: Option<Box<dyn Projection<B, T>>>,
    /// D⁻¹ r, where the norm is ‖D^−½ r‖.
    scaled: Option<B::Vector<T>>,
    r: B::Vector<T>,
    z: B::Vector<T>,
    p: B::Vector<T>,
    q: B::Vector<T>,
    scalars: B::Scalars,
    layout: Layout,
    /// Of the operator, for its step.
    reserved_bytes: usize,
}

/// ρ = ⟨r, z⟩ of even and odd iterations.
const RHO: [Slot; 2] = [Slot::new(0), Slot::new(1)];
/// σ = ⟨p, q⟩ of even and odd iterations.
const SIGMA: [Slot; 2] = [Slot::new(2), Slot::new(3)];
/// ‖r‖²
const NORM: Slot = Slot::new(4);
/// ⟨z, q⟩ of even and odd iterations.
const ZQ: [Slot; 2] = [Slot::new(5), Slot::new(6)];

impl<B: Backend + Clone, A: Operator<B, T>, M: Preconditioner<B, T>, T: Real> Cg<B, A, M, T> {
    /// Makes the workspace.
    ///
    /// # Errors
    /// Where it does not fit in memory.
    pub fn new(form: Form, operator: A, preconditioner: M) -> Result<Self> {
        let backend = operator.backend().clone();
        let layout = *operator.layout();
        let zeros = || backend.zeros::<T>(&layout);
        let reserved_bytes = if form == Form::Fused { operator.reserve_direction()? } else { 0 };
        Ok(Self {
            reserved_bytes,
            form,
            preconditioner,
            projection: None,
            scaled: None,
            r: zeros()?,
            z: zeros()?,
            p: zeros()?,
            q: zeros()?,
            scalars: backend.scalars()?,
            operator,
            backend,
            layout,
        })
    }

    /// With deflation.
    #[must_use]
    pub fn deflated(self, projection: Option<Box<dyn Projection<B, T>>>) -> Self {
        Self { projection, ..self }
    }

    /// Watching ‖D^−½ r‖ where `norm` asks for that, instead of ‖r‖.
    ///
    /// # Errors
    /// Where one more vector does not fit in memory.
    pub fn watching(self, norm: Norm) -> Result<Self> {
        let scaled = (norm == Norm::Scaled).then(|| self.backend.zeros(&self.layout)).transpose()?;
        Ok(Self { scaled, ..self })
    }
}

impl<B: Backend + Clone, A: Operator<B, T>, M: Preconditioner<B, T>, T: Real> Iteration<B, T> for Cg<B, A, M, T> {
    fn run(&mut self, b: &B::Vector<T>, u: &mut B::Vector<T>, guess: Guess, monitor: &mut Monitor<'_>) -> Result<()> {
        let Self { backend, operator, preconditioner, projection, scaled, form, r, z, p, q, scalars, .. } = self;
        let (variable, form) = (preconditioner.is_variable(), *form);
        if guess == Guess::Zero {
            backend.clear(u)?;
            backend.convert(b, r)?;
        } else {
            operator.residual(b, u, r, NORM, scalars)?;
        }
        if let Some(projection) = projection {
            projection.correct(r, u)?;
            operator.residual(b, u, r, NORM, scalars)?;
        }
        // With p = q = 0 the very first α and β act on nothing: no iteration is special.
        backend.clear(p)?;
        backend.clear(q)?;
        backend.set(scalars, RHO[1], 1.0)?;
        backend.set(scalars, SIGMA[1], 1.0)?;
        backend.set(scalars, ZQ[0], 0.0)?;
        preconditioner.precondition_residual(r, q, z, Ratio::ZERO, [RHO[0], NORM], scalars)?;

        let mut parity = 0;
        let on_host = projection.as_ref().is_some_and(|projection| projection.needs_host());
        let iterate = if on_host { B::iterate_stepwise } else { B::iterate };
        iterate(
            backend,
            scalars,
            &mut |n, scalars| {
                let (now, next) = (n % 2, (n + 1) % 2);
                let alpha_before = Ratio::new(RHO[next], SIGMA[next]);
                let alpha = Ratio::new(RHO[now], SIGMA[now]);
                let beta =
                    if variable { Ratio::new(ZQ[now], SIGMA[next]).negated() } else { Ratio::new(RHO[now], RHO[next]) };
                let direction = Direction { u: &mut *u, p: &mut *p, z, q: &mut *q };
                match form {
                    Form::Fused => operator.advance_direction(direction, alpha_before, beta, SIGMA[now], scalars)?,
                    Form::Textbook => {
                        advance_direction_unfused(operator, direction, alpha_before, beta, SIGMA[now], scalars)?;
                    }
                }
                if let Some(projection) = projection {
                    projection.project(p, q, SIGMA[now], scalars)?;
                }
                let out = [RHO[next], NORM];
                match form {
                    Form::Fused => preconditioner.precondition_residual(r, q, z, alpha, out, scalars)?,
                    Form::Textbook => {
                        backend.axpy(alpha.negated(), q, r, scalars)?;
                        preconditioner.apply(r, z)?;
                        backend.dot(r, z, out[0], scalars)?;
                        backend.dot(r, r, out[1], scalars)?;
                    }
                }
                if variable {
                    backend.dot(z, q, ZQ[next], scalars)?;
                }
                if let Some(scaled) = scaled {
                    operator.divide_by_diagonal(r, scaled)?;
                    backend.dot(r, scaled, NORM, scalars)?;
                }
                Ok(())
            },
            &mut |bank| {
                let now = parity;
                parity = 1 - parity;
                let norm = bank[NORM.index()];
                let flow = monitor.observe(norm);
                // pᵀAp ≤ 0 or rᵀM⁻¹r ≤ 0 away from the solution: A or M is not positive definite.
                let [rho, rho_next] = [RHO[now], RHO[1 - now]].map(|slot| bank[slot.index()]);
                let sigma = bank[SIGMA[now].index()];
                let definite = sigma > 0.0 && rho_next > 0.0;
                if !variable && definite {
                    monitor.note_coefficients(rho / sigma, rho_next / rho);
                }
                if flow.is_continue() && !definite && norm.is_finite() { monitor.break_down() } else { flow }
            },
        )?;
        // The last α was never applied to u. `parity` counts the iterations observed.
        let last = 1 - parity;
        backend.axpy(Ratio::new(RHO[last], SIGMA[last]), p, u, scalars)?;
        if let Some(projection) = projection {
            operator.residual(b, u, r, NORM, scalars)?;
            projection.correct(r, u)?;
        }
        Ok(())
    }

    fn traffic(&self) -> Vec<StepTraffic> {
        let coefficient_vectors = self.operator.coefficient_vectors();
        let cells = self.layout.shape().cells();
        let step = |step, count| StepTraffic { step, cells, size: size_of::<T>(), coefficient_vectors, count };
        let mut steps = match self.form {
            Form::Fused => vec![step(traffic::ADVANCE_DIRECTION, 1.0)],
            // u += αp;  p = z + βp;  q = A p;  r −= αq, and ⟨p, q⟩, ⟨r, z⟩, ‖r‖².
            Form::Textbook => vec![
                step(traffic::APPLY, 1.0),
                step(traffic::AXPY, 2.0),
                step(traffic::XPAY, 1.0),
                step(traffic::DOT, 2.0),
                step(traffic::NORM, 1.0),
            ],
        };
        if self.projection.is_some() {
            steps.push(step(traffic::PROJECT, 1.0));
        }
        if self.scaled.is_some() {
            steps.extend([step(traffic::DIVIDE_BY_DIAGONAL, 1.0), step(traffic::DOT, 1.0)]);
        }
        steps.extend(match self.form {
            Form::Fused => self.preconditioner.traffic(&self.layout),
            Form::Textbook => self.preconditioner.apply_traffic(&self.layout),
        });
        steps
    }

    fn workspace_bytes(&self) -> usize {
        let vectors = if self.scaled.is_some() { 5 } else { 4 };
        vectors * self.layout.len() * size_of::<T>() + self.reserved_bytes + self.preconditioner.workspace_bytes()
    }
}
