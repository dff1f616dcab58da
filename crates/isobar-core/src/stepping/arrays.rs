//! Callers' arrays, and their parts in a stepper's vectors.

use crate::build::{CallersGrid, download, fetch, find_not_finite, send, upload};
use crate::{ArrayView, ArrayViewMut, Backend, Error, Result, Shape, Slab, Source, Target};

/// Checks and transfers of arrays of the whole grid, or of the subdomain of the vectors.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrays {
    /// The caller's grid.
    whole: Shape,
    /// The parts of arrays and vectors in it.
    callers: CallersGrid,
}

impl Arrays {
    /// Takes a grid.
    pub(super) fn new(whole: Shape, callers: CallersGrid) -> Self {
        Self { whole, callers }
    }

    fn part(&self) -> Slab {
        self.callers.own
    }

    /// Fails for an array of another shape than either.
    pub(super) fn check(&self, what: &str, shape: Shape) -> Result<()> {
        self.is_own(what, shape).map(drop)
    }

    /// Fails for another grid.
    pub(super) fn check_whole(&self, what: &str, shape: Shape) -> Result<()> {
        Error::unless_equal(what, shape, self.whole)
    }

    /// Fails for a NaN or an infinity in a caller's array, naming the cell of the whole grid.
    pub(super) fn check_finite(&self, what: &str, array: Source<'_>) -> Result<()> {
        let first = if self.is_own(what, array.shape())? { self.part().first } else { 0 };
        find_not_finite(what, array).map_err(|error| match error {
            Error::NotFinite { what, value, i, j, k } => Error::NotFinite { what, value, i, j: j + first, k },
            other => other,
        })
    }

    /// Copies a caller's array to a vector.
    pub(super) fn upload<B: Backend>(
        &self,
        backend: &B,
        what: &str,
        array: Source<'_>,
        to: &mut B::Vector<f64>,
    ) -> Result<()> {
        let own = if self.is_own(what, array.shape())? { array } else { array.part(self.part())? };
        upload(backend, &self.callers, own, to)
    }

    /// Copies a vector to a caller's array.
    pub(super) fn download<B: Backend>(
        &self,
        backend: &B,
        what: &str,
        from: &B::Vector<f64>,
        array: Target<'_>,
    ) -> Result<()> {
        let mut own = if self.is_own(what, array.shape())? { array } else { array.into_part(self.part())? };
        download(backend, &self.callers, from, &mut own)
    }

    /// Copies values of the whole grid, C order, to a vector.
    pub(super) fn send<B: Backend>(&self, backend: &B, values: &[f64], to: &mut B::Vector<f64>) -> Result<()> {
        send(backend, &self.callers, ArrayView::c_order(values, self.whole)?.part(self.part())?, to)
    }

    /// Sets x = 0 in some cells of the whole grid.
    pub(super) fn clear_in<B: Backend>(&self, backend: &B, cells: &[bool], x: &mut B::Vector<f64>) -> Result<()> {
        let mut values = vec![0.0; cells.len()];
        fetch(backend, &self.callers, x, &mut ArrayViewMut::c_order(&mut values, self.whole)?.into_part(self.part())?)?;
        values.iter_mut().zip(cells).filter(|(_, is_cleared)| **is_cleared).for_each(|(value, _)| *value = 0.0);
        self.send(backend, &values, x)
    }

    /// Returns whether an array has the subdomain of the vectors; else it has the whole grid.
    fn is_own(&self, what: &str, shape: Shape) -> Result<bool> {
        if shape == self.part().shape(self.whole) {
            return Ok(true);
        }
        self.check_whole(what, shape).map(|()| false)
    }
}
