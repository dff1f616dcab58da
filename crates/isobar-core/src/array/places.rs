//! Arrays where they are: in host memory, in either precision, or in that of a GPU.

use super::{ArrayView, ArrayViewMut, DeviceArray};
use crate::error::{Error, Result};
use crate::layout::{Shape, Slab};
use crate::real::Precision;

/// An array to read: in host memory or on a device.
#[derive(Clone, Copy, Debug)]
pub enum Source<'a> {
    /// An array in host memory, in double precision.
    F64(ArrayView<'a, f64>),
    /// An array in host memory, in single precision.
    F32(ArrayView<'a, f32>),
    /// An array in the memory of a GPU.
    Device(DeviceArray),
}

/// An array to write: in host memory or on a device; or none.
#[derive(Debug)]
pub enum Target<'a> {
    /// An array in host memory, in double precision.
    F64(ArrayViewMut<'a, f64>),
    /// An array in host memory, in single precision.
    F32(ArrayViewMut<'a, f32>),
    /// An array in the memory of a GPU.
    Device(DeviceArray),
    /// No array: the solution of this shape remains with its solver.
    Nothing(Shape),
}

impl Source<'_> {
    /// Describes the array with its directions in another order.
    pub(crate) fn in_order(self, order: [usize; 3]) -> Self {
        match self {
            Self::F64(view) => Self::F64(view.in_order(order)),
            Self::F32(view) => Self::F32(view.in_order(order)),
            Self::Device(array) => Self::Device(array.in_order(order)),
        }
    }

    /// Returns the shape of the grid.
    pub fn shape(&self) -> Shape {
        match self {
            Self::F64(view) => view.shape(),
            Self::F32(view) => view.shape(),
            Self::Device(array) => array.shape(),
        }
    }
}

impl<'a> Source<'a> {
    /// Returns some of its rows.
    ///
    /// # Errors
    /// [`Error::Shape`] if it has fewer; [`Error::Unsupported`] for an array on a device.
    pub fn part(self, part: Slab) -> Result<Source<'a>> {
        match self {
            Self::F64(view) => Ok(view.part(part)?.into()),
            Self::F32(view) => Ok(view.part(part)?.into()),
            Self::Device(_) => Err(no_rows_on_a_device()),
        }
    }
}

impl<'a> Target<'a> {
    /// Returns some of its rows.
    ///
    /// # Errors
    /// See [`Source::part`].
    pub fn into_part(self, part: Slab) -> Result<Target<'a>> {
        match self {
            Self::F64(view) => Ok(view.into_part(part)?.into()),
            Self::F32(view) => Ok(view.into_part(part)?.into()),
            Self::Device(_) => Err(no_rows_on_a_device()),
            Self::Nothing(shape) => Ok(Self::Nothing(part.shape(shape))),
        }
    }

    /// Divides it into rows; see [`ArrayViewMut::into_parts`].
    ///
    /// # Errors
    /// See [`ArrayViewMut::into_parts`]; [`Error::Unsupported`] for an array on a device.
    pub fn into_parts(self, parts: &[Slab]) -> Result<Vec<Target<'a>>> {
        match self {
            Self::F64(view) => Ok(view.into_parts(parts)?.into_iter().map(Target::from).collect()),
            Self::F32(view) => Ok(view.into_parts(parts)?.into_iter().map(Target::from).collect()),
            Self::Device(_) => Err(no_rows_on_a_device()),
            Self::Nothing(shape) => Ok(parts.iter().map(|part| Target::Nothing(part.shape(shape))).collect()),
        }
    }
}

fn no_rows_on_a_device() -> Error {
    Error::Unsupported("rows of an array in the memory of a GPU; copy it to host memory".into())
}

impl Target<'_> {
    /// Borrows the array to write.
    pub fn reborrow(&mut self) -> Target<'_> {
        match self {
            Self::F64(view) => Target::F64(view.reborrow()),
            Self::F32(view) => Target::F32(view.reborrow()),
            Self::Device(array) => Target::Device(*array),
            Self::Nothing(shape) => Target::Nothing(*shape),
        }
    }

    /// Borrows the array to write, with its directions in another order.
    pub(crate) fn in_order(&mut self, order: [usize; 3]) -> Target<'_> {
        match self {
            Self::F64(view) => Target::F64(view.in_order(order)),
            Self::F32(view) => Target::F32(view.in_order(order)),
            Self::Device(array) => Target::Device(array.in_order(order)),
            Self::Nothing(shape) => Target::Nothing(shape.in_order(order)),
        }
    }

    /// Returns whether its elements are in single precision.
    pub fn is_single(&self) -> bool {
        match self {
            Self::F64(_) => false,
            Self::F32(_) => true,
            Self::Device(array) => array.precision() == Precision::F32,
            Self::Nothing(_) => false,
        }
    }

    /// Returns the shape of the grid.
    pub fn shape(&self) -> Shape {
        match self {
            Self::F64(view) => view.shape(),
            Self::F32(view) => view.shape(),
            Self::Device(array) => array.shape(),
            Self::Nothing(shape) => *shape,
        }
    }

    /// Borrows the array to read, if there is one.
    pub fn as_source(&self) -> Option<Source<'_>> {
        match self {
            Self::F64(view) => Some(Source::F64(view.as_view())),
            Self::F32(view) => Some(Source::F32(view.as_view())),
            Self::Device(array) => Some(Source::Device(*array)),
            Self::Nothing(_) => None,
        }
    }
}

impl<'a> From<ArrayView<'a, f64>> for Source<'a> {
    fn from(view: ArrayView<'a, f64>) -> Self {
        Self::F64(view)
    }
}

impl<'a> From<ArrayView<'a, f32>> for Source<'a> {
    fn from(view: ArrayView<'a, f32>) -> Self {
        Self::F32(view)
    }
}

impl From<DeviceArray> for Source<'_> {
    fn from(array: DeviceArray) -> Self {
        Self::Device(array)
    }
}

impl<'a> From<ArrayViewMut<'a, f64>> for Target<'a> {
    fn from(view: ArrayViewMut<'a, f64>) -> Self {
        Self::F64(view)
    }
}

impl<'a> From<ArrayViewMut<'a, f32>> for Target<'a> {
    fn from(view: ArrayViewMut<'a, f32>) -> Self {
        Self::F32(view)
    }
}

impl From<DeviceArray> for Target<'_> {
    fn from(array: DeviceArray) -> Self {
        Self::Device(array)
    }
}
