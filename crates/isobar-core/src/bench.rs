//! Times the fused steps of a solve, each alone and on the grid it runs on.

use std::time::Instant;

use crate::backend::{Backend, Ratio, Slot};
use crate::error::Result;
use crate::layout::{ArrayView, Colour, Layout, Shape};
use crate::operator::{Direction, Guess, MultigridOperator, Relaxation};
use crate::options::SolverOptions;
use crate::problem;
use crate::real::{Precision, Real};
use crate::solver::StepTraffic;
use crate::stencil::Stencil;
use crate::traffic::{self, Traffic};

/// A batch lasts at least so long, so that neither clock nor synchronisation shows.
const BATCH_SECONDS: f64 = 5e-3;
/// The median of so many batches counts.
const BATCHES: usize = 7;
/// A step as slow as this is timed once after its warm-up.
const SLOW_SECONDS: f64 = 1.0;

/// One step's time on one grid.
#[derive(Clone, Copy, Debug)]
pub struct Timed {
    /// The step, its grid's cells, and how often an iteration takes it.
    pub step: StepTraffic,
    /// The grid.
    pub shape: Shape,
    /// One execution.
    pub seconds: f64,
}

impl Timed {
    /// Declared bytes of one execution.
    pub fn bytes(&self) -> f64 {
        self.step.bytes_once()
    }

    /// Declared bytes a second.
    pub fn bandwidth(&self) -> f64 {
        self.bytes() / self.seconds
    }

    /// Declared floating-point operations a second.
    pub fn flops(&self) -> f64 {
        self.step.step.flops * self.step.cells as f64 / self.seconds
    }

    /// Seconds an iteration spends in this step.
    pub fn seconds_per_iteration(&self) -> f64 {
        self.seconds * self.step.count
    }
}

/// Times whatever `work` submits to the device: the median of a few batches, after a warm-up.
///
/// # Errors
/// Those of `work` and of the device.
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

/// Times every step of a solve's iteration that stands alone; steps are listed finest grid first.
///
/// # Errors
/// What the device reports; no memory for the vectors that the steps work on.
pub fn time_iteration<B: Backend, S: Stencil<B>>(
    backend: &B,
    stencil: &S,
    options: &SolverOptions,
    steps: &[StepTraffic],
) -> Result<Vec<Timed>> {
    let mut timed = Vec::new();
    let mut level = Some(stencil.clone());
    while let Some(stencil) = level {
        let shape = stencil.shape();
        let coarse = stencil.coarsened();
        let here: Vec<StepTraffic> = steps.iter().copied().filter(|step| step.cells == shape.cells()).collect();
        for (size, time) in [(8, time_level::<B, S, f64> as TimeLevel<B, S>), (4, time_level::<B, S, f32>)] {
            let here: Vec<StepTraffic> = here.iter().copied().filter(|step| step.size == size).collect();
            if !here.is_empty() {
                timed.extend(time(backend, &stencil, coarse.as_ref(), options, &here)?);
            }
        }
        let more = steps.iter().any(|step| step.cells < shape.cells());
        level = coarse.filter(|_| more);
    }
    Ok(timed)
}

type TimeLevel<B, S> = fn(&B, &S, Option<&S>, &SolverOptions, &[StepTraffic]) -> Result<Vec<Timed>>;

fn time_level<B: Backend, S: Stencil<B>, T: Real>(
    backend: &B,
    stencil: &S,
    coarse: Option<&S>,
    options: &SolverOptions,
    steps: &[StepTraffic],
) -> Result<Vec<Timed>> {
    let mixed = size_of::<T>() == 8 && options.precision == Precision::Mixed;
    let single = mixed.then(|| Single::new(backend, stencil, coarse)).transpose()?;
    let mut bench = Bench::<B, S::Operator<T>, S::Operator<f32>, T>::new(backend, stencil, coarse, options, single)?;
    let mut timed = Vec::new();
    for &step in steps {
        if bench.run(&step.step)? {
            let seconds = seconds(backend, || bench.run(&step.step).map(drop))?;
            timed.push(Timed { step, shape: stencil.shape(), seconds });
        }
    }
    Ok(timed)
}

