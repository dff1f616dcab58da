//! Jacobi's method, plain and hierarchical, compared with a separate program in one dimension and published counts.

use isobar_core::conformance::arrays::{noise, norm as norm_of, solve_again, solve_into};
use isobar_core::options::{Acceleration, Overlap};
use isobar_core::prelude::*;
use isobar_core::problem::PointProblem;

/// Makes paper C's problem: −u″ = 1 or −Δu = 1 at points inside the unit box, u = 0 on its sides.
fn poisson(shape: Shape) -> PointProblem {
    let mut problem = DiffusionProblem::new(shape, Coefficient::Isotropic(vec![1.0; shape.cells()]));
    problem.boundary = [[Boundary::Dirichlet(0.0); 2]; 3];
    PointProblem::new(problem, [1.0; 3]).unwrap()
}

fn options(jacobi: JacobiOptions) -> SolverOptions {
    SolverOptions {
        method: Method::Jacobi,
        tolerance: 1e-4,
        max_iterations: 50_000,
        jacobi,
        ..SolverOptions::default()
    }
}

fn tiles(sub_iterations: usize, overlap: usize, tile: &[usize]) -> JacobiOptions {
    JacobiOptions {
        sub_iterations: Count::Given(sub_iterations),
        overlap: Overlap::All(overlap),
        tile: Some(tile.to_vec()),
        ..JacobiOptions::default()
    }
}

fn plain() -> JacobiOptions {
    JacobiOptions { sub_iterations: Count::Given(1), ..JacobiOptions::default() }
}

fn solve(stencil: &Diffusion, options: &SolverOptions, rhs: &[f64], guess: f64) -> (Outcome, Vec<f64>) {
    let mut u = vec![guess; rhs.len()];
    let outcome = solve_into(&Reference, stencil, options, rhs, &mut u, Guess::Given);
    (outcome.unwrap(), u)
}

fn solve_points(shape: Shape, jacobi: JacobiOptions) -> (Outcome, Vec<f64>) {
    let problem = poisson(shape);
    let rhs = problem.rhs(Some(RhsKind::Constant), 0, Weighting::Volume).unwrap();
    solve(&problem.stencil().unwrap(), &options(jacobi), &rhs, 1.0)
}

/// Returns the cycles to 1e-4 in one dimension, directly from the formulas, without the library.
fn cycles(n: usize, k: usize, overlap: usize, tile: usize) -> usize {
    let h2 = 1.0 / ((n + 1) as f64).powi(2);
    let residual = |x: &[f64]| -> f64 {
        (1..=n).map(|i| (1.0 - (2.0 * x[i] - x[i - 1] - x[i + 1]) / h2).powi(2)).sum::<f64>().sqrt()
    };
    let mut x = vec![1.0; n + 2];
    (x[0], x[n + 1]) = (0.0, 0.0);
    let first = residual(&x);
    let count = if tile >= n { 1 } else { (n - overlap).div_ceil(tile - overlap) };
    let mut cycles = 0;
    let mut after = x.clone();
    while residual(&x) > 1e-4 * first {
        for t in 0..count {
            let start = 1 + t * (tile - overlap);
            let end = (start + tile).min(n + 1);
            let mut now = x[start - 1..=end].to_vec();
            for _ in 0..k {
                let old = now.clone();
                for i in 1..now.len() - 1 {
                    now[i] = 0.5 * (old[i - 1] + old[i + 1] + h2);
                }
            }
            let from = if t == 0 { start } else { start + overlap / 2 };
            let to = if t + 1 == count { end } else { end - overlap / 2 };
            after[from..to].copy_from_slice(&now[from + 1 - start..to + 1 - start]);
        }
        x.copy_from_slice(&after);
        cycles += 1;
    }
    cycles
}

