//! An operator, an iteration and the judgement at the end: what a user calls.

use std::sync::Arc;
use std::time::Instant;

use super::assembly::{Parts, assemble};
use super::monitor::Patience;
use super::{Iteration, Monitor, Progress, StepTraffic};
use crate::backend::{Backend, DeviceInfo, Slot};
use crate::error::{Error, Result};
use crate::layout::{ArrayView, ArrayViewMut, Layout, Shape};
use crate::null_space::NullSpace;
use crate::operator::{Guess, Operator};
use crate::options::{Method, Norm, PreconditionerKind, SolverOptions};
use crate::outcome::{Outcome, Stop, Timing};
use crate::real::Precision;
use crate::stencil::Stencil;

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
pub struct System<B: Backend, S: Stencil<B>> {
    backend: B,
    operator: Arc<S::Operator<f64>>,
    null_space: Option<Box<dyn NullSpace<B>>>,
    iteration: Box<dyn Iteration<B, f64>>,
    patience: Patience,
    options: SolverOptions,
    layout: Layout,
    b: B::Vector<f64>,
    u: B::Vector<f64>,
    /// Only where the operator's residual norm needs a place for the residual.
    scratch: B::Vector<f64>,
    /// D⁻¹ r, where the norm is ‖D^−½ r‖.
    scaled: Option<B::Vector<f64>>,
    scalars: B::Scalars,
    description: Description,
}

/// ‖r‖²
const NORM: Slot = Slot::new(0);
/// Restarts from the true residual before a solve that believes itself converged is called stalled.
const MAX_RESTARTS: usize = 10;

impl<B: Backend + Clone, S: Stencil<B>> System<B, S> {
    /// Puts operator, iteration and vectors on a device.
    ///
    /// # Errors
    /// [`Error::Invalid`] for options that make no sense, together or alone; [`Error::Unsupported`] for
    /// those that this stencil does not offer; what the device reports.
    pub fn new(backend: &B, stencil: &S, options: &SolverOptions) -> Result<Self> {
        options.validate()?;
        if !stencil.is_symmetric() && options.method.needs_symmetry() {
            return Err(Error::invalid(
                "solver.method",
                "conjugate gradients need a symmetric operator, and advection makes this one non-symmetric; use \
                 \"bicgstab\" or \"multigrid\"",
            ));
        }
        let layout = Layout::new(stencil.shape())?;
        let operator = Arc::new(stencil.operator::<f64>(backend)?);
        let null_space = stencil.null_space(backend, options)?;
        let Parts { iteration, levels, mut notes } = assemble(backend, stencil, options, &operator)?;
        notes.extend(null_space.iter().map(|space| space.describe()));
        let scaled_norm = options.norm == Norm::Scaled;
        let scratch_layout =
            if scaled_norm || operator.norm_needs_scratch() { layout } else { Layout::new(Shape::new(1, 1, 1))? };
        let scaled = scaled_norm.then(|| backend.zeros(&layout)).transpose()?;
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
            bytes: (2 * layout.len() + scratch_layout.len() + if scaled.is_some() { layout.len() } else { 0 })
                * size_of::<f64>()
                + iteration.workspace_bytes(),
            traffic: iteration.traffic(),
        };
        Ok(Self {
            patience: if options.method == Method::Multigrid { Patience::Stationary } else { Patience::Krylov },
            options: options.clone(),
            b: backend.zeros(&layout)?,
            u: backend.zeros(&layout)?,
            scratch: backend.zeros(&scratch_layout)?,
            scaled,
            scalars: backend.scalars()?,
            backend: backend.clone(),
            operator,
            null_space,
            iteration,
            layout,
            description,
        })
    }

    /// ‖b − A u‖ in double precision.
    fn true_residual(&mut self) -> Result<f64> {
        let Self { operator, b, u, scratch, scaled, scalars, .. } = self;
        match scaled {
            None => operator.residual_norm(b, u, scratch, NORM, scalars)?,
            Some(scaled) => {
                operator.residual(b, u, scratch, NORM, scalars)?;
                operator.divide_by_diagonal(scratch, scaled)?;
                self.backend.dot(scratch, scaled, NORM, scalars)?;
            }
        }
        Ok(self.backend.read(&self.scalars)?[NORM.index()].sqrt())
    }

    fn rhs_norm(&mut self) -> Result<f64> {
        let Self { operator, b, scaled, scalars, .. } = self;
        match scaled {
            None => self.backend.dot(b, b, NORM, scalars)?,
            Some(scaled) => {
                operator.divide_by_diagonal(b, scaled)?;
                self.backend.dot(b, scaled, NORM, scalars)?;
            }
        }
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
    /// Of what was taken out of b, relative.
    removed: Option<f64>,
    /// ‖b‖
    rhs: f64,
    /// ‖r₀‖
    initial: f64,
}

/// For callers whose arrays are on the device already: fill [`System::rhs_mut`], and
/// [`System::solution_mut`] where there is a first guess, then [`System::solve_in_place`].
impl<B: Backend + Clone, S: Stencil<B>> System<B, S> {
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

    /// Norms of b and of the first residual, after b has been made compatible with a singular A.
    fn norms(&mut self, guess: Guess) -> Result<Norms> {
        let mut removed = None;
        if let Some(space) = &mut self.null_space {
            removed = Some(space.make_compatible(&mut self.b, self.options.tolerance)?.relative);
            if guess == Guess::Given {
                space.project_out(&mut self.u)?;
            }
        }
        let rhs = self.rhs_norm()?;
        let initial = if guess == Guess::Zero { rhs } else { self.true_residual()? };
        Ok(Norms { removed, rhs, initial })
    }

    fn run(
        &mut self,
        Norms { removed, rhs, initial }: Norms,
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
            Norm::Rhs | Norm::Scaled => rhs,
        };
        let SolverOptions { tolerance, max_iterations, .. } = self.options;
        let mut monitor = Monitor::new(reference, tolerance, max_iterations, self.patience, observer);
        let backend = self.backend.clone();
        let residual = backend.enter(|| {
            let residual = self.iterate(guess, &mut monitor, initial, reference)?;
            if let Some(space) = &mut self.null_space {
                space.project_out(&mut self.u)?;
            }
            Ok::<_, Error>(residual)
        })?;
        Ok(Outcome {
            spectrum: monitor.spectrum(),
            removed,
            stop: monitor.stop().unwrap_or(Stop::MaxIterations),
            iterations: monitor.iterations(),
            relative_residual: if reference > 0.0 { residual / reference } else { residual },
            history: monitor.into_history(),
            timing: Timing { solve: clock.elapsed().as_secs_f64(), ..Timing::default() },
        })
    }
}

impl<B: Backend + Clone, S: Stencil<B>> Solve for System<B, S> {
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
