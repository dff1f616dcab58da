//! Each fused step against the reference.

use super::fixture::{
    Pair, compare, compare_at_scale, halvable, problem, random_vector, send, shapes, stencil, tolerance,
};
use crate::backend::{Backend, CsrBackend, Ratio, Slot, TensorProductBackend};
use crate::error::Result;
use crate::layout::{ArrayView, ArrayViewMut, Colour, Shape};
use crate::operator::{Direction, Guess, LineOperator, LineSolver, MultigridOperator, Operator, Relaxation};
use crate::options::Smoother;
use crate::real::Real;
use crate::reference::{Reference, Vector};

const FIRST: Slot = Slot::new(0);
const SECOND: Slot = Slot::new(1);
const THIRD: Slot = Slot::new(2);

fn ok<T>(result: Result<T>) -> T {
    result.unwrap_or_else(|error| panic!("{error}"))
}

fn relaxations() -> [Relaxation; 5] {
    let make = |smoother, rho, first| Relaxation { smoother, rho, first };
    [
        make(Smoother::LineRedBlack, 1.0, Colour::Red),
        make(Smoother::LineRedBlack, 1.0, Colour::Black),
        make(Smoother::LineRedBlack, 0.8, Colour::Red),
        make(Smoother::LineJacobi, 2.0 / 3.0, Colour::Red),
        make(Smoother::LineJacobi, 1.0, Colour::Red),
    ]
}

/// Arrays go up and come down unchanged, whatever their strides.
pub fn transfer<B: TensorProductBackend, T: Real>(backend: &B) {
    for shape in shapes() {
        let Shape { nx, ny, nz } = shape;
        let data: Vec<f32> = (0..shape.cells()).map(|n| n as f32 + 0.5).collect();
        let strides = [ny * nz, nz, 1];
        let expected = random_vector::<T>(shape, 0);
        let mut v = ok(backend.zeros::<T>(expected.layout()));
        ok(backend.upload(ok(ArrayView::new(&data, shape, strides)), &mut v));
        let mut back = vec![0f64; shape.cells()];
        ok(backend.download(&v, &mut ok(ArrayViewMut::c_order(&mut back, shape))));
        for k in 0..nz {
            for j in 0..ny {
                for i in 0..nx {
                    let original = data[i * strides[0] + j * strides[1] + k * strides[2]];
                    assert_eq!(back[i + nx * (j + ny * k)], f64::from(original));
                }
            }
        }
        let other = Shape::new(nx + 1, ny, nz);
        let long = vec![0f32; other.cells()];
        assert!(backend.upload(ok(ArrayView::c_order(&long, other)), &mut v).is_err());
    }
}

/// clear, convert, axpy, xpay, dot
pub fn vector_operations<B: TensorProductBackend, T: Real>(backend: &B) {
    for shape in shapes() {
        let (x, y) = (random_vector::<T>(shape, 1), random_vector::<T>(shape, 2));
        let (mut expected_scalars, mut scalars) = (ok(Reference.scalars()), ok(backend.scalars()));
        for (slot, value) in [(FIRST, 3.0), (SECOND, -7.0), (THIRD, 0.25)] {
            ok(Reference.set(&mut expected_scalars, slot, value));
            ok(backend.set(&mut scalars, slot, value));
        }
        let (on_x, mut on_y, mut expected) = (send(backend, &x), send(backend, &y), y.clone());
        let a = Ratio::new(FIRST, SECOND).times(SECOND, THIRD).negated();
        ok(Reference.axpy(a, &x, &mut expected, &expected_scalars));
        ok(backend.axpy(a, &on_x, &mut on_y, &scalars));
        compare(backend, &on_y, &expected, "axpy");
        let a = Ratio::new(THIRD, SECOND);
        ok(Reference.xpay(a, &x, &mut expected, &expected_scalars));
        ok(backend.xpay(a, &on_x, &mut on_y, &scalars));
        compare(backend, &on_y, &expected, "xpay");
        ok(Reference.dot(&x, &expected, FIRST, &mut expected_scalars));
        ok(backend.dot(&on_x, &on_y, FIRST, &mut scalars));
        let (found, wanted) = (ok(backend.read(&scalars))[FIRST.index()], expected_scalars.0[FIRST.index()]);
        assert!((found - wanted).abs() <= 1e3 * T::EPSILON * shape.cells() as f64, "dot: {found} {wanted}");
        // A quotient by zero is zero.
        ok(backend.set(&mut scalars, SECOND, 0.0));
        ok(backend.axpy(Ratio::new(THIRD, SECOND), &on_x, &mut on_y, &scalars));
        compare(backend, &on_y, &expected, "axpy by 1/0");
        ok(backend.convert(&on_x, &mut on_y));
        compare(backend, &on_y, &x, "convert");
        ok(backend.clear(&mut on_y));
        ok(backend.dot(&on_y, &on_y, FIRST, &mut scalars));
        assert_eq!(ok(backend.read(&scalars))[FIRST.index()], 0.0);
    }
}

