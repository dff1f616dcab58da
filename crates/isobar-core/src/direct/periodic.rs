//! Eigenvectors of a stretched periodic axis, whose matrix has two corner entries besides its three diagonals.

use super::axis::AxisMatrix;
use crate::eigen::{self, Eigen};

/// Computes the eigenvalues and eigenvectors of M^−½ K M^−½ by Householder's tridiagonalisation: about 3 n³ operations, λ to about ε ‖A‖.
pub(super) fn decompose(matrix: &AxisMatrix) -> Option<Eigen> {
    let AxisMatrix { mass, shift, couplings } = matrix;
    let n = mass.len();
    let mut a = vec![0.0; n * n];
    for i in 0..n {
        let next = (i + 1) % n;
        a[i * n + i] += shift[i] + couplings[i];
        a[next * n + next] += couplings[i];
        a[i * n + next] -= couplings[i];
        a[next * n + i] -= couplings[i];
    }
    for i in 0..n {
        for j in 0..n {
            a[i * n + j] /= (mass[i] * mass[j]).sqrt();
        }
    }
    let (diagonal, beside, reflectors) = reduce(&mut a, n);
    let Eigen { values, mut vectors } = eigen::symmetric(&diagonal, &beside)?;
    for vector in vectors.chunks_exact_mut(n) {
        for (first, v) in reflectors.iter().rev() {
            reflect(v, &mut vector[*first..]);
        }
    }
    Some(Eigen { values, vectors })
}

/// Computes x −= 2 v ⟨v, x⟩, v of length 1.
fn reflect(v: &[f64], x: &mut [f64]) {
    let dot: f64 = v.iter().zip(&*x).map(|(v, x)| v * x).sum();
    x.iter_mut().zip(v).for_each(|(x, v)| *x -= 2.0 * dot * v);
}

/// Householder vectors of length 1, each with the index that its first entry acts on.
type Reflectors = Vec<(usize, Vec<f64>)>;

/// Computes the three diagonals of Qᵀ A Q, and the reflections whose product is Q.
fn reduce(a: &mut [f64], n: usize) -> (Vec<f64>, Vec<f64>, Reflectors) {
    let (mut beside, mut reflectors) = (Vec::with_capacity(n), Vec::new());
    for k in 0..n.saturating_sub(1) {
        let mut v: Vec<f64> = (k + 1..n).map(|i| a[i * n + k]).collect();
        let length = v.iter().map(|x| x * x).sum::<f64>().sqrt();
        let rest = v[1..].iter().fold(0f64, |most, x| most.max(x.abs()));
        if rest == 0.0 {
            beside.push(v[0]);
            continue;
        }
        let target = -length.copysign(v[0]);
        beside.push(target);
        v[0] -= target;
        let norm = v.iter().map(|x| x * x).sum::<f64>().sqrt();
        v.iter_mut().for_each(|x| *x /= norm);
        // A −= v wᵀ + w vᵀ on the remaining matrix, with w = 2 (A v − v ⟨v, A v⟩).
        let first = k + 1;
        let mut w: Vec<f64> =
            (first..n).map(|i| a[i * n + first..(i + 1) * n].iter().zip(&v).map(|(a, v)| a * v).sum()).collect();
        let along: f64 = w.iter().zip(&v).map(|(w, v)| w * v).sum();
        w.iter_mut().zip(&v).for_each(|(w, v)| *w = 2.0 * (*w - along * v));
        for (i, row) in a.chunks_exact_mut(n).enumerate().skip(first) {
            let (vi, wi) = (v[i - first], w[i - first]);
            for ((entry, v), w) in row[first..].iter_mut().zip(&v).zip(&w) {
                *entry -= vi * w + wi * v;
            }
        }
        reflectors.push((first, v));
    }
    ((0..n).map(|i| a[i * n + i]).collect(), beside, reflectors)
}
