//! Samples in closed form, and sums over cells against sums over faces.

use isobar_core::prelude::{ignore, random};

use super::*;

fn options(tolerance: f64) -> SolverOptions {
    SolverOptions { tolerance, ..SolverOptions::default() }
}

fn sample(shape: Shape, kappa: Vec<f64>) -> Sample {
    Sample::new(DiffusionProblem::new(shape, Coefficient::Isotropic(kappa))).unwrap()
}

#[track_caller]
fn along(sample: &mut Sample, axis: Axis) -> Effective {
    solution_along(sample, axis).0
}

/// Returns the solution too; NaN where there was no solve.
#[track_caller]
fn solution_along(sample: &mut Sample, axis: Axis) -> (Effective, Vec<f64>) {
    let device = Device::cpu_with_threads(2).unwrap();
    let mut u = vec![f64::NAN; sample.shape().cells()];
    let found = sample.along(axis, &device, &options(1e-12), Some(&mut u), &mut ignore).unwrap();
    (found, u)
}

#[track_caller]
fn assert_near(found: f64, expected: f64, tolerance: f64) {
    assert!((found - expected).abs() <= tolerance * expected.abs(), "{found}, not {expected}");
}

#[test]
fn laminates_are_in_series_and_in_parallel() {
    let shape = Shape::new(5, 6, 7);
    let layers = [1.0, 4.0, 0.5, 1.0, 8.0, 2.0, 0.25];
    let kappa = (0..shape.cells()).map(|n| layers[n / 30]).collect();
    let mut problem = DiffusionProblem::new(shape, Coefficient::Isotropic(kappa));
    problem.spacing[2] = Spacing::Given(vec![1.0, 2.0, 0.5, 1.0, 3.0, 1.0, 1.0]);
    let widths = [1.0, 2.0, 0.5, 1.0, 3.0, 1.0, 1.0];
    let parallel = layers.iter().zip(widths).map(|(k, w)| k * w).sum::<f64>() / 9.5;
    let series = 9.5 / layers.iter().zip(widths).map(|(k, w)| w / k).sum::<f64>();
    let mut sample = Sample::new(problem).unwrap();
    for (axis, expected) in [(Axis::X, parallel), (Axis::Y, parallel), (Axis::Z, series)] {
        let found = along(&mut sample, axis);
        assert_near(found.conductivity, expected, 1e-9);
        assert_near(found.bounds[0], series, 1e-12);
        assert_near(found.bounds[1], parallel, 1e-12);
        assert_near(found.tortuosity, parallel / expected, 1e-9);
        assert_eq!((found.porosity, found.connected), (1.0, 1.0));
        assert!(found.imbalance < 1e-9 && found.outcome.unwrap().converged());
    }
}

/// A checkerboard conducts √(κ₁ κ₂) (Keller, 1964); cells at its corners see that slowly.
#[test]
fn checkerboards_tend_to_the_geometric_mean() {
    let mut errors = Vec::new();
    for cells in [8, 16, 32] {
        let n = 2 * cells;
        let kappa = (0..n * n).map(|m| if (m % n / cells + m / n / cells) % 2 == 0 { 4.0 } else { 1.0 }).collect();
        let mut sample = sample(Shape::new(n, n, 1), kappa);
        let [x, y] = [Axis::X, Axis::Y].map(|axis| along(&mut sample, axis));
        assert_near(x.conductivity, y.conductivity, 1e-9);
        errors.push((x.conductivity / 2.0 - 1.0).abs());
        assert!(x.bounds[0] < x.conductivity && x.conductivity < x.bounds[1]);
    }
    assert!(errors[2] < 0.01 && errors.is_sorted_by(|a, b| 1.5 * b < *a), "{errors:?}");
}

/// Pores that lead nowhere are left out, and change nothing.
#[test]
fn dead_ends_and_islands_do_not_count_as_connected() {
    // A channel along x, and cells that only touch one side or none.
    let rows = ["#######", ".......", "#######", "..###..", "###.###"];
    let kappa: Vec<f64> = rows.concat().chars().map(|c| if c == '.' { 2.0 } else { 0.0 }).collect();
    let mut sample = sample(Shape::new(7, 5, 1), kappa);
    let (x, u) = solution_along(&mut sample, Axis::X);
    assert_near(x.conductivity, 2.0 / 5.0, 1e-10);
    assert_near(x.porosity, 12.0 / 35.0, 1e-14);
    assert_near(x.connected, 7.0 / 12.0, 1e-14);
    assert_near(x.tortuosity, 12.0 / 7.0, 1e-10);
    assert_eq!(x.bounds[0], 0.0);
    assert!(u[7..14].iter().all(|u| *u > 0.0) && u[14..].iter().all(|u| *u == 0.0));
    let (y, u) = solution_along(&mut sample, Axis::Y);
    assert_eq!((y.conductivity, y.connected, y.imbalance), (0.0, 0.0, 0.0));
    assert!(y.tortuosity == f64::INFINITY && y.outcome.is_none() && u.iter().all(|u| u.is_nan()));
    // The first axis again, after the second.
    assert_eq!(along(&mut sample, Axis::X).conductivity, x.conductivity);
}

