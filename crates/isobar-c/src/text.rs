//! Callers' texts.

use std::ffi::{CStr, c_char};

use crate::status::{Failure, Result};

/// Returns a text, or `None` if the pointer is null.
///
/// # Safety
/// `text` is null or null-terminated, and unchanged for as long as 'a.
pub(crate) unsafe fn optional<'a>(what: &str, text: *const c_char) -> Result<Option<&'a str>> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: not null, and null-terminated, as the caller promises.
    let bytes = unsafe { CStr::from_ptr(text) };
    match bytes.to_str() {
        Ok(text) => Ok(Some(text)),
        Err(error) => Err(Failure::invalid(format!("{what}: byte {} is not UTF-8", error.valid_up_to()))),
    }
}
