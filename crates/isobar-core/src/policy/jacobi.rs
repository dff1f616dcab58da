//! This module lets a trial, guided by a model, choose sub-iterations and overlap of Jacobi's method.

use crate::layout::Shape;
use crate::options::{Acceleration, Count, JacobiOptions, Overlap, PointCycle};

/// The seconds of a cycle: its fixed part, and each sub-iteration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Cost {
    /// The fixed part.
    pub(crate) beside: f64,
    /// A sub-iteration.
    pub(crate) sub_iteration: f64,
}

/// The most cells for a trial: larger grids would take too long on a processor.
const LARGEST: usize = 1 << 22;
/// Candidate numbers of sub-iterations.
const SUB_ITERATIONS: [usize; 10] = [4, 6, 8, 12, 16, 24, 32, 48, 64, 96];
const OVERLAPS: [usize; 8] = [0, 2, 4, 6, 8, 10, 12, 16];

/// Returns whether a trial may choose what the options leave open of a cycle: not on a grid divided among ranks, and on processors on small
/// grids only.
pub(crate) fn may_try(
    options: &JacobiOptions,
    cycle: &PointCycle,
    shape: Shape,
    [is_divided, is_on_processor]: [bool; 2],
) -> bool {
    let is_given = options.sub_iterations != Count::Auto && options.overlap != Overlap::Auto;
    let has_one = cycle.tiles(shape) == 1 || is_divided;
    let is_settled = cycle.is_sweep() || options.exact || is_given || has_one;
    let is_large = shape.cells() > LARGEST && is_on_processor;
    !(is_settled || is_large)
}

/// Returns the cycle that is predicted to converge first, among those that the options allow, with the tiles of `cycle`, the choice
/// without a trial. `cost` is that of the cycles that were `timed`.
pub(crate) fn best(
    cost: Cost,
    timed: &PointCycle,
    options: &JacobiOptions,
    cycle: PointCycle,
    shape: Shape,
) -> PointCycle {
    let (fixed_count, fixed_overlap) = (options.sub_iterations != Count::Auto, options.overlap != Overlap::Auto);
    let counts = if fixed_count { vec![cycle.sub_iterations] } else { SUB_ITERATIONS.to_vec() };
    let overlaps: Vec<Option<usize>> =
        if fixed_overlap { vec![None] } else { OVERLAPS.iter().copied().map(Some).collect() };
    let candidates = counts.iter().flat_map(|&sub_iterations| {
        overlaps.iter().map(move |overlap| {
            let given = |d: usize| overlap.map_or(cycle.overlap[d], |overlap| overlap);
            let n = shape.extents();
            let overlap =
                [0, 1, 2].map(|d| if cycle.tile[d] < n[d] && !(options.batch && d > 0) { given(d) } else { 0 });
            PointCycle { sub_iterations, overlap, ..cycle }
        })
    });
    let fits = |cycle: &PointCycle| (0..3).all(|d| 2 * cycle.overlap[d] <= cycle.tile[d]);
    candidates
        .filter(|candidate| fits(candidate) || fixed_overlap)
        .min_by(|a, b| cost_of_a_sweep(cost, timed, a, shape).total_cmp(&cost_of_a_sweep(cost, timed, b, shape)))
        .unwrap_or(cycle)
}

/// Resolves the options on ranks, with notes: plain sweeps, unless tiles are requested. Tiles would extend into other ranks'
/// rows, and there is no trial, because clocks differ.
pub(crate) fn on_ranks(options: &JacobiOptions) -> (JacobiOptions, Option<String>) {
    let asks_for_tiles = options.exact || options.tile.is_some() || options.overlap != Overlap::Auto;
    if options.sub_iterations != Count::Auto || options.acceleration != Acceleration::None || asks_for_tiles {
        return (options.clone(), None);
    }
    let plain = JacobiOptions { sub_iterations: Count::Given(1), ..options.clone() };
    (plain, Some("plain sweeps: tiles are not divided among ranks".into()))
}

/// Returns the time of a cycle for the progress of one plain sweep, from the cost of a cycle with other overlaps.
fn cost_of_a_sweep(cost: Cost, timed: &PointCycle, cycle: &PointCycle, shape: Shape) -> f64 {
    let k = cycle.sub_iterations as f64;
    let tiles = cycle.tiles(shape) as f64 / timed.tiles(shape) as f64;
    tiles * (cost.beside + k * cost.sub_iteration) / (k * efficiency(cycle, shape))
}

/// Returns how many plain sweeps a sub-iteration is worth: old values spread into a tile from its ends over √k cells, and
/// overlapping cells are dropped. The constants are fitted to counts of cycles for Poisson's equation in one and two dimensions,
/// with tiles of 32 cells.
fn efficiency(cycle: &PointCycle, shape: Shape) -> f64 {
    let n = shape.extents();
    let dimensions = n.iter().filter(|&&n| n > 1).count().max(1) as f64;
    let k = cycle.sub_iterations as f64 / dimensions;
    let divided: Vec<usize> = (0..3).filter(|&d| cycle.tile[d] < n[d]).collect();
    let loss = |d: usize| 3.2 * k / cycle.tile[d] as f64 * (-3.6 * cycle.overlap[d] as f64 / k.sqrt()).exp();
    let mean = divided.iter().map(|&d| loss(d)).sum::<f64>() / divided.len().max(1) as f64;
    1.0 / (1.0 + mean)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cycle(sub_iterations: usize, overlap: usize, tile: [usize; 3]) -> PointCycle {
        let overlap = tile.map(|cells| if cells > 1 { overlap } else { 0 });
        PointCycle { sub_iterations, tile, overlap, ..PointCycle::sweep(1.0) }
    }

    /// The model is compared with counts of an independent implementation: sub-iterations, overlap, cycles.
    #[test]
    fn the_model_is_near_what_was_counted() {
        for (shape, tile, sweeps, counts) in [
            (
                Shape::new(1024, 1, 1),
                [32, 1, 1],
                128_760.0,
                [(8, 2, 15_714), (16, 0, 19_555), (32, 4, 5_225), (32, 8, 4_124)],
            ),
            (
                Shape::new(256, 256, 1),
                [32, 32, 1],
                38_978.0,
                [(8, 2, 5_013), (16, 0, 3_605), (32, 2, 1_529), (32, 4, 1_355)],
            ),
        ] {
            for (k, overlap, cycles) in counts {
                let counted = sweeps / (k * cycles) as f64;
                let model = efficiency(&cycle(k, overlap, tile), shape);
                assert!((model / counted - 1.0).abs() < 0.25, "{k} {overlap}: {model} {counted}");
            }
        }
    }

    #[test]
    fn costs_decide() {
        let (shape, start) = (Shape::new(1024, 1024, 1), cycle(32, 4, [32, 32, 1]));
        let best = |cost: Cost| {
            let all = SUB_ITERATIONS.iter().flat_map(|&k| OVERLAPS.map(|overlap| cycle(k, overlap, start.tile)));
            all.min_by(|a, b| {
                cost_of_a_sweep(cost, &start, a, shape).total_cmp(&cost_of_a_sweep(cost, &start, b, shape))
            })
            .unwrap()
        };
        // If memory is free, many exchanges are best, and if it is expensive, few.
        let free = best(Cost { beside: 0.0, sub_iteration: 1e-6 });
        let dear = best(Cost { beside: 1e-3, sub_iteration: 1e-6 });
        assert!(free.sub_iterations == 4 && dear.sub_iterations >= 64 && dear.overlap[0] >= 6, "{free:?} {dear:?}");
    }
}
