//! The parts of an iteration by vertical modes, and its predicted cost and convergence.

use std::f64::consts::PI;
use std::fmt;

use super::TensorProduct;
use super::modes::VerticalModes;
use crate::error::{Error, Result};
use crate::options::ModesOptions;

/// The parts of an iteration by vertical modes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Modes with a problem of their own.
    pub count: usize,
    /// Cycles of multigrid on these.
    pub cycles: usize,
    /// Sweeps of lines on the grid.
    pub sweeps: usize,
    /// Layers of the grid.
    pub layers: usize,
    /// How many such iterations meet the tolerance.
    pub iterations: usize,
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { count, cycles, sweeps, layers, .. } = self;
        write!(f, "{count} of {layers} vertical modes, {cycles} cycles on them and {sweeps} sweeps an iteration")
    }
}

/// The reduction of the residual that an iteration by modes can be asked for.
const MOST_AT_ONCE: f64 = 1e-6;
/// The rate of sweeps does not hold in the norm of the residual: a little more is asked for.
const MARGIN: f64 = 0.3;
/// The factors by which a cycle on the two-dimensional problems reduces components of an error, smallest and largest: near the
/// boundary it overshoots (measured: docs/notes/vertical-modes.md).
const LEFT_BY_A_CYCLE: [f64; 2] = [-0.12, 0.115];
/// The factor by which sweeps on the grid reduce the remaining error.
const LEFT_BY_SWEEPS: f64 = 0.4;
/// The most cycles an iteration where nobody says.
const MOST_CYCLES: usize = 8;
/// Vectors of the modes that a cycle moves.
const VECTORS_OF_A_CYCLE: f64 = 12.0;
/// The most sweeps an iteration where nobody says.
const MOST_SWEEPS: usize = 8;
/// Vectors of the grid that a sweep moves.
const VECTORS_OF_A_SWEEP: f64 = 3.0;
/// The vectors that projection, expansion and the residual after the sweeps move.
const VECTORS_BESIDE: f64 = 4.0;
/// The factor by which a cycle of multigrid on the whole grid reduces the residual, and the vectors that it moves.
pub(super) const RATE_OF_MULTIGRID: f64 = 0.06;
pub(super) const VECTORS_OF_MULTIGRID: f64 = 13.0;
/// Layers beyond which finding modes takes longer than a solve.
pub(super) const MOST_LAYERS: usize = 512;

impl Plan {
    /// The cheapest plan that reaches a tolerance, as far as the options leave it open.
    ///
    /// # Errors
    /// [`Error::Invalid`] where the options ask for more modes than there are.
    pub fn new(stencil: &TensorProduct, modes: &VerticalModes, options: &ModesOptions, tolerance: f64) -> Result<Self> {
        if let Some(count) = options.count.given().filter(|&count| count > modes.count()) {
            return Err(Error::invalid(
                "solver.modes.count",
                format!("{count} modes of a grid of {} layers, which has no more than these", modes.layers()),
            ));
        }
        let iterations = iterations(tolerance);
        let goal = tolerance.powf(1.0 / iterations as f64);
        let enough_cycles =
            || (1..MOST_CYCLES).find(|&n| LEFT_BY_SWEEPS * left_by_cycles(n) <= goal).unwrap_or(MOST_CYCLES);
        let cycles = options.cycles.given().unwrap_or_else(enough_cycles);
        let ratio = stencil.largest_ratio();
        let rates: Vec<f64> = modes.values().iter().map(|mu| (ratio / (ratio + mu)).powi(2)).collect();
        let layers = modes.layers();
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
            // As many as make up for modes that are not there.
            (None, Some(count)) => with((1..MOST_SWEEPS).find(|&n| enough(n) <= count).unwrap_or(MOST_SWEEPS)),
            (None, None) => (2..=MOST_SWEEPS).map(with).fold(with(1), cheapest),
        })
    }
}

impl Plan {
    /// Vectors of the grid that an iteration moves, beside what every iteration does.
    fn cost(&self) -> f64 {
        let modes = VECTORS_OF_A_CYCLE * (self.cycles * self.count) as f64 / self.layers as f64;
        modes + VECTORS_OF_A_SWEEP * self.sweeps as f64
    }

    /// Vectors of the grid that are moved until a tolerance is met.
    pub(super) fn vectors(&self) -> f64 {
        self.iterations as f64 * (self.cost() + VECTORS_BESIDE)
    }

    /// The factor τ of each cycle after the first: u = τ cycle(u) + (1 − τ) u.
    pub fn factors(&self) -> Vec<f64> {
        nodes(self.cycles).into_iter().skip(1).map(|node| 1.0 / (1.0 - node)).collect()
    }
}

/// The zeros of the polynomial that so many cycles make of what one of them leaves: Chebyshev's nodes, but zero for the one that is
/// nearest to it, which comes first: the cycle from u = 0 is not extrapolated.
fn nodes(cycles: usize) -> Vec<f64> {
    let [least, most] = LEFT_BY_A_CYCLE;
    let node = |n: usize| (PI * (n as f64 + 0.5) / cycles as f64).cos();
    let mut nodes: Vec<f64> = (0..cycles).map(|n| 0.5 * (least + most) + 0.5 * (most - least) * node(n)).collect();
    nodes.sort_by(|a, b| a.abs().total_cmp(&b.abs()));
    nodes[0] = 0.0;
    nodes
}

/// The largest that this polynomial, which is 1 at 1, becomes for what a cycle leaves.
fn left_by_cycles(cycles: usize) -> f64 {
    /// Numbers between which it hardly changes.
    const SAMPLES: usize = 64;
    let ([least, most], nodes) = (LEFT_BY_A_CYCLE, nodes(cycles));
    let at = |x: f64| nodes.iter().map(|node| (x - node) / (1.0 - node)).product::<f64>().abs();
    (0..=SAMPLES).map(|n| at(least + (most - least) * n as f64 / SAMPLES as f64)).fold(0.0, f64::max)
}

/// The reduction that cycles in single precision can be asked for.
const LEFT_IN_SINGLE: f64 = 1e-7;

/// Whether modes need no more than single precision for their problems: an iteration in double precision follows where that
/// was not enough.
pub(crate) fn single_suffices(options: &ModesOptions) -> bool {
    options.cycles.given().is_none_or(|cycles| left_by_cycles(cycles) >= LEFT_IN_SINGLE)
}

/// How many are planned for a tolerance.
fn iterations(tolerance: f64) -> usize {
    (tolerance.ln() / MOST_AT_ONCE.ln()).ceil().max(1.0) as usize
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
                // An error that a cycle leaves so much of.
                let left = least + (most - least) * f64::from(n) / 100.0;
                let error = plan.factors().iter().fold(left, |error, tau| error * (tau * left + 1.0 - tau));
                assert!(error.abs() <= 1.05 * bound, "{cycles}, {left}: {error:e} instead of {bound:e}");
            }
        }
        assert!(single_suffices(&ModesOptions::default()));
    }
}
