//! Direct solves: as a method, of the nearest box as a preconditioner, and directly between callers' arrays.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Instant;

use super::assembly::{Maker, Parts};
use super::run::note_of;
use super::system::System;
use crate::backend::Judged;
use crate::backend::direct::locked;
use crate::direct::{MOST_EIGENVECTORS, Separable};
use crate::options::{Compatibility, Method, SolverOptions};
use crate::outcome::{Outcome, Stop, Timing};
use crate::policy::begin::Beginning;
use crate::policy::watch::Replaceable;
use crate::precond::null_space::NEGLIGIBLE;
use crate::precond::{NearestBox, Preconditioner};
use crate::solver::direct::Direct;
use crate::solver::monitor::Patience;
use crate::solver::{Iteration, Monitor, Observer};
use crate::stencil::{Axis, Stencil, Supports};
use crate::{Backend, Error, Real, Result, Source, Target};

impl<B: Supports<S>, S: Stencil> System<B, S> {
    /// Makes a solver that solves directly if `options` leave everything open and the matrix is separable; otherwise, or if the matrix is no
    /// longer separable after an update, it has the options `otherwise`.
    ///
    /// # Errors
    /// See [`System::new`].
    pub(crate) fn direct_or(
        backend: &B,
        stencil: &S,
        options: &SolverOptions,
        otherwise: &SolverOptions,
    ) -> Result<Self> {
        Self::assembled(backend, stencil, [options, otherwise], None)
    }

    /// Changes to an iteration that suits a matrix whose new coefficients are not separable.
    pub(super) fn leave_direct(&mut self) -> Result<()> {
        let Some(asked) = self.decision.after_direct.take() else { return Ok(()) };
        let choice = self.backend.choice(&self.stencil, &self.operator, &asked)?;
        let Beginning { options, is_replaceable, is_cycles, reserve, has_levels, why, .. } =
            Beginning::<Separable>::by(&choice, &asked)?;
        self.backend.prepare(&self.stencil, &self.operator, &options)?;
        if !options.method.is_stationary() {
            self.keep_best()?;
        }
        self.decision.replaceable =
            Replaceable { is_points: is_replaceable, is_cycles, is_multigrid: true, ..self.decision.replaceable };
        (self.decision.reserve, self.decision.has_levels) = (reserve, has_levels);
        self.description.notes.drain(..self.decision.first_notes);
        self.decision.first_notes = 0;
        self.replace(options)?;
        let turns = self.turns();
        self.description.notes.extend(why.into_iter().chain(turns.describe(turns.once(self.stencil.shape()))));
        Ok(())
    }
}

/// Norms whose squares are well within the range of double precision.
const ORDINARY: std::ops::Range<f64> = 1e-100..1e100;

impl<B: Supports<S>, S: Stencil> System<B, S> {
    /// Solves directly from one array to the other. Returns nothing if that is not possible, or if the result does not count as converged:
    /// the general path then reports why.
    pub(super) fn solve_arrays(
        &mut self,
        rhs: &Source<'_>,
        u: &mut Target<'_>,
        observer: &mut Observer<'_>,
    ) -> Result<Option<Outcome>> {
        let is_possible =
            self.options.method == Method::Direct && self.scaled.is_none() && self.options.max_iterations > 0;
        if !is_possible {
            return Ok(None);
        }
        let clock = Instant::now();
        let order = self.turns().order;
        let (rhs, mut u) = (rhs.in_order(order), u.in_order(order));
        let Some(Judged { rhs, residual, removed }) = self.iteration.solve_arrays(&rhs, &mut u)? else {
            return Ok(None);
        };
        let tolerance = self.options.tolerance;
        let is_compatible = self.options.compatibility == Compatibility::Project
            || removed.is_none_or(|removed| removed <= NEGLIGIBLE * tolerance);
        if !(ORDINARY.contains(&rhs) && residual <= tolerance * rhs && is_compatible) {
            return Ok(None);
        }
        let mut monitor = Monitor::new(rhs, tolerance, self.options.max_iterations, Patience::Refinement, observer);
        if monitor.begin(rhs).is_continue() {
            let _ = monitor.observe(residual * residual);
        }
        Ok(Some(Outcome {
            spectrum: None,
            removed,
            error_estimate: None,
            energy_error: None,
            stop: monitor.stop().unwrap_or(Stop::MaxIterations),
            iterations: monitor.iterations(),
            relative_residual: residual / rhs,
            history: monitor.into_history(),
            is_returned: true,
            batch: None,
            advice: None,
            notes: note_of(removed).into_iter().collect(),
            timing: Timing { solve: clock.elapsed().as_secs_f64(), ..Timing::default() },
        }))
    }
}

