//! Memory on the GPU, and host memory that the GPU can write to.
//!
//! The work of a queue runs in order, so memory that a buffer frees can be reused at
//! once in its queue: earlier users come before later ones.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use cudarc::driver::{result, sys};
use isobar_core::backend::queue;
use isobar_core::error::{Error, Result};

use crate::driver::{Context, Pointer, QUEUES, failure, lock};

/// Fails if an allocation does not fit into the free memory.
pub(crate) fn require(context: &Context, bytes: usize, what: &str) -> Result<()> {
    let mut available = context.free_memory()?;
    if bytes > available && context.spare.clear() {
        available = context.free_memory()?;
    }
    if bytes > available { Err(out_of_memory(context, bytes, available, what)) } else { Ok(()) }
}

fn out_of_memory(context: &Context, needed: usize, available: usize, what: &str) -> Error {
    Error::OutOfMemory {
        what: format!("{what} on cuda:{}", context.ordinal),
        needed_bytes: needed as u64,
        available_bytes: available as u64,
    }
}

/// Allocates memory that was kept, or else the driver's.
fn allocate(context: &Context, bytes: usize, what: &str) -> Result<Pointer> {
    if let Some(start) = context.spare.take(bytes) {
        return Ok(start);
    }
    context.bind()?;
    // SAFETY: the context is current; the caller frees the memory.
    let allocated = || unsafe { result::malloc_sync(bytes) };
    allocated().or_else(|e| if context.spare.clear() { allocated() } else { Err(e) }).map_err(|e| {
        match context.free_memory() {
            Ok(available) if bytes > available || e.0 == sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY => {
                out_of_memory(context, bytes, available, what)
            }
            _ => failure(e, "allocating"),
        }
    })
}

/// Gives memory back to which later work refers no more.
///
/// # Safety
/// It was allocated by [`allocate`], and is freed once.
unsafe fn free(context: &Context, start: Pointer, bytes: usize) {
    // Errors in a destructor cannot be reported.
    let _ = context.bind();
    if context.synchronize_queues().is_ok() && context.spare.keep(start, bytes) {
        return;
    }
    // SAFETY: promised by the caller.
    let _ = unsafe { result::free_sync(start) };
}

/// A pool of small pieces of GPU memory of one queue.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    chunks: Mutex<Vec<Chunk>>,
}

/// A chunk of memory from which pieces are taken.
#[derive(Debug)]
pub(crate) struct Chunk {
    start: Pointer,
    /// Lengths of the free ranges by their starts.
    free: BTreeMap<usize, usize>,
}

impl Pool {
    /// The largest piece. B
    const LARGEST: usize = 1 << 20;
    /// Bytes allocated from the driver at once.
    const CHUNK: usize = 8 << 20;
    /// Alignment of pieces, as in the driver.
    pub(crate) const ALIGNMENT: usize = 256;

    fn take(&self, context: &Context, bytes: usize, what: &str) -> Result<Pointer> {
        let bytes = bytes.max(1).next_multiple_of(Self::ALIGNMENT);
        let mut chunks = lock(&self.chunks);
        if let Some(start) = chunks.iter_mut().find_map(|chunk| chunk.take(bytes)) {
            return Ok(start);
        }
        let start = allocate(context, Self::CHUNK, what)?;
        chunks.push(Chunk { start, free: BTreeMap::from([(bytes, Self::CHUNK - bytes)]) });
        Ok(start)
    }

    fn give_back(&self, start: Pointer, bytes: usize) {
        let bytes = bytes.max(1).next_multiple_of(Self::ALIGNMENT);
        let mut chunks = lock(&self.chunks);
        let within = |chunk: &&mut Chunk| (chunk.start..chunk.start + Self::CHUNK as Pointer).contains(&start);
        if let Some(chunk) = chunks.iter_mut().find(within) {
            chunk.give_back((start - chunk.start) as usize, bytes);
        }
    }

