//! Images of labels, as the Python part hands them over.

use std::collections::BTreeMap;

use isobar::Shape;
use isobar::problem::{Label, LabelTable};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::error::raise;

/// (address, shape, "u1" and the like, labels with their coefficients) of an aligned array in C order; whoever calls keeps the memory.
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

    /// κ of every cell.
    pub(crate) fn coefficients(&self) -> PyResult<Vec<f64>> {
        let Self(_, _, kind, entries) = self;
        let table = LabelTable::new(entries.iter().copied().collect::<BTreeMap<_, _>>(), None);
        let table = table.map_err(of_coefficients)?;
        match kind.as_str() {
            // Bytes, so that one that is neither 0 nor 1 is a label without an entry.
            "b1" | "u1" => self.look_up::<u8>(&table),
            "i1" => self.look_up::<i8>(&table),
            "u2" => self.look_up::<u16>(&table),
            "i2" => self.look_up::<i16>(&table),
            "u4" => self.look_up::<u32>(&table),
            "i4" => self.look_up::<i32>(&table),
            "u8" => self.look_up::<u64>(&table),
            "i8" => self.look_up::<i64>(&table),
            other => Err(PyTypeError::new_err(format!("an image of type {other}; its labels are whole numbers"))),
        }
    }

    fn look_up<L: Label>(&self, table: &LabelTable) -> PyResult<Vec<f64>> {
        let (pointer, shape) = (self.0 as *const L, self.shape()?);
        if pointer.is_null() || !pointer.is_aligned() {
            return Err(PyValueError::new_err(format!("an image at the address {:#x}; copy it", self.0)));
        }
        // SAFETY: the Python part keeps an array of so many aligned elements of this type in C order while it calls; any bits are one.
        let image = unsafe { std::slice::from_raw_parts(pointer, shape.cells()) };
        table.coefficients(shape, image).map_err(of_coefficients)
    }
}

/// Turns an error of a table, or of an image for it, into one of the argument.
fn of_coefficients(error: isobar::Error) -> PyErr {
    match error {
        isobar::Error::Invalid { message, .. } => PyValueError::new_err(format!("coefficients: {message}")),
        other => raise(other),
    }
}
