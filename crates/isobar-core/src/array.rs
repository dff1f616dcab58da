//! Callers' arrays: any strides, in host memory or in that of a GPU.

mod device;
mod passes;
#[cfg(test)]
mod tests;

use crate::error::{Error, Result};
use crate::execute::Execute;
use crate::layout::{Patch, Shape, Slab};
use crate::real::Precision;

pub use device::DeviceArray;
pub(crate) use passes::average_copies;

/// A caller's three-dimensional array of any strides: borrowed, and copied only where necessary.
///
/// Strides are in elements and ordered (x, y, z). The default of the field's files, C order with shape (nz, ny, nx), is [`ArrayView::c_order`].
#[derive(Clone, Copy, Debug)]
pub struct ArrayView<'a, T> {
    data: &'a [T],
    shape: Shape,
    place: Place,
}

/// The writable counterpart of [`ArrayView`].
#[derive(Debug)]
pub struct ArrayViewMut<'a, T> {
    data: &'a mut [T],
    shape: Shape,
    place: Place,
}

/// The place of an array's elements in a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    /// The position of element (0, 0, 0).
    origin: usize,
    /// Strides for x, y and z; a negative one counts backwards.
    strides: [isize; 3],
}

impl Place {
    fn c_order(shape: Shape) -> Self {
        Self { origin: 0, strides: c_order_strides(shape).map(usize::cast_signed) }
    }

    /// Returns the place, if all elements of an array of this shape lie among `len`.
    fn checked(self, len: usize, shape: Shape) -> Result<Self> {
        match self.range(shape) {
            Some((first, last)) if first >= 0 && last < len as i128 => Ok(self),
            _ => Err(Error::shape(
                "array",
                format!("{len} elements"),
                format!(
                    "room for {shape} cells at strides (x, y, z) = {:?} from element {}",
                    self.strides, self.origin
                ),
            )),
        }
    }

    /// Returns the first and the last element used.
    fn range(self, shape: Shape) -> Option<(i128, i128)> {
        let (mut first, mut last) = (self.origin as i128, self.origin as i128);
        for (n, stride) in shape.extents().into_iter().zip(self.strides) {
            let extent = (n.max(1) as i128 - 1).checked_mul(stride as i128)?;
            let end = if extent < 0 { &mut first } else { &mut last };
            *end = end.checked_add(extent)?;
        }
        Some((first, last))
    }

    #[inline(always)]
    fn of(self, i: usize, j: usize, k: usize) -> usize {
        let [x, y, z] = self.strides;
        let (x, y, z) = (x.cast_unsigned(), y.cast_unsigned(), z.cast_unsigned());
        // Arithmetic modulo 2⁶⁴ is right for strides of either sign.
        let inside = i.wrapping_mul(x).wrapping_add(j.wrapping_mul(y)).wrapping_add(k.wrapping_mul(z));
        self.origin.wrapping_add(inside)
    }

    /// Returns the place of the elements from another column on.
    fn at(self, [i, j]: [usize; 2]) -> Self {
        Self { origin: self.of(i, j, 0), ..self }
    }

    fn is_c_order(self, shape: Shape) -> bool {
        let strides = self.strides.into_iter().zip(Self::c_order(shape).strides);
        // The stride of a single element is never used.
        strides.zip(shape.extents()).all(|((own, wanted), n)| own == wanted || n == 1)
    }
}

fn c_order_strides(shape: Shape) -> [usize; 3] {
    [1, shape.nx, shape.nx * shape.ny]
}

impl<'a, T: Copy> ArrayView<'a, T> {
    /// Makes a view with strides (x, y, z) in elements.
    ///
    /// # Errors
    /// [`Error::Shape`] if the last element would lie outside `data`.
    pub fn new(data: &'a [T], shape: Shape, strides: [usize; 3]) -> Result<Self> {
        // A stride beyond isize leaves any slice.
        Self::from_origin(data, 0, shape, strides.map(|stride| isize::try_from(stride).unwrap_or(isize::MAX)))
    }

    /// Makes a view whose element (0, 0, 0) is number `origin`; strides (x, y, z) in elements may be negative.
    ///
    /// # Errors
    /// [`Error::Shape`] if an element would lie outside `data`.
    pub fn from_origin(data: &'a [T], origin: usize, shape: Shape, strides: [isize; 3]) -> Result<Self> {
        let place = Place { origin, strides }.checked(data.len(), shape)?;
        Ok(Self { data, shape, place })
    }