    /// Frees all memory.
    ///
    /// # Safety
    /// Nobody refers to the memory any more.
    pub(crate) unsafe fn free(&self, context: &Context) {
        for chunk in lock(&self.chunks).drain(..) {
            // SAFETY: promised by the caller; allocated in `take`, freed once.
            unsafe { free(context, chunk.start, Self::CHUNK) };
        }
    }
}

impl Chunk {
    /// Makes a chunk that is entirely free.
    pub(crate) fn new(start: Pointer, bytes: usize) -> Self {
        Self { start, free: BTreeMap::from([(0, bytes)]) }
    }

    /// Takes the first free range that is long enough.
    pub(crate) fn take(&mut self, bytes: usize) -> Option<Pointer> {
        let (start, length) = self.free.iter().find(|(_, length)| **length >= bytes).map(|(s, l)| (*s, *l))?;
        self.free.remove(&start);
        if length > bytes {
            self.free.insert(start + bytes, length - bytes);
        }
        Some(self.start + start as Pointer)
    }

    /// Returns a piece and merges it with adjacent free ranges; `start` is relative to the chunk.
    pub(crate) fn give_back(&mut self, mut start: usize, mut bytes: usize) {
        if let Some(length) = self.free.remove(&(start + bytes)) {
            bytes += length;
        }
        if let Some((&before, &length)) = self.free.range(..start).next_back()
            && before + length == start
        {
            (start, bytes) = (before, length + bytes);
        }
        self.free.insert(start, bytes);
    }
}

impl Context {
    /// Copies an array from an address on the GPU, and waits for it.
    pub(crate) fn receive<T: Copy>(&self, from: Pointer, data: &mut [T]) -> Result<()> {
        if data.is_empty() {
            return Ok(());
        }
        self.bind()?;
        let fail = |e| failure(e, "copying from the GPU");
        // SAFETY: the caller guarantees that the source has this length; `data` outlives the copy, which is waited for.
        unsafe { result::memcpy_dtoh_async(data, from, self.stream()) }.map_err(fail)?;
        self.synchronize()
    }
}

/// Waits for the writes of a queue after the first to new memory: other queues may use it, if it belongs to an operator.
fn complete(context: &Context) -> Result<()> {
    if queue::current() > 0 { context.synchronize() } else { Ok(()) }
}

/// A buffer of GPU memory.
#[derive(Debug)]
pub(crate) struct Buffer {
    context: Arc<Context>,
    start: Pointer,
    bytes: usize,
    /// The queue to whose pool small buffers return.
    queue: usize,
}

impl Buffer {
    /// Allocates a buffer with undefined content.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`]
    pub(crate) fn new(context: &Arc<Context>, bytes: usize, what: &str) -> Result<Self> {
        let queue = queue::current();
        let start = if bytes <= Pool::LARGEST {
            context.pools[queue].take(context, bytes, what)?
        } else {
            allocate(context, bytes, what)?
        };
        Ok(Self { context: Arc::clone(context), start, bytes, queue })
    }

    /// Allocates a buffer of zeros.
    pub(crate) fn zeros(context: &Arc<Context>, bytes: usize, what: &str) -> Result<Self> {
        let buffer = Self::new(context, bytes, what)?;
        buffer.clear(0, bytes)?;
        complete(context)?;
        Ok(buffer)
    }

    /// Copies a host array to a new buffer.
    pub(crate) fn from_slice<T: Copy>(context: &Arc<Context>, data: &[T], what: &str) -> Result<Self> {
        let buffer = Self::new(context, size_of_val(data), what)?;
        buffer.write(data)?;
        complete(context)?;
        Ok(buffer)
    }

    /// Returns its address.
    pub(crate) fn start(&self) -> Pointer {
        self.start
    }

    /// Returns its length in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Sets a range to zero.
    pub(crate) fn clear(&self, first: usize, bytes: usize) -> Result<()> {
        self.set(first, bytes, 0)
    }

    /// Sets the bytes of a range.
    pub(crate) fn set(&self, first: usize, bytes: usize, value: u8) -> Result<()> {
        debug_assert!(first + bytes <= self.bytes);
        if bytes == 0 {
            return Ok(());
        }
        self.context.bind()?;
        // SAFETY: within the memory, as asserted.
        unsafe { result::memset_d8_async(self.start + first as Pointer, value, bytes, self.context.stream()) }
            .map_err(|e| failure(e, "setting memory"))
    }

