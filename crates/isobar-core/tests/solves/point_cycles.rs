//! Cycles that relax points on halved grids: counts that do not depend on the grid, tiny grids, and the
//! automatic choice where coefficients do not suit them.

use isobar_core::conformance::arrays::{distance, noise, residual, solve_by};
use isobar_core::prelude::*;

fn options() -> SolverOptions {
    SolverOptions { tolerance: 1e-8, compatibility: Compatibility::Project, ..SolverOptions::default() }
}

/// Makes a stencil of coefficients by the places of cells in the unit square or cube, with cells of these relative widths.
fn stencil(shape: Shape, factors: [f64; 3], sides: [[Side; 2]; 3], kappa: impl Fn([f64; 3]) -> f64) -> Diffusion {
    let field = shape.places().map(|at| {
        let [i, j, k] = at.map(|n| n as f64 + 0.5);
        kappa([i / shape.nx as f64, j / shape.ny as f64, k / shape.nz as f64])
    });
    let field: Vec<f64> = field.collect();
    Diffusion::of_field(shape, field, factors, None, sides).unwrap()
}

struct Solved {
    outcome: Outcome,
    u: Vec<f64>,
    rhs: Vec<f64>,
    method: String,
    notes: String,
}

fn solve(stencil: &Diffusion, options: &SolverOptions) -> Solved {
    let shape = stencil.shape();
    let rhs = noise(shape.cells(), 9);
    let mut system = System::new(&Reference, stencil, options).unwrap();
    let (outcome, u) = solve_by(&mut system, shape, &rhs);
    assert!(outcome.converged(), "{shape}: {outcome:?}");
    let description = system.description();
    let notes = description.notes.iter().chain(&outcome.notes).cloned().collect::<Vec<_>>().join("\n");
    Solved { method: description.method.clone(), notes, outcome, u, rhs }
}

const FIXED: [[Side; 2]; 3] = [[Side::Fixed; 2]; 3];
const RINGS: [[Side; 2]; 3] = [[Side::Periodic; 2]; 3];
const BOTTOM: [[Side; 2]; 3] = [[Side::Closed; 2], [Side::Closed; 2], [Side::Fixed, Side::Closed]];
/// One fixed side in the plane.
const SOUTH: [[Side; 2]; 3] = [[Side::Closed; 2], [Side::Fixed, Side::Closed], [Side::Closed; 2]];

/// Returns coefficients that are not separable, which would be solved directly.
fn uneven([x, y, z]: [f64; 3]) -> f64 {
    1.0 + 1e-6 * (x * y + y * z + z * x)
}

fn cycles(shape: Shape, sides: [[Side; 2]; 3], kappa: impl Fn([f64; 3]) -> f64) -> usize {
    let sides = if shape.nz == 1 { [sides[0], sides[1], [Side::Closed; 2]] } else { sides };
    let solved = solve(&stencil(shape, [1.0; 3], sides, |at| kappa(at) * uneven(at)), &options());
    assert_eq!(solved.method, "multigrid", "{shape}: {}", solved.notes);
    solved.outcome.iterations
}

/// Checks squares and cubes of so many cells along each axis.
fn check_grids(squares: &[usize], cubes: &[usize]) {
    for (&n, sides) in squares.iter().flat_map(|n| [(n, FIXED), (n, SOUTH)]) {
        let count = cycles(Shape::new(n, n, 1), sides, |_| 1.0);
        assert!(count <= 9, "{n}², {sides:?}: {count}");
    }
    for (&n, sides) in cubes.iter().flat_map(|n| [(n, FIXED), (n, BOTTOM)]) {
        let count = cycles(Shape::new(n, n + 1, n - 1), sides, |_| 1.0);
        assert!(count <= 10, "{n}³, {sides:?}: {count}");
    }
}

#[test]
#[ignore = "large; .ci/run has it"]
fn counts_do_not_depend_on_a_large_grid() {
    check_grids(&[200, 256], &[47, 64]);
}

