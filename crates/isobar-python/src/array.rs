//! Arrays passed from Python.

use isobar::internals::array::Source;
use isobar::problem::Field;
use isobar::{DeviceArray, Precision, RawArray, RawMemory};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyByteArray;

use crate::error::raise;

/// An array as (address, shape, strides in bytes or None, "f8" or "f4", CUDA device or None, stream or None). The caller keeps the
/// memory alive.
pub(crate) struct Array(pub(crate) RawArray);

impl<'py> FromPyObject<'_, 'py> for Array {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        type Parts = (usize, Vec<usize>, Option<Vec<isize>>, String, Option<usize>, Option<u64>);
        let (pointer, shape, strides, kind, device, stream): Parts = value.extract()?;
        let precision = match kind.as_str() {
            "f8" => Precision::F64,
            "f4" => Precision::F32,
            other => return Err(PyTypeError::new_err(format!("elements of type {other}; use float64 or float32"))),
        };
        let memory = device.map_or(RawMemory::Host, |ordinal| RawMemory::Cuda { ordinal, stream });
        RawArray::new(pointer, &shape, strides.as_deref(), precision, memory).map(Self).map_err(raise)
    }
}

impl Array {
    /// Returns its values in C order.
    pub(crate) fn values(&self) -> PyResult<Vec<f64>> {
        // SAFETY: the Python part keeps the array alive during the call.
        unsafe { self.0.read() }.map_err(raise)
    }

    /// Copies it as a coefficient.
    pub(crate) fn field(&self) -> PyResult<Field> {
        // SAFETY: the Python part keeps the array alive during the call.
        unsafe { self.0.source() }.and_then(Field::read).map_err(raise)
    }

    /// Returns it as an array on a GPU.
    pub(crate) fn on_device(&self) -> PyResult<DeviceArray> {
        // SAFETY: the Python part keeps the array alive during the call.
        match unsafe { self.0.source() }.map_err(raise)? {
            Source::Device(array) => Ok(array),
            _ => Err(PyValueError::new_err("some arrays are on a device and some on the host; copy them to one place")),
        }
    }

    /// Returns which of its values are not 0, in C order.
    pub(crate) fn mask(&self) -> PyResult<Vec<bool>> {
        // SAFETY: the Python part keeps the array alive during the call.
        unsafe { self.0.source() }.and_then(Source::to_mask).map_err(raise)
    }
}

/// Returns numbers as bytes in native byte order, from which NumPy makes an array without a copy.
pub(crate) fn bytes<'py, const N: usize>(
    py: Python<'py>,
    numbers: impl ExactSizeIterator<Item = [u8; N]>,
) -> PyResult<Bound<'py, PyByteArray>> {
    PyByteArray::new_with(py, N * numbers.len(), |all| {
        all.chunks_exact_mut(N).zip(numbers).for_each(|(bytes, number)| bytes.copy_from_slice(&number));
        Ok(())
    })
}

/// Returns the bytes of numbers.
pub(crate) fn bytes_of<'py>(py: Python<'py>, values: &[f64]) -> PyResult<Bound<'py, PyByteArray>> {
    bytes(py, values.iter().map(|value| value.to_ne_bytes()))
}