    /// Makes a view of an array of shape (nz, ny, nx) in C order.
    ///
    /// # Errors
    /// [`Error::Shape`] if `data` has another length.
    pub fn c_order(data: &'a [T], shape: Shape) -> Result<Self> {
        exact_length(data.len(), shape)?;
        Ok(Self { data, shape, place: Place::c_order(shape) })
    }

    /// Makes an array with one value everywhere.
    pub fn constant(value: &'a T, shape: Shape) -> Self {
        Self { data: std::slice::from_ref(value), shape, place: Place { origin: 0, strides: [0; 3] } }
    }

    /// Returns the shape of the grid.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Returns some of its columns.
    ///
    /// # Errors
    /// [`Error::Shape`] where it has fewer.
    pub fn part(&self, part: Patch) -> Result<Self> {
        check_part(self.shape, part)?;
        Ok(Self { data: self.data, shape: part.shape(self.shape), place: self.place.at(part.origin()) })
    }

    /// Returns the entries in C order, (nz, ny, nx), if they lie so in memory.
    pub fn as_c_order(&self) -> Option<&'a [T]> {
        let Place { origin, .. } = self.place;
        self.place.is_c_order(self.shape).then(|| &self.data[origin..origin + self.shape.cells()])
    }

    /// Returns the entries of each layer in C order, (ny, nx), if they lie so in memory.
    pub fn layers(&self) -> Option<Vec<&'a [T]>> {
        let layer = Shape { nz: 1, ..self.shape };
        let entries = |k: usize| {
            let start = self.place.of(0, 0, k);
            &self.data[start..start + layer.cells()]
        };
        self.place.is_c_order(layer).then(|| (0..self.shape.nz).map(entries).collect())
    }

    /// Returns the entries of a line in x, if they are contiguous.
    pub fn line(&self, j: usize, k: usize) -> Option<&'a [T]> {
        let start = self.place.of(0, j, k);
        (self.place.strides[0] == 1).then(|| &self.data[start..start + self.shape.nx])
    }

    /// Returns one entry.
    #[inline(always)]
    pub fn get(&self, i: usize, j: usize, k: usize) -> T {
        self.data[self.place.of(i, j, k)]
    }
}

impl<'a, T: Copy> ArrayViewMut<'a, T> {
    /// Makes a view with strides (x, y, z) in elements.
    ///
    /// # Errors
    /// [`Error::Shape`] if the last element would lie outside `data`.
    pub fn new(data: &'a mut [T], shape: Shape, strides: [usize; 3]) -> Result<Self> {
        // A stride beyond isize leaves any slice.
        Self::from_origin(data, 0, shape, strides.map(|stride| isize::try_from(stride).unwrap_or(isize::MAX)))
    }

    /// Makes a view whose element (0, 0, 0) is number `origin`; strides (x, y, z) in elements may be negative.
    ///
    /// # Errors
    /// [`Error::Shape`] if an element would lie outside `data`.
    pub fn from_origin(data: &'a mut [T], origin: usize, shape: Shape, strides: [isize; 3]) -> Result<Self> {
        let place = Place { origin, strides }.checked(data.len(), shape)?;
        Ok(Self { data, shape, place })
    }

    /// Makes a view of an array of shape (nz, ny, nx) in C order.
    ///
    /// # Errors
    /// [`Error::Shape`] if `data` has another length.
    pub fn c_order(data: &'a mut [T], shape: Shape) -> Result<Self> {
        exact_length(data.len(), shape)?;
        Ok(Self { data, shape, place: Place::c_order(shape) })
    }

