//! Accuracy of the discretisation of diffusion: second order for smooth problems, exactness for piecewise linear solutions across an interface
//! between cells, and correct sources and wells.

use isobar_core::conformance::arrays;
use isobar_core::prelude::*;
use isobar_core::problem::{PointProblem, SideFields, Source, Well, materials};

fn solve(problem: &DiffusionProblem, body: Vec<f64>) -> Vec<f64> {
    solve_by(problem, body, Method::Auto)
}

fn solve_by(problem: &DiffusionProblem, body: Vec<f64>, method: Method) -> Vec<f64> {
    let mut options = SolverOptions { tolerance: 1e-11, method, ..SolverOptions::default() };
    options.compatibility = Compatibility::Project;
    let rhs = problem.rhs_from(body, Weighting::Volume).unwrap();
    let (outcome, u) = arrays::solve(&Reference, &problem.stencil().unwrap(), &options, &rhs);
    assert!(outcome.converged(), "{outcome:?}");
    u
}

fn at_centres(problem: &DiffusionProblem, f: impl Fn(f64, f64, f64) -> f64) -> Vec<f64> {
    let [x, y, z] = problem.coordinates();
    let (x, y, f) = (&x, &y, &f);
    z.iter().flat_map(|&z| y.iter().flat_map(move |&y| x.iter().map(move |&x| f(x, y, z)))).collect()
}

fn largest_difference(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).fold(0.0, |worst, (a, b)| f64::max(worst, (a - b).abs()))
}

/// Returns widths that vary smoothly, by a factor of two, and add up to 1.
fn graded(n: usize) -> Spacing {
    let edge = |m: usize| {
        let s = m as f64 / n as f64;
        s + 0.1 * (std::f64::consts::PI * s).sin()
    };
    Spacing::Given((0..n).map(|m| edge(m + 1) - edge(m)).collect())
}

/// Solves κ = (1 + x + ½y, 1 + x + ½y, 2 + z), u = sin(2x + y) e^z, c = 3, with values on four sides and fluxes on two, or with Robin sides of
/// h = 1 + x + 2y + 3z that differs from face to face.
#[test]
fn second_order_where_all_is_smooth() {
    for (grading, is_robin) in [(false, false), (true, false), (false, true), (true, true)] {
        let error = |n: usize| {
            let shape = Shape::new(n, n, n);
            let mut problem = DiffusionProblem::new(shape, Coefficient::Isotropic(vec![1.0; shape.cells()]));
            if grading {
                problem.spacing = [graded(n), graded(n), graded(n)];
            }
            let horizontal = at_centres(&problem, |x, y, _| 1.0 + x + 0.5 * y);
            let vertical = at_centres(&problem, |_, _, z| 2.0 + z);
            problem.coefficient = Coefficient::Layered { horizontal, vertical };
            problem.reaction = Some(vec![3.0; shape.cells()]);
            let value = |x: f64, y: f64, z: f64| (2.0 * x + y).sin() * z.exp();
            let exact = at_centres(&problem, value);
            let body = at_centres(&problem, |x, y, z| {
                let (sin, cos) = (2.0 * x + y).sin_cos();
                let kappa = 1.0 + x + 0.5 * y;
                let horizontal = (2.0 + 0.5) * cos - 5.0 * kappa * sin;
                let vertical = (1.0 + 2.0 + z) * sin;
                (3.0 * sin - horizontal - vertical) * z.exp()
            });
            let centres = problem.coordinates();
            for (d, side) in (0..3).flat_map(|d| [(d, 0), (d, 1)]) {
                let mut points = centres.clone();
                points[d] = vec![side as f64];
                let [x, y, z] = &points;
                let faces: Vec<[f64; 3]> =
                    z.iter().flat_map(|&z| y.iter().flat_map(move |&y| x.iter().map(move |&x| [x, y, z]))).collect();
                let on_faces = |f: &dyn Fn(f64, f64, f64) -> f64| faces.iter().map(|&[x, y, z]| f(x, y, z)).collect();
                // κ ∂u/∂n, n out of the domain.
                let flux = |x: f64, y: f64, z: f64| {
                    let (sin, cos) = (2.0 * x + y).sin_cos();
                    let kappa = if d == 2 { 2.0 + z } else { 1.0 + x + 0.5 * y };
                    (2 * side - 1) as f64 * kappa * [2.0 * cos, cos, sin][d] * z.exp()
                };
                let h = |x: f64, y: f64, z: f64| 1.0 + x + 2.0 * y + 3.0 * z;
                let fields = &mut problem.side_fields[d][side as usize];
                problem.boundary[d][side as usize] = if is_robin {
                    fields.coefficient = Some(on_faces(&h));
                    fields.value = Some(on_faces(&|x, y, z| value(x, y, z) + flux(x, y, z) / h(x, y, z)));
                    Boundary::Robin { coefficient: 0.0, value: 0.0 }
                } else if d == 2 {
                    fields.value = Some(on_faces(&flux));
                    Boundary::Neumann(0.0)
                } else {
                    fields.value = Some(on_faces(&value));
                    Boundary::Dirichlet(0.0)
                };
            }
            let u = solve(&problem, body);
            (u.iter().zip(&exact).map(|(a, b)| (a - b).powi(2)).sum::<f64>() / u.len() as f64).sqrt()
        };
        let (coarse, fine) = (error(16), error(32));
        let order = (coarse / fine).log2();
        assert!(order > 1.75, "graded {grading}, Robin {is_robin}: errors {coarse:e} and {fine:e}, order {order}");
    }
}

