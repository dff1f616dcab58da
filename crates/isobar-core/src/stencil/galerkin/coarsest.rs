//! The inverse of the coarsest grid's matrix.

use super::couplings::{Couplings, Offset};
use crate::real::{Precision, Real};

/// Returns the fraction of its diagonal below which a pivot is zero, for right-hand sides in this precision: the cell is the last of a component that is
/// decoupled, or held so weakly that the rounding of its right-hand side would outweigh all else. Its other cells have been eliminated.
pub fn singular_pivot(levels: Precision) -> f64 {
    if levels == Precision::F32 { 1e-7 } else { 1e-13 }
}

/// Returns G with A G A = A, dense, row by row in the order of cells (i, then j, then k): A⁻¹ if it exists, and otherwise
/// the inverse of A without one unknown of each decoupled component, with rows and columns of zeros for these. G is
/// symmetric and positive semidefinite.
///
/// Gaussian elimination computes row sums besides couplings (Grassmann, Taksar and Heyman, 1985): if couplings are
/// positive, every number is a sum of positive ones, without cancellation for any contrast.
pub fn inverse<N: Real>(matrix: &Couplings<N>, levels: Precision) -> Vec<f64> {
    let singular = singular_pivot(levels);
    let shape = matrix.grid.shape;
    let n = shape.cells();
    let number = |at: [usize; 3]| shape.number(at);
    // c_ml, to the right of the diagonal; no cell is coupled to one that is further away than `band`.
    let (mut upper, mut band) = (vec![0.0; n * n], 0);
    let (mut sums, mut diagonals) = (vec![0.0; n], vec![0.0; n]);
    let offsets: Vec<Offset> = matrix.offsets().collect();
    for at @ [i, j, k] in shape.places() {
        let m = number(at);
        sums[m] = matrix.sums(j, k as isize)[i + 1].to_f64();
        diagonals[m] += sums[m];
        for &offset in &offsets {
            if let Some(to) = matrix.neighbour(at, offset).filter(|&to| to != at) {
                let (l, coupling) = (number(to), matrix.coupling(at, offset).to_f64());
                diagonals[m] += coupling;
                if l > m {
                    upper[m * n + l] += coupling;
                    band = band.max(l - m);
                }
            }
        }
    }
    let end = |m: usize| (m + band + 1).min(n);
    // Row l of L, to the left of its diagonal, holds c_ml / pivot_m.
    let mut lower = vec![0.0; n * n];
    let mut inverse_pivots = vec![0.0; n];
    for m in 0..n {
        let (row, below) = upper[m * n..].split_at_mut(n);
        let row = &row[m + 1..end(m)];
        let pivot = sums[m] + row.iter().sum::<f64>();
        if pivot <= singular * diagonals[m] || pivot <= 0.0 {
            continue;
        }
        inverse_pivots[m] = 1.0 / pivot;
        for (l, &coupling) in (m + 1..).zip(row).filter(|(_, coupling)| **coupling != 0.0) {
            let factor = coupling * inverse_pivots[m];
            sums[l] += factor * sums[m];
            let other = &mut below[(l - m - 1) * n..][l + 1..end(m)];
            other.iter_mut().zip(&row[l - m..]).for_each(|(c, r)| *c += factor * *r);
            lower[l * n + m] = factor;
        }
    }
    // Computes columns of the inverse from their diagonals on: L y = e, z = D⁻¹ y, Lᵀ x = z, all with the signs of couplings.
    let mut entries = vec![0.0; n * n];
    for column in (0..n).filter(|&column| inverse_pivots[column] > 0.0) {
        let x = &mut entries[column * n..(column + 1) * n];
        x[column] = 1.0;
        for m in column..n {
            x[m] *= inverse_pivots[m];
            let (value, row) = (x[m], &upper[m * n + m + 1..m * n + end(m)]);
            x[m + 1..].iter_mut().zip(row).for_each(|(x, coupling)| *x += coupling * value);
        }
        for l in (column + 1..n).rev() {
            let (value, first) = (x[l], l.saturating_sub(band).max(column));
            let row = &lower[l * n + first..l * n + l];
            x[first..l].iter_mut().zip(row).for_each(|(x, factor)| *x += factor * value);
        }
    }
    for column in 0..n {
        (column + 1..n).for_each(|row| entries[row * n + column] = entries[column * n + row]);
    }
    entries
}
