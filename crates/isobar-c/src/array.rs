//! A caller's array.

use std::ffi::c_void;

use isobar::{Precision, RawArray, RawMemory, Shape};

use crate::status::{Failure, Result};

/// Elements are `double`.
pub const ISOBAR_F64: i32 = 0;
/// Elements are `float`.
pub const ISOBAR_F32: i32 = 1;
/// Elements are bytes, 0 or not: masks only.
pub const ISOBAR_U8: i32 = 2;

/// In host memory.
pub const ISOBAR_HOST: i32 = -1;

/// An array of a value a cell, C order: `double u[nz][ny][nx]` has shape {nz, ny, nx}. A Fortran array u(nx, ny, nz) is the same
/// memory.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Array {
    /// Of element (0, 0, 0).
    pub data: *mut c_void,
    /// {nz, ny, nx}
    pub shape: [usize; 3],
    /// In bytes, in the order of `shape`; all 0 stands for an array without gaps.
    pub strides: [isize; 3],
    /// ISOBAR_F64 or ISOBAR_F32.
    pub dtype: i32,
    /// ISOBAR_HOST, or the number of the CUDA device whose memory holds it.
    pub device: i32,
    /// Of an array on a device: the cudaStream_t after whose work it is to be used, and whose later work may use the result.
    /// Null: the caller's work on it is finished.
    pub stream: *mut c_void,
}

/// A host array without gaps, of shape {nz, ny, nx}.
#[unsafe(no_mangle)]
pub extern "C" fn isobar_host_array(data: *mut c_void, nz: usize, ny: usize, nx: usize, dtype: i32) -> Array {
    let stream = std::ptr::null_mut();
    Array { data, shape: [nz, ny, nx], strides: [0; 3], dtype, device: ISOBAR_HOST, stream }
}

impl Array {
    /// Where it is; `what` is what messages call it.
    pub(crate) fn raw(&self, what: &str) -> Result<RawArray> {
        let precision = match self.dtype {
            ISOBAR_F64 => Precision::F64,
            ISOBAR_F32 => Precision::F32,
            other => return Err(Failure::invalid(format!("{what}: dtype {other}; use ISOBAR_F64 or ISOBAR_F32"))),
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
                    let message = format!("device {device}; use ISOBAR_HOST or the number of a CUDA device");
                    return Err(Failure::invalid(message));
                }
            },
        };
        let strides = (self.strides != [0; 3]).then_some(self.strides);
        let strides = strides.as_ref().map(<[isize; 3]>::as_slice);
        Ok(RawArray::new(self.data as usize, &self.shape, strides, precision, memory)?)
    }

    fn shape(&self) -> Shape {
        let [nz, ny, nx] = self.shape;
        Shape::new(nx, ny, nz)
    }

    /// Its values in C order.
    ///
    /// # Safety
    /// All its elements can be read.
    pub(crate) unsafe fn values(&self, what: &str, shape: Shape) -> Result<Vec<f64>> {
        let array = self.raw(what)?;
        if array.shape() != shape {
            return Err(isobar::Error::shape(what, array.shape().to_string(), shape.to_string()).into());
        }
        // SAFETY: promised by the caller.
        Ok(unsafe { array.read()? })
    }

    /// Which of its elements are not 0, in C order.
    ///
    /// # Safety
    /// As [`Array::values`].
    pub(crate) unsafe fn mask(&self, what: &str, shape: Shape) -> Result<Vec<bool>> {
        if self.dtype != ISOBAR_U8 {
            // SAFETY: promised by the caller.
            return Ok(unsafe { self.values(what, shape)? }.into_iter().map(|value| value != 0.0).collect());
        }
        if self.device != ISOBAR_HOST || self.data.is_null() || self.shape() != shape {
            let found = self.shape();
            return Err(Failure::invalid(format!(
                "{what}: needs bytes in host memory for {shape} cells (nx×ny×nz), not for {found}"
            )));
        }
        let Shape { nx, ny, nz } = shape;
        let packed = [(nx * ny) as isize, nx as isize, 1];
        let [z, y, x] = if self.strides == [0; 3] { packed } else { self.strides };
        let offset = |i: usize, j: usize, k: usize| k as isize * z + j as isize * y + i as isize * x;
        let bytes = self.data.cast::<u8>();
        let rows = (0..nz).flat_map(|k| (0..ny).map(move |j| (j, k)));
        let cells = rows.flat_map(|(j, k)| (0..nx).map(move |i| (i, j, k)));
        // SAFETY: an element of the array, which the caller promises can be read.
        Ok(cells.map(|(i, j, k)| unsafe { *bytes.offset(offset(i, j, k)) } != 0).collect())
    }
}
