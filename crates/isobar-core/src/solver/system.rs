//! An operator, an iteration and the judgement at the end: what a user calls.

use std::sync::Arc;
use std::time::Instant;

use super::bicgstab::Bicgstab;
use super::cg::{Cg, Form};
use super::monitor::Patience;
use super::multigrid::{MixedMultigrid, Multigrid};
use super::{Iteration, Monitor, Progress, StepTraffic};
use crate::backend::{Backend, DeviceInfo, Slot, TensorProductBackend};
use crate::error::{Error, Result};
use crate::layout::{ArrayView, ArrayViewMut, Layout, Shape};
use crate::operator::{Guess, Operator};
use crate::options::{Method, Norm, PreconditionerKind, SolverOptions};
use crate::outcome::{Outcome, Stop, Timing};
use crate::precond::Preconditioner;
use crate::precond::multigrid::Cycle;
use crate::precond::{Diagonal, Identity, Line};
use crate::real::{Precision, Real};
use crate::stencil::TensorProduct;

/// What was put together.
#[derive(Clone, Debug, PartialEq)]
pub struct Description {
    /// The device.
    pub device: DeviceInfo,
    /// The iteration, as the case file calls it.
    pub method: String,
    /// The preconditioner, as the case file calls it; `none` for methods without one.
    pub preconditioner: String,
    /// Storage of vectors.
    pub precision: Precision,
    /// The grids of the multigrid hierarchy, finest first; empty where there is none.
    pub levels: Vec<Shape>,
    /// What the user should know: where a wish could not be met, and why.
    pub notes: Vec<String>,
    /// Bytes of vectors on the device.
    pub bytes: usize,
    /// What an iteration declares to move, step by step.
    pub traffic: Vec<StepTraffic>,
}

/// A solver ready to be used, whatever it is made of and wherever it runs.
pub trait Solve {
    /// Solves A u = `rhs`, starting from what `u` holds if `guess` says so.
    ///
    /// # Errors
    /// [`Error::Shape`] or [`Error::NotFinite`] for arrays that do not fit the problem, and what the
    /// device reports. Not converging is an outcome.
    fn solve(
        &mut self,
        rhs: ArrayView<'_, f64>,
        u: &mut ArrayViewMut<'_, f64>,
        guess: Guess,
        observer: &mut (dyn FnMut(&Progress) + Send),
    ) -> Result<Outcome>;

    /// What this is.
    fn description(&self) -> &Description;

    /// Bytes a second that a copy of a vector of this size moves, measured now.
    ///
    /// # Errors
    /// What the device reports.
    fn copy_bandwidth(&self) -> Result<f64>;
}

/// A linear system on one back end: the operator in double precision, which judges, and an iteration
/// in whatever precision, which solves.
///
/// Storage: b and u in double precision, beside the iteration's own.
pub struct System<B: TensorProductBackend> {
    backend: B,
    operator: Arc<B::TensorProduct<f64>>,
    iteration: Box<dyn Iteration<B, f64>>,
    patience: Patience,
    options: SolverOptions,
    layout: Layout,
    b: B::Vector<f64>,
    u: B::Vector<f64>,
    /// Only where the operator's residual norm needs a place for the residual.
    scratch: B::Vector<f64>,
    scalars: B::Scalars,
    description: Description,
}

/// ‖r‖²
const NORM: Slot = Slot::new(0);
/// Restarts from the true residual before a solve that believes itself converged is called stalled.
const MAX_RESTARTS: usize = 10;

