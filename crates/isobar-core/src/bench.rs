//! Times of the fused steps of a solve, each alone and on the grid it runs on.

mod modes;

use std::time::Instant;

use crate::array::ArrayView;
use crate::backend::{AggregateBackend, Backend, Ratio, Sums};
use crate::build::{Solve, System};
use crate::error::Result;
use crate::layout::{Layout, Shape};
use crate::operator::{
    Capabilities, Direction, Guess, LineSmoother, MixedTop, Relaxation, ResidualUpdate, Sweep, Transfer,
};
use crate::options::{MultigridOptions, SolverOptions};
use crate::precond::{IncompleteCholesky, Preconditioner, relaxations};
use crate::problem;
use crate::real::{Precision, Real};
use crate::stencil::hierarchy::levels;
use crate::stencil::{Hierarchy, Stencil, Supports};
use crate::traffic::{self, StepTraffic, Traffic};

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

    /// Returns the declared floating-point operations a second.
    pub fn flops(&self) -> f64 {
        self.step.step.flops * self.step.cells as f64 / self.seconds
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

/// Seconds of making a solver and of changing its coefficients.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setup {
    /// The first time in this process: kernels may be compiled or loaded.
    pub first: f64,
    /// The second time.
    pub again: f64,
    /// An update with the same coefficients.
    pub update: f64,
}

/// Times setup and update of a solver.
///
/// # Errors
/// See [`System::new`].
pub fn time_setup<B: Supports<S>, S: Stencil>(backend: &B, stencil: &S, options: &SolverOptions) -> Result<Setup> {
    let make = || -> Result<(System<B, S>, f64)> {
        backend.synchronize()?;
        let clock = Instant::now();
        let system = System::new(backend, stencil, options)?;
        backend.synchronize()?;
        Ok((system, clock.elapsed().as_secs_f64()))
    };
    let (system, first) = make()?;
    drop(system);
    let (mut system, again) = make()?;
    let update = seconds(backend, || system.update(stencil))?;
    Ok(Setup { first, again, update })
}

/// Times every step of a solve's iteration that can run alone; steps are listed finest grid first.
///
/// # Errors
/// The errors of the device; no memory for the vectors that the steps work on.
pub fn time_iteration<B: Supports<S>, S: Stencil>(
    backend: &B,
    stencil: &S,
    options: &SolverOptions,
    steps: &[StepTraffic],
) -> Result<Vec<Timed>> {
    let around = stencil.around()?;
    let stencil = &*around;
    let choice = backend.choice(stencil, &backend.operator::<f64>(stencil)?, options)?;
    let options = options.resolved(&choice)?;
    // In a solve by modes only steps on the grid itself belong to its operator.
    let grid = backend.layout(stencil)?.shape().cells();
    let has_modes = steps.iter().any(|step| step.step.name == traffic::MODES.name);
    let own: Vec<StepTraffic> = steps.iter().copied().filter(|step| !has_modes || step.cells == grid).collect();
    let mut timed = time_in::<B, S, f64>(backend, stencil, &options, &own)?;
    timed.extend(time_in::<B, S, f32>(backend, stencil, &options, &own)?);
    timed.extend(modes::time_modes(backend, stencil, &options, steps)?);
    timed.sort_by_key(|timed| std::cmp::Reverse(timed.step.cells));
    Ok(timed)
}

