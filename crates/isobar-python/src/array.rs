//! Arrays passed from Python.

use std::collections::BTreeMap;

use isobar::internals::array::Source;
use isobar::problem::Field;
use isobar::{DeviceArray, Precision, RawArray, RawMemory, Shape};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyTuple};

use crate::error::raise;

/// An array as (address, shape, strides in bytes or None, "f8" or "f4", CUDA device or None, stream or None). The caller keeps the
/// memory alive; a further entry of the tuple may be its owner, which then lives as long as the call.
pub(crate) struct Array(pub(crate) RawArray);

impl<'py> FromPyObject<'_, 'py> for Array {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        type Parts = (usize, Vec<usize>, Option<Vec<isize>>, String, Option<usize>, Option<u64>);
        let (pointer, shape, strides, kind, device, stream): Parts =
            value.cast::<PyTuple>()?.get_slice(0, 6).extract()?;
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
        unsafe { on_device(&self.0) }.map_err(raise)
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

/// Arrays of the grid's shape, one after the other, with leading axes of these lengths; or, without such axes, one array.
pub(crate) struct Batch {
    first: RawArray,
    lead: Vec<usize>,
}

impl Batch {
    /// Describes arrays of elements in C order, or one array with any strides.
    pub(crate) fn new(first: RawArray, lead: Vec<usize>) -> Self {
        Self { first, lead }
    }

    /// Returns the array with this number.
    pub(crate) fn at(&self, number: usize) -> RawArray {
        self.first.behind(number)
    }

    /// Fails unless the arrays have this shape.
    pub(crate) fn require_shape(&self, shape: Shape) -> isobar::Result<()> {
        isobar::Error::unless_equal("array", self.first.shape(), shape)
    }

    /// Returns the number of the array at an index of the axes in front, which are repeated where their length is 1.
    fn number(&self, index: &[usize]) -> usize {
        self.lead.iter().zip(index).fold(0, |number, (&length, &n)| number * length + n.min(length - 1))
    }
}

/// Groups systems by their coefficients: for the numbers of the coefficients' arrays, those of the right-hand sides and of the solutions. The last batch
/// that is read has the right-hand sides.
pub(crate) fn groups(read: &[&Batch], written: &Batch) -> isobar::Result<BTreeMap<Vec<usize>, Vec<(usize, usize)>>> {
    let lengths = &written.lead;
    let fits = |batch: &&Batch| {
        batch.lead.len() == lengths.len() && batch.lead.iter().zip(lengths).all(|(&own, &all)| own == all || own == 1)
    };
    if !read.iter().all(fits) || lengths.contains(&0) {
        return Err(isobar::Error::invalid(
            "the arrays of several systems",
            format!("their axes in front are not {lengths:?}"),
        ));
    }
    let mut found: BTreeMap<Vec<usize>, Vec<(usize, usize)>> = BTreeMap::new();
    let mut index = vec![0; lengths.len()];
    for n in 0..lengths.iter().product() {
        let mut rest = n;
        for (place, length) in index.iter_mut().zip(lengths).rev() {
            (*place, rest) = (rest % length, rest / length);
        }
        let mut numbers: Vec<usize> = read.iter().map(|batch| batch.number(&index)).collect();
        let values = numbers.pop().unwrap_or(0);
        found.entry(numbers).or_default().push((values, n));
    }
    Ok(found)
}

/// Returns an array as one on a GPU.
///
/// # Safety
/// See [`RawArray::source`].
pub(crate) unsafe fn on_device(array: &RawArray) -> isobar::Result<DeviceArray> {
    // SAFETY: promised by the caller.
    match unsafe { array.source()? } {
        Source::Device(array) => Ok(array),
        _ => Err(isobar::Error::invalid(
            "array",
            "some arrays are on a device and some on the host; copy them to one place",
        )),
    }
}
