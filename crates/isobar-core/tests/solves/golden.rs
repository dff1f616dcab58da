//! The reference back end, compared with whole arrays of an independent implementation (8×6×10 cells, panel and box, two levels).

use isobar_core::conformance::arrays;
use isobar_core::precond::multigrid::Cycle;
use isobar_core::prelude::*;
use isobar_core::reference::{Plain, Vector};
use serde_json::Value;

const SHAPE: (usize, usize, usize) = (8, 6, 10);

fn golden() -> Value {
    serde_json::from_str(include_str!("data/tensor_product_tiny.json")).unwrap()
}

fn cases() -> [(&'static str, Geometry); 2] {
    [("sphere_analytic", Geometry::Panel), ("flat", Geometry::Box)]
}

fn problem(geometry: Geometry) -> Helmholtz {
    let (nx, ny, nz) = SHAPE;
    Helmholtz { grid: GridOptions { geometry, nx, ny, nz, ..GridOptions::default() }, ..Helmholtz::default() }
}

/// Arrays are indexed [j][k][i].
fn vector(case: &Value, field: &str) -> Vector<f64> {
    let mut v = Reference.zeros(&Layout::new(Shape::new(8, 6, 10)).unwrap()).unwrap();
    v.fill_with(|i, j, k| case[field][j][k][i].as_f64().unwrap());
    v
}

fn assert_close(found: &Vector<f64>, expected: &Vector<f64>, what: &str) {
    let relative = arrays::distance(found.entries(), expected.entries());
    assert!(relative < 1e-10, "{what}: off by {relative:e}");
}

#[test]
fn coefficients() {
    for (name, geometry) in cases() {
        let case = &golden()["cases"][name];
        let problem = problem(geometry);
        let stencil = problem.stencil().unwrap();
        assert!((problem.omega() - case["omega"].as_f64().unwrap()).abs() < 1e-14);
        let close = |a: f64, b: &Value| {
            let b = b.as_f64().unwrap();
            assert!((a - b).abs() <= 1e-11 * b.abs().max(1e-30), "{name}: {a} {b}");
        };
        let v = stencil.vertical();
        for (field, values) in [("a", &v.a), ("b", &v.b), ("c", &v.c), ("d", &v.d)] {
            for (k, &value) in values.iter().enumerate() {
                close(value, &case[field][k]);
            }
        }
        let h = stencil.horizontal();
        for j in 0..6 {
            for i in 0..8 {
                close(h.area[i + 8 * j], &case["area"][j][i]);
                close(h.total[i + 8 * j], &case["alphaT"][j][i]);
            }
        }
    }
}

#[test]
fn operator_and_line_solve() {
    for (name, geometry) in cases() {
        let case = &golden()["cases"][name];
        let operator = Plain::<_, f64>::new(&problem(geometry).stencil().unwrap()).unwrap();
        let mut u = vector(case, "u");
        let mut generated = u.clone();
        generated.fill_with(|i, j, k| random(0, i + 8 * (k + 10 * j)));
        assert_close(&generated, &u, "random field");
        let mut out = u.clone();
        operator.apply(&mut u, &mut out).unwrap();
        assert_close(&out, &vector(case, "Au"), name);
        operator.solve_lines(&u, &mut out).unwrap();
        assert_close(&out, &vector(case, "Minv_u"), name);
    }
}

#[test]
fn one_cycle() {
    for (name, geometry) in cases() {
        let case = &golden()["cases"][name];
        let stencil = problem(geometry).stencil().unwrap();
        for (field, smoother) in
            [("one_Vcycle_of_u", Smoother::LineJacobi), ("one_RBVcycle_of_u", Smoother::LineRedBlack)]
        {
            let options = MultigridOptions { smoother, levels: Some(2), ..MultigridOptions::default() };
            let finest = Reference.operator::<f64>(&stencil).unwrap();
            let hierarchy = Reference.hierarchy(&stencil, &finest, smoother, options.levels).unwrap().unwrap();
            let mut cycle = Cycle::new(&hierarchy, &options).unwrap();
            let f = vector(case, "u");
            let mut u = f.clone();
            cycle.cycle(&f, &mut u, Guess::Zero, None).unwrap();
            assert_close(&u, &vector(case, field), field);
        }
    }
}

#[test]
fn solution() {
    for (name, geometry) in cases() {
        let case = &golden()["cases"][name];
        let stencil: TensorProduct = problem(geometry).stencil().unwrap();
        let rhs = vector(case, "u");
        let expected = vector(case, "solve_u");
        let shape = stencil.shape();
        let options = SolverOptions { tolerance: 1e-13, ..SolverOptions::default() };
        let (outcome, u) = arrays::solve(&Reference, &stencil, &options, &arrays::fetch(&Reference, &rhs, shape));
        assert!(outcome.relative_residual < 1e-9, "{outcome:?}");
        assert_close(&arrays::vector(&Reference, expected.layout(), &u), &expected, "solve_u");
    }
}
