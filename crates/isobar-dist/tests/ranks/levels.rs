//! Levels of multigrid for diffusion on ranks, compared number by number with those of one device.

use std::sync::Arc;

use isobar_core::conformance::arrays::noise;
use isobar_core::operator::Guess;
use isobar_core::prelude::*;
use isobar_dist::{join, threads};

use crate::jumps::bubbles;
use crate::rocks::rough;
use crate::solves::{Devices, joined, part_of, possible};

/// What a level makes of noise: A x, R x, P x of the next coarser level's x, and the correction of strongly coupled aggregates.
struct Made {
    what: &'static str,
    /// The whole grid.
    shape: Shape,
    /// The rows that are `values`.
    rows: Slab,
    values: Vec<f64>,
}

fn levels<B: Supports<Diffusion>, T: Real>(
    backend: &B,
    stencil: &Diffusion,
    shapes: &[Shape],
) -> Result<Vec<Vec<Made>>> {
    let finest = backend.operator::<T>(stencil)?;
    let Some(hierarchy) = backend.hierarchy::<T>(stencil, &finest, Smoother::LineRedBlack, None)? else {
        return Ok(Vec::new());
    };
    let whole = |n: usize, layout: &Layout| shapes.get(n).copied().unwrap_or(layout.shape());
    let slab = |layout: &Layout| {
        let first = layout.first_row();
        Slab { first, beyond: first + layout.shape().ny }
    };
    let vector = |n: usize, layout: &Layout, seed: u64| -> Result<B::Vector<T>> {
        let (mut v, shape) = (backend.zeros(layout)?, whole(n, layout));
        backend.upload(part_of(&noise(shape.cells(), seed), shape, slab(layout)), &mut v)?;
        Ok(v)
    };
    let made = |what: &'static str, n: usize, layout: &Layout, v: &B::Vector<T>| -> Result<Made> {
        let mut values = vec![0.0; layout.shape().cells()];
        backend.download(v, &mut ArrayViewMut::c_order(&mut values, layout.shape())?)?;
        Ok(Made { what, shape: whole(n, layout), rows: slab(layout), values })
    };
    let mut all = Vec::new();
    for (n, level) in hierarchy.levels.iter().enumerate() {
        let layout = level.layout();
        let (mut x, mut y) = (vector(n, layout, 2 * n as u64)?, backend.zeros(layout)?);
        level.apply(&mut x, &mut y)?;
        let mut of_level = vec![made("A x", n, layout, &y)?];
        if let Some(transfer) = hierarchy.transfers.get(n) {
            let coarse = transfer.coarse_layout();
            let (mut f, mut u) = (backend.zeros(coarse)?, vector(n + 1, coarse, 2 * n as u64 + 1)?);
            transfer.restrict(&mut x, &mut f)?;
            of_level.push(made("R x", n + 1, coarse, &f)?);
            backend.clear(&mut y)?;
            transfer.prolong(&mut u, &mut y)?;
            of_level.push(made("P x", n, layout, &y)?);
        }
        if let Some(correction) = hierarchy.corrections[n].as_ref().filter(|correction| correction.is_active()) {
            backend.clear(&mut y)?;
            correction.correct(&x, &mut y, Guess::Given)?;
            of_level.push(made("aggregates", n, layout, &y)?);
        }
        all.push(of_level);
    }
    Ok(all)
}

/// Checks that numbers equal those of one device, those of aggregates across ranks up to the rounding of their sums.
///
/// Returns whether there are aggregates.
fn check_levels<T: Real>(backend: &impl Devices, problem: &DiffusionProblem, ranks: &[usize]) -> bool {
    let stencil = problem.stencil().unwrap();
    let alone = levels::<_, T>(&backend.of(None), &stencil, &[]).unwrap();
    let shapes: Vec<Shape> = alone.iter().map(|level| level[0].shape).collect();
    for ranks in possible(backend, ranks) {
        let parts = threads::run(ranks, |world| {
            levels::<_, T>(&join(backend.of(Some(&world)), Arc::new(world)), &stencil, &shapes)
        });
        let parts = parts.unwrap();
        for (n, whole) in alone.iter().enumerate() {
            for (m, Made { what, shape, values, .. }) in whole.iter().enumerate() {
                let of_ranks: Vec<_> = parts.iter().map(|levels| &levels[n][m]).collect();
                let is_whole = of_ranks[0].rows.rows() == shape.ny;
                let rows: Vec<_> = of_ranks.iter().map(|made| (made.rows, made.values.clone())).collect();
                let found = joined(*shape, if is_whole { &rows[..1] } else { &rows });
                let most = values.iter().fold(0.0, |most: f64, value| most.max(value.abs()));
                let rounding = if *what == "aggregates" { 1e2 * T::EPSILON * most } else { 0.0 };
                let off = found.iter().zip(values).position(|(&a, &b)| !(a == b || (a - b).abs() <= rounding));
                assert_eq!(off, None, "{what} on level {n}, {shape} on {ranks} ranks");
            }
        }
    }
    alone.iter().flatten().any(|made| made.what == "aggregates")
}

/// Returns bubbles, holes and nearly equal κ, with fixed and periodic sides in y, odd numbers of rows, and one column in x.
fn problems() -> Vec<DiffusionProblem> {
    let ring = |mut problem: DiffusionProblem| {
        problem.boundary[1] = [Boundary::Periodic; 2];
        problem
    };
    vec![
        bubbles(Shape::new(24, 96, 20), 1e6),
        bubbles(Shape::new(21, 97, 14), 2.0),
        bubbles(Shape::new(48, 160, 1), 1e3),
        bubbles(Shape::new(1, 128, 9), 1e6),
        ring(bubbles(Shape::new(20, 128, 16), 1e4)),
        ring(bubbles(Shape::new(18, 96, 20), 2.0)),
        rough(Shape::new(22, 113, 18)),
        ring(rough(Shape::new(24, 112, 10))),
    ]
}

/// Checks all of them in both precisions.
pub(crate) fn check_all(backend: &impl Devices, ranks: &[usize]) {
    let mut with_aggregates = 0;
    for problem in problems() {
        let in_both = [check_levels::<f64>(backend, &problem, ranks), check_levels::<f32>(backend, &problem, ranks)];
        with_aggregates += in_both.into_iter().filter(|has| *has).count();
    }
    assert!(with_aggregates >= 8, "{with_aggregates}");
}
