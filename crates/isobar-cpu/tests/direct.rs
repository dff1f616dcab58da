//! Direct solves, compared with those of the reference: sides, spacings, sizes, layers, threads.

use isobar_core::backend::direct::locked;
use isobar_core::conformance::arrays::{fetch, vector};
use isobar_core::direct::{AxisMatrix, Lines, Separable};
use isobar_core::layout::Slab;
use isobar_core::prelude::*;
use isobar_cpu::Cpu;

/// Shifts of the first and the last cell, in units of a coupling, or a periodic axis.
const ENDS: [Option<[f64; 2]>; 6] =
    [Some([0.0; 2]), Some([2.0; 2]), Some([0.0, 2.0]), Some([2.0, 0.0]), Some([1.0; 2]), None];

/// Makes an axis, uniform or stretched.
fn axis(n: usize, ends: Option<[f64; 2]>, stretching: f64) -> AxisMatrix {
    let mass: Vec<f64> = (0..n).map(|i| stretching.powf(i as f64 / n as f64)).collect();
    let is_periodic = ends.is_none() && n > 1;
    let coupling = |i: usize| if i + 1 < n || is_periodic { 2.0 / (mass[i] + mass[(i + 1) % n]) } else { 0.0 };
    let couplings: Vec<f64> = (0..n).map(coupling).collect();
    let mut shift = vec![0.0; n];
    if let Some([lower, upper]) = ends {
        shift[0] += lower / mass[0];
        shift[n - 1] += upper / mass[n - 1];
    }
    AxisMatrix { mass, shift, couplings }
}

/// Makes a box with lines along an axis, whose weights vary, and a reaction that keeps it regular.
fn factors(extents: [usize; 3], line: usize, ends: [Option<[f64; 2]>; 3], stretching: f64) -> Separable {
    let across = [[1, 2], [0, 2], [0, 1]][line];
    let n = extents[line];
    let of = |axis_number: usize| axis(extents[axis_number], ends[axis_number], stretching);
    let AxisMatrix { shift, couplings, .. } = of(line);
    let vary = |seed: u64| (0..n).map(|k| 1.5 + random(seed, k)).collect::<Vec<_>>();
    let shift = shift.iter().zip(vary(3)).map(|(shift, more)| shift + 0.2 * more).collect();
    let [nx, ny, nz] = extents;
    Separable {
        shape: Shape::new(nx, ny, nz),
        line,
        across,
        factors: across.map(of),
        lines: Lines { shift, couplings, weights: [vary(1), vary(2)], least_pivot: 0.0 },
    }
}

fn noise(shape: Shape) -> Vec<f64> {
    (0..shape.cells()).map(|n| random(7, n) - 0.5).collect()
}

/// Computes A⁻¹ b by a back end, out of place and in place.
fn solve<B: Backend>(backend: &B, factors: &Separable, b: &[f64]) -> [Vec<f64>; 2] {
    let layout = Layout::new(factors.shape).unwrap();
    let solver = backend.direct(&layout, factors).unwrap().unwrap();
    let mut solver = locked(&solver);
    let (mut rhs, mut u) = (vector(backend, &layout, b), vector(backend, &layout, &vec![f64::NAN; b.len()]));
    solver.solve(&rhs, &mut u).unwrap();
    solver.solve_in_place(&mut rhs).unwrap();
    [u, rhs].map(|x| fetch(backend, &x, factors.shape))
}

/// Compares with the reference, and one thread with three.
fn check(threads: &[Cpu; 2], factors: &Separable) {
    let b = noise(factors.shape);
    let [wanted, _] = solve(&Reference, factors, &b);
    let [one, three] = threads.each_ref().map(|cpu| solve(cpu, factors, &b));
    let what = format!("{} lines along {}", factors.shape, factors.line);
    assert!(one[0] == one[1], "{what}: not the same in place");
    assert!(one == three, "{what}: not the same on three threads");
    let largest = wanted.iter().fold(0.0f64, |most, x| most.max(x.abs()));
    for (n, (found, wanted)) in one[0].iter().zip(&wanted).enumerate() {
        assert!((found - wanted).abs() < 1e-12 * largest, "{what}, cell {n}: {found} {wanted}");
    }
}