#[test]
fn cycles_are_those_of_the_formulas() {
    for (n, k, overlap, tile) in [(64, 1, 0, 64), (64, 4, 0, 16), (64, 8, 2, 16), (60, 8, 4, 16), (61, 16, 6, 20)] {
        let jacobi = if k == 1 { plain() } else { tiles(k, overlap, &[tile]) };
        let (outcome, _) = solve_points(Shape::new(n, 1, 1), jacobi.clone());
        assert!(outcome.converged(), "{:?}", outcome.stop);
        let expected = cycles(n, k, overlap, tile);
        assert!(outcome.iterations.abs_diff(expected) <= 1, "{n} {k} {overlap}: {} {expected}", outcome.iterations);
        assert_eq!(outcome.history.len(), outcome.iterations + 1);
        // Compares the other directions.
        for shape in [Shape::new(1, n, 1), Shape::new(1, 1, n)] {
            let given = if shape.ny > 1 { vec![1, tile] } else { vec![1, 1, tile] };
            let turned = JacobiOptions { tile: jacobi.tile.as_ref().map(|_| given), ..jacobi.clone() };
            assert_eq!(solve_points(shape, turned).0.iterations, outcome.iterations, "{shape}");
        }
    }
}

/// Paper C's plain method on a small grid takes the independently computed count.
#[test]
fn plain_sweeps_are_counted() {
    assert_eq!(cycles(256, 1, 0, 256).abs_diff(35_037), 0);
    let (outcome, _) = solve_points(Shape::new(256, 1, 1), plain());
    assert!(outcome.iterations.abs_diff(35_037) <= 1, "{}", outcome.iterations);
    // The published count of a hierarchical solve, by the program above.
    assert!(cycles(1024, 32, 8, 32).abs_diff(4_124) <= 1);
}

#[test]
fn what_is_returned_has_the_residual_that_ended_the_solve() {
    let (outcome, _) = solve_points(Shape::new(24, 20, 1), tiles(8, 2, &[12, 10]));
    let last = *outcome.history.last().unwrap();
    assert!((outcome.relative_residual - last).abs() <= 1e-9 * last, "{last}");
    assert!(last <= 1e-4 && outcome.history[outcome.iterations - 1] > 1e-4);
}

/// Makes coefficients of any kind, inactive cells, sides of all kinds.
fn rough(shape: Shape) -> DiffusionProblem {
    let kappa = |seed: u64| (0..shape.cells()).map(|n| 10f64.powf(random(seed, n))).collect::<Vec<f64>>();
    let mut problem = DiffusionProblem::new(shape, Coefficient::Diagonal([kappa(1), kappa(2), kappa(3)]));
    problem.active = Some((0..shape.cells()).map(|n| random(4, n) < 0.7).collect());
    problem.boundary[0] = [Boundary::Dirichlet(1.0), Boundary::Neumann(0.5)];
    problem.boundary[1] = [Boundary::Periodic; 2];
    problem.reaction = Some(vec![100.0; shape.cells()]);
    problem
}

#[test]
fn exact_cycles_are_plain_sweeps_bit_for_bit() {
    for shape in [Shape::new(40, 1, 1), Shape::new(19, 22, 1), Shape::new(12, 9, 14)] {
        let mut problem = rough(shape);
        problem.boundary[1] = [Boundary::Dirichlet(-1.0), Boundary::Neumann(0.0)];
        let stencil = problem.stencil().unwrap();
        let rhs = problem.rhs(Some(RhsKind::Random), 5, Weighting::None).unwrap();
        let limited = |jacobi: JacobiOptions, max_iterations: usize| SolverOptions {
            max_iterations,
            tolerance: 1e-12,
            ..options(jacobi)
        };
        for k in [2, 3, 4] {
            let tile = [shape.nx.min(8), shape.ny.min(9), shape.nz.min(11)].to_vec();
            let exact = JacobiOptions {
                sub_iterations: Count::Given(k),
                tile: Some(tile),
                exact: true,
                ..JacobiOptions::default()
            };
            let (cycles, u) = solve(&stencil, &limited(exact, 5), &rhs, 0.5);
            let (sweeps, v) = solve(&stencil, &limited(plain(), 5 * k), &rhs, 0.5);
            assert_eq!(u, v, "{shape}, {k}");
            for (n, residual) in cycles.history.iter().enumerate() {
                assert_eq!(*residual, sweeps.history[n * k], "{shape}, {k}, cycle {n}");
            }
        }
    }
}

