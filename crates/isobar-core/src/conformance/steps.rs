//! Each fused step of an operator against the reference.

use super::fixture::{
    Pair, RETURNING, SCALARS, Sample, both, compare, for_each_pair, largest, ok, own, poison, random_pair, relaxations,
    sample, shapes,
};
use crate::backend::Sums;
use crate::operator::Direction;
use crate::prelude::*;
use crate::reference::Plain;
use crate::stencil::StoredMatrix;

/// Checks A x, f − A u, and its norm.
pub(super) fn apply<B: Supports<S>, S: Sample, T: Real>(backend: &B) {
    let [first, second, ..] = SCALARS;
    for_each_pair::<B, S, T>(backend, |pair| {
        let (mut u, mut f, mut y) = (pair.vector(1), pair.vector(2), pair.poison());
        both!(pair.reference, pair.tested.operator => |on, u, y| on.apply(u, y));
        pair.compare(&y, "apply");
        y = pair.poison();
        both!(pair.reference, pair.tested.operator => |on, f, u, y, scalars in pair.scalars| {
            on.residual(f, [u, y], first.of(scalars))
        });
        pair.compare(&y, "residual");
        pair.compare_scalar(first, 0.0, "norm of the residual");
        y = pair.poison();
        let scalars = second.of(&mut pair.scalars.1);
        ok(pair.tested.operator.residual_norm(&f.1, [&mut u.1, &mut y.1], scalars));
        pair.scalars.0.set(second, pair.scalars.0.get(first));
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
        let (mut r, mut q, mut z) = (pair.vector(3), pair.vector(4), pair.poison());
        both!(pair.reference, tested => |on, r, z| on.divide_by_diagonal(r, z));
        pair.compare(&z, "divide_by_diagonal");
        let alpha = pair.coefficient(alpha, 0.6);
        z = pair.poison();
        both!(pair.reference, tested => |on, r, q, z, scalars in pair.scalars| {
            on.scale_residual(ResidualUpdate { r, q, z, alpha, out }, scalars)
        });
        pair.compare(&r, "scale_residual: r");
        pair.compare(&z, "scale_residual: z");
        let largest = pair.scalars.0.get(out.get(1));
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
            let (mut r, mut q, mut z) = (pair.vector(11), pair.vector(12), pair.poison());
            both!(pair.reference, pair.lines => |on, r, z| on.solve_lines(r, z));
            // Decoupled columns amplify the rounding of their right-hand side's sum.
            let at_least = if pair.stencil.is_tame() { 1e-30 } else { 1.0 };
            pair.compare_at_scale(&z, at_least, "solve_lines");
            let alpha = pair.coefficient(alpha, 0.5);
            z = pair.poison();
            both!(pair.reference, pair.lines => |on, r, q, z, scalars in pair.scalars| {
                on.precondition_residual(ResidualUpdate { r, q, z, alpha, out }, scalars)
            });
            pair.compare(&r, "precondition_residual: r");
            pair.compare_at_scale(&z, at_least, "precondition_residual: z");
            pair.compare_scalar(out.get(0), largest(&z.0, 1e-30) * shape.cells() as f64, "ρ");
            pair.compare_scalar(out.get(1), 0.0, "norm");
        }
    }
}

/// u += αp;  p' = z + βp;  q = A p';  σ = ⟨p', q⟩
pub(super) fn advance_direction<B: Supports<S>, S: Sample, T: Real>(backend: &B) {
    let sigma = Scalar::new(2);
    for_each_pair::<B, S, T>(backend, |pair| {
        let [mut u, mut p, mut z] = [5, 6, 7].map(|n| pair.vector(n));
        let (mut q, mut next) = (pair.poison(), pair.poison());
        let needs_next = ok(pair.tested.operator.needs_next_direction(false));
        for (scalar, value) in [(SCALARS[0], 0.7), (SCALARS[1], 1.3)] {
            pair.set(scalar, value);
        }
        let (alpha, beta) = (Ratio::new(SCALARS[0], SCALARS[1]), Ratio::new(SCALARS[1], SCALARS[0]).negated());
        let [mut single_z, mut single_q] = [(); 2].map(|()| poison::<B, f32>(backend, pair.shape()));
        both!(Reference, *backend => |on, z, single_z| on.convert(z, single_z));
        for is_single in [false, true] {
            both!(pair.reference, pair.tested.operator => |on, u, p, next, z, single_z, q, single_q, scalars in pair.scalars| {
                let next = needs_next.then_some(next);
                match is_single {
                    true => {
                        let (z, q) = (single_z, single_q);
                        on.advance_direction_single(Direction { u, p, next, z, q, alpha, beta, sigma }, scalars)
                    }
                    false => on.advance_direction(Direction { u, p, next, z, q, alpha, beta, sigma }, scalars),
                }
            });
            if needs_next {
                std::mem::swap(&mut p, &mut next);
            }
            pair.compare_scalar(sigma, 1.0, "σ");
        }
        for (twin, what) in [(&u, "u"), (&p, "p"), (&q, "q")] {
            pair.compare(twin, &format!("advance_direction: {what}"));
        }
        compare(backend, &single_q.1, &single_q.0, "advance_direction_single: q");
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
        let mut f = pair.vector(14);
        for relaxation in relaxations().into_iter().chain([RETURNING]) {
            let (mut u, mut s) = (pair.poison(), pair.poison());
            for guess in [Guess::Zero, Guess::Given, Guess::Given] {
                both!(pair.reference, hierarchy.levels[0] => |on, f, u, s| {
                    on.smooth(Sweep::new(relaxation, guess, f, u, s))
                });
                pair.compare(&u, &format!("smooth {relaxation:?} {guess:?}"));
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
                pair.compare_padding(vector, "padding");
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
        let (mut x, mut y) = (random_pair::<B, T>(backend, shape, 1), poison::<B, T>(backend, shape));
        both!(plain, capabilities.operator => |on, x, y| on.apply(x, y));
        compare(backend, &y.1, &y.0, "stored apply");
        y = poison::<B, T>(backend, shape);
        let Some(diagonal) = capabilities.diagonal else { panic!("no diagonal") };
        both!(plain, diagonal => |on, x, y| on.divide_by_diagonal(x, y));
        compare(backend, &y.1, &y.0, "stored diagonal");
        y = poison::<B, T>(backend, shape);
        let Some(lines) = ok(backend.lines(&stored, &operator)) else { panic!("no lines") };
        both!(plain, lines.solver => |on, x, y| on.solve_lines(x, y));
        compare(backend, &y.1, &y.0, "stored lines");
    }
}