/// Operators and vectors for every step on one grid.
struct Bench<'b, B: Backend, A, L, T: Real> {
    backend: &'b B,
    operator: A,
    coarse: Option<Coarse<B, A, T>>,
    relaxation: Relaxation,
    f: B::Vector<T>,
    u: B::Vector<T>,
    p: B::Vector<T>,
    q: B::Vector<T>,
    single: Option<Single<B, L>>,
    scalars: B::Scalars,
}

struct Coarse<B: Backend, A, T: Real> {
    operator: A,
    f: B::Vector<T>,
    u: B::Vector<T>,
}

/// The single-precision half of mixed precision.
struct Single<B: Backend, L> {
    operator: L,
    e: B::Vector<f32>,
    r: B::Vector<f32>,
    /// The next coarser operator, and a correction.
    coarse: Option<(L, B::Vector<f32>)>,
}

impl<B: Backend, L: MultigridOperator<B, f32>> Single<B, L> {
    fn new<S: Stencil<B, Operator<f32> = L>>(backend: &B, stencil: &S, coarse: Option<&S>) -> Result<Self> {
        let layout = Layout::new(stencil.shape())?;
        let coarse = coarse
            .map(|stencil| -> Result<_> {
                let u = backend.zeros(&Layout::new(stencil.shape())?)?;
                Ok((stencil.operator::<f32>(backend)?, u))
            })
            .transpose()?;
        let (e, r) = (backend.zeros(&layout)?, backend.zeros(&layout)?);
        Ok(Self { operator: stencil.operator::<f32>(backend)?, e, r, coarse })
    }
}

const OUT: [Slot; 2] = [Slot::new(0), Slot::new(1)];

