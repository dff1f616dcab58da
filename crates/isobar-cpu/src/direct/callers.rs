//! Solves between callers' arrays, without vectors.

use isobar_core::backend::Judged;
use isobar_core::prelude::{Result, Separable, Source, Target};

use super::divided::Divided;
use super::judge::judge;
use super::passes::{Array, Passes};
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

/// See [`isobar_core::backend::DirectSolver::solve_arrays`]. All ranks return the same.
pub(super) fn solve(
    passes: &Passes<'_>,
    mut divided: Option<&mut Divided>,
    b: &Source<'_>,
    u: &mut Target<'_>,
) -> Result<Option<Judged>> {
    let tables = passes.tables;
    let sum_of_ranks = |value: f64| -> Result<f64> {
        let mut values = [value];
        tables.cpu.ranks.as_ref().map_or(Ok(()), |ranks| ranks.world().sum(&mut values))?;
        Ok(values[0])
    };
    let arrays = in_c_order(b, u, tables.factors.shape.cells());
    if sum_of_ranks(f64::from(arrays.is_none()))? > 0.0 {
        return Ok(None);
    }
    let Some((b, u)) = arrays else { return Ok(None) };
    let whole = divided.as_ref().map_or(&tables.factors, |divided| &divided.whole);
    let (cells, planes, is_singular) = (whole.shape.cells() as f64, whole.lines.len() as f64, whole.is_singular());
    // `take` only reads it.
    passes.take(Array::Callers(Shared::new(b.as_ptr().cast_mut(), b.len(), 0)));
    // The entries of the constant mode of planes, which add up all cells: numbers that are not finite show in them, before u changes.
    let sum = sum_of_ranks(change_first_line(passes, |entry| entry))?;
    if !sum.is_finite() {
        return Ok(None);
    }
    let mean = if is_singular { sum / (tables.constant * cells) } else { 0.0 };
    if is_singular && tables.sums.is_none() {
        change_first_line(passes, |entry| entry - sum / planes);
    }
    if let Some(divided) = &mut divided {
        divided.meet(passes)?;
    }
    passes.solve_lines();
    if is_singular {
        // A constant is a number times the constant modes.
        let own = match &tables.sums {
            Some(sums) => sum_of_ranks(sum_of_cells(passes, sums))? / (tables.constant * cells),
            None => sum_of_ranks(change_first_line(passes, |entry| entry))? / planes,
        };
        change_first_line(passes, |entry| entry - own);
    }
    passes.give(Array::Callers(Shared::of(u)));
    let taken = if tables.sums.is_some() { 0.0 } else { mean };
    let own = divided.as_ref().map(|divided| divided.own_rows(&tables.cpu, u)).transpose()?;
    let whole = divided.as_ref().map_or(&tables.factors, |divided| &divided.whole);
    let squares = judge(&tables.cpu, whole, own.as_ref(), [b, u], taken);
    let squares = [sum_of_ranks(squares[0])?, sum_of_ranks(squares[1])?];
    let judged = judged(whole, squares, mean);
    // A mean that was not taken from b is at most its rounding.
    let is_left = taken != mean && mean.abs() * cells.sqrt() > ROUNDING * judged.rhs;
    Ok((!is_left).then_some(judged))
}

/// The part of ‖b‖ that its mean may have where it is left in b.
const ROUNDING: f64 = 1e-14;

/// Returns the sum of all cells of the solution whose modes are there, given the sums of eigenvectors.
fn sum_of_cells(passes: &Passes<'_>, [along, across]: &[Vec<f64>; 2]) -> f64 {
    let planes = &passes.tables.planes;
    let mut sums = vec![0.0; planes.count];
    let of_planes = Shared::of(&mut sums);
    passes.tables.each(planes.count, |plane, _| {
        let of_row = |row: usize| {
            // SAFETY: no pass is under way.
            let modes = unsafe { passes.work.row(planes.row(plane, row) as isize, planes.columns) };
            across[row] * modes.iter().zip(along).map(|(mode, sum)| mode * sum).sum::<f64>()
        };
        // SAFETY: each plane has its own.
        unsafe { of_planes.set(plane as isize, (0..planes.rows).map(of_row).sum()) };
    });
    sums.iter().sum()
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
