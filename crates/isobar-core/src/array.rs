//! Callers' arrays: any strides, in host memory or in that of a GPU.

use crate::error::{Error, Result};
use crate::layout::{Shape, Slab};
use crate::real::{Precision, Real};

/// A caller's three-dimensional array: any strides, borrowed, never copied before it is needed.
///
/// Strides are in elements and ordered (x, y, z). The default of the field's files, C order with
/// shape (nz, ny, nx), is [`ArrayView::c_order`].
#[derive(Clone, Copy, Debug)]
pub struct ArrayView<'a, T> {
    data: &'a [T],
    shape: Shape,
    strides: [usize; 3],
}

/// The writable counterpart of [`ArrayView`].
#[derive(Debug)]
pub struct ArrayViewMut<'a, T> {
    data: &'a mut [T],
    shape: Shape,
    strides: [usize; 3],
}

fn check_strides(len: usize, shape: Shape, strides: [usize; 3]) -> Result<()> {
    let extent = |n: usize, stride: usize| (n.max(1) - 1).checked_mul(stride);
    let last = extent(shape.nx, strides[0])
        .and_then(|x| extent(shape.ny, strides[1])?.checked_add(x))
        .and_then(|xy| extent(shape.nz, strides[2])?.checked_add(xy));
    match last {
        Some(last) if last < len => Ok(()),
        _ => Err(Error::shape(
            "array",
            format!("{len} elements"),
            format!("room for {shape} cells at strides (x, y, z) = {strides:?}"),
        )),
    }
}

fn c_order_strides(shape: Shape) -> [usize; 3] {
    [1, shape.nx, shape.nx * shape.ny]
}

impl<'a, T: Copy> ArrayView<'a, T> {
    /// A view with strides (x, y, z) in elements.
    ///
    /// # Errors
    /// [`Error::Shape`] if the last element would lie outside `data`.
    pub fn new(data: &'a [T], shape: Shape, strides: [usize; 3]) -> Result<Self> {
        check_strides(data.len(), shape, strides)?;
        Ok(Self { data, shape, strides })
    }

    /// A view of an array of shape (nz, ny, nx) in C order.
    ///
    /// # Errors
    /// [`Error::Shape`] if `data` has another length.
    pub fn c_order(data: &'a [T], shape: Shape) -> Result<Self> {
        exact_length(data.len(), shape)?;
        Self::new(data, shape, c_order_strides(shape))
    }

    /// The same value everywhere.
    pub fn constant(value: &'a T, shape: Shape) -> Self {
        Self { data: std::slice::from_ref(value), shape, strides: [0; 3] }
    }

    /// The grid.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Some of its rows.
    ///
    /// # Errors
    /// [`Error::Shape`] where it has fewer.
    pub fn rows(&self, rows: Slab) -> Result<Self> {
        check_rows(self.shape, rows)?;
        Ok(Self { data: &self.data[rows.first * self.strides[1]..], shape: rows.shape(self.shape), ..*self })
    }

    /// The entries in C order, (nz, ny, nx), if that is how they lie in memory.
    pub fn as_c_order(&self) -> Option<&'a [T]> {
        (self.strides == c_order_strides(self.shape)).then(|| &self.data[..self.shape.cells()])
    }

    /// The entries of a line in x, if they follow each other in memory.
    pub fn line(&self, j: usize, k: usize) -> Option<&'a [T]> {
        let start = j * self.strides[1] + k * self.strides[2];
        (self.strides[0] == 1).then(|| &self.data[start..start + self.shape.nx])
    }

    /// One entry.
    #[inline(always)]
    pub fn get(&self, i: usize, j: usize, k: usize) -> T {
        self.data[i * self.strides[0] + j * self.strides[1] + k * self.strides[2]]
    }
}

impl<'a, T: Copy> ArrayViewMut<'a, T> {
    /// A view with strides (x, y, z) in elements.
    ///
    /// # Errors
    /// [`Error::Shape`] if the last element would lie outside `data`.
    pub fn new(data: &'a mut [T], shape: Shape, strides: [usize; 3]) -> Result<Self> {
        check_strides(data.len(), shape, strides)?;
        Ok(Self { data, shape, strides })
    }