impl<B: TensorProductBackend + Clone> System<B> {
    /// Puts operator, iteration and vectors on a device.
    ///
    /// # Errors
    /// [`Error::Invalid`] for options that make no sense, together or alone; what the device reports.
    pub fn new(backend: &B, stencil: &TensorProduct, options: &SolverOptions) -> Result<Self> {
        options.validate()?;
        let symmetric = stencil.is_symmetric();
        if !symmetric && matches!(options.method, Method::Cg | Method::CgTextbook) {
            return Err(Error::invalid(
                "solver.method",
                "conjugate gradients need a symmetric operator, and advection makes this one non-symmetric; use \
                 \"bicgstab\" or \"multigrid\"",
            ));
        }
        let layout = Layout::new(stencil.shape())?;
        let operator = Arc::new(backend.tensor_product::<f64>(stencil)?);
        let Parts { iteration, levels, notes }: Parts<B, f64> = match options.precision {
            Precision::F64 => iteration::<B, f64>(backend, stencil, options, Arc::clone(&operator))?,
            Precision::F32 => {
                let single = Arc::new(backend.tensor_product::<f32>(stencil)?);
                let parts = iteration::<B, f32>(backend, stencil, options, single)?;
                let inner = InPrecision::new(backend, layout, parts.iteration)?;
                Parts { iteration: Box::new(inner), levels: parts.levels, notes: parts.notes }
            }
            Precision::Mixed => {
                let cycle = Cycle::<B, _, f32>::new(backend, stencil, &options.multigrid)?;
                let (levels, notes) = (cycle.shapes(), cycle.notes().to_vec());
                let outer = backend.tensor_product::<f64>(stencil)?;
                Parts { iteration: Box::new(MixedMultigrid::new(outer, cycle, &options.multigrid)?), levels, notes }
            }
        };
        let scratch_layout = if operator.norm_needs_scratch() { layout } else { Layout::new(Shape::new(1, 1, 1))? };
        let description = Description {
            device: backend.device(),
            method: options.method.name().into(),
            preconditioner: match options.method {
                Method::Multigrid => PreconditionerKind::None.name().into(),
                _ => options.preconditioner.kind.name().into(),
            },
            precision: options.precision,
            levels,
            notes,
            bytes: (2 * layout.len() + scratch_layout.len()) * size_of::<f64>() + iteration.workspace_bytes(),
            traffic: iteration.traffic(),
        };
        Ok(Self {
            patience: if options.method == Method::Multigrid { Patience::Stationary } else { Patience::Krylov },
            options: options.clone(),
            b: backend.zeros(&layout)?,
            u: backend.zeros(&layout)?,
            scratch: backend.zeros(&scratch_layout)?,
            scalars: backend.scalars()?,
            backend: backend.clone(),
            operator,
            iteration,
            layout,
            description,
        })
    }

    /// ‖b − A u‖ in double precision.
    fn true_residual(&mut self) -> Result<f64> {
        let Self { operator, b, u, scratch, scalars, .. } = self;
        operator.residual_norm(b, u, scratch, NORM, scalars)?;
        Ok(self.backend.read(&self.scalars)?[NORM.index()].sqrt())
    }

    fn rhs_norm(&mut self) -> Result<f64> {
        self.backend.dot(&self.b, &self.b, NORM, &mut self.scalars)?;
        Ok(self.backend.read(&self.scalars)?[NORM.index()].sqrt())
    }

    /// Iterates until the true residual confirms convergence, or the iteration gives up, or
    /// restarting from the true residual gains nothing.
    fn iterate(&mut self, mut guess: Guess, monitor: &mut Monitor<'_>, initial: f64, reference: f64) -> Result<f64> {
        let tolerance = self.options.tolerance;
        let mut residual = initial;
        if monitor.begin(initial).is_break() {
            if guess == Guess::Zero {
                self.backend.clear(&mut self.u)?;
            }
            return Ok(residual);
        }
        for _ in 0..MAX_RESTARTS {
            let before = residual;
            self.iteration.run(&self.b, &mut self.u, guess, monitor)?;
            guess = Guess::Given;
            residual = self.true_residual()?;
            let met = residual <= tolerance * reference;
            match monitor.stop() {
                Some(Stop::Converged) if met => return Ok(residual),
                Some(Stop::Converged) => {
                    // The iteration's own residual drifted from the true one.
                    if !residual.is_finite() {
                        monitor.rule(Stop::Breakdown);
                        return Ok(residual);
                    }
                    monitor.resume(residual);
                    if monitor.stop().is_some() {
                        return Ok(residual);
                    }
                    if residual > 0.5 * before {
                        break;
                    }
                }
                _ if met => {
                    monitor.rule(Stop::Converged);
                    return Ok(residual);
                }
                _ => return Ok(residual),
            }
        }
        monitor.rule(Stop::Stagnated);
        Ok(residual)
    }
}

/// The norms that a solve begins with.
#[derive(Clone, Copy, Debug)]
struct Norms {
    /// ‖b‖
    rhs: f64,
    /// ‖r₀‖
    initial: f64,
}

