//! Tensors of other libraries through DLPack (dmlc.github.io/dlpack, versions 0 and 1).

use std::ffi::{CStr, c_void};
use std::ptr::NonNull;
use std::slice;

use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyCapsuleMethods};

const OLD: &CStr = c"dltensor";
const OLD_USED: &CStr = c"used_dltensor";
const VERSIONED: &CStr = c"dltensor_versioned";
const VERSIONED_USED: &CStr = c"used_dltensor_versioned";

const CPU: i32 = 1;
const CUDA: i32 = 2;
const CUDA_HOST: i32 = 3;
const CUDA_MANAGED: i32 = 13;
const FLOAT: u8 = 2;
const READ_ONLY: u64 = 1;

/// `DLTensor`
#[repr(C)]
struct Tensor {
    data: *mut c_void,
    device_type: i32,
    device_id: i32,
    dimensions: i32,
    code: u8,
    bits: u8,
    lanes: u16,
    shape: *const i64,
    strides: *const i64,
    byte_offset: u64,
}

/// Frees a managed tensor of either kind.
type Deleter = Option<unsafe extern "C" fn(*mut c_void)>;

/// `DLManagedTensor`
#[repr(C)]
struct Managed {
    tensor: Tensor,
    context: *mut c_void,
    deleter: Deleter,
}

/// `DLManagedTensorVersioned`
#[repr(C)]
struct ManagedVersioned {
    major: u32,
    minor: u32,
    context: *mut c_void,
    deleter: Deleter,
    flags: u64,
    tensor: Tensor,
}

/// (address, shape, strides in bytes or None, "f8" or "f4", CUDA device or None)
type Parts = (usize, Vec<usize>, Option<Vec<isize>>, &'static str, Option<usize>);

/// A tensor borrowed from another library until this object is dropped.
#[pyclass(frozen)]
pub(crate) struct Borrowed {
    /// The managed tensor, of which `tensor` is a part.
    managed: NonNull<c_void>,
    tensor: NonNull<Tensor>,
    deleter: Deleter,
    is_read_only: bool,
}

// SAFETY: the protocol allows deleting a tensor on any thread.
unsafe impl Send for Borrowed {}
// SAFETY: only `drop` writes to it.
unsafe impl Sync for Borrowed {}

impl Drop for Borrowed {
    fn drop(&mut self) {
        if let Some(deleter) = self.deleter {
            // SAFETY: `Borrowed::new` took it out of its capsule, so it is owned, and deleted once.
            unsafe { deleter(self.managed.as_ptr()) };
        }
    }
}

#[pymethods]
impl Borrowed {
    /// Takes the tensor out of the capsule that `__dlpack__` returned.
    #[new]
    fn new(capsule: &Bound<'_, PyCapsule>) -> PyResult<Self> {
        let take = |used: &'static CStr| {
            // SAFETY: the capsule is valid, the name is static.
            let status = unsafe { pyo3::ffi::PyCapsule_SetName(capsule.as_ptr(), used.as_ptr()) };
            if status == 0 { Ok(()) } else { Err(PyErr::fetch(capsule.py())) }
        };
        if let Ok(managed) = capsule.pointer_checked(Some(VERSIONED)) {
            let found = managed.cast::<ManagedVersioned>().as_ptr();
            // SAFETY: a capsule with this name holds a tensor; its first two members are the same in all versions.
            let major = unsafe { (*found).major };
            if major != 1 {
                return Err(PyBufferError::new_err(format!(
                    "DLPack version {major} is not supported; isobar supports version 1"
                )));
            }
            take(VERSIONED_USED)?;
            // SAFETY: a valid struct of this version.
            let ManagedVersioned { tensor, deleter, flags, .. } = unsafe { &*found };
            return Ok(Self {
                managed,
                tensor: tensor.into(),
                deleter: *deleter,
                is_read_only: flags & READ_ONLY != 0,
            });
        }
        let managed = capsule
            .pointer_checked(Some(OLD))
            .map_err(|_| PyTypeError::new_err("not a DLPack capsule, or a consumed one; call __dlpack__ again"))?;
        take(OLD_USED)?;
        // SAFETY: a capsule with this name holds such a struct.
        let Managed { tensor, deleter, .. } = unsafe { managed.cast::<Managed>().as_ref() };
        Ok(Self { managed, tensor: tensor.into(), deleter: *deleter, is_read_only: false })
    }

    /// Describes the array.
    fn parts(&self) -> PyResult<Parts> {
        // SAFETY: alive until this object is dropped.
        let tensor = unsafe { self.tensor.as_ref() };
        let damaged =
            || PyBufferError::new_err("the DLPack tensor is damaged: its extents, strides or address are out of range");
        let kind = match (tensor.code, tensor.bits, tensor.lanes) {
            (FLOAT, 64, 1) => "f8",
            (FLOAT, 32, 1) => "f4",
            (code, bits, lanes) => {
                // The names of the protocol's first codes; the later ones are narrow formats of machine learning.
                let name = ["int", "uint", "float", "handle", "bfloat", "complex", "bool"].get(usize::from(code));
                let name =
                    name.map_or_else(|| format!("DLPack type {code} of {bits} bits"), |name| format!("{name}{bits}"));
                let of = if lanes == 1 { String::new() } else { format!(" in vectors of {lanes}") };
                return Err(PyTypeError::new_err(format!("elements of type {name}{of}; use float64 or float32")));
            }
        };
        let device = match tensor.device_type {
            CPU | CUDA_HOST => None,
            CUDA | CUDA_MANAGED => Some(usize::try_from(tensor.device_id).map_err(|_| damaged())?),
            other => return Err(PyTypeError::new_err(format!("DLPack device type {other}; use the CPU or CUDA"))),
        };
        let dimensions = usize::try_from(tensor.dimensions).unwrap_or(0);
        let list = |data: *const i64| -> Option<Vec<i64>> {
            // SAFETY: by the protocol, a null pointer or as many numbers as dimensions.
            (!data.is_null()).then(|| unsafe { slice::from_raw_parts(data, dimensions) }.to_vec())
        };
        let shape = list(tensor.shape).unwrap_or_default().into_iter().map(|n| usize::try_from(n).ok()).collect();
        let size = if kind == "f8" { 8 } else { 4 };
        let in_bytes = |n: i64| isize::try_from(n).ok()?.checked_mul(size);
        let strides = list(tensor.strides).map(|strides| strides.into_iter().map(in_bytes).collect::<Option<_>>());
        let strides = strides.map(|strides| strides.ok_or_else(damaged)).transpose()?;
        let offset = usize::try_from(tensor.byte_offset).ok();
        let address = offset.and_then(|offset| (tensor.data as usize).checked_add(offset));
        Ok((address.ok_or_else(damaged)?, Option::ok_or_else(shape, damaged)?, strides, kind, device))
    }

    /// Returns whether the protocol marks it as read-only.
    fn is_read_only(&self) -> bool {
        self.is_read_only
    }
}