    /// Copies an array to the beginning of the buffer. On return `data` may be changed again.
    pub(crate) fn write<T: Copy>(&self, data: &[T]) -> Result<()> {
        debug_assert!(size_of_val(data) <= self.bytes);
        self.context.send(data, self.start)
    }

    /// Copies the beginning of the buffer to an array.
    pub(crate) fn read<T: Copy>(&self, data: &mut [T]) -> Result<()> {
        debug_assert!(size_of_val(data) <= self.bytes);
        self.context.receive(self.start, data)
    }

    /// Fills the buffer from another address on the GPU.
    ///
    /// # Errors
    /// The driver's errors.
    pub(crate) fn fill_from(&self, from: Pointer) -> Result<()> {
        self.context.bind()?;
        // SAFETY: the caller guarantees that the source has this length.
        unsafe { result::memcpy_dtod_async(self.start, from, self.bytes, self.context.stream()) }
            .map_err(|e| failure(e, "copying on the GPU"))
    }

    /// Copies another buffer of the same length.
    pub(crate) fn copy_from(&mut self, other: &Self) -> Result<()> {
        debug_assert_eq!(self.bytes, other.bytes);
        self.context.bind()?;
        // SAFETY: of equal length, and distinct, since one is borrowed mutably.
        unsafe { result::memcpy_dtod_async(self.start, other.start, self.bytes, self.context.stream()) }
            .map_err(|e| failure(e, "copying on the GPU"))
    }
}

/// Memory that every queue has for itself, for intermediate results of one kernel at a time.
#[derive(Debug)]
pub(crate) struct Scratch {
    buffer: Buffer,
    /// Bytes between the places of two queues.
    stride: usize,
}

impl Scratch {
    /// Allocates this many bytes for each queue, with undefined content.
    pub(crate) fn new(context: &Arc<Context>, bytes: usize, what: &str) -> Result<Self> {
        let stride = bytes.next_multiple_of(Pool::ALIGNMENT);
        Ok(Self { buffer: Buffer::new(context, QUEUES * stride, what)?, stride })
    }

    /// Sets the first bytes of every queue to zero.
    pub(crate) fn clear(&self, bytes: usize) -> Result<()> {
        (0..QUEUES).try_for_each(|queue| self.buffer.clear(queue * self.stride, bytes))?;
        complete(&self.buffer.context)
    }

    /// Returns the address of this thread's queue.
    pub(crate) fn start(&self) -> Pointer {
        self.buffer.start() + (queue::current() * self.stride) as Pointer
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if self.bytes <= Pool::LARGEST {
            if queue::current() != self.queue {
                // Work of another queue may still use it.
                let _ = self.context.synchronize();
            }
            return self.context.pools[self.queue].give_back(self.start, self.bytes);
        }
        // SAFETY: allocated in `new`, freed once.
        unsafe { free(&self.context, self.start, self.bytes) };
    }
}

/// Numbers in a mailbox.
const NUMBERS: usize = isobar_core::backend::Scalar::COUNT;
/// Words of a mailbox: its numbers and its count, padded to whole cache lines.
const WORDS: usize = (NUMBERS + 1).next_multiple_of(16);

/// A pool of mailboxes in host memory that the GPU can write to: allocating such memory takes as long as a whole
/// small solve. It is never freed.
#[derive(Debug, Default)]
pub(crate) struct Mailboxes {
    free: Mutex<Vec<Free>>,
}

/// The memory of a mailbox that is not in use.
#[derive(Debug)]
struct Free(*mut u64);

// SAFETY: plain host memory, used by one mailbox at a time.
unsafe impl Send for Free {}

impl Mailboxes {
    /// Mailboxes allocated at once: a page.
    const CHUNK: usize = 4096 / (8 * WORDS);

