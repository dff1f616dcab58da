//! Eigenvalues in closed form, residuals and orthogonality.

use super::*;
use crate::problem::random;

/// Asserts ‖A V − V Λ‖ ≤ slack ‖A‖ and ‖VᵀV − 1‖ ≤ slack, entry by entry.
#[track_caller]
fn assert_eigen(eigen: &Eigen, diagonal: &[f64], beside: &[f64], slack: f64) {
    let n = diagonal.len();
    assert!(eigen.values.is_sorted() && eigen.values.len() == n && eigen.vectors.len() == n * n);
    let largest = eigen.values.iter().fold(0.0, |most: f64, value| most.max(value.abs()));
    let vector = |m: usize| &eigen.vectors[m * n..][..n];
    for m in 0..n {
        let (v, lambda) = (vector(m), eigen.values[m]);
        for k in 0..n {
            let below = if k > 0 { beside[k - 1] * v[k - 1] } else { 0.0 };
            let above = if k + 1 < n { beside[k] * v[k + 1] } else { 0.0 };
            let residual = diagonal[k] * v[k] + below + above - lambda * v[k];
            assert!(residual.abs() <= slack * largest, "{m} {k}: residual {residual:e} of {largest:e}");
        }
        for k in 0..=m {
            let product: f64 = v.iter().zip(vector(k)).map(|(a, b)| a * b).sum();
            assert!((product - f64::from(u8::from(k == m))).abs() <= slack, "{m} {k}: {product:e}");
        }
    }
}

/// Computes RᵀR.
fn squared(d: &[f64], e: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let diagonal = (0..d.len()).map(|k| d[k] * d[k] + if k > 0 { e[k - 1] * e[k - 1] } else { 0.0 });
    (diagonal.collect(), d.iter().zip(e).map(|(d, e)| d * e).collect())
}

/// Uses −1, 2, −1 and its Cholesky factor, whose entries are √((k + 2)/(k + 1)).
#[test]
fn the_second_difference_has_eigenvalues_in_closed_form() {
    for n in [1, 2, 3, 5, 16, 17, 64, 257, 512] {
        let d: Vec<f64> = (0..n).map(|k| ((k + 2) as f64 / (k + 1) as f64).sqrt()).collect();
        let e: Vec<f64> = d[..n - 1].iter().map(|d| -1.0 / d).collect();
        let (diagonal, beside) = (vec![2.0; n], vec![-1.0; n - 1]);
        let (of_factor, of_matrix) = (of_factor(&d, &e).unwrap(), symmetric(&diagonal, &beside).unwrap());
        for m in 0..n {
            let sine = (std::f64::consts::FRAC_PI_2 * (m + 1) as f64 / (n + 1) as f64).sin();
            let exact = 4.0 * sine * sine;
            // The factor gives the smallest, 10⁵ times smaller, as precisely as the largest.
            let (one, other) = (of_factor.values[m], of_matrix.values[m]);
            assert!((one / exact - 1.0).abs() < 2e-13, "{n} {m}: {one} {exact}");
            assert!((other - exact).abs() < 4e-14, "{n} {m}: {other} {exact}");
        }
        assert_eigen(&of_factor, &diagonal, &beside, 2e-14);
        assert_eigen(&of_matrix, &diagonal, &beside, 4e-14);
    }
}

#[test]
fn entries_over_many_orders_of_magnitude() {
    for (n, decades) in [(40, -12.0), (40, 12.0), (512, -12.0), (512, 12.0), (64, 200.0), (64, -200.0)] {
        let d: Vec<f64> = (0..n).map(|k| 10f64.powf(0.5 * decades * k as f64 / n as f64)).collect();
        let e: Vec<f64> = d[..n - 1].iter().map(|d| -0.7 * d).collect();
        let eigen = of_factor(&d, &e).unwrap();
        let (diagonal, beside) = squared(&d, &e);
        assert_eigen(&eigen, &diagonal, &beside, 5e-14);
        // The smallest counts as much as the largest in det RᵀR.
        let logarithm = |values: &[f64]| values.iter().map(|value| value.ln()).sum::<f64>();
        let (found, expected) = (logarithm(&eigen.values), 2.0 * logarithm(&d));
        assert!((found - expected).abs() < 1e-10, "{n} {decades}: {found} {expected}");
    }
}

#[test]
fn zeros_and_blocks() {
    // A column of zeros anywhere is one vector of the null space.
    for zero in [0, 1, 4, 8] {
        let (mut d, e) = (vec![1.5; 9], vec![-0.5; 8]);
        d[zero] = 0.0;
        let eigen = of_factor(&d, &e).unwrap();
        let (diagonal, beside) = squared(&d, &e);
        assert_eigen(&eigen, &diagonal, &beside, 1e-14);
        assert!(eigen.values[0] < 1e-30 && eigen.values[1] > 1e-3, "{:?}", eigen.values);
    }
    let blocks = ([3.0, 1.0, 2.0, 2.0, 2.0, 5.0], [0.0, 0.5, 0.0, 0.0, 1e-200]);
    assert_eigen(
        &of_factor(&blocks.0, &blocks.1).unwrap(),
        &squared(&blocks.0, &blocks.1).0,
        &squared(&blocks.0, &blocks.1).1,
        1e-15,
    );
    assert_eq!(of_factor(&[0.0; 3], &[0.0; 2]).unwrap().values, [0.0; 3]);
    assert!(of_factor(&[], &[]).unwrap().vectors.is_empty());
    assert!(of_factor(&[1.0, f64::NAN, 1.0], &[1.0, 1.0]).is_none());
    assert!(of_factor(&[1.0, f64::INFINITY], &[1.0]).is_none());
}

#[test]
fn symmetric_matrices_that_are_not_definite() {
    for n in [1, 2, 7, 50, 130] {
        let diagonal: Vec<f64> = (0..n).map(|k| 3.0 * random(1, k)).collect();
        let beside: Vec<f64> = (0..n - 1).map(|k| random(2, k)).collect();
        let eigen = symmetric(&diagonal, &beside).unwrap();
        assert_eigen(&eigen, &diagonal, &beside, 4e-14);
        let trace: f64 = diagonal.iter().sum();
        assert!((eigen.values.iter().sum::<f64>() - trace).abs() < 1e-12 * n as f64);
    }
    assert_eq!(symmetric(&[0.0; 2], &[0.0]).unwrap().values, [0.0; 2]);
}