/// Checks that a path of N cells from side to side conducts 1/N of its κ, whatever its turns, and that closed pores beside it conduct
/// nothing.
#[test]
fn one_winding_path_in_closed_form() {
    let shape = Shape::new(5, 4, 3);
    let mut kappa = vec![0.0; shape.cells()];
    let path = [[0, 0, 0], [1, 0, 0], [1, 1, 0], [1, 2, 0], [1, 2, 1], [2, 2, 1], [3, 2, 1], [3, 2, 2], [4, 2, 2]];
    let islands = [[3, 0, 0], [0, 3, 2], [4, 0, 0]];
    for [i, j, k] in path.into_iter().chain(islands) {
        kappa[i + 5 * (j + 4 * k)] = 3.0;
    }
    let mut problem = DiffusionProblem::new(shape, Coefficient::Isotropic(kappa));
    problem.spacing = [1.0; 3].map(Spacing::Uniform);
    // Numbers of sides are ignored.
    problem.side_fields[0][0].value = Some(vec![7.0; 12]);
    let mut sample = Sample::new(problem).unwrap();
    let x = along(&mut sample, Axis::X);
    assert_near(x.conductivity, 3.0 / 9.0 * 5.0 / 12.0, 1e-11);
    assert_near(x.connected, 9.0 / 12.0, 1e-14);
    // The path ends at the upper side of z, which it reaches from the lower one.
    assert_near(along(&mut sample, Axis::Z).connected, 9.0 / 12.0, 1e-14);
    assert_eq!(along(&mut sample, Axis::Y).connected, 0.0);
}

/// Checks that with several components, of which other ones conduct along each axis, the numbers are those of a problem with a mask of
/// these components, bit for bit.
#[test]
fn masks_of_each_axis_give_the_same() {
    for (shape, seed, open) in [(Shape::new(9, 7, 8), 5, 0.45), (Shape::new(13, 12, 1), 6, 0.7)] {
        let kappa: Vec<f64> =
            (0..shape.cells()).map(|n| if random(seed, n).abs() < open { 1.0 + (n % 3) as f64 } else { 0.0 }).collect();
        let mut problem = DiffusionProblem::new(shape, Coefficient::Isotropic(kappa));
        problem.spacing = [1.0; 3].map(Spacing::Uniform);
        problem.active = Some((0..shape.cells()).map(|n| n % 17 != 3).collect());
        let mut sample = Sample::new(problem.clone()).unwrap();
        let stencil = problem.stencil().unwrap();
        let all = stencil.components(&Host).unwrap().all;
        let open = Open { cells: Cells::Matrix(Box::new(stencil)), components: all.clone() };
        for axis in [Axis::X, Axis::Y, Axis::Z, Axis::X] {
            let which = open.through(axis);
            let (found, solution) = solution_along(&mut sample, axis);
            let mut alone = problem.clone();
            let is_part = |n: usize| all.aggregate(n).is_some_and(|component| which[component]);
            alone.active = Some((0..shape.cells()).map(is_part).collect());
            alone.boundary[axis as usize] = [Boundary::Dirichlet(1.0), Boundary::Dirichlet(0.0)];
            let Ok(matrix) = alone.stencil() else {
                assert_eq!(found.connected, 0.0);
                continue;
            };
            let rhs = alone.rhs(None, 0, isobar_core::problem::Weighting::None).unwrap();
            let mut u = vec![0.0; rhs.len()];
            let device = Device::cpu_with_threads(2).unwrap();
            let mut solver = Solver::builder(&matrix).device(&device).options(&options(1e-12)).build().unwrap();
            assert!(solver.solve_observed(&rhs, &mut u, Guess::Zero, &mut ignore).unwrap().converged());
            assert_eq!(solution, u, "{shape} {axis:?}");
            let flow = alone.flow(&matrix);
            let [length, size] = [shape.extents()[axis as usize], shape.cells()].map(|n| n as f64);
            assert_near(found.conductivity, 2.0 * flow.energy(&u).unwrap() * length * length / size, 1e-12);
            let [inflow, outflow] = [-flow.through(&u, axis, false).unwrap(), flow.through(&u, axis, true).unwrap()];
            assert!((found.imbalance - (inflow - outflow).abs() / inflow.max(outflow)).abs() < 1e-12);
        }
    }
}

