//! Copies, vector operations and aggregates.

use super::arrays::noise;
use super::fixture::{SCALARS, Twin, both, compare, fetch, ok, own, poison, random_pair, shapes, tolerance};
use crate::backend::AggregateBackend;
use crate::prelude::*;

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

/// Checks the means over copies of periodic directions, bit for bit.
pub(super) fn averages<B: Backend, T: Real>(backend: &B) {
    for (copies, shape) in
        [([2, 1], Shape::new(5, 4, 3)), ([1, 2], Shape::new(70, 3, 1)), ([2, 2], Shape::new(1, 37, 9))]
    {
        let around = Shape { nx: copies[0] * shape.nx, ny: copies[1] * shape.ny, ..shape };
        let (mut expected, mut found) = random_pair::<B, T>(backend, around, 3);
        let layout = *expected.layout();
        ok(Reference.average(&layout, [shape.nx, shape.ny], &mut expected));
        ok(backend.average(&layout, [shape.nx, shape.ny], &mut found));
        for ([i, j, k], found) in around.places().zip(fetch(backend, &found, around)) {
            assert_eq!(found, expected.get(i, j, k), "{around} ({i}, {j}, {k})");
            assert_eq!(found, expected.get(i % shape.nx, j % shape.ny, k), "{around} ({i}, {j}, {k})");
        }
    }
}

/// Checks clear, convert, scale, axpy, axpy_norm, xpay, dot.
pub(super) fn operations<B: Backend, T: Real>(backend: &B) {
    let [first, second, third, _] = SCALARS;
    for shape in shapes::<B>() {
        let mut x = random_pair::<B, T>(backend, shape, 1);
        let mut y = random_pair::<B, T>(backend, shape, 2);
        let mut scalars = (HostScalars::default(), ok(backend.scalars()));
        for (scalar, value) in [(first, 3.0), (second, -7.0), (third, 0.25)] {
            scalars.0.set(scalar, value);
            ok(backend.set(&mut scalars.1, scalar, value));
        }
        let same = |(expected, found): &Twin<B, T>, what: &str| compare(backend, found, expected, what);
        let same_sum = |(expected, found): &(HostScalars, B::Scalars), what: &str| {
            let (found, expected) = (ok(backend.read(found))[first.index()], expected.get(first));
            let most = 1e3 * T::EPSILON * shape.cells() as f64;
            assert!((found - expected).abs() <= most, "{what}: {found} {expected}");
        };
        let a = Ratio::new(first, second).times(second, third).negated();
        both!(Reference, *backend => |on, x, y, scalars| on.axpy(a, x, y, scalars));
        same(&y, "axpy");
        let a = Ratio::new(third, second);
        both!(Reference, *backend => |on, x, y, scalars| on.xpay(a, x, y, scalars));
        same(&y, "xpay");
        both!(Reference, *backend => |on, x, y, scalars| on.dot(x, y, first.of(scalars)));
        same_sum(&scalars, "dot");
        let a = Ratio::new(third, second).negated();
        both!(Reference, *backend => |on, x, y, scalars| on.axpy_norm(a, x, y, first.of(scalars)));
        same(&y, "axpy_norm");
        same_sum(&scalars, "axpy_norm");
        let mut rounded = poison::<B, f32>(backend, shape);
        both!(Reference, *backend => |on, y, rounded| on.convert(y, rounded));
        compare(backend, &rounded.1, &rounded.0, "convert to single precision");
        both!(Reference, *backend => |on, rounded, y, scalars| on.xpay(a, rounded, y, scalars));
        same(&y, "xpay of single precision");
        // A quotient by zero is zero.
        ok(backend.set(&mut scalars.1, second, 0.0));
        ok(backend.axpy(Ratio::new(third, second), &x.1, &mut y.1, &scalars.1));
        same(&y, "axpy by 1/0");
        both!(Reference, *backend => |on, y| on.scale(-0.375, y));
        same(&y, "scale");
        both!(Reference, *backend => |on, x, y| on.extrapolate(1.125, x, y));
        same(&y, "extrapolate");
        // Overwritten vectors may hold anything.
        let mut z = poison::<B, T>(backend, shape);
        both!(Reference, *backend => |on, x, z| on.convert(x, z));
        same(&z, "convert");
        let (_, mut z) = poison::<B, T>(backend, shape);
        ok(backend.clear(&mut z));
        ok(backend.dot(&z, &z, first.of(&mut scalars.1)));
        assert_eq!(ok(backend.read(&scalars.1))[first.index()], 0.0);
    }
}

/// Checks products with Z and Zᵀ.
pub(super) fn aggregates<B: AggregateBackend, T: Real>(backend: &B) {
    for shape in shapes::<B>() {
        let cells = shape.cells();
        for count in [1, 3, cells.div_ceil(7), 700] {
            let map = random_aggregates(shape, count);
            let (here, there) = (ok(Reference.aggregates(&map)), ok(backend.aggregates(&map)));
            let (mut map, mut a, mut q) =
                ((here, there), numbers(backend, count), random_pair::<B, T>(backend, shape, 33));
            let mut sums = (ok(Reference.aggregate_vector(count)), ok(backend.aggregate_vector(count)));
            // Twice: sums must not accumulate.
            for _ in 0..2 {
                both!(Reference, *backend => |on, q, map, sums| on.aggregate_sums(q, map, sums));
            }
            let mut found = vec![f64::NAN; count];
            ok(backend.read_aggregated(&sums.1, &mut found));
            for (found, expected) in found.iter().zip(&sums.0) {
                assert!((found - expected).abs() <= tolerance::<T>() * cells as f64, "sums: {found} {expected}");
            }
            let mut scaled = ok(backend.aggregate_vector(count));
            ok(backend.aggregate_scale(&a.1, &sums.1, &mut scaled));
            let sums_there = found.clone();
            ok(backend.read_aggregated(&scaled, &mut found));
            for ((found, a), sum) in found.iter().zip(&a.0).zip(sums_there) {
                assert_eq!(*found, a * sum, "scale");
            }
            both!(Reference, *backend => |on, map, a, q| on.add_aggregated(map, a, q));
            compare(backend, &q.1, &q.0, "add_aggregated");
            let mut p = (q.0.clone(), poison::<B, T>(backend, shape).1);
            ok(Reference.add_aggregated(&map.0, &a.0, &mut p.0));
            ok(backend.plus_aggregated(&map.1, &a.1, &q.1, &mut p.1));
            compare(backend, &p.1, &p.0, "plus_aggregated");
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
    let numbers = noise(count, 31);
    let mut sent = ok(backend.aggregate_vector(count));
    ok(backend.write_aggregated(&numbers, &mut sent));
    (numbers, sent)
}

/// Checks y = M x with a dense matrix.
pub(super) fn aggregate_matrices<B: AggregateBackend>(backend: &B) {
    for size in [1, 2, 31, 64, 500] {
        let entries = noise(size * size, 34);
        let x = noise(size, 35);
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
