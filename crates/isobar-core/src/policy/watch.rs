//! The pace that an iteration must show so that it is not replaced.

use crate::options::{Method, Preconditioner, Smoother, SolverOptions};

/// Cycles in which relaxation of points must show its pace, repeatedly.
const PROBE_POINTS: usize = 5;
/// The slowest convergence factor of a cycle: an iteration with lines on Galerkin grids takes as long as a few cycles.
const SLOW_POINTS: f64 = 0.5;
/// The iterations after which conjugate gradients with the hybrid smoother must have reached their pace; one takes two thirds of the time of one with
/// lines, and the levels a quarter.
const PROBE_ABOVE_LINES: usize = 8;
/// The slowest convergence factor of these.
const SLOW_ABOVE_LINES: f64 = 0.6;

/// Cycles that were chosen as the method in which they must show their pace, and keep it from then on.
const PROBE_CYCLES: usize = 10;
/// The pace is too slow where the tolerance would take this many cycles; within a Krylov method they take a third of it.
const SLOW_CYCLES: f64 = 40.0;

/// Iterations in which multigrid in single precision must show its pace, and keep it from then on: rounding may show only in the last
/// digits.
const PROBE_SINGLE: usize = 30;
/// The number of iterations to the tolerance from which the pace is too slow; few matrices need more in double precision.
const SLOW_SINGLE: f64 = 100.0;

/// The iterations after which multigrid must have reached its pace, and must keep it, to need neither algebraic multigrid nor deflation by large bodies.
const PROBE_MULTIGRID: usize = 20;
/// The number of iterations to the tolerance from which the pace is too slow…
const SLOW_MULTIGRID: f64 = 60.0;
/// …and where algebraic multigrid follows in space, which takes the time of some 120 iterations, in a plane of 40.
const SLOW_IN_SPACE: f64 = 140.0;

/// Iterations in which time steps without a preconditioner must show their pace, and keep it from then on.
const PROBE_PLAIN: usize = 15;
/// The number of iterations to the tolerance from which the pace is too slow: multigrid takes four to ten, one of which takes as long as four to
/// seven. Measured: docs/notes/heat.md.
const SLOW_PLAIN: f64 = 35.0;
/// The same with lines, in thin cells, where an iteration with multigrid takes as long as fifteen.
const SLOW_LINES: f64 = 60.0;

/// Iterations in which a solver that was chosen for other coefficients must show its pace, and keep it from then on; else the choice is examined again.
const PROBE_OLD: usize = 10;
/// The number of iterations to the tolerance from which the pace is too slow: a solver for these coefficients is made in the time of ten.
const SLOW_OLD: f64 = 20.0;

/// Iterations in which one that is tried must show its pace, and keep it from then on: at least this many…
const PROBE_TRIAL: usize = 8;
/// …and at least this fraction of those that it may take, because residuals of conjugate gradients rise before they fall.
const PART_PROBED: f64 = 0.2;

/// Iterations in which an automatically chosen preconditioner must show its pace: the residual of conjugate gradients may rest for a
/// hundred before it falls, as where paths through closed cells are narrow.
const PROBE_FIRST: usize = 300;
/// The number of iterations to the tolerance from which the pace is too slow.
const SLOW_FIRST: f64 = 1000.0;

/// A number of iterations, and the pace after them: −ln of the convergence factor of an iteration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Watch {
    /// Iterations before the pace is judged.
    pub(crate) iterations: usize,
    /// The slowest pace.
    pub(crate) pace: f64,
    /// Whether the pace must be kept from then on, also by Krylov methods.
    pub(crate) goes_on: bool,
}

/// The replacements that a slow iteration has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Replaceable {
    /// The method that was asked for.
    pub(crate) method: Method,
    /// Points were chosen automatically, on the finest grid at least, and lines may replace them.
    pub(crate) is_points: bool,
    /// Other cycles were chosen automatically as the method, and a Krylov method with them may replace them.
    pub(crate) is_cycles: bool,
    /// The preconditioner was chosen automatically, and simpler ones may replace it.
    pub(crate) is_automatic: bool,
    /// The preconditioner of time steps was left open, and multigrid may follow none, or lines.
    pub(crate) is_plain: bool,
    /// Coefficients have changed since the choice, which may be made again.
    pub(crate) is_old: bool,
    /// What follows conjugate gradients with slow multigrid has not been tried.
    pub(crate) is_multigrid: bool,
    /// Algebraic multigrid follows, on a grid in space.
    pub(crate) is_algebraic_in_space: bool,
}

