//! The pace that an iteration must show so that it is not replaced.

use crate::options::Smoother;

/// Cycles in which relaxation of points must show its pace, repeatedly.
const PROBE_POINTS: usize = 5;
/// The slowest convergence factor of a cycle: an iteration with lines on Galerkin grids takes as long as a few cycles.
const SLOW_POINTS: f64 = 0.5;
/// Iterations in which conjugate gradients with the hybrid smoother must show their pace; one takes two thirds of the time of one with
/// lines, and the levels a quarter.
const PROBE_ABOVE_LINES: usize = 8;
/// The slowest convergence factor of these.
const SLOW_ABOVE_LINES: f64 = 0.6;

/// Iterations in which multigrid in single precision must show its pace, and keep it from then on: rounding may show only in the last
/// digits.
const PROBE_SINGLE: usize = 30;
/// The pace is too slow where the tolerance would take this many iterations; few matrices do in double precision.
const SLOW_SINGLE: f64 = 100.0;

/// Iterations in which the nearest box must show its pace, and keep it from then on.
const PROBE_BOX: usize = 8;
/// The pace is too slow where the tolerance would take this many iterations: one takes a third to a fifth of the time of one with
/// multigrid, which needs ten where cells are thin.
const SLOW_BOX: f64 = 36.0;

/// Iterations in which an automatically chosen preconditioner must show its pace.
const PROBE_FIRST: usize = 100;
/// The pace is too slow where the tolerance would take this many iterations.
const SLOW_FIRST: f64 = 300.0;

/// A number of iterations, and the pace after them: −ln of the convergence factor of an iteration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Watch {
    /// Iterations before the pace is judged.
    pub(crate) iterations: usize,
    /// The slowest pace.
    pub(crate) pace: f64,
}

impl Watch {
    /// Returns a watch for the pace at which this tolerance takes `most` iterations.
    fn for_tolerance(iterations: usize, tolerance: f64, most: f64) -> Self {
        Self { iterations, pace: -tolerance.ln() / most }
    }
}

/// Returns the watch of cycles whose finest grid relaxes points.
pub(crate) fn points(smoother: Smoother) -> Watch {
    let (iterations, slow): (usize, f64) = match smoother {
        Smoother::PointLine => (PROBE_ABOVE_LINES, SLOW_ABOVE_LINES),
        _ => (PROBE_POINTS, SLOW_POINTS),
    };
    Watch { iterations, pace: -slow.ln() }
}

/// Returns the watch of multigrid in single precision as a preconditioner.
pub(crate) fn single(tolerance: f64) -> Watch {
    Watch::for_tolerance(PROBE_SINGLE, tolerance, SLOW_SINGLE)
}

/// Returns the watch of the nearest box as a preconditioner.
pub(crate) fn nearest_box(tolerance: f64) -> Watch {
    Watch::for_tolerance(PROBE_BOX, tolerance, SLOW_BOX)
}

/// Returns the watch of an automatically chosen multigrid preconditioner, which has simpler ones in reserve.
pub(crate) fn first(tolerance: f64) -> Watch {
    Watch::for_tolerance(PROBE_FIRST, tolerance, SLOW_FIRST)
}

/// Returns the watch of a replacement: as much work as the first preconditioner, and the pace per byte of the fastest so far.
/// `first_bytes` and `bytes` are moved by an iteration of the first and of this one.
pub(crate) fn next(first_bytes: f64, bytes: f64, fastest: f64) -> Watch {
    Watch { iterations: (PROBE_FIRST as f64 * first_bytes / bytes) as usize, pace: fastest * bytes }
}