impl<'b, B, A, L, T> Bench<'b, B, A, L, T>
where
    B: Backend,
    A: MultigridOperator<B, T>,
    L: MultigridOperator<B, f32> + 'static,
    T: Real,
{
    fn new<S: Stencil<B, Operator<T> = A>>(
        backend: &'b B,
        stencil: &S,
        coarse: Option<&S>,
        options: &SolverOptions,
        single: Option<Single<B, L>>,
    ) -> Result<Self> {
        let layout = Layout::new(stencil.shape())?;
        let zeros = || backend.zeros::<T>(&layout);
        let mut f = zeros()?;
        upload_noise(backend, &layout, &mut f)?;
        let coarse = coarse
            .map(|stencil| -> Result<_> {
                let layout = Layout::new(stencil.shape())?;
                Ok(Coarse {
                    operator: stencil.level::<T>(backend)?,
                    f: backend.zeros(&layout)?,
                    u: backend.zeros(&layout)?,
                })
            })
            .transpose()?;
        Ok(Self {
            backend,
            operator: stencil.level::<T>(backend)?,
            coarse,
            relaxation: Relaxation {
                smoother: options.multigrid.smoother,
                rho: options.multigrid.relaxation(),
                first: Colour::Red,
            },
            f,
            u: zeros()?,
            p: zeros()?,
            q: zeros()?,
            single,
            scalars: backend.scalars()?,
        })
    }

    /// Takes a step once; false where it does not stand alone.
    fn run(&mut self, step: &Traffic) -> Result<bool> {
        let Self { backend, operator, coarse, relaxation, f, u, p, q, single, scalars } = self;
        let [first, second] = OUT;
        let is = |declared: Traffic| declared.name == step.name;
        match coarse {
            Some(coarse) if is(traffic::RESIDUAL_RESTRICT) => {
                operator.residual_restrict(&coarse.operator, f, u, &mut coarse.f, q)?;
            }
            Some(coarse) if is(traffic::SMOOTH_RESIDUAL_RESTRICT) => {
                let guess = Guess::Given;
                operator.smooth_residual_restrict(&coarse.operator, *relaxation, guess, f, u, &mut coarse.f, q)?;
            }
            Some(coarse) if is(traffic::SMOOTH_RESIDUAL_RESTRICT_FROM_ZERO) => {
                let guess = Guess::Zero;
                operator.smooth_residual_restrict(&coarse.operator, *relaxation, guess, f, u, &mut coarse.f, q)?;
            }
            Some(coarse) if is(traffic::PROLONG_SMOOTH) => {
                let norm = Some((first, scalars));
                operator.prolong_smooth(&coarse.operator, *relaxation, f, &coarse.u, u, q, norm)?;
            }
            _ if is(traffic::APPLY) => operator.apply(f, q)?,
            _ if is(traffic::RESIDUAL) => operator.residual(f, u, q, first, scalars)?,
            _ if is(traffic::RESIDUAL_NORM) => operator.residual_norm(f, u, q, first, scalars)?,
            _ if is(traffic::ADVANCE_DIRECTION) => {
                let direction = Direction { u, p, z: f, q };
                operator.advance_direction(direction, Ratio::ZERO, Ratio::ZERO, first, scalars)?;
            }
            _ if is(traffic::SOLVE_LINES) => operator.solve_lines(f, u)?,
            _ if is(traffic::PRECONDITION_RESIDUAL) => {
                operator.precondition_residual(f, q, u, Ratio::ZERO, [first, second], scalars)?;
            }
            _ if is(traffic::SCALE_RESIDUAL) => {
                operator.scale_residual(f, q, u, Ratio::ZERO, [first, second], scalars)?;
            }
            _ if is(traffic::UPDATE_RESIDUAL) => {
                backend.axpy(Ratio::ZERO, q, f, scalars)?;
                backend.dot(f, u, first, scalars)?;
                backend.dot(f, f, second, scalars)?;
            }
            _ if is(traffic::AXPY) => backend.axpy(Ratio::ZERO, f, u, scalars)?,
            _ if is(traffic::XPAY) => backend.xpay(Ratio::ZERO, f, u, scalars)?,
            _ if is(traffic::DOT) => backend.dot(f, q, first, scalars)?,
            _ if is(traffic::NORM) => backend.dot(f, f, first, scalars)?,
            _ if is(traffic::DIVIDE_BY_DIAGONAL) => operator.divide_by_diagonal(f, u)?,
            _ if is(traffic::COPY) => backend.convert(f, u)?,
            _ if is(traffic::SMOOTH) => operator.smooth(*relaxation, Guess::Given, f, u, q)?,
            _ if is(traffic::SMOOTH_FROM_ZERO) => operator.smooth(*relaxation, Guess::Zero, f, u, q)?,
            _ if is(traffic::CORRECT_SMOOTH_RESIDUAL) => match single {
                Some(Single { e, r, .. }) => {
                    operator.correct_smooth_residual(*relaxation, f, e, u, r, q, first, scalars)?;
                }
                None => return Ok(false),
            },
            _ if is(traffic::ASCEND) => match single {
                Some(Single { operator: finest, e, r, coarse: Some((coarser, coarse_u)) }) => {
                    let operators = [&*finest, &*coarser];
                    operator.ascend(operators, *relaxation, f, u, coarse_u, [e, r], q, first, scalars)?;
                }
                _ => return Ok(false),
            },
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// Fills a vector with noise: zeros would hide denormals and make any iteration trivial.
///
/// # Errors
/// What the device reports.
pub fn upload_noise<B: Backend, T: Real>(backend: &B, layout: &Layout, vector: &mut B::Vector<T>) -> Result<()> {
    let shape = layout.shape();
    let noise: Vec<f64> = (0..shape.cells()).map(|n| problem::random(0, n)).collect();
    backend.upload(ArrayView::c_order(&noise, shape)?, vector)
}