impl Replaceable {
    /// Returns which fallbacks a solve with the options `asked` may use, which may leave the preconditioner open; `open` are the user's options,
    /// `otherwise` those of an iteration.
    pub(crate) fn of(
        asked: &SolverOptions,
        [open, otherwise]: [&SolverOptions; 2],
        [is_points, is_cycles]: [bool; 2],
    ) -> Self {
        let is_open = |options: &SolverOptions| options.preconditioner == Preconditioner::Auto;
        let is_plain = is_open(open) && matches!(otherwise.preconditioner, Preconditioner::None | Preconditioner::Line);
        Self {
            method: asked.method,
            is_points,
            is_cycles,
            is_automatic: is_open(asked),
            is_plain,
            is_old: false,
            is_multigrid: true,
            is_algebraic_in_space: false,
        }
    }

    /// Returns whether something may follow the iteration of these resolved options if it is slow: algebraic multigrid, or deflation.
    pub(crate) fn follows_multigrid(self, options: &SolverOptions) -> bool {
        let has_multigrid = (options.method, options.preconditioner) == (Method::Cg, Preconditioner::Multigrid);
        self.is_multigrid && has_multigrid && options.deflation.is_none()
    }
}

/// Returns the watch of the iteration of these resolved options, if it may be replaced: one that is only tried if the tolerance would take more than
/// `trial_iterations`.
pub(crate) fn of(options: &SolverOptions, by: Replaceable, trial_iterations: Option<f64>) -> Option<Watch> {
    let for_tolerance =
        |iterations: usize, most: f64, goes_on| Watch { iterations, pace: -options.tolerance.ln() / most, goes_on };
    let is_preconditioned = !options.method.is_stationary();
    if by.is_old && is_preconditioned {
        return Some(for_tolerance(PROBE_OLD, SLOW_OLD, true));
    }
    if let Some(most) = trial_iterations {
        return Some(for_tolerance(PROBE_TRIAL.max((PART_PROBED * most) as usize), most, true));
    }
    if by.is_points {
        let (iterations, slow): (usize, f64) = match options.multigrid.smoother {
            Smoother::PointLine => (PROBE_ABOVE_LINES, SLOW_ABOVE_LINES),
            _ => (PROBE_POINTS, SLOW_POINTS),
        };
        return Some(Watch { iterations, pace: -slow.ln(), goes_on: true });
    }
    if by.is_cycles && !is_preconditioned {
        return Some(for_tolerance(PROBE_CYCLES, SLOW_CYCLES, true));
    }
    if by.is_plain && is_preconditioned {
        let slow = if options.preconditioner == Preconditioner::Line { SLOW_LINES } else { SLOW_PLAIN };
        return Some(for_tolerance(PROBE_PLAIN, slow, true));
    }
    if by.follows_multigrid(options) {
        let most = if by.is_algebraic_in_space { SLOW_IN_SPACE } else { SLOW_MULTIGRID };
        return Some(for_tolerance(PROBE_MULTIGRID, most, true));
    }
    if is_preconditioned && options.has_single_multigrid() {
        return Some(for_tolerance(PROBE_SINGLE, SLOW_SINGLE, true));
    }
    let is_watched = by.is_automatic && is_preconditioned && options.preconditioner == Preconditioner::Multigrid;
    is_watched.then(|| for_tolerance(PROBE_FIRST, SLOW_FIRST, false))
}

/// Returns the watch of a simpler preconditioner: as much work as the first one, and the pace per byte of the fastest so far.
/// `first_bytes` and `bytes` are moved by an iteration of the first and of this one.
pub(crate) fn next(first_bytes: f64, bytes: f64, fastest: f64) -> Watch {
    Watch { iterations: (PROBE_FIRST as f64 * first_bytes / bytes) as usize, pace: fastest * bytes, goes_on: false }
}