/// Flows and energy follow from sums over cells with the digits of sums over faces, also where κ differs by twelve orders of magnitude,
/// and for a u that is no solution.
#[test]
fn sums_over_cells_lose_no_digits() {
    let shape = Shape::new(9, 8, 7);
    let kappa = (0..shape.cells()).map(|n| 10f64.powf(6.0 * random(8, n))).collect();
    let mut problem = DiffusionProblem::new(shape, Coefficient::Isotropic(kappa));
    problem.spacing = [1.0; 3].map(Spacing::Uniform);
    let mut sample = Sample::new(problem.clone()).unwrap();
    let (device, options) =
        (Device::cpu_with_threads(1).unwrap(), SolverOptions { max_iterations: 4, ..options(1e-14) });
    for axis in Axis::ALL {
        let mut u = vec![0.0; shape.cells()];
        let found = sample.along(axis, &device, &options, Some(&mut u), &mut ignore).unwrap();
        problem.boundary = [[Boundary::Neumann(0.0); 2]; 3];
        problem.boundary[axis as usize] = [Boundary::Dirichlet(1.0), Boundary::Dirichlet(0.0)];
        let matrix = problem.stencil().unwrap();
        let flow = problem.flow(&matrix);
        let [length, size] = [shape.extents()[axis as usize], shape.cells()].map(|n| n as f64);
        assert_near(found.conductivity, 2.0 * flow.energy(&u).unwrap() * length * length / size, 1e-9);
        let [inflow, outflow] = [-flow.through(&u, axis, false).unwrap(), flow.through(&u, axis, true).unwrap()];
        assert!((found.imbalance - (inflow - outflow).abs() / inflow.abs().max(outflow.abs())).abs() < 1e-9);
    }
}

#[test]
fn a_loose_tolerance_costs_its_square() {
    let shape = Shape::new(24, 20, 6);
    let kappa: Vec<f64> =
        (0..shape.cells()).map(|n| if random(3, n) < -0.5 { 0.0 } else { (2.0 * random(4, n)).exp() }).collect();
    let mut sample = sample(shape, kappa);
    let exact = along(&mut sample, Axis::X);
    let device = Device::cpu_with_threads(1).unwrap();
    let loose = sample.along(Axis::X, &device, &options(1e-3), None, &mut ignore).unwrap();
    let error = loose.conductivity / exact.conductivity - 1.0;
    // The energy of any other field is larger.
    assert!((-1e-12..1e-4).contains(&error) && exact.imbalance < 1e-9, "{error} {}", loose.imbalance);
}

#[test]
fn odd_samples() {
    for (shape, kappa) in [(Shape::new(1, 1, 1), vec![3.0]), (Shape::new(1, 4, 1), vec![3.0; 4])] {
        for axis in Axis::ALL {
            assert_near(along(&mut sample(shape, kappa.clone()), axis).conductivity, 3.0, 1e-12);
        }
    }
    let found = along(&mut sample(Shape::new(3, 2, 1), vec![0.0; 6]), Axis::Y);
    assert_eq!((found.conductivity, found.porosity, found.connected, found.bounds), (0.0, 0.0, 0.0, [0.0, 0.0]));
    for wrong in [vec![0.0; 5], vec![f64::NAN; 6], vec![-1.0; 6]] {
        let problem = DiffusionProblem::new(Shape::new(3, 2, 1), Coefficient::Isotropic(wrong));
        assert!(Sample::new(problem).is_err());
    }
    // A mask, and a κ of one direction alone.
    let mut problem =
        DiffusionProblem::new(Shape::new(3, 2, 1), Coefficient::Diagonal([vec![2.0; 6], vec![0.0; 6], vec![0.0; 6]]));
    problem.active = Some(vec![true, true, true, false, true, true]);
    let mut sample = Sample::new(problem).unwrap();
    let found = along(&mut sample, Axis::X);
    assert_near(found.conductivity, 1.0, 1e-12);
    assert_near(found.connected, 3.0 / 5.0, 1e-14);
    assert_eq!(along(&mut sample, Axis::Y).conductivity, 0.0);
}

