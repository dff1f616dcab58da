//! Preconditioned conjugate gradients.

use std::ops::ControlFlow;
use std::sync::Arc;

use super::monitor::Broken;
use super::{Iteration, Run};
use crate::backend::{AggregateBackend, Backend, Iterations};
use crate::operator::{Diagonal, Direction, Guess, Operator, ResidualUpdate, advance_direction_unfused};
use crate::options::Form;
use crate::precond::{Deflation, Preconditioner};
use crate::traffic::{self, StepTraffic};
use crate::{Ratio, Real, Result, Scalar, Sums};

/// Conjugate gradients for a symmetric positive definite A (Hestenes and Stiefel, 1952), with a preconditioner M:
///
/// ```text
/// u += αp;  p = z + βp;  q = A p;  σ = ⟨p, q⟩           (the operator's step)
/// r −= αq;  z = M⁻¹ r;  ρ = ⟨r, z⟩;  ‖r‖²               (the preconditioner's step)
/// α = ρ/σ,  β = ρ/ρ_before
/// ```
///
/// The update of u lags one iteration behind, which lets it share a pass with that of p. Where the preconditioner varies or is
/// not symmetric (a multigrid cycle), β = −⟨z, q⟩/σ instead (Golub and Ye, 1999), which costs one more inner product.
///
/// With a [`Deflation`] this is paper D's deflated conjugate gradients (algorithm 1): q = P A p, and u is corrected in
/// the deflation space before and after.
///
/// Storage: 4 n-vectors (r, z, p, q) besides b and u, a fifth where the operator does not advance p in place (CUDA),
/// and one for the norm ‖D^−½ r‖ where it is used.
pub struct Cg<B: AggregateBackend, T: Real> {
    backend: B,
    form: Form,
    operator: Arc<dyn Operator<B, T>>,
    preconditioner: Box<dyn Preconditioner<B, T>>,
    deflation: Option<Deflation<B, T>>,
    /// D, and D⁻¹ r, where the norm is ‖D^−½ r‖.
    scaled: Option<(Arc<dyn Diagonal<B, T>>, B::Vector<T>)>,
    r: B::Vector<T>,
    z: B::Vector<T>,
    /// p of even iterations, or of all.
    p: B::Vector<T>,
    /// p of odd iterations, where the operator cannot advance p in place.
    p_odd: Option<B::Vector<T>>,
    q: B::Vector<T>,
    scalars: B::Scalars,
}

/// Vectors of every [`Cg`]: r, z, p and q.
pub const VECTORS: usize = 4;

/// ρ = ⟨r, z⟩ and ‖r‖² before even and before odd iterations.
const RHO_NORM: [Sums<2>; 2] = [Sums::new(0), Sums::new(2)];
const RHO: [Scalar; 2] = [RHO_NORM[0].get(0), RHO_NORM[1].get(0)];
/// ‖r‖², or ‖D^−½ r‖²
const NORM: [Scalar; 2] = [RHO_NORM[0].get(1), RHO_NORM[1].get(1)];
/// σ = ⟨p, q⟩ of even and odd iterations.
const SIGMA: [Scalar; 2] = [Scalar::new(4), Scalar::new(5)];
/// ⟨z, q⟩ of even and odd iterations.
const ZQ: [Scalar; 2] = [Scalar::new(6), Scalar::new(7)];

/// ‖z‖² at the end.
const CORRECTION: Scalar = Scalar::new(8);

impl<B: AggregateBackend, T: Real> Cg<B, T> {
    /// Makes the workspace.
    pub fn new(
        form: Form,
        operator: Arc<dyn Operator<B, T>>,
        preconditioner: Box<dyn Preconditioner<B, T>>,
    ) -> Result<Self> {
        let backend = operator.backend().clone();
        let layout = *operator.layout();
        let zeros = || backend.zeros::<T>(&layout);
        let needs_next = form == Form::Fused && operator.needs_next_direction(preconditioner.is_single())?;
        Ok(Self {
            form,
            preconditioner,
            deflation: None,
            scaled: None,
            r: zeros()?,
            z: zeros()?,
            p: zeros()?,
            p_odd: needs_next.then(zeros).transpose()?,
            q: zeros()?,
            scalars: backend.scalars()?,
            operator,
            backend,
        })
    }

    /// Adds deflation.
    #[must_use]
    pub fn deflated(self, deflation: Option<Deflation<B, T>>) -> Self {
        Self { deflation, ..self }
    }

    /// Makes the iteration watch ‖D^−½ r‖ instead of ‖r‖.
    ///
    /// # Errors
    /// Where one more vector does not fit in memory.
    pub fn watching_scaled(self, diagonal: Arc<dyn Diagonal<B, T>>) -> Result<Self> {
        let vector = self.backend.zeros(diagonal.layout())?;
        Ok(Self { scaled: Some((diagonal, vector)), ..self })
    }