/// Between two Robin sides, u is linear, and the flux is that through two films and the material in series.
#[test]
fn robin_sides_are_films_in_series() {
    let shape = Shape::new(12, 10, 8);
    let (kappa, h, outside) = (2.0, [3.0, 0.5], [4.0, -1.0]);
    for d in 0..3 {
        let mut problem = DiffusionProblem::new(shape, Coefficient::Isotropic(vec![kappa; shape.cells()]));
        problem.boundary[d] = [0, 1].map(|side| Boundary::Robin { coefficient: h[side], value: outside[side] });
        let flux = (outside[0] - outside[1]) / (1.0 / h[0] + 1.0 / kappa + 1.0 / h[1]);
        let exact = at_centres(&problem, |x, y, z| outside[0] - flux * (1.0 / h[0] + [x, y, z][d] / kappa));
        let stencil = problem.stencil().unwrap();
        assert!(stencil.separable().is_ok() && stencil.chooses_direct().is_some());
        for method in [Method::Auto, Method::Direct, Method::Cg, Method::Multigrid] {
            let u = solve_by(&problem, vec![0.0; shape.cells()], method);
            let error = largest_difference(&u, &exact);
            assert!(error < 1e-8, "direction {d}, {method:?}: {error:e}");
        }
        // Numbers that differ from face to face are not separable.
        problem.side_fields[d][0].coefficient =
            Some((0..shape.cells() / [12, 10, 8][d]).map(|face| 1.0 + (face % 5) as f64).collect());
        let message = problem.stencil().unwrap().separable().unwrap_err().to_string();
        assert!(message.contains("a Robin side's own") && message.contains("to cell ("), "{message}");
        let [auto, cg] = [Method::Auto, Method::Cg].map(|method| solve_by(&problem, vec![0.0; shape.cells()], method));
        assert!(largest_difference(&auto, &cg) < 1e-8);
    }
}

/// A Robin coefficient of 0 is no flow, and a large one holds u.
#[test]
fn robin_sides_reach_from_closed_to_fixed() {
    let shape = Shape::new(16, 12, 9);
    let rock = Coefficient::Isotropic(materials::noise(shape, 1.0, 3).unwrap());
    let mut problem = DiffusionProblem::new(shape, rock);
    problem.active = Some((0..shape.cells()).map(|n| n % 7 != 0).collect());
    problem.boundary[0] = [Boundary::Dirichlet(1.0), Boundary::Neumann(0.5)];
    let body = vec![1.0; shape.cells()];
    for (of, coefficient) in [(Boundary::Neumann(0.0), 0.0), (Boundary::Dirichlet(2.0), 1e300)] {
        problem.boundary[1] = [of, Boundary::default()];
        let expected = solve(&problem, body.clone());
        problem.boundary[1][0] = Boundary::Robin { coefficient, value: 2.0 };
        let found = solve(&problem, body.clone());
        assert!(
            largest_difference(&found, &expected) < 1e-7 * largest_difference(&expected, &vec![0.0; expected.len()])
        );
    }
    // Robin sides with coefficient 0 do not fix u.
    problem.boundary = [[Boundary::Robin { coefficient: 0.0, value: 2.0 }; 2]; 3];
    let u = solve(&problem, body);
    assert!(u.iter().sum::<f64>().abs() < 1e-6);
}

