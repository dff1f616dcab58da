//! This module decides between vertical modes and multigrid for a tensor product, and on the parts of an iteration by vertical modes, by
//! predicted cost and convergence.

use std::f64::consts::PI;
use std::fmt;

use super::Choice;
use crate::error::{Error, Result};
use crate::options::{Method, ModesOptions, SolverOptions};

/// The parts of an iteration by vertical modes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Modes that are solved for.
    pub count: usize,
    /// Cycles of multigrid on each of these.
    pub cycles: usize,
    /// Sweeps of lines on the grid.
    pub sweeps: usize,
    /// Layers of the grid.
    pub layers: usize,
    /// The number of such iterations that meet the tolerance.
    pub iterations: usize,
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { count, cycles, sweeps, layers, .. } = self;
        let [cycles, sweeps] = [(cycles, "cycle"), (sweeps, "sweep")]
            .map(|(n, what)| format!("{n} {what}{}", if *n == 1 { "" } else { "s" }));
        write!(f, "{count} of {layers} vertical modes, {cycles} on them and {sweeps} an iteration")
    }
}

/// The largest reduction of the residual planned for one iteration.
const MOST_AT_ONCE: f64 = 1e-6;
/// A safety factor: the convergence factor of sweeps does not hold in the norm of the residual.
const MARGIN: f64 = 0.3;
/// The smallest and largest factors by which a cycle on the two-dimensional problems reduces components of an error: near the
/// boundary it overshoots (measured: docs/notes/vertical-modes.md).
const LEFT_BY_A_CYCLE: [f64; 2] = [-0.12, 0.115];
/// The factor by which sweeps on the grid reduce the remaining error.
const LEFT_BY_SWEEPS: f64 = 0.4;
/// The most cycles an iteration, by default.
const MOST_CYCLES: usize = 8;
/// Vectors of the modes that a cycle moves.
const VECTORS_OF_A_CYCLE: f64 = 12.0;
/// The most sweeps an iteration, by default.
const MOST_SWEEPS: usize = 8;
/// Vectors of the grid that a sweep moves.
const VECTORS_OF_A_SWEEP: f64 = 3.0;
/// The vectors that projection, expansion and the residual after the sweeps move.
const VECTORS_BESIDE: f64 = 4.0;
/// The factor by which a cycle of multigrid on the whole grid reduces the residual, and the vectors that it moves.
const RATE_OF_MULTIGRID: f64 = 0.06;
const VECTORS_OF_MULTIGRID: f64 = 13.0;
/// The number of layers beyond which finding modes takes longer than a solve.
pub(crate) const MOST_LAYERS: usize = 512;

impl Plan {
    /// Makes the cheapest plan that reaches a tolerance, if the options leave it open. `ratio` is the largest α_T/|T| of the columns,
    /// `values` are μ of all modes, as many as there are layers.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the options request more modes than there are.
    pub fn new(ratio: f64, values: &[f64], options: &ModesOptions, tolerance: f64) -> Result<Self> {
        let layers = values.len();
        if let Some(count) = options.count.given().filter(|&count| count > layers) {
            return Err(Error::invalid(
                "solver.modes.count",
                format!("{count} modes of a grid of {layers} layers, which has no more than these"),
            ));
        }
        let iterations = iterations(tolerance);
        let goal = tolerance.powf(1.0 / iterations as f64);
        let enough_cycles =
            || (1..MOST_CYCLES).find(|&n| LEFT_BY_SWEEPS * left_by_cycles(n) <= goal).unwrap_or(MOST_CYCLES);
        let cycles = options.cycles.given().unwrap_or_else(enough_cycles);
        let rates: Vec<f64> = values.iter().map(|mu| (ratio / (ratio + mu)).powi(2)).collect();
        let enough = |sweeps: usize| {
            let left = |rate: &f64| rate.powi(sweeps as i32) <= MARGIN * goal;
            rates.iter().position(left).unwrap_or(rates.len()).max(1)
        };
        let with = |sweeps: usize| Self {
            count: options.count.given().unwrap_or_else(|| enough(sweeps)),
            cycles,
            sweeps,
            layers,
            iterations,
        };
        let cheapest = |best: Self, other: Self| if other.cost() < best.cost() { other } else { best };
        Ok(match (options.sweeps.given(), options.count.given()) {
            (Some(sweeps), _) => with(sweeps),
            // Enough sweeps to make up for missing modes.
            (None, Some(count)) => with((1..MOST_SWEEPS).find(|&n| enough(n) <= count).unwrap_or(MOST_SWEEPS)),
            (None, None) => (2..=MOST_SWEEPS).map(with).fold(with(1), cheapest),
        })
    }
}

impl Plan {
    /// Returns the vectors of the grid that an iteration moves, beyond those of every iteration.
    fn cost(&self) -> f64 {
        let modes = VECTORS_OF_A_CYCLE * (self.cycles * self.count) as f64 / self.layers as f64;
        modes + VECTORS_OF_A_SWEEP * self.sweeps as f64
    }

