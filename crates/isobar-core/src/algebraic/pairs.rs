//! Pairs of unknowns whose two-level condition number is bounded.

use super::NONE;
use super::couplings::{Couplings, entries};

/// Finds disjoint pairs of unknowns, and single ones, each with the best neighbour that is left, and unknowns with the fewest neighbours left first (Napov and
/// Notay, 2012, algorithm 4.2). `weights` are diagonals of the finest unknowns in each. Where it `leaves_dominant` rows, these are part of no pair, because a sweep suffices for them.
/// Returns the number of each unknown's pair, in the order of first members, and the number of pairs.
///
/// A pair {k, l} is used if 2 h(w_k, w_l) ≤ `bound` · (c_kl + h(s_k, s_l)) with h(a, b) = ab/(a + b), which bounds the condition number where all but the two are alike.
pub(super) fn pairs(matrix: &Couplings, weights: &[f64], bound: f64, leaves_dominant: bool) -> (Vec<u32>, usize) {
    /// The number of a dominant row until all pairs are found.
    const DOMINANT: u32 = NONE - 1;
    let sums = matrix.sums();
    let mut of = vec![NONE; matrix.rows()];
    let is_dominant = |k: usize| 0.5 * (bound - 2.0) * sums[k] >= matrix.diagonal(k) - sums[k];
    if leaves_dominant {
        of.iter_mut().enumerate().filter(|(k, _)| is_dominant(*k)).for_each(|(_, number)| *number = DOMINANT);
    }
    let mut queue = Queue::new(matrix.rows(), |k| (of[k] == NONE).then(|| matrix.row(k).0.len()));
    let mut count = 0;
    while let Some(k) = queue.pop() {
        let condition =
            |l: usize, value: f64| 2.0 * half_mean(weights[k], weights[l]) / (value + half_mean(sums[k], sums[l]));
        let left = entries(matrix.row(k)).filter(|&(l, _)| of[l] == NONE).map(|(l, value)| (condition(l, value), l));
        let best = left.reduce(|best, next| if next.0 < best.0 { next } else { best });
        let partner = best.filter(|(condition, _)| *condition <= bound).map(|(_, l)| l);
        for member in [Some(k), partner].into_iter().flatten() {
            of[member] = count;
            queue.remove(member);
        }
        for member in [Some(k), partner].into_iter().flatten() {
            entries(matrix.row(member)).filter(|&(l, _)| of[l] == NONE).for_each(|(l, _)| queue.lower(l));
        }
        count += 1;
    }
    of.iter_mut().filter(|number| **number == DOMINANT).for_each(|number| *number = NONE);
    (in_order(of, count as usize), count as usize)
}

/// Numbers pairs in the order of their first members, so that neighbours are close in memory.
fn in_order(mut of: Vec<u32>, count: usize) -> Vec<u32> {
    let (mut numbers, mut next) = (vec![NONE; count], 0);
    for number in of.iter_mut().filter(|number| **number != NONE) {
        let new = &mut numbers[*number as usize];
        if *new == NONE {
            (*new, next) = (next, next + 1);
        }
        *number = *new;
    }
    of
}

/// Returns ab/(a + b), half of the harmonic mean.
fn half_mean(a: f64, b: f64) -> f64 {
    if a + b > 0.0 { a * (b / (a + b)) } else { 0.0 }
}

/// Unknowns by the number of their neighbours that are left.
struct Queue {
    /// Unknowns by their number of neighbours; one that has been lowered or removed since is skipped.
    by_degree: Vec<Vec<u32>>,
    /// The number of each unknown's neighbours, or [`GONE`].
    degrees: Vec<u8>,
    /// No unknown that is left has fewer neighbours.
    lowest: usize,
}

const GONE: u8 = u8::MAX;
/// Larger numbers of neighbours are alike.
const MOST: usize = GONE as usize - 1;

impl Queue {
    /// Takes the unknowns for which `degree` returns a number.
    fn new(count: usize, degree: impl Fn(usize) -> Option<usize>) -> Self {
        let degrees: Vec<u8> = (0..count).map(|k| degree(k).map_or(GONE, |degree| degree.min(MOST) as u8)).collect();
        let mut by_degree = vec![Vec::new(); MOST + 1];
        // The first of equals is on top.
        for k in (0..count).rev().filter(|&k| degrees[k] != GONE) {
            by_degree[degrees[k] as usize].push(k as u32);
        }
        Self { by_degree, degrees, lowest: 0 }
    }

    fn pop(&mut self) -> Option<usize> {
        while self.lowest <= MOST {
            match self.by_degree[self.lowest].pop().map(|k| k as usize) {
                Some(k) if self.degrees[k] as usize == self.lowest => return Some(k),
                Some(_) => {}
                None => self.lowest += 1,
            }
        }
        None
    }

    fn remove(&mut self, k: usize) {
        self.degrees[k] = GONE;
    }

    /// Notes that a neighbour of an unknown is gone.
    fn lower(&mut self, k: usize) {
        let degree = self.degrees[k].saturating_sub(1);
        self.degrees[k] = degree;
        self.by_degree[degree as usize].push(k as u32);
        self.lowest = self.lowest.min(degree as usize);
    }
}
