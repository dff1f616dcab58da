//! Vectors of ranks.

use std::fmt;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError};

use isobar_core::error::{Error, Result};

/// A rank's part of a vector. Steps that only read it may find its halo rows stale, and have them filled: that is what the
/// lock is for, which nobody ever waits for.
pub struct Vector<V> {
    part: RwLock<V>,
}

impl<V> fmt::Debug for Vector<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Vector")
    }
}

fn in_use() -> Error {
    Error::Device { device: "a vector".into(), message: "it is in use by another step".into() }
}

impl<V> Vector<V> {
    pub(crate) fn new(part: V) -> Self {
        Self { part: RwLock::new(part) }
    }

    /// The part, to read.
    ///
    /// # Errors
    /// Where another thread is filling its halo rows.
    pub fn part(&self) -> Result<RwLockReadGuard<'_, V>> {
        match self.part.try_read() {
            Ok(part) => Ok(part),
            Err(TryLockError::Poisoned(poisoned)) => Ok(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => Err(in_use()),
        }
    }

    /// The part, to fill its halo rows.
    ///
    /// # Errors
    /// Where a step is reading it.
    pub(crate) fn halo(&self) -> Result<RwLockWriteGuard<'_, V>> {
        match self.part.try_write() {
            Ok(part) => Ok(part),
            Err(TryLockError::Poisoned(poisoned)) => Ok(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => Err(in_use()),
        }
    }

    /// The part, to write.
    pub fn part_mut(&mut self) -> &mut V {
        self.part.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}
