//! Copies, vector operations and aggregates.

use super::fixture::{SCALARS, compare, ok, poison, random_vector, send, shapes, tolerance};
use crate::backend::AggregateBackend;
use crate::prelude::*;
use crate::reference::Vector;

/// Checks that arrays are uploaded and downloaded unchanged, for any strides.
pub(super) fn transfer<B: Backend, T: Real>(backend: &B) {
    for shape in shapes::<B>() {
        let Shape { nx, ny, nz } = shape;
        let data: Vec<f32> = (0..shape.cells()).map(|n| n as f32 + 0.5).collect();
        let strides = [ny * nz, nz, 1];
        let (_, mut v) = poison::<B, T>(backend, shape);
        ok(backend.upload(ok(ArrayView::new(&data, shape, strides)), &mut v));
        let mut back = vec![0f64; shape.cells()];
        ok(backend.download(&v, &mut ok(ArrayViewMut::c_order(&mut back, shape))));
        let mut strided = vec![0f32; shape.cells()];
        ok(backend.download(&v, &mut ok(ArrayViewMut::new(&mut strided, shape, strides))));
        assert_eq!(strided, data);
        // Layers apart from each other, with room between their rows.
        let apart = [1, nx + 3, (nx + 3) * (ny + 2)];
        let mut padded = vec![-1f64; apart[2] * nz];
        ok(backend.download(&v, &mut ok(ArrayViewMut::new(&mut padded, shape, apart))));
        for (n, value) in padded.into_iter().enumerate() {
            let (i, j, k) = (n % apart[1], n / apart[1] % (ny + 2), n / apart[2]);
            let expected = if i < nx && j < ny { back[i + nx * (j + ny * k)] } else { -1.0 };
            assert_eq!(value, expected, "{shape} ({i}, {j}, {k})");
        }
        for ([i, j, k], back) in shape.places().zip(back) {
            assert_eq!(back, f64::from(data[i * strides[0] + j * strides[1] + k * strides[2]]));
        }
        let other = Shape::new(nx + 1, ny, nz);
        let long = vec![0f32; other.cells()];
        assert!(backend.upload(ok(ArrayView::c_order(&long, other)), &mut v).is_err());
    }
}

/// Checks clear, convert, convert_dot, scale, axpy, axpy_norm, axpy_norm_convert, xpay, dot.
pub(super) fn operations<B: Backend, T: Real>(backend: &B) {
    let [first, second, third, _] = SCALARS;
    for shape in shapes::<B>() {
        let (x, y) = (random_vector::<T>(shape, 1), random_vector::<T>(shape, 2));
        let (mut expected_scalars, mut scalars) = (HostScalars::default(), ok(backend.scalars()));
        for (scalar, value) in [(first, 3.0), (second, -7.0), (third, 0.25)] {
            expected_scalars.set(scalar, value);
            ok(backend.set(&mut scalars, scalar, value));
        }
        let (on_x, mut on_y, mut expected) = (send(backend, &x), send(backend, &y), y.clone());
        let a = Ratio::new(first, second).times(second, third).negated();
        ok(Reference.axpy(a, &x, &mut expected, &expected_scalars));
        ok(backend.axpy(a, &on_x, &mut on_y, &scalars));
        compare(backend, &on_y, &expected, "axpy");
        let a = Ratio::new(third, second);
        ok(Reference.xpay(a, &x, &mut expected, &expected_scalars));
        ok(backend.xpay(a, &on_x, &mut on_y, &scalars));
        compare(backend, &on_y, &expected, "xpay");
        ok(Reference.dot(&x, &expected, first.of(&mut expected_scalars)));
        ok(backend.dot(&on_x, &on_y, first.of(&mut scalars)));
        let (found, wanted) = (ok(backend.read(&scalars))[first.index()], expected_scalars.get(first));
        assert!((found - wanted).abs() <= 1e3 * T::EPSILON * shape.cells() as f64, "dot: {found} {wanted}");
        let a = Ratio::new(third, second).negated();
        ok(Reference.axpy_norm(a, &x, &mut expected, first.of(&mut expected_scalars)));
        ok(backend.axpy_norm(a, &on_x, &mut on_y, first.of(&mut scalars)));
        compare(backend, &on_y, &expected, "axpy_norm");
        let (found, wanted) = (ok(backend.read(&scalars))[first.index()], expected_scalars.get(first));
        assert!((found - wanted).abs() <= 1e3 * T::EPSILON * shape.cells() as f64, "axpy_norm: {found} {wanted}");
        let (mut rounded, mut on_rounded) = poison::<B, f32>(backend, shape);
        ok(Reference.axpy_norm_convert(a, &x, &mut expected, &mut rounded, first.of(&mut expected_scalars)));
        ok(backend.axpy_norm_convert(a, &on_x, &mut on_y, &mut on_rounded, first.of(&mut scalars)));
        compare(backend, &on_y, &expected, "axpy_norm_convert");
        compare(backend, &on_rounded, &rounded, "axpy_norm_convert: converted");
        let (found, wanted) = (ok(backend.read(&scalars))[first.index()], expected_scalars.get(first));
        assert!(
            (found - wanted).abs() <= 1e3 * T::EPSILON * shape.cells() as f64,
            "axpy_norm_convert: {found} {wanted}"
        );
        // A quotient by zero is zero.
        ok(backend.set(&mut scalars, second, 0.0));
        ok(backend.axpy(Ratio::new(third, second), &on_x, &mut on_y, &scalars));
        compare(backend, &on_y, &expected, "axpy by 1/0");
        ok(Reference.scale(-0.375, &mut expected));
        ok(backend.scale(-0.375, &mut on_y));
        compare(backend, &on_y, &expected, "scale");
        ok(Reference.extrapolate(1.125, &x, &mut expected));
        ok(backend.extrapolate(1.125, &on_x, &mut on_y));
        compare(backend, &on_y, &expected, "extrapolate");
        // Overwritten vectors may hold anything.
        let (_, mut on_y) = poison::<B, T>(backend, shape);
        ok(backend.convert(&on_x, &mut on_y));
        compare(backend, &on_y, &x, "convert");
        let (_, mut on_z) = poison::<B, T>(backend, shape);
        ok(Reference.dot(&x, &expected, first.of(&mut expected_scalars)));
        let on_expected = send(backend, &expected);
        ok(backend.convert_dot(&on_x, &mut on_z, &on_expected, first.of(&mut scalars)));
        compare(backend, &on_z, &x, "convert_dot");
        let (found, wanted) = (ok(backend.read(&scalars))[first.index()], expected_scalars.get(first));
        assert!((found - wanted).abs() <= 1e3 * T::EPSILON * shape.cells() as f64, "convert_dot: {found} {wanted}");
        let (_, mut on_y) = poison::<B, T>(backend, shape);
        ok(backend.clear(&mut on_y));
        ok(backend.dot(&on_y, &on_y, first.of(&mut scalars)));
        assert_eq!(ok(backend.read(&scalars))[first.index()], 0.0);
    }
}