fn cpus() -> [Cpu; 2] {
    [1, 3].map(|threads| Cpu::new(threads).unwrap())
}

#[test]
fn every_pair_of_sides_is_solved() {
    let cpus = cpus();
    for (n, extents) in [[12, 9, 6], [7, 10, 5]].into_iter().enumerate() {
        for a in 0..6 {
            for b in 0..6 {
                let ends = [ENDS[a], ENDS[b], ENDS[(a + b + n) % 6]];
                for stretching in [1.0, 30.0] {
                    check(&cpus, &factors(extents, (a + b) % 3, ends, stretching));
                }
            }
        }
    }
}

#[test]
fn sizes_of_all_kinds_are_solved() {
    let cpus = cpus();
    for (n, extents) in [
        [1, 1, 1],
        [1, 1, 5],
        [5, 1, 1],
        [1, 6, 1],
        [2, 2, 2],
        [17, 1, 9],
        [1, 13, 8],
        [23, 11, 1],
        [3, 67, 4],
        [67, 3, 2],
        [33, 18, 3],
        [8, 16, 24],
    ]
    .into_iter()
    .enumerate()
    {
        for line in 0..3 {
            for stretching in [1.0, 10.0] {
                let ends = [ENDS[n % 6], ENDS[(n + line) % 6], ENDS[(n + 3) % 6]];
                check(&cpus, &factors(extents, line, ends, stretching));
            }
        }
    }
}

/// Results do not depend on threads, with fewer planes than batches, and with more.
#[test]
fn threads_do_not_matter() {
    let cpus = cpus();
    for (extents, line) in
        [([40, 30, 45], 2), ([40, 60, 25], 1), ([36, 40, 40], 0), ([300, 200, 1], 2), ([260, 1, 250], 2)]
    {
        let factors = factors(extents, line, [ENDS[0], ENDS[1], None], 1.0);
        let b = noise(factors.shape);
        let [one, three] = cpus.each_ref().map(|cpu| solve(cpu, &factors, &b));
        assert!(one == three && one[0] == one[1], "{extents:?}");
        assert!(one[0].iter().all(|x| x.is_finite()));
    }
}

#[test]
fn new_factors_take_the_place_of_old_ones() {
    let cpu = Cpu::new(2).unwrap();
    let extents = [9, 8, 7];
    let [first, second] =
        [(2, 1.0), (0, 4.0)].map(|(line, stretching)| factors(extents, line, [ENDS[1]; 3], stretching));
    let layout = Layout::new(first.shape).unwrap();
    let solver = cpu.direct(&layout, &first).unwrap().unwrap();
    let b = noise(first.shape);
    let [wanted, _] = solve(&cpu, &second, &b);
    let mut solver = locked(&solver);
    assert_eq!(
        solver.describe(),
        "direct: sine transform along x, sine transform along y, tridiagonal systems along z"
    );
    solver.update(&second).unwrap();
    assert!(solver.describe().contains("products with its eigenvectors along y"), "{}", solver.describe());
    let mut x = vector(&cpu, &layout, &b);
    solver.solve_in_place(&mut x).unwrap();
    assert!(fetch(&cpu, &x, first.shape) == wanted);
    // A refused update changes nothing.
    let mut bad = second.clone();
    bad.lines.shift[0] = -1e3;
    assert!(solver.update(&bad).is_err());
    let mut x = vector(&cpu, &layout, &b);
    solver.solve_in_place(&mut x).unwrap();
    assert!(fetch(&cpu, &x, first.shape) == wanted);
}

#[test]
fn parts_of_grids_have_no_direct_solver() {
    let cpu = Cpu::new(1).unwrap();
    let factors = factors([6, 5, 4], 2, [ENDS[1]; 3], 1.0);
    let part = Slab { first: 0, beyond: 5 }.layout(Shape::new(6, 9, 4), false).unwrap();
    assert!(cpu.direct(&part, &factors).unwrap().is_none());
}