/// Between 1 on one side and 0 on the other u is linear in each material, with one flux through both.
#[test]
fn piecewise_linear_solutions_are_exact() {
    for d in 0..3 {
        for contrast in [1e-3, 1.0, 1e6] {
            let extents = [0, 1, 2].map(|axis| if axis == d { 10 } else { 3 });
            let shape = Shape::new(extents[0], extents[1], extents[2]);
            let mut problem = DiffusionProblem::new(shape, Coefficient::Isotropic(vec![1.0; shape.cells()]));
            problem.spacing[d] = graded(10);
            // The interface lies between cells 3 and 4.
            let interface = (0..4).map(|n| problem.spacing[d].width(n)).sum::<f64>();
            let along = |x: f64, y: f64, z: f64| [x, y, z][d];
            let field = at_centres(&problem, |x, y, z| if along(x, y, z) < interface { 1.0 } else { contrast });
            problem.coefficient = Coefficient::Isotropic(field);
            problem.boundary[d] = [Boundary::Dirichlet(1.0), Boundary::Dirichlet(0.0)];
            let flux = 1.0 / (interface + (1.0 - interface) / contrast);
            let exact = at_centres(&problem, |x, y, z| {
                let s = along(x, y, z);
                if s < interface { 1.0 - flux * s } else { flux * (1.0 - s) / contrast }
            });
            let u = solve(&problem, vec![0.0; shape.cells()]);
            let error = largest_difference(&u, &exact);
            assert!(error < 1e-7, "direction {d}, contrast {contrast:e}: {error:e}");
        }
    }
}

/// The eigenfunction sin 2πx of the periodic second difference has a known eigenvalue.
#[test]
fn periodic_directions() {
    for d in 0..3 {
        let n = 24;
        let extents = [0, 1, 2].map(|axis| if axis == d { n } else { 2 });
        let shape = Shape::new(extents[0], extents[1], extents[2]);
        let mut problem = DiffusionProblem::new(shape, Coefficient::Isotropic(vec![1.0; shape.cells()]));
        problem.boundary[d] = [Boundary::Periodic; 2];
        let wave = at_centres(&problem, |x, y, z| (2.0 * std::f64::consts::PI * [x, y, z][d]).sin());
        let eigenvalue = (2.0 * n as f64 * (std::f64::consts::PI / n as f64).sin()).powi(2);
        let u = solve(&problem, wave.iter().map(|v| v * eigenvalue).collect());
        let error = largest_difference(&u, &wave);
        assert!(error < 1e-8, "direction {d}: {error:e}");
    }
}

#[test]
fn wells_hold_their_value_and_sources_balance() {
    let shape = Shape::new(9, 7, 4);
    let rock = Coefficient::Isotropic(materials::noise(shape, 1.0, 3).unwrap());
    let mut problem = DiffusionProblem::new(shape, rock);
    problem.spacing = [Spacing::Uniform(80.0), Spacing::Uniform(80.0), Spacing::Uniform(8.0)];
    problem.wells.push(Well { i: 2, j: 3, k: [0, 3], value: 250.0, radius: 0.1 });
    // A well alone: u is constant.
    let u = solve(&problem, vec![0.0; shape.cells()]);
    assert!(u.iter().all(|v| (v - 250.0).abs() < 1e-6));

    // With a source as well, all of it leaves through the well: Σ WI (u − value) = rate.
    problem.sources.push(Source { i: 7, j: 1, k: [1, 2], rate: 5.0 });
    let u = solve(&problem, vec![0.0; shape.cells()]);
    let stencil = problem.stencil().unwrap();
    let out: f64 = stencil.cells().map(|at| stencil.shift(at) * (u[stencil.cell(at)] - 250.0)).sum();
    assert!((out - 5.0).abs() < 1e-6, "{out}");
    // Peaceman's radius for square cells of an isotropic rock is 0.198 d.
    let kappa = problem.coefficient.along(isobar_core::stencil::Axis::X)[2 + 9 * 3];
    let index = 2.0 * std::f64::consts::PI * kappa * 8.0 / (0.28 * 80.0 * 2f64.sqrt() / 2.0 / 0.1).ln();
    assert!((stencil.shift([2, 3, 0]) / index - 1.0).abs() < 1e-12);
}