    /// A view of an array of shape (nz, ny, nx) in C order.
    ///
    /// # Errors
    /// [`Error::Shape`] if `data` has another length.
    pub fn c_order(data: &'a mut [T], shape: Shape) -> Result<Self> {
        exact_length(data.len(), shape)?;
        Self::new(data, shape, c_order_strides(shape))
    }

    /// The grid.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The same array, read only.
    pub fn as_view(&self) -> ArrayView<'_, T> {
        ArrayView { data: self.data, shape: self.shape, strides: self.strides }
    }

    /// Some of its rows.
    ///
    /// # Errors
    /// [`Error::Shape`] where it has fewer.
    pub fn into_rows(self, rows: Slab) -> Result<Self> {
        check_rows(self.shape, rows)?;
        let Self { data, shape, strides } = self;
        Ok(Self { data: &mut data[rows.first * strides[1]..], shape: rows.shape(shape), strides })
    }

    /// The entries in C order, (nz, ny, nx), if that is how they lie in memory.
    pub fn as_c_order_mut(&mut self) -> Option<&mut [T]> {
        (self.strides == c_order_strides(self.shape)).then(|| &mut self.data[..self.shape.cells()])
    }

    /// Stores a line in x.
    ///
    /// # Panics
    /// Where there are fewer values than cells.
    pub fn set_line(&mut self, j: usize, k: usize, values: &[T]) {
        let (start, values) = (j * self.strides[1] + k * self.strides[2], &values[..self.shape.nx]);
        if self.strides[0] == 1 {
            self.data[start..start + self.shape.nx].copy_from_slice(values);
        } else {
            values.iter().enumerate().for_each(|(i, &value)| self.set(i, j, k, value));
        }
    }

    /// Stores one entry.
    #[inline(always)]
    pub fn set(&mut self, i: usize, j: usize, k: usize, value: T) {
        self.data[i * self.strides[0] + j * self.strides[1] + k * self.strides[2]] = value;
    }
}

fn check_rows(shape: Shape, rows: Slab) -> Result<()> {
    if rows.first < rows.beyond && rows.beyond <= shape.ny {
        Ok(())
    } else {
        Err(Error::shape("array", shape.to_string(), format!("rows {} to {}", rows.first, rows.beyond)))
    }
}

fn exact_length(len: usize, shape: Shape) -> Result<()> {
    if len == shape.cells() {
        Ok(())
    } else {
        Err(Error::shape("array", format!("{len} elements"), format!("{} = {shape}", shape.cells())))
    }
}

/// A caller's three-dimensional array in the memory of a GPU, with any strides: what CUDA's runtime, Fortran's OpenACC,
/// PyTorch or CuPy allocated. Plain data: it says where the array is, and owns nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceArray {
    pointer: u64,
    shape: Shape,
    strides: [usize; 3],
    precision: Precision,
    device: usize,
    stream: Option<u64>,
}

impl DeviceArray {
    /// The array whose element (i, j, k) is `i · strides[0] + j · strides[1] + k · strides[2]` elements of type S behind
    /// `pointer`, an address in the memory of CUDA device number `device`.
    ///
    /// # Safety
    /// All those elements lie in memory of that device that stays allocated while the array is used, and nothing else
    /// writes them, or reads what isobar writes, before the call that uses the array returns.
    pub unsafe fn new<S: Real>(pointer: u64, shape: Shape, strides: [usize; 3], device: usize) -> Self {
        Self { pointer, shape, strides, precision: S::PRECISION, device, stream: None }
    }

    /// The same in C order, shape (nz, ny, nx).
    ///
    /// # Safety
    /// As [`DeviceArray::new`].
    pub unsafe fn c_order<S: Real>(pointer: u64, shape: Shape, device: usize) -> Self {
        // SAFETY: promised by the caller.
        unsafe { Self::new::<S>(pointer, shape, c_order_strides(shape), device) }
    }

    /// The same array, to be used after what is now in this CUDA stream, a `cudaStream_t` or `CUstream` as a number.
    /// Without one, the caller's work on the array must be finished.
    #[must_use]
    pub fn on_stream(self, stream: u64) -> Self {
        Self { stream: Some(stream), ..self }
    }

    /// Where element (0, 0, 0) is.
    pub fn pointer(&self) -> u64 {
        self.pointer
    }