    /// Returns the vectors of the grid that are moved until a tolerance is met.
    fn vectors(&self) -> f64 {
        self.iterations as f64 * (self.cost() + VECTORS_BESIDE)
    }

    /// Returns the factor τ of each cycle after the first: u = τ cycle(u) + (1 − τ) u.
    pub fn factors(&self) -> Vec<f64> {
        nodes(self.cycles).into_iter().skip(1).map(|node| 1.0 / (1.0 - node)).collect()
    }
}

/// Returns the zeros of the error polynomial of n cycles: Chebyshev's nodes, but with the one nearest to zero replaced by zero and
/// first, as the cycle from u = 0 is not extrapolated.
fn nodes(cycles: usize) -> Vec<f64> {
    let [least, most] = LEFT_BY_A_CYCLE;
    let node = |n: usize| (PI * (n as f64 + 0.5) / cycles as f64).cos();
    let mut nodes: Vec<f64> = (0..cycles).map(|n| 0.5 * (least + most) + 0.5 * (most - least) * node(n)).collect();
    nodes.sort_by(|a, b| a.abs().total_cmp(&b.abs()));
    nodes[0] = 0.0;
    nodes
}

/// Returns the largest value of this polynomial, normalised to 1 at 1, over a cycle's convergence factors.
fn left_by_cycles(cycles: usize) -> f64 {
    /// Samples between which it hardly changes.
    const SAMPLES: usize = 64;
    let ([least, most], nodes) = (LEFT_BY_A_CYCLE, nodes(cycles));
    let at = |x: f64| nodes.iter().map(|node| (x - node) / (1.0 - node)).product::<f64>().abs();
    (0..=SAMPLES).map(|n| at(least + (most - least) * n as f64 / SAMPLES as f64)).fold(0.0, f64::max)
}

/// The largest reduction for cycles in single precision.
const LEFT_IN_SINGLE: f64 = 1e-7;

/// Returns whether single precision suffices for the problems of modes: an iteration in double precision follows where it does not.
pub(crate) fn single_suffices(options: &ModesOptions) -> bool {
    options.cycles.given().is_none_or(|cycles| left_by_cycles(cycles) >= LEFT_IN_SINGLE)
}

/// Returns the number of iterations planned for a tolerance.
fn iterations(tolerance: f64) -> usize {
    (tolerance.ln() / MOST_AT_ONCE.ln()).ceil().max(1.0) as usize
}

/// Returns whether vertical modes may be the method for a symmetric matrix of this many layers, if these are coupled: finding the modes of
/// more takes longer than a solve.
pub(crate) fn may_use_modes(options: &SolverOptions, layers: usize) -> bool {
    options.method == Method::Auto && options.deflation.is_none() && layers <= MOST_LAYERS
}

/// Chooses vertical modes where they are predicted to move less memory than cycles of multigrid on the whole grid, or where a side is closed, else
/// multigrid; see [`Plan::new`]. Interpolation is for values of zero on all sides: beside closed ones cycles on the whole grid leave much more than
/// predicted, and do not precondition conjugate gradients, while those of modes reduce smooth errors on more grids.
pub(crate) fn choose(options: &SolverOptions, ratio: f64, values: &[f64], is_closed: bool) -> Choice {
    let multigrid = Choice::cycles();
    let Ok(plan) = Plan::new(ratio, values, &options.modes, options.tolerance) else { return multigrid };
    if is_closed {
        let why = "vertical modes, because a side is closed, and cycles on the whole grid are for sides with values";
        return Choice { method: Method::Modes, why: Some(why.to_owned()), ..multigrid };
    }
    let cycles = (options.tolerance.ln() / RATE_OF_MULTIGRID.ln()).ceil().max(1.0);
    let (by_modes, by_cycles) = (plan.vectors(), cycles * VECTORS_OF_MULTIGRID);
    if by_modes < by_cycles {
        let why =
            format!("vertical modes are predicted to read and write {by_modes:.0} vectors, multigrid {by_cycles:.0}");
        return Choice { method: Method::Modes, why: Some(why), ..multigrid };
    }
    multigrid
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extrapolated_cycles_leave_no_more_than_is_said() {
        for cycles in 1..=MOST_CYCLES {
            let (bound, plan) =
                (left_by_cycles(cycles), Plan { count: 1, cycles, sweeps: 2, layers: 8, iterations: 1 });
            assert_eq!(plan.factors().len(), cycles - 1);
            let [least, most] = LEFT_BY_A_CYCLE;
            assert!(cycles < 3 || bound < 0.5 * least.abs().powi(cycles as i32), "{cycles}: {bound:e}");
            for n in 0..=100 {
                // An error with this convergence factor a cycle.
                let left = least + (most - least) * f64::from(n) / 100.0;
                let error = plan.factors().iter().fold(left, |error, tau| error * (tau * left + 1.0 - tau));
                assert!(error.abs() <= 1.05 * bound, "{cycles}, {left}: {error:e} instead of {bound:e}");
            }
        }
        assert!(single_suffices(&ModesOptions::default()));
    }
}
