//! Vectors in host memory.

use crate::{Error, Layout, Real, Result};

/// A vector in host memory, in isobar's layout.
#[derive(Clone, Debug, PartialEq)]
pub struct Vector<T> {
    layout: Layout,
    /// All entries, halo rows included.
    entries: Vec<T>,
}

impl<T: Real> Vector<T> {
    /// Makes a vector of zeros.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] if it cannot be allocated.
    pub fn zeros(layout: &Layout) -> Result<Self> {
        let mut entries = Vec::new();
        let len = layout.len_with_halo();
        entries.try_reserve_exact(len).map_err(|_| Error::OutOfMemory {
            what: format!("a vector of {} cells", layout.shape()),
            needed_bytes: (len * size_of::<T>()) as u64,
            available_bytes: 0,
        })?;
        entries.resize(len, T::ZERO);
        Ok(Self { layout: *layout, entries })
    }

    /// Returns its layout.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Returns all entries, padding included, halo rows not.
    pub fn entries(&self) -> &[T] {
        &self.entries[self.layout.halo_len()[0]..][..self.layout.len()]
    }

    /// Returns all entries, padding included, halo rows not; the padding must stay zero.
    pub fn entries_mut(&mut self) -> &mut [T] {
        &mut self.entries[self.layout.halo_len()[0]..][..self.layout.len()]
    }

    /// Returns all entries, padding and halo rows included.
    pub fn all_entries(&self) -> &[T] {
        &self.entries
    }

    /// Returns all entries, padding and halo rows included; the padding must stay zero.
    pub fn all_entries_mut(&mut self) -> &mut [T] {
        &mut self.entries
    }

    /// Returns the entry of grid point (i, j, k). In the halo row before the first, j is 0 − 1, wrapping around.
    #[inline(always)]
    pub fn get(&self, i: usize, j: usize, k: usize) -> T {
        self.entries[self.position(i, j, k)]
    }

    /// Sets the entry of grid point (i, j, k).
    #[inline(always)]
    pub fn set(&mut self, i: usize, j: usize, k: usize, value: T) {
        let index = self.position(i, j, k);
        self.entries[index] = value;
    }

    #[inline(always)]
    fn position(&self, i: usize, j: usize, k: usize) -> usize {
        // Shifts by two rows, which keeps the colours.
        let index = self.layout.index(i, j.wrapping_add(2), k);
        index + self.layout.halo_len()[0] - 4 * self.layout.half_plane()
    }

    /// Sets every entry, in order of memory rows.
    pub fn fill_with(&mut self, mut f: impl FnMut(usize, usize, usize) -> T) {
        let shape = self.layout.shape();
        for j in 0..shape.ny {
            for k in 0..shape.nz {
                for i in 0..shape.nx {
                    self.set(i, j, k, f(i, j, k));
                }
            }
        }
    }
}