#[test]
fn any_coefficients_converge_to_the_solution() {
    for shape in [Shape::new(21, 1, 1), Shape::new(14, 10, 1), Shape::new(8, 6, 7)] {
        let problem = rough(shape);
        let stencil = problem.stencil().unwrap();
        let exact = problem.exact();
        let rhs = stencil.times(&exact);
        for jacobi in [plain(), tiles(6, 2, &[7, 6, 5]), JacobiOptions::default()] {
            let tile = jacobi.tile.clone().map(|tile| vec![tile[0], tile[1].min(shape.ny), tile[2].min(shape.nz)]);
            let options = SolverOptions { tolerance: 1e-10, ..options(JacobiOptions { tile, ..jacobi }) };
            let (outcome, u) = solve(&stencil, &options, &rhs, 0.0);
            assert!(outcome.converged(), "{shape}: {:?}", outcome.stop);
            let error = u.iter().zip(&exact).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            assert!(error < 1e-6, "{shape}: {error}");
        }
    }
}

/// In a floating problem undamped cells and neighbours would exchange their values for ever.
#[test]
fn what_floats_is_damped() {
    let shape = Shape::new(12, 10, 1);
    let problem = DiffusionProblem::new(shape, Coefficient::Isotropic(vec![1.0; shape.cells()]));
    let stencil = problem.stencil().unwrap();
    let rhs = stencil.times(&problem.exact());
    for jacobi in [plain(), tiles(4, 2, &[6, 6])] {
        let (outcome, _) = solve(&stencil, &options(jacobi), &rhs, 0.0);
        assert!(outcome.converged(), "{:?}", outcome.stop);
    }
    let undamped = JacobiOptions { relaxation: Some(1.0), ..plain() };
    let checkerboard: Vec<f64> =
        (0..shape.cells()).map(|n| if (n / 12 + n % 12) % 2 == 0 { 1.0 } else { -1.0 }).collect();
    let (outcome, _) = solve(&stencil, &options(undamped), &stencil.times(&checkerboard), 0.0);
    assert_eq!(outcome.stop, Stop::Stagnated, "{:?}", outcome.stop);
    assert!(outcome.advice.unwrap().contains("solver.method"));
}

#[test]
fn points_are_a_whole_distance_from_the_sides() {
    let matrix = poisson(Shape::new(4, 1, 1)).stencil().unwrap();
    // V/h² = 1/h = 5
    assert_eq!(matrix.times(&[1.0, 0.0, 0.0, 0.0]), [10.0, -5.0, 0.0, 0.0]);
    let mut problem = DiffusionProblem::new(Shape::new(3, 2, 1), Coefficient::Isotropic(vec![2.0; 6]));
    problem.boundary = [[Boundary::Dirichlet(1.0), Boundary::Dirichlet(1.0)]; 3];
    let points = PointProblem::new(problem.clone(), [4.0, 3.0, 1.0]).unwrap();
    let rhs = points.rhs(None, 0, Weighting::Volume).unwrap();
    // u = 1 everywhere is the solution.
    for (ones, b) in points.stencil().unwrap().times(&[1.0; 6]).iter().zip(&rhs) {
        assert!((ones - b).abs() < 1e-14, "{ones} {b}");
    }
    assert_eq!(points.coordinates, [vec![1.0, 2.0, 3.0], vec![1.0, 2.0], vec![0.5]]);
    problem.boundary[0][0] = Boundary::Neumann(0.0);
    assert!(PointProblem::new(problem, [1.0; 3]).unwrap_err().to_string().contains("unknowns = \"cells\""));
}

fn accelerated() -> JacobiOptions {
    JacobiOptions { acceleration: Acceleration::Chebyshev, ..JacobiOptions::default() }
}

