//! Steps with triangular parts, and steps with aggregates that need the operator.

use std::sync::Arc;

use super::fixture::{
    Pair, SCALARS, Sample, both, fetch, floating, for_each_pair, largest, ok, own, random_vector, send, shapes,
};
use super::vectors::{numbers, random_aggregates};
use crate::backend::{AggregateBackend, Sums};
use crate::prelude::*;
use crate::reference::Vector;

fn triangular<B: Supports<Diffusion>, T: Real>(pair: &Pair<'_, B, Diffusion, T>) -> Arc<dyn Triangular<B, T>> {
    pair.tested.triangular.clone().unwrap_or_else(|| panic!("{}: no triangular parts", pair.name))
}

fn aggregating<B: Supports<Diffusion>, T: Real>(pair: &Pair<'_, B, Diffusion, T>) -> Arc<dyn AggregateOperator<B, T>> {
    pair.tested.aggregates.clone().unwrap_or_else(|| panic!("{}: no aggregates", pair.name))
}

/// Checks v = D⁻¹(r − L w) and z = v − D⁻¹ Lᵀ w.
pub(super) fn relax<B: Supports<Diffusion>, T: Real>(backend: &B) {
    let [rho, ..] = SCALARS;
    for_each_pair::<B, Diffusion, T>(backend, |pair| {
        let tested = triangular(pair);
        let (mut r, mut w, mut v) = (pair.vector(26), pair.vector(27), pair.poison());
        both!(pair.reference, tested => |on, r, w, v, scalars in pair.scalars| {
            on.relax_lower(r, [w, v], Some((rho, scalars)))
        });
        pair.compare(&v, "relax_lower");
        pair.compare_scalar(rho, 0.0, "relax_lower: ρ");
        (_, v.1) = pair.poison();
        ok(tested.relax_lower(&r.1, [&mut w.1, &mut v.1], None));
        pair.compare(&v, "relax_lower without ρ");
        v = pair.poison();
        both!(pair.reference, tested => |on, r, w, v| on.relax_upper(r, Some(w), v));
        pair.compare(&v, "relax_upper");
    });
}

/// Checks z = (I − L D⁻¹)(I − D⁻¹ Lᵀ) r on A's pattern.
pub(super) fn incomplete_poisson<B: Supports<Diffusion>, T: Real>(backend: &B) {
    for_each_pair::<B, Diffusion, T>(backend, |pair| {
        let tested = triangular(pair);
        let (mut r, mut z) = (pair.vector(26), pair.poison());
        let mut inverse = random_vector::<T>(pair.shape(), 29);
        for entry in inverse.entries_mut() {
            *entry = T::from_f64(0.3) * (*entry * *entry);
        }
        let there = send(backend, &inverse);
        let mut inverse = (inverse, there);
        for scaled in [false, true] {
            both!(pair.reference, tested => |on, inverse, r, z| on.incomplete_poisson(scaled, inverse, [r, z]));
            pair.compare(&z, &format!("incomplete_poisson {scaled}"));
        }
    });
}

/// Checks the faces of a tensor product, and their incomplete factors.
pub(super) fn stored_faces<B: Supports<TensorProduct>, T: Real>(backend: &B) {
    for_each_pair::<B, TensorProduct, T>(backend, |pair| {
        let Some(stored) = ok(backend.stored_faces::<T>(&pair.stencil)) else {
            assert!(pair.tested.triangular.is_some(), "{}: neither triangular parts nor faces", pair.name);
            return;
        };
        let Some(triangular) = stored.capabilities.triangular else { panic!("{}: no triangular parts", pair.name) };
        let (mut r, mut y) = (pair.vector(26), pair.poison());
        both!(pair.reference, stored.capabilities.operator => |on, r, y| on.apply(r, y));
        pair.compare(&y, "apply with stored faces");
        for relaxation in [0.0, 1.0] {
            let (mut inverse, mut z) = (pair.poison(), pair.poison());
            both!(pair.reference, triangular => |on, inverse| on.factorise(usize::MAX, relaxation, inverse));
            pair.compare(&inverse, &format!("factorise stored faces, {relaxation}"));
            both!(pair.reference, triangular => |on, inverse, r, z| on.substitute(usize::MAX, inverse, r, z));
            pair.compare(&z, &format!("substitute with stored faces, {relaxation}"));
        }
    });
}

/// ρ and ‖r‖²
const OUT: Sums<2> = Sums::new(3);

