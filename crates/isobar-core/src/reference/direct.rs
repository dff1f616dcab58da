//! Direct solves of separable matrices, by products with all eigenvectors.

use std::sync::{Arc, Mutex};

use super::{Reference, Vector};
use crate::backend::{DirectSolver, SharedDirect};
use crate::direct::{Basis, Separable};
use crate::error::Result;

/// A separable box, solved line by line.
struct Box3 {
    factors: Separable,
    bases: [Basis; 2],
    /// The entries of the bases of both transformed axes.
    vectors: [Vec<f64>; 2],
}

/// Makes the solver of a separable matrix.
pub(super) fn direct(factors: &Separable) -> Result<SharedDirect<Reference>> {
    Ok(Arc::new(Mutex::new(Box3::new(factors)?)))
}

impl Box3 {
    fn new(factors: &Separable) -> Result<Self> {
        let bases = factors.bases()?;
        Ok(Self { vectors: bases.each_ref().map(Basis::vectors), bases, factors: factors.clone() })
    }

    /// Returns the start of each line of an axis in an array in C order.
    fn lines(&self, axis: usize) -> impl Iterator<Item = usize> + use<> {
        let (cells, stride, n) = (self.factors.shape.cells(), self.factors.stride(axis), self.factors.extent(axis));
        (0..cells).filter(move |cell| (cell / stride).is_multiple_of(n))
    }

    /// Computes x̂_k = Σ_i S_ik x_i along an axis, or x_i = Σ_k S_ik x̂_k.
    fn transform(&self, which: usize, is_back: bool, x: &mut [f64]) {
        let (axis, vectors) = (self.factors.across[which], &self.vectors[which]);
        let (n, stride) = (self.factors.extent(axis), self.factors.stride(axis));
        for first in self.lines(axis) {
            let line: Vec<f64> = (0..n).map(|i| x[first + i * stride]).collect();
            for m in 0..n {
                let entry = |other: usize| if is_back { vectors[other * n + m] } else { vectors[m * n + other] };
                x[first + m * stride] = (0..n).map(|other| entry(other) * line[other]).sum();
            }
        }
    }

    /// Solves T + μ D_a + ν D_b along every line.
    fn solve_lines(&self, x: &mut [f64]) {
        let Separable { line, across, lines, .. } = &self.factors;
        let (n, stride) = (lines.len(), self.factors.stride(*line));
        for first in self.lines(*line) {
            let of = |which: usize| {
                let axis = across[which];
                self.bases[which].values()[first / self.factors.stride(axis) % self.factors.extent(axis)]
            };
            let pivots: Vec<_> = lines.pivots([of(0), of(1)]).collect();
            let at = |k: usize| first + k * stride;
            for (k, pivot) in pivots.iter().enumerate().take(n - 1) {
                x[at(k + 1)] += pivot.next * x[at(k)];
                x[at(n - 1)] += pivot.last * x[at(k)];
            }
            x[at(n - 1)] *= pivots[n - 1].inverse;
            for k in (0..n - 1).rev() {
                x[at(k)] = pivots[k].inverse * x[at(k)] + pivots[k].next * x[at(k + 1)] + pivots[k].last * x[at(n - 1)];
            }
        }
    }

    fn solve_array(&self, x: &mut [f64]) {
        self.transform(0, false, x);
        self.transform(1, false, x);
        self.solve_lines(x);
        self.transform(1, true, x);
        self.transform(0, true, x);
    }
}

impl DirectSolver<Reference> for Box3 {
    fn solve(&mut self, b: &Vector<f64>, u: &mut Vector<f64>) -> Result<()> {
        u.all_entries_mut().copy_from_slice(b.all_entries());
        self.solve_in_place(u)
    }

    fn solve_in_place(&mut self, x: &mut Vector<f64>) -> Result<()> {
        let shape = self.factors.shape;
        let mut array: Vec<f64> = shape.places().map(|[i, j, k]| x.get(i, j, k)).collect();
        self.solve_array(&mut array);
        x.fill_with(|i, j, k| array[shape.number([i % shape.nx, j % shape.ny, k])]);
        Ok(())
    }

    fn update(&mut self, factors: &Separable) -> Result<()> {
        *self = Self::new(factors)?;
        Ok(())
    }

    fn describe(&self) -> String {
        self.factors.describe(&self.bases, |_| "products with its eigenvectors")
    }

    fn bytes(&self) -> usize {
        self.bases.iter().map(|basis| basis.len() * basis.len() * size_of::<f64>()).sum()
    }
}
