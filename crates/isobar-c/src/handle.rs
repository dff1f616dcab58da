//! Handles and pointers.

use std::sync::{Mutex, MutexGuard, TryLockError};

use crate::status::{Failure, ISOBAR_BUSY, ISOBAR_INTERNAL, ISOBAR_OK, Result, coded};

/// An object that one thread uses at a time.
pub(crate) struct Exclusive<T> {
    /// The handle's name in messages.
    name: &'static str,
    inner: Mutex<T>,
}

impl<T> Exclusive<T> {
    pub(crate) fn new(name: &'static str, inner: T) -> Self {
        Self { name, inner: Mutex::new(inner) }
    }

    /// Locks the object for one call; fails instead of waiting for another call.
    pub(crate) fn lock(&self) -> Result<MutexGuard<'_, T>> {
        let name = self.name;
        self.inner.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => {
                let message = format!(
                    "the {name} is in use; use it from one thread at a time, and not in its own progress function"
                );
                Failure::new(ISOBAR_BUSY, message)
            }
            TryLockError::Poisoned(_) => {
                let message = format!("the {name} has met an internal error; free it, and make a new one");
                Failure::new(ISOBAR_INTERNAL, message)
            }
        })
    }
}

/// Writes a new handle to `out`, and returns the code of the call. `make` gets the failure of a call without an output, which a call on several ranks
/// reports to the others.
///
/// # Safety
/// `out` is writable.
pub(crate) unsafe fn hand_out_handle<T>(out: *mut *mut T, make: impl FnOnce(Result<()>) -> Result<T>) -> i32 {
    coded(|| {
        let name = "the output for the new handle";
        // SAFETY: null or writable, as the caller promises.
        let place = unsafe { hand_out(name, out, std::ptr::null_mut()) };
        let made = Box::into_raw(Box::new(make(place)?));
        // SAFETY: as before.
        unsafe { hand_out(name, out, made)? };
        Ok(ISOBAR_OK)
    })
}

/// Returns a reference, or a failure that names the argument.
///
/// # Safety
/// `pointer` is null or valid for as long as 'a.
pub(crate) unsafe fn required<'a, T>(what: &str, pointer: *const T) -> Result<&'a T> {
    // SAFETY: null or valid, as the caller promises.
    unsafe { pointer.as_ref() }.ok_or_else(|| {
        Failure::invalid(format!("{what} is a null pointer: in Fortran, one that is not made, or an absent argument"))
    })
}

/// Frees a handle; null is allowed.
///
/// # Safety
/// `handle` is from [`hand_out_handle`] and not used again, or null.
pub(crate) unsafe fn free_handle<T>(handle: *mut T) {
    if !handle.is_null() {
        coded(|| {
            // SAFETY: made by `hand_out_handle`, and not used again, as the caller promises.
            drop(unsafe { Box::from_raw(handle) });
            Ok(ISOBAR_OK)
        });
    }
}

/// Writes a result to a caller's variable, called `name` in messages.
///
/// # Safety
/// `place` is null or writable.
pub(crate) unsafe fn hand_out<T>(name: &str, place: *mut T, value: T) -> Result<()> {
    if place.is_null() {
        return Err(Failure::invalid(format!("{name} is a null pointer")));
    }
    // SAFETY: not null, and writable, as the caller promises.
    unsafe { place.write(value) };
    Ok(())
}

/// Checks a struct that begins with its own size, which identifies its version; `name` is its type in C.
///
/// # Safety
/// `description` is null, or as large as its size says, for as long as 'a.
pub(crate) unsafe fn sized<'a, T>(name: &str, description: *const T) -> Result<&'a T> {
    // SAFETY: promised by the caller. If the size differs, only the size is read.
    let found = unsafe { *required(name, description.cast::<usize>())? };
    if found != size_of::<T>() {
        return Err(Failure::invalid(format!(
            "{name}.size is {found}, but this version of isobar has {}; set it to sizeof({name}), and compile with the header of the \
             library that is linked",
            size_of::<T>()
        )));
    }
    // SAFETY: promised by the caller.
    unsafe { required(name, description) }
}
