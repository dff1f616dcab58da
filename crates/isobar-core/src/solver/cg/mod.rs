//! Preconditioned conjugate gradients.

mod steps;

use std::ops::ControlFlow;
use std::sync::Arc;

use super::monitor::Broken;
use super::{Iteration, Run};
use crate::backend::{AggregateBackend, Iterations};
use crate::operator::{Diagonal, Direction, Guess, Operator, ResidualUpdate};
use crate::options::Form;
use crate::precond::{Deflation, Preconditioner};
use crate::traffic::{self, StepTraffic};
use crate::{Ratio, Real, Result, Scalar, Sums};
use steps::{Due, Full, Renewal, Rounded, Steps};

/// Conjugate gradients for a symmetric positive definite A (Hestenes and Stiefel, 1952), with a preconditioner M:
///
/// ```text
/// u += αp;  p = z + βp;  q = A p;  σ = ⟨p, q⟩           (the operator's step)
/// r −= αq;  z = M⁻¹ r;  ρ = ⟨r, z⟩;  ‖r‖²               (the preconditioner's step)
/// α = ρ/σ,  β = ρ/ρ_before
/// ```
///
/// The update of u lags one iteration behind, which lets it share a pass with that of p. If the preconditioner varies or is not
/// symmetric (a multigrid cycle), β = −⟨z, q⟩/σ instead (Golub and Ye, 1999), which costs one more inner product.
///
/// With a [`Deflation`] this is paper D's deflated conjugate gradients (algorithm 1): q = P A p, and u is corrected in
/// the deflation space before and after.
///
/// In [`Cg::rounded`] r, z and q are in single precision S, as cycles are, while u, p and the arithmetic of A p are in precision T. q
/// is rounded, so r drifts away from b − A u; it is computed again, in precision T, whenever ‖r‖ has fallen to a thousandth, which
/// does not slow convergence down (van der Vorst and Ye, 2000, for the idea of replacing residuals).
///
/// Storage: 4 n-vectors (r, z, p, q) besides b and u, another p if the operator does not advance it in place (CUDA), one for the norm
/// ‖D^−½ r‖ if it is used, and one for b − A u if r is rounded.
pub struct Cg<B: AggregateBackend, T: Real, S: Real = T> {
    backend: B,
    form: Form,
    steps: Box<dyn Steps<B, T, S>>,
    preconditioner: Box<dyn Preconditioner<B, S>>,
    /// The diagonal D, and D⁻¹ r, if the norm is ‖D^−½ r‖.
    scaled: Option<(Arc<dyn Diagonal<B, S>>, B::Vector<S>)>,
    r: B::Vector<S>,
    z: B::Vector<S>,
    /// The p of even iterations, or of all.
    p: B::Vector<T>,
    /// The p of odd iterations, if the operator cannot advance p in place.
    p_odd: Option<B::Vector<T>>,
    q: B::Vector<S>,
    scalars: B::Scalars,
}

/// Vectors of every [`Cg`] in the precision of its residuals: r, z and q.
pub const RESIDUALS: usize = 3;

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
/// A norm that is not read.
const UNUSED: Scalar = Scalar::new(8);

/// The reason why the loop of [`Cg`] was interrupted.
enum Pause {
    /// The iterate before is worth keeping.
    Keep,
    /// The residual must be computed again.
    Renew(Due),
}

impl<B: AggregateBackend, T: Real> Cg<B, T> {
    /// Makes the workspace.
    pub fn new(
        form: Form,
        operator: Arc<dyn Operator<B, T>>,
        preconditioner: Box<dyn Preconditioner<B, T>>,
    ) -> Result<Self> {
        Self::deflated(form, operator, preconditioner, None)
    }

    /// Makes the workspace of an iteration with deflation, if there is any.
    pub fn deflated(
        form: Form,
        operator: Arc<dyn Operator<B, T>>,
        preconditioner: Box<dyn Preconditioner<B, T>>,
        deflation: Option<Deflation<B, T>>,
    ) -> Result<Self> {
        Self::with(form, Box::new(Full { operator, deflation }), preconditioner)
    }
}

impl<B: AggregateBackend, T: Real> Cg<B, T, f32> {
    /// Makes the workspace of an iteration in fused form with r, z and q in single precision.
    pub fn rounded(operator: Arc<dyn Operator<B, T>>, preconditioner: Box<dyn Preconditioner<B, f32>>) -> Result<Self> {
        Self::with(Form::Fused, Box::new(Rounded::new(operator)?), preconditioner)
    }
}