#[test]
fn counts_do_not_depend_on_the_grid() {
    check_grids(&[24, 31, 32, 211], &[13, 16, 31]);
    let rings = [cycles(Shape::new(128, 64, 1), RINGS, |_| 1.0), cycles(Shape::new(32, 32, 32), RINGS, |_| 1.0)];
    assert!(rings.iter().all(|&count| count <= 9), "{rings:?}");
    // A single line is solved directly unless the options ask for cycles.
    let mut points = options();
    points.multigrid.smoother = Smoother::PointRedBlack;
    let line = solve(&stencil(Shape::new(200, 1, 1), [1.0; 3], FIXED, |_| 1.0), &points);
    assert!(line.method == "multigrid" && line.outcome.iterations <= 10, "{}", line.outcome.iterations);
    // Multigrid by name solves lines exactly.
    let by_name = SolverOptions { method: Method::Multigrid, ..options() };
    for shape in [Shape::new(200, 1, 1), Shape::new(1, 203, 1), Shape::new(1, 1, 200)] {
        let d = shape.extents().iter().position(|&n| n > 1).unwrap();
        let mut sides = [[Side::Closed; 2]; 3];
        sides[d] = [Side::Fixed, Side::Closed];
        let exact = solve(&stencil(shape, [1.0; 3], sides, |_| 1.0), &by_name);
        assert!(exact.outcome.iterations <= 2 && exact.notes.contains("one direction"), "{shape}: {}", exact.notes);
    }
}

#[test]
fn smooth_coefficients_are_as_easy() {
    let smooth = |[x, y, z]: [f64; 3]| (1.5 * (4.0 * x + 1.0).sin() * (5.0 * y).cos() * (3.0 * z + 0.3).cos()).exp();
    let counts = [Shape::new(48, 48, 48), Shape::new(33, 47, 29), Shape::new(128, 130, 1)].map(|shape| {
        let sides = if shape.nz == 1 { SOUTH } else { BOTTOM };
        cycles(shape, sides, smooth)
    });
    assert!(counts.iter().all(|&count| count <= 11), "{counts:?}");
}

/// A direction with wider cells is halved later.
#[test]
fn directions_may_differ() {
    for factors in [[1.0, 1.0, 0.3], [0.3, 1.0, 1.0], [1.0, 4.0, 4.0]] {
        let solved = solve(&stencil(Shape::new(32, 32, 32), factors, FIXED, uneven), &options());
        assert_eq!(solved.method, "multigrid", "{}", solved.notes);
        assert!(solved.outcome.iterations <= 16, "{factors:?}: {}", solved.outcome.iterations);
    }
    let stiff = solve(&stencil(Shape::new(24, 24, 12), [1.0, 1.0, 30.0], FIXED, uneven), &options());
    assert!(stiff.method == "cg" && stiff.notes.contains("not points"), "{} {}", stiff.method, stiff.notes);
    assert!(stiff.outcome.iterations <= 6, "{}", stiff.outcome.iterations);
}

#[test]
fn tiny_grids_are_solved() {
    for (nx, ny, nz) in [(1, 1, 1), (2, 1, 1), (1, 3, 1), (2, 2, 2), (5, 3, 2), (4, 7, 3), (3, 1, 5)] {
        for sides in [FIXED, [[Side::Fixed, Side::Closed], [Side::Closed; 2], [Side::Closed; 2]]] {
            let shape = Shape::new(nx, ny, nz);
            let stencil = stencil(shape, [1.0, 0.8, 1.1], sides, |[x, y, z]| 1.0 + 0.2 * (x + y * z));
            let mut points = SolverOptions { tolerance: 1e-13, ..options() };
            points.multigrid.smoother = Smoother::PointRedBlack;
            let solved = solve(&stencil, &points);
            assert_eq!(solved.method, "multigrid", "{shape}: {}", solved.notes);
            // So few cells are well conditioned: u has nearly as many digits as its residual.
            let left = residual(&stencil, &solved.rhs, &solved.u);
            assert!(left < 1e-12, "{shape} {sides:?}: {left:e}");
        }
    }
}