/// For callers whose arrays are on the device already: fill [`System::rhs_mut`], and
/// [`System::solution_mut`] where there is a first guess, then [`System::solve_in_place`].
impl<B: TensorProductBackend + Clone> System<B> {
    /// b
    pub fn rhs_mut(&mut self) -> &mut B::Vector<f64> {
        &mut self.b
    }

    /// u
    pub fn solution(&self) -> &B::Vector<f64> {
        &self.u
    }

    /// u, as a first guess
    pub fn solution_mut(&mut self) -> &mut B::Vector<f64> {
        &mut self.u
    }

    /// Solves A u = b with the b and u that are on the device; nothing is copied.
    ///
    /// # Errors
    /// [`Error::Invalid`] where b or the residual of the first guess is not finite; what the device
    /// reports.
    pub fn solve_in_place(&mut self, guess: Guess, observer: &mut (dyn FnMut(&Progress) + Send)) -> Result<Outcome> {
        let norms = self.norms(guess)?;
        self.run(norms, guess, observer)
    }

    fn norms(&mut self, guess: Guess) -> Result<Norms> {
        let rhs = self.rhs_norm()?;
        let initial = if guess == Guess::Zero { rhs } else { self.true_residual()? };
        Ok(Norms { rhs, initial })
    }

    fn run(
        &mut self,
        Norms { rhs, initial }: Norms,
        guess: Guess,
        observer: &mut (dyn FnMut(&Progress) + Send),
    ) -> Result<Outcome> {
        for (what, norm) in [("the right-hand side", rhs), ("the first guess", initial)] {
            if !norm.is_finite() {
                return Err(Error::invalid(
                    what,
                    "it holds a NaN or an infinity, or its norm overflows; scale it down",
                ));
            }
        }
        let clock = Instant::now();
        let reference = match self.options.norm {
            Norm::Initial => initial,
            Norm::Rhs => rhs,
        };
        let SolverOptions { tolerance, max_iterations, .. } = self.options;
        let mut monitor = Monitor::new(reference, tolerance, max_iterations, self.patience, observer);
        let backend = self.backend.clone();
        let residual = backend.enter(|| self.iterate(guess, &mut monitor, initial, reference))?;
        Ok(Outcome {
            stop: monitor.stop().unwrap_or(Stop::MaxIterations),
            iterations: monitor.iterations(),
            relative_residual: if reference > 0.0 { residual / reference } else { residual },
            history: monitor.into_history(),
            timing: Timing { solve: clock.elapsed().as_secs_f64(), ..Timing::default() },
        })
    }
}

impl<B: TensorProductBackend + Clone> Solve for System<B> {
    fn solve(
        &mut self,
        rhs: ArrayView<'_, f64>,
        u: &mut ArrayViewMut<'_, f64>,
        guess: Guess,
        observer: &mut (dyn FnMut(&Progress) + Send),
    ) -> Result<Outcome> {
        let clock = Instant::now();
        for (what, shape) in [("the right-hand side", rhs.shape()), ("the solution", u.shape())] {
            if shape != self.layout.shape() {
                return Err(Error::shape(what, shape.to_string(), self.layout.shape().to_string()));
            }
        }
        self.backend.upload(rhs, &mut self.b)?;
        if guess == Guess::Given {
            self.backend.upload(u.as_view(), &mut self.u)?;
        }
        let norms = self.norms(guess)?;
        if !norms.rhs.is_finite() {
            find_not_finite("the right-hand side", &rhs)?;
        }
        if !norms.initial.is_finite() {
            find_not_finite("the first guess", &u.as_view())?;
        }
        let upload = clock.elapsed().as_secs_f64();
        let mut outcome = self.run(norms, guess, observer)?;
        let clock = Instant::now();
        self.backend.download(&self.u, u)?;
        outcome.timing.upload = upload;
        outcome.timing.download = clock.elapsed().as_secs_f64();
        Ok(outcome)
    }

    fn description(&self) -> &Description {
        &self.description
    }

    fn copy_bandwidth(&self) -> Result<f64> {
        // Beyond this size a copy is no faster, and two more vectors may not fit beside the solver.
        let large = Layout::new(Shape::new(512, 512, 128))?;
        self.backend.copy_bandwidth(if self.layout.len() < large.len() { &self.layout } else { &large })
    }
}