/// The plain method takes 13 299 and 38 978 sweeps. With a factor of √m = (1 − sin πh) / cos πh a sweep, ln 1e-4 / ln √m is 378 and
/// 753; vectors that decay like n √mⁿ take some more.
#[test]
fn sweeps_with_momentum() {
    check_momentum(128, 378.0);
    let problem = poisson(Shape::new(64, 64, 1));
    let rhs = problem.rhs(Some(RhsKind::Constant), 0, Weighting::Volume).unwrap();
    let fine = SolverOptions { tolerance: 1e-9, ..options(accelerated()) };
    let (outcome, u) = solve(&problem.stencil().unwrap(), &fine, &rhs, 0.0);
    // −Δu = 1 has its largest value in the middle, 0.0736713…
    let largest = u.iter().fold(0.0, |largest: f64, &u| largest.max(u));
    assert!(outcome.converged() && (largest / 0.073_671_35 - 1.0).abs() < 2e-3, "{largest}");
}

#[test]
#[ignore = "large; .ci/run has it"]
fn sweeps_with_momentum_on_a_larger_square() {
    check_momentum(256, 753.0);
}

fn check_momentum(n: usize, expected: f64) {
    let (outcome, _) = solve_points(Shape::new(n, n, 1), accelerated());
    assert!(outcome.converged(), "{n}: {outcome:?}");
    let sweeps = outcome.iterations as f64;
    assert!(sweeps > 0.7 * expected && sweeps < 2.0 * expected, "{n}: {sweeps}");
}

/// The spectral radius for rough coefficients, and for closed sides, is estimated during the iteration: plain sweeps take more than
/// five times as many.
#[test]
fn momentum_finds_its_way() {
    let shape = Shape::new(20, 14, 3);
    let rough: Vec<f64> = (0..shape.cells()).map(|n| (4.0 * random(5, n)).exp()).collect();
    let rhs = noise(shape.cells(), 6);
    for (boundary, relaxation) in
        [(Boundary::Dirichlet(0.0), None), (Boundary::Neumann(0.0), Some(0.9)), (Boundary::Neumann(0.0), None)]
    {
        let mut problem = DiffusionProblem::new(shape, Coefficient::Isotropic(rough.clone()));
        problem.boundary = [[Boundary::Dirichlet(0.0), boundary], [boundary; 2], [boundary; 2]];
        let stencil = problem.stencil().unwrap();
        let with = |options: SolverOptions| solve(&stencil, &SolverOptions { tolerance: 1e-9, ..options }, &rhs, 0.0);
        let (outcome, u) = with(options(JacobiOptions { relaxation, ..accelerated() }));
        let (exact, expected) = with(SolverOptions { method: Method::Cg, ..SolverOptions::default() });
        assert!(outcome.converged() && exact.converged(), "{boundary:?}: {outcome:?} {exact:?}");
        let scale = expected.iter().fold(0.0, |scale: f64, u| scale.max(u.abs()));
        assert!(u.iter().zip(&expected).all(|(u, e)| (u - e).abs() < 1e-5 * scale), "{boundary:?}");
        let more = SolverOptions {
            max_iterations: 5 * outcome.iterations,
            ..options(JacobiOptions { relaxation, ..plain() })
        };
        assert!(!with(more).0.converged(), "{boundary:?}: {}", outcome.iterations);
    }
}

/// Makes lines side by side, each with its own right-hand side.
fn lines(n: usize, count: usize) -> (PointProblem, Vec<f64>) {
    let shape = Shape::new(n, count, 1);
    let ones = vec![1.0; shape.cells()];
    let none = vec![0.0; shape.cells()];
    let mut problem = DiffusionProblem::new(shape, Coefficient::Diagonal([ones.clone(), none, ones]));
    problem.boundary = [[Boundary::Dirichlet(0.0); 2]; 3];
    // Smooth ones take more cycles than rough ones.
    let rhs = |j: usize, i: usize| {
        let smooth = (std::f64::consts::PI * (j + 1) as f64 * (i + 1) as f64 / (n + 1) as f64).sin();
        10f64.powi(j as i32) * (smooth + 1e-3 * random(7 + j as u64, i))
    };
    let rhs = (0..count).flat_map(|j| (0..n).map(move |i| rhs(j, i))).collect();
    // A distance of 1 between lines, so that their rows equal those of a single line.
    (PointProblem::new(problem, [1.0, (count + 1) as f64, 1.0]).unwrap(), rhs)
}

