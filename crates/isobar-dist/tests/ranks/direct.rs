//! Boxes that are solved directly, with lines that ranks divide.

use isobar_core::conformance::arrays::{noise, residual, without_mean};
use isobar_core::conformance::direct::SIDES;
use isobar_core::prelude::*;
use isobar_core::problem::random;

use crate::solves::{Devices, possible, solve_on, solve_updated};

/// Makes a box whose widths grow by a factor along each axis, with random layers of the coefficient along an axis and a reaction of this size there, if any.
fn separable(
    shape: Shape,
    sides: [[Side; 2]; 3],
    stretching: f64,
    layered: Option<usize>,
    reaction: Option<f64>,
    seed: u64,
) -> Diffusion {
    let extents = shape.extents();
    let width = |d: usize, at: [usize; 3]| stretching.powf(at[d] as f64 / extents[d] as f64);
    let volume = |at: [usize; 3]| width(0, at) * width(1, at) * width(2, at);
    let layer = |seed: u64, at: [usize; 3]| layered.map_or(1.0, |axis| 1.5 + random(seed, at[axis]));
    let of = |value: &dyn Fn([usize; 3]) -> f64| shape.places().map(value).collect::<Vec<f64>>();
    let fields = [0, 1, 2].map(|d| of(&|at| 2.0 * layer(seed, at) * volume(at) / width(d, at).powi(2)).into());
    let shift = reaction.map(|size| of(&|at| size * layer(seed + 1, at) * volume(at)));
    let cells = Coefficients::Cells { fields: fields.into(), axes: [(0, 1.0), (1, 1.0), (2, 1.0)] };
    Diffusion::new(shape, cells, shift, sides).unwrap()
}

fn check<D: Devices>(backend: &D, stencils: [&Diffusion; 2], options: &SolverOptions, ranks: usize, what: &str) {
    let [before, after] = stencils;
    let shape = Stencil::shape(after);
    let is_singular = !after.sides().as_flattened().contains(&Side::Fixed)
        && after.stored_shift().is_none_or(|shift| shift.iter().all(|&s| s == 0.0));
    let values = noise(shape.cells(), 3);
    let values = if is_singular { without_mean(values) } else { values };
    let what = format!("{what} on {ranks} ranks");
    let is_zero = values.iter().all(|value| value.abs() < 1e-14);
    // Arrays of extreme numbers pass through vectors.
    for size in [1.0, 1e-110] {
        let values: Vec<f64> = values.iter().map(|value| size * value).collect();
        let found = match std::ptr::eq(before, after) {
            true => solve_on(ranks, backend, after, options, &values, None),
            false => solve_updated(ranks, backend, stencils, options, &values).map(|(outcome, _, u)| (outcome, u)),
        };
        let (outcome, u) = found.unwrap_or_else(|error| panic!("{what}, times {size:e}: {error}"));
        let found = residual(after, &values, &u);
        assert!(is_zero || outcome.converged() && found < 1e-9, "{what}, times {size:e}: {found:e}, {outcome:?}");
        assert!(is_zero || !after.is_definite() || outcome.iterations == 1, "{what}, times {size:e}: {outcome:?}");
        let mean = u.iter().sum::<f64>() / u.iter().map(|u| u.abs()).sum::<f64>();
        assert!(is_zero || !is_singular || mean.abs() < 1e-12, "{what}, times {size:e}: a mean of {mean:e}");
    }
}

/// Checks boxes of awkward sizes, with all kinds of sides, uniform, stretched and layered.
pub(crate) fn check_boxes(backend: &impl Devices) {
    let options = SolverOptions { method: Method::Direct, tolerance: 1e-10, ..SolverOptions::default() };
    let extents = [[6, 5, 4], [8, 16, 3], [34, 7, 18], [13, 66, 2], [3, 12, 1], [1, 9, 8], [1, 13, 1], [64, 24, 8]];
    for (n, [nx, ny, nz]) in extents.into_iter().enumerate() {
        for m in 0..10 {
            let sides = [n + m, n / 2 + 2 * m + m / 5, 3 * m + 1].map(|s| SIDES[s % SIDES.len()]);
            let (stretching, layered) = ([1.0, 1.0, 20.0][(n + m) % 3], [None, Some(0), Some(1), None, Some(2)][m % 5]);
            let reaction = if m % 2 == 0 { None } else { Some(0.7) };
            let stencil = separable(Shape::new(nx, ny, nz), sides, stretching, layered, reaction, m as u64);
            let what =
                format!("{nx}×{ny}×{nz} {sides:?}, stretched {stretching}, layered along {layered:?}, {reaction:?}");
            let ranks = [2, 3, 5][(n + m) % 3];
            for ranks in possible(backend, &[ranks, ny]) {
                // Widths and layers of one axis leave factors along each, whatever the lines.
                check(backend, [&stencil; 2], &options, ranks, &what);
            }
        }
    }
}

