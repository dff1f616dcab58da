//! K-cycles: two steps of conjugate gradients on each coarse level, with a cycle below it as their preconditioner.

use std::mem;

use super::couplings::{for_each_chunk, sums};
use super::{Coarsest, Level, Levels, NONE};
use crate::Execute;

/// The second step is left out where the first has reduced the residual by this factor.
const ENOUGH: f64 = 0.25;

/// The vectors of a level.
#[derive(Default)]
pub(super) struct Workspace {
    /// The right-hand side, and what the first step leaves of it.
    r: Vec<f64>,
    /// The first direction, and the result.
    first: Vec<f64>,
    /// The second direction.
    second: Vec<f64>,
    /// The products of both directions with the matrix.
    products: [Vec<f64>; 2],
}

impl Workspace {
    /// Makes the vectors of a level of n unknowns.
    pub(super) fn new(n: usize) -> Self {
        let vector = || vec![0.0; n];
        Self { r: vector(), first: vector(), second: vector(), products: [vector(), vector()] }
    }

    pub(super) fn bytes(&self) -> usize {
        let [a, b] = &self.products;
        [&self.r, &self.first, &self.second, a, b].into_iter().map(|x| x.len() * size_of::<f64>()).sum()
    }
}

impl Levels {
    /// Computes z = M⁻¹ r by one cycle.
    pub(crate) fn cycle(&mut self, execute: &impl Execute, r: &[f64], z: &mut [f64]) {
        cycle(execute, &mut self.levels, &mut self.coarsest, r, z);
    }
}

/// Computes z by a cycle from 0 on the first of these levels: a sweep, a correction from the next level, and a sweep back.
fn cycle(execute: &impl Execute, levels: &mut [Level], coarsest: &mut Coarsest, r: &[f64], z: &mut [f64]) {
    let (Level { matrix, aggregates, before, .. }, coarser) = match levels {
        [finest, coarser @ ..] if !coarser.is_empty() => (finest, coarser),
        _ => return coarsest.solve(r, z),
    };
    matrix.sweep_up(execute, r, z);
    let mut of_next = mem::take(&mut coarser[0].workspace);
    matrix.residual_between(execute, &aggregates.of, [r, z], before);
    aggregates.sum(execute, before, &mut of_next.r);
    steps(execute, coarser, coarsest, &mut of_next);
    for_each_chunk(execute, z, |first, z| {
        for (z, &number) in z.iter_mut().zip(&aggregates.of[first..]).filter(|(_, number)| **number != NONE) {
            *z += of_next.first[number as usize];
        }
    });
    coarser[0].workspace = of_next;
    matrix.sweep_down(execute, r, z, before);
}

/// Computes `first` ≈ A⁻¹ r on the first of these levels by up to two steps of flexible conjugate gradients (Notay, *An aggregation-based algebraic multigrid
/// method*, ETNA 37, 2010, algorithm 3.2), or exactly on the coarsest.
fn steps(execute: &impl Execute, levels: &mut [Level], coarsest: &mut Coarsest, workspace: &mut Workspace) {
    let Workspace { r, first, second, products: [of_first, of_second] } = workspace;
    if levels.len() == 1 {
        return coarsest.solve(r, first);
    }
    let n = r.len();
    cycle(execute, levels, coarsest, r, first);
    levels[0].matrix.multiply(execute, first, of_first);
    let [rho, alpha, norm] = sums(execute, n, |k| [first[k] * of_first[k], first[k] * r[k], r[k] * r[k]]);
    let step = alpha / rho;
    if !(rho > 0.0 && step.is_finite()) {
        return;
    }
    for_each_chunk(execute, r, |from, r| {
        r.iter_mut().zip(&of_first[from..]).for_each(|(r, product)| *r -= step * product);
    });
    let [left] = sums(execute, n, |k| [r[k] * r[k]]);
    let mut factors = [step, 0.0];
    if left > ENOUGH * ENOUGH * norm {
        cycle(execute, levels, coarsest, r, second);
        levels[0].matrix.multiply(execute, second, of_second);
        let [gamma, beta, alpha] =
            sums(execute, n, |k| [second[k] * of_first[k], second[k] * of_second[k], second[k] * r[k]]);
        let rest = beta - gamma * gamma / rho;
        let step = alpha / rest;
        if rest > 0.0 && step.is_finite() {
            factors = [factors[0] - gamma / rho * step, step];
        }
    }
    let [a, b] = factors;
    for_each_chunk(execute, first, |from, first| {
        first.iter_mut().for_each(|first| *first *= a);
        if b != 0.0 {
            first.iter_mut().zip(&second[from..]).for_each(|(first, second)| *first += b * second);
        }
    });
}
