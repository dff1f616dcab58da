//! Codes, and the text of the last error.

use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

use isobar::Error;

/// All went well; of a solve, that it converged.
pub const ISOBAR_OK: i32 = 0;
/// An argument, a key or a value that makes no sense.
pub const ISOBAR_INVALID: i32 = 1;
/// A solve stopped before it converged; u holds the best it found, and the report says more.
pub const ISOBAR_NOT_CONVERGED: i32 = 2;
/// The progress function ended the solve.
pub const ISOBAR_INTERRUPTED: i32 = 3;
/// The device, its driver or its compiler failed, or is not there.
pub const ISOBAR_DEVICE: i32 = 4;
/// Memory that could not be had.
pub const ISOBAR_OUT_OF_MEMORY: i32 = 5;
/// Something valid that this combination does not offer.
pub const ISOBAR_UNSUPPORTED: i32 = 6;
/// The handle is being used from another thread, or by the progress function of its own solve.
pub const ISOBAR_BUSY: i32 = 7;
/// A defect of isobar; the handle it struck is to be freed.
pub const ISOBAR_INTERNAL: i32 = 8;

thread_local! {
    static LAST_ERROR: RefCell<CString> = RefCell::default();
}

/// Why a call failed.
pub(crate) struct Failure {
    pub(crate) code: i32,
    pub(crate) message: String,
    /// Whether it names a cell, of which other ranks do not know.
    pub(crate) names_cell: bool,
}

pub(crate) type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    pub(crate) fn new(code: i32, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), names_cell: false }
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(ISOBAR_INVALID, message)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let code = match error {
            Error::Unsupported(_) => ISOBAR_UNSUPPORTED,
            Error::OutOfMemory { .. } => ISOBAR_OUT_OF_MEMORY,
            Error::Device { .. } => ISOBAR_DEVICE,
            _ => ISOBAR_INVALID,
        };
        let names_cell = matches!(error, Error::NotFinite { .. });
        Self { names_cell, ..Self::new(code, isobar_case::Error::from(error).to_string()) }
    }
}

impl From<isobar_case::Error> for Failure {
    fn from(error: isobar_case::Error) -> Self {
        Self::invalid(error.to_string())
    }
}

/// Makes a code of what a call comes to, and keeps its message.
pub(crate) fn coded(call: impl FnOnce() -> Result<i32>) -> i32 {
    let result = catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| {
        let said = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        let message = format!("internal error in isobar: {}; please report it", said.unwrap_or("no message"));
        Err(Failure::new(ISOBAR_INTERNAL, message))
    });
    result.unwrap_or_else(|Failure { code, message, .. }| {
        // A zero would end the text.
        let text = CString::new(message.replace('\0', " ")).unwrap_or_default();
        LAST_ERROR.with_borrow_mut(|last| *last = text);
        code
    })
}

/// The message of the last call on this thread that failed; empty where none has. Valid until the next call on this thread
/// that fails.
#[unsafe(no_mangle)]
pub extern "C" fn isobar_last_error() -> *const c_char {
    // Gone when the thread ends.
    LAST_ERROR.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}
