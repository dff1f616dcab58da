//! Jacobi's method, plain and hierarchical.

use std::ops::ControlFlow;
use std::sync::Arc;

use super::momentum::Momentum;
use super::{Iteration, Run};
use crate::backend::Iterations;
use crate::operator::{Guess, PointSmoother};
use crate::options::PointCycle;
use crate::traffic::{self, StepTraffic, Traffic};
use crate::{Backend, Real, Result, Scalar, Shape};

/// ‖r‖²
const NORM: Scalar = Scalar::new(0);

/// Jacobi's method: cycles of [`PointSmoother::relax_points`] (paper C, sections 3.3 and 4.1) until ‖f − A u‖ is small enough. The
/// norm is computed by each cycle's first sub-iteration and costs no pass of its own: it is that of the u before the cycle, so
/// that one more cycle is computed than counts, and its result is dropped.
///
/// Accelerated sweeps have momentum, which `Momentum` determines; the next u overwrites the last but one, which sweeps read too.
/// Accelerated cycles of tiles need two more vectors.
///
/// Storage: the u of the next cycle; for accelerated tiles two more vectors.
pub struct Jacobi<B: Backend, T: Real> {
    operator: Arc<dyn PointSmoother<B, T>>,
    cycle: PointCycle,
    momentum: Option<Momentum>,
    backend: B,
    next: B::Vector<T>,
    /// The u before u, and before `next`, for accelerated tiles.
    before: Option<[B::Vector<T>; 2]>,
    scalars: B::Scalars,
}

impl<B: Backend, T: Real> Jacobi<B, T> {
    /// Takes cycles of one kind on a grid with this shape, of which the operator may have a subdomain; sweeps may be accelerated.
    ///
    /// # Errors
    /// See [`PointSmoother::prepare`]; where the workspace does not fit in memory.
    pub fn new(
        operator: Arc<dyn PointSmoother<B, T>>,
        shape: Shape,
        cycle: PointCycle,
        is_accelerated: bool,
    ) -> Result<Self> {
        let momentum = is_accelerated.then(|| Momentum::new(shape, cycle.relaxation));
        operator.prepare(&with(&cycle, momentum.as_ref()))?;
        let backend = operator.backend().clone();
        let zeros = || backend.zeros(operator.layout());
        let (next, scalars) = (zeros()?, backend.scalars()?);
        let before = match is_accelerated && !cycle.is_sweep() {
            true => Some([zeros()?, zeros()?]),
            false => None,
        };
        Ok(Self { next, before, scalars, backend, operator, cycle, momentum })
    }
}

impl<B: Backend, T: Real> Jacobi<B, T> {
    /// Describes the initial acceleration of sweeps, if any.
    pub fn describe_momentum(&self) -> Option<String> {
        let momentum = self.momentum.as_ref()?;
        Some(format!(
            "sweeps with momentum {:.5}, for a spectral radius of 1 − {:.1e}, corrected later by the residual",
            momentum.momentum(),
            1.0 - momentum.radius
        ))
    }
}

/// Returns a cycle with this momentum.
fn with(cycle: &PointCycle, momentum: Option<&Momentum>) -> PointCycle {
    let momentum = momentum.map_or(0.0, Momentum::momentum);
    PointCycle { relaxation: (1.0 + momentum) * cycle.relaxation, momentum, ..*cycle }
}

/// Describes tiles, sub-iterations and overlap, if there are any.
pub fn describe(cycle: &PointCycle, shape: Shape) -> Option<String> {
    if cycle.is_sweep() {
        return None;
    }
    let by = |cells: [usize; 3]| {
        let directions = if shape.nz > 1 {
            3
        } else if shape.ny > 1 {
            2
        } else {
            1
        };
        cells[..directions].iter().map(usize::to_string).collect::<Vec<_>>().join(" × ")
    };
    let (tiles, overlap) = (by(cycle.tile), by(cycle.overlap));
    let count = cycle.tiles(shape);
    Some(format!("{} sub-iterations in {count} tiles of {tiles} cells, shared cells {overlap}", cycle.sub_iterations))
}