/// Times the steps of one precision.
fn time_in<B: Supports<S>, S: Stencil, T: Real>(
    backend: &B,
    stencil: &S,
    options: &SolverOptions,
    steps: &[StepTraffic],
) -> Result<Vec<Timed>> {
    let mine: Vec<StepTraffic> = steps.iter().copied().filter(|step| step.size == size_of::<T>()).collect();
    if mine.is_empty() {
        return Ok(Vec::new());
    }
    let operator = backend.operator::<T>(stencil)?;
    let lines = backend.lines(stencil, &operator)?.map(|lines| lines.solver);
    let finest = Capabilities { lines, ..backend.capabilities(&operator) };
    let substitutes = |step: &StepTraffic| {
        [traffic::SUBSTITUTE, traffic::SUBSTITUTE_RESIDUAL].iter().any(|own| own.name == step.step.name)
    };
    let cholesky = if mine.iter().any(substitutes) {
        let triangular = match &finest.triangular {
            Some(triangular) => Some(triangular.clone()),
            None => backend.stored_faces::<T>(stencil)?.and_then(|stored| stored.capabilities.triangular),
        };
        let blocks = IncompleteCholesky::<B, T>::blocks(options.preconditioner, stencil.shape().nx);
        triangular
            .zip(blocks)
            .map(|(triangular, (block, relaxation))| IncompleteCholesky::new(triangular, block, relaxation))
            .transpose()?
    } else {
        None
    };
    let hierarchy = levels(backend, stencil, &operator, &options.multigrid)?;
    let mut timed = Vec::new();
    let layout = backend.layout(stencil)?;
    let Some(hierarchy) = hierarchy else {
        let mut bench = Bench { cholesky, ..Bench::new(backend, &layout, Some(&finest), None, None)? };
        bench.time(layout.shape(), &mine, &mut timed)?;
        return Ok(timed);
    };
    let (mut rest, mut first) = (Some((&finest, cholesky)), None);
    time_levels(&hierarchy, &options.multigrid, |level, relaxation, transfer| {
        let (finest, cholesky) = rest.take().map_or((None, None), |(finest, cholesky)| (Some(finest), cholesky));
        first.get_or_insert(relaxation);
        let bench = Bench::new(backend, level.layout(), finest, Some((level, relaxation)), transfer)?;
        Bench { cholesky, ..bench }.time(level.layout().shape(), &mine, &mut timed)
    })?;
    if let Some(relaxation) = first.filter(|_| options.storage() == Precision::Mixed && T::PRECISION == Precision::F64)
    {
        time_top(backend, stencil, options, relaxation, &mine, &mut timed)?;
    }
    Ok(timed)
}

/// Calls `time` with every level of a hierarchy, its relaxation, and its transfer to the next one.
fn time_levels<B: Backend, S, T: Real>(
    hierarchy: &Hierarchy<B, S, T>,
    options: &MultigridOptions,
    mut time: impl FnMut(&dyn LineSmoother<B, T>, Relaxation, Option<&dyn Transfer<B, T>>) -> Result<()>,
) -> Result<()> {
    let levels = hierarchy.levels.iter().zip(relaxations(hierarchy, options));
    levels.enumerate().try_for_each(|(n, (level, relaxation))| {
        time(&**level, relaxation, hierarchy.transfers.get(n).map(|transfer| &**transfer))
    })
}

