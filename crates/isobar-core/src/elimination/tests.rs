//! Tests by residuals, inverses in closed form, and the sparsity of the factors.

use super::*;
use crate::problem::random;

type Couplings = Vec<(usize, usize, f64)>;

fn square(n: usize, of: impl Fn(usize) -> f64) -> Couplings {
    let at = |i: usize, j: usize| i + n * j;
    let cells = (0..n).flat_map(|j| (0..n).map(move |i| (i, j)));
    let pairs = cells.flat_map(|(i, j)| {
        [(i + 1 < n).then(|| (at(i, j), at(i + 1, j))), (j + 1 < n).then(|| (at(i, j), at(i, j + 1)))]
    });
    pairs.flatten().enumerate().map(|(pair, (k, l))| (k, l, of(pair))).collect()
}

/// Computes A⁻¹ b in the order of the unknowns.
fn solve<const W: usize>(elimination: &Elimination, b: &[[f64; W]]) -> Vec<[f64; W]> {
    let mut x: Vec<_> = elimination.order.iter().map(|&k| b[k as usize]).collect();
    elimination.solve(&mut x);
    places(&elimination.order).iter().map(|&place| x[place as usize]).collect()
}

/// Asserts that b − A x is rounding of its terms.
#[track_caller]
fn assert_solves(sums: &[f64], couplings: &[(usize, usize, f64)]) -> Elimination {
    let elimination = Elimination::new(sums, couplings).unwrap();
    let b: Vec<[f64; 3]> = (0..sums.len()).map(|n| [1.0, random(1, n), f64::from(u8::from(n == 0))]).collect();
    let x = solve(&elimination, &b);
    for w in 0..3 {
        let mut residual: Vec<f64> = (0..sums.len()).map(|n| b[n][w] - sums[n] * x[n][w]).collect();
        let mut size: Vec<f64> = (0..sums.len()).map(|n| b[n][w].abs() + (sums[n] * x[n][w]).abs()).collect();
        for &(k, l, c) in couplings {
            let flow = c * (x[k][w] - x[l][w]);
            residual[k] -= flow;
            residual[l] += flow;
            size[k] += c * (x[k][w].abs() + x[l][w].abs());
            size[l] += c * (x[k][w].abs() + x[l][w].abs());
        }
        for (n, (residual, size)) in residual.iter().zip(&size).enumerate() {
            assert!(residual.abs() <= 1e-13 * size, "{n}: {residual:e} of {size:e}");
        }
    }
    elimination
}

#[test]
fn graphs_of_all_kinds() {
    assert_solves(&[2.0], &[]);
    assert_solves(&[2.0, 0.0], &[(1, 0, 3.0)]);
    assert_solves(&[1.0; 7], &[]);
    for n in [2, 3, 8, 31] {
        assert_solves(&vec![0.1; n * n], &square(n, |pair| 1.0 + random(3, pair)));
    }
    for seed in 0..20 {
        let number = |k: usize, most: usize| (0.5 * (1.0 + random(seed, k)) * most as f64) as usize % most;
        let n = 2 + number(0, 60);
        let mut pairs: Vec<_> = (1..n).map(|k| (k, number(k, k))).collect();
        pairs.extend((0..2 * n).map(|k| (number(100 + k, n), number(500 + k, n))).filter(|(k, l)| k > l));
        pairs.sort_unstable();
        pairs.dedup();
        let couplings: Vec<_> =
            pairs.iter().enumerate().map(|(p, &(k, l))| (k, l, 10f64.powf(3.0 * random(9, p)))).collect();
        let mut sums = vec![0.0; n];
        sums[number(1, n)] = 1e-3;
        assert_solves(&sums, &couplings);
    }
}

/// Checks a chain with a shift at one end, in which x is a sum of resistances.
#[test]
fn no_contrast_is_too_large() {
    for contrast in [1.0, 1e8, 1e16, 1e100] {
        let n = 60;
        let coupling = |k: usize| if k.is_multiple_of(2) { contrast } else { 1.0 / contrast };
        let couplings: Couplings = (1..n).map(|k| (k, k - 1, coupling(k))).collect();
        let mut sums = vec![0.0; n];
        sums[0] = 1e-3;
        let elimination = Elimination::new(&sums, &couplings).unwrap();
        let x = solve(&elimination, &vec![[1.0]; n]);
        let mut exact = n as f64 / 1e-3;
        for (k, [x]) in x.iter().enumerate() {
            if k > 0 {
                exact += (n - k) as f64 / coupling(k);
            }
            assert!((x / exact - 1.0).abs() < 1e-13, "{contrast:e} {k}: {x} {exact}");
        }
    }
}

#[test]
fn what_is_tied_to_nothing_has_no_inverse() {
    assert!(Elimination::new(&[0.0; 3], &[]).is_none());
    assert!(Elimination::new(&[0.0; 4], &square(2, |_| 1.0)).is_none());
    assert!(Elimination::new(&[f64::NAN; 4], &square(2, |_| 1.0)).is_none());
}

#[test]
fn factors_are_sparse() {
    // A hub and its spokes, and a tree, fill nothing in.
    let star: Couplings = (1..3000).map(|k| (k, 0, 1.0)).collect();
    assert_eq!(assert_solves(&[1e-2; 3000], &star).rows.len(), 2999);
    let tree: Couplings = (1..3000).map(|k| (k, (k - 1) / 2, 1.0)).collect();
    assert_eq!(assert_solves(&[1e-2; 3000], &tree).rows.len(), 2999);
    // A square: nested dissection takes 31/4 n² log₂ n (George, 1973); a band would be 10⁶.
    let n = 100;
    let entries = assert_solves(&vec![1e-2; n * n], &square(n, |_| 1.0)).rows.len();
    assert!(entries < 300_000, "{entries}");
}
