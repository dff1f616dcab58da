//! Each fused step of an operator against the reference.

use super::fixture::{
    Pair, SCALARS, Sample, compare, fetch, for_each_pair, ok, poison, random_vector, relaxations, sample, send, shapes,
};
use crate::backend::Sums;
use crate::operator::Direction;
use crate::prelude::*;
use crate::reference::{Plain, Vector};
use crate::stencil::StoredMatrix;

/// Checks A x, f − A u, and its norm.
pub(super) fn apply<B: Supports<S>, S: Sample, T: Real>(backend: &B) {
    let [first, second, ..] = SCALARS;
    for_each_pair::<B, S, T>(backend, |pair| {
        let ((mut u, mut on_u), (f, on_f), (mut y, mut on_y)) = (pair.vector(1), pair.vector(2), pair.poison());
        ok(pair.reference.apply(&mut u, &mut y));
        ok(pair.tested.operator.apply(&mut on_u, &mut on_y));
        pair.compare(&on_y, &y, "apply");
        let (_, mut on_r) = pair.poison();
        ok(pair.reference.residual(&f, [&mut u, &mut y], first.of(&mut pair.reference_scalars)));
        ok(pair.tested.operator.residual(&on_f, [&mut on_u, &mut on_r], first.of(&mut pair.scalars)));
        pair.compare(&on_r, &y, "residual");
        pair.compare_scalar(first, 0.0, "norm of the residual");
        let (_, mut scratch) = pair.poison();
        ok(pair.tested.operator.residual_norm(&on_f, [&mut on_u, &mut scratch], second.of(&mut pair.scalars)));
        pair.reference_scalars.set(second, pair.reference_scalars.get(first));
        pair.compare_scalar(second, 0.0, "norm alone");
        let declared = pair.tested.operator.coefficient_vectors();
        assert_eq!(declared, pair.reference.coefficient_vectors(), "declared traffic of {}", pair.name);
    });
}

/// Checks D⁻¹ r, alone and in an iteration.
pub(super) fn diagonal<B: Supports<S>, S: Sample, T: Real>(backend: &B) {
    let (out, alpha) = (Sums::<2>::new(3), Scalar::new(0));
    for_each_pair::<B, S, T>(backend, |pair| {
        let Some(tested) = pair.tested.diagonal.clone() else { panic!("{}: no diagonal", pair.name) };
        let ((mut r, mut on_r), (q, on_q), (mut z, mut on_z)) = (pair.vector(3), pair.vector(4), pair.poison());
        ok(pair.reference.divide_by_diagonal(&r, &mut z));
        ok(tested.divide_by_diagonal(&on_r, &mut on_z));
        pair.compare(&on_z, &z, "divide_by_diagonal");
        let ((_, mut on_z), alpha) = (pair.poison(), pair.coefficient(alpha, 0.6));
        let update = ResidualUpdate { r: &mut r, q: &q, z: &mut z, alpha, out };
        ok(pair.reference.scale_residual(update, &mut pair.reference_scalars));
        let update = ResidualUpdate { r: &mut on_r, q: &on_q, z: &mut on_z, alpha, out };
        ok(tested.scale_residual(update, &mut pair.scalars));
        pair.compare(&on_r, &r, "scale_residual: r");
        pair.compare(&on_z, &z, "scale_residual: z");
        let largest = pair.reference_scalars.get(out.get(1));
        for n in 0..2 {
            pair.compare_scalar(out.get(n), largest, "scale_residual: sums");
        }
    });
}

/// Checks M⁻¹ r, alone and in an iteration, also with the couplings of real problems.
pub(super) fn lines<B: Supports<S>, S: Sample, T: Real>(backend: &B) {
    let (out, alpha) = (Sums::<2>::new(3), Scalar::new(0));
    for shape in shapes::<B>() {
        for (name, stencil) in S::line_samples(shape) {
            let mut pair = Pair::<B, S, T>::new(backend, name, stencil);
            let ((mut r, mut on_r), (q, on_q), (mut z, mut on_z)) = (pair.vector(11), pair.vector(12), pair.poison());
            ok(pair.reference.solve_lines(&r, &mut z));
            ok(pair.lines.solve_lines(&on_r, &mut on_z));
            let scale = |z: &Vector<T>| z.entries().iter().fold(1e-30, |s: f64, v| s.max(v.to_f64().abs()));
            // Decoupled columns amplify the rounding of their right-hand side's sum.
            let at_least = if pair.stencil.is_tame() { 1e-30 } else { 1.0 };
            pair.compare_at_scale(&on_z, &z, at_least, "solve_lines");
            let ((_, mut on_z), alpha) = (pair.poison(), pair.coefficient(alpha, 0.5));
            let update = ResidualUpdate { r: &mut r, q: &q, z: &mut z, alpha, out };
            ok(pair.reference.precondition_residual(update, &mut pair.reference_scalars));
            let update = ResidualUpdate { r: &mut on_r, q: &on_q, z: &mut on_z, alpha, out };
            ok(pair.lines.precondition_residual(update, &mut pair.scalars));
            pair.compare(&on_r, &r, "precondition_residual: r");
            pair.compare_at_scale(&on_z, &z, at_least, "precondition_residual: z");
            pair.compare_scalar(out.get(0), scale(&z) * shape.cells() as f64, "ρ");
            pair.compare_scalar(out.get(1), 0.0, "norm");
        }
    }
}