/// Each line takes as many cycles as alone.
#[test]
fn every_line_of_a_batch_has_its_own_stopping_test() {
    let (n, count) = (40, 5);
    let (problem, rhs) = lines(n, count);
    let (stencil, alone) = (problem.stencil().unwrap(), poisson(Shape::new(n, 1, 1)).stencil().unwrap());
    for (jacobi, norm, guess) in [
        (plain(), Norm::Initial, 0.0),
        (plain(), Norm::Rhs, 1.0),
        (tiles(4, 2, &[10]), Norm::Initial, 1.0),
        (JacobiOptions { exact: true, ..tiles(3, 4, &[10]) }, Norm::Rhs, 0.0),
    ] {
        let by_itself = |j: usize| {
            let options = SolverOptions { norm, ..options(jacobi.clone()) };
            solve(&alone, &options, &rhs[j * n..(j + 1) * n], guess).0.iterations
        };
        let tile = jacobi.tile.as_ref().map(|tile| vec![tile[0], 2]);
        let together = JacobiOptions { batch: true, tile, ..jacobi.clone() };
        let (outcome, u) = solve(&stencil, &SolverOptions { norm, ..options(together) }, &rhs, guess);
        let batch = outcome.batch.clone().unwrap();
        assert!(outcome.converged() && batch.worst <= 1e-4 && batch.worst > 1e-5, "{outcome:?}");
        assert!(outcome.relative_residual <= batch.worst * (1.0 + 1e-9));
        let expected: Vec<usize> = (0..count).map(by_itself).collect();
        assert_eq!(batch.iterations, expected);
        assert_eq!((batch.most(), outcome.iterations), (outcome.iterations, *expected.iter().max().unwrap()));
        assert!(batch.least() < batch.most());
        // The residual of a line is small relative to its reference.
        let image = stencil.times(&u);
        for j in 0..count {
            let line = j * n..(j + 1) * n;
            let residual: Vec<f64> = line.clone().map(|n| rhs[n] - image[n]).collect();
            let start: Vec<f64> = stencil.times(&vec![guess; u.len()])[line.clone()].to_vec();
            let start: Vec<f64> = line.clone().zip(start).map(|(n, image)| rhs[n] - image).collect();
            let against = if norm == Norm::Rhs { norm_of(&rhs[line]) } else { norm_of(&start) };
            assert!(norm_of(&residual) <= 1.0001e-4 * against, "line {j}");
        }
    }
}

#[test]
fn lines_that_are_no_batch() {
    let batch = |jacobi: JacobiOptions| options(JacobiOptions { batch: true, ..jacobi });
    let message = |problem: &PointProblem, options: &SolverOptions| {
        System::new(&Reference, &problem.stencil().unwrap(), options).err().unwrap().to_string()
    };
    let (problem, rhs) = lines(12, 3);
    let single = SolverOptions { precision: Precision::F32, ..batch(plain()) };
    for (message, parts) in [
        (message(&poisson(Shape::new(8, 8, 1)), &batch(plain())), ["solver.jacobi.batch", "coefficient_y = 0.0"]),
        (message(&poisson(Shape::new(8, 2, 3)), &batch(plain())), ["3 layers", "grid.ny = 6"]),
        (message(&problem, &single), ["f32", "use \"f64\""]),
        (message(&problem, &batch(accelerated())), ["solver.jacobi.batch", "acceleration"]),
    ] {
        assert!(parts.iter().all(|part| message.contains(part)), "{message}");
    }
    // A line with a zero right-hand side has no reference.
    let rhs: Vec<f64> = rhs.iter().enumerate().map(|(n, &f)| if n / 12 == 1 { 0.0 } else { f }).collect();
    let options = SolverOptions { norm: Norm::Rhs, ..batch(plain()) };
    let stencil = problem.stencil().unwrap();
    let mut system = System::new(&Reference, &stencil, &options).unwrap();
    let shape = Shape::new(12, 3, 1);
    let mut solve = |guess: f64| solve_again(&mut system, shape, &rhs, &mut vec![guess; shape.cells()], Guess::Given);
    assert!(solve(1.0).unwrap_err().to_string().contains("line 1 is zero"));
    let batch = solve(0.0).unwrap().batch.unwrap();
    assert_eq!((batch.iterations[1], batch.least()), (0, 0));
}