impl<B: AggregateBackend, T: Real, S: Real> Cg<B, T, S> {
    fn with(form: Form, steps: Box<dyn Steps<B, T, S>>, preconditioner: Box<dyn Preconditioner<B, S>>) -> Result<Self> {
        let backend = steps.operator().backend().clone();
        let layout = *steps.operator().layout();
        let needs_next = form == Form::Fused && steps.needs_next_direction()?;
        Ok(Self {
            form,
            preconditioner,
            scaled: None,
            r: backend.zeros(&layout)?,
            z: backend.zeros(&layout)?,
            p: backend.zeros(&layout)?,
            p_odd: needs_next.then(|| backend.zeros(&layout)).transpose()?,
            q: backend.zeros(&layout)?,
            scalars: backend.scalars()?,
            steps,
            backend,
        })
    }

    /// Makes the iteration watch ‖D^−½ r‖ instead of ‖r‖.
    ///
    /// # Errors
    /// Fails if one more vector does not fit in memory.
    pub fn watching_scaled(self, diagonal: Arc<dyn Diagonal<B, S>>) -> Result<Self> {
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

impl<B: AggregateBackend, T: Real, S: Real> Iteration<B, T> for Cg<B, T, S> {
    fn begin(&mut self, b: &B::Vector<T>, u: &mut B::Vector<T>, guess: Guess) -> Result<Option<f64>> {
        if guess == Guess::Zero {
            self.backend.clear(u)?;
            self.backend.convert(b, &mut self.r)?;
            return Ok(None);
        }
        self.steps.residual(b, u, &mut self.r, NORM[0].of(&mut self.scalars))?;
        let norm = match self.scaled {
            Some(_) => self.norm()?,
            None => self.backend.read(&self.scalars)?[NORM[0].index()],
        };
        Ok(Some(norm.sqrt()))
    }

    fn run(&mut self, run: Run<'_, '_, B, T>) -> Result<()> {
        let Run { b, u, mut best, monitor, .. } = run;
        let Self { backend, steps, preconditioner, scaled, form, r, z, p, p_odd, q, scalars } = self;
        let (variable, form) = (preconditioner.is_variable(), *form);
        steps.correct_before(b, u, r, NORM[0].of(scalars))?;
        // With p = q = 0 the very first α and β have no effect: no iteration is special. Iteration 0 advances from the
        // direction of odd iterations, where these have one of their own.
        backend.clear(p_odd.as_mut().unwrap_or(p))?;
        backend.clear(q)?;
        backend.set(scalars, RHO[1], 1.0)?;
        backend.set(scalars, SIGMA[1], 1.0)?;
        backend.set(scalars, ZQ[0], 0.0)?;
        let first = ResidualUpdate { r: &mut *r, q: &*q, z: &mut *z, alpha: Ratio::ZERO, out: RHO_NORM[0] };
        preconditioner.precondition_residual(first, scalars)?;

        let on_host = steps.needs_host() || preconditioner.needs_host();
        let how = Iterations { on_host, ..Iterations::default() };
        let mut renewal = steps.rounds().then(|| Renewal::new(monitor.last()));
        let mut due = None;
        let mut taken = 0;
        let mut is_sound = true;
        loop {
            let before = taken;
            let mut pause = None;
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
                    steps.advance(form, direction, scalars)?;
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
                    if best.is_some() && monitor.is_leaving_the_best() {
                        pause = Some(Pause::Keep);
                    } else {
                        due = renewal.as_mut().and_then(|renewal| renewal.note(monitor.last()));
                        pause = due.filter(|_| flow.is_continue()).map(Pause::Renew);
                    }
                    if pause.is_some() || monitor.is_slow() { ControlFlow::Break(()) } else { flow }
                },
            )?;
            match (pause, &mut best) {
                (Some(Pause::Keep), Some(best)) => {
                    // The update of u lags one iteration behind.
                    backend.convert(u, best)?;
                    monitor.note_kept(1);
                }
                (Some(Pause::Renew(due)), _) => {
                    let last = (taken - 1) % 2;
                    backend.axpy(Ratio::new(RHO[last], SIGMA[last]), direction_after(last, p, p_odd), u, scalars)?;
                    steps.residual(b, u, r, UNUSED.of(scalars))?;
                    // u has this α already: the next step adds nothing. β reads the other number of the two.
                    let (scalar, value) = if variable { (RHO[last], 0.0) } else { (SIGMA[last], f64::INFINITY) };
                    backend.set(scalars, scalar, value)?;
                    if due == Due::Both {
                        let out = RHO_NORM[1 - last];
                        let again = ResidualUpdate { r: &mut *r, q: &*q, z: &mut *z, alpha: Ratio::ZERO, out };
                        preconditioner.precondition_residual(again, scalars)?;
                        if variable {
                            backend.dot(z, q, ZQ[1 - last].of(scalars))?;
                        }
                    }
                }
                _ => break,
            }
        }
        // Applies the last α to u, unless it is not a number.
        if is_sound && taken > 0 {
            let last = (taken - 1) % 2;
            backend.axpy(Ratio::new(RHO[last], SIGMA[last]), direction_after(last, p, p_odd), u, scalars)?;
        }
        if !variable {
            if due == Some(Due::Both) && is_sound {
                // The last r is mostly rounding, and so would be an estimate by its z.
                steps.residual(b, u, r, UNUSED.of(scalars))?;
                preconditioner.apply(r, z)?;
            }
            preconditioner.project_out(z)?;
            backend.dot(z, z, CORRECTION.of(scalars))?;
            let bank = backend.read(scalars)?;
            let rho = bank[RHO[taken % 2].index()];
            monitor.note_correction(bank[CORRECTION.index()].sqrt(), rho, preconditioner.is_strong());
        }
        steps.correct_after(b, u, r, NORM[0].of(scalars))
    }

