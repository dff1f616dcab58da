//! The tridiagonal systems that remain after the transforms.

use crate::error::{Error, Result};
use crate::execute::{Host, find_in_rows};

/// The systems T + μ D_a + ν D_b along one axis, for every pair of eigenvalues: (T v)_k = σ_k v_k + Σ t (v_k − v_neighbour).
#[derive(Clone, Debug, PartialEq)]
pub struct Lines {
    /// The shifts σ, one per cell.
    pub shift: Vec<f64>,
    /// The couplings t between a cell and the next; the last one is across the periodic end, else 0.
    pub couplings: Vec<f64>,
    /// The factors D_a and D_b, one number per cell each.
    pub weights: [Vec<f64>; 2],
    /// The least distance of pivots from 0: closer ones are moved away, and refinement corrects the effect; 0 if no pivot is negative.
    pub least_pivot: f64,
}

/// A row of the elimination, cell by cell, with the last cell eliminated last because a periodic axis couples it to the first.
///
/// Row sums are carried along instead of diagonal entries, so that all numbers are sums and products of positive ones and small eigenvalues
/// keep all their digits:
///
/// ```text
/// p_k = e_k + t_k + w_k;   e_{k+1} += t_k e_k / p_k;   w_{k+1} = t_k w_k / p_k;   e_last += w_k e_k / p_k
/// ```
///
/// with e the row sum of the remaining matrix, w the coupling to the last cell.
#[derive(Clone, Copy, Debug)]
pub struct Pivot {
    /// 1 / p
    pub inverse: f64,
    /// t / p, the coefficient of the next cell
    pub next: f64,
    /// w / p, the coefficient of the last cell
    pub last: f64,
}

impl Lines {
    /// Returns the number of cells.
    pub fn len(&self) -> usize {
        self.shift.len()
    }

    /// Returns whether there is no cell, which no grid has.
    pub fn is_empty(&self) -> bool {
        self.shift.is_empty()
    }

    /// Returns whether the axis is periodic.
    pub fn is_periodic(&self) -> bool {
        self.couplings.last().is_some_and(|&around| around != 0.0)
    }

    /// Computes the pivots of one pair of eigenvalues. A last pivot of 0, that of the constant in a singular system, gets the inverse 0,
    /// and its cell the value 0.
    pub fn pivots(&self, [mu, nu]: [f64; 2]) -> impl Iterator<Item = Pivot> + '_ {
        let last = self.len() - 1;
        let row_sum = move |k: usize| self.shift[k] + mu * self.weights[0][k] + nu * self.weights[1][k];
        let (mut excess, mut to_last, mut last_excess) = (0.0, self.couplings[last], row_sum(last));
        (0..=last).map(move |k| {
            if k == last {
                // Row k − 1 has computed this sum already.
                let inverse = if last_excess == 0.0 { 0.0 } else { 1.0 / self.moved(last_excess) };
                return Pivot { inverse, next: 0.0, last: 0.0 };
            }
            excess += row_sum(k);
            let mut coupling = self.couplings[k];
            if k + 1 == last {
                (to_last, coupling) = (to_last + coupling, 0.0);
            }
            let inverse = 1.0 / self.moved(excess + coupling + to_last);
            let pivot = Pivot { inverse, next: coupling * inverse, last: to_last * inverse };
            last_excess += pivot.last * excess;
            excess *= pivot.next;
            to_last *= pivot.next;
            pivot
        })
    }

    /// Moves a pivot far enough from 0.
    fn moved(&self, pivot: f64) -> f64 {
        if pivot.abs() < self.least_pivot { self.least_pivot.copysign(pivot) } else { pivot }
    }

    /// Fails if elimination with the smallest eigenvalues meets a pivot that is not positive.
    pub(super) fn check(&self, least: [f64; 2], is_singular: bool) -> Result<()> {
        let last = self.len() - 1;
        for (k, pivot) in self.pivots(least).enumerate() {
            let is_constant = is_singular && k == last;
            if !(pivot.inverse > 0.0 && pivot.inverse.is_finite() || is_constant) {
                return Err(Error::invalid(
                    "solver.method",
                    format!(
                        "\"direct\" needs a positive definite matrix where no reaction is negative, and elimination meets the pivot \
                         {:.3e} in cell {k} of its lines; use \"multigrid\"",
                        1.0 / pivot.inverse
                    ),
                ));
            }
        }
        Ok(())
    }

    /// Fails if an indefinite matrix has a zero eigenvalue, judged by the last pivots of all lines.
    pub(super) fn check_indefinite(&self, values: [&[f64]; 2]) -> Result<()> {
        /// A pivot below this fraction of its terms is rounding.
        const VANISHING: f64 = 1e-12;
        let last = self.len() - 1;
        let size = |mu: f64, nu: f64| {
            let couplings = self.couplings[last] + if last > 0 { self.couplings[last - 1] } else { 0.0 };
            couplings + self.shift[last].abs() + mu * self.weights[0][last] + nu * self.weights[1][last]
        };
        let vanishing = |mu: f64, nu: f64| {
            let pivot = self.pivots([mu, nu]).last().map_or(0.0, |pivot| 1.0 / pivot.inverse);
            let is_apart = pivot.abs() > self.least_pivot.max(VANISHING * size(mu, nu));
            if is_apart { None } else { Some(pivot) }
        };
        let found = find_in_rows(&Host, values[1].len(), values[0].len() * self.len(), |some| {
            let of = |nu: f64| values[0].iter().find_map(|&mu| vanishing(mu, nu).map(|pivot| [mu, nu, pivot]));
            values[1][some].iter().copied().find_map(of)
        });
        let Some([mu, nu, pivot]) = found else { return Ok(()) };
        Err(Error::invalid(
            "diffusion.reaction",
            format!(
                "the matrix has an eigenvalue that vanishes: with the eigenvalues {mu:.6e} and {nu:.6e} of two axes, the last pivot along \
                 the third is {pivot:.1e} where its row has numbers of {:.1e}. The problem has either no solution or infinitely \
                 many; change the reaction slightly",
                size(mu, nu)
            ),
        ))
    }
}