/// A x, f − A u, and its norm
pub fn apply_and_residual<B: TensorProductBackend, T: Real>(backend: &B) {
    for shape in shapes() {
        let mut pair = Pair::<B, T>::new(backend, &stencil(shape));
        let (f, u) = (random_vector::<T>(shape, 1), random_vector::<T>(shape, 2));
        let (on_f, on_u) = (pair.send(&f), pair.send(&u));
        let (mut expected, mut found) = (f.clone(), pair.send(&f));
        ok(pair.reference.apply(&u, &mut expected));
        ok(pair.tested.apply(&on_u, &mut found));
        pair.compare(&found, &expected, "apply");
        ok(pair.reference.residual(&f, &u, &mut expected, FIRST, &mut pair.reference_scalars));
        ok(pair.tested.residual(&on_f, &on_u, &mut found, FIRST, &mut pair.scalars));
        pair.compare(&found, &expected, "residual");
        pair.compare_scalar(FIRST, "‖r‖²");
        ok(pair.backend.set(&mut pair.scalars, FIRST, 0.0));
        ok(pair.tested.residual_norm(&on_f, &on_u, &mut found, FIRST, &mut pair.scalars));
        pair.compare_scalar(FIRST, "residual_norm");
    }
}

/// D⁻¹ r
pub fn diagonal<B: TensorProductBackend, T: Real>(backend: &B) {
    for shape in shapes() {
        let pair = Pair::<B, T>::new(backend, &stencil(shape));
        let r = random_vector::<T>(shape, 1);
        let (mut expected, mut found) = (r.clone(), pair.send(&r));
        ok(pair.reference.divide_by_diagonal(&r, &mut expected));
        ok(pair.tested.divide_by_diagonal(&pair.send(&r), &mut found));
        pair.compare(&found, &expected, "divide_by_diagonal");
    }
}

/// M⁻¹ r, also with the couplings of the real problem, a million times its mass
pub fn lines<B: TensorProductBackend, T: Real>(backend: &B) {
    for shape in shapes() {
        for stencil in [stencil(shape), ok(problem(shape).stencil())] {
            let pair = Pair::<B, T>::new(backend, &stencil);
            let r = random_vector::<T>(shape, 1);
            let (mut expected, mut found) = (r.clone(), pair.send(&r));
            ok(pair.reference.solve_lines(&r, &mut expected));
            ok(pair.tested.solve_lines(&pair.send(&r), &mut found));
            pair.compare(&found, &expected, "solve_lines");
        }
    }
}

/// u += αp;  p = z + βp;  q = A p;  σ = ⟨p, q⟩
pub fn advance_direction<B: TensorProductBackend, T: Real>(backend: &B) {
    for shape in shapes() {
        let mut pair = Pair::<B, T>::new(backend, &stencil(shape));
        let z = random_vector::<T>(shape, 3);
        let [mut u, mut p, mut q] = [1, 2, 4].map(|seed| random_vector::<T>(shape, seed));
        let (on_z, mut on_u, mut on_p, mut on_q) = (pair.send(&z), pair.send(&u), pair.send(&p), pair.send(&q));
        for (slot, value) in [(FIRST, 0.7), (SECOND, 1.3)] {
            ok(Reference.set(&mut pair.reference_scalars, slot, value));
            ok(backend.set(&mut pair.scalars, slot, value));
        }
        let (alpha, beta) = (Ratio::new(FIRST, SECOND), Ratio::new(SECOND, FIRST).negated());
        for _ in 0..2 {
            let direction = Direction { u: &mut u, p: &mut p, z: &z, q: &mut q };
            ok(pair.reference.advance_direction(direction, alpha, beta, THIRD, &mut pair.reference_scalars));
            let direction = Direction { u: &mut on_u, p: &mut on_p, z: &on_z, q: &mut on_q };
            ok(pair.tested.advance_direction(direction, alpha, beta, THIRD, &mut pair.scalars));
        }
        pair.compare(&on_u, &u, "u");
        pair.compare(&on_p, &p, "p");
        pair.compare(&on_q, &q, "q");
        pair.compare_scalar(THIRD, "σ");
    }
}

