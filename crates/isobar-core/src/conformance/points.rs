//! Relaxation of points against the reference.

use super::fixture::{Pair, SCALARS, Sample, both, even, fetch, for_each_pair, ok, own, tolerance, vector};
use crate::operator::lines_layout;
use crate::prelude::*;
use crate::reference::Vector;

/// Sweeps, damped or not, with momentum or without.
const SWEEPS: [PointCycle; 4] = [
    PointCycle::sweep(1.0),
    PointCycle::sweep(0.8),
    PointCycle { momentum: 0.9, ..PointCycle::sweep(1.9) },
    PointCycle { momentum: 0.4, ..PointCycle::sweep(1.0) },
];

/// Grids that are divided into tiles: flat, with one row, of many layers, and with tiles of several threads.
const DIVIDED: [(usize, usize, usize); 4] = [(17, 3, 1), (5, 1, 4), (16, 12, 33), (34, 20, 5)];

/// Returns cycles with tiles of awkward sizes: narrower than a pack, wider than one, the whole grid, overlapping or not, damped or not.
fn cycles(shape: Shape) -> Vec<PointCycle> {
    let n = shape.extents();
    let cycle = |relaxation, sub_iterations, tile: [usize; 3], overlap: usize| {
        let overlap = [0, 1, 2].map(|d| if tile[d] < n[d] && overlap < tile[d] { overlap } else { 0 });
        PointCycle { sub_iterations, tile, overlap, ..PointCycle::sweep(relaxation) }
    };
    let mut all = Vec::new();
    if n.contains(&1) {
        all.push(cycle(0.9, 3, [0, 1, 2].map(|d| n[d].min([5, 4, 3][d])), 2));
        all.push(cycle(1.2, 2, n, 0));
    }
    all.extend(
        [cycle(1.0, 2, [5, 4, 3], 0), cycle(1.0, 5, [13, 7, 4], 2), cycle(0.8, 4, [32, 20, 5], 4)]
            .into_iter()
            .filter(|cycle| (0..3).all(|d| cycle.tile[d] <= n[d])),
    );
    all
}

/// The cells of a tile that every device supports.
const FEW: usize = 512;

/// Checks v = u after a cycle;  ‖f − A u‖².
pub(super) fn relax<B: Supports<S>, S: Sample, T: Real>(backend: &B) {
    for_each_pair::<B, S, T>(backend, |pair| SWEEPS.iter().for_each(|sweep| compare(pair, sweep)));
    // Compiling kernels for every tile and every kind of coefficients would take minutes: checks some of each kind.
    let step = if backend.device().kind == "cuda" { 5 } else { 1 };
    for shape in DIVIDED.map(|(nx, ny, nz)| Shape::new(nx, ny, nz)) {
        for (name, stencil) in S::samples(shape).into_iter().step_by(step) {
            let mut pair = Pair::<B, S, T>::new(backend, name, stencil);
            cycles(shape).iter().for_each(|cycle| compare(&mut pair, cycle));
        }
    }
}

/// Compares the same cycle twice, on vectors that are exchanged.
fn compare<B: Supports<S>, S: Sample, T: Real>(pair: &mut Pair<'_, B, S, T>, cycle: &PointCycle) {
    let Some(tested) = pair.points() else { return };
    assert_eq!(tested.periodic(), pair.reference.periodic());
    match tested.prepare(cycle) {
        Err(Error::Invalid { .. }) if cycle.tile.iter().product::<usize>() > FEW => return,
        prepared => ok(prepared),
    }
    let (mut f, mut u, norm) = (pair.vector(21), pair.vector(22), SCALARS[0]);
    let mut v = if cycle.momentum > 0.0 { pair.vector(23) } else { pair.poison() };
    for _ in 0..2 {
        both!(pair.reference, tested => |on, f, u, v, scalars in pair.scalars| {
            on.relax_points(cycle, f, u, v, norm.of(scalars))
        });
        pair.compare(&v, &format!("{cycle:?}"));
        pair.compare_scalar(norm, 1.0, &format!("norm of {cycle:?}"));
        std::mem::swap(&mut u, &mut v);
    }
    pair.compare_padding(&u.1, "padding after a cycle");
}

