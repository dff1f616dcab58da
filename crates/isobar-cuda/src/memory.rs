//! Memory on the card, and memory of the host that the card can write to.

use std::sync::Arc;

use cudarc::driver::{result, sys};
use isobar_core::error::{Error, Result};

use crate::driver::{Context, Pointer, failure};

/// Refuses what does not fit into the memory that is free now, and returns how much that is.
pub(crate) fn require(context: &Context, bytes: usize, what: &str) -> Result<usize> {
    let available = context.free_memory()?;
    if bytes > available { Err(out_of_memory(context, bytes, available, what)) } else { Ok(available) }
}

fn out_of_memory(context: &Context, needed: usize, available: usize, what: &str) -> Error {
    Error::OutOfMemory {
        what: format!("{what} on cuda:{}", context.ordinal),
        needed_bytes: needed as u64,
        available_bytes: available as u64,
    }
}

/// A piece of the card's memory.
#[derive(Debug)]
pub(crate) struct Buffer {
    context: Arc<Context>,
    start: Pointer,
    bytes: usize,
}

impl Buffer {
    /// Bytes of zeros.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], found out before or while allocating.
    pub(crate) fn zeros(context: &Arc<Context>, bytes: usize, what: &str) -> Result<Self> {
        let available = require(context, bytes, what)?;
        // SAFETY: the context is current (`free_memory`); the memory is freed in `drop`.
        let start = unsafe { result::malloc_sync(bytes.max(1)) }.map_err(|e| match e.0 {
            sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY => out_of_memory(context, bytes, available, what),
            _ => failure(e, "allocating"),
        })?;
        let buffer = Self { context: Arc::clone(context), start, bytes };
        // SAFETY: the memory was just made, and is as long as that.
        unsafe { result::memset_d8_async(start, 0, bytes, context.stream()) }.map_err(|e| failure(e, "clearing"))?;
        Ok(buffer)
    }

    /// The host's array, copied.
    pub(crate) fn from_slice<T: Copy>(context: &Arc<Context>, data: &[T], what: &str) -> Result<Self> {
        let mut buffer = Self::zeros(context, size_of_val(data), what)?;
        buffer.write(data)?;
        Ok(buffer)
    }

    /// Where it begins.
    pub(crate) fn start(&self) -> Pointer {
        self.start
    }

    /// How long it is.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Copies an array to the beginning of this. Returns when `data` may be changed again.
    pub(crate) fn write<T: Copy>(&mut self, data: &[T]) -> Result<()> {
        debug_assert!(size_of_val(data) <= self.bytes);
        self.context.bind()?;
        let fail = |e| failure(e, "copying to the card");
        // SAFETY: long enough, as asserted; `data` outlives the copy, which is waited for.
        unsafe { result::memcpy_htod_async(self.start, data, self.context.stream()) }.map_err(fail)?;
        self.context.synchronize()
    }

    /// Copies the beginning of this to an array.
    pub(crate) fn read<T: Copy>(&self, data: &mut [T]) -> Result<()> {
        debug_assert!(size_of_val(data) <= self.bytes);
        self.context.bind()?;
        let fail = |e| failure(e, "copying from the card");
        // SAFETY: long enough, as asserted; `data` outlives the copy, which is waited for.
        unsafe { result::memcpy_dtoh_async(data, self.start, self.context.stream()) }.map_err(fail)?;
        self.context.synchronize()
    }

    /// Copies all of another buffer of the same length.
    pub(crate) fn copy_from(&mut self, other: &Self) -> Result<()> {
        debug_assert_eq!(self.bytes, other.bytes);
        // SAFETY: equally long, and distinct, being borrowed once for writing.
        unsafe { result::memcpy_dtod_async(self.start, other.start, self.bytes, self.context.stream()) }
            .map_err(|e| failure(e, "copying on the card"))
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // A failure here has no one to be told to. Freeing waits for the kernels that use the memory.
        let _ = self.context.bind();
        // SAFETY: made in `zeros`, freed once.
        let _ = unsafe { result::free_sync(self.start) };
    }
}

/// `N` numbers and a count in the host's memory, which kernels write and the host watches.
#[derive(Debug)]
pub(crate) struct Mailbox<const N: usize> {
    context: Arc<Context>,
    start: *mut u64,
}

// SAFETY: reads are volatile, and only the card writes.
unsafe impl<const N: usize> Send for Mailbox<N> {}

impl<const N: usize> Mailbox<N> {
    /// Zeros.
    pub(crate) fn new(context: &Arc<Context>) -> Result<Self> {
        context.bind()?;
        // SAFETY: freed in `drop`; every byte is written before it is read.
        let start = unsafe {
            let start = result::malloc_host(8 * (N + 1), sys::CU_MEMHOSTALLOC_DEVICEMAP)
                .map_err(|e| failure(e, "allocating host memory"))?
                .cast::<u64>();
            std::ptr::write_bytes(start, 0, N + 1);
            start
        };
        Ok(Self { context: Arc::clone(context), start })
    }

    /// Where kernels write the numbers. Host and card share addresses on every 64-bit system.
    pub(crate) fn numbers(&self) -> Pointer {
        self.start as Pointer
    }

    /// Where kernels write the count.
    pub(crate) fn count(&self) -> Pointer {
        self.numbers() + 8 * N as Pointer
    }

    /// Waits until the count is at least `count`.
    pub(crate) fn wait(&self, count: u64) -> Result<[f64; N]> {
        /// Looks between two questions to the driver whether all is well.
        const LOOKS: usize = 1 << 14;
        let published = || {
            // SAFETY: within the allocation; volatile, since the card writes there.
            unsafe { self.start.add(N).read_volatile() }
        };
        'done: loop {
            for _ in 0..LOOKS {
                if published() >= count {
                    break 'done;
                }
                std::hint::spin_loop();
            }
            if self.context.is_idle()? && published() < count {
                return Err(crate::driver::error("the card finished without a result"));
            }
        }
        std::sync::atomic::fence(std::sync::atomic::Ordering::Acquire);
        // SAFETY: as above; the card wrote the numbers before the count.
        Ok(std::array::from_fn(|n| f64::from_bits(unsafe { self.start.add(n).read_volatile() })))
    }
}

impl<const N: usize> Drop for Mailbox<N> {
    fn drop(&mut self) {
        let _ = self.context.synchronize();
        // SAFETY: made in `new`, freed once, and the card is done with it.
        let _ = unsafe { result::free_host(self.start.cast()) };
    }
}