/// r −= αq;  z = M⁻¹ r;  ρ = ⟨r, z⟩;  ‖r‖²
pub fn precondition_residual<B: TensorProductBackend, T: Real>(backend: &B) {
    for shape in shapes() {
        let mut pair = Pair::<B, T>::new(backend, &stencil(shape));
        let q = random_vector::<T>(shape, 3);
        let [mut r, mut z] = [1, 2].map(|seed| random_vector::<T>(shape, seed));
        let (on_q, mut on_r, mut on_z) = (pair.send(&q), pair.send(&r), pair.send(&z));
        ok(Reference.set(&mut pair.reference_scalars, FIRST, 0.7));
        ok(backend.set(&mut pair.scalars, FIRST, 0.7));
        let alpha = Ratio::new(FIRST, Slot::ONE);
        let out = [SECOND, THIRD];
        ok(pair.reference.precondition_residual(&mut r, &q, &mut z, alpha, out, &mut pair.reference_scalars));
        ok(pair.tested.precondition_residual(&mut on_r, &on_q, &mut on_z, alpha, out, &mut pair.scalars));
        pair.compare(&on_r, &r, "r");
        pair.compare(&on_z, &z, "z");
        pair.compare_scalar(SECOND, "ρ");
        pair.compare_scalar(THIRD, "‖r‖²");
    }
}

/// Scratch as large as any step could want.
fn scratch<B: TensorProductBackend, T: Real>(pair: &Pair<'_, B, T>) -> (B::Vector<T>, Vector<T>) {
    let expected = random_vector::<T>(pair.reference.layout().shape(), 99);
    (pair.send(&expected), expected)
}

/// u += ρ M⁻¹(f − A u), every smoother, from zero and not
pub fn smooth<B: TensorProductBackend, T: Real>(backend: &B) {
    for shape in shapes() {
        let pair = Pair::<B, T>::new(backend, &stencil(shape));
        let (mut on_scratch, mut reference_scratch) = scratch(&pair);
        let f = random_vector::<T>(shape, 1);
        let on_f = pair.send(&f);
        for relaxation in relaxations() {
            let mut u = random_vector::<T>(shape, 2);
            let mut on_u = pair.send(&u);
            for guess in [Guess::Zero, Guess::Given, Guess::Given] {
                ok(pair.reference.smooth(relaxation, guess, &f, &mut u, &mut reference_scratch));
                ok(pair.tested.smooth(relaxation, guess, &on_f, &mut on_u, &mut on_scratch));
                pair.compare(&on_u, &u, &format!("{relaxation:?} {guess:?}"));
            }
        }
    }
}

/// R f and u + P u_c
pub fn restrict_and_prolong<B: TensorProductBackend, T: Real>(backend: &B) {
    for shape in halvable() {
        let fine = stencil(shape);
        let coarse = fine.coarsened().unwrap_or_else(|| panic!("{shape} can be halved"));
        let (pair, below) = (Pair::<B, T>::new(backend, &fine), Pair::<B, T>::new(backend, &coarse));
        let f = random_vector::<T>(shape, 1);
        let mut expected = random_vector::<T>(coarse.shape(), 2);
        let mut found = below.send(&expected);
        ok(pair.reference.restrict(&below.reference, &f, &mut expected));
        ok(pair.tested.restrict(&below.tested, &pair.send(&f), &mut found));
        below.compare(&found, &expected, "restrict");
        let (mut u, mut on_u) = (f.clone(), pair.send(&f));
        ok(pair.reference.prolong(&below.reference, &expected, &mut u));
        ok(pair.tested.prolong(&below.tested, &found, &mut on_u));
        pair.compare(&on_u, &u, "prolong");
    }
}