/// Names the first entry that is not finite, if there is one.
fn find_not_finite(what: &str, array: &ArrayView<'_, f64>) -> Result<()> {
    let Shape { nx, ny, nz } = array.shape();
    for k in 0..nz {
        for j in 0..ny {
            for i in 0..nx {
                let value = array.get(i, j, k);
                if !value.is_finite() {
                    return Err(Error::NotFinite { what: what.into(), value, i, j, k });
                }
            }
        }
    }
    Ok(())
}

struct Parts<B: Backend, T: Real> {
    iteration: Box<dyn Iteration<B, T>>,
    levels: Vec<Shape>,
    notes: Vec<String>,
}

/// Builds the iteration that the options ask for, wholly in precision T.
fn iteration<B: TensorProductBackend + Clone, T: Real>(
    backend: &B,
    stencil: &TensorProduct,
    options: &SolverOptions,
    operator: Arc<B::TensorProduct<T>>,
) -> Result<Parts<B, T>> {
    let cycle = || Cycle::<B, _, T>::new(backend, stencil, &options.multigrid);
    let shapes_and_notes = |cycle: &Cycle<B, _, T>| (cycle.shapes(), cycle.notes().to_vec());
    let kind = match options.method {
        Method::Cg => Krylov::Cg(Form::Fused),
        Method::CgTextbook => Krylov::Cg(Form::Textbook),
        Method::Bicgstab => Krylov::Bicgstab,
        Method::Multigrid => {
            let cycle = cycle()?;
            let (levels, notes) = shapes_and_notes(&cycle);
            let iteration = Box::new(Multigrid::new(cycle, options.multigrid.start)?);
            return Ok(Parts { iteration, levels, notes });
        }
    };
    let (mut levels, mut notes) = (Vec::new(), Vec::new());
    let iteration = match options.preconditioner.kind {
        PreconditionerKind::None => krylov(kind, operator, Identity(backend.clone()))?,
        PreconditionerKind::Jacobi => krylov(kind, Arc::clone(&operator), Diagonal(operator))?,
        PreconditionerKind::Line => krylov(kind, Arc::clone(&operator), Line(operator))?,
        PreconditionerKind::Multigrid => {
            let cycle = cycle()?;
            (levels, notes) = shapes_and_notes(&cycle);
            krylov(kind, operator, cycle)?
        }
    };
    Ok(Parts { iteration, levels, notes })
}

#[derive(Clone, Copy)]
enum Krylov {
    Cg(Form),
    Bicgstab,
}

fn krylov<B, A, M, T>(kind: Krylov, operator: A, preconditioner: M) -> Result<Box<dyn Iteration<B, T>>>
where
    B: Backend + Clone,
    A: Operator<B, T> + 'static,
    M: Preconditioner<B, T> + 'static,
    T: Real,
{
    Ok(match kind {
        Krylov::Cg(form) => Box::new(Cg::new(form, operator, preconditioner)?),
        Krylov::Bicgstab => Box::new(Bicgstab::new(operator, preconditioner)?),
    })
}

/// An iteration in precision T, used on vectors in double precision.
///
/// Storage: b and u in T.
struct InPrecision<B: Backend, T: Real> {
    backend: B,
    inner: Box<dyn Iteration<B, T>>,
    b: B::Vector<T>,
    u: B::Vector<T>,
    layout: Layout,
}

impl<B: Backend + Clone, T: Real> InPrecision<B, T> {
    fn new(backend: &B, layout: Layout, inner: Box<dyn Iteration<B, T>>) -> Result<Self> {
        let (b, u) = (backend.zeros(&layout)?, backend.zeros(&layout)?);
        Ok(Self { backend: backend.clone(), inner, b, u, layout })
    }
}

impl<B: Backend + Clone, T: Real> Iteration<B, f64> for InPrecision<B, T> {
    fn run(
        &mut self,
        b: &B::Vector<f64>,
        u: &mut B::Vector<f64>,
        guess: Guess,
        monitor: &mut Monitor<'_>,
    ) -> Result<()> {
        self.backend.convert(b, &mut self.b)?;
        if guess == Guess::Given {
            self.backend.convert(u, &mut self.u)?;
        }
        self.inner.run(&self.b, &mut self.u, guess, monitor)?;
        self.backend.convert(&self.u, u)
    }

    fn traffic(&self) -> Vec<StepTraffic> {
        self.inner.traffic()
    }

    fn workspace_bytes(&self) -> usize {
        2 * self.layout.len() * size_of::<T>() + self.inner.workspace_bytes()
    }
}