/// The cycle is not a symmetric preconditioner, and conjugate gradients take that into account.
#[test]
fn other_ways_to_use_the_cycle() {
    let even = stencil(Shape::new(30, 28, 26), [1.0; 3], BOTTOM, |_| 1.0);
    let mut points = options();
    points.multigrid.smoother = Smoother::PointRedBlack;
    let mut full = points.clone();
    full.multigrid.start = Start::Full;
    let preconditioned =
        SolverOptions { method: Method::Cg, preconditioner: Preconditioner::Multigrid, ..points.clone() };
    let [by_cycles, full, preconditioned] =
        [&points, &full, &preconditioned].map(|options| solve(&even, options).outcome.iterations);
    assert!(by_cycles <= 10 && full <= by_cycles && preconditioned <= by_cycles, "{by_cycles} {full} {preconditioned}");
}

/// Random problems of many kinds are solved by the automatic choice, which gives its reason.
#[test]
fn nothing_fails_that_is_left_to_the_choice() {
    let mut by_points = 0;
    for seed in 0..60 {
        let pick = |what: u64, of: usize| ((random(100 + what, seed) * 0.5 + 0.5) * of as f64) as usize % of;
        let sizes = [1, 2, 3, 5, 8, 12, 13, 17, 24, 31];
        let shape = Shape::new(sizes[2 + pick(1, 8)], sizes[pick(2, 10)], sizes[pick(3, 9)]);
        let kinds = [[Side::Closed; 2], [Side::Fixed; 2], [Side::Fixed, Side::Closed], [Side::Periodic; 2]];
        let sides = [shape.nx, shape.ny, shape.nz].map(|n| n).into_iter().enumerate().map(|(d, n)| {
            let kind = kinds[pick(4 + d as u64, 4)];
            if kind[0] == Side::Periodic && n % 2 == 1 && (n > 1 || d < 2) { kinds[1] } else { kind }
        });
        let sides: Vec<_> = sides.collect();
        let contrast = [1.0, 1.0, 3.0, 30.0, 1e3, 1e6][pick(8, 6)];
        let (is_rough, has_holes) = (pick(9, 3) == 0, pick(10, 4) == 0);
        let factor = [1.0, 1.0, 3.0, 100.0][pick(11, 4)];
        let cell = std::cell::Cell::new(0);
        let kappa = |at @ [x, y, z]: [f64; 3]| {
            let n = cell.replace(cell.get() + 1);
            if has_holes && random(7, n) > 0.0 {
                return 0.0;
            }
            let wave = if is_rough { random(8, n) } else { (6.0 * x + 1.0).sin() * (4.0 * y).cos() * (3.0 * z).cos() };
            uneven(at) * f64::powf(contrast, 0.5 * wave)
        };
        let stencil = stencil(shape, [1.0, 1.0, factor], [sides[0], sides[1], sides[2]], kappa);
        let solved = solve(&stencil, &options());
        by_points += usize::from(solved.method == "multigrid");
        let has_box = solved.notes.contains("the nearest box");
        let has_line = solved.notes.contains("lines along one direction");
        let says = has_box
            || has_line
            || ["points", "a direct solve", "open neighbours"].iter().any(|why| solved.notes.contains(why));
        assert!(says, "seed {seed}, {shape}: {}", solved.notes);
        if has_holes && shape.cells() > 16 {
            let says =
                has_box || has_line || ["closed", "open neighbours"].iter().any(|why| solved.notes.contains(why));
            assert!(solved.method == "cg" && says, "seed {seed}: {}", solved.notes);
        }
    }
    assert!(by_points >= 8, "{by_points}");
}