    /// The grid.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// In elements, for x, y and z.
    pub fn strides(&self) -> [usize; 3] {
        self.strides
    }

    /// The type of its elements, f32 or f64.
    pub fn precision(&self) -> Precision {
        self.precision
    }

    /// The number of the CUDA device.
    pub fn device(&self) -> usize {
        self.device
    }

    /// The stream to wait for.
    pub fn stream(&self) -> Option<u64> {
        self.stream
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

/// An array to write: in host memory or on a device.
#[derive(Debug)]
pub enum Target<'a> {
    /// In host memory, double precision.
    F64(ArrayViewMut<'a, f64>),
    /// In host memory, single precision.
    F32(ArrayViewMut<'a, f32>),
    /// In the memory of a GPU.
    Device(DeviceArray),
}

impl Source<'_> {
    /// The grid.
    pub fn shape(&self) -> Shape {
        match self {
            Self::F64(view) => view.shape(),
            Self::F32(view) => view.shape(),
            Self::Device(array) => array.shape(),
        }
    }
}

impl<'a> Source<'a> {
    /// Some of its rows.
    ///
    /// # Errors
    /// [`Error::Shape`] where it has fewer; [`Error::Unsupported`] for an array on a device.
    pub fn rows(self, rows: Slab) -> Result<Source<'a>> {
        match self {
            Self::F64(view) => Ok(view.rows(rows)?.into()),
            Self::F32(view) => Ok(view.rows(rows)?.into()),
            Self::Device(_) => Err(no_rows_on_a_device()),
        }
    }
}

impl<'a> Target<'a> {
    /// Some of its rows.
    ///
    /// # Errors
    /// As [`Source::rows`].
    pub fn into_rows(self, rows: Slab) -> Result<Target<'a>> {
        match self {
            Self::F64(view) => Ok(view.into_rows(rows)?.into()),
            Self::F32(view) => Ok(view.into_rows(rows)?.into()),
            Self::Device(_) => Err(no_rows_on_a_device()),
        }
    }
}

fn no_rows_on_a_device() -> Error {
    Error::Unsupported("rows of an array in the memory of a GPU; copy it to host memory".into())
}

impl Target<'_> {
    /// The grid.
    pub fn shape(&self) -> Shape {
        match self {
            Self::F64(view) => view.shape(),
            Self::F32(view) => view.shape(),
            Self::Device(array) => array.shape(),
        }
    }

    /// The same array, to read.
    pub fn as_source(&self) -> Source<'_> {
        match self {
            Self::F64(view) => Source::F64(view.as_view()),
            Self::F32(view) => Source::F32(view.as_view()),
            Self::Device(array) => Source::Device(*array),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_check_their_bounds() {
        let data = [0.0; 24];
        let shape = Shape::new(4, 3, 2);
        assert!(ArrayView::c_order(&data, shape).is_ok());
        assert!(ArrayView::c_order(&data[..23], shape).is_err());
        assert!(ArrayView::new(&data, shape, [6, 2, 1]).is_ok());
        assert!(ArrayView::new(&data, shape, [7, 2, 1]).is_err());
        assert!(ArrayView::new(&data, shape, [usize::MAX, 2, 1]).is_err());
    }

    #[test]
    fn rows_are_those_of_the_array() {
        let shape = Shape::new(4, 3, 2);
        let mut data: Vec<f64> = (0..24).map(f64::from).collect();
        for strides in [[1, 4, 12], [6, 2, 1], [0, 0, 0]] {
            let view = ArrayView::new(&data, shape, strides).unwrap();
            let rows = view.rows(Slab { first: 1, beyond: 3 }).unwrap();
            assert_eq!(rows.shape(), Shape::new(4, 2, 2));
            assert_eq!((rows.get(3, 0, 1), rows.get(0, 1, 0)), (view.get(3, 1, 1), view.get(0, 2, 0)));
            assert!(
                view.rows(Slab { first: 2, beyond: 4 }).is_err() && view.rows(Slab { first: 2, beyond: 2 }).is_err()
            );
        }
        let view = ArrayViewMut::c_order(&mut data, shape).unwrap();
        view.into_rows(Slab { first: 2, beyond: 3 }).unwrap().set(1, 0, 1, -1.0);
        assert_eq!(data[1 + 4 * (2 + 3)], -1.0);
    }
}
