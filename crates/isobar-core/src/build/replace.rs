//! Cycles that relax points, which a matrix chose for itself, and what takes their place where they are slow.

use super::assembly::{Parts, assemble};
use super::system::System;
use crate::error::Result;
use crate::options::{Method, Preconditioner, Smoother, SolverOptions};
use crate::real::Precision;
use crate::solver::Monitor;
use crate::solver::monitor::Patience;
use crate::stencil::{Stencil, Supports};

/// Cycles in which points must show their pace, and again and again so.
const PROBE: usize = 5;
/// That pace is too slow where a cycle leaves more of a residual than this, on average: an iteration with lines on Galerkin
/// grids takes as long as a few cycles.
const SLOW: f64 = 0.5;
/// The same of conjugate gradients with points above lines, whose iterations take two thirds of the time of those with lines, and
/// whose levels a quarter.
const PROBE_ABOVE_LINES: usize = 8;
/// Pace of these.
const SLOW_ABOVE_LINES: f64 = 0.6;

impl<B: Supports<S>, S: Stencil> System<B, S> {
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
        let mut options = SolverOptions { method: Method::Cg, preconditioner: self.reserve, ..self.options.clone() };
        options.multigrid.smoother = Smoother::LineRedBlack;
        let has_cycles = self.reserve == Preconditioner::Multigrid;
        if options.precision == Precision::Mixed && !has_cycles {
            options.precision = Precision::F64;
        }
        let Parts { made, levels, notes, coefficient_bytes, updates } =
            assemble(&self.backend, &self.stencil, &options, &self.operator, None, self.is_floating())?;
        let (at, left) = (monitor.iterations(), (-monitor.pace()).exp());
        if self.best.is_none() {
            self.best = Some(self.backend.zeros(&self.layout)?);
            self.description.bytes += self.layout.len() * size_of::<f64>();
        }
        self.description.method = options.method_name().into();
        self.description.preconditioner = options.preconditioner.name().into();
        self.description.precision = options.precision;
        self.description.smoother = options.multigrid.smoother;
        self.description.levels = levels;
        self.description.notes.extend(notes);
        self.description.bytes += made.workspace_bytes();
        self.description.bytes -= self.iteration.workspace_bytes();
        self.description.coefficient_bytes += coefficient_bytes;
        self.description.traffic = made.traffic();
        (self.iteration, self.updates, self.options, self.is_replaceable) = (made, updates, options, false);
        monitor.change(residual);
        monitor.be(Patience::Krylov);
        let to = if has_cycles { "multigrid, lines on Galerkin grids" } else { self.reserve.name() };
        Ok(format!(
            "cycles that relax points were slow up to cycle {at}, {left:.3} a cycle; went on with cg, preconditioner {to}"
        ))
    }
}
