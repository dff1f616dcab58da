//! Direct solves between callers' arrays, where nothing is out of the ordinary.

use std::time::Instant;

use super::system::System;
use crate::array::{Source, Target};
use crate::error::Result;
use crate::operator::Judged;
use crate::options::{Compatibility, Method};
use crate::outcome::{Outcome, Stop, Timing};
use crate::precond::null_space::NEGLIGIBLE;
use crate::solver::monitor::Patience;
use crate::solver::{Monitor, Observer};
use crate::stencil::rings::Turns;
use crate::stencil::{Stencil, Supports};

/// Norms whose squares are far from both ends of double precision.
const ORDINARY: std::ops::Range<f64> = 1e-100..1e100;

impl<B: Supports<S>, S: Stencil> System<B, S> {
    /// Solves at once from one array to the other. Returns nothing where that cannot be done, or where what came of it is not what a
    /// solve returns as converged: the usual way then finds out why.
    pub(super) fn solve_arrays(
        &mut self,
        rhs: &Source<'_>,
        u: &mut Target<'_>,
        observer: &mut Observer<'_>,
    ) -> Result<Option<Outcome>> {
        let is_possible = self.options.method == Method::Direct
            && self.scaled.is_none()
            && self.turns() == Turns::ONE
            && self.options.max_iterations > 0;
        if !is_possible {
            return Ok(None);
        }
        let clock = Instant::now();
        let Some(Judged { rhs, residual, removed }) = self.iteration.solve_arrays(rhs, u)? else { return Ok(None) };
        let tolerance = self.options.tolerance;
        let is_compatible = self.options.compatibility == Compatibility::Project
            || removed.is_none_or(|removed| removed <= NEGLIGIBLE * tolerance);
        if !(ORDINARY.contains(&rhs) && residual <= tolerance * rhs && is_compatible) {
            return Ok(None);
        }
        let mut monitor = Monitor::new(rhs, tolerance, self.options.max_iterations, Patience::Stationary, observer);
        if monitor.begin(rhs).is_continue() {
            let _ = monitor.observe(residual * residual);
        }
        Ok(Some(Outcome {
            spectrum: None,
            removed,
            error_estimate: None,
            stop: monitor.stop().unwrap_or(Stop::MaxIterations),
            iterations: monitor.iterations(),
            relative_residual: residual / rhs,
            history: monitor.into_history(),
            is_returned: true,
            batch: None,
            advice: None,
            notes: Vec::new(),
            timing: Timing { solve: clock.elapsed().as_secs_f64(), ..Timing::default() },
        }))
    }
}