/// Coefficients that seem smooth and are not: similar from cell to cell, with barriers that coarse cells do not represent.
#[test]
fn what_is_slow_gives_way() {
    let hidden = |at: [f64; 3]| uneven(at) * if (0.45..0.55).contains(&at[0]) { 1.0 } else { 1.4 };
    let mild = solve(&stencil(Shape::new(64, 64, 1), [1.0; 3], SOUTH, hidden), &options());
    assert_eq!(mild.method, "multigrid");
    // Multigrid by name has points too; where they are slow, its lines take over.
    let by_name = SolverOptions { method: Method::Multigrid, ..options() };
    let named = solve(&stencil(Shape::new(64, 64, 1), [1.0; 3], SOUTH, hidden), &by_name);
    assert!(named.notes.contains("points: no direction is stiff") && named.u == mild.u, "{}", named.notes);
    // An update may have any coefficients.
    let shape = Shape::new(48, 48, 1);
    let rhs = noise(shape.cells(), 9);
    let even = stencil(shape, [1.0; 3], FIXED, uneven);
    let cell = std::cell::Cell::new(0);
    let next = |_| cell.replace(cell.get() + 1);
    let bad = stencil(shape, [1.0; 3], FIXED, |at| if random(3, next(at)) > 0.0 { 1e6 } else { 1.0 });
    for (options, method, to) in [
        (options(), "cg", "cg, preconditioner multigrid, lines on Galerkin grids"),
        (by_name, "multigrid", "multigrid, lines on Galerkin grids"),
    ] {
        let mut system = System::new(&Reference, &even, &options).unwrap();
        let mut found = Vec::new();
        for stencil in [&even, &bad, &even] {
            system.update(stencil).unwrap();
            let (outcome, _) = solve_by(&mut system, shape, &rhs);
            assert!(outcome.converged(), "{outcome:?}");
            found.push((system.description().method.clone(), outcome.notes.join("\n")));
        }
        assert_eq!(found[0], ("multigrid".into(), String::new()));
        assert!(found[1].0 == method && found[1].1.contains("slow up to cycle"), "{found:?}");
        assert!(found[1].1.ends_with(&format!("continued with {to}")), "{found:?}");
        assert_eq!(found[2], (method.into(), String::new()));
    }
}

/// Returns 10^(σ g), g a sum of plane waves of about `waves` waves a side.
fn lognormal(waves: f64, deviation: f64) -> impl Fn([f64; 3]) -> f64 {
    const MODES: usize = 32;
    let modes: Vec<[f64; 4]> = (0..MODES)
        .map(|mode| {
            let wave = |d: usize| (2.4 * waves * random(21, 4 * mode + d)).round() * std::f64::consts::TAU;
            [wave(0), wave(1), wave(2), 3.0 * random(21, 4 * mode + 3)]
        })
        .collect();
    move |[x, y, z]| {
        let g: f64 = modes.iter().map(|[a, b, c, phase]| (a * x + b * y + c * z + phase).cos()).sum();
        10f64.powf(deviation * g * (2.0 / MODES as f64).sqrt())
    }
}

/// Coefficients over decades get the hybrid smoother, and take about as many iterations as with lines throughout.
#[test]
fn rough_coefficients_take_points_above_lines() {
    check_rough(&[(Shape::new(41, 33, 29), [1.0, 1.5, 1.0], BOTTOM, 2.0, 16)]);
}

#[test]
#[ignore = "large; .ci/run has it"]
fn rough_coefficients_of_more_grids_take_points_above_lines() {
    check_rough(&[
        (Shape::new(40, 32, 36), [1.0; 3], FIXED, 2.0, 14),
        (Shape::new(32, 32, 40), [1.0; 3], RINGS, 1.0, 14),
        (Shape::new(256, 200, 1), [1.0; 3], SOUTH, 8.0, 16),
    ]);
}

