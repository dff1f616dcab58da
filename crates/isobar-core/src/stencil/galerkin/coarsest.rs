//! The inverse of the coarsest grid's matrix.

use super::couplings::{Couplings, Offset};
use crate::real::Real;

/// A pivot below this fraction of its diagonal is zero: the cell is the last of a decoupled component, whose other cells
/// have been eliminated.
const SINGULAR_PIVOT: f64 = 1e-13;

/// Returns G with A G A = A, dense, row by row in the order of cells (i, then j, then k): A⁻¹ if it exists, and otherwise
/// the inverse of A without one unknown of each decoupled component, with rows and columns of zeros for these. G is
/// symmetric and positive semidefinite.
///
/// Gaussian elimination computes row sums besides couplings (Grassmann, Taksar and Heyman, 1985): if couplings are
/// positive, every number is a sum of positive ones, without cancellation for any contrast.
pub fn inverse<N: Real>(matrix: &Couplings<N>) -> Vec<f64> {
    let shape = matrix.grid.shape;
    let n = shape.cells();
    let number = |at: [usize; 3]| shape.number(at);
    let mut couplings = vec![0.0; n * n];
    let mut sums = vec![0.0; n];
    let offsets: Vec<Offset> = matrix.offsets().collect();
    for at @ [i, j, k] in shape.places() {
        sums[number(at)] = matrix.sums(j, k as isize)[i + 1].to_f64();
        for &offset in &offsets {
            if let Some(to) = matrix.neighbour(at, offset).filter(|&to| to != at) {
                couplings[number(at) * n + number(to)] += matrix.coupling(at, offset).to_f64();
            }
        }
    }
    let diagonals: Vec<f64> = (0..n).map(|m| sums[m] + couplings[m * n..(m + 1) * n].iter().sum::<f64>()).collect();
    // Rows m of L, to the left of its diagonal, hold c_ml / pivot_l.
    let mut inverse_pivots = vec![0.0; n];
    let mut row = vec![0.0; n];
    for m in 0..n {
        row.copy_from_slice(&couplings[m * n..(m + 1) * n]);
        let pivot = sums[m] + row[m + 1..].iter().sum::<f64>();
        let inverse = if pivot > SINGULAR_PIVOT * diagonals[m] && pivot > 0.0 { 1.0 / pivot } else { 0.0 };
        inverse_pivots[m] = inverse;
        for l in m + 1..n {
            let factor = row[l] * inverse;
            if factor == 0.0 {
                continue;
            }
            sums[l] += factor * sums[m];
            let other = &mut couplings[l * n + m + 1..(l + 1) * n];
            other.iter_mut().zip(&row[m + 1..]).for_each(|(c, r)| *c += factor * *r);
            // A cell has no coupling to itself.
            couplings[l * n + l] = 0.0;
            couplings[l * n + m] = factor;
        }
        if inverse == 0.0 {
            (m + 1..n).for_each(|l| couplings[l * n + m] = 0.0);
        }
    }
    // Computes columns of the inverse: L y = e, z = D⁻¹ y, Lᵀ x = z, all with the signs of couplings.
    let mut entries = vec![0.0; n * n];
    for column in 0..n {
        let x = &mut entries[column * n..(column + 1) * n];
        if inverse_pivots[column] == 0.0 {
            continue;
        }
        x[column] = 1.0;
        for l in column + 1..n {
            let row = &couplings[l * n + column..l * n + l];
            x[l] = if inverse_pivots[l] > 0.0 { row.iter().zip(&x[column..l]).map(|(a, b)| a * b).sum() } else { 0.0 };
        }
        x.iter_mut().zip(&inverse_pivots).for_each(|(x, pivot)| *x *= pivot);
        for l in (1..n).rev() {
            let (value, row) = (x[l], &couplings[l * n..l * n + l]);
            if value != 0.0 {
                x[..l].iter_mut().zip(row).for_each(|(x, factor)| *x += factor * value);
            }
        }
        x.iter_mut().zip(&inverse_pivots).for_each(|(x, &pivot)| *x = if pivot > 0.0 { *x } else { 0.0 });
    }
    entries
}