/// Checks products with Z and Zᵀ.
pub(super) fn aggregates<B: AggregateBackend, T: Real>(backend: &B) {
    for shape in shapes::<B>() {
        let cells = shape.cells();
        for count in [1, 3, cells.div_ceil(7), 700] {
            let map = random_aggregates(shape, count);
            let (here, there) = (ok(Reference.aggregates(&map)), ok(backend.aggregates(&map)));
            let (a, on_a) = numbers(backend, count);
            let mut q: Vector<T> = random_vector(shape, 33);
            let mut on_q = send(backend, &q);
            let (mut sums, mut on_sums) = (ok(Reference.aggregate_vector(count)), ok(backend.aggregate_vector(count)));
            // Twice: sums must not accumulate.
            for _ in 0..2 {
                ok(Reference.aggregate_sums(&q, &here, &mut sums));
                ok(backend.aggregate_sums(&on_q, &there, &mut on_sums));
            }
            let mut found = vec![f64::NAN; count];
            ok(backend.read_aggregated(&on_sums, &mut found));
            for (found, expected) in found.iter().zip(&sums) {
                assert!((found - expected).abs() <= tolerance::<T>() * cells as f64, "sums: {found} {expected}");
            }
            let mut on_scaled = ok(backend.aggregate_vector(count));
            ok(backend.aggregate_scale(&on_a, &on_sums, &mut on_scaled));
            let sums_there = found.clone();
            ok(backend.read_aggregated(&on_scaled, &mut found));
            for ((found, a), sum) in found.iter().zip(&a).zip(sums_there) {
                assert_eq!(*found, a * sum, "scale");
            }
            ok(Reference.add_aggregated(&here, &a, &mut q));
            ok(backend.add_aggregated(&there, &on_a, &mut on_q));
            compare(backend, &on_q, &q, "add_aggregated");
            let (_, mut on_p) = poison::<B, T>(backend, shape);
            let mut p = q.clone();
            ok(Reference.add_aggregated(&here, &a, &mut p));
            ok(backend.plus_aggregated(&there, &on_a, &on_q, &mut on_p));
            compare(backend, &on_p, &p, "plus_aggregated");
        }
    }
}

/// Makes aggregates scattered over a grid, with some cells in none.
pub(super) fn random_aggregates(shape: Shape, count: usize) -> AggregateMap {
    let id = |n: usize| match (random(30, n).abs() * (count + 1) as f64) as usize {
        id if id >= count => AggregateMap::NONE,
        id => id as u32,
    };
    ok(AggregateMap::new(shape, (0..shape.cells()).map(id).collect(), count))
}

/// Makes a number for each aggregate on both back ends.
pub(super) fn numbers<B: AggregateBackend>(backend: &B, count: usize) -> (Vec<f64>, B::AggregateVector) {
    let numbers: Vec<f64> = (0..count).map(|n| random(31, n)).collect();
    let mut sent = ok(backend.aggregate_vector(count));
    ok(backend.write_aggregated(&numbers, &mut sent));
    (numbers, sent)
}

/// Checks y = M x with a dense matrix.
pub(super) fn aggregate_matrices<B: AggregateBackend>(backend: &B) {
    for size in [1, 2, 31, 64, 500] {
        let entries: Vec<f64> = (0..size * size).map(|n| random(34, n)).collect();
        let x: Vec<f64> = (0..size).map(|n| random(35, n)).collect();
        let matrix = ok(backend.aggregate_matrix(size, &entries));
        let (mut on_x, mut on_y) = (ok(backend.aggregate_vector(size)), ok(backend.aggregate_vector(size)));
        ok(backend.write_aggregated(&x, &mut on_x));
        ok(backend.aggregate_multiply(&matrix, &on_x, &mut on_y));
        let mut found = vec![f64::NAN; size];
        ok(backend.read_aggregated(&on_y, &mut found));
        for (row, found) in entries.chunks(size).zip(&found) {
            let expected: f64 = row.iter().zip(&x).map(|(a, x)| a * x).sum();
            assert!((found - expected).abs() < 1e-12 * size as f64, "{found} instead of {expected}");
        }
    }
}
