//! Vectors on the GPU.

use std::marker::PhantomData;
use std::sync::Arc;

use isobar_core::prelude::{Error, Layout, Precision, Real, Result, Shape};

use crate::{Buffer, Context, Pointer};

/// Number of zeros before the first element and after the last, halo rows included: positions next to the outermost columns may
/// be read.
const GUARD: usize = 64;
/// Largest number of rows: kernels use two blocks per row in a grid dimension of at most 65535.
pub(crate) const MOST_ROWS: usize = 32_767;

/// A vector in one [`Layout`].
#[derive(Debug)]
pub struct Vector<T> {
    layout: Layout,
    pub(crate) buffer: Buffer,
    precision: PhantomData<T>,
}

impl<T: Real> Vector<T> {
    pub(crate) fn zeros(context: &Arc<Context>, layout: &Layout) -> Result<Self> {
        let bytes = (layout.len_with_halo() + 2 * GUARD) * size_of::<T>();
        let buffer = Buffer::zeros(context, bytes, &format!("a vector of {} cells", layout.shape()))?;
        Ok(Self { layout: *layout, buffer, precision: PhantomData })
    }

    /// Returns its layout.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Returns the address of the first cell; halo rows lie before it.
    pub(crate) fn pointer(&self) -> Pointer {
        self.buffer.start() + ((GUARD + self.layout.halo_len()[0]) * size_of::<T>()) as Pointer
    }

    /// Returns the address of the first entry, halo rows included, and the number of entries.
    pub(crate) fn all(&self) -> (Pointer, usize) {
        (self.buffer.start() + (GUARD * size_of::<T>()) as Pointer, self.layout.len_with_halo())
    }

    /// Swaps two vectors of the same layout without copying.
    pub(crate) fn swap(&mut self, other: &mut Self) {
        debug_assert_eq!(self.layout, other.layout);
        std::mem::swap(&mut self.buffer, &mut other.buffer);
    }
}

/// Returns the name of a precision in CUDA C++.
pub(crate) fn c_name<T: Real>() -> &'static str {
    match T::PRECISION {
        Precision::F32 => "float",
        _ => "double",
    }
}

/// Returns the index of a precision in tables of two.
pub(crate) fn index<T: Real>() -> usize {
    usize::from(is_single::<T>())
}

/// Returns whether a precision is single.
pub(crate) fn is_single<T: Real>() -> bool {
    T::PRECISION == Precision::F32
}

/// Fails if a grid is too large for the kernels' indices.
pub(crate) fn check_size(shape: Shape) -> Result<()> {
    let Shape { nx, ny, nz } = shape;
    if ny > MOST_ROWS || nz > 1 << 16 || nx > 1 << 24 || nx.div_ceil(2) * nz > 1 << 30 {
        return Err(Error::Unsupported(format!(
            "a grid of {shape} cells is too large for CUDA: at most {MOST_ROWS} rows (grid.ny) and 2³⁰ cells in half a row of columns are supported"
        )));
    }
    Ok(())
}
