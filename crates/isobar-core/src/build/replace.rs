//! Replacements of iterations that are slow or fail: of automatically chosen cycles that relax points, and of conjugate gradients
//! whose multigrid is in single precision.

use super::assembly::{Parts, assemble};
use super::iterate::reason;
use super::system::System;
use crate::error::{Error, Result};
use crate::options::{Method, Preconditioner, SolverOptions};
use crate::policy::ladder::{
    Replacement, after_points, around_cycles, in_double, with_algebraic, with_bodies, with_multigrid,
};
use crate::policy::watch::{self, Replaceable};
use crate::precond::deflation::large_bodies;
use crate::solver::Monitor;
use crate::solver::monitor::Patience;
use crate::stencil::{Stencil, Supports};

impl<B: Supports<S>, S: Stencil> System<B, S> {
    /// Starts watching an iteration that may be replaced.
    pub(super) fn watch(&self, monitor: &mut Monitor<'_>) {
        let trial_iterations = self.decision.after_trial.as_ref().map(|after| after.most_iterations);
        let is_in_space = self.stencil.shape().extents().into_iter().all(|cells| cells > 1);
        let by =
            Replaceable { is_algebraic_in_space: is_in_space && self.may_be_algebraic(), ..self.decision.replaceable };
        monitor.watch(watch::of(&self.options, by, trial_iterations));
    }

    /// Replaces an iteration that was slow or failed. Returns a note, unless it goes on because nothing could replace it.
    pub(super) fn replace_slow(
        &mut self,
        replacement: Replacement,
        monitor: &mut Monitor<'_>,
        residual: f64,
    ) -> Result<Option<String>> {
        match replacement {
            Replacement::Trial => self.replace_trial(monitor, residual),
            Replacement::Points => self.replace_points(monitor, residual).map(Some),
            Replacement::Cycles => self.replace_cycles(monitor, residual),
            Replacement::Plain => self.replace_plain(monitor, residual),
            Replacement::Multigrid => self.replace_multigrid(monitor, residual),
            Replacement::Single => self.replace_single(monitor, residual).map(Some),
        }
    }

    /// Continues with a Krylov method around vertical modes or multigrid, if it can. Returns a note, if so.
    fn replace_cycles(&mut self, monitor: &mut Monitor<'_>, residual: f64) -> Result<Option<String>> {
        self.decision.replaceable.is_cycles = false;
        let (from, to_modes) = (self.options.method.name(), self.stencil.check_modes().is_ok());
        let asked =
            around_cycles(self.options.clone(), self.stencil.is_symmetric(), to_modes, monitor.has_reduced(residual));
        let options = asked.resolved(&self.backend.choice(&self.stencil, &self.operator, &asked)?)?;
        let (at, method, preconditioner) = (monitor.iterations(), options.method.name(), options.preconditioner.name());
        let why = monitor.stop().map_or_else(|| "was slow".into(), |stop| format!("{stop}"));
        if !self.replace_if_possible(options, monitor, residual)? {
            return Ok(None);
        }
        self.keep_best()?;
        monitor.be(Patience::Krylov);
        Ok(Some(format!("{from} {why} by iteration {at}; continued with {method}, preconditioner {preconditioner}")))
    }

    /// Continues with multigrid where time steps without a preconditioner, or with lines, were slow, if it can. Returns a note, if so.
    fn replace_plain(&mut self, monitor: &mut Monitor<'_>, residual: f64) -> Result<Option<String>> {
        self.decision.replaceable.is_plain = false;
        let options = self.multigrid_of_steps()?;
        let what =
            if self.options.preconditioner == Preconditioner::Line { "with lines" } else { "without a preconditioner" };
        let note = format!("{what}: {}; continued with multigrid", why(monitor));
        Ok(self.replace_if_possible(options, monitor, residual)?.then_some(note))
    }

    /// Returns the options of multigrid for time steps, which leave nothing open.
    fn multigrid_of_steps(&self) -> Result<SolverOptions> {
        let asked = with_multigrid(self.options.clone());
        asked.resolved(&self.backend.choice(&self.stencil, &self.operator, &asked)?)
    }