/// Returns the traffic of a cycle: u and f once, for any number of sub-iterations.
pub fn traffic_of(cycle: &PointCycle, shape: Shape) -> Traffic {
    if cycle.is_sweep() {
        return if cycle.momentum > 0.0 { traffic::RELAX_POINTS_ON } else { traffic::RELAX_POINTS };
    }
    let step = traffic::RELAX_TILES;
    Traffic { flops: step.flops * cycle.updates(shape) / shape.cells() as f64, ..step }
}

/// Computes z = ω D⁻¹ r, a plain sweep from zero, which is stored in `zero`.
pub(super) fn sweep_from_zero<B: Backend, T: Real>(
    operator: &dyn PointSmoother<B, T>,
    relaxation: f64,
    r: &B::Vector<T>,
    zero: &mut B::Vector<T>,
    z: &mut B::Vector<T>,
    scalars: &mut B::Scalars,
) -> Result<()> {
    operator.backend().clear(zero)?;
    let sweep = PointCycle::sweep(relaxation);
    operator.prepare(&sweep)?;
    operator.relax_points(&sweep, r, zero, z, NORM.of(scalars))
}

impl<B: Backend, T: Real> Iteration<B, T> for Jacobi<B, T> {
    fn begin(&mut self, b: &B::Vector<T>, u: &mut B::Vector<T>, guess: Guess) -> Result<Option<f64>> {
        if guess == Guess::Zero {
            return Ok(None);
        }
        self.operator.residual_norm(b, [u, &mut self.next], NORM.of(&mut self.scalars))?;
        Ok(Some(self.backend.read(&self.scalars)?[NORM.index()].sqrt()))
    }

    fn run(&mut self, run: Run<'_, '_, B, T>) -> Result<()> {
        let Run { b, u, guess, monitor, .. } = run;
        let Self { operator, cycle, momentum, backend, next, before, scalars } = self;
        if guess == Guess::Zero {
            backend.clear(u)?;
        }
        if let Some(momentum) = momentum {
            // The first sweep has no momentum.
            backend.convert(u, before.as_mut().map_or(&mut *next, |[before, _]| before))?;
            momentum.begin();
        }
        // The monitor has the residual of the first guess already.
        let mut is_known = true;
        loop {
            let (cycle, mut is_changed) = (with(cycle, momentum.as_ref()), false);
            backend.iterate(
                Iterations::default(),
                scalars,
                &mut |_, scalars| {
                    if let Some([before, next_before]) = before {
                        operator.relax_moving(&cycle, [b, before], u, [next, next_before], NORM.of(scalars))?;
                        std::mem::swap(before, next_before);
                    } else {
                        operator.relax_points(&cycle, b, u, next, NORM.of(scalars))?;
                    }
                    std::mem::swap(u, next);
                    Ok(())
                },
                &mut |bank| {
                    let norm = bank[NORM.index()];
                    if !std::mem::take(&mut is_known) && monitor.observe(norm).is_break() {
                        return ControlFlow::Break(());
                    }
                    is_changed =
                        momentum.as_mut().is_some_and(|momentum| momentum.note(norm.sqrt(), cycle.sub_iterations));
                    if is_changed { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                },
            )?;
            if !is_changed {
                break;
            }
        }
        std::mem::swap(u, next);
        Ok(())
    }

    fn precondition(&mut self, r: &mut B::Vector<T>, z: &mut B::Vector<T>) -> Result<()> {
        sweep_from_zero(&*self.operator, self.cycle.relaxation, r, &mut self.next, z, &mut self.scalars)
    }

    fn traffic(&self) -> Vec<StepTraffic> {
        let shape = self.operator.layout().shape();
        let coefficients = self.operator.coefficient_vectors();
        vec![
            StepTraffic::once::<T>(traffic_of(&with(&self.cycle, self.momentum.as_ref()), shape), shape.cells())
                .with_coefficients(coefficients),
        ]
    }

    fn workspace_bytes(&self) -> usize {
        let vectors = if self.before.is_some() { 3 } else { 1 };
        vectors * self.operator.layout().len() * size_of::<T>()
    }
}
