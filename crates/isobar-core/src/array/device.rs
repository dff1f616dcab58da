//! Callers' arrays in the memory of a GPU.

use super::c_order_strides;
use crate::error::{Error, Result};
use crate::layout::{Shape, undo_order};
use crate::real::{Precision, Real};

/// A caller's three-dimensional array in the memory of a GPU, with any strides, allocated by CUDA's runtime, Fortran's OpenACC,
/// PyTorch or CuPy. It is plain data and owns nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceArray {
    pointer: u64,
    shape: Shape,
    strides: [usize; 3],
    /// The copies in x and y that the shape has.
    copies: [u8; 2],
    /// The caller's direction that each of these is.
    order: [u8; 3],
    precision: Precision,
    device: usize,
    stream: Option<u64>,
}

impl DeviceArray {
    /// Describes the array whose element (i, j, k) is `i · strides[0] + j · strides[1] + k · strides[2]` elements of type S
    /// behind `pointer`, an address in the memory of CUDA device number `device`.
    ///
    /// # Safety
    /// All those elements lie in memory of that device that stays allocated while the array is used, and nothing else writes
    /// them, or reads isobar's results, before the call that uses the array returns.
    pub unsafe fn new<S: Real>(pointer: u64, shape: Shape, strides: [usize; 3], device: usize) -> Self {
        Self {
            pointer,
            shape,
            strides,
            copies: [1; 2],
            order: [0, 1, 2],
            precision: S::PRECISION,
            device,
            stream: None,
        }
    }

    /// Describes an array of elements in C order, shape (nz, ny, nx).
    ///
    /// # Safety
    /// See [`DeviceArray::new`].
    pub unsafe fn c_order<S: Real>(pointer: u64, shape: Shape, device: usize) -> Self {
        // SAFETY: promised by the caller.
        unsafe { Self::new::<S>(pointer, shape, c_order_strides(shape), device) }
    }

    /// Sets the CUDA stream, a `cudaStream_t` or `CUstream` as a number, whose queued work must finish before the array is used.
    /// Without one, the caller's work on the array must be finished.
    #[must_use]
    pub fn on_stream(self, stream: u64) -> Self {
        Self { stream: Some(stream), ..self }
    }

    /// Describes the array on a grid of this many copies of it along x and y. A reader finds the same values in all copies; a writer stores the
    /// mean over all copies.
    pub(crate) fn repeated(self, copies: [u8; 2]) -> Self {
        let ([x, y], Shape { nx, ny, nz }) = (copies.map(usize::from), self.shape);
        let copies = [0, 1].map(|d| copies[d] * self.copies[d]);
        Self { shape: Shape { nx: x * nx, ny: y * ny, nz }, copies, ..self }
    }

    /// Describes the array, of which there is one copy, with its directions in another order.
    pub(crate) fn in_order(self, order: [usize; 3]) -> Self {
        let (strides, before) = (order.map(|axis| self.strides[axis]), order.map(|axis| self.order[axis]));
        Self { shape: self.shape.in_order(order), strides, order: before, ..self }
    }

    /// Returns the cell of the caller's array that is this one.
    pub fn callers_cell(&self, at: [usize; 3]) -> [usize; 3] {
        undo_order(self.order.map(usize::from), at)
    }

    /// Returns the layers from `first` to `last` of column (i, j).
    ///
    /// # Errors
    /// [`Error::Shape`] if it has no such layers.
    pub fn column(self, [i, j]: [usize; 2], [first, last]: [usize; 2]) -> Result<Self> {
        self.part([i, j, first], Shape::new(1, 1, last.saturating_add(1).saturating_sub(first)))
    }

    /// Returns the part of this shape that begins with a cell.
    ///
    /// # Errors
    /// [`Error::Shape`] if it has no such cells.
    pub fn part(self, at: [usize; 3], shape: Shape) -> Result<Self> {
        let [nx, ny] = self.period();
        let (given, there) = (shape.extents(), [nx, ny, self.shape.nz]);
        if given.contains(&0) || !(0..3).all(|d| at[d].saturating_add(given[d]) <= there[d]) {
            return Err(Error::shape("array", self.shape, format!("{shape} cells from cell {at:?} on")));
        }
        let size = if self.precision == Precision::F32 { size_of::<f32>() } else { size_of::<f64>() };
        let before: usize = at.iter().zip(self.strides).map(|(n, stride)| n * stride).sum();
        let pointer = self.pointer + (before * size) as u64;
        Ok(Self { pointer, shape, copies: [1; 2], ..self })
    }

    /// Returns the address of element (0, 0, 0).
    pub fn pointer(&self) -> u64 {
        self.pointer
    }

    /// Returns the shape of the grid.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Returns the strides for x, y and z in elements.
    pub fn strides(&self) -> [usize; 3] {
        self.strides
    }

    /// Returns the numbers of its elements in x and y, after which it is repeated: fewer than the cells of its shape if it represents several
    /// copies of itself.
    pub fn period(&self) -> [usize; 2] {
        let [x, y] = self.copies.map(usize::from);
        [self.shape.nx / x, self.shape.ny / y]
    }

    /// Returns the type of its elements, f32 or f64.
    pub fn precision(&self) -> Precision {
        self.precision
    }

    /// Returns the number of the CUDA device.
    pub fn device(&self) -> usize {
        self.device
    }

    /// Returns the stream to wait for.
    pub fn stream(&self) -> Option<u64> {
        self.stream
    }
}