/// Times the steps of the finest level of a mixed-precision cycle.
fn time_top<B: Supports<S>, S: Stencil>(
    backend: &B,
    stencil: &S,
    options: &SolverOptions,
    relaxation: Relaxation,
    steps: &[StepTraffic],
    timed: &mut Vec<Timed>,
) -> Result<()> {
    let (double, single) = (backend.operator::<f64>(stencil)?, backend.operator::<f32>(stencil)?);
    let Some(hierarchy) = levels(backend, stencil, &single, &options.multigrid)? else { return Ok(()) };
    let Some(mut top) = backend.mixed_top(&double, &single, &hierarchy, relaxation)? else { return Ok(()) };
    let (layout, norm) = (backend.layout(stencil)?, OUT.get(0));
    let (mut f, mut u) = (backend.zeros::<f64>(&layout)?, backend.zeros::<f64>(&layout)?);
    upload_noise(backend, &layout, &mut f)?;
    let mut scalars = backend.scalars()?;
    top.begin(&f, &mut u, norm, &mut scalars)?;
    let mut coarse_u = match hierarchy.levels.get(1) {
        Some(level) => Some(backend.zeros::<f32>(level.layout())?),
        None => None,
    };
    let mut run = |top: &mut MixedTop<B>, step: &Traffic| -> Result<bool> {
        match &mut coarse_u {
            _ if step.name == traffic::CORRECT_SMOOTH_RESIDUAL.name => top.correct(&f, &mut u, norm, &mut scalars)?,
            Some(coarse_u) if step.name == traffic::ASCEND.name => {
                top.ascend(&f, &mut u, coarse_u, norm, &mut scalars)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    };
    for &step in steps {
        if run(&mut top, &step.step)? {
            let seconds = seconds(backend, || run(&mut top, &step.step).map(drop))?;
            timed.push(Timed { step, shape: layout.shape(), seconds });
        }
    }
    Ok(())
}

/// Vectors for every step on one grid.
struct Bench<'b, B: AggregateBackend, T: Real> {
    backend: &'b B,
    /// The operator of the finest level, for steps that only it has.
    finest: Option<&'b Capabilities<B, T>>,
    /// A level and its relaxation.
    level: Option<(&'b dyn LineSmoother<B, T>, Relaxation)>,
    transfer: Option<&'b dyn Transfer<B, T>>,
    /// The factorisation of the finest level, for steps that substitute.
    cholesky: Option<IncompleteCholesky<B, T>>,
    f: B::Vector<T>,
    u: B::Vector<T>,
    p: B::Vector<T>,
    next: Option<B::Vector<T>>,
    q: B::Vector<T>,
    coarse: Option<[B::Vector<T>; 2]>,
    scalars: B::Scalars,
}

const OUT: Sums<2> = Sums::new(0);

impl<'b, B: AggregateBackend, T: Real> Bench<'b, B, T> {
    fn new(
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
            Some(finest) => finest.operator.needs_next_direction()?,
            None => false,
        };
        Ok(Self {
            u: zeros()?,
            p: zeros()?,
            next: needs_next.then(zeros).transpose()?,
            q: zeros()?,
            coarse: coarse.transpose()?,
            scalars: backend.scalars()?,
            backend,
            finest,
            level,
            transfer,
            cholesky: None,
            f,
        })
    }

    /// Times the steps that are declared for a grid of this many cells and can run alone.
    fn time(&mut self, shape: Shape, steps: &[StepTraffic], timed: &mut Vec<Timed>) -> Result<()> {
        let backend = self.backend;
        for &step in steps.iter().filter(|step| step.cells == shape.cells()) {
            if self.run(&step.step)? {
                let seconds = seconds(backend, || self.run(&step.step).map(drop))?;
                timed.push(Timed { step, shape, seconds });
            }
        }
        Ok(())
    }

    /// Runs a step once; returns false where it cannot run alone.
    fn run(&mut self, step: &Traffic) -> Result<bool> {
        Ok(self.run_on_vectors(step)? || self.run_on_finest(step)? || self.run_on_level(step)?)
    }

    fn run_on_vectors(&mut self, step: &Traffic) -> Result<bool> {
        let Self { backend, f, u, q, scalars, .. } = self;
        let (first, second) = (OUT.get(0), OUT.get(1));
        let is = |declared: Traffic| declared.name == step.name;
        match () {
            () if is(traffic::UPDATE_RESIDUAL) => {
                backend.axpy_norm(Ratio::ZERO, q, f, second, scalars)?;
                backend.dot(f, u, first, scalars)?;
            }
            () if is(traffic::AXPY) => backend.axpy(Ratio::ZERO, f, u, scalars)?,
            () if is(traffic::XPAY) => backend.xpay(Ratio::ZERO, f, u, scalars)?,
            () if is(traffic::DOT) => backend.dot(f, q, first, scalars)?,
            () if is(traffic::NORM) => backend.dot(f, f, first, scalars)?,
            () if is(traffic::COPY) => backend.convert(f, u)?,
            () => return Ok(false),
        }
        Ok(true)
    }

    fn run_on_finest(&mut self, step: &Traffic) -> Result<bool> {
        let Self { finest, cholesky, f, u, p, next, q, scalars, .. } = self;
        let Some(Capabilities { operator, diagonal, lines, triangular, .. }) = finest else { return Ok(false) };
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
        match (diagonal, lines, triangular) {
            _ if is(traffic::APPLY) => operator.apply(f, q)?,
            _ if is(traffic::RESIDUAL) => operator.residual(f, u, q, norm, scalars)?,
            _ if is(traffic::RESIDUAL_NORM) => operator.residual_norm(f, u, q, norm, scalars)?,
            _ if is(traffic::ADVANCE_DIRECTION) => {
                let (next, z, alpha, beta) = (next.as_mut(), &mut *f, Ratio::ZERO, Ratio::ZERO);
                operator.advance_direction(Direction { u, p, next, z, q, alpha, beta, sigma: norm }, scalars)?;
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
            (.., Some(triangular)) if is(traffic::RELAX_LOWER) => triangular.relax_lower(f, q, u, None)?,
            (.., Some(triangular)) if is(traffic::RELAX_UPPER) => triangular.relax_upper(f, Some(q), u)?,
            (.., Some(triangular)) if is(traffic::INCOMPLETE_POISSON) => {
                triangular.incomplete_poisson(true, p, f, u)?;
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
                transfer.residual_restrict(sweep.f, sweep.u, coarse_f, sweep.scratch)?;
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
///
/// # Errors
/// The errors of the device.
pub fn upload_noise<B: Backend, T: Real>(backend: &B, layout: &Layout, vector: &mut B::Vector<T>) -> Result<()> {
    let shape = layout.shape();
    let noise: Vec<f64> = (0..shape.cells()).map(|n| problem::random(0, n)).collect();
    backend.upload(ArrayView::c_order(&noise, shape)?, vector)
}