/// Checks negative reactions, and new coefficients.
pub(crate) fn check_changes(backend: &impl Devices) {
    let options = SolverOptions { method: Method::Direct, tolerance: 1e-9, ..SolverOptions::default() };
    let [closed, fixed, periodic] = [[Side::Closed; 2], [Side::Fixed; 2], [Side::Periodic; 2]];
    for (shape, sides) in
        [(Shape::new(12, 30, 7), [closed, fixed, fixed]), (Shape::new(9, 20, 5), [fixed, periodic, closed])]
    {
        let of = |stretching: f64, layered: Option<usize>, reaction: f64| {
            separable(shape, sides, stretching, layered, Some(reaction), 4)
        };
        let [plain, indefinite, stretched, layered] =
            [of(1.0, None, 0.0), of(1.0, None, -0.6), of(9.0, None, 0.0), of(1.0, Some(1), 2.0)];
        for ranks in possible(backend, &[2, 3]) {
            for (before, after) in [
                (&plain, &indefinite),
                (&indefinite, &plain),
                (&plain, &stretched),
                (&stretched, &layered),
                (&layered, &plain),
            ] {
                check(backend, [before, after], &options, ranks, &format!("{shape}, updated"));
            }
        }
    }
    check_layers(backend);
}

/// Checks that layers across z, for which lines along y would need as many eigenvectors as there are cells in z, take another solver in an update.
fn check_layers(backend: &impl Devices) {
    let (shape, sides) = (Shape::new(4, 6, 1200), [[Side::Closed; 2], [Side::Closed; 2], [Side::Fixed; 2]]);
    let [plain, layered] = [None, Some(2)].map(|layered| separable(shape, sides, 1.0, layered, None, 4));
    let open = SolverOptions { tolerance: 1e-8, ..SolverOptions::default() };
    let rhs = noise(shape.cells(), 5);
    for ranks in possible(backend, &[2]) {
        let (_, preconditioner, u) = solve_updated(ranks, backend, [&plain, &layered], &open, &rhs).unwrap();
        assert!(preconditioner != "none" && residual(&layered, &rhs, &u) < 1e-7, "{preconditioner}");
    }
}

/// Checks that boxes are solved directly by default, and that others are not.
pub(crate) fn check_choice(backend: &impl Devices) {
    let open = SolverOptions { tolerance: 1e-9, ..SolverOptions::default() };
    let [closed, fixed] = [[Side::Closed; 2], [Side::Fixed; 2]];
    let shape = Shape::new(16, 24, 12);
    let stencil = separable(shape, [closed, fixed, closed], 1.0, None, None, 1);
    for ranks in possible(backend, &[2, 3]) {
        check(backend, [&stencil; 2], &open, ranks, "auto");
    }
    // Layers of both directions across y differ from each other, so that no factor is left along them.
    let fields = [1.0, 2.0, 3.0].map(|seed| {
        let layer = |[.., k]: [usize; 3]| 1.0 + random(seed as u64, k);
        shape.places().map(layer).collect::<Vec<f64>>().into()
    });
    let cells = Coefficients::Cells { fields: fields.into(), axes: [(0, 1.0), (1, 1.0), (2, 1.0)] };
    let other = Diffusion::new(shape, cells, None, [closed, fixed, closed]).unwrap();
    assert!(other.chooses_direct().is_some());
    let rhs = noise(shape.cells(), 5);
    for ranks in possible(backend, &[2]) {
        let (outcome, u) = solve_on(ranks, backend, &other, &open, &rhs, None).unwrap();
        assert!(outcome.iterations > 1 && residual(&other, &rhs, &u) < 1e-8, "{outcome:?}");
        let asked = SolverOptions { method: Method::Direct, ..open.clone() };
        let said = solve_on(ranks, backend, &other, &asked, &rhs, None).unwrap_err().to_string();
        assert!(said.contains("several ranks") && said.contains("\"auto\""), "{said}");
    }
    check_nearest(backend);
}

