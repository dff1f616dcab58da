//! Algebraic multigrid by aggregation, on the host, for matrices whose grid tells little of their couplings: images with few open cells, barriers and
//! conductors along diagonals, materials in random cells.
//!
//! * this file: [`Levels`], their setup and the choice of how far each is coarsened,
//! * `couplings`: the matrix of a level, `pairs`: its aggregates,
//! * `cycle`: K-cycles.
//!
//! Each level aggregates pairs of pairs whose two-level condition number is bounded, whatever the coefficients (Napov and Notay, *An algebraic multigrid
//! method with guaranteed convergence rate*, SIAM J. Sci. Comput. 34, 2012). A coarse coupling is a sum of fine ones and a coarse row sum a sum of
//! row sums, so that no contrast costs digits.

mod couplings;
mod cycle;
mod pairs;

use crate::Execute;
use crate::elimination::Elimination;
pub(crate) use couplings::Couplings;
use couplings::{entries, for_each_chunk};
use cycle::Workspace;

/// The unknowns of the coarsest level, at most, which are eliminated. It is visited often, so few.
const COARSEST: usize = 60;
/// Pairs of pairs are paired again until a level has this many times fewer unknowns…
const FEWER: usize = 3;
/// …in this many passes, at most.
const MOST_PASSES: usize = 4;
/// The bound for the condition number of two levels; one that no longer coarsens is given a larger one.
const CONDITION: f64 = 8.0;
/// Levels, at most.
const MOST_LEVELS: usize = 40;

/// An approximate inverse of a symmetric matrix with couplings and row sums that are not negative.
pub(crate) struct Levels {
    /// The levels, the finest first; the last is the coarsest.
    levels: Vec<Level>,
    coarsest: Coarsest,
}

/// The matrix of a level, and its aggregates.
struct Level {
    matrix: Couplings,
    /// The aggregates of its unknowns, which are the unknowns of the next level; none on the coarsest.
    aggregates: Aggregates,
    /// The vectors of steps; none on the finest level.
    workspace: Workspace,
    /// Room for a copy of a vector that is relaxed.
    before: Vec<f64>,
}

/// Disjoint sets of unknowns.
#[derive(Default)]
struct Aggregates {
    /// The number of each unknown's set, or [`NONE`].
    of: Vec<u32>,
    /// The place of each set's first member in `members`, and one past the last.
    starts: Vec<u32>,
    /// The members of all sets, ascending in each.
    members: Vec<u32>,
}

/// The number of no aggregate.
const NONE: u32 = u32::MAX;

/// The factors of the coarsest matrix.
struct Coarsest {
    factors: Option<Elimination>,
    /// The vector in the order of elimination.
    x: Vec<[f64; 1]>,
}

impl Levels {
    /// Makes the levels below a matrix.
    pub(crate) fn new(execute: &impl Execute, matrix: Couplings) -> Self {
        let mut levels = Vec::new();
        let mut finest = matrix;
        while finest.rows() > COARSEST && levels.len() < MOST_LEVELS {
            let (aggregates, coarse) = coarsen(execute, &finest);
            levels.push(Level::new(finest, aggregates, levels.is_empty()));
            finest = coarse;
        }
        let coarsest = Coarsest::new(&finest);
        levels.push(Level::new(finest, Aggregates::default(), levels.is_empty()));
        Self { levels, coarsest }
    }

    /// Returns the number of unknowns of each level.
    pub(crate) fn sizes(&self) -> impl Iterator<Item = usize> {
        self.levels.iter().map(|level| level.matrix.rows())
    }

    /// Returns the bytes of all arrays.
    pub(crate) fn bytes(&self) -> usize {
        self.levels.iter().map(Level::bytes).sum()
    }
}

impl Level {
    fn new(matrix: Couplings, aggregates: Aggregates, is_finest: bool) -> Self {
        let n = matrix.rows();
        let workspace = if is_finest { Workspace::default() } else { Workspace::new(n) };
        Self { matrix, aggregates, workspace, before: vec![0.0; n] }
    }

    fn bytes(&self) -> usize {
        let before = self.before.len() * size_of::<f64>();
        self.matrix.bytes() + self.aggregates.bytes() + self.workspace.bytes() + before
    }
}

impl Aggregates {
    /// Takes the number of each unknown's set.
    fn new(of: Vec<u32>, count: usize) -> Self {
        let mut starts = vec![0; count + 1];
        let numbers = || of.iter().filter(|&&number| number != NONE);
        numbers().for_each(|&number| starts[number as usize + 1] += 1);
        (0..count).for_each(|n| starts[n + 1] += starts[n]);
        let mut next = starts.clone();
        let mut members = vec![0; starts[count] as usize];
        for (k, &number) in (0..).zip(&of).filter(|(_, number)| **number != NONE) {
            let place = &mut next[number as usize];
            members[*place as usize] = k;
            *place += 1;
        }
        Self { of, starts, members }
    }

