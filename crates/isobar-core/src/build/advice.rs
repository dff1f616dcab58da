//! What to try next when a solve does not converge.

use crate::options::{Method, Preconditioner, SolverOptions};
use crate::outcome::Stop;
use crate::real::Precision;

/// A residual that has fallen this far in single precision, or…
const SINGLE_FLOOR: f64 = 1e-3;
/// … in double precision, may be at the rounding of the problem; one that has not is the method's to answer for.
const DOUBLE_FLOOR: f64 = 1e-6;

/// Advice for a solve that stopped at this relative residual; `has_levels` where multigrid could be used.
pub(super) fn advice(stop: Stop, residual: f64, options: &SolverOptions, has_levels: bool) -> Option<String> {
    let uses_multigrid = options.method == Method::Multigrid || options.preconditioner == Preconditioner::Multigrid;
    let stronger = if has_levels && !uses_multigrid {
        "use the preconditioner \"multigrid\" (solver.preconditioner.kind)"
    } else if options.method == Method::Multigrid {
        "more solver.multigrid.coarse_sweeps, or solver.method = \"cg\" with the preconditioner \"multigrid\""
    } else {
        "another preconditioner (solver.preconditioner.kind)"
    };
    let text = match stop {
        Stop::Converged | Stop::Interrupted => return None,
        Stop::MaxIterations => format!("raise solver.max_iterations, or {stronger}"),
        Stop::Stagnated if options.precision == Precision::F32 && residual < SINGLE_FLOOR => {
            "the tolerance is below what single precision can hold here: use solver.precision \"mixed\" or \"f64\"".into()
        }
        Stop::Stagnated if options.precision == Precision::F32 => {
            "single precision may be too short for this problem: use solver.precision \"mixed\" or \"f64\"".into()
        }
        Stop::Stagnated if residual < DOUBLE_FLOOR => format!(
            "the residual stays at {residual:.1e}, which is about what rounding leaves in double precision here: loosen \
             solver.tolerance"
        ),
        Stop::Stagnated => format!("the method is too weak for this problem: {stronger}"),
        Stop::Breakdown | Stop::Diverged if !residual.is_finite() && options.precision != Precision::F64 => {
            "numbers have left the range of single precision: use solver.precision \"f64\", or other units".into()
        }
        Stop::Breakdown => match options.method {
            Method::Cg => format!(
                "conjugate gradients met a direction of no length: by rounding, or because the matrix or its \
                 preconditioner is not positive definite; try the preconditioner \"{}\", or solver.method = \"bicgstab\"",
                if options.preconditioner == Preconditioner::Line { "jacobi" } else { "line" }
            ),
            _ => "the recurrence met a division by zero or a number that is not one: try another preconditioner or \
                  solver.method = \"cg\""
                .into(),
        },
        Stop::Diverged => match options.method {
            Method::Multigrid => {
                "the cycles amplify the error: use solver.method = \"cg\", or with line-jacobi solver.multigrid.relaxation \
                 = 0.667"
                    .into()
            }
            _ => "check the coefficients for extreme values, or use another preconditioner".into(),
        },
    };
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_told_to_use_what_they_use() {
        let cycles = SolverOptions { method: Method::Multigrid, ..SolverOptions::default() };
        let of = |stop, residual, options: &SolverOptions| advice(stop, residual, options, true).unwrap();
        assert!(!of(Stop::MaxIterations, 1e-3, &cycles).contains("use the preconditioner \"multigrid\""));
        let lines = SolverOptions { method: Method::Cg, preconditioner: Preconditioner::Line, ..cycles.clone() };
        assert!(of(Stop::MaxIterations, 1e-3, &lines).contains("use the preconditioner \"multigrid\""));
        assert!(!advice(Stop::MaxIterations, 1e-3, &lines, false).unwrap().contains("multigrid"));
        // A residual of 0.92 is no rounding.
        assert!(!of(Stop::Stagnated, 0.92, &cycles).contains("rounding"));
        assert!(of(Stop::Stagnated, 1e-11, &cycles).contains("rounding"));
        assert_eq!(advice(Stop::Converged, 0.0, &cycles, true), None);
        let single = SolverOptions { precision: Precision::F32, ..lines };
        assert!(of(Stop::Breakdown, f64::NAN, &single).contains("single precision"));
        assert!(!of(Stop::Breakdown, 1e-2, &single).contains("single precision"));
    }
}