    /// Computes ‖r‖² or ‖D^−½ r‖² of the current r.
    fn norm(&mut self) -> Result<f64> {
        let Self { backend, scaled, r, scalars, .. } = self;
        match scaled {
            Some((diagonal, scaled)) => {
                diagonal.divide_by_diagonal(r, scaled)?;
                backend.dot(r, scaled, NORM[0].of(scalars))?;
            }
            None => backend.dot(r, r, NORM[0].of(scalars))?,
        }
        Ok(backend.read(scalars)?[NORM[0].index()])
    }
}

/// Converts to z what [`Preconditioner::precondition_residual`] left in single precision, if it did.
fn widen<B: Backend, T: Real>(preconditioner: &mut dyn Preconditioner<B, T>, z: &mut B::Vector<T>) -> Result<()> {
    let backend = preconditioner.backend().clone();
    preconditioner.single_z().map_or(Ok(()), |single| backend.convert(single, z))
}

impl<B: AggregateBackend, T: Real> Iteration<B, T> for Cg<B, T> {
    fn begin(&mut self, b: &B::Vector<T>, u: &mut B::Vector<T>, guess: Guess) -> Result<Option<f64>> {
        if guess == Guess::Zero {
            self.backend.clear(u)?;
            self.backend.convert(b, &mut self.r)?;
            return Ok(None);
        }
        self.operator.residual(b, [u, &mut self.r], NORM[0].of(&mut self.scalars))?;
        let norm = match self.scaled {
            Some(_) => self.norm()?,
            None => self.backend.read(&self.scalars)?[NORM[0].index()],
        };
        Ok(Some(norm.sqrt()))
    }

    fn run(&mut self, run: Run<'_, '_, B, T>) -> Result<()> {
        let Run { b, u, mut best, monitor, .. } = run;
        let Self { backend, operator, preconditioner, deflation, scaled, form, r, z, p, p_odd, q, scalars } = self;
        let (variable, form) = (preconditioner.is_variable(), *form);
        if let Some(deflation) = deflation {
            for _ in 0..deflation.passes() {
                deflation.correct(r, u)?;
                operator.residual(b, [u, r], NORM[0].of(scalars))?;
            }
        }
        // With p = q = 0 the very first α and β have no effect: no iteration is special. Iteration 0 advances from the
        // direction of odd iterations, where these have one of their own.
        backend.clear(p_odd.as_mut().unwrap_or(p))?;
        backend.clear(q)?;
        backend.set(scalars, RHO[1], 1.0)?;
        backend.set(scalars, SIGMA[1], 1.0)?;
        backend.set(scalars, ZQ[0], 0.0)?;
        let first = ResidualUpdate { r: &mut *r, q: &*q, z: &mut *z, alpha: Ratio::ZERO, out: RHO_NORM[0] };
        preconditioner.precondition_residual(first, scalars)?;
        // Whether z stays in single precision; unfused steps and ⟨z, q⟩ read it in that of q.
        let is_single = form == Form::Fused && !variable && preconditioner.is_single();
        if !is_single {
            widen(&mut **preconditioner, z)?;
        }

        let on_host = operator.needs_host()
            || preconditioner.needs_host()
            || deflation.as_ref().is_some_and(Deflation::needs_host);
        let how = Iterations { on_host, ..Iterations::default() };
        let mut taken = 0;
        let mut is_sound = true;
        loop {
            let before = taken;
            let mut is_paused = false;
            backend.iterate(
                how,
                scalars,
                &mut |n, scalars| {
                    let (now, next) = ((before + n) % 2, (before + n + 1) % 2);
                    let alpha_before = Ratio::new(RHO[next], SIGMA[next]);
                    let alpha = Ratio::new(RHO[now], SIGMA[now]);
                    let beta = if variable {
                        Ratio::new(ZQ[now], SIGMA[next]).negated()
                    } else {
                        Ratio::new(RHO[now], RHO[next])
                    };
                    let (before, after) = match p_odd {
                        None => (&mut *p, None),
                        Some(odd) if now == 0 => (&mut *odd, Some(&mut *p)),
                        Some(odd) => (&mut *p, Some(&mut *odd)),
                    };
                    let direction = Direction {
                        u: &mut *u,
                        p: before,
                        next: after,
                        z: &mut *z,
                        q: &mut *q,
                        alpha: alpha_before,
                        beta,
                        sigma: SIGMA[now],
                    };
                    match (form, preconditioner.single_z().filter(|_| is_single)) {
                        (_, Some(single)) => operator.advance_direction_single(direction.with_z(single), scalars)?,
                        (Form::Fused, _) => operator.advance_direction(direction, scalars)?,
                        (Form::Textbook, _) => advance_direction_unfused(&**operator, direction, scalars)?,
                    }
                    if let Some(deflation) = deflation {
                        let p = match p_odd {
                            Some(odd) if now == 1 => odd,
                            _ => &mut *p,
                        };
                        deflation.project(p, q, SIGMA[now].of(scalars))?;
                    }
                    let out = RHO_NORM[next];
                    match form {
                        Form::Fused => {
                            let update = ResidualUpdate { r: &mut *r, q: &*q, z: &mut *z, alpha, out };
                            preconditioner.precondition_residual(update, scalars)?;
                        }
                        Form::Textbook => {
                            backend.axpy(alpha.negated(), q, r, scalars)?;
                            preconditioner.apply(r, z)?;
                            backend.dot(r, z, out.get(0).of(scalars))?;
                            backend.dot(r, r, out.get(1).of(scalars))?;
                        }
                    }
                    if variable {
                        widen(&mut **preconditioner, z)?;
                        backend.dot(z, q, ZQ[next].of(scalars))?;
                    }
                    if let Some((diagonal, scaled)) = scaled {
                        diagonal.divide_by_diagonal(r, scaled)?;
                        backend.dot(r, scaled, NORM[next].of(scalars))?;
                    }
                    Ok(())
                },
                &mut |bank| {
                    let now = taken % 2;
                    taken += 1;
                    let norm = bank[NORM[1 - now].index()];
                    let flow = monitor.observe(norm);
                    // pᵀAp ≤ 0 or rᵀM⁻¹r ≤ 0 away from the solution: not positive definite, perhaps by rounding.
                    let [rho, rho_next] = [RHO[now], RHO[1 - now]].map(|scalar| bank[scalar.index()]);
                    let sigma = bank[SIGMA[now].index()];
                    let definite = sigma > 0.0 && rho_next > 0.0;
                    if !variable && definite {
                        monitor.note_coefficients(rho / sigma, rho_next / rho);
                    }
                    is_sound = norm.is_finite();
                    if flow.is_continue() && !definite && is_sound {
                        is_sound = sigma > 0.0;
                        return monitor.break_down(if is_sound {
                            Broken::Preconditioner { rho: rho_next }
                        } else {
                            Broken::Direction { sigma, rho }
                        });
                    }
                    is_paused = best.is_some() && monitor.is_leaving_the_best();
                    if is_paused || monitor.is_slow() { ControlFlow::Break(()) } else { flow }
                },
            )?;
            match &mut best {
                Some(best) if is_paused => {
                    // The update of u lags one iteration behind.
                    backend.convert(u, best)?;
                    monitor.note_kept(1);
                }
                _ => break,
            }
        }
        // Applies the last α to u, unless it is not a number.
        if is_sound && taken > 0 {
            let last = (taken - 1) % 2;
            let p = match p_odd {
                Some(odd) if last == 1 => odd,
                _ => p,
            };
            backend.axpy(Ratio::new(RHO[last], SIGMA[last]), p, u, scalars)?;
        }
        if !variable {
            if is_single {
                widen(&mut **preconditioner, z)?;
            }
            preconditioner.project_out(z)?;
            backend.dot(z, z, CORRECTION.of(scalars))?;
            let norm = backend.read(scalars)?[CORRECTION.index()].sqrt();
            monitor.note_correction(norm, preconditioner.is_strong());
        }
        if let Some(deflation) = deflation {
            operator.residual(b, [u, r], NORM[0].of(scalars))?;
            deflation.correct(r, u)?;
        }
        Ok(())
    }

