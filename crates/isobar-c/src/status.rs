//! Return codes and the text of the last error.

use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

use isobar::Error;

use crate::environment::Environment;
use crate::text;

/// Success; for a solve, converged.
pub const ISOBAR_OK: i32 = 0;
/// An invalid argument, key or value.
pub const ISOBAR_INVALID: i32 = 1;
/// A solve stopped before it converged; u holds the best iterate, and the report says more.
pub const ISOBAR_NOT_CONVERGED: i32 = 2;
/// The progress function stopped the solve.
pub const ISOBAR_INTERRUPTED: i32 = 3;
/// The device, its driver or its compiler failed or is missing.
pub const ISOBAR_DEVICE: i32 = 4;
/// Not enough memory.
pub const ISOBAR_OUT_OF_MEMORY: i32 = 5;
/// A valid combination that is not supported.
pub const ISOBAR_UNSUPPORTED: i32 = 6;
/// The handle is in use by another thread, or by its own progress function.
pub const ISOBAR_BUSY: i32 = 7;
/// An internal error of isobar; free the handle that was used.
pub const ISOBAR_INTERNAL: i32 = 8;

thread_local! {
    static LAST_ERROR: RefCell<CString> = RefCell::default();
}

/// The code and the message of a failed call.
pub(crate) struct Failure {
    pub(crate) code: i32,
    pub(crate) message: String,
    /// Whether the message names a cell of this rank.
    pub(crate) names_cell: bool,
}

pub(crate) type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    pub(crate) fn new(code: i32, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), names_cell: false }
    }

    /// Names what the caller has given in place of keys of a case file and of words of the library.
    pub(crate) fn with_names(self, names: &[(&str, &str)]) -> Self {
        let message = names.iter().fold(self.message, |message, (theirs, ours)| message.replace(theirs, ours));
        Self { message, ..self }
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

/// Returns the code of a call and keeps its message.
pub(crate) fn coded(call: impl FnOnce() -> Result<i32>) -> i32 {
    let _callers = Environment::default();
    let result = catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| {
        let said = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        let message = format!("internal error in isobar: {}; please report it", said.unwrap_or("no message"));
        Err(Failure::new(ISOBAR_INTERNAL, message))
    });
    result.unwrap_or_else(|Failure { code, message, .. }| {
        // A zero byte would end the text.
        let text = CString::new(message.replace('\0', " ")).unwrap_or_default();
        LAST_ERROR.with_borrow_mut(|last| *last = text);
        code
    })
}

/// Keeps a message of the Fortran module like that of a failed call, and returns ISOBAR_INVALID. C has no use for it.
///
/// cbindgen:ignore
///
/// # Safety
/// `message` is null-terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isobar_refuse(message: *const c_char) -> i32 {
    // SAFETY: promised by the caller.
    coded(|| unsafe {
        let message = text::optional("message", message)?;
        Err(Failure::invalid(message.unwrap_or_default()))
    })
}

/// Returns the message of the last failed call on this thread; empty if none has failed. It is valid until the next failed call on this thread.
#[unsafe(no_mangle)]
pub extern "C" fn isobar_last_error() -> *const c_char {
    // Inaccessible once the thread ends.
    LAST_ERROR.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}
