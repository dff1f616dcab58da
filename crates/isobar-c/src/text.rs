//! Callers' texts.

use std::ffi::{CStr, c_char};
use std::path::Path;

use isobar_case::Case;

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

/// Reads a case from its text; paths in it are relative to `folder`, or to the working directory.
///
/// # Safety
/// See [`optional`], for both texts.
pub(crate) unsafe fn case(text: *const c_char, folder: *const c_char) -> Result<Case> {
    // SAFETY: promised by the caller.
    let (text, folder) = unsafe { (optional("text", text)?, optional("folder", folder)?) };
    let text = text.ok_or_else(|| Failure::invalid("text is a null pointer; pass the text of a case file"))?;
    Ok(Case::parse(&Path::new(folder.unwrap_or("")).join("case"), text, &[])?)
}
