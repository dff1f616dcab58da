//! Callers' arrays.

use std::ffi::c_void;

use isobar::{Precision, RawArray, RawMemory, Shape};

use crate::status::{Failure, Result};

/// Elements are `double`.
pub const ISOBAR_F64: i32 = 0;
/// Elements are `float`.
pub const ISOBAR_F32: i32 = 1;
/// Elements are bytes, 0 or not 0; for masks only.
pub const ISOBAR_U8: i32 = 2;

/// The array is in host memory.
pub const ISOBAR_HOST: i32 = -1;

/// An array with one value per cell in C order: `double u[nz][ny][nx]` has shape {nz, ny, nx}. A Fortran array u(nx, ny, nz) has the same
/// memory layout.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Array {
    /// Address of element (0, 0, 0); may be null if the array has no elements.
    pub data: *mut c_void,
    /// {nz, ny, nx}
    pub shape: [usize; 3],
    /// Strides in bytes, in the order of `shape`; all 0 means contiguous.
    pub strides: [isize; 3],
    /// ISOBAR_F64 or ISOBAR_F32; for a mask also ISOBAR_U8.
    pub dtype: i32,
    /// ISOBAR_HOST, or the number of the CUDA device whose memory holds the array.
    pub device: i32,
    /// For an array on a device, the cudaStream_t of the caller's work: isobar waits for the work submitted to it before the call, and
    /// later work in it may use the result. Null if the caller's work on the array is finished.
    pub stream: *mut c_void,
}

/// Describes a contiguous host array of shape {nz, ny, nx}.
#[unsafe(no_mangle)]
pub extern "C" fn isobar_host_array(data: *mut c_void, nz: usize, ny: usize, nx: usize, dtype: i32) -> Array {
    let stream = std::ptr::null_mut();
    Array { data, shape: [nz, ny, nx], strides: [0; 3], dtype, device: ISOBAR_HOST, stream }
}

impl Array {
    /// Returns the array's location; `what` is its name in messages.
    pub(crate) fn raw(&self, what: &str) -> Result<RawArray> {
        let precision = match self.dtype {
            ISOBAR_F64 => Precision::F64,
            ISOBAR_F32 => Precision::F32,
            other => {
                return Err(Failure::invalid(format!(
                    "{what}: unknown dtype {other}; use ISOBAR_F64 or ISOBAR_F32, in Fortran the kind c_double or c_float"
                )));
            }
        };
        self.place(precision).map_err(|failure| Failure { message: format!("{what}: {}", failure.message), ..failure })
    }

    fn place(&self, precision: Precision) -> Result<RawArray> {
        let memory = match self.device {
            ISOBAR_HOST => RawMemory::Host,
            device => match usize::try_from(device) {
                Ok(ordinal) => {
                    let stream = (!self.stream.is_null()).then_some(self.stream as u64);
                    RawMemory::Cuda { ordinal, stream }
                }
                Err(_) => {
                    let message = format!("unknown device {device}; use ISOBAR_HOST or the number of a CUDA device");
                    return Err(Failure::invalid(message));
                }
            },
        };
        let strides = (self.strides != [0; 3]).then_some(self.strides);
        let strides = strides.as_ref().map(<[isize; 3]>::as_slice);
        let made = RawArray::new(self.data as usize, &self.shape, strides, precision, memory);
        let names = [("element (0, 0, 0)", "element (0, 0, 0), in Fortran of an array that is allocated")];
        made.map_err(|error| Failure::from(error).with_names(&names))
    }

    fn shape(&self) -> Shape {
        let [nz, ny, nx] = self.shape;
        Shape::new(nx, ny, nz)
    }

    /// Returns its description after checking its shape.
    pub(crate) fn shaped(&self, what: &str, shape: Shape) -> Result<RawArray> {
        let array = self.raw(what)?;
        isobar::Error::unless_equal(what, array.shape(), shape)?;
        Ok(array)
    }

    /// Returns its values in C order.
    ///
    /// # Safety
    /// All its elements are readable.
    pub(crate) unsafe fn values(&self, what: &str, shape: Shape) -> Result<Vec<f64>> {
        // SAFETY: promised by the caller.
        Ok(unsafe { self.shaped(what, shape)?.read()? })
    }

    /// Returns which elements are not 0, in C order.
    ///
    /// # Safety
    /// The conditions of [`Array::values`].
    pub(crate) unsafe fn mask(&self, what: &str, shape: Shape) -> Result<Vec<bool>> {
        if self.dtype != ISOBAR_U8 {
            // SAFETY: promised by the caller.
            return Ok(unsafe { self.shaped(what, shape)?.source()? }.to_mask()?);
        }
        if self.device != ISOBAR_HOST || self.data.is_null() || self.shape() != shape {
            let found = self.shape();
            return Err(Failure::invalid(format!(
                "{what}: a mask of bytes must be in host memory and have {shape} cells (nx×ny×nz), not {found}"
            )));
        }
        let packed = [(shape.nx * shape.ny) as isize, shape.nx as isize, 1];
        let [z, y, x] = if self.strides == [0; 3] { packed } else { self.strides };
        let offset = |[i, j, k]: [usize; 3]| k as isize * z + j as isize * y + i as isize * x;
        let bytes = self.data.cast::<u8>();
        // SAFETY: an element of the array, which the caller promises to be readable.
        Ok(shape.places().map(|at| unsafe { *bytes.offset(offset(at)) } != 0).collect())
    }
}
