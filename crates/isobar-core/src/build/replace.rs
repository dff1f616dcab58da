//! Replacements of iterations that are slow or fail: of automatically chosen cycles that relax points, and of conjugate gradients
//! whose multigrid is in single precision.

use super::assembly::{Parts, assemble};
use super::system::System;
use crate::error::Result;
use crate::options::{CyclePrecision, Method, Preconditioner, Smoother, SolverOptions};
use crate::real::Precision;
use crate::solver::Monitor;
use crate::solver::monitor::Patience;
use crate::stencil::{Stencil, Supports};

/// Cycles in which points must show their pace, and again and again so.
const PROBE: usize = 5;
/// That pace is too slow where a cycle leaves more of a residual than this, on average: an iteration with lines on Galerkin
/// grids takes as long as a few cycles.
const SLOW: f64 = 0.5;
/// The bound for conjugate gradients with the hybrid smoother, whose iterations take two thirds of the time of those with lines, and
/// whose levels a quarter.
const PROBE_ABOVE_LINES: usize = 8;
/// Pace of these.
const SLOW_ABOVE_LINES: f64 = 0.6;

/// Iterations in which multigrid in single precision must show its pace, and keep it from then on: what rounding spoils may be as
/// good as in double precision until the last digits are wanted.
const PROBE_SINGLE: usize = 30;
/// That pace is too slow where the tolerance would take so many: with rounding in double precision few matrices do.
const SLOW_SINGLE: f64 = 100.0;

/// Iterations in which the nearest box must show its pace, and keep it from then on.
const PROBE_BOX: usize = 8;
/// That pace is too slow where the tolerance would take so many: an iteration takes a third to a fifth of the time of one with multigrid,
/// which takes ten where cells are thin.
const SLOW_BOX: f64 = 36.0;

/// Returns these options with the nearest box as the preconditioner.
pub(super) fn with_box(mut options: SolverOptions) -> SolverOptions {
    options.preconditioner = Preconditioner::Direct;
    in_double(options)
}

/// The iteration with everything in double precision.
pub(super) fn in_double(mut options: SolverOptions) -> SolverOptions {
    options.precision = Precision::F64;
    options.multigrid.precision = CyclePrecision::F64;
    options
}

/// Conjugate gradients with the preconditioner for any coefficients, with lines where that is multigrid.
pub(super) fn by_lines(mut options: SolverOptions, preconditioner: Preconditioner) -> SolverOptions {
    (options.method, options.preconditioner) = (Method::Cg, preconditioner);
    options.multigrid.smoother = Smoother::LineRedBlack;
    options
}

impl<B: Supports<S>, S: Stencil> System<B, S> {
    /// Whether an iteration in double precision has multigrid in single precision.
    pub(super) fn has_single_multigrid(&self) -> bool {
        self.options.storage() == Precision::Mixed && self.options.has_cycles()
    }

    /// Has it watched as a preconditioner of conjugate gradients.
    pub(super) fn watch_single(&self, monitor: &mut Monitor<'_>) {
        if self.has_single_multigrid() && !self.options.method.is_stationary() {
            monitor.watch_on(PROBE_SINGLE, -self.options.tolerance.ln() / SLOW_SINGLE);
        }
    }

    /// Goes on with multigrid in double precision. Says why.
    pub(super) fn replace_single(
        &mut self,
        monitor: &mut Monitor<'_>,
        why: Option<String>,
        residual: f64,
    ) -> Result<String> {
        let (at, left) = (monitor.iterations(), (-monitor.pace()).exp());
        self.replace(in_double(self.options.clone()))?;
        monitor.change(residual);
        let why = why.unwrap_or_else(|| format!("was slow, convergence factor {left:.3}, up to iteration"));
        Ok(format!("multigrid in single precision {why} {at}; went on in double precision"))
    }

    /// Has cycles watched that may be replaced.
    pub(super) fn watch_points(&self, monitor: &mut Monitor<'_>) {
        if !self.is_replaceable {
            return;
        }
        let (probe, slow): (usize, f64) = match self.options.multigrid.smoother {
            Smoother::PointLine => (PROBE_ABOVE_LINES, SLOW_ABOVE_LINES),
            _ => (PROBE, SLOW),
        };
        monitor.watch_on(probe, -slow.ln());
    }

    /// Goes on with conjugate gradients and the preconditioner that suits any coefficients. Says so.
    pub(super) fn replace_points(&mut self, monitor: &mut Monitor<'_>, residual: f64) -> Result<String> {
        let mut options = by_lines(self.options.clone(), self.reserve);
        let has_cycles = self.reserve == Preconditioner::Multigrid;
        if options.storage() == Precision::Mixed && !has_cycles {
            options = in_double(options);
        }
        let (at, left) = (monitor.iterations(), (-monitor.pace()).exp());
        self.keep_best()?;
        self.replace(options)?;
        self.is_replaceable = false;
        monitor.change(residual);
        monitor.be(Patience::Krylov);
        let to = if has_cycles { "multigrid, lines on Galerkin grids" } else { self.reserve.name() };
        Ok(format!(
            "cycles that relax points were slow up to cycle {at}, {left:.3} a cycle; went on with cg, preconditioner {to}"
        ))
    }

    /// Has the nearest box watched, where it is only tried.
    pub(super) fn watch_box(&self, monitor: &mut Monitor<'_>) {
        if self.after_box.is_some() {
            monitor.watch_on(PROBE_BOX, -self.options.tolerance.ln() / SLOW_BOX);
        }
    }

    /// Goes on with multigrid. Says so.
    pub(super) fn replace_box(
        &mut self,
        options: SolverOptions,
        monitor: &mut Monitor<'_>,
        residual: f64,
    ) -> Result<String> {
        let (at, left) = (monitor.iterations(), (-monitor.pace()).exp());
        self.is_replaceable = options.multigrid.smoother.begins_with_points();
        self.replace(options)?;
        monitor.change(residual);
        Ok(format!(
            "the nearest box was slow up to iteration {at}, convergence factor {left:.3}; went on with multigrid"
        ))
    }

    /// Makes room for the best iterate, which Krylov methods keep.
    pub(super) fn keep_best(&mut self) -> Result<()> {
        if self.best.is_none() {
            self.best = Some(self.backend.zeros(&self.layout)?);
            self.description.bytes += self.layout.len() * size_of::<f64>();
        }
        Ok(())
    }

    /// Takes the iteration that these options, which are resolved, ask for.
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
        (self.iteration, self.updates, self.options) = (made, updates, options);
        Ok(())
    }
}
