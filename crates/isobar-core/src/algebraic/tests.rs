//! Tests of algebraic multigrid on matrices of grids.

use super::*;
use crate::execute::{Host, Serial};
use crate::problem::random;

/// Makes the matrix of n × m cells with these coefficients, and a row sum of its own for each.
fn plane(
    n: usize,
    m: usize,
    coefficient: impl Fn(usize, usize) -> f64 + Sync,
    sum: impl Fn(usize) -> f64 + Sync,
) -> Couplings {
    Couplings::of_rows(&Serial, n * m, |k, row| {
        let (i, j) = (k % n, k / n);
        let here = coefficient(i, j);
        row.sum = sum(k);
        let neighbours = [(i > 0).then(|| (i - 1, j)), (i + 1 < n).then(|| (i + 1, j)), (j > 0).then(|| (i, j - 1))];
        for (i, j) in neighbours.into_iter().chain([(j + 1 < m).then(|| (i, j + 1))]).flatten() {
            let there = coefficient(i, j);
            if here * there > 0.0 {
                row.couplings.push(((i + n * j) as u32, here * there / (here + there)));
            }
        }
    })
}

/// Returns the iterations to 10⁻⁸ of a right-hand side within the range of the matrix.
fn iterations(matrix: impl Fn() -> Couplings, execute: &(impl Execute + Copy)) -> usize {
    let wanted: Vec<f64> = (0..matrix().rows()).map(|k| random(7, k)).collect();
    let mut b = vec![0.0; wanted.len()];
    matrix().multiply(execute, &wanted, &mut b);
    iterations_to(matrix, b, execute)
}

/// Solves by flexible conjugate gradients; returns the iterations to 10⁻⁸.
fn iterations_to(matrix: impl Fn() -> Couplings, mut r: Vec<f64>, execute: &(impl Execute + Copy)) -> usize {
    let (a, mut levels) = (matrix(), Levels::new(execute, matrix()));
    let dot = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>();
    let [mut z, mut p, mut q] = [(); 3].map(|()| vec![0.0; r.len()]);
    let (first, mut sigma) = (dot(&r, &r), 1.0);
    for iteration in 0..200 {
        if dot(&r, &r) <= 1e-16 * first {
            return iteration;
        }
        levels.cycle(execute, &r, &mut z);
        let beta = -dot(&z, &q) / sigma;
        p.iter_mut().zip(&z).for_each(|(p, z)| *p = z + beta * *p);
        a.multiply(execute, &p, &mut q);
        sigma = dot(&p, &q);
        let alpha = dot(&p, &r) / sigma;
        r.iter_mut().zip(&q).for_each(|(r, q)| *r -= alpha * q);
    }
    200
}

/// The coefficients that geometric coarse grids do not see.
fn hard(kind: usize) -> impl Fn(usize, usize) -> f64 + Sync + Copy {
    move |i, j| {
        let random = random(3, i + 1000 * j);
        match kind {
            0 => 1.0,
            1 => {
                if (i + j) % 3 < 1 {
                    1e-6
                } else {
                    1.0
                }
            }
            2 => {
                if random > 0.0 {
                    1.0
                } else {
                    1e12
                }
            }
            3 => f64::from(random > -0.25),
            _ => 10f64.powf(6.0 * random),
        }
    }
}

#[test]
fn iterations_do_not_depend_on_coefficients_or_size() {
    for kind in 0..5 {
        for (n, m) in [(20, 30), (97, 113), (300, 200)] {
            let held = iterations(|| plane(n, m, hard(kind), |k| if k < n { 2.0 } else { 0.0 }), &Serial);
            let floating = iterations(|| plane(n, m, hard(kind), |_| 0.0), &Serial);
            assert!(held.max(floating) <= 30, "kind {kind}, {n} × {m}: {held}, {floating}");
        }
    }
}

#[test]
fn threads_change_no_bit() {
    let matrix = || plane(311, 207, hard(4), |k| 1e-3 * k as f64);
    let [mut alone, mut shared] = [Levels::new(&Serial, matrix()), Levels::new(&Host, matrix())];
    let r: Vec<f64> = (0..matrix().rows()).map(|k| random(5, k)).collect();
    let [mut a, mut b] = [vec![f64::NAN; r.len()], vec![f64::NAN; r.len()]];
    alone.cycle(&Serial, &r, &mut a);
    shared.cycle(&Host, &r, &mut b);
    assert!(alone.sizes().eq(shared.sizes()) && alone.sizes().count() > 4);
    assert_eq!(a, b);
    // It may be used again after a right-hand side without numbers.
    alone.cycle(&Serial, &vec![f64::INFINITY; r.len()], &mut b);
    alone.cycle(&Serial, &r, &mut b);
    assert_eq!(a, b);
}

#[test]
fn small_matrices_are_eliminated() {
    // A floating chain of three, a single unknown that is held and one that is not.
    let matrix = Couplings::of_rows(&Serial, 5, |k, row| match k {
        0 => row.couplings.push((1, 2.0)),
        1 => row.couplings.extend([(0, 2.0), (2, 0.5)]),
        2 => row.couplings.push((1, 0.5)),
        3 => row.sum = 4.0,
        _ => {}
    });
    let mut levels = Levels::new(&Serial, matrix);
    let mut z = [f64::NAN; 5];
    levels.cycle(&Serial, &[1.0, 0.0, -1.0, 2.0, 0.0], &mut z);
    assert!((z[0] - z[1] - 0.5).abs() < 1e-14 && (z[1] - z[2] - 2.0).abs() < 1e-14, "{z:?}");
    assert_eq!((z[3], z[4]), (0.5, 0.0));
    levels = Levels::new(&Serial, Couplings::empty());
    levels.cycle(&Serial, &[], &mut []);
}

#[test]
fn dominant_rows_are_left_to_the_sweep() {
    let levels = Levels::new(&Serial, plane(50, 50, hard(0), |_| 100.0));
    assert_eq!(levels.sizes().collect::<Vec<_>>(), [2500, 0]);
}

/// Checks that a level stops at couplings that are weak beside those within its aggregates, where sweeps of the next level are needed.
#[test]
fn iterations_do_not_depend_on_the_strength_of_a_direction() {
    let shape = [29, 31, 5];
    let place = |k: usize| [k % shape[0], k / shape[0] % shape[1], k / shape[0] / shape[1]];
    let neighbours = |k: usize| {
        let at = place(k);
        let strides = [1, shape[0], shape[0] * shape[1]];
        let upper = (0..3).filter(move |&d| at[d] + 1 < shape[d]).map(move |d| (d, k + strides[d]));
        upper.chain((0..3).filter(move |&d| at[d] > 0).map(move |d| (d, k - strides[d])))
    };
    for strong in [1.0, 1e4, 1e8] {
        let matrix = || {
            Couplings::of_rows(&Serial, shape.iter().product(), |k, row| {
                let coupling = |(d, l): (usize, usize)| (l as u32, if d == 1 { 1.0 } else { 1.0 / strong });
                row.couplings.extend(neighbours(k).map(coupling));
            })
        };
        let mut b: Vec<f64> = (0..matrix().rows()).map(|k| random(7, k)).collect();
        let mean = b.iter().sum::<f64>() / b.len() as f64;
        b.iter_mut().for_each(|b| *b -= mean);
        let taken = iterations_to(matrix, b, &Serial);
        assert!(taken <= 25, "{strong}: {taken}");
    }
}