    fn count(&self) -> usize {
        self.starts.len().saturating_sub(1)
    }

    /// Returns the members of a set.
    fn members(&self, number: usize) -> impl Iterator<Item = usize> {
        self.members[self.starts[number] as usize..self.starts[number + 1] as usize].iter().map(|&k| k as usize)
    }

    /// Computes the sum of a vector over each set.
    fn sum(&self, execute: &impl Execute, x: &[f64], sums: &mut [f64]) {
        for_each_chunk(execute, sums, |first, sums| {
            for (sum, number) in sums.iter_mut().zip(first..) {
                *sum = self.members(number).map(|k| x[k]).sum();
            }
        });
    }

    fn bytes(&self) -> usize {
        (self.of.len() + self.starts.len() + self.members.len()) * size_of::<u32>()
    }
}

/// Returns the aggregates of a matrix, and the matrix of their couplings.
fn coarsen(execute: &impl Execute, fine: &Couplings) -> (Aggregates, Couplings) {
    /// A pass that leaves more than this part of the unknowns has too small a bound.
    const STALLED: f64 = 0.9;
    let mut weights: Vec<f64> = (0..fine.rows()).map(|k| fine.diagonal(k)).collect();
    let mut of: Vec<u32> = (0..fine.rows() as u32).collect();
    let mut bound = CONDITION;
    let mut made: Option<Couplings> = None;
    for pass in 0..MOST_PASSES {
        let before = made.as_ref().unwrap_or(fine);
        let (rows, is_first) = (before.rows(), pass == 0);
        if rows <= COARSEST || (pass >= 2 && rows * FEWER < fine.rows()) {
            break;
        }
        let is_stalled = |count: usize| count as f64 > STALLED * rows as f64;
        let (mut numbers, mut count) = pairs::pairs(before, &weights, bound, is_first);
        while is_first && is_stalled(count) && bound.is_finite() {
            bound *= if bound < 1e3 { 2.0 } else { f64::INFINITY };
            (numbers, count) = pairs::pairs(before, &weights, bound, is_first);
        }
        if !is_first && is_stalled(count) {
            // Couplings that are left are weak beside those within pairs, and the next level has sweeps for them.
            break;
        }
        let pairs = Aggregates::new(numbers, count);
        let sums = |n| pairs.members(n).map(|k| weights[k]).sum();
        weights = (0..count).map(sums).collect();
        for number in of.iter_mut().filter(|number| **number != NONE) {
            *number = pairs.of[*number as usize];
        }
        made = Some(before.aggregated(execute, &pairs));
    }
    let coarse = made.unwrap_or_else(Couplings::empty);
    (Aggregates::new(of, coarse.rows()), coarse)
}

impl Coarsest {
    fn new(matrix: &Couplings) -> Self {
        let mut sums = matrix.sums().to_vec();
        hold_floating(matrix, &mut sums);
        let couplings: Vec<_> =
            (0..matrix.rows()).flat_map(|k| entries(matrix.below(k)).map(move |(l, value)| (k, l, value))).collect();
        Self { factors: Elimination::new(&sums, &couplings), x: vec![[0.0]; matrix.rows()] }
    }

    /// Computes z = A⁻¹ r; 0 for an empty matrix.
    fn solve(&mut self, r: &[f64], z: &mut [f64]) {
        let Self { factors, x } = self;
        let Some(factors) = factors else { return z.fill(0.0) };
        let order = || factors.order.iter().map(|&k| k as usize);
        order().zip(x.iter_mut()).for_each(|(k, x)| *x = [r[k]]);
        factors.solve(x);
        order().zip(x).for_each(|(k, [x])| z[k] = *x);
    }
}

/// Adds the diagonal of its first unknown to the row sums of each component without any: the solution with a right-hand side that sums to zero is then one
/// of those without it.
fn hold_floating(matrix: &Couplings, sums: &mut [f64]) {
    let n = matrix.rows();
    let mut is_met = vec![false; n];
    for first in 0..n {
        if is_met[first] {
            continue;
        }
        let (mut left, mut is_held) = (vec![first], false);
        while let Some(k) = left.pop() {
            if is_met[k] {
                continue;
            }
            is_met[k] = true;
            is_held |= sums[k] > 0.0;
            left.extend(entries(matrix.row(k)).map(|(l, _)| l).filter(|&l| !is_met[l]));
        }
        if !is_held {
            sums[first] += if matrix.diagonal(first) > 0.0 { matrix.diagonal(first) } else { 1.0 };
        }
    }
}

#[cfg(test)]
mod tests;