impl<B: Supports<S>, S: Stencil> Maker<'_, B, S, f64> {
    /// Makes the method of transforms and tridiagonal systems.
    pub(super) fn direct(&self) -> Result<Parts<S, dyn Iteration<B, f64>>> {
        let Self { backend, stencil, capabilities, .. } = self;
        let layout = backend.layout(stencil)?;
        let factors = self
            .factors
            .map_or_else(|| factors_of(*backend, stencil).map(Cow::Owned), |known| Ok(Cow::Borrowed(known)))?;
        let shape = factors.shape;
        let solver = backend.direct(&layout, &factors)?.ok_or_else(not_direct)?;
        let is_exact = Arc::new(AtomicBool::new(factors.is_exact));
        let operator = Arc::clone(&capabilities.operator) as _;
        let made = Direct::new(operator, Arc::clone(&solver), shape.cells(), Arc::clone(&is_exact))?;
        let mut parts = Parts::new(Box::new(made) as _);
        parts.notes.push(locked(&solver).describe());
        let device = (*backend).clone();
        let update = move |stencil: &S| {
            let factors = factors_of(&device, stencil)?.once(shape);
            locked(&solver).update(&factors)?;
            is_exact.store(factors.is_exact, Relaxed);
            Ok(())
        };
        parts.updates.push(Box::new(update));
        Ok(parts)
    }
}

impl<B: Supports<S>, S: Stencil, T: Real> Maker<'_, B, S, T> {
    /// Makes the preconditioner of a direct solve of the nearest box.
    pub(super) fn nearest_box(&self) -> Result<Parts<S, dyn Preconditioner<B, T>>> {
        let Self { backend, stencil, .. } = self;
        let layout = backend.layout(stencil)?;
        let factors = match self.factors {
            Some(factors) => Cow::Borrowed(factors),
            None => Cow::Owned(box_of(*backend, stencil)?),
        };
        let solver = backend.direct(&layout, &factors)?.ok_or_else(not_direct)?;
        let made = NearestBox::new::<T>(*backend, layout, Arc::clone(&solver))?;
        let mut parts: Parts<S, dyn Preconditioner<B, T>> = Parts::new(Box::new(made));
        parts.notes.push(format!("the nearest box, {}", locked(&solver).describe()));
        let device = (*backend).clone();
        parts.updates.push(Box::new(move |stencil| locked(&solver).update(&box_of(&device, stencil)?)));
        Ok(parts)
    }
}

/// Returns whether the grid is divided among ranks.
pub(super) fn is_divided<B: Backend>(backend: &B) -> bool {
    backend.device().ranks > 1
}

/// Returns the error for a capability that a matrix has on one device, but not on ranks.
pub(super) fn not_on_ranks(what: &str, instead: &str) -> Error {
    Error::Unsupported(format!(
        "{what} is not divided among ranks on devices of this kind, or where a periodic y is divided; use {instead}, or run on one"
    ))
}

/// Returns the axis of the lines of direct solves, if ranks that divide rows leave no choice.
pub(crate) fn lines_of<B: Backend>(backend: &B) -> Option<Axis> {
    is_divided(backend).then_some(Axis::Y)
}

/// Returns the factors with lines along y if ranks divide its rows, so that only the systems of lines are divided; nothing if the matrix has no such
/// factors.
pub(super) fn divided<B: Backend>(backend: &B, factors: Separable) -> Option<Separable> {
    match lines_of(backend) {
        Some(axis) => factors.with_lines(axis as usize),
        None => Some(factors),
    }
}

/// Returns the factors of a matrix that a device solves directly by its own choice.
pub(super) fn chosen<B: Supports<S>, S: Stencil>(backend: &B, stencil: &S) -> Option<Separable> {
    divided(backend, stencil.chooses_direct()?).filter(|factors| factors.pays() && backend.direct_pays(factors))
}

/// Returns the factors by which a device solves a matrix directly.
///
/// # Errors
/// See [`Stencil::separable`]; [`Error::Unsupported`] if several ranks cannot divide its lines, or have too many eigenvectors.
pub(crate) fn factors_of<B: Supports<S>, S: Stencil>(backend: &B, stencil: &S) -> Result<Separable> {
    let factors = divided(backend, backend.separable(stencil)?).ok_or_else(|| {
        Error::Unsupported(
            "solver.method: \"direct\" on several ranks needs coefficients that vary along y by one factor for all directions, and along each other \
             axis by one factor for both others; use \"auto\", or one rank"
                .into(),
        )
    })?;
    with_few_eigenvectors(backend, factors)
}

/// Returns the factors of the nearest box.
///
/// # Errors
/// See [`Stencil::nearest_box`]; [`Error::Unsupported`] if several ranks have too many eigenvectors.
pub(crate) fn box_of<B: Supports<S>, S: Stencil>(backend: &B, stencil: &S) -> Result<Separable> {
    with_few_eigenvectors(backend, backend.nearest_box(stencil, lines_of(backend))?)
}

/// Returns factors unless lines along y, which ranks divide, leave an axis with eigenvectors that take minutes.
///
/// # Errors
/// [`Error::Unsupported`] if they do.
fn with_few_eigenvectors<B: Backend>(backend: &B, factors: Separable) -> Result<Separable> {
    match factors.stretched().max() {
        Some(cells) if is_divided(backend) && cells > MOST_EIGENVECTORS => Err(Error::Unsupported(format!(
            "a direct solve on several ranks, whose lines are along y, with {cells} eigenvectors of another axis, more than {MOST_EIGENVECTORS}; \
             use the preconditioner \"multigrid\", one rank, or y for the longest axis"
        ))),
        _ => Ok(factors),
    }
}

/// Returns the error for a direct solve on a device that has none.
fn not_direct() -> Error {
    Error::Unsupported("this device has no direct solves; use the preconditioner \"multigrid\"".into())
}