/// Checks that the box nearest to a basin preconditions on ranks as on one, by choice and by name, with either coefficient after an update.
fn check_nearest(backend: &impl Devices) {
    let shape = Shape::new(22, 25, 12);
    let is_open = |[i, j, k]: [usize; 3]| k >= 2 && (i as f64 - 15.0).hypot(j as f64 - 6.0) > 3.0;
    let stencil = |closed: Side, rough: f64| {
        let of = |factor: f64, seed: u64| {
            let value = |at: [usize; 3]| factor * (1.0 + rough * random(seed, shape.number(at)));
            shape.places().map(|at| if is_open(at) { value(at) } else { 0.0 }).collect::<Vec<_>>().into()
        };
        let cells = Coefficients::Cells { fields: vec![of(0.1, 1), of(10.0, 2)], axes: [(0, 2.0), (0, 2.0), (1, 2.0)] };
        Diffusion::new(shape, cells, None, [[Side::Closed; 2], [closed, Side::Closed], [Side::Closed; 2]]).unwrap()
    };
    let rhs: Vec<f64> = shape.places().map(|at| if is_open(at) { random(3, shape.number(at)) } else { 0.0 }).collect();
    let open = SolverOptions {
        tolerance: 1e-8,
        norm: Norm::Rhs,
        compatibility: Compatibility::Project,
        ..SolverOptions::default()
    };
    let named = SolverOptions { method: Method::Cg, preconditioner: Preconditioner::Direct, ..open.clone() };
    for side in [Side::Closed, Side::Fixed] {
        let [smooth, rough] = [0.0, 0.2].map(|rough| stencil(side, rough));
        // On a processor others than uniform boxes are not tried.
        let updated = [[&smooth; 2], [&rough, &smooth], [&smooth, &rough]];
        for (options, updates) in [(&open, &updated[..1]), (&named, &updated[..])] {
            for (ranks, &stencils) in [1, 2, 3, 5].into_iter().flat_map(|ranks| updates.iter().map(move |s| (ranks, s)))
            {
                for ranks in possible(backend, &[ranks]) {
                    let (outcome, preconditioner, u) = solve_updated(ranks, backend, stencils, options, &rhs).unwrap();
                    let what = format!("{side:?}, {ranks} ranks, {:?}: {outcome:?}", options.method);
                    assert!(outcome.converged() && outcome.iterations <= 20 && preconditioner == "direct", "{what}");
                    // Of a singular system a mean of b remains.
                    assert!(side == Side::Closed || residual(stencils[1], &rhs, &u) < 1.01e-8, "{what}");
                }
            }
        }
    }
    // Lines along y leave eigenvectors along x, too many of them.
    let shape = Shape::new(2100, 6, 1);
    let field: Vec<f64> = (0..shape.cells()).map(|n| 1.0 + 0.1 * random(4, n)).collect();
    let wide = Diffusion::of_field(shape, field, [1.0; 3], None, [[Side::Fixed; 2]; 3]).unwrap();
    let even = Diffusion::of_field(shape, vec![1.0; shape.cells()], [1.0; 3], None, [[Side::Fixed; 2]; 3]).unwrap();
    let rhs = noise(shape.cells(), 5);
    for ranks in possible(backend, &[2]) {
        let made = solve_on(ranks, backend, &wide, &named, &rhs, None).unwrap_err().to_string();
        let updated = solve_updated(ranks, backend, [&even, &wide], &named, &rhs).unwrap_err().to_string();
        for said in [made, updated] {
            assert!(said.contains("2100 eigenvectors") && said.contains("multigrid"), "{said}");
        }
    }
}
