//! This module measures the times of steps, on operands that it makes.

use std::time::Instant;

use crate::backend::AggregateBackend;
use crate::operator::{Capabilities, Direction, Guess, LineSmoother, Relaxation, ResidualUpdate, Sweep, Transfer};
use crate::options::{MultigridOptions, PointCycle};
use crate::precond::{IncompleteCholesky, Preconditioner, relaxations};
use crate::stencil::Hierarchy;
use crate::traffic::{self, StepTraffic, Traffic};
use crate::{ArrayView, Backend, Layout, Ratio, Real, Result, Shape, Sums, problem};

/// The shortest batch, so that neither clock nor synchronisation matters.
const BATCH_SECONDS: f64 = 5e-3;

/// The number of batches, whose median counts.
const BATCHES: usize = 7;

/// A step at least this slow is timed once after its warm-up.
const SLOW_SECONDS: f64 = 1.0;

/// The time of a step on one grid.
#[derive(Clone, Copy, Debug)]
pub struct Timed {
    /// The step, its grid's cells, and how often an iteration runs it.
    pub step: StepTraffic,
    /// The grid.
    pub shape: Shape,
    /// Seconds of one execution.
    pub seconds: f64,
}

impl Timed {
    /// Returns the declared bytes of one execution.
    pub fn bytes(&self) -> f64 {
        self.step.bytes_once()
    }

    /// Returns the declared bytes a second.
    pub fn bandwidth(&self) -> f64 {
        self.bytes() / self.seconds
    }

    /// Returns the seconds that an iteration spends in this step.
    pub fn seconds_per_iteration(&self) -> f64 {
        self.seconds * self.step.count
    }
}

/// Times the work that `work` submits to the device: the median of a few batches, after a warm-up.
///
/// # Errors
/// The errors of `work` and of the device.
pub fn seconds<B: Backend>(backend: &B, mut work: impl FnMut() -> Result<()>) -> Result<f64> {
    let mut batch = |count: usize| -> Result<f64> {
        backend.synchronize()?;
        let clock = Instant::now();
        for _ in 0..count {
            work()?;
        }
        backend.synchronize()?;
        Ok(clock.elapsed().as_secs_f64().max(1e-9) / count as f64)
    };
    batch(1)?;
    let once = batch(1)?;
    if once > SLOW_SECONDS {
        return Ok(once);
    }
    let count = (BATCH_SECONDS / once).ceil().clamp(1.0, 1000.0) as usize;
    let mut samples = (0..BATCHES).map(|_| batch(count)).collect::<Result<Vec<f64>>>()?;
    samples.sort_by(f64::total_cmp);
    Ok(samples[BATCHES / 2])
}

/// Calls `time` with every level of a hierarchy, its relaxation, and its transfer to the next one.
pub(super) fn time_levels<B: Backend, S, T: Real>(
    hierarchy: &Hierarchy<B, S, T>,
    options: &MultigridOptions,
    mut time: impl FnMut(&dyn LineSmoother<B, T>, Relaxation, Option<&dyn Transfer<B, T>>) -> Result<()>,
) -> Result<()> {
    let levels = hierarchy.levels.iter().zip(relaxations(hierarchy, options));
    levels.enumerate().try_for_each(|(n, (level, relaxation))| {
        time(&**level, relaxation, hierarchy.transfers.get(n).map(|transfer| &**transfer))
    })
}

/// Vectors for every step on one grid.
pub(super) struct Bench<'b, B: AggregateBackend, T: Real> {
    backend: &'b B,
    /// The operator of the finest level, for steps that only it has.
    finest: Option<&'b Capabilities<B, T>>,
    /// A level and its relaxation.
    level: Option<(&'b dyn LineSmoother<B, T>, Relaxation)>,
    transfer: Option<&'b dyn Transfer<B, T>>,
    /// The factorisation of the finest level, for steps that substitute.
    pub(super) cholesky: Option<IncompleteCholesky<B, T>>,
    /// The cycle of Jacobi's method on the finest level.
    pub(super) cycle: Option<PointCycle>,
    f: B::Vector<T>,
    u: B::Vector<T>,
    p: B::Vector<T>,
    next: Option<B::Vector<T>>,
    q: B::Vector<T>,
    /// Vectors in single precision, for steps with some.
    singles: [B::Vector<f32>; 2],
    coarse: Option<[B::Vector<T>; 2]>,
    scalars: B::Scalars,
}