#[test]
fn misuse_names_the_place() {
    let shape = Shape::new(4, 3, 2);
    let problem = || DiffusionProblem::new(shape, Coefficient::Isotropic(vec![1.0; 24]));
    let message = |problem: DiffusionProblem| problem.stencil().unwrap_err().to_string();
    for bad in [-1.0, f64::NAN, f64::INFINITY] {
        let mut field = vec![1.0; 24];
        field[4 * 3 + 5] = bad;
        let text = message(DiffusionProblem::new(shape, Coefficient::Isotropic(field)));
        assert!(text.contains("(1, 1, 1)") && text.contains("diffusion.coefficient"), "{text}");
    }
    let with = |change: &dyn Fn(&mut DiffusionProblem)| {
        let mut problem = problem();
        change(&mut problem);
        message(problem)
    };
    assert!(with(&|masked| masked.active = Some(vec![false; 24])).contains("none of the 24 cells"));
    let dry = with(&|dry| {
        dry.active = Some((0..24).map(|n| n != 5).collect());
        dry.sources.push(Source { i: 1, j: 1, k: [0, 0], rate: 1.0 });
    });
    assert!(dry.contains("inactive"), "{dry}");
    let well = |i, radius| with(&|problem| problem.wells.push(Well { i, j: 0, k: [0, 1], value: 0.0, radius }));
    assert!(well(4, 1e-3).contains("outside the grid"));
    assert!(well(1, 10.0).contains("reaches"));
    assert!(with(&|half| half.boundary[0][0] = Boundary::Periodic).contains("periodic"));
    assert!(with(&|narrow| narrow.spacing[2] = Spacing::Given(vec![1.0, 0.0])).contains("cell 1"));
    let side = |boundary: Boundary, value: Option<Vec<f64>>, coefficient: Option<Vec<f64>>| {
        let fields = SideFields { value, coefficient };
        with(&|problem| (problem.boundary[1][1], problem.side_fields[1][1]) = (boundary, fields.clone()))
    };
    let robin = |coefficient: f64, value: f64| Boundary::Robin { coefficient, value };
    for bad in [-1.0, f64::NAN, f64::INFINITY] {
        let text = side(robin(bad, 0.0), None, None);
        assert!(text.contains(&format!("diffusion.boundary.north: the coefficient is {bad}")), "{text}");
        let text = side(robin(0.0, 0.0), None, Some(vec![0.0, 0.0, 0.0, 0.0, 0.0, 0.0, bad, 0.0]));
        assert!(text.contains(&format!("{bad} on the face of cell 2 in x and 1 in z")), "{text}");
    }
    assert!(side(Boundary::Neumann(f64::NAN), None, None).contains("the value is NaN"));
    let text = side(Boundary::Dirichlet(0.0), Some(vec![0.0; 12]), None);
    assert!(text.contains("12 numbers for the value; give 8, one for each face, of shape (nz, nx) = (2, 4)"), "{text}");
    let text = side(Boundary::Dirichlet(0.0), None, Some(vec![0.0; 8]));
    assert!(text.contains("the coefficient is given for each face, but the side takes none"), "{text}");
    for boundary in [robin(1.0, 0.0), Boundary::Neumann(1.0)] {
        let mut problem = problem();
        problem.boundary = [[Boundary::Dirichlet(0.0); 2]; 3];
        problem.boundary[0][0] = boundary;
        let text = PointProblem::new(problem, [1.0; 3]).unwrap_err().to_string();
        assert!(text.contains("use unknowns = \"cells\""), "{text}");
    }
}
