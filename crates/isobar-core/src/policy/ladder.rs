//! The options with which a solve continues after those that were slow or failed.

use crate::options::{CyclePrecision, Method, Preconditioner, Smoother, SolverOptions};
use crate::real::Precision;

/// Returns these options with the nearest box as the preconditioner.
pub(crate) fn with_box(mut options: SolverOptions) -> SolverOptions {
    options.preconditioner = Preconditioner::Direct;
    in_double(options)
}

/// Returns these options with everything in double precision.
pub(crate) fn in_double(mut options: SolverOptions) -> SolverOptions {
    options.precision = Precision::F64;
    options.multigrid.precision = CyclePrecision::F64;
    options
}

/// Returns options for conjugate gradients with the given preconditioner, with lines where that is multigrid.
pub(crate) fn by_lines(mut options: SolverOptions, preconditioner: Preconditioner) -> SolverOptions {
    (options.method, options.preconditioner) = (Method::Cg, preconditioner);
    options.multigrid.smoother = Smoother::LineRedBlack;
    options
}

/// Returns the options that follow cycles that relax points: [`by_lines`], in double precision where no cycles are left for single
/// precision.
pub(crate) fn after_points(options: SolverOptions, preconditioner: Preconditioner) -> SolverOptions {
    let options = by_lines(options, preconditioner);
    let has_cycles = preconditioner == Preconditioner::Multigrid;
    if options.storage() == Precision::Mixed && !has_cycles { in_double(options) } else { options }
}
