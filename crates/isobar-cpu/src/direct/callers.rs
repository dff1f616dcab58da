//! Solves between callers' arrays, without vectors.

use isobar_core::backend::Judged;
use isobar_core::prelude::{Separable, Source, Target};

use super::judge::judge;
use super::passes::{Array, Passes};
use super::tables::Tables;
use crate::Shared;

/// Returns arrays of this many cells in double precision and in C order that do not overlap.
pub(super) fn in_c_order<'a>(
    b: &Source<'a>,
    u: &'a mut Target<'_>,
    cells: usize,
) -> Option<(&'a [f64], &'a mut [f64])> {
    let (Source::F64(b), Target::F64(u)) = (b, u) else { return None };
    let (b, u) = (b.as_c_order()?, u.as_c_order_mut()?);
    // Foreign callers may solve in place, and b is still needed when u is there.
    let (from, to) = (b.as_ptr_range(), u.as_ptr_range());
    let is_apart = from.end <= to.start || to.end <= from.start;
    (b.len() == cells && u.len() == cells && is_apart).then_some((b, u))
}

/// Returns the norms, given the squares of those of the residual and of b, without its mean if the matrix is singular.
pub(super) fn judged(factors: &Separable, [residual, rhs]: [f64; 2], mean: f64) -> Judged {
    let of_mean = mean * mean * factors.shape.cells() as f64;
    let removed = factors.is_singular().then(|| (of_mean / (of_mean + rhs)).sqrt());
    Judged { rhs: rhs.sqrt(), residual: residual.sqrt(), removed }
}

/// See [`isobar_core::backend::DirectSolver::solve_arrays`].
pub(super) fn solve(passes: &Passes<'_>, b: &Source<'_>, u: &mut Target<'_>) -> Option<Judged> {
    let tables = passes.tables;
    let cells = tables.factors.shape.cells();
    let (b, u) = in_c_order(b, u, cells)?;
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
    passes.give(Array::Callers(Shared::of(u)));
    let mean = if is_singular { sum / (tables.constant * cells as f64) } else { 0.0 };
    Some(judged(&tables.factors, judge(&tables.cpu, &tables.factors, [b, u], mean), mean))
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
