//! Entries of inactive cells, and active cells whose row is zero.

use isobar_core::conformance::arrays::{distance, noise, solve, solve_again};
use isobar_core::prelude::*;
use isobar_core::problem::FaceProblem;

/// Whatever a right-hand side, a first guess or a vector has in inactive cells, nothing changes.
#[test]
fn entries_of_inactive_cells_do_not_matter() {
    let shape = Shape::new(9, 8, 5);
    let mut problem = DiffusionProblem::new(shape, Coefficient::Isotropic(vec![1.0; shape.cells()]));
    let active: Vec<bool> = (0..shape.cells()).map(|n| n % 7 != 3).collect();
    (problem.boundary[0][0], problem.active) = (Boundary::Dirichlet(1.0), Some(active.clone()));
    let stencil = problem.stencil().unwrap();
    let rhs = problem.rhs(Some(RhsKind::Random), 3, Weighting::None).unwrap();
    let with = |values: &[f64], entry: f64| -> Vec<f64> {
        values.iter().zip(&active).map(|(&value, &is_active)| if is_active { value } else { entry }).collect()
    };
    let single = MultigridOptions { precision: CyclePrecision::F32, ..MultigridOptions::default() };
    for (method, preconditioner, precision, multigrid) in [
        (Method::Auto, Preconditioner::Auto, Precision::F64, MultigridOptions::default()),
        (Method::Cg, Preconditioner::Multigrid, Precision::F64, single),
        (Method::Cg, Preconditioner::Jacobi, Precision::F64, MultigridOptions::default()),
        (Method::Multigrid, Preconditioner::Auto, Precision::F64, MultigridOptions::default()),
    ] {
        for norm in [Norm::Rhs, Norm::Initial, Norm::Scaled] {
            if method == Method::Multigrid && norm == Norm::Scaled {
                continue;
            }
            let multigrid = multigrid.clone();
            let options =
                SolverOptions { method, preconditioner, precision, multigrid, norm, ..SolverOptions::default() };
            let (clean, expected) = solve(&Reference, &stencil, &options, &with(&rhs, 0.0));
            assert!(clean.converged(), "{clean:?}");
            let mut system = System::new(&Reference, &stencil, &options).unwrap();
            for entry in [1e100, 1e155, -1e200, f64::MAX, f64::INFINITY, f64::NEG_INFINITY, f64::NAN] {
                let b = with(&rhs, entry);
                let mut u = with(&noise(shape.cells(), 1), entry);
                let outcome = solve_again(&mut system, shape, &b, &mut u, Guess::Zero).unwrap();
                assert_eq!((&outcome.history, &u), (&clean.history, &expected), "{entry:e} {options:?}");
                u = with(&u, entry);
                let outcome = solve_again(&mut system, shape, &b, &mut u, Guess::Given).unwrap();
                assert!(outcome.converged() && distance(&u, &expected) < 1e-3, "{entry:e} {outcome:?}");
                // A product leaves nothing behind either.
                let [mut v, mut w] = [with(&u, entry), with(&u, 0.0)];
                for values in [&mut v, &mut w] {
                    let from = values.clone();
                    let target = ArrayViewMut::c_order(values, shape).unwrap();
                    system.apply(ArrayView::c_order(&from, shape).unwrap().into(), target.into()).unwrap();
                }
                assert_eq!(v, w, "{entry:e}");
            }
        }
    }
}

/// A side with a value that touches no open cell is named, and no other.
#[test]
fn sides_without_open_cells_are_noted() {
    let shape = Shape::new(4, 3, 1);
    let mut problem = DiffusionProblem::new(shape, Coefficient::Isotropic(vec![1.0; 12]));
    problem.boundary = [
        [Boundary::Dirichlet(1.0); 2],
        [Boundary::Dirichlet(0.0), Boundary::Neumann(1.0)],
        [Boundary::Neumann(0.0); 2],
    ];
    problem.active = Some((0..12).map(|n| n % 4 != 3).collect());
    for method in [Method::Auto, Method::Cg] {
        let options = SolverOptions { method, ..SolverOptions::default() };
        let system = System::new(&Reference, &problem.stencil().unwrap(), &options).unwrap();
        let notes = &system.description().notes;
        let about: Vec<_> = notes.iter().filter(|note| note.contains("has no effect")).collect();
        assert_eq!(about, ["the value on the side east has no effect: no open cell touches it"], "{notes:?}");
    }
}

/// An active cell without conductances and shift has no solution unless its right-hand side is 0; cells that no mask calls active take no part.
#[test]
fn active_cells_without_couplings_have_no_sources() {
    let shape = Shape::new(5, 1, 1);
    let conductances = || [vec![1.0, 0.0, 0.0, 1.0], Vec::new(), Vec::new()];
    let shift = || Some(vec![1.0, 0.0, 0.0, 0.0, 1.0]);
    let of = |active: Option<&[bool]>| FaceProblem::new(shape, conductances(), [false; 3], shift(), active).unwrap();
    let options = SolverOptions { tolerance: 1e-10, ..SolverOptions::default() };
    let solve = |problem: &FaceProblem, options: &SolverOptions, b: [f64; 5]| {
        let mut system = System::new(&Reference, problem.stencil(), options).unwrap();
        let mut u = vec![0.0; 5];
        solve_again(&mut system, shape, &b, &mut u, Guess::Zero).map(|outcome| (outcome.converged(), u))
    };
    let expected = (true, vec![2.0, 3.0, 0.0, 3.0, 2.0]);
    let close = |(converged, u): (bool, Vec<f64>)| converged == expected.0 && distance(&u, &expected.1) < 1e-9;
    assert!(close(solve(&of(None), &options, [1.0; 5]).unwrap()));
    let all = of(Some(&[true; 5]));
    assert!(close(solve(&all, &options, [1.0, 1.0, 0.0, 1.0, 1.0]).unwrap()));
    let message = solve(&all, &options, [1.0, 1.0, 0.5, 1.0, 1.0]).unwrap_err().to_string();
    assert!(message.contains("(2, 0, 0)") && message.contains("0.5"), "{message}");
    let rhs = |problem: &FaceProblem| problem.rhs_from_in(&(0..1), vec![1.0; 5]).unwrap();
    assert_eq!((rhs(&all)[2], rhs(&of(None))[2], all.exact()[2]), (1.0, 0.0, 0.0));
    let projecting = SolverOptions { compatibility: Compatibility::Project, ..options.clone() };
    assert!(close(solve(&all, &projecting, [1.0; 5]).unwrap()));
    assert!(close(solve(&of(Some(&[true, true, false, true, true])), &options, [1.0; 5]).unwrap()));
}
