//! Estimated errors of conjugate gradients, compared with true ones.

use isobar_core::conformance::arrays::{self, cg, distance, noise};
use isobar_core::prelude::*;
use isobar_core::problem::materials;

/// Random numbers in (0, 1) for a problem.
struct Draw(u64, usize);

impl Draw {
    fn next(&mut self) -> f64 {
        self.1 += 1;
        0.5 * (random(self.0, self.1) + 1.0)
    }

    fn below(&mut self, n: usize) -> usize {
        ((self.next() * n as f64) as usize).min(n - 1)
    }
}

fn solved(stencil: &Diffusion, options: &SolverOptions, b: &[f64]) -> (Option<f64>, bool, Vec<f64>) {
    let (outcome, u) = arrays::solve(&Reference, stencil, options, b);
    (outcome.error_estimate, outcome.converged(), u)
}

/// Returns the estimate and the true relative error of problem number n, where it converges and has an estimate.
fn estimated(n: u64) -> Option<(f64, f64, String)> {
    let mut draw = Draw(70_000 + n, 0);
    let shape = match draw.below(3) {
        0 => Shape::new(20 + draw.below(180), 1, 1),
        1 => Shape::new(8 + draw.below(40), 8 + draw.below(24), 1),
        _ => Shape::new(4 + draw.below(10), 4 + draw.below(10), 2 + draw.below(6)),
    };
    let contrast = 10f64.powf(6.0 * draw.next());
    let field = match draw.below(4) {
        0 => materials::noise(shape, contrast.ln() / 4.0, n).unwrap(),
        1 => materials::two_phase(shape, contrast).unwrap_or_else(|_| vec![1.0; shape.cells()]),
        2 => (0..shape.cells()).map(|_| if draw.next() < 0.5 { 1.0 } else { contrast }).collect(),
        _ => vec![1.0; shape.cells()],
    };
    let mut problem = DiffusionProblem::new(shape, Coefficient::Isotropic(field));
    problem.boundary[0][0] = Boundary::Dirichlet(0.0);
    if draw.below(2) == 0 {
        problem.boundary[0][1] = Boundary::Dirichlet(0.0);
    }
    let stencil = problem.stencil().unwrap();
    let [kind, tolerance] = [draw.below(7), 1 + draw.below(8)];
    let preconditioner = [
        Preconditioner::None,
        Preconditioner::Jacobi,
        Preconditioner::Neumann { order: 2 },
        Preconditioner::SsorAi,
        Preconditioner::Line,
        Preconditioner::Ic { block: None },
        Preconditioner::Multigrid,
    ][kind];
    let cells = shape.cells();
    let u: Vec<f64> = match draw.below(3) {
        0 => (0..cells).map(|c| random(n, c)).collect(),
        1 => (0..cells).map(|c| 1.0 + (c % shape.nx) as f64 / shape.nx as f64).collect(),
        // The solution of a smooth right-hand side.
        _ => {
            let options = SolverOptions { tolerance: 1e-12, norm: Norm::Rhs, ..SolverOptions::default() };
            solved(&stencil, &options, &vec![1.0; cells]).2
        }
    };
    let b = stencil.times(&u);
    let options = SolverOptions {
        tolerance: 10f64.powf(-(tolerance as f64) - draw.next()),
        norm: [Norm::Initial, Norm::Rhs][draw.below(2)],
        max_iterations: 20_000,
        ..cg(preconditioner)
    };
    let (estimate, converged, found) = solved(&stencil, &options, &b);
    let name = format!("{n} {shape} contrast {contrast:.0e} {preconditioner:?} {:.0e}", options.tolerance);
    estimate.filter(|_| converged).map(|estimate| (estimate, distance(&u, &found), name))
}

/// Checks that at most `allowed` of these problems have an error above the estimate, and by less than a factor of 3.
fn check(count: u64, allowed: usize) {
    let mut ratios: Vec<(f64, String)> = Vec::new();
    for (estimate, error, name) in (0..count).filter_map(estimated) {
        // Smaller errors are the rounding of A u.
        if error > 1e-9 {
            ratios.push((estimate / error, name));
        }
    }
    ratios.sort_by(|a, b| a.0.total_cmp(&b.0));
    let low = ratios.iter().take_while(|(ratio, _)| *ratio < 1.0).count();
    assert!(ratios.len() as u64 > count / 4, "{} of {count} problems have an estimate", ratios.len());
    assert!(low <= allowed && ratios[0].0 > 1.0 / 3.0, "{:?}", &ratios[..low + 1]);
}

