//! NVIDIA's library of messages between GPUs, loaded on demand, for GPUs of several hosts.
//!
//! * this file: the library,
//! * `messages`: messages between GPUs, with a timeout,
//! * `link`: the link to other ranks, `exchange`: halo rows, sums and layers by its messages.

mod exchange;
mod link;
mod messages;

use std::ffi::{c_char, c_int, c_void};

use cudarc::driver::sys;
use isobar_core::error::Result;
use libloading::Library;

use crate::driver::error;
use crate::libraries::{self, Loaded, Once, Wanted, symbol};

pub use link::{NcclLink, source};

/// A rank's handle of a job.
type Handle = *mut c_void;

/// The identifier of a job.
#[derive(Clone, Copy)]
#[repr(C)]
struct UniqueId([u8; UniqueId::BYTES]);

impl UniqueId {
    const BYTES: usize = 128;
}

/// Sends to a rank, or receives from it: address, number of elements, their type, rank, handle, stream.
type Transfer = unsafe extern "C" fn(*mut c_void, usize, c_int, c_int, Handle, sys::CUstream) -> c_int;

/// The functions that are used.
#[derive(Debug)]
pub struct Functions {
    error_string: unsafe extern "C" fn(c_int) -> *const c_char,
    unique_id: unsafe extern "C" fn(*mut UniqueId) -> c_int,
    create: unsafe extern "C" fn(*mut Handle, c_int, UniqueId, c_int) -> c_int,
    destroy: unsafe extern "C" fn(Handle) -> c_int,
    abort: unsafe extern "C" fn(Handle) -> c_int,
    begin_group: unsafe extern "C" fn() -> c_int,
    end_group: unsafe extern "C" fn() -> c_int,
    send: Transfer,
    receive: Transfer,
}

/// The loaded library.
pub type Nccl = Loaded<Functions>;

impl libraries::Functions for Functions {
    const WANTED: Wanted<'static> = Wanted {
        what: "NCCL, which GPUs of several machines use",
        remedy: "install it (pip install nvidia-nccl-cu13) and set ISOBAR_NCCL to the path of libnccl.so.2; without it they \
             exchange through the host",
        variable: "ISOBAR_NCCL",
        names: &["libnccl.so.2", "libnccl.so"],
        packages: &["nccl/lib"],
        neighbour: "libcudart.so",
    };

    fn loaded() -> &'static Once<Self> {
        static LOADED: Once<Functions> = Once::new();
        &LOADED
    }

    fn of(library: &Library) -> std::result::Result<Self, libloading::Error> {
        // SAFETY: the types are those of nccl.h of version 2, with enumerations as ints.
        unsafe {
            Ok(Self {
                error_string: symbol!(library, b"ncclGetErrorString\0"),
                unique_id: symbol!(library, b"ncclGetUniqueId\0"),
                create: symbol!(library, b"ncclCommInitRank\0"),
                destroy: symbol!(library, b"ncclCommDestroy\0"),
                abort: symbol!(library, b"ncclCommAbort\0"),
                begin_group: symbol!(library, b"ncclGroupStart\0"),
                end_group: symbol!(library, b"ncclGroupEnd\0"),
                send: symbol!(library, b"ncclSend\0"),
                receive: symbol!(library, b"ncclRecv\0"),
            })
        }
    }

    fn version(library: &Library) -> std::result::Result<(i32, i32), libloading::Error> {
        type Version = unsafe extern "C" fn(*mut c_int) -> c_int;
        // 10 000 major + 100 minor + patch
        let mut version = 0;
        // SAFETY: the type is that of nccl.h; the number outlives the call.
        unsafe { (library.get::<Version>(b"ncclGetVersion\0")?)(&raw mut version) };
        Ok((version / 10_000, version / 100 % 100))
    }
}

impl Nccl {
    fn check(&self, code: c_int, doing: &str) -> Result<()> {
        if code == 0 {
            return Ok(());
        }
        let (version, what) = self.describe(self.functions.error_string, code);
        Err(error(format!(
            "NCCL {version}, {doing}: {what} (status {code}); set NCCL_DEBUG=WARN for details, or ISOBAR_LINK=host to do \
             without NCCL"
        )))
    }
}
