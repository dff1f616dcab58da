//! What a back end must offer for a grid to be divided among several devices.

use std::sync::Arc;

use super::{Coarsen, Stencil};
use crate::backend::AggregateBackend;
use crate::backend::part::PartBackend;
use crate::error::Result;
use crate::layout::Slab;
use crate::operator::part::{PartOperator, PartTransfer};
use crate::real::Real;

/// A back end that can put some rows of a stencil's grid on its device.
pub trait SupportsParts<S: Stencil>: AggregateBackend + PartBackend {
    /// Those rows of the matrix, with their coefficients on the device. Vectors have the layout of [`Slab::layout`].
    type Part<T: Real>: PartOperator<Self, T> + 'static;

    /// Puts rows of a stencil, which is that of the whole grid, on the device.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory) where they do not fit; what the device reports.
    fn part<T: Real>(&self, stencil: &S, slab: Slab) -> Result<Arc<Self::Part<T>>>;

    /// Gives a part the coefficients of another stencil, as [`Supports::update`](super::Supports::update).
    ///
    /// # Errors
    /// What the device reports.
    fn update_part<T: Real>(&self, part: &Self::Part<T>, stencil: &S) -> Result<()>;
}

/// A back end that makes parts of the levels of such a stencil.
pub trait SupportsPartLevels<S: Coarsen>: SupportsParts<S> {
    /// Between parts of two of them.
    type PartTransfer<T: Real>: PartTransfer<Self, T> + 'static;

    /// What goes between parts of a stencil and of its coarser version, made of the same rows: the finer one begins with
    /// an even row.
    ///
    /// # Errors
    /// As [`SupportsParts::part`].
    fn part_transfer<T: Real>(
        &self,
        fine: &Arc<Self::Part<T>>,
        coarse: &Arc<Self::Part<T>>,
    ) -> Result<Arc<Self::PartTransfer<T>>>;
}