/// Checks that cycles whose tiles overlap enough are plain sweeps, bit for bit.
pub(super) fn exact<B: Supports<S>, S: Sample, T: Real>(backend: &B) {
    // The last has several tiles of any device.
    let shapes = [(50, 1, 1), (33, 26, 1), (21, 12, 9), (300, 5, 1), (70, 11, 37)];
    // Compiling kernels for every kind of coefficients would take minutes: checks each on some shape.
    let step = if backend.device().kind == "cuda" { shapes.len() } else { 1 };
    for (first, shape) in shapes.map(|(nx, ny, nz)| Shape::new(nx, ny, nz)).into_iter().enumerate() {
        for (name, stencil) in S::samples(shape).into_iter().skip(first % step).step_by(step) {
            let mut pair = Pair::<B, S, T>::new(backend, name, stencil);
            let Some(tested) = pair.points() else { return };
            for (relaxation, k) in [(1.0, 2), (0.9, 4)] {
                let n = shape.extents();
                let tile = [17, 10, 8].map(|cells: usize| cells.max(2 * k));
                let tile = [0, 1, 2].map(|d| tile[d].min(n[d]));
                let overlap = [0, 1, 2].map(|d| if tile[d] < n[d] { 2 * (k - 1) } else { 0 });
                let cycle = PointCycle { sub_iterations: k, tile, overlap, ..PointCycle::sweep(relaxation) };
                if !cycle.is_exact(shape, tested.periodic()) {
                    continue;
                }
                is_exact(&mut pair, &*tested, &cycle);
            }
        }
    }
}

/// Checks grids whose cells are all equal, large enough for passes of their own.
pub(super) fn exact_even<B: Supports<Diffusion>, T: Real>(backend: &B) {
    let [fixed, closed] = [Side::Fixed, Side::Closed];
    let mixed = [[fixed, closed], [closed, fixed], [fixed, fixed]];
    for (shape, sides, has_shift, most) in [
        (Shape::new(601, 70, 1), [[fixed; 2], [fixed; 2], [closed; 2]], false, 8),
        (Shape::new(520, 33, 1), [[closed, fixed], [closed; 2], [fixed; 2]], true, 3),
        (Shape::new(70, 37, 60), mixed, false, 3),
        (Shape::new(131, 40, 33), [[closed; 2]; 3], true, 2),
    ] {
        let stencil = even(shape, sides, has_shift);
        let mut pair = Pair::<B, Diffusion, T>::new(backend, format!("even, shift {has_shift}"), stencil);
        for sweep in &SWEEPS {
            compare(&mut pair, sweep);
        }
        let Some(tested) = pair.points() else { return };
        let overlap = |n: usize| if n > 2 * most { 2 * (most - 1) } else { 0 };
        let n = shape.extents();
        let tile = n.map(|n| if n > 2 * most { 2 * most } else { n });
        let cycle = PointCycle { sub_iterations: most, tile, overlap: n.map(overlap), ..PointCycle::sweep(0.9) };
        assert!(cycle.is_exact(shape, tested.periodic()));
        is_exact(&mut pair, &*tested, &cycle);
    }
}

/// Checks that a cycle equals k sweeps, with momentum and without.
fn is_exact<B: Supports<S>, S: Sample, T: Real>(
    pair: &mut Pair<'_, B, S, T>,
    tested: &dyn PointSmoother<B, T>,
    cycle: &PointCycle,
) {
    let (backend, shape) = (pair.backend, pair.shape());
    ok(tested.prepare(cycle));
    let sweep = PointCycle::sweep(cycle.relaxation);
    ok(tested.prepare(&sweep));
    let (f, mut u, mut v) = (pair.vector(31).1, pair.vector(32).1, pair.poison().1);
    ok(tested.relax_points(cycle, &f, &mut u, &mut v, SCALARS[0].of(&mut pair.scalars.1)));
    let found = fetch(backend, &v, shape);
    for _ in 0..cycle.sub_iterations {
        ok(tested.relax_points(&sweep, &f, &mut u, &mut v, SCALARS[0].of(&mut pair.scalars.1)));
        std::mem::swap(&mut u, &mut v);
    }
    assert!(found == fetch(backend, &u, shape), "{cycle:?} of {} on {shape}", pair.name);
    let moving = PointCycle { momentum: 0.7, ..*cycle };
    ok(tested.prepare(&moving));
    exact_moving(pair, tested, &moving);
}