    /// Takes multigrid instead of no preconditioner, or lines, in time steps, or as what follows direct solves, for new coefficients.
    pub(crate) fn require_multigrid(&mut self) -> Result<()> {
        if !self.decision.replaceable.is_plain {
            return Ok(());
        }
        if let Some(after) = &mut self.decision.after_direct {
            *after = with_multigrid(after.clone());
        } else {
            let options = self.multigrid_of_steps()?;
            self.backend.prepare(&self.stencil, &self.operator, &options)?;
            self.replace(options)?;
        }
        self.decision.replaceable.is_plain = false;
        Ok(())
    }

    /// Returns whether algebraic multigrid may follow: the preconditioner was left open, and the device is not a GPU, where it would be slow.
    fn may_be_algebraic(&self) -> bool {
        let device = self.backend.device();
        self.decision.replaceable.is_automatic && device.kind != "cuda" && device.ranks == 1
    }

    /// Continues with algebraic multigrid on a processor, if the preconditioner was left open, or with large bodies as deflation vectors, if there are any.
    /// Returns a note, if so.
    fn replace_multigrid(&mut self, monitor: &mut Monitor<'_>, residual: f64) -> Result<Option<String>> {
        self.decision.replaceable.is_multigrid = false;
        let (at, left) = (monitor.iterations(), (-monitor.pace()).exp());
        let note = |by: &str| {
            format!("multigrid was slow up to iteration {at}, convergence factor {left:.3}; continued with {by}")
        };
        if self.may_be_algebraic()
            && self.replace_if_possible(with_algebraic(self.options.clone()), monitor, residual)?
        {
            return Ok(Some(note("algebraic multigrid")));
        }
        let bodies = match &self.capabilities.aggregates {
            Some(operator) => large_bodies(&**operator)?,
            None => None,
        };
        let Some(bodies) = bodies else {
            monitor.resume(residual);
            return Ok(None);
        };
        let note = note(&format!("deflation by {} bodies of one material", bodies.count()));
        Ok(self.replace_if_possible(with_bodies(self.options.clone()), monitor, residual)?.then_some(note))
    }

    /// Replaces the iteration by that of these resolved options, unless the device lacks the memory or does not support it: then the slow
    /// iteration continues. On several ranks a lack of memory is an error, because not all of them might lack it.
    fn replace_if_possible(
        &mut self,
        options: SolverOptions,
        monitor: &mut Monitor<'_>,
        residual: f64,
    ) -> Result<bool> {
        let is_alone = self.backend.device().ranks == 1;
        let made = self.backend.prepare(&self.stencil, &self.operator, &options).and_then(|()| self.replace(options));
        match made {
            Ok(()) => monitor.change(residual),
            Err(Error::Unsupported(_)) => monitor.resume(residual),
            Err(Error::OutOfMemory { .. }) if is_alone => monitor.resume(residual),
            Err(error) => return Err(error),
        }
        Ok(made.is_ok())
    }

    /// Continues with multigrid in double precision. Returns a note with the reason.
    fn replace_single(&mut self, monitor: &mut Monitor<'_>, residual: f64) -> Result<String> {
        let why = monitor.stop().is_some().then(|| format!("{} at iteration", reason(monitor)));
        let (at, left) = (monitor.iterations(), (-monitor.pace()).exp());
        self.replace(in_double(self.options.clone()))?;
        monitor.change(residual);
        let why = why.unwrap_or_else(|| format!("was slow, convergence factor {left:.3}, up to iteration"));
        Ok(format!("multigrid in single precision {why} {at}; continued in double precision"))
    }

