//! Steps with triangular parts, and steps with aggregates that need the operator.

use std::sync::Arc;

use super::fixture::{Pair, SCALARS, Sample, fetch, floating, for_each_pair, ok, random_vector, send, shapes};
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
        let ((mut r, mut on_r), (mut w, mut on_w), (mut v, mut on_v)) =
            (pair.vector(26), pair.vector(27), pair.poison());
        ok(pair.reference.relax_lower(&r, &mut w, &mut v, Some((rho, &mut pair.reference_scalars))));
        ok(tested.relax_lower(&on_r, &mut on_w, &mut on_v, Some((rho, &mut pair.scalars))));
        pair.compare(&on_v, &v, "relax_lower");
        pair.compare_scalar(rho, 0.0, "relax_lower: ρ");
        let (_, mut on_v) = pair.poison();
        ok(tested.relax_lower(&on_r, &mut on_w, &mut on_v, None));
        pair.compare(&on_v, &v, "relax_lower without ρ");
        let (_, mut on_v) = pair.poison();
        ok(pair.reference.relax_upper(&mut r, Some(&mut w), &mut v));
        ok(tested.relax_upper(&mut on_r, Some(&mut on_w), &mut on_v));
        pair.compare(&on_v, &v, "relax_upper");
    });
}

/// Checks z = (I − L D⁻¹)(I − D⁻¹ Lᵀ) r on A's pattern.
pub(super) fn incomplete_poisson<B: Supports<Diffusion>, T: Real>(backend: &B) {
    for_each_pair::<B, Diffusion, T>(backend, |pair| {
        let tested = triangular(pair);
        let ((mut r, mut on_r), (mut z, mut on_z)) = (pair.vector(26), pair.poison());
        let mut inverse = random_vector::<T>(pair.shape(), 29);
        for entry in inverse.entries_mut() {
            *entry = T::from_f64(0.3) * (*entry * *entry);
        }
        let on_inverse = send(backend, &inverse);
        for scaled in [false, true] {
            ok(pair.reference.incomplete_poisson(scaled, &inverse, &mut r, &mut z));
            ok(tested.incomplete_poisson(scaled, &on_inverse, &mut on_r, &mut on_z));
            pair.compare(&on_z, &z, &format!("incomplete_poisson {scaled}"));
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
        let (mut r, mut on_r) = pair.vector(26);
        let (mut y, mut on_y) = pair.poison();
        ok(pair.reference.apply(&mut r, &mut y));
        ok(stored.capabilities.operator.apply(&mut on_r, &mut on_y));
        let largest = y.entries().iter().fold(1.0, |s: f64, v| s.max(v.to_f64().abs()));
        pair.compare_at_scale(&on_y, &y, largest, "apply with stored faces");
        for relaxation in [0.0, 1.0] {
            let ((mut inverse, mut on_inverse), (mut z, mut on_z)) = (pair.poison(), pair.poison());
            ok(pair.reference.factorise(usize::MAX, relaxation, &mut inverse));
            ok(triangular.factorise(usize::MAX, relaxation, &mut on_inverse));
            pair.compare(&on_inverse, &inverse, &format!("factorise stored faces, {relaxation}"));
            ok(pair.reference.substitute(usize::MAX, &inverse, &r, &mut z));
            ok(triangular.substitute(usize::MAX, &on_inverse, &on_r, &mut on_z));
            pair.compare(&on_z, &z, &format!("substitute with stored faces, {relaxation}"));
        }
    });
}

/// ρ and ‖r‖²
const OUT: Sums<2> = Sums::new(3);

/// Checks the pivots of incomplete Cholesky, modified or not, in blocks and over the whole grid, and the solve
/// with them.
pub(super) fn factorise_and_substitute<B: Supports<Diffusion>, T: Real>(backend: &B) {
    for_each_pair::<B, Diffusion, T>(backend, |pair| {
        let tested = triangular(pair);
        let Shape { nx, ny, .. } = pair.shape();
        let (r, on_r) = pair.vector(26);
        let blocks = [1, 3, 2 * nx, 3 * nx + 1, nx * ny, 3 * nx * ny, usize::MAX];
        let all =
            blocks.map(|block| (block, 0.0)).into_iter().chain([(2 * nx, 1.0), (usize::MAX, 0.7), (usize::MAX, 1.0)]);
        for (block, relaxation) in all {
            let ((mut inverse, mut on_inverse), (mut z, mut on_z)) = (pair.poison(), pair.poison());
            ok(pair.reference.factorise(block, relaxation, &mut inverse));
            ok(tested.factorise(block, relaxation, &mut on_inverse));
            // The last pivot of a floating block is rounding.
            if pair.stencil.is_tame() || block == 1 {
                pair.compare(&on_inverse, &inverse, &format!("factorise in blocks of {block}, {relaxation}"));
            }
            let on_inverse = send(backend, &inverse);
            ok(pair.reference.substitute(block, &inverse, &r, &mut z));
            ok(tested.substitute(block, &on_inverse, &on_r, &mut on_z));
            let largest = z.entries().iter().fold(1.0, |s: f64, v| s.max(v.to_f64().abs()));
            pair.compare_at_scale(&on_z, &z, largest, &format!("substitute in blocks of {block}"));
            let ((mut r, mut on_r), (q, on_q)) = (pair.vector(26), pair.vector(27));
            let ([rho, norm], (_, mut on_z)) = ([OUT.get(0), OUT.get(1)], pair.poison());
            let (alpha, scalars) = (pair.coefficient(SCALARS[0], 0.7), &mut pair.reference_scalars);
            let update = ResidualUpdate { r: &mut r, q: &q, z: &mut z, alpha, out: OUT };
            ok(pair.reference.substitute_residual(block, &inverse, update, scalars));
            let update = ResidualUpdate { r: &mut on_r, q: &on_q, z: &mut on_z, alpha, out: OUT };
            ok(tested.substitute_residual(block, &on_inverse, update, &mut pair.scalars));
            pair.compare(&on_r, &r, "substitute_residual: r");
            let largest = z.entries().iter().fold(1.0, |s: f64, v| s.max(v.to_f64().abs()));
            pair.compare_at_scale(&on_z, &z, largest, "substitute_residual: z");
            pair.compare_scalar(rho, largest, "substitute_residual: ρ");
            pair.compare_scalar(norm, 0.0, "substitute_residual: ‖r‖²");
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
            let (a, on_a) = numbers(backend, count);
            let [(p, on_p), (mut q, mut on_q)] = [32, 33].map(|n| pair.vector(n));
            ok(pair.reference.subtract_aggregated(&here, &a, &p, &mut q, sigma.of(&mut pair.reference_scalars)));
            ok(tested.subtract_aggregated(&there, &on_a, &on_p, &mut on_q, sigma.of(&mut pair.scalars)));
            pair.compare(&on_q, &q, &format!("subtract_aggregated of {count}"));
            pair.compare_scalar(sigma, (cells as f64).sqrt(), "subtract_aggregated: σ");
        }
    });
}

/// Checks E = Zᵀ A Z, connected components, inactive cells, bodies of one material.
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