/// Images of few phases, with isolated cells, all open, all closed, of one layer, and of odd sizes.
fn images() -> Vec<Phases> {
    let shapes = [[9, 7, 8], [13, 12, 1], [1, 30, 11], [37, 1, 1], [17, 15, 21], [1, 1, 1], [70, 4, 3]];
    let mut all = Vec::new();
    for (n, [nx, ny, nz]) in shapes.into_iter().enumerate() {
        let shape = Shape::new(nx, ny, nz);
        for (seed, closed, third) in [(1, 0.3, 0.1), (2, 0.6, 3.7), (3, -1.0, 1e3), (4, 1.0, 2.0), (5, 0.05, 1.0)] {
            let of_cell = |cell: usize| {
                let number = 0.5 * (1.0 + random(seed + 8 * n as u64, cell));
                if number < closed { 0 } else { 1 + u8::from(random(99, cell) > 0.3) }
            };
            let numbers = (0..shape.cells()).map(of_cell).collect();
            all.push(Phases::new(shape, numbers, vec![0.0, 1.0, third]).unwrap());
        }
        all.push(Phases::new(shape, vec![0; shape.cells()], vec![2.5]).unwrap());
    }
    all
}

/// Compares samples of images along all axes with those of κ of every cell on the processor.
fn compare_images(device: &Device, rounding: f64) {
    let processor = Device::cpu_with_threads(2).unwrap();
    let near = |a: f64, b: f64| a == b || (a - b).abs() <= rounding * a.abs().max(b.abs());
    for phases in images() {
        for spacing in [Spacing::Uniform(1.0), Spacing::Uniform(0.3)] {
            let shape = phases.shape();
            let spacing = [spacing, Spacing::Uniform(1.0), Spacing::Uniform(0.7)];
            let mut problem = DiffusionProblem::new(shape, Coefficient::Isotropic(phases.coefficients()));
            problem.spacing = spacing.clone();
            let mut expected = Sample::new(problem).unwrap();
            let mut sample = Sample::of_phases(phases.clone(), spacing).unwrap();
            assert!(near(sample.porosity(), expected.porosity()) && sample.shape() == shape);
            for axis in [Axis::X, Axis::Y, Axis::Z, Axis::X] {
                let [mut u, mut v] = [0, 1].map(|_| vec![0.0; shape.cells()]);
                let found = sample.along(axis, device, &options(1e-11), Some(&mut u), &mut ignore).unwrap();
                let expected = expected.along(axis, &processor, &options(1e-11), Some(&mut v), &mut ignore).unwrap();
                let numbers = |of: &Effective| {
                    let [series, parallel] = of.bounds;
                    [of.conductivity, of.tortuosity, of.porosity, of.connected, series, parallel]
                };
                let are_near = numbers(&found).into_iter().zip(numbers(&expected)).all(|(a, b)| near(a, b));
                assert!(are_near, "{shape} {axis:?}: {found:?} instead of {expected:?}");
                assert!(found.imbalance < 1e-6 && expected.imbalance < 1e-6, "{shape} {axis:?}: {found:?}");
                assert_eq!(found.outcome.is_some(), expected.outcome.is_some());
                let apart = u.iter().zip(&v).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
                assert!(apart <= 1e3 * rounding, "{shape} {axis:?}: {apart}");
            }
        }
    }
}

#[test]
fn phases_give_what_their_coefficients_give() {
    compare_images(&Device::cpu_with_threads(2).unwrap(), 1e-13);
}

#[test]
#[ignore = "needs a GPU"]
fn a_gpu_gives_what_the_processor_gives() {
    compare_images(&Device::cuda(0).unwrap(), 1e-9);
}

/// Checks uneven cells, and another device for the same sample.
#[test]
fn phases_of_uneven_cells() {
    let widths = vec![1.0, 2.0, 0.5, 1.0, 3.0];
    let phases =
        Phases::new(Shape::new(2, 3, 5), (0..30).map(|n| [1, 0, 2, 1, 2][n / 6]).collect(), vec![4.0, 1.0, 8.0]);
    let spacing = [Spacing::Uniform(1.0), Spacing::Uniform(1.0), Spacing::Given(widths)];
    let mut sample = Sample::of_phases(phases.unwrap(), spacing).unwrap();
    let parallel = (1.0 + 2.0 * 4.0 + 0.5 * 8.0 + 1.0 + 3.0 * 8.0) / 7.5;
    assert_near(along(&mut sample, Axis::X).conductivity, parallel, 1e-9);
    assert_near(along(&mut sample, Axis::Z).conductivity, 7.5 / (1.0 + 0.5 + 0.0625 + 1.0 + 0.375), 1e-9);
    let wrong = Phases::new(Shape::new(2, 1, 1), vec![0; 2], vec![1.0]).unwrap();
    let spacing = [Spacing::Uniform(-1.0), Spacing::Uniform(1.0), Spacing::Uniform(1.0)];
    assert!(Sample::of_phases(wrong, spacing).is_err());
}
