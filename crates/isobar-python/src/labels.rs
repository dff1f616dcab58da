//! Images of labels passed from Python.

use std::collections::BTreeMap;

use isobar::Shape;
use isobar::problem::{LabelTable, Phases};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::error::raise;

/// An aligned array in C order as (address, shape, "u1" and the like), and labels with their coefficients. The caller keeps the memory alive.
#[derive(FromPyObject)]
pub(crate) struct Labels(usize, Vec<usize>, String, Vec<(i64, f64)>);

/// Calls an expression with the image as an array of its type.
macro_rules! of_image {
    ($labels:expr, $image:ident => $call:expr) => {
        of_image!($labels, $image => $call, "u1" u8, "i1" i8, "u2" u16, "i2" i16, "u4" u32, "i4" i32, "u8" u64, "i8" i64)
    };
    ($labels:expr, $image:ident => $call:expr, $($kind:literal $type:ty),*) => {
        match $labels.2.as_str() {
            $($kind => {
                let $image = $labels.image::<$type>()?;
                $call
            })*
            // Read as bytes, so that a bool other than 0 and 1 is a label without an entry.
            "b1" => {
                let $image = $labels.image::<u8>()?;
                $call
            }
            other => Err(PyTypeError::new_err(format!("an image of type {other}; its labels must be integers"))),
        }
    };
}

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
        let (table, shape) = (self.table()?, self.shape()?);
        of_image!(self, image => table.coefficients(shape, image).map_err(of_coefficients))
    }

    /// Returns κ as a few phases, if there are few.
    pub(crate) fn phases(&self) -> PyResult<Option<Phases>> {
        let (table, shape) = (self.table()?, self.shape()?);
        of_image!(self, image => table.phases(shape, image).map_err(of_coefficients))
    }

    fn table(&self) -> PyResult<LabelTable> {
        let entries = self.3.iter().copied().collect::<BTreeMap<_, _>>();
        LabelTable::new(entries, None).map_err(of_coefficients)
    }

    fn image<L>(&self) -> PyResult<&[L]> {
        let (pointer, shape) = (self.0 as *const L, self.shape()?);
        if pointer.is_null() || !pointer.is_aligned() {
            return Err(PyValueError::new_err(format!("an image at the unaligned address {:#x}; copy it", self.0)));
        }
        // SAFETY: the Python part keeps an aligned array in C order with this number of elements alive during the call; any bits are valid.
        Ok(unsafe { std::slice::from_raw_parts(pointer, shape.cells()) })
    }
}

/// Names the argument `coefficients` in an error of a table or an image.
fn of_coefficients(error: isobar::Error) -> PyErr {
    match error {
        isobar::Error::Invalid { message, .. } => PyValueError::new_err(format!("coefficients: {message}")),
        other => raise(other),
    }
}