    fn precondition(&mut self, r: &mut B::Vector<T>, z: &mut B::Vector<T>) -> Result<()> {
        self.preconditioner.apply(r, z)
    }

    fn preconditions_symmetrically(&self) -> bool {
        !self.preconditioner.is_variable()
    }

    fn choose(&mut self, rank: usize) -> Option<&'static str> {
        self.preconditioner.choose(rank)
    }

    fn update(&mut self) -> Result<()> {
        if let Some(deflation) = &mut self.deflation {
            deflation.update()?;
        }
        self.preconditioner.update()
    }

    fn another(&self) -> Result<Option<Box<dyn Iteration<B, T>>>> {
        let preconditioner = if self.deflation.is_none() { self.preconditioner.another()? } else { None };
        let Some(preconditioner) = preconditioner else { return Ok(None) };
        let cg = Self::new(self.form, Arc::clone(&self.operator), preconditioner)?;
        Ok(Some(Box::new(match &self.scaled {
            Some((diagonal, _)) => cg.watching_scaled(Arc::clone(diagonal))?,
            None => cg,
        })))
    }

    fn traffic(&self) -> Vec<StepTraffic> {
        let cells = self.operator.layout().shape().cells();
        let vectors = self.operator.coefficient_vectors();
        let step = |step, count| StepTraffic::once::<T>(step, cells).with_coefficients(vectors).times(count);
        let mut steps = match self.form {
            Form::Fused if self.preconditioner.is_single() => vec![step(traffic::ADVANCE_DIRECTION_SINGLE, 1.0)],
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
        if self.deflation.is_some() {
            steps.push(step(traffic::PROJECT, 1.0));
        }
        if self.scaled.is_some() {
            steps.extend([step(traffic::DIVIDE_BY_DIAGONAL, 1.0), step(traffic::DOT, 1.0)]);
        }
        steps.extend(match self.form {
            Form::Fused => self.preconditioner.traffic(cells),
            Form::Textbook => self.preconditioner.apply_traffic(cells),
        });
        steps
    }

    fn workspace_bytes(&self) -> usize {
        let vectors = VECTORS + usize::from(self.scaled.is_some()) + usize::from(self.p_odd.is_some());
        vectors * self.operator.layout().len() * size_of::<T>() + self.preconditioner.workspace_bytes()
    }
}
