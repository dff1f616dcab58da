//! Solves between callers' arrays, without vectors.

use isobar_core::backend::Judged;
use isobar_core::prelude::{Source, Target};

use super::judge::judge;
use super::passes::{Array, Passes};
use super::tables::Tables;
use crate::Shared;

/// See [`isobar_core::backend::DirectSolver::solve_arrays`].
pub(super) fn solve(passes: &Passes<'_>, b: &Source<'_>, u: &mut Target<'_>) -> Option<Judged> {
    let tables = passes.tables;
    let (Source::F64(b), Target::F64(u)) = (b, u) else { return None };
    let (b, u) = (b.as_c_order()?, u.as_c_order_mut()?);
    let cells = tables.factors.shape.cells();
    if b.len() != cells || u.len() != cells {
        return None;
    }
    let is_singular = tables.factors.is_singular();
    if is_singular && !has_even_planes(tables) {
        return None;
    }
    // `take` only reads it.
    passes.take(Array::Callers(Shared::new(b.as_ptr().cast_mut(), cells, 0)));
    // The entries of the constant mode of planes, which add up all cells: numbers that are not finite show in them, before u changes.
    let sum = change_first_line(passes, |entry| entry);
    if !sum.is_finite() {
        return None;
    }
    let planes = tables.planes.count as f64;
    if is_singular {
        change_first_line(passes, |entry| entry - sum / planes);
    }
    passes.solve_lines();
    if is_singular {
        let sum = change_first_line(passes, |entry| entry);
        change_first_line(passes, |entry| entry - sum / planes);
    }
    let mean = is_singular.then(|| sum / (tables.constant * cells as f64));
    passes.give(Array::Callers(Shared::of(u)));
    let [residual, rhs] = judge(tables, b, u, mean.unwrap_or(0.0));
    let removed = mean.map(|mean| {
        let of_mean = mean * mean * cells as f64;
        (of_mean / (of_mean + rhs)).sqrt()
    });
    Some(Judged { rhs: rhs.sqrt(), residual: residual.sqrt(), removed })
}

/// Returns whether the cells of a plane have equal masses, so that all modes but the constant have the sum 0.
fn has_even_planes(tables: &Tables) -> bool {
    let is_even = |mass: &[f64]| mass.iter().all(|m| (m - mass[0]).abs() <= 1e-13 * mass[0]);
    tables.factors.factors.iter().all(|axis| is_even(&axis.mass))
}

/// Replaces the entries of the line of the first mode by f of them; returns the sum of those before.
fn change_first_line(passes: &Passes<'_>, f: impl Fn(f64) -> f64) -> f64 {
    let planes = &passes.tables.planes;
    (0..planes.count)
        .map(|plane| {
            let at = planes.row(plane, 0) as isize;
            // SAFETY: no pass is under way.
            let value = unsafe { passes.work.row(at, 1)[0] };
            // SAFETY: as above.
            unsafe { passes.work.set(at, f(value)) };
            value
        })
        .sum()
}
