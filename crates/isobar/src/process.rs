//! Values that belong to the process that made them.

use std::mem::ManuallyDrop;

use isobar_core::error::{Error, Result};

/// A value that works only in the process that made it: a forked process has neither its threads nor its GPUs nor its ranks, and
/// would wait for them for ever. There every use is an error, and dropping the value does nothing.
#[derive(Debug)]
pub struct OfProcess<T> {
    /// The value's name in messages.
    what: &'static str,
    process: u32,
    value: ManuallyDrop<T>,
}

impl<T> OfProcess<T> {
    /// Binds a value to this process; `what` is its name in messages.
    pub fn new(what: &'static str, value: T) -> Self {
        Self { what, process: std::process::id(), value: ManuallyDrop::new(value) }
    }

    /// Returns the value.
    ///
    /// # Errors
    /// [`Error::Device`] in another process than the one that made it.
    pub fn get(&self) -> Result<&T> {
        require_process(self.what, self.process).map(|()| &*self.value)
    }

    /// Returns the value, to be changed.
    ///
    /// # Errors
    /// See [`OfProcess::get`].
    pub fn get_mut(&mut self) -> Result<&mut T> {
        require_process(self.what, self.process).map(|()| &mut *self.value)
    }

    /// Returns the value in any process, for data in host memory alone.
    pub(crate) fn anywhere(&self) -> &T {
        &self.value
    }

    /// Returns the value in any process, to be changed.
    pub(crate) fn anywhere_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

impl<T> Drop for OfProcess<T> {
    fn drop(&mut self) {
        if self.process == std::process::id() {
            // SAFETY: once, and not used after.
            unsafe { ManuallyDrop::drop(&mut self.value) };
        }
    }
}

/// Fails in another process than this one.
pub(crate) fn require_process(what: &str, process: u32) -> Result<()> {
    if process == std::process::id() {
        return Ok(());
    }
    let message =
        format!("made by process {process} before fork() and cannot be used in this one; make a new one here");
    Err(Error::Device { device: what.into(), message })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn another_process_uses_and_drops_nothing() {
        let value = Arc::new(1);
        let mut ours = OfProcess::new("the solver", Arc::clone(&value));
        assert!(ours.get().is_ok() && ours.get_mut().is_ok());
        drop(ours);
        assert_eq!(Arc::strong_count(&value), 1);
        let mut theirs = OfProcess::new("the solver", ());
        theirs.process = 1;
        let message = theirs.get().unwrap_err().to_string();
        assert!(message.starts_with("the solver: made by process 1 before fork()"), "{message}");
        assert!(theirs.get_mut().is_err());
    }

    #[test]
    fn what_another_process_made_stays() {
        let value = Arc::new(1);
        let mut theirs = OfProcess::new("the solver", Arc::clone(&value));
        theirs.process = 1;
        drop(theirs);
        assert_eq!(Arc::strong_count(&value), 2);
    }
}
