//! Steps with the strict triangular parts of a matrix, row by row, in the order of unknowns.

use super::seven_point::{At, Plain, Rows, SevenPoint, diagonal, fill, get, inverse};
use super::{Reference, Vector};
use crate::operator::Triangular;
use crate::operator::triangular::singular_pivot;
use crate::{Real, Result, Shape, Sum};

impl<S: SevenPoint, T: Real> Triangular<Reference, T> for Plain<S, T> {
    fn relax_lower(&self, r: &Vector<T>, [w, v]: [&mut Vector<T>; 2], rho: Option<Sum<'_, Reference>>) -> Result<()> {
        let state = self.state();
        let mut sum = 0.0;
        fill(v, |at| {
            let lower = state.rows.couplings(at).into_iter().flatten().filter(|n| !n.higher);
            let diagonal = diagonal(&state.rows, at);
            let value = lower.fold(get(r)(at), |sum, n| sum + n.t * get(w)(n.to)) * inverse(diagonal);
            sum += diagonal.to_f64() * value.to_f64() * value.to_f64();
            value
        });
        if let Some((scalar, scalars)) = rho {
            scalars.reduce(scalar, [sum]);
        }
        Ok(())
    }

    fn relax_upper(&self, v: &mut Vector<T>, w: Option<&mut Vector<T>>, z: &mut Vector<T>) -> Result<()> {
        let (state, v) = (self.state(), &*v);
        let w = w.map_or(v, |w| &*w);
        fill(z, |at| {
            let upper = state.rows.couplings(at).into_iter().flatten().filter(|n| n.higher);
            get(v)(at) + upper.fold(T::ZERO, |sum, n| sum + n.t * get(w)(n.to)) * inverse(diagonal(&state.rows, at))
        });
        Ok(())
    }

    fn incomplete_poisson(
        &self,
        scaled: bool,
        inverse_diagonal: &Vector<T>,
        [r, z]: [&mut Vector<T>; 2],
    ) -> Result<()> {
        let state = self.state();
        fill(z, |at| {
            let (mut squares, mut sum) = (T::ZERO, T::ZERO);
            let here = get(inverse_diagonal)(at);
            for n in state.rows.couplings(at).into_iter().flatten() {
                let there = get(inverse_diagonal)(n.to);
                let weight = if scaled { n.t * here * there } else { n.t * if n.higher { here } else { there } };
                sum += weight * get(r)(n.to);
                if !n.higher {
                    squares += if scaled { weight * n.t } else { weight * weight };
                }
            }
            // Scaled: (r/d)(1 + Σ T²/(d d_m)), and weight · T is T²/(d d_m).
            sum + get(r)(at) * if scaled { here * (T::ONE + squares) } else { T::ONE + squares }
        });
        Ok(())
    }

    fn factorise(&self, block: usize, relaxation: f64, inverse_pivots: &mut Vector<T>) -> Result<()> {
        let (state, omega) = (self.state(), T::from_f64(relaxation));
        // Computes Σ T over the upper neighbours in the same block.
        let upper_sum = |at: At| {
            let couplings = state.rows.couplings(at).into_iter().flatten();
            let upper = couplings.filter(|n| n.higher && self.is_in_block(block, at, n.to));
            upper.fold(T::ZERO, |sum, n| sum + n.t)
        };
        for at @ [i, j, k] in self.layout.shape().places() {
            let (mut pivot, mut diagonal) = (state.rows.shift(at), state.rows.shift(at));
            for n in state.rows.couplings(at).into_iter().flatten() {
                diagonal += n.t;
                let is_lower = !n.higher && self.is_in_block(block, at, n.to);
                pivot += if is_lower {
                    let left_out = omega * (upper_sum(n.to) - n.t);
                    n.t * (T::ONE - (n.t + left_out) * get(inverse_pivots)(n.to))
                } else {
                    n.t
                };
            }
            let is_regular = pivot > T::from_f64(singular_pivot::<T>()) * diagonal;
            inverse_pivots.set(i, j, k, inverse(if is_regular { pivot } else { diagonal }));
        }
        Ok(())
    }

    fn substitute(&self, block: usize, inverse_pivots: &Vector<T>, r: &Vector<T>, z: &mut Vector<T>) -> Result<()> {
        let state = self.state();
        let cells: Vec<At> = self.layout.shape().places().collect();
        for &at @ [i, j, k] in &cells {
            let couplings = state.rows.couplings(at).into_iter().flatten();
            let within = couplings.filter(|n| !n.higher && self.is_in_block(block, at, n.to));
            let sum = within.fold(get(r)(at), |sum, n| sum + n.t * get(z)(n.to));
            z.set(i, j, k, sum * get(inverse_pivots)(at));
        }
        for &at @ [i, j, k] in cells.iter().rev() {
            let couplings = state.rows.couplings(at).into_iter().flatten();
            let within = couplings.filter(|n| n.higher && self.is_in_block(block, at, n.to));
            let sum = within.fold(T::ZERO, |sum, n| sum + n.t * get(z)(n.to));
            let value = z.get(i, j, k) + sum * get(inverse_pivots)(at);
            z.set(i, j, k, value);
        }
        Ok(())
    }
}

impl<S: SevenPoint, T: Real> Plain<S, T> {
    /// Returns whether two unknowns are in the same block of `block` unknowns.
    fn is_in_block(&self, block: usize, a: At, b: At) -> bool {
        let Shape { nx, ny, .. } = self.layout.shape();
        let number = |[i, j, k]: At| (i + nx * (j + ny * k)) / block;
        block > 1 && number(a) == number(b)
    }
}