    /// Continues with the preconditioner for any coefficients, by conjugate gradients unless multigrid was asked for. Returns a note.
    fn replace_points(&mut self, monitor: &mut Monitor<'_>, residual: f64) -> Result<String> {
        let options = after_points(self.options.clone(), self.decision.reserve, self.decision.replaceable.method);
        let (method, preconditioner) = (options.method, options.preconditioner);
        let (at, left) = (monitor.iterations(), (-monitor.pace()).exp());
        if !method.is_stationary() {
            self.keep_best()?;
        }
        self.replace(options)?;
        self.decision.replaceable.is_points = false;
        monitor.change(residual);
        monitor.be(Patience::of(method));
        let to = match (method, preconditioner) {
            (Method::Multigrid, _) => "multigrid, lines on Galerkin grids",
            (_, Preconditioner::Multigrid) => "cg, preconditioner multigrid, lines on Galerkin grids",
            _ => &format!("cg, preconditioner {}", preconditioner.name()),
        };
        Ok(format!("cycles that relax points were slow up to cycle {at}, {left:.3} a cycle; continued with {to}"))
    }

    /// Takes lines for time steps whose method is multigrid by name: a run that goes on from a checkpoint would begin again with points that a step
    /// has given up.
    pub(crate) fn require_lines(&mut self) -> Result<()> {
        if !self.decision.replaceable.is_points || self.decision.replaceable.method != Method::Multigrid {
            return Ok(());
        }
        let options = after_points(self.options.clone(), self.decision.reserve, Method::Multigrid);
        self.backend.prepare(&self.stencil, &self.operator, &options)?;
        self.replace(options)?;
        self.decision.replaceable.is_points = false;
        self.description.notes.drain(..self.decision.first_notes);
        self.decision.first_notes = 0;
        Ok(())
    }

    /// Continues with what follows a trial, if the device has the memory. Returns a note, if so.
    fn replace_trial(&mut self, monitor: &mut Monitor<'_>, residual: f64) -> Result<Option<String>> {
        let Some(after) = self.decision.after_trial.take() else { return Ok(None) };
        let what = match self.options.preconditioner {
            Preconditioner::Direct => "the nearest box",
            _ => "conjugate gradients without multigrid",
        };
        let (why, method) = (why(monitor), after.options.method);
        let is_points = after.options.multigrid.smoother.begins_with_points();
        if !self.replace_if_possible(after.options, monitor, residual)? {
            return Ok(None);
        }
        // What was made for `precondition` during the trial is the same multigrid.
        self.symmetric = None;
        self.decision.replaceable.is_points = is_points;
        monitor.be(Patience::of(method));
        if method.is_stationary() && self.best.take().is_some() {
            self.description.bytes -= self.layout.len() * size_of::<f64>();
        }
        Ok(Some(format!("{what}: {why}; continued with multigrid")))
    }

    /// Allocates the best iterate, for Krylov methods.
    pub(super) fn keep_best(&mut self) -> Result<()> {
        if self.best.is_none() {
            self.best = Some(self.backend.zeros(&self.layout)?);
            self.description.bytes += self.layout.len() * size_of::<f64>();
        }
        Ok(())
    }

    /// Changes to the iteration of these options, which are resolved.
    pub(super) fn replace(&mut self, options: SolverOptions) -> Result<()> {
        let Parts { made, levels, notes, coefficient_bytes, updates } =
            assemble(&self.backend, &self.stencil, &options, &self.operator, None, None, self.is_floating())?;
        self.description.method = options.method_name().into();
        self.description.preconditioner = options.preconditioner.name().into();
        self.description.precision = options.precision;
        self.description.smoother = options.multigrid.smoother;
        self.description.levels = levels;
        let known = &mut self.description.notes;
        for note in notes {
            if !known.contains(&note) {
                known.push(note);
            }
        }
        self.description.bytes += made.workspace_bytes();
        self.description.bytes -= self.iteration.workspace_bytes();
        self.description.coefficient_bytes += coefficient_bytes;
        self.description.traffic = made.traffic();
        let options = SolverOptions { compatibility: self.options.compatibility, ..options };
        (self.iteration, self.updates, self.options) = (made, updates, options);
        self.beside.clear();
        Ok(())
    }
}

/// Returns why an iteration is replaced: its end, or its pace.
fn why(monitor: &Monitor<'_>) -> String {
    let at = monitor.iterations();
    match monitor.stop() {
        Some(stop) => format!("{stop} at iteration {at}"),
        None => format!("slow up to iteration {at}, convergence factor {:.3}", (-monitor.pace()).exp()),
    }
}
