//! Images of labels passed from Python.

use std::collections::BTreeMap;

use isobar::Shape;
use isobar::problem::LabelTable;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::error::raise;

/// An aligned array in C order as (address, shape, "u1" and the like), and labels with their coefficients. The caller keeps the memory alive.
#[derive(FromPyObject)]
pub(crate) struct Labels(usize, Vec<usize>, String, Vec<(i64, f64)>);

impl Labels {
    pub(crate) fn shape(&self) -> PyResult<Shape> {
        match self.1[..] {
            [nx] => Ok(Shape::new(nx, 1, 1)),
            [ny, nx] => Ok(Shape::new(nx, ny, 1)),
            [nz, ny, nx] => Ok(Shape::new(nx, ny, nz)),
            _ => Err(PyValueError::new_err(format!("an image of {} dimensions; use one to three", self.1.len()))),
        }
    }

    /// Returns κ of every cell.
    pub(crate) fn coefficients(&self) -> PyResult<Vec<f64>> {
        let Self(_, _, kind, entries) = self;
        let table = LabelTable::new(entries.iter().copied().collect::<BTreeMap<_, _>>(), None);
        let table = table.map_err(of_coefficients)?;
        match kind.as_str() {
            // Read as bytes, so that a bool other than 0 and 1 is a label without an entry.
            "b1" | "u1" => self.look_up::<u8>(&table),
            "i1" => self.look_up::<i8>(&table),
            "u2" => self.look_up::<u16>(&table),
            "i2" => self.look_up::<i16>(&table),
            "u4" => self.look_up::<u32>(&table),
            "i4" => self.look_up::<i32>(&table),
            "u8" => self.look_up::<u64>(&table),
            "i8" => self.look_up::<i64>(&table),
            other => Err(PyTypeError::new_err(format!("an image of type {other}; its labels must be integers"))),
        }
    }

    fn look_up<L: Copy + Sync + TryInto<i64>>(&self, table: &LabelTable) -> PyResult<Vec<f64>> {
        let (pointer, shape) = (self.0 as *const L, self.shape()?);
        if pointer.is_null() || !pointer.is_aligned() {
            return Err(PyValueError::new_err(format!("an image at the unaligned address {:#x}; copy it", self.0)));
        }
        // SAFETY: the Python part keeps an aligned array in C order with this number of elements alive during the call; any bits are valid.
        let image = unsafe { std::slice::from_raw_parts(pointer, shape.cells()) };
        table.coefficients(shape, image).map_err(of_coefficients)
    }
}

/// Names the argument `coefficients` in an error of a table or an image.
fn of_coefficients(error: isobar::Error) -> PyErr {
    match error {
        isobar::Error::Invalid { message, .. } => PyValueError::new_err(format!("coefficients: {message}")),
        other => raise(other),
    }
}
