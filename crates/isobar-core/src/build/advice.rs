//! Advice for solves that do not converge.

use super::iterate::Evidence;
use crate::options::{Method, Preconditioner, SolverOptions};
use crate::outcome::Stop;
use crate::real::Precision;
use crate::solver::Broken;

/// The residual below which single precision may be at the rounding of the problem; above it the method is at fault.
const SINGLE_FLOOR: f64 = 1e-3;
/// The bound for cycles in double precision, whose residual is always the true one.
const DOUBLE_FLOOR: f64 = 1e-6;
/// The relative residual above which rounding leaves nothing of the solution; a direct solve's matrix is then singular to rounding.
const SINGULAR: f64 = 0.1;
/// The factor below which pᵀAp counts as negative, not as rounding: pᵀAp < −factor · rᵀM⁻¹r, with M the diagonal or 1. That
/// product is at most a few times pᵀAp of a positive definite A's largest eigenvalue.
const NEGATIVE: f64 = 1e-8;

/// Returns advice for a solve that stopped at this relative residual, for a matrix that multigrid suits or not, and that is symmetric or not.
pub(super) fn advice(
    stop: Stop,
    residual: f64,
    evidence: &Evidence,
    options: &SolverOptions,
    [has_levels, is_symmetric]: [bool; 2],
) -> Option<String> {
    let krylov = if is_symmetric { "\"cg\"" } else { "\"bicgstab\"" };
    let uses_multigrid = matches!(options.method, Method::Multigrid | Method::Modes)
        || matches!(options.preconditioner, Preconditioner::Multigrid | Preconditioner::Amg);
    // Matrices that have levels have lines.
    let lacks_lines = has_levels
        && !is_symmetric
        && options.method == Method::Bicgstab
        && options.preconditioner != Preconditioner::Line;
    let stronger = if options.method == Method::Jacobi {
        "use solver.method = \"auto\", which takes far fewer iterations"
    } else if lacks_lines {
        "use the preconditioner \"line\" (solver.preconditioner.kind), which strong advection weakens least"
    } else if has_levels && !uses_multigrid {
        "use the preconditioner \"multigrid\" (solver.preconditioner.kind)"
    } else if options.method == Method::Modes {
        "use more solver.modes.sweeps or modes (solver.modes.count), or solver.method = \"multigrid\""
    } else if options.method == Method::Multigrid && is_symmetric {
        "use more solver.multigrid.coarse_sweeps, or solver.method = \"cg\" with the preconditioner \"multigrid\""
    } else if options.method == Method::Multigrid {
        "use more solver.multigrid.coarse_sweeps, or solver.method = \"bicgstab\" with the preconditioner \"multigrid\""
    } else {
        "use another preconditioner (solver.preconditioner.kind)"
    };
    // Mixed precision requires cycles, or modes.
    let wider =
        if options.has_cycles() || options.method == Method::Modes { "\"mixed\" or \"f64\"" } else { "\"f64\"" };
    // Every other preconditioner falls back to the diagonal, where there is one.
    let is_diagonal = options.preconditioner != Preconditioner::None;
    let text = match stop {
        Stop::Converged | Stop::Interrupted => return None,
        Stop::MaxIterations if options.precision == Precision::F32 && residual < SINGLE_FLOOR => format!(
            "the tolerance may be below what single precision can hold here: use solver.precision {wider}, or raise \
             solver.max_iterations"
        ),
        Stop::MaxIterations => format!("raise solver.max_iterations, or {stronger}"),
        Stop::Stagnated if options.precision == Precision::F32 && residual < SINGLE_FLOOR => {
            format!("the tolerance is below what single precision can hold here: use solver.precision {wider}")
        }
        Stop::Stagnated if options.precision == Precision::F32 => {
            format!("single precision may be too short for this problem: use solver.precision {wider}")
        }
        Stop::Stagnated | Stop::Diverged if options.method == Method::Direct && (residual > SINGULAR || residual.is_nan()) => format!(
            "the matrix is singular or nearly so: elimination leaves a relative residual of {residual:.1e}, and the solution means \
             nothing; change the reaction or the sides a little"
        ),
        Stop::Stagnated if evidence.is_at_floor && residual > SINGULAR => format!(
            "rounding in double precision hides the solution: what is returned leaves a relative residual of {residual:.1e}, and means \
             nothing; bring coefficients or widths closer to each other"
        ),
        // The residual after refinement of a direct solve is rounding, whatever its size.
        Stop::Stagnated
            if evidence.is_at_floor || options.method == Method::Direct =>
        {
            format!(
            "a relative residual of {residual:.1e} is what rounding in double precision leaves here, and the solution is as good \
             as that: loosen solver.tolerance, or bring coefficients or widths closer to each other"
            )
        }
        Stop::Stagnated if options.method.is_stationary() && residual < DOUBLE_FLOOR => format!(
            "rounding, or the method, leaves a relative residual of {residual:.1e}: loosen solver.tolerance, or {stronger}"
        ),
        Stop::Stagnated => format!("the method is too weak for this problem: {stronger}"),
        Stop::Breakdown | Stop::Diverged
            if (evidence.is_out_of_range || !residual.is_finite()) && options.storage() != Precision::F64 =>
        {
            "numbers have left the range of single precision, 1e-38 to 3e38: use solver.precision \"f64\", or units in which \
             coefficients and right-hand sides are near 1"
                .into()
        }
        Stop::Diverged if options.precision == Precision::F32 && options.method.is_stationary() => format!(
            "rounding in single precision, or the method, amplifies the error: use solver.precision \"f64\", and if that does not \
             help solver.method = {krylov}"
        ),
        Stop::Breakdown => match options.method {
            Method::Cg => match evidence.broken {
                Some(Broken::Direction { sigma, rho }) if sigma < -NEGATIVE * rho => format!(
                    "pᵀAp = {sigma:.1e} for a direction p beside rᵀM⁻¹r = {rho:.1e}: the matrix is not positive definite, which \
                     conjugate gradients need; use solver.method = \"bicgstab\""
                ),
                Some(Broken::Preconditioner { rho }) if rho < 0.0 && is_diagonal => format!(
                    "rᵀD⁻¹r = {rho:.1e}: the matrix has a negative diagonal entry, so it is not positive definite, which \
                     conjugate gradients need; use solver.method = \"bicgstab\""
                ),
                Some(Broken::Direction { sigma: value, .. } | Broken::Preconditioner { rho: value })
                    if !value.is_finite() && options.storage() == Precision::F64 =>
                {
                    "the matrix or the preconditioner gave a number that is not finite: check its coefficients, or your own code, or \
                     scale the right-hand side down if it is near 1e308"
                        .into()
                }
                _ if options.precision == Precision::F32 => {
                    "conjugate gradients met a direction of no length, as rounding in single precision makes them: use \
                     solver.precision \"mixed\" or \"f64\""
                        .into()
                }
                _ => "conjugate gradients met a direction of no length, by rounding as far as can be told: loosen \
                      solver.tolerance, or use solver.method = \"bicgstab\""
                    .into(),
            },
            _ => {
                let other = if is_symmetric { krylov } else { "\"auto\"" };
                format!(
                    "the recurrence met a division by zero or a number that is not one: try another preconditioner or \
                     solver.method = {other}"
                )
            }
        },
        Stop::Diverged => match options.method {
            Method::Multigrid => format!(
                "the cycles amplify the error: use solver.method = {krylov}, or with line-jacobi solver.multigrid.relaxation = 0.667"
            ),
            Method::Jacobi => {
                format!("the sweeps amplify the error: use a smaller solver.jacobi.relaxation, or solver.method = {krylov}")
            }
            Method::Modes => format!("the sweeps amplify the error: use solver.method = \"multigrid\" or {krylov}"),
            _ => "check the coefficients for extreme values, or use another preconditioner".into(),
        },
    };
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Evidence = Evidence { is_at_floor: false, is_out_of_range: false, broken: None };

    #[test]
    fn nobody_is_told_to_use_what_they_use() {
        let cycles = SolverOptions { method: Method::Multigrid, ..SolverOptions::default() };
        let of = |stop, residual, options: &SolverOptions| advice(stop, residual, &NONE, options, [true; 2]).unwrap();
        assert!(!of(Stop::MaxIterations, 1e-3, &cycles).contains("use the preconditioner \"multigrid\""));
        let lines = SolverOptions { method: Method::Cg, preconditioner: Preconditioner::Line, ..cycles.clone() };
        assert!(of(Stop::MaxIterations, 1e-3, &lines).contains("use the preconditioner \"multigrid\""));
        let alone = advice(Stop::MaxIterations, 1e-3, &NONE, &lines, [false, true]).unwrap();
        assert_eq!(alone, "raise solver.max_iterations, or use another preconditioner (solver.preconditioner.kind)");
        assert_eq!(advice(Stop::Converged, 0.0, &NONE, &cycles, [true; 2]), None);
        let single = SolverOptions { precision: Precision::F32, ..lines };
        let lost = Evidence { is_out_of_range: true, ..NONE };
        assert!(advice(Stop::Breakdown, 1.0, &lost, &single, [true; 2]).unwrap().contains("range of single precision"));
        assert!(of(Stop::Breakdown, f64::NAN, &single).contains("single precision"));
        assert!(of(Stop::Breakdown, 1e-2, &single).contains("single precision"));
        assert!(of(Stop::MaxIterations, 1e-6, &single).contains("single precision"));
        assert!(!of(Stop::Stagnated, 1e-6, &single).contains("mixed"), "lines have no cycles");
        let double = SolverOptions { precision: Precision::F64, ..single };
        assert!(!of(Stop::Breakdown, 1e-2, &double).contains("single precision"));
        let double_cycles = cycles.clone();
        let single = SolverOptions { precision: Precision::F32, ..cycles };
        assert!(of(Stop::Diverged, 1.0, &single).contains("single precision"));
        let skew = advice(Stop::Stagnated, 1e-3, &NONE, &double_cycles, [true, false]).unwrap();
        assert!(skew.contains("bicgstab") && !skew.contains("\"cg\""), "{skew}");
        let around = SolverOptions {
            method: Method::Bicgstab,
            preconditioner: Preconditioner::Multigrid,
            ..double_cycles.clone()
        };
        let of_skew =
            |options: &SolverOptions| advice(Stop::MaxIterations, 1.0, &NONE, options, [true, false]).unwrap();
        assert!(of_skew(&around).contains("\"line\""));
        let own = advice(Stop::MaxIterations, 1.0, &NONE, &around, [false; 2]).unwrap();
        assert!(own.contains("use another preconditioner"), "a matrix may have no lines: {own}");
        assert!(of_skew(&SolverOptions { preconditioner: Preconditioner::Line, ..around }).contains("\"multigrid\""));
        let modes = SolverOptions { method: Method::Modes, ..single };
        assert!(of(Stop::Stagnated, 1e-6, &modes).contains("\"mixed\""));
    }

    #[test]
    fn rounding_is_named_where_it_was_seen() {
        let options = SolverOptions { method: Method::Cg, ..SolverOptions::default() };
        let floor = Evidence { is_at_floor: true, ..NONE };
        for residual in [1e-11, 1e-4] {
            assert!(advice(Stop::Stagnated, residual, &floor, &options, [true; 2]).unwrap().contains("rounding"));
            assert!(!advice(Stop::Stagnated, residual, &NONE, &options, [true; 2]).unwrap().contains("rounding"));
        }
        assert!(advice(Stop::Stagnated, 1.0, &floor, &options, [true; 2]).unwrap().contains("means nothing"));
        let direct = SolverOptions { method: Method::Direct, ..SolverOptions::default() };
        assert!(advice(Stop::Stagnated, 1e-3, &NONE, &direct, [true; 2]).unwrap().contains("rounding"));
        assert!(advice(Stop::Stagnated, 0.9, &NONE, &direct, [true; 2]).unwrap().contains("singular or nearly so"));
    }

    #[test]
    fn matrices_are_blamed_on_evidence_alone() {
        let options =
            SolverOptions { method: Method::Cg, preconditioner: Preconditioner::Jacobi, ..SolverOptions::default() };
        let of = |broken| advice(Stop::Breakdown, 1e-3, &Evidence { broken, ..NONE }, &options, [false, true]).unwrap();
        let blames = |text: String| text.contains("not positive definite");
        assert!(!blames(of(None)));
        assert!(!blames(of(Some(Broken::Direction { sigma: -1e-20, rho: 1.0 }))));
        assert!(!blames(of(Some(Broken::Preconditioner { rho: 0.0 }))));
        assert!(blames(of(Some(Broken::Direction { sigma: -0.5, rho: 1.0 }))));
        assert!(blames(of(Some(Broken::Preconditioner { rho: -1.0 }))));
        assert!(of(Some(Broken::Direction { sigma: f64::NAN, rho: 1.0 })).contains("not finite"));
    }
}