    /// Returns the shape of the grid.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Borrows the view to write.
    pub fn reborrow(&mut self) -> ArrayViewMut<'_, T> {
        ArrayViewMut { data: &mut *self.data, ..*self }
    }

    /// Borrows the array to read.
    pub fn as_view(&self) -> ArrayView<'_, T> {
        ArrayView { data: self.data, shape: self.shape, place: self.place }
    }

    /// Returns some of its columns.
    ///
    /// # Errors
    /// [`Error::Shape`] where it has fewer.
    pub fn into_part(self, part: Patch) -> Result<Self> {
        check_part(self.shape, part)?;
        let Self { data, shape, place } = self;
        Ok(Self { data, shape: part.shape(shape), place: place.at(part.origin()) })
    }

    /// Returns the entries in C order, (nz, ny, nx), if they lie so in memory.
    pub fn as_c_order_mut(&mut self) -> Option<&mut [T]> {
        let Place { origin, .. } = self.place;
        self.place.is_c_order(self.shape).then(|| &mut self.data[origin..origin + self.shape.cells()])
    }

    /// Returns its layers, if they lie one after the other in memory, each apart from the others.
    pub fn layers(&mut self) -> Option<Vec<ArrayViewMut<'_, T>>> {
        let Place { origin, strides } = self.place;
        let Shape { nx, ny, nz } = self.shape;
        let [x, y, z] = strides.map(|stride| usize::try_from(stride).ok());
        let (x, y, z) = (x?, y?, z.filter(|&z| z > 0)?);
        let is_apart = nx.saturating_sub(1).checked_mul(x)?.checked_add(ny.saturating_sub(1).checked_mul(y)?)? < z;
        let layer =
            |data| ArrayViewMut { data, shape: Shape { nz: 1, ..self.shape }, place: Place { origin: 0, strides } };
        is_apart.then(|| self.data[origin..].chunks_mut(z).take(nz).map(layer).collect())
    }

    /// Calls `f(k, layer)` for all layers, by all threads where these are apart from each other in memory.
    pub fn for_each_layer(&mut self, execute: &impl Execute, f: impl Fn(usize, &mut ArrayViewMut<'_, T>) + Sync)
    where
        T: Send,
    {
        if let Some(mut layers) = self.layers() {
            return execute.for_each(&mut layers, f);
        }
        for k in 0..self.shape.nz {
            let place = Place { origin: self.place.of(0, 0, k), ..self.place };
            f(k, &mut ArrayViewMut { data: &mut *self.data, shape: Shape { nz: 1, ..self.shape }, place });
        }
    }

    /// Stores a line in x.
    ///
    /// # Panics
    /// Where there are fewer values than cells.
    pub fn set_line(&mut self, j: usize, k: usize, values: &[T]) {
        let (start, values) = (self.place.of(0, j, k), &values[..self.shape.nx]);
        if self.place.strides[0] == 1 {
            self.data[start..start + self.shape.nx].copy_from_slice(values);
        } else {
            values.iter().enumerate().for_each(|(i, &value)| self.set(i, j, k, value));
        }
    }

    /// Stores one entry.
    #[inline(always)]
    pub fn set(&mut self, i: usize, j: usize, k: usize, value: T) {
        self.data[self.place.of(i, j, k)] = value;
    }
}

fn check_part(shape: Shape, Patch { x, y }: Patch) -> Result<()> {
    let is_there = |of: Slab, cells: usize| of.first < of.beyond && of.beyond <= cells;
    if is_there(x, shape.nx) && is_there(y, shape.ny) {
        Ok(())
    } else {
        let wanted = format!("columns {} to {} of rows {} to {}", x.first, x.beyond, y.first, y.beyond);
        Err(Error::shape("array", shape, wanted))
    }
}

fn exact_length(len: usize, shape: Shape) -> Result<()> {
    if len == shape.cells() {
        Ok(())
    } else {
        Err(Error::shape("array", format!("{len} elements"), format!("{} = {shape}", shape.cells())))
    }
}

/// An array to read: in host memory or on a device.
#[derive(Clone, Copy, Debug)]
pub enum Source<'a> {
    /// In host memory, double precision.
    F64(ArrayView<'a, f64>),
    /// In host memory, single precision.
    F32(ArrayView<'a, f32>),
    /// In the memory of a GPU.
    Device(DeviceArray),
}

/// An array to write: in host memory or on a device; or none.
#[derive(Debug)]
pub enum Target<'a> {
    /// In host memory, double precision.
    F64(ArrayViewMut<'a, f64>),
    /// In host memory, single precision.
    F32(ArrayViewMut<'a, f32>),
    /// In the memory of a GPU.
    Device(DeviceArray),
    /// None: the solution of this shape remains with its solver.
    Nothing(Shape),
}

impl Source<'_> {
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
    /// Returns some of its columns.
    ///
    /// # Errors
    /// [`Error::Shape`] where it has fewer; [`Error::Unsupported`] for an array on a device.
    pub fn part(self, part: Patch) -> Result<Source<'a>> {
        match self {
            Self::F64(view) => Ok(view.part(part)?.into()),
            Self::F32(view) => Ok(view.part(part)?.into()),
            Self::Device(_) => Err(no_rows_on_a_device()),
        }
    }
}

impl<'a> Target<'a> {
    /// Returns some of its columns.
    ///
    /// # Errors
    /// See [`Source::part`].
    pub fn into_part(self, part: Patch) -> Result<Target<'a>> {
        match self {
            Self::F64(view) => Ok(view.into_part(part)?.into()),
            Self::F32(view) => Ok(view.into_part(part)?.into()),
            Self::Device(_) => Err(no_rows_on_a_device()),
            Self::Nothing(shape) => Ok(Self::Nothing(part.shape(shape))),
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