/// u += αp;  p' = z + βp;  q = A p';  σ = ⟨p', q⟩
pub(super) fn advance_direction<B: Supports<S>, S: Sample, T: Real>(backend: &B) {
    let sigma = Scalar::new(2);
    for_each_pair::<B, S, T>(backend, |pair| {
        let [(mut u, mut on_u), (mut p, mut on_p), (mut z, mut on_z)] = [5, 6, 7].map(|n| pair.vector(n));
        let ((mut q, mut on_q), (_, mut on_next)) = (pair.poison(), pair.poison());
        let needs_next = ok(pair.tested.operator.needs_next_direction());
        for (scalar, value) in [(SCALARS[0], 0.7), (SCALARS[1], 1.3)] {
            pair.set(scalar, value);
        }
        let (alpha, beta) = (Ratio::new(SCALARS[0], SCALARS[1]), Ratio::new(SCALARS[1], SCALARS[0]).negated());
        for _ in 0..2 {
            let direction = Direction { u: &mut u, p: &mut p, next: None, z: &mut z, q: &mut q, alpha, beta, sigma };
            ok(pair.reference.advance_direction(direction, &mut pair.reference_scalars));
            let next = needs_next.then_some(&mut on_next);
            let direction =
                Direction { u: &mut on_u, p: &mut on_p, next, z: &mut on_z, q: &mut on_q, alpha, beta, sigma };
            ok(pair.tested.operator.advance_direction(direction, &mut pair.scalars));
            if needs_next {
                std::mem::swap(&mut on_p, &mut on_next);
            }
        }
        for (found, expected, what) in [(&on_u, &u, "u"), (&on_p, &p, "p"), (&on_q, &q, "q")] {
            pair.compare(found, expected, &format!("advance_direction: {what}"));
        }
        pair.compare_scalar(sigma, 1.0, "σ");
    });
}

/// Checks u += ρ M⁻¹(f − A u), every smoother, from zero and not.
pub(super) fn smooth<B: Supports<S>, S: Sample, T: Real>(backend: &B) {
    for_each_pair::<B, S, T>(backend, |pair| {
        if !pair.stencil.is_tame() {
            return;
        }
        let hierarchy = ok(pair.backend.hierarchy(&pair.stencil, &pair.operator, Smoother::LineRedBlack, Some(1)));
        let Some(hierarchy) = hierarchy else { panic!("{}: no levels", pair.name) };
        let tested = &hierarchy.levels[0];
        let (f, on_f) = pair.vector(14);
        for relaxation in relaxations() {
            let ((mut u, mut on_u), (mut s, mut on_s)) = (pair.poison(), pair.poison());
            for guess in [Guess::Zero, Guess::Given, Guess::Given] {
                ok(pair.reference.smooth(Sweep::new(relaxation, guess, &f, &mut u, &mut s)));
                ok(tested.smooth(Sweep::new(relaxation, guess, &on_f, &mut on_u, &mut on_s)));
                pair.compare(&on_u, &u, &format!("smooth {relaxation:?} {guess:?}"));
            }
        }
    });
}

/// Checks that padding is zero after every step; sums would show it otherwise.
pub(super) fn padding<B: Supports<S>, S: Sample, T: Real>(backend: &B) {
    for shape in [Shape::new(3, 3, 2), Shape::new(17, 5, 3)] {
        for (name, stencil) in S::samples(shape) {
            let mut pair = Pair::<B, S, T>::new(backend, name, stencil);
            let ((_, r), (_, mut z), (_, mut y)) = (pair.vector(36), pair.poison(), pair.poison());
            ok(pair.lines.solve_lines(&r, &mut z));
            ok(pair.tested.operator.apply(&mut z, &mut y));
            for vector in [&z, &y] {
                ok(backend.dot(vector, vector, SCALARS[0].of(&mut pair.scalars)));
                let host = fetch(backend, vector, shape);
                let expected: f64 = host.iter().map(|v| v.to_f64() * v.to_f64()).sum();
                pair.reference_scalars.set(SCALARS[0], expected);
                pair.compare_scalar(SCALARS[0], 0.0, "padding");
            }
        }
    }
}

/// Checks that the stored matrix gives the results of the matrix-free one.
pub(super) fn stored_matrix<B: Supports<StoredMatrix>, T: Real>(backend: &B) {
    for shape in shapes::<B>() {
        let stencil = sample(shape);
        let plain = ok(Plain::<_, T>::new(&stencil));
        let stored = ok(stencil.stored());
        let operator = ok(backend.operator::<T>(&stored));
        let capabilities = backend.capabilities(&operator);
        let mut x = random_vector::<T>(shape, 1);
        let mut on_x = send(backend, &x);
        let (mut y, mut on_y) = poison::<B, T>(backend, shape);
        ok(plain.apply(&mut x, &mut y));
        ok(capabilities.operator.apply(&mut on_x, &mut on_y));
        compare(backend, &on_y, &y, "stored apply");
        let (_, mut on_y) = poison::<B, T>(backend, shape);
        let Some(diagonal) = capabilities.diagonal else { panic!("no diagonal") };
        ok(plain.divide_by_diagonal(&x, &mut y));
        ok(diagonal.divide_by_diagonal(&on_x, &mut on_y));
        compare(backend, &on_y, &y, "stored diagonal");
        let (_, mut on_y) = poison::<B, T>(backend, shape);
        let Some(lines) = ok(backend.lines(&stored, &operator)) else { panic!("no lines") };
        ok(plain.solve_lines(&x, &mut y));
        ok(lines.solver.solve_lines(&on_x, &mut on_y));
        compare(backend, &on_y, &y, "stored lines");
    }
}