/// Checks the pivots of incomplete Cholesky, modified or not, in blocks and over the whole grid, and the solve with them.
pub(super) fn factorise_and_substitute<B: Supports<Diffusion>, T: Real>(backend: &B) {
    for_each_pair::<B, Diffusion, T>(backend, |pair| {
        let tested = triangular(pair);
        let Shape { nx, ny, .. } = pair.shape();
        let mut rhs = pair.vector(26);
        let blocks = [1, 3, 2 * nx, 3 * nx + 1, nx * ny, 3 * nx * ny, usize::MAX];
        let all =
            blocks.map(|block| (block, 0.0)).into_iter().chain([(2 * nx, 1.0), (usize::MAX, 0.7), (usize::MAX, 1.0)]);
        for (block, relaxation) in all {
            let (mut inverse, mut z) = (pair.poison(), pair.poison());
            both!(pair.reference, tested => |on, inverse| on.factorise(block, relaxation, inverse));
            // The last pivot of a floating block is rounding.
            if pair.stencil.is_tame() || block == 1 {
                pair.compare(&inverse, &format!("factorise in blocks of {block}, {relaxation}"));
            }
            inverse.1 = send(backend, &inverse.0);
            both!(pair.reference, tested => |on, inverse, rhs, z| on.substitute(block, inverse, rhs, z));
            pair.compare(&z, &format!("substitute in blocks of {block}"));
            let (mut r, mut q, alpha) = (pair.vector(26), pair.vector(27), pair.coefficient(SCALARS[0], 0.7));
            z = pair.poison();
            both!(pair.reference, tested => |on, inverse, r, q, z, scalars in pair.scalars| {
                on.substitute_residual(block, inverse, ResidualUpdate { r, q, z, alpha, out: OUT }, scalars)
            });
            pair.compare(&r, "substitute_residual: r");
            pair.compare(&z, "substitute_residual: z");
            pair.compare_scalar(OUT.get(0), largest(&z.0, 1.0), "substitute_residual: ρ");
            pair.compare_scalar(OUT.get(1), 0.0, "substitute_residual: ‖r‖²");
        }
    });
}

/// q −= A Z a;  σ = ⟨p, q⟩
pub(super) fn subtract_aggregated<B: Supports<Diffusion>, T: Real>(backend: &B) {
    let [sigma, ..] = SCALARS;
    for_each_pair::<B, Diffusion, T>(backend, |pair| {
        let tested = aggregating(pair);
        let cells = pair.shape().cells();
        for count in [1, 3, cells.div_ceil(7), 700] {
            let map = random_aggregates(pair.shape(), count);
            let (here, there) = (ok(Reference.aggregates(&map)), ok(backend.aggregates(&map)));
            let (mut map, mut a) = ((here, there), numbers(backend, count));
            let [mut p, mut q] = [32, 33].map(|n| pair.vector(n));
            both!(pair.reference, tested => |on, map, a, p, q, scalars in pair.scalars| {
                on.subtract_aggregated(map, a, p, q, sigma.of(scalars))
            });
            pair.compare(&q, &format!("subtract_aggregated of {count}"));
            pair.compare_scalar(sigma, (cells as f64).sqrt(), "subtract_aggregated: σ");
        }
    });
}

/// Checks E = Zᵀ A Z, connected components, inactive cells, and connected bodies of one material.
pub(super) fn aggregation<B: Supports<Diffusion>, T: Real>(backend: &B) {
    let all = shapes::<B>().flat_map(|shape| {
        let mut all = Diffusion::samples(shape);
        all.push(("floating".into(), floating(shape)));
        all
    });
    for (name, stencil) in all {
        let pair = Pair::<B, Diffusion, T>::new(backend, name, stencil);
        let tested = aggregating(&pair);
        let (found, expected) = (ok(tested.components()), ok(pair.reference.components()));
        assert_eq!(found.is_some(), expected.is_some(), "components of {}", pair.name);
        let x: Vector<T> = random_vector(pair.shape(), 34);
        let (mut cleared, mut on_x) = (x.clone(), send(backend, &x));
        ok(pair.reference.clear_inactive(&mut cleared));
        ok(tested.clear_inactive(&mut on_x));
        for ([i, j, k], found) in pair.shape().places().zip(fetch(backend, &on_x, pair.shape())) {
            let all = expected.as_ref().map(|expected| &expected.all);
            let is_inactive = all.is_some_and(|all| all.aggregate_at([i, j, k]).is_none());
            let before = if is_inactive { T::ZERO } else { x.get(i, j, k) };
            assert!(found == before && cleared.get(i, j, k) == before, "clear_inactive of {}, {i} {j} {k}", pair.name);
        }
        if let (Some(found), Some(expected)) = (found, expected) {
            assert_eq!(found.all, expected.all, "components of {}", pair.name);
            assert_eq!(found.anchored, expected.anchored, "components of {}", pair.name);
        }
        assert_eq!(ok(tested.bodies()), ok(pair.reference.bodies()), "bodies of {}", pair.name);
        let map = random_aggregates(pair.shape(), pair.shape().cells().div_ceil(7));
        let sorted = |operator: &dyn Fn() -> crate::Result<Vec<crate::operator::aggregate::Entry>>| {
            let mut entries = ok(operator());
            entries.sort_by_key(|entry| (entry.row, entry.column));
            entries
        };
        let (found, expected) = (sorted(&|| tested.galerkin(&map)), sorted(&|| pair.reference.galerkin(&map)));
        assert_eq!(found.len(), expected.len(), "E of {}", pair.name);
        for (found, expected) in found.iter().zip(&expected) {
            assert_eq!((found.row, found.column), (expected.row, expected.column), "E of {}", pair.name);
            let scale = 1.0 + expected.value.abs();
            assert!((found.value - expected.value).abs() < 1e-12 * scale, "{}: {found:?} {expected:?}", pair.name);
        }
    }
}