/// Checks this with momentum, for both vectors that a cycle returns; ‖f − A u‖² equals the reference's.
fn exact_moving<B: Supports<S>, S: Sample, T: Real>(
    pair: &mut Pair<'_, B, S, T>,
    tested: &dyn PointSmoother<B, T>,
    cycle: &PointCycle,
) {
    let (backend, shape, norm) = (pair.backend, pair.shape(), SCALARS[0]);
    let [mut f, mut u, mut before] = [31, 32, 33].map(|n| pair.vector(n));
    let [mut v, mut w] = [pair.poison(), pair.poison()];
    both!(pair.reference, tested => |on, f, u, before, v, w, scalars in pair.scalars| {
        on.relax_moving(cycle, [&*f, &*before], u, [v, w], norm.of(scalars))
    });
    pair.compare_scalar(norm, 1.0, &format!("norm of {cycle:?}"));
    pair.compare(&v, &format!("{cycle:?}"));
    pair.compare(&w, &format!("before the last of {cycle:?}"));
    let sweep = PointCycle { sub_iterations: 1, ..*cycle };
    let (mut u, mut before) = (u.1, before.1);
    for _ in 0..cycle.sub_iterations {
        ok(tested.relax_points(&sweep, &f.1, &mut u, &mut before, norm.of(&mut pair.scalars.1)));
        std::mem::swap(&mut u, &mut before);
    }
    for (found, expected) in [(&v.1, &u), (&w.1, &before)] {
        let same = fetch(backend, found, shape) == fetch(backend, expected, shape);
        assert!(same, "{cycle:?} of {} on {shape}", pair.name);
    }
}

/// Checks lines along x of a grid of one layer, each with its own norm: v = u after a cycle, ‖f − A u‖² of each line, and their
/// judgement.
pub(super) fn lines<B: Supports<S>, S: Sample, T: Real>(backend: &B) {
    let step = if backend.device().kind == "cuda" { 5 } else { 1 };
    for shape in [Shape::new(17, 3, 1), Shape::new(50, 37, 1), Shape::new(9, 1, 1), Shape::new(300, 6, 1)] {
        for (name, stencil) in S::samples(shape).into_iter().step_by(step) {
            let mut pair = Pair::<B, S, T>::new(backend, name, stencil);
            let Some(tested) = pair.points() else { return };
            let tile = [32.min(shape.nx), 8.min(shape.ny), 1];
            let overlap = [if tile[0] < shape.nx { 4 } else { 0 }, 0, 0];
            let tiles = PointCycle { sub_iterations: 5, tile, overlap, ..PointCycle::sweep(0.9) };
            for cycle in [PointCycle::sweep(1.0), tiles] {
                compare_lines(&mut pair, &*tested, &cycle);
            }
        }
    }
}

fn compare_lines<B: Supports<S>, S: Sample, T: Real>(
    pair: &mut Pair<'_, B, S, T>,
    tested: &dyn PointSmoother<B, T>,
    cycle: &PointCycle,
) {
    let (backend, ny) = (pair.backend, pair.shape().ny);
    let (line, norms_shape) = (ok(lines_layout(pair.shape())), Shape::new(ny, 1, 1));
    ok(tested.prepare_lines(cycle));
    let (mut f, mut u, mut v) = (pair.vector(41), pair.vector(42), pair.poison());
    let [on_norms, mut counts] = [(); 2].map(|()| ok(backend.zeros::<f64>(&line)));
    let mut norms = (ok(Vector::<f64>::zeros(&line)), on_norms);
    both!(pair.reference, tested => |on, f, u, v, norms| on.relax_lines(cycle, f, u, v, norms));
    pair.compare(&v, &format!("lines of {cycle:?}"));
    let found = fetch(backend, &norms.1, norms_shape);
    let weights: Vec<f64> = (0..ny).map(|j| 1.0 + (j * 7 % 5) as f64).collect();
    for (j, &found) in found.iter().enumerate() {
        let expected = norms.0.get(j, 0, 0);
        let scale = expected.max(1.0);
        assert!((found - expected).abs() <= tolerance::<T>() * scale, "line {j} of {cycle:?}: {found}, not {expected}");
    }
    let weights_there = vector(backend, &line, &weights);
    let products: Vec<f64> = found.iter().zip(&weights).map(|(norm, weight)| norm * weight).collect();
    let mut sorted = products.clone();
    sorted.sort_by(f64::total_cmp);
    // Judges twice, so that half of the lines are counted twice.
    let allowed = sorted[ny / 2];
    for _ in 0..2 {
        let largest = SCALARS[0].of(&mut pair.scalars.1);
        ok(tested.judge_lines([&norms.1, &weights_there], &mut counts, allowed, largest));
    }
    assert_eq!(ok(backend.read(&pair.scalars.1))[SCALARS[0].index()], sorted[ny - 1]);
    let counts = fetch(backend, &counts, norms_shape);
    let expected: Vec<f64> = products.iter().map(|&product| if product > allowed { 2.0 } else { 0.0 }).collect();
    assert_eq!(counts, expected, "{cycle:?}");
}
