//! BiCGStab, for operators that are not symmetric.

use std::ops::ControlFlow;
use std::sync::Arc;

use super::monitor::Broken;
use super::{Iteration, Run};
use crate::backend::Iterations;
use crate::operator::{Guess, Operator};
use crate::precond::Preconditioner;
use crate::traffic::{self, StepTraffic};
use crate::{Backend, Ratio, Real, Result, Scalar};

/// Right-preconditioned BiCGStab (van der Vorst, 1992): two applications of A and of M⁻¹ an iteration,
///
/// ```text
/// p = r + β(p − ωv);  y = M⁻¹p;  v = A y;  α = ρ / ⟨r̂, v⟩
/// s = r − αv;         z = M⁻¹s;  t = A z;  ω = ⟨t, s⟩ / ⟨t, t⟩
/// u += αy + ωz;       r = s − ωt;  ρ' = ⟨r̂, r⟩;  β = (ρ'/ρ)(α/ω)
/// ```
///
/// Storage: 7 n-vectors (r, r̂, p, v, t, one that is y and then z, and the u before an iteration) besides b and u; s shares r.
pub struct Bicgstab<B: Backend, T: Real> {
    backend: B,
    operator: Arc<dyn Operator<B, T>>,
    preconditioner: Box<dyn Preconditioner<B, T>>,
    r: B::Vector<T>,
    shadow: B::Vector<T>,
    p: B::Vector<T>,
    v: B::Vector<T>,
    t: B::Vector<T>,
    z: B::Vector<T>,
    /// The u before the last iteration, which may have been better.
    before: B::Vector<T>,
    scalars: B::Scalars,
}

/// Vectors of [`Bicgstab`].
pub const VECTORS: usize = 7;

/// ρ = ⟨r̂, r⟩ of even and odd iterations.
const RHO: [Scalar; 2] = [Scalar::new(0), Scalar::new(1)];
/// ⟨r̂, v⟩ of even and odd iterations.
const SHADOW_V: [Scalar; 2] = [Scalar::new(2), Scalar::new(3)];
/// ⟨t, s⟩ of even and odd iterations.
const TS: [Scalar; 2] = [Scalar::new(4), Scalar::new(5)];
/// ⟨t, t⟩ of even and odd iterations.
const TT: [Scalar; 2] = [Scalar::new(6), Scalar::new(7)];
/// ‖r‖²
const NORM: Scalar = Scalar::new(8);

impl<B: Backend, T: Real> Bicgstab<B, T> {
    /// Makes the workspace.
    pub fn new(operator: Arc<dyn Operator<B, T>>, preconditioner: Box<dyn Preconditioner<B, T>>) -> Result<Self> {
        let backend = operator.backend().clone();
        let layout = *operator.layout();
        let zeros = || backend.zeros::<T>(&layout);
        Ok(Self {
            preconditioner,
            r: zeros()?,
            shadow: zeros()?,
            p: zeros()?,
            v: zeros()?,
            t: zeros()?,
            z: zeros()?,
            before: zeros()?,
            scalars: backend.scalars()?,
            operator,
            backend,
        })
    }
}

/// Begins an iteration from r.
fn start<B: Backend, T: Real>(
    backend: &B,
    [r, shadow, p, v]: [&mut B::Vector<T>; 4],
    scalars: &mut B::Scalars,
) -> Result<()> {
    backend.convert(r, shadow)?;
    backend.clear(p)?;
    backend.clear(v)?;
    for scalar in [RHO[1], SHADOW_V[1], TS[1], TT[1]] {
        backend.set(scalars, scalar, 1.0)?;
    }
    backend.dot(shadow, r, RHO[0].of(scalars))
}

impl<B: Backend, T: Real> Iteration<B, T> for Bicgstab<B, T> {
    fn begin(&mut self, b: &B::Vector<T>, u: &mut B::Vector<T>, guess: Guess) -> Result<Option<f64>> {
        let Self { backend, operator, r, scalars, .. } = self;
        match guess {
            Guess::Zero => {
                backend.clear(u)?;
                backend.convert(b, r)?;
                Ok(None)
            }
            Guess::Given => {
                operator.residual(b, [u, r], NORM.of(scalars))?;
                Ok(Some(backend.read(scalars)?[NORM.index()].sqrt()))
            }
        }
    }