    fn precondition(&mut self, r: &mut B::Vector<T>, z: &mut B::Vector<T>) -> Result<()> {
        let Self { steps, preconditioner, r: own_r, z: own_z, .. } = self;
        steps.precondition(&mut **preconditioner, [r, z], [own_r, own_z])
    }

    fn preconditions_symmetrically(&self) -> bool {
        !self.preconditioner.is_variable()
    }

    fn choose(&mut self, rank: usize) -> Option<&'static str> {
        self.preconditioner.choose(rank)
    }

    fn update(&mut self) -> Result<()> {
        self.steps.update()?;
        self.preconditioner.update()
    }

    fn another(&self) -> Result<Option<Box<dyn Iteration<B, T>>>> {
        let Some(steps) = self.steps.another()? else { return Ok(None) };
        let Some(preconditioner) = self.preconditioner.another()? else { return Ok(None) };
        let cg = Self::with(self.form, steps, preconditioner)?;
        Ok(Some(Box::new(match &self.scaled {
            Some((diagonal, _)) => cg.watching_scaled(Arc::clone(diagonal))?,
            None => cg,
        })))
    }

    fn traffic(&self) -> Vec<StepTraffic> {
        let operator = self.steps.operator();
        let (cells, vectors) = (operator.layout().shape().cells(), operator.coefficient_vectors());
        let step = |step, count| StepTraffic::once::<T>(step, cells).with_coefficients(vectors).times(count);
        let (advance, project) = self.steps.traffic();
        let mut steps = match self.form {
            Form::Fused => vec![step(advance, 1.0)],
            // u += αp;  p = z + βp;  q = A p;  r −= αq, and ⟨p, q⟩, ⟨r, z⟩, ‖r‖².
            Form::Textbook => vec![
                step(traffic::APPLY, 1.0),
                step(traffic::AXPY, 2.0),
                step(traffic::XPAY, 1.0),
                step(traffic::DOT, 2.0),
                step(traffic::NORM, 1.0),
            ],
        };
        steps.extend(project.map(|project| step(project, 1.0)));
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
        let residuals = RESIDUALS + usize::from(self.scaled.is_some());
        let directions = 1 + usize::from(self.p_odd.is_some()) + self.steps.vectors();
        let bytes = residuals * size_of::<S>() + directions * size_of::<T>();
        self.steps.operator().layout().len() * bytes + self.preconditioner.workspace_bytes()
    }
}

/// Returns the search direction of the last iteration, even or odd.
fn direction_after<'v, V>(last: usize, p: &'v V, p_odd: &'v Option<V>) -> &'v V {
    match p_odd {
        Some(odd) if last == 1 => odd,
        _ => p,
    }
}
