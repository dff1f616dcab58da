//! Widths of cells and numbers on sides that change from call to call, in one array.

use isobar::problem::{Boundary, DiffusionProblem, SideFields, Spacing};

/// Takes numbers from an array.
struct Reader<'a>(&'a [f64]);

impl Reader<'_> {
    fn take(&mut self, count: usize) -> isobar::Result<Vec<f64>> {
        let Some((taken, rest)) = self.0.split_at_checked(count) else {
            return Err(isobar::Error::invalid("spacing and boundary", "too few numbers"));
        };
        self.0 = rest;
        Ok(taken.to_vec())
    }

    /// Takes a number per face: returns one number if all are equal, otherwise the field that replaces it.
    fn faces(&mut self, count: usize) -> isobar::Result<(f64, Option<Vec<f64>>)> {
        let numbers = self.take(count)?;
        let first = numbers[0];
        Ok(if is_even(&numbers) { (first, None) } else { (0.0, Some(numbers)) })
    }
}

fn is_even(numbers: &[f64]) -> bool {
    numbers.iter().all(|number| *number == numbers[0])
}

/// Replaces a problem's widths, one per cell in x, y and z, and the numbers on its sides, in the same order with a number per face: the value or the flux,
/// and then the coefficient of a Robin side. Periodic sides have none.
pub(crate) fn change(problem: &mut DiffusionProblem, numbers: &[f64]) -> isobar::Result<()> {
    let (mut reader, extents) = (Reader(numbers), problem.shape.extents());
    for (spacing, n) in problem.spacing.iter_mut().zip(extents) {
        let widths = reader.take(n)?;
        *spacing = if is_even(&widths) { Spacing::Uniform(widths[0]) } else { Spacing::Given(widths) };
    }
    let cells = problem.shape.cells();
    for ((n, sides), fields) in extents.into_iter().zip(&mut problem.boundary).zip(&mut problem.side_fields) {
        for (side, fields) in sides.iter_mut().zip(fields) {
            if *side == Boundary::Periodic {
                continue;
            }
            let (number, value) = reader.faces(cells / n)?;
            let mut coefficient = None;
            match side {
                Boundary::Neumann(value) | Boundary::Dirichlet(value) => *value = number,
                Boundary::Robin { coefficient: single, value } => {
                    *value = number;
                    (*single, coefficient) = reader.faces(cells / n)?;
                }
                Boundary::Periodic => {}
            }
            *fields = SideFields { value, coefficient };
        }
    }
    if reader.0.is_empty() {
        return Ok(());
    }
    Err(isobar::Error::invalid("spacing and boundary", format!("{} numbers too many", reader.0.len())))
}
