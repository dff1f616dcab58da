//! Callers' arrays, and what a stepper's vectors have of them.

use crate::array::{ArrayView, ArrayViewMut, Source, Target};
use crate::backend::Backend;
use crate::build::{download, fetch, find_not_finite, send, upload};
use crate::error::{Error, Result};
use crate::layout::{Layout, Shape, Slab};
use crate::stencil::rings::Turns;

/// Arrays of the whole grid, or of the rows that vectors have alone.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrays {
    /// The caller's grid.
    whole: Shape,
    /// The rows of it that vectors have.
    rows: Slab,
    /// How often vectors go around it.
    turns: Turns,
}

impl Arrays {
    /// Of a grid, for vectors of this layout.
    pub(super) fn new(whole: Shape, layout: &Layout, turns: Turns) -> Self {
        let first = layout.origin()[1];
        Self { whole, rows: Slab { first, beyond: first + turns.once(layout.shape()).ny }, turns }
    }

    /// Fails for an array of neither.
    pub(super) fn check(&self, what: &str, shape: Shape) -> Result<()> {
        self.is_own(what, shape).map(drop)
    }

    /// Fails for another grid.
    pub(super) fn check_whole(&self, what: &str, shape: Shape) -> Result<()> {
        if shape == self.whole {
            return Ok(());
        }
        Err(Error::shape(what, shape.to_string(), self.whole.to_string()))
    }

    /// Fails for a NaN or an infinity in a caller's array, naming the cell of the whole grid.
    pub(super) fn check_finite(&self, what: &str, array: Source<'_>) -> Result<()> {
        let first = if self.is_own(what, array.shape())? { self.rows.first } else { 0 };
        find_not_finite(what, array).map_err(|error| match error {
            Error::NotFinite { what, value, i, j, k } => Error::NotFinite { what, value, i, j: j + first, k },
            other => other,
        })
    }

    /// A caller's array to a vector.
    pub(super) fn upload<B: Backend>(
        &self,
        backend: &B,
        what: &str,
        array: Source<'_>,
        to: &mut B::Vector<f64>,
    ) -> Result<()> {
        let own = if self.is_own(what, array.shape())? { array } else { array.rows(self.rows)? };
        upload(backend, self.turns, own, to)
    }

    /// A vector to a caller's array.
    pub(super) fn download<B: Backend>(
        &self,
        backend: &B,
        what: &str,
        from: &B::Vector<f64>,
        array: Target<'_>,
    ) -> Result<()> {
        let mut own = if self.is_own(what, array.shape())? { array } else { array.into_rows(self.rows)? };
        download(backend, self.turns, from, &mut own)
    }

    /// Values of the whole grid, C order, to a vector.
    pub(super) fn send<B: Backend>(&self, backend: &B, values: &[f64], to: &mut B::Vector<f64>) -> Result<()> {
        send(backend, self.turns, ArrayView::c_order(values, self.whole)?.rows(self.rows)?, to)
    }

    /// x = 0 in some cells of the whole grid.
    pub(super) fn clear_in<B: Backend>(&self, backend: &B, cells: &[bool], x: &mut B::Vector<f64>) -> Result<()> {
        let mut values = vec![0.0; cells.len()];
        fetch(backend, self.turns, x, &mut ArrayViewMut::c_order(&mut values, self.whole)?.into_rows(self.rows)?)?;
        values.iter_mut().zip(cells).filter(|(_, is_cleared)| **is_cleared).for_each(|(value, _)| *value = 0.0);
        self.send(backend, &values, x)
    }

    /// Whether an array has the rows that vectors have alone; else it is one of the whole grid.
    fn is_own(&self, what: &str, shape: Shape) -> Result<bool> {
        if shape == self.rows.shape(self.whole) {
            return Ok(true);
        }
        self.check_whole(what, shape).map(|()| false)
    }
}