/// Sweep and restriction, prolongation and sweep, in one pass
pub fn fused_multigrid_steps<B: TensorProductBackend, T: Real>(backend: &B) {
    for shape in halvable() {
        let fine = stencil(shape);
        let coarse = fine.coarsened().unwrap_or_else(|| panic!("{shape} can be halved"));
        let (mut pair, below) = (Pair::<B, T>::new(backend, &fine), Pair::<B, T>::new(backend, &coarse));
        let (mut on_scratch, mut reference_scratch) = scratch(&pair);
        let f = random_vector::<T>(shape, 1);
        let on_f = pair.send(&f);
        for relaxation in relaxations() {
            let mut u = random_vector::<T>(shape, 2);
            let mut on_u = pair.send(&u);
            let mut expected = random_vector::<T>(coarse.shape(), 3);
            let mut found = below.send(&expected);
            let (a, b) = (&pair.reference, &below.reference);
            ok(a.residual_restrict(b, &f, &u, &mut expected, &mut reference_scratch));
            let (on_a, on_b) = (&pair.tested, &below.tested);
            ok(on_a.residual_restrict(on_b, &on_f, &on_u, &mut found, &mut on_scratch));
            below.compare(&found, &expected, "residual_restrict");
            for guess in [Guess::Zero, Guess::Given] {
                ok(a.smooth_residual_restrict(b, relaxation, guess, &f, &mut u, &mut expected, &mut reference_scratch));
                ok(on_a.smooth_residual_restrict(
                    on_b,
                    relaxation,
                    guess,
                    &on_f,
                    &mut on_u,
                    &mut found,
                    &mut on_scratch,
                ));
                pair.compare(&on_u, &u, &format!("u of smooth_residual_restrict {relaxation:?} {guess:?}"));
                below.compare(&found, &expected, &format!("f of smooth_residual_restrict {relaxation:?} {guess:?}"));
            }
            let correction = random_vector::<T>(coarse.shape(), 4);
            let on_correction = below.send(&correction);
            let norm = Some((FIRST, &mut pair.reference_scalars));
            ok(a.prolong_smooth(b, relaxation, &f, &correction, &mut u, &mut reference_scratch, norm));
            let norm = Some((FIRST, &mut pair.scalars));
            ok(on_a.prolong_smooth(on_b, relaxation, &on_f, &on_correction, &mut on_u, &mut on_scratch, norm));
            pair.compare(&on_u, &u, &format!("prolong_smooth {relaxation:?}"));
            pair.compare_scalar(FIRST, &format!("norm of prolong_smooth {relaxation:?}"));
            let (a, on_a) = (&pair.reference, &pair.tested);
            ok(a.prolong_smooth(b, relaxation, &f, &correction, &mut u, &mut reference_scratch, None));
            ok(on_a.prolong_smooth(on_b, relaxation, &on_f, &on_correction, &mut on_u, &mut on_scratch, None));
            pair.compare(&on_u, &u, &format!("prolong_smooth without norm {relaxation:?}"));
        }
    }
}

/// u += e, a sweep, the residual, with e and r in single precision
pub fn mixed_step<B: TensorProductBackend, T: Real>(backend: &B) {
    for shape in shapes() {
        let mut pair = Pair::<B, T>::new(backend, &stencil(shape));
        let (mut on_scratch, mut reference_scratch) = scratch(&pair);
        let f = random_vector::<T>(shape, 1);
        let e = random_vector::<f32>(shape, 2);
        let (on_f, on_e) = (pair.send(&f), send(backend, &e));
        for relaxation in relaxations() {
            let mut u = random_vector::<T>(shape, 3);
            let mut r = random_vector::<f32>(shape, 4);
            let (mut on_u, mut on_r) = (pair.send(&u), send(backend, &r));
            let s = &mut pair.reference_scalars;
            ok(pair.reference.correct_smooth_residual(
                relaxation,
                &f,
                &e,
                &mut u,
                &mut r,
                &mut reference_scratch,
                FIRST,
                s,
            ));
            let s = &mut pair.scalars;
            ok(pair.tested.correct_smooth_residual(
                relaxation,
                &on_f,
                &on_e,
                &mut on_u,
                &mut on_r,
                &mut on_scratch,
                FIRST,
                s,
            ));
            pair.compare(&on_u, &u, &format!("u {relaxation:?}"));
            let terms = 10.0;
            compare_at_scale(
                backend,
                &on_r,
                &r,
                terms * T::EPSILON / f64::from(f32::EPSILON),
                &format!("r {relaxation:?}"),
            );
            if pair.reference_scalars.0[FIRST.index()] > 1e-6 {
                pair.compare_scalar(FIRST, &format!("‖r‖² {relaxation:?}"));
            }
        }
    }
}