    fn run(&mut self, run: Run<'_, '_, B, T>) -> Result<()> {
        /// If the least residual falls by less than this factor…
        const STALLED: f64 = 0.9;
        /// …in this many iterations, they begin anew from the u so far, with another r̂, which then gets twice as many.
        const PATIENCE: usize = 100;
        /// They also begin anew where the residual is below this many times the rounding of the largest one.
        const DRIFTED: f64 = 10.0;
        let Run { b, u, mut best, monitor, .. } = run;
        let Self { backend, operator, preconditioner, r, shadow, p, v, t, z, before: u_before, scalars } = self;
        start(backend, [&mut *r, shadow, p, v], scalars)?;
        let on_host = operator.needs_host() || preconditioner.needs_host();
        let how = Iterations { on_host, ..Iterations::default() };
        let (mut least, mut least_before, mut most) = (f64::INFINITY, f64::INFINITY, 0.0);
        let (mut taken, mut patience) = (0, PATIENCE);
        loop {
            let before = taken;
            let (mut is_paused, mut has_stalled) = (false, false);
            backend.iterate(
                how,
                scalars,
                &mut |n, scalars| {
                    let (now, next) = ((before + n) % 2, (before + n + 1) % 2);
                    backend.convert(u, u_before)?;
                    let omega_before = Ratio::new(TS[next], TT[next]);
                    // β = (ρ/ρ_before)(α/ω) = (ρ/⟨r̂, v⟩)(⟨t, t⟩/⟨t, s⟩), since α was ρ_before/⟨r̂, v⟩.
                    let beta = Ratio::new(RHO[now], SHADOW_V[next]).times(TT[next], TS[next]);
                    backend.axpy(omega_before.negated(), v, p, scalars)?;
                    backend.xpay(beta, r, p, scalars)?;
                    preconditioner.apply(p, z)?;
                    operator.apply(z, v)?;
                    backend.dot(shadow, v, SHADOW_V[now].of(scalars))?;
                    let alpha = Ratio::new(RHO[now], SHADOW_V[now]);
                    backend.axpy(alpha, z, u, scalars)?;
                    backend.axpy(alpha.negated(), v, r, scalars)?;
                    preconditioner.apply(r, z)?;
                    operator.apply(z, t)?;
                    backend.dot(t, r, TS[now].of(scalars))?;
                    backend.dot(t, t, TT[now].of(scalars))?;
                    let omega = Ratio::new(TS[now], TT[now]);
                    backend.axpy(omega, z, u, scalars)?;
                    backend.axpy(omega.negated(), t, r, scalars)?;
                    backend.dot(shadow, r, RHO[next].of(scalars))?;
                    backend.dot(r, r, NORM.of(scalars))
                },
                &mut |bank| {
                    let now = taken % 2;
                    taken += 1;
                    let norm = bank[NORM.index()];
                    let flow = monitor.observe(norm);
                    let alive = [SHADOW_V[now], TS[now], RHO[1 - now]].iter().all(|s| bank[s.index()] != 0.0);
                    if flow.is_continue() && !alive && norm.is_finite() {
                        return monitor.break_down(Broken::Division);
                    }
                    is_paused = best.is_some() && monitor.has_left_the_best();
                    (least, most) = (norm.sqrt().min(least), norm.sqrt().max(most));
                    if flow.is_continue() && taken.is_multiple_of(patience) {
                        has_stalled = least > STALLED * least_before;
                        least_before = least;
                        patience *= if has_stalled { 2 } else { 1 };
                    }
                    has_stalled |= flow.is_continue() && norm.sqrt() < DRIFTED * T::EPSILON * most;
                    if is_paused || has_stalled || monitor.is_slow() { ControlFlow::Break(()) } else { flow }
                },
            )?;
            if let Some(best) = best.as_mut().filter(|_| is_paused) {
                backend.convert(u_before, best)?;
                monitor.note_kept(1);
            } else if !has_stalled || monitor.is_slow() {
                return Ok(());
            }
            if has_stalled {
                operator.residual(b, [u, r], NORM.of(scalars))?;
                start(backend, [&mut *r, shadow, p, v], scalars)?;
                (taken, most) = (0, 0.0);
            }
        }
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
        self.preconditioner.update()
    }

    fn traffic(&self) -> Vec<StepTraffic> {
        let cells = self.operator.layout().shape().cells();
        let vectors = self.operator.coefficient_vectors();
        let step = |step, count| StepTraffic::once::<T>(step, cells).with_coefficients(vectors).times(count);
        // p −= ωv;  p = r + βp;  u += αy;  r −= αv;  u += ωz;  r −= ωt, the five inner products, and the copy of u.
        let mut steps = vec![
            step(traffic::APPLY, 2.0),
            step(traffic::AXPY, 5.0),
            step(traffic::XPAY, 1.0),
            step(traffic::DOT, 3.0),
            step(traffic::NORM, 2.0),
            StepTraffic::once::<T>(traffic::COPY, cells),
        ];
        for mut s in self.preconditioner.apply_traffic(cells) {
            s.count *= 2.0;
            steps.push(s);
        }
        steps
    }

    fn workspace_bytes(&self) -> usize {
        VECTORS * self.operator.layout().len() * size_of::<T>() + self.preconditioner.workspace_bytes()
    }
}