pub(super) const OUT: Sums<2> = Sums::new(0);

impl<'b, B: AggregateBackend, T: Real> Bench<'b, B, T> {
    pub(super) fn new(
        backend: &'b B,
        layout: &Layout,
        finest: Option<&'b Capabilities<B, T>>,
        level: Option<(&'b dyn LineSmoother<B, T>, Relaxation)>,
        transfer: Option<&'b dyn Transfer<B, T>>,
    ) -> Result<Self> {
        let zeros = || backend.zeros::<T>(layout);
        let mut f = zeros()?;
        upload_noise(backend, layout, &mut f)?;
        let coarse = transfer.map(|transfer| -> Result<_> {
            Ok([backend.zeros(transfer.coarse_layout())?, backend.zeros(transfer.coarse_layout())?])
        });
        let needs_next = match finest {
            Some(finest) => finest.operator.needs_next_direction(false)?,
            None => false,
        };
        Ok(Self {
            u: zeros()?,
            p: zeros()?,
            next: needs_next.then(zeros).transpose()?,
            q: zeros()?,
            singles: [backend.zeros(layout)?, backend.zeros(layout)?],
            coarse: coarse.transpose()?,
            scalars: backend.scalars()?,
            backend,
            finest,
            level,
            transfer,
            cholesky: None,
            cycle: None,
            f,
        })
    }

    /// Times the steps that are declared for a grid of this many cells and can run alone.
    pub(super) fn time(&mut self, shape: Shape, steps: &[StepTraffic], timed: &mut Vec<Timed>) -> Result<()> {
        let backend = self.backend;
        for &step in steps.iter().filter(|step| step.cells == shape.cells()) {
            if self.run(&step.step)? {
                let seconds = seconds(backend, || self.run(&step.step).map(drop))?;
                timed.push(Timed { step, shape, seconds });
            }
        }
        Ok(())
    }

    /// Runs a step once; returns false if it cannot run alone.
    fn run(&mut self, step: &Traffic) -> Result<bool> {
        Ok(self.run_on_vectors(step)? || self.run_on_finest(step)? || self.run_on_level(step)?)
    }

    fn run_on_vectors(&mut self, step: &Traffic) -> Result<bool> {
        let Self { backend, f, u, q, scalars, .. } = self;
        let (first, second) = (OUT.get(0), OUT.get(1));
        let is = |declared: Traffic| declared.name == step.name;
        match () {
            () if is(traffic::UPDATE_RESIDUAL) => {
                backend.axpy_norm(Ratio::ZERO, q, f, second.of(scalars))?;
                backend.dot(f, u, first.of(scalars))?;
            }
            () if is(traffic::REDUCE_RESIDUAL) => backend.axpy_norm(Ratio::ZERO, q, f, first.of(scalars))?,
            () if is(traffic::AXPY) => backend.axpy(Ratio::ZERO, f, u, scalars)?,
            () if is(traffic::XPAY) => backend.xpay(Ratio::ZERO, f, u, scalars)?,
            () if is(traffic::DOT) => backend.dot(f, q, first.of(scalars))?,
            () if is(traffic::NORM) => backend.dot(f, f, first.of(scalars))?,
            () if is(traffic::COPY) => backend.convert(f, u)?,
            () => return Ok(false),
        }
        Ok(true)
    }

    fn run_on_finest(&mut self, step: &Traffic) -> Result<bool> {
        let Self { finest, cholesky, cycle, f, u, p, next, q, singles, scalars, .. } = self;
        let Some(Capabilities { operator, diagonal, lines, points, triangular, .. }) = finest else { return Ok(false) };
        let norm = OUT.get(0);
        let is = |declared: Traffic| declared.name == step.name;
        if let Some(cholesky) = cholesky {
            if is(traffic::SUBSTITUTE) {
                return cholesky.apply(f, u).map(|()| true);
            }
            if is(traffic::SUBSTITUTE_RESIDUAL) {
                let update = ResidualUpdate { r: f, q, z: u, alpha: Ratio::ZERO, out: OUT };
                return cholesky.precondition_residual(update, scalars).map(|()| true);
            }
        }
        let relaxes = [traffic::RELAX_POINTS, traffic::RELAX_POINTS_ON, traffic::RELAX_TILES].into_iter().any(is);
        if let (Some(points), Some(cycle), true) = (points, cycle, relaxes) {
            return points.relax_points(cycle, f, u, q, norm.of(scalars)).map(|()| true);
        }
        match (diagonal, lines, triangular) {
            _ if is(traffic::APPLY) => operator.apply(f, q)?,
            _ if is(traffic::RESIDUAL) => operator.residual(f, [u, q], norm.of(scalars))?,
            _ if is(traffic::RESIDUAL_NORM) => operator.residual_norm(f, [u, q], norm.of(scalars))?,
            _ if is(traffic::ADVANCE_DIRECTION) => {
                let (next, z, alpha, beta) = (next.as_mut(), &mut *f, Ratio::ZERO, Ratio::ZERO);
                operator.advance_direction(Direction { u, p, next, z, q, alpha, beta, sigma: norm }, scalars)?;
            }
            _ if is(traffic::ADVANCE_DIRECTION_SINGLE) => {
                let ([z, q], next, alpha, beta) = (singles, next.as_mut(), Ratio::ZERO, Ratio::ZERO);
                operator.advance_direction_single(Direction { u, p, next, z, q, alpha, beta, sigma: norm }, scalars)?;
            }
            (_, Some(lines), _) if is(traffic::SOLVE_LINES) => lines.solve_lines(f, u)?,
            (_, Some(lines), _) if is(traffic::PRECONDITION_RESIDUAL) => {
                let update = ResidualUpdate { r: f, q, z: u, alpha: Ratio::ZERO, out: OUT };
                lines.precondition_residual(update, scalars)?;
            }
            (Some(diagonal), ..) if is(traffic::SCALE_RESIDUAL) => {
                let update = ResidualUpdate { r: f, q, z: u, alpha: Ratio::ZERO, out: OUT };
                diagonal.scale_residual(update, scalars)?;
            }
            (Some(diagonal), ..) if is(traffic::DIVIDE_BY_DIAGONAL) => diagonal.divide_by_diagonal(f, u)?,
            (.., Some(triangular)) if is(traffic::RELAX_LOWER) => triangular.relax_lower(f, [q, u], None)?,
            (.., Some(triangular)) if is(traffic::RELAX_UPPER) => triangular.relax_upper(f, Some(q), u)?,
            (.., Some(triangular)) if is(traffic::INCOMPLETE_POISSON) => {
                triangular.incomplete_poisson(true, p, [f, u])?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn run_on_level(&mut self, step: &Traffic) -> Result<bool> {
        let Self { level, transfer, f, u, q, coarse, scalars, .. } = self;
        let is = |declared: Traffic| declared.name == step.name;
        let Some((level, relaxation)) = level else { return Ok(false) };
        let sweep = Sweep { relaxation: *relaxation, guess: Guess::Given, f: &*f, u, scratch: q };
        match (transfer, coarse) {
            _ if is(traffic::SMOOTH) => level.smooth(sweep)?,
            _ if is(traffic::SMOOTH_FROM_ZERO) => level.smooth(Sweep { guess: Guess::Zero, ..sweep })?,
            (Some(transfer), Some([coarse_f, _])) if is(traffic::RESIDUAL_RESTRICT) => {
                transfer.residual_restrict(sweep.f, [sweep.u, coarse_f, sweep.scratch])?;
            }
            (Some(transfer), Some([coarse_f, _])) if is(traffic::SMOOTH_RESIDUAL_RESTRICT) => {
                transfer.smooth_residual_restrict(sweep, coarse_f)?;
            }
            (Some(transfer), Some([coarse_f, _])) if is(traffic::SMOOTH_RESIDUAL_RESTRICT_FROM_ZERO) => {
                transfer.smooth_residual_restrict(Sweep { guess: Guess::Zero, ..sweep }, coarse_f)?;
            }
            (Some(transfer), Some([_, coarse_u])) if is(traffic::PROLONG_SMOOTH) => {
                transfer.prolong_smooth(coarse_u, sweep, Some((OUT.get(0), scalars)))?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// Fills a vector with noise: zeros would hide denormals and make any iteration trivial.
pub fn upload_noise<B: Backend, T: Real>(backend: &B, layout: &Layout, vector: &mut B::Vector<T>) -> Result<()> {
    let shape = layout.shape();
    let noise: Vec<f64> = (0..shape.cells()).map(|n| problem::random(0, n)).collect();
    backend.upload(ArrayView::c_order(&noise, shape)?, vector)
}