/// The iteration's own residuals fall below those of a solution that is rounded to single precision.
#[test]
fn estimates_know_rounding() {
    let (mut count, shape) = (0, Shape::new(12, 9, 5));
    for n in 0..20 {
        let field = materials::noise(shape, 0.5, n).unwrap();
        let mut problem = DiffusionProblem::new(shape, Coefficient::Isotropic(field));
        problem.boundary = [[Boundary::Dirichlet(0.0); 2]; 3];
        let stencil = problem.stencil().unwrap();
        let u: Vec<f64> = (0..shape.cells()).map(|c| random(n, c)).collect();
        let options = SolverOptions {
            precision: Precision::F32,
            tolerance: 2e-7,
            norm: Norm::Rhs,
            ..cg(Preconditioner::Multigrid)
        };
        let (estimate, converged, found) = solved(&stencil, &options, &stencil.times(&u));
        if let (Some(estimate), true) = (estimate, converged) {
            let error = distance(&u, &found);
            assert!(error <= 1.5 * estimate, "{n}: {error:.1e}, estimated {estimate:.1e}");
            count += 1;
        }
    }
    assert!(count > 5, "{count} have an estimate");
}

#[test]
fn estimates_bound_errors() {
    check(150, 0);
}

#[test]
#[ignore = "3000 problems; .ci/run has it"]
fn estimates_bound_errors_of_many() {
    check(3000, 3);
}

/// Values held by shifts of a million diagonals have nearly all of ‖b‖, so that residuals of other cells hardly count: `auto` continues, another
/// method says so.
#[test]
fn a_gross_error_is_no_solution() {
    let shape = Shape::new(24, 20, 3);
    let kappa: Vec<f64> = (0..shape.cells()).map(|n| (2.0 * random(3, n)).exp()).collect();
    let faces = |d: usize| -> std::sync::Arc<[f64]> {
        let face = |at: [usize; 3]| {
            let mut next = at;
            next[d] += 1;
            let [here, there] = [at, next].map(|at| kappa[shape.number(at)]);
            if next[d] < shape.extents()[d] { here * there / (here + there) } else { 0.0 }
        };
        shape.places().map(|at| if at[d] + 1 < shape.extents()[d] { face(at) } else { 0.0 }).collect()
    };
    let held = |at: [usize; 3]| if at[0] == 0 { 1e6 } else { 0.0 };
    let shift = shape.places().map(held).collect();
    let faces = Coefficients::Faces([0, 1, 2].map(faces));
    let stencil = Diffusion::new(shape, faces, Some(shift), [[Side::Closed; 2]; 3]).unwrap();
    let wanted: Vec<f64> = shape.places().map(|[i, j, k]| 100.0 + (i * i) as f64 - (j + k) as f64).collect();
    let b = stencil.times(&wanted);
    let options = SolverOptions { tolerance: 1e-6, ..SolverOptions::default() };
    let (outcome, u) = arrays::solve(&Reference, &stencil, &options, &b);
    assert!(outcome.converged() && distance(&u, &wanted) < 0.1, "{outcome:?}");
    assert!(outcome.notes.concat().contains("continued from") && outcome.error_estimate < Some(0.05), "{outcome:?}");
    let asked = SolverOptions { tolerance: 1e-6, ..cg(Preconditioner::Multigrid) };
    let (outcome, _) = arrays::solve(&Reference, &stencil, &asked, &b);
    assert!(
        outcome.error_estimate > Some(0.1) && outcome.notes.concat().contains("reduce the tolerance"),
        "{outcome:?}"
    );
}

/// A box of closed sides with random conductances, and a value held by a large shift in one cell.
fn with_a_held_cell(shape: Shape, conductance: f64, [shift, held]: [f64; 2]) -> Diffusion {
    let at_held = |n: usize| if n == shape.number([5, 5, 0]) { held } else { 0.0 };
    let faces = [0, 1, 2].map(|d| {
        let face = |at: [usize; 3]| if at[d] + 1 < shape.extents()[d] { conductance } else { 0.0 };
        shape.places().map(face).collect()
    });
    let shift = (0..shape.cells()).map(|n| shift + at_held(n)).collect();
    Diffusion::new(shape, Coefficients::Faces(faces), Some(shift), [[Side::Closed; 2]; 3]).unwrap()
}