    fn take(&self, context: &Context) -> Result<*mut u64> {
        let mut free = lock(&self.free);
        if let Some(Free(start)) = free.pop() {
            return Ok(start);
        }
        context.bind()?;
        // SAFETY: every word is written before it is read.
        let chunk = unsafe { result::malloc_host(8 * WORDS * Self::CHUNK, sys::CU_MEMHOSTALLOC_DEVICEMAP) }
            .map_err(|e| failure(e, "allocating host memory"))?
            .cast::<u64>();
        // SAFETY: within the memory just allocated.
        free.extend((1..Self::CHUNK).map(|n| Free(unsafe { chunk.add(n * WORDS) })));
        Ok(chunk)
    }
}

/// Numbers and a count in host memory, written by kernels and polled by the host.
#[derive(Debug)]
pub(crate) struct Mailbox {
    context: Arc<Context>,
    start: *mut u64,
}

// SAFETY: reads are volatile, and only the GPU writes.
unsafe impl Send for Mailbox {}

impl Mailbox {
    /// Makes a mailbox of zeros.
    pub(crate) fn new(context: &Arc<Context>) -> Result<Self> {
        let start = context.mailboxes.take(context)?;
        // SAFETY: the mailbox has this length and no other user.
        unsafe { std::ptr::write_bytes(start, 0, WORDS) };
        Ok(Self { context: Arc::clone(context), start })
    }

    /// Returns the address of the numbers for kernels. Host and GPU share addresses on every 64-bit system.
    pub(crate) fn numbers(&self) -> Pointer {
        self.start as Pointer
    }

    /// Returns the address of the count for kernels.
    pub(crate) fn count(&self) -> Pointer {
        self.numbers() + 8 * NUMBERS as Pointer
    }

    /// Returns the current bits of the first number.
    pub(crate) fn first(&self) -> u64 {
        // SAFETY: within the mailbox; volatile because the GPU writes there.
        unsafe { self.start.read_volatile() }
    }

    /// Waits until the count is at least `count`.
    pub(crate) fn wait(&self, count: u64) -> Result<[f64; NUMBERS]> {
        /// Polls between two checks of the driver for errors.
        const LOOKS: usize = 1 << 14;
        let published = || {
            // SAFETY: within the mailbox; volatile because the GPU writes there.
            unsafe { self.start.add(NUMBERS).read_volatile() }
        };
        'done: loop {
            for _ in 0..LOOKS {
                if published() >= count {
                    break 'done;
                }
                std::hint::spin_loop();
            }
            if self.context.is_idle()? && published() < count {
                return Err(crate::driver::error("the GPU finished without a result"));
            }
        }
        std::sync::atomic::fence(std::sync::atomic::Ordering::Acquire);
        // SAFETY: as above; the GPU wrote the numbers before the count.
        Ok(std::array::from_fn(|n| f64::from_bits(unsafe { self.start.add(n).read_volatile() })))
    }
}

impl Drop for Mailbox {
    fn drop(&mut self) {
        // Kernels of this owner must finish before the next owner uses the mailbox.
        let _ = self.context.synchronize();
        lock(&self.context.mailboxes.free).push(Free(self.start));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_do_not_overlap_and_are_joined_again() {
        let mut chunk = Chunk { start: 1 << 20, free: BTreeMap::from([(0, 4096)]) };
        let pieces: Vec<Pointer> = [256, 512, 1024, 256].map(|bytes| chunk.take(bytes).unwrap()).into();
        assert_eq!(pieces, [0, 256, 768, 1792].map(|offset| (1 << 20) + offset));
        assert_eq!(chunk.take(4096), None);
        chunk.give_back(256, 512);
        assert_eq!(chunk.take(1024), Some((1 << 20) + 2048), "the gap is too short");
        assert_eq!(chunk.take(512), Some((1 << 20) + 256), "and is filled again");
        for (start, bytes) in [(768, 1024), (0, 256), (2048, 1024), (256, 512), (1792, 256)] {
            chunk.give_back(start, bytes);
        }
        assert_eq!(chunk.free, BTreeMap::from([(0, 4096)]));
    }
}