/// Up from the coarse grid and down again, with e, r and the coarse grid in single precision; also on grids large enough for what large grids have of their own
pub fn up_and_down<B: TensorProductBackend, T: Real>(backend: &B) {
    let large = [Shape::new(206, 198, 17), Shape::new(202, 200, 5)];
    for (shape, count) in halvable().map(|shape| (shape, 5)).chain(large.map(|shape| (shape, 1))) {
        let fine = stencil(shape);
        let coarse = fine.coarsened().unwrap_or_else(|| panic!("{shape} can be halved"));
        let mut pair = Pair::<B, T>::new(backend, &fine);
        let (single, below) = (Pair::<B, f32>::new(backend, &fine), Pair::<B, f32>::new(backend, &coarse));
        let (mut on_scratch, mut reference_scratch) = scratch(&pair);
        let (mut on_single, mut reference_single) = scratch(&single);
        let f = random_vector::<T>(shape, 1);
        let on_f = pair.send(&f);
        for relaxation in relaxations().into_iter().take(count) {
            let mut u = random_vector::<T>(shape, 2);
            let [mut e, mut r] = [3, 4].map(|seed| random_vector::<f32>(shape, seed));
            let [mut coarse_f, coarse_u] = [5, 6].map(|seed| random_vector::<f32>(coarse.shape(), seed));
            let (mut on_u, mut on_e, mut on_r) = (pair.send(&u), single.send(&e), single.send(&r));
            let (on_coarse_u, mut on_coarse_f) = (below.send(&coarse_u), below.send(&coarse_f));
            // Twice, since what is between the two ends in what they leave each other.
            for _ in 0..2 {
                let operators = [&single.reference, &below.reference];
                let s = &mut pair.reference_scalars;
                let (a, vectors) = (&pair.reference, [&mut e, &mut r]);
                ok(a.ascend(operators, relaxation, &f, &mut u, &coarse_u, vectors, &mut reference_scratch, FIRST, s));
                let vectors = [&mut e, &mut r];
                ok(a.descend(operators, relaxation, vectors, &mut coarse_f, &mut reference_single));
                let operators = [&single.tested, &below.tested];
                let s = &mut pair.scalars;
                let (a, vectors, on_scratch) = (&pair.tested, [&mut on_e, &mut on_r], &mut on_scratch);
                ok(a.ascend(operators, relaxation, &on_f, &mut on_u, &on_coarse_u, vectors, on_scratch, FIRST, s));
                let vectors = [&mut on_e, &mut on_r];
                ok(a.descend(operators, relaxation, vectors, &mut on_coarse_f, &mut on_single));
            }
            let what = |name: &str| format!("{name} {relaxation:?}");
            // u takes up corrections that the other precision rounds.
            let rounding = tolerance::<f32>() / tolerance::<T>();
            compare_at_scale(backend, &on_u, &u, rounding, &what("u"));
            single.compare(&on_e, &e, &what("e"));
            below.compare(&on_coarse_f, &coarse_f, &what("f"));
            let found = ok(backend.read(&pair.scalars))[FIRST.index()];
            let expected = pair.reference_scalars.0[FIRST.index()];
            assert!((found - expected).abs() <= 2.0 * tolerance::<f32>() * expected.abs() + 1e-6, "{found} {expected}");
        }
    }
}

/// The stored matrix does what the matrix-free operator does.
pub fn stored_matrix<B: TensorProductBackend + CsrBackend, T: Real>(backend: &B) {
    for shape in shapes() {
        let stencil = stencil(shape);
        let matrix = ok(stencil.to_csr());
        let reference = ok(Reference.tensor_product::<T>(&stencil));
        let r = random_vector::<T>(shape, 1);
        let layout = *r.layout();
        let on_r = send(backend, &r);
        let (mut expected, mut found) = (r.clone(), send(backend, &r));
        let stored = ok(backend.csr::<T>(&matrix, &layout));
        ok(reference.apply(&r, &mut expected));
        ok(stored.apply(&on_r, &mut found));
        compare(backend, &found, &expected, "stored apply");
        ok(reference.divide_by_diagonal(&r, &mut expected));
        ok(stored.divide_by_diagonal(&on_r, &mut found));
        compare(backend, &found, &expected, "stored diagonal");
        ok(reference.solve_lines(&r, &mut expected));
        ok(ok(backend.tridiagonal::<T>(&matrix, &layout)).solve_lines(&on_r, &mut found));
        compare(backend, &found, &expected, "stored lines");
    }
}