/// Where a shift dominates, `auto` takes the diagonal, whose first iteration already has an estimate; and no residual is too small to be made smaller but
/// those of rounding.
#[test]
fn held_cells_do_not_hide_the_others() {
    for (conductance, held, tolerance) in [(0.05, 1e10, 1e-6), (0.3, 1e10, 1e-6), (0.2, 1e14, 1e-8), (1e-3, 1e9, 1e-3)]
    {
        let stencil = with_a_held_cell(Shape::new(20, 20, 1), conductance, [1.0, held]);
        let wanted: Vec<f64> = noise(stencil.shape().cells(), 3).iter().map(|noise| 10.0 + noise).collect();
        let b = stencil.times(&wanted);
        let options = SolverOptions { tolerance, ..SolverOptions::default() };
        let (outcome, u) = arrays::solve(&Reference, &stencil, &options, &b);
        let error = distance(&u, &wanted);
        assert!(outcome.converged() && error < 0.1, "{conductance} {held:e}: {error:e} {outcome:?}");
        assert!(outcome.error_estimate >= Some(0.3 * error), "{conductance} {held:e}: {error:e} {outcome:?}");
    }
}

/// Constants that are hardly held are no part of the error of b without them; weak preconditioners see nothing of it, and have no estimate.
#[test]
fn constants_that_hardly_count_are_not_overlooked() {
    let shape = Shape::new(12, 12, 1);
    let kappa = (0..shape.cells()).map(|n| 10f64.powf(random(72, n) / 2.0)).collect();
    let mut problem = DiffusionProblem::new(shape, Coefficient::Isotropic(kappa));
    problem.boundary[0][0] = Boundary::Robin { coefficient: 1e-7, value: 0.0 };
    problem.spacing = [0, 1, 2].map(|_| Spacing::Uniform(1.0));
    let stencil = problem.stencil().unwrap();
    let mut b = vec![0.0; shape.cells()];
    (b[shape.number([3, 2, 0])], b[shape.number([8, 9, 0])]) = (1.0, -1.0);
    let (_, wanted) =
        arrays::solve(&Reference, &stencil, &SolverOptions { tolerance: 1e-14, ..cg(Preconditioner::Multigrid) }, &b);
    for preconditioner in [
        Preconditioner::Line,
        Preconditioner::Ic { block: None },
        Preconditioner::SsorAi,
        Preconditioner::Jacobi,
        Preconditioner::None,
        Preconditioner::Mic { relaxation: 1.0, block: None },
        Preconditioner::Multigrid,
    ] {
        let options = SolverOptions { tolerance: 1e-6, ..cg(preconditioner) };
        let (outcome, u) = arrays::solve(&Reference, &stencil, &options, &b);
        let error = distance(&u, &wanted);
        let is_bounded = outcome.error_estimate.is_none_or(|estimate| estimate > 0.3 * error);
        assert!(outcome.converged() && is_bounded, "{:?}: {error:e} {outcome:?}", options.preconditioner);
    }
}

/// A shift that hardly holds a constant makes the most of rounding, which estimates include.
#[test]
fn rounding_of_constants_is_included() {
    let shape = Shape::new(9, 9, 1);
    for reaction in [1e-8, 1e-10, 1e-12] {
        let mut problem = DiffusionProblem::new(shape, Coefficient::Isotropic(vec![1.0; shape.cells()]));
        problem.reaction = Some(vec![reaction; shape.cells()]);
        problem.spacing = [0, 1, 2].map(|_| Spacing::Uniform(1.0));
        let stencil = problem.stencil().unwrap();
        for seed in 0..8 {
            let wanted: Vec<f64> = noise(shape.cells(), seed).iter().map(|noise| 1.0 + noise).collect();
            let b = stencil.times(&wanted);
            let options = SolverOptions { tolerance: 1e-12, ..cg(Preconditioner::Multigrid) };
            let (outcome, u) = arrays::solve(&Reference, &stencil, &options, &b);
            let error = distance(&u, &wanted);
            let is_bounded = outcome.error_estimate.is_none_or(|estimate| estimate > 0.3 * error);
            assert!(is_bounded, "{reaction:e} {seed}: {error:e} {outcome:?}");
        }
    }
}
