//! Cycles that relax points, which a matrix chose for itself, and what takes their place where they are slow.

use super::assembly::{Parts, assemble};
use super::system::System;
use crate::error::Result;
use crate::options::{Method, Preconditioner, Smoother, SolverOptions};
use crate::solver::Monitor;
use crate::solver::monitor::Patience;
use crate::stencil::{Stencil, Supports};

/// Cycles in which points must show their pace, and again and again so.
const PROBE: usize = 5;
/// That pace is too slow where a cycle leaves more of a residual than this, on average: an iteration with lines on Galerkin
/// grids takes as long as a few cycles.
const SLOW: f64 = 0.5;

impl<B: Supports<S>, S: Stencil> System<B, S> {
    /// Has cycles watched that may be replaced.
    pub(super) fn watch_points(&self, monitor: &mut Monitor<'_>) {
        if self.is_replaceable {
            monitor.watch(Some((PROBE, -SLOW.ln())));
        }
    }

    /// Goes on with conjugate gradients and the cycles that suit any coefficients. Says so.
    pub(super) fn replace_points(&mut self, monitor: &mut Monitor<'_>, residual: f64) -> Result<String> {
        let mut options =
            SolverOptions { method: Method::Cg, preconditioner: Preconditioner::Multigrid, ..self.options.clone() };
        options.multigrid.smoother = Smoother::LineRedBlack;
        let Parts { made, levels, notes, coefficient_bytes, updates } =
            assemble(&self.backend, &self.stencil, &options, &self.operator, None, self.is_floating())?;
        let (at, left) = (monitor.iterations(), (-monitor.pace()).exp());
        self.best = Some(self.backend.zeros(&self.layout)?);
        self.description.method = options.method_name().into();
        self.description.preconditioner = options.preconditioner.name().into();
        self.description.smoother = options.multigrid.smoother;
        self.description.levels = levels;
        self.description.notes.extend(notes);
        self.description.bytes += made.workspace_bytes() + self.layout.len() * size_of::<f64>();
        self.description.bytes -= self.iteration.workspace_bytes();
        self.description.coefficient_bytes += coefficient_bytes;
        self.description.traffic = made.traffic();
        (self.iteration, self.updates, self.options, self.is_replaceable) = (made, updates, options, false);
        monitor.change(residual);
        monitor.be(Patience::Krylov);
        Ok(format!(
            "cycles that relax points were slow up to cycle {at}, {left:.3} a cycle; went on with cg, preconditioner multigrid, \
             lines on Galerkin grids"
        ))
    }
}
