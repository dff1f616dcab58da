//! The smallest and the largest coefficient and the smallest of open cells, found while checking them.

use crate::error::{self, Error};
use crate::execute::{Execute, Host, map_pieces};
use crate::layout::Shape;

/// The smallest, the smallest positive and the largest of numbers that are finite and not negative.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The smallest number; infinity if there are none.
    pub least: f64,
    /// The smallest positive number; infinite if there is none.
    pub positive: f64,
    /// 0 if there are no numbers.
    pub most: f64,
}

/// Properties of a shift that are known without reading it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KnownShift {
    /// The first cell whose shift is negative, in the caller's grid, and the shift.
    pub negative: Option<([usize; 3], f64)>,
    /// Numbers along x, y and z whose sum is the shift of a cell, where that is known and the shift itself is on a GPU.
    pub sums: Option<[Vec<f64>; 3]>,
}

impl Spread {
    /// The spread of no numbers.
    pub const NONE: Self = Self { least: f64::INFINITY, positive: f64::INFINITY, most: 0.0 };

    /// Finds the spread of these numbers.
    ///
    /// # Errors
    /// The place of the first number that is negative or not finite.
    pub fn of(execute: &impl Execute, values: &[f64]) -> Result<Self, usize> {
        Self::of_pieces(map_pieces(execute, values, Self::of_piece))
    }

    /// Combines the spreads of the pieces of an array, which are in order.
    pub(crate) fn of_pieces(pieces: Vec<Result<Self, usize>>) -> Result<Self, usize> {
        pieces.into_iter().try_fold(Self::NONE, |all, piece| Ok(all.and(piece?)))
    }

    /// Finds the spread of a number for each cell of a grid, with all threads.
    ///
    /// # Errors
    /// [`Error::Shape`] for another number of cells, [`Error::Invalid`] for a negative or non-finite number, naming the first
    /// cell.
    pub(crate) fn of_cells(what: &str, shape: Shape, values: &[f64]) -> error::Result<Self> {
        check_length(what, shape, values.len())?;
        Self::of(&Host, values).map_err(|n| wrong_cell(what, shape, values, n, "finite and not negative"))
    }

    /// Returns the first cell whose number is negative.
    ///
    /// # Errors
    /// [`Error::Shape`] for another number of cells, [`Error::Invalid`] for a non-finite number, naming the first cell.
    pub(crate) fn first_negative(what: &str, shape: Shape, values: &[f64]) -> error::Result<Option<usize>> {
        check_length(what, shape, values.len())?;
        let Err(first) = Self::of(&Host, values) else { return Ok(None) };
        match values[first..].iter().position(|value| !value.is_finite()) {
            Some(n) => Err(wrong_cell(what, shape, values, first + n, "finite")),
            None => Ok(Some(first)),
        }
    }

    /// Finds the spread of numbers from place `first` of an array on.
    pub(crate) fn of_piece(first: usize, values: &[f64]) -> Result<Self, usize> {
        let (mut least, mut positive) = ([f64::INFINITY; 8], [f64::INFINITY; 8]);
        let (mut most, mut are_right) = ([0.0f64; 8], [true; 8]);
        let (chunks, rest) = values.as_chunks::<8>();
        for chunk in chunks {
            for (n, &value) in chunk.iter().enumerate() {
                least[n] = if value < least[n] { value } else { least[n] };
                positive[n] = if value > 0.0 && value < positive[n] { value } else { positive[n] };
                most[n] = if value > most[n] { value } else { most[n] };
                // This excludes NaN and negative numbers.
                are_right[n] &= value >= 0.0;
            }
        }
        let are_right = are_right.into_iter().all(|is_right| is_right) && rest.iter().all(|&value| value >= 0.0);
        let found = Self {
            least: least.into_iter().chain(rest.iter().copied()).fold(f64::INFINITY, f64::min),
            positive: positive
                .into_iter()
                .chain(rest.iter().copied().filter(|&value| value > 0.0))
                .fold(f64::INFINITY, f64::min),
            most: most.into_iter().chain(rest.iter().copied()).fold(0.0, f64::max),
        };
        if are_right && found.most.is_finite() {
            return Ok(found);
        }
        let wrong = values.iter().position(|&value| !(value >= 0.0 && value.is_finite()));
        wrong.map_or(Ok(found), |n| Err(first + n))
    }

    /// Returns the spread of one number, which is finite and not negative.
    pub const fn of_one(value: f64) -> Self {
        Self { least: value, positive: if value > 0.0 { value } else { f64::INFINITY }, most: value }
    }

    /// Combines the spreads of two arrays.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            least: self.least.min(other.least),
            positive: self.positive.min(other.positive),
            most: self.most.max(other.most),
        }
    }

    /// Returns the largest over the smallest positive number; 1 if there is none.
    pub fn contrast(self) -> f64 {
        (self.most / self.positive).max(1.0)
    }

    /// Returns whether all numbers are equal and positive.
    pub fn is_even(self) -> bool {
        self.least == self.most && self.least > 0.0
    }

    /// Returns whether any number is 0.
    pub fn has_zeros(self) -> bool {
        self.least == 0.0
    }
}

/// Fails for another number of cells.
pub(crate) fn check_length(what: &str, shape: Shape, cells: usize) -> error::Result<()> {
    if cells == shape.cells() {
        return Ok(());
    }
    Err(Error::shape(what, format!("{cells} cells"), format!("{} = {shape}", shape.cells())))
}

/// Returns the error for the number of cell n.
pub(crate) fn wrong_cell(what: &str, shape: Shape, values: &[f64], n: usize, wanted: &str) -> Error {
    let [i, j, k] = shape.place(n);
    Error::invalid(
        what,
        format!("{} in cell (i, j, k) = ({i}, {j}, {k}), counted from 0; it must be {wanted}", values[n]),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::execute::{PIECE, Serial};

    #[test]
    fn the_first_wrong_cell_is_found_whatever_the_threads() {
        let mut values: Vec<f64> = (0..3 * PIECE + 21).map(|n| 2.0 + ((7 * n) % 1000) as f64).collect();
        assert_eq!(Spread::of(&Host, &values), Ok(Spread { least: 2.0, positive: 2.0, most: 1001.0 }));
        (values[5], values[PIECE + 3]) = (-0.0, 0.0);
        assert_eq!(Spread::of(&Host, &values), Ok(Spread { least: 0.0, positive: 2.0, most: 1001.0 }));
        let [some, none] = [&values[3..6], &values[5..6]].map(|values| Spread::of(&Serial, values).unwrap());
        assert_eq!((some.positive, none.positive, none.contrast()), (5.0 + 18.0, f64::INFINITY, 1.0));
        let last = values.len() - 1;
        for (n, wrong) in [(last, f64::NAN), (2 * PIECE + 1, f64::INFINITY), (2 * PIECE, -1.0), (9, f64::NEG_INFINITY)]
        {
            values[n] = wrong;
            assert_eq!((Spread::of(&Host, &values), Spread::of(&Serial, &values)), (Err(n), Err(n)), "{wrong}");
        }
        assert_eq!(Spread::of(&Host, &[]), Ok(Spread::NONE));
    }
}
