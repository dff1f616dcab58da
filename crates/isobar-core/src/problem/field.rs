//! Coefficients that are read and checked in one pass.

use std::sync::Arc;

use crate::array::Source;
use crate::error::Result;
use crate::execute::{Host, shared_blocks};
use crate::stencil::Spread;

/// A `Field` is a number for each cell, shape (nz, ny, nx) in C order, with its [`Spread`]. Clones of a field, and the matrix made from
/// it, share one array.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    values: Arc<[f64]>,
    /// The spread, or the place of the first number that is negative or not finite.
    spread: Result<Spread, usize>,
}

impl Field {
    /// Makes a field of `count` cells: `set(first, values)` sets those from number `first` on, on all threads.
    pub fn new(count: usize, set: impl Fn(usize, &mut [f64]) + Sync) -> Self {
        let (values, spreads) = shared_blocks(&Host, count, |first, block| {
            set(first, block);
            Spread::of_piece(first, block)
        });
        Self { values, spread: Spread::of_pieces(spreads) }
    }

    /// Copies an array.
    ///
    /// # Errors
    /// [`Error::Unsupported`](crate::error::Error::Unsupported) for an array on a device.
    pub fn read(source: Source<'_>) -> Result<Self> {
        Ok(Self::new(source.shape().cells(), source.reader()?))
    }

    /// Returns the numbers.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    pub(super) fn shared(&self) -> &Arc<[f64]> {
        &self.values
    }

    pub(super) fn spread(&self) -> Result<Spread, usize> {
        self.spread
    }
}

impl From<&[f64]> for Field {
    fn from(values: &[f64]) -> Self {
        Self::new(values.len(), |first, block| block.copy_from_slice(&values[first..][..block.len()]))
    }
}