/// Checks grids with factors of the axes, sides, waves of the coefficient, and the most iterations.
fn check_rough(grids: &[(Shape, [f64; 3], [[Side; 2]; 3], f64, usize)]) {
    for &(shape, factors, sides, waves, most) in grids {
        let stencil = stencil(shape, factors, sides, lognormal(waves, 0.7));
        let solved = solve(&stencil, &options());
        let Solved { outcome, notes, method, .. } = &solved;
        assert!(method == "cg" && notes.contains("points on the finest grid"), "{shape}: {notes}");
        assert!(!notes.contains("slow") && outcome.iterations <= most, "{shape}: {} {notes}", outcome.iterations);
        let mut lines = options();
        lines.multigrid.smoother = Smoother::LineRedBlack;
        let expected = solve(&stencil, &lines);
        let off = distance(&solved.u, &expected.u);
        assert!(off < 1e-4, "{shape}: {off:.1e}");
        // By name conjugate gradients have a symmetric preconditioner, for the sake of their estimates.
        let cg = SolverOptions { method: Method::Cg, ..options() };
        let multigrid = SolverOptions { preconditioner: Preconditioner::Multigrid, ..options() };
        for by_name in [cg, multigrid] {
            let named = solve(&stencil, &by_name);
            assert!(!named.notes.contains("points") && named.u == expected.u, "{}", named.notes);
        }
    }
}

/// Strongly conducting bodies slow relaxation of points: too large jumps between neighbours are detected before, others by slow
/// convergence.
#[test]
fn bodies_are_left_to_lines() {
    let shape = Shape::new(36, 32, 32);
    let is_inside = |at: [f64; 3]| at.into_iter().map(|x| (9.4 * x).sin()).product::<f64>() > 0.2;
    for (contrast, why) in [(1e6, "nor the hybrid smoother"), (290.0, "points on the finest grid")] {
        let solved =
            solve(&stencil(shape, [1.0; 3], FIXED, |at| if is_inside(at) { contrast } else { 1.0 }), &options());
        assert!(solved.method == "cg" && solved.notes.contains(why), "{}", solved.notes);
    }
}

/// Every way of asking for the hybrid smoother: cycles alone, mixed and single precision, updates, numbers of levels.
#[test]
fn points_above_lines_can_be_asked_for() {
    let shape = Shape::new(24, 20, 17);
    let stencil = |waves| stencil(shape, [1.0, 2.0, 1.0], BOTTOM, lognormal(waves, 0.3));
    let mut by_name = options();
    by_name.multigrid.smoother = Smoother::PointLine;
    let expected = solve(&stencil(1.0), &options());
    for (method, precision, levels, most) in [
        (Method::Auto, Precision::F64, None, 12),
        (Method::Multigrid, Precision::F64, None, 20),
        (Method::Auto, Precision::Mixed, None, 12),
        (Method::Multigrid, Precision::Mixed, None, 20),
        (Method::Cg, Precision::F64, Some(3), 30),
        // There are always two levels; the second is only relaxed.
        (Method::Cg, Precision::F64, Some(1), 120),
    ] {
        let mut options = SolverOptions { method, precision, ..by_name.clone() };
        options.multigrid.levels = levels;
        let solved = solve(&stencil(1.0), &options);
        let iterations = solved.outcome.iterations;
        assert!(iterations <= most, "{method:?} {precision:?} {levels:?}: {iterations}");
        let off = solved.u.iter().zip(&expected.u).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(off < 1e-4 * expected.u.iter().fold(0.0, |most: f64, u| most.max(u.abs())), "{off:.1e}");
    }
    // New coefficients reach all levels.
    let (first, second) = (stencil(1.0), stencil(2.0));
    let iterations = |system: &mut System<Reference, Diffusion>| {
        let (outcome, _) = solve_by(system, shape, &noise(shape.cells(), 9));
        (outcome.iterations, outcome.relative_residual)
    };
    let mut updated = System::new(&Reference, &first, &by_name).unwrap();
    updated.update(&second).unwrap();
    assert_eq!(iterations(&mut updated), iterations(&mut System::new(&Reference, &second, &by_name).unwrap()));
    // Six periodic cells are not halved.
    let ring = Diffusion::of_field(Shape::new(6, 4, 4), vec![1.0; 96], [1.0; 3], None, RINGS);
    let refused = System::new(&Reference, &ring.unwrap(), &by_name).err().unwrap().to_string();
    assert!(refused.contains("point-line") && refused.contains("line-red-black"), "{refused}");
    assert!(refused.contains("2 cells or a multiple of 4 for that, and x has 6;"), "{refused}");
}
