//! Copies of arrays between host memory and the GPU.
//!
//! The GPU copies at full speed, and asynchronously, only to and from pinned memory, which
//! callers' arrays are not. Every array therefore passes through a small pinned buffer. Small arrays are copied in order with all other work,
//! and nobody waits for them ([`Arena`]). Large arrays are copied in pieces ([`Lanes`]) by several threads, while the GPU copies other
//! pieces: one core is slower than the bus, in particular when it touches the pages of a new array
//! for the first time.

use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use cudarc::driver::{result, sys};
use isobar_core::backend::queue;
use isobar_core::error::Result;
use isobar_core::team::Team;

use crate::driver::{Context, Gpu, Pointer, QUEUES, check, failure, lock};
use crate::memory::Buffer;

/// Pinned memory for small arrays.
#[derive(Debug)]
pub(crate) struct Arena {
    start: *mut u8,
    /// End of the part that the GPU may still be reading.
    used: usize,
}

// SAFETY: plain host memory, used by the owner of the arena.
unsafe impl Send for Arena {}

impl Default for Arena {
    /// The memory is allocated on first use, and never freed: that takes as long as a small setup.
    fn default() -> Self {
        Self { start: std::ptr::null_mut(), used: 0 }
    }
}

impl Arena {
    const BYTES: usize = 2 << 20;
    /// Longer arrays are divided, so that the GPU copies one piece while the next is written.
    const PIECE: usize = Self::BYTES / 4;

    /// Returns memory that the GPU has finished with.
    fn room(&mut self, context: &Context, bytes: usize) -> Result<*mut u8> {
        if self.start.is_null() {
            // SAFETY: memory is written before it is read.
            self.start = unsafe { result::malloc_host(Self::BYTES, 0) }
                .map_err(|e| failure(e, "allocating host memory"))?
                .cast();
        }
        if self.used + bytes > Self::BYTES {
            context.synchronize_queues()?;
            self.used = 0;
        }
        // SAFETY: within the memory, as checked above.
        let room = unsafe { self.start.add(self.used) };
        self.used = (self.used + bytes).next_multiple_of(64).min(Self::BYTES);
        Ok(room)
    }

    /// Returns the same memory for another owner. The GPU has finished all copies.
    pub(crate) fn given_back(self) -> Self {
        Self { used: 0, ..self }
    }
}

impl Context {
    /// Copies an array to the GPU, in order with all submitted work. On return `data` may be changed, although the copy may not be
    /// complete.
    pub(crate) fn send<T: Copy>(&self, data: &[T], to: Pointer) -> Result<()> {
        self.bind()?;
        let mut arena = lock(&self.arena);
        let mut to = to;
        for piece in data.chunks(Arena::PIECE / size_of::<T>()) {
            let bytes = size_of_val(piece);
            let room = arena.room(self, bytes)?;
            // SAFETY: the buffer has this length, and the GPU reads it before it is written again; the caller guarantees the length of
            // `to`.
            let code = unsafe {
                std::ptr::copy_nonoverlapping(piece.as_ptr(), room.cast::<T>(), piece.len());
                sys::cuMemcpyHtoDAsync_v2(to, room.cast_const().cast(), bytes, self.stream())
            };
            check(code, "copying to the GPU")?;
            to += bytes as Pointer;
        }
        Ok(())
    }
}

/// Bytes per piece.
const PIECE: usize = 1 << 20;
/// Pieces per lane: some for the GPU, one for the host.
const PIECES: usize = 3;
/// Largest number of copying threads. On 16 cores with an H100, b and x of 256³ cells to the GPU and back took some 14 ms with 8, and 12 with 12 and with
/// 16, most of it for pages of x that are touched for the first time. To make their pinned memory takes some 0.3 ms per MB, once per process.
const LANES: usize = 12;

/// The resources of one copying thread.
#[derive(Debug)]
struct Lane {
    stream: sys::CUstream,
    /// Events that signal that the GPU has finished with a piece.
    done: [sys::CUevent; PIECES],
    /// `PIECES` times `PIECE` bytes of pinned memory.
    start: *mut u8,
}

// SAFETY: driver handles, usable from any thread, and plain memory, used by the owner of the lane.
unsafe impl Send for Lane {}

impl Lane {
    fn piece(&self, n: usize) -> *mut u8 {
        // SAFETY: within the lane's memory.
        unsafe { self.start.add(n % PIECES * PIECE) }
    }

    /// Waits until the GPU has finished with a piece.
    fn wait(&self, n: usize) -> Result<()> {
        // SAFETY: the event lives as long as the lane.
        check(unsafe { sys::cuEventSynchronize(self.done[n % PIECES]) }, "waiting for a copy")
    }

    fn record(&self, n: usize) -> Result<()> {
        // SAFETY: event and stream live as long as the lane.
        check(unsafe { sys::cuEventRecord(self.done[n % PIECES], self.stream) }, "copying")
    }

    /// Copies pieces of an array to the GPU, until none are left.
    fn send<'a, T: Copy + 'a>(&self, pieces: impl Iterator<Item = (Pointer, &'a [T])>) -> Result<()> {
        for (n, (to, from)) in pieces.enumerate() {
            self.wait(n)?;
            let bytes = size_of_val(from);
            // SAFETY: a piece is no longer than `PIECE`, the GPU has finished with this slot, and reads
            // it before it is written again.
            let code = unsafe {
                std::ptr::copy_nonoverlapping(from.as_ptr(), self.piece(n).cast::<T>(), from.len());
                let from: *const c_void = self.piece(n).cast();
                sys::cuMemcpyHtoDAsync_v2(to, from, bytes, self.stream)
            };
            check(code, "copying to the GPU")?;
            self.record(n)?;
        }
        // SAFETY: the stream lives as long as the lane.
        unsafe { result::stream::synchronize(self.stream) }.map_err(|e| failure(e, "copying to the GPU"))
    }

    /// Copies pieces of an array from the GPU.
    fn fetch<T: Copy>(&self, pieces: &mut [(Pointer, &mut [T])]) -> Result<()> {
        let start = |n: usize, pieces: &[(Pointer, &mut [T])]| -> Result<()> {
            let Some((from, to)) = pieces.get(n) else { return Ok(()) };
            // SAFETY: a piece is no longer than `PIECE`; the host has read the slot's content.
            let code =
                unsafe { sys::cuMemcpyDtoHAsync_v2(self.piece(n).cast(), *from, size_of_val(&**to), self.stream) };
            check(code, "copying from the GPU")?;
            self.record(n)
        };
        start(0, pieces)?;
        for n in 0..pieces.len() {
            start(n + 1, pieces)?;
            self.wait(n)?;
            let to = &mut pieces[n].1;
            // SAFETY: the GPU has written this many elements; any bytes are a valid T, a plain number.
            unsafe { std::ptr::copy_nonoverlapping(self.piece(n).cast::<T>(), to.as_mut_ptr(), to.len()) };
        }
        Ok(())
    }
}

/// The resources for large arrays: those of all solvers on a GPU, made on first use and never freed, as that takes longer than many a copy.
#[derive(Debug)]
pub(crate) struct Lanes {
    gpu: &'static Gpu,
    lanes: Vec<Lane>,
    /// A thread for each lane; `None` if they could not be started.
    threads: Option<Team>,
}

impl Lanes {
    /// The size below which arrays gain nothing from several lanes. B
    const WORTH_IT: usize = 8 << 20;
    /// The size below which arrays do not justify making the lanes. B
    const WORTH_MAKING: usize = 16 << 20;

    fn new(gpu: &'static Gpu) -> Result<Self> {
        gpu.bind()?;
        let lanes = std::thread::available_parallelism().map_or(1, usize::from).min(LANES);
        // SAFETY: every byte is written before it is read.
        let start = unsafe { result::malloc_host(lanes * PIECES * PIECE, 0) }
            .map_err(|e| failure(e, "allocating host memory"))?
            .cast::<u8>();
        let threads = Team::new(lanes, "isobar-copy").ok();
        let mut this = Self { gpu, lanes: Vec::new(), threads };
        for n in 0..lanes {
            let fail = |e| failure(e, "preparing copies");
            let stream = result::stream::create(result::stream::StreamKind::NonBlocking).map_err(fail)?;
            // SAFETY: within the memory just allocated.
            let start = unsafe { start.add(n * PIECES * PIECE) };
            this.lanes.push(Lane { stream, done: [std::ptr::null_mut(); PIECES], start });
            if let Some(lane) = this.lanes.last_mut() {
                for event in &mut lane.done {
                    *event = result::event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING).map_err(fail)?;
                }
            }
        }
        Ok(this)
    }

    /// Copies arrays to the GPU; returns when the copies are complete.
    fn send<T: Copy + Sync>(&mut self, arrays: &[(Pointer, &[T])]) -> Result<()> {
        let length = PIECE / size_of::<T>();
        let pieces = arrays.iter().flat_map(|&(to, from)| {
            let starts = (0..).map(move |n| to + (n * PIECE) as Pointer);
            starts.zip(from.chunks(length))
        });
        // A free lane takes the next piece: lanes are not equally fast.
        let (pieces, taken) = (pieces.collect::<Vec<_>>(), AtomicUsize::new(0));
        let shares = vec![(); self.lanes.len()];
        let next = || pieces.get(taken.fetch_add(1, Relaxed)).copied();
        self.each_lane(shares, |lane, ()| lane.send(std::iter::from_fn(next)))
    }

    /// Copies arrays from the GPU.
    fn fetch<T: Copy + Send>(&mut self, arrays: Vec<(Pointer, &mut [T])>) -> Result<()> {
        let length = PIECE / size_of::<T>();
        let pieces = arrays.into_iter().flat_map(|(from, to)| {
            let starts = (0..).map(move |n| from + (n * PIECE) as Pointer);
            starts.zip(to.chunks_mut(length))
        });
        let shares = deal(self.lanes.len(), pieces);
        self.each_lane(shares, |lane, mut share| lane.fetch(&mut share))
    }

    /// Runs every lane's share of the work, on its own thread if possible.
    fn each_lane<S: Send>(&mut self, shares: Vec<S>, work: impl Fn(&Lane, S) -> Result<()> + Sync) -> Result<()> {
        let (gpu, work) = (self.gpu, &work);
        let run = move |lane: &mut Lane, share: S| {
            gpu.bind()?;
            work(lane, share)
        };
        let mut jobs: Vec<_> =
            self.lanes.iter_mut().zip(shares).map(|(lane, share)| (lane, Some(share), Ok(()))).collect();
        let run = |(lane, share, result): &mut (&mut Lane, Option<S>, Result<()>)| {
            *result = share.take().map_or(Ok(()), |share| run(lane, share));
        };
        match &self.threads {
            Some(threads) => threads.for_each_of(&mut jobs, &|_, job| run(job)),
            None => jobs.iter_mut().for_each(run),
        }
        jobs.into_iter().try_for_each(|(_, _, result)| result)
    }
}

/// Deals items out in turn.
fn deal<I>(hands: usize, items: impl Iterator<Item = I>) -> Vec<Vec<I>> {
    let mut shares: Vec<Vec<I>> = (0..hands).map(|_| Vec::new()).collect();
    for (n, item) in items.enumerate() {
        shares[n % hands].push(item);
    }
    shares
}

/// Buffers on the GPU for arrays in the host's order, before or after reordering.
#[derive(Debug, Default)]
pub(crate) struct Staging {
    /// The buffer of each queue.
    places: [Mutex<Option<Buffer>>; QUEUES],
}

/// Runs work with the copying threads after all submitted work, or returns `None` for arrays that justify none.
fn with_lanes<R>(
    context: &Context,
    bytes: usize,
    least: usize,
    work: impl FnOnce(&mut Lanes) -> Result<R>,
) -> Result<Option<R>> {
    if bytes < if lock(&context.lanes).is_some() { Lanes::WORTH_IT } else { least } {
        return Ok(None);
    }
    // Synchronise before the copy threads are locked, so that other solvers do not wait for this stream.
    context.synchronize()?;
    let mut lanes = lock(&context.lanes);
    let lanes = match &mut *lanes {
        Some(lanes) => lanes,
        none => none.insert(Lanes::new(context.gpu)?),
    };
    work(lanes).map(Some)
}

/// Returns a buffer of this length on the GPU.
fn room<'p>(place: &'p mut Option<Buffer>, context: &Arc<Context>, bytes: usize) -> Result<&'p Buffer> {
    if place.as_ref().is_none_or(|place| place.bytes() < bytes) {
        *place = None; // before there is another
    }
    match place {
        Some(place) => Ok(place),
        none => Ok(none.insert(Buffer::new(context, bytes, "a buffer for reordering")?)),
    }
}

impl Staging {
    /// Copies an array of consecutive pieces to the GPU, and passes its address to work, whose submissions may use it.
    pub(crate) fn send<T: Copy + Sync>(
        &self,
        context: &Arc<Context>,
        pieces: &[&[T]],
        work: impl FnOnce(Pointer) -> Result<()>,
    ) -> Result<()> {
        let bytes = pieces.iter().map(|piece| size_of_val(*piece)).sum();
        let mut place = lock(&self.places[queue::current()]);
        let start = room(&mut place, context, bytes)?.start();
        let lengths = pieces.iter().map(|piece| size_of_val(*piece));
        self.send_to(context, &consecutive(start, lengths).zip(pieces.iter().copied()).collect::<Vec<_>>())?;
        work(start)
    }

    /// Copies arrays to these addresses on the GPU, after all submitted work.
    pub(crate) fn send_to<T: Copy + Sync>(&self, context: &Arc<Context>, arrays: &[(Pointer, &[T])]) -> Result<()> {
        let bytes: usize = arrays.iter().map(|(_, array)| size_of_val(*array)).sum();
        match with_lanes(context, bytes, Lanes::WORTH_MAKING, |lanes| lanes.send(arrays))? {
            Some(()) => Ok(()),
            None => arrays.iter().try_for_each(|&(place, array)| context.send(array, place)),
        }
    }

    /// Copies an array, which `fill` submits the computation of, to pieces of the host's memory.
    pub(crate) fn fetch<T: Copy + Send>(
        &self,
        context: &Arc<Context>,
        pieces: Vec<&mut [T]>,
        fill: impl FnOnce(Pointer) -> Result<()>,
    ) -> Result<()> {
        let lengths: Vec<usize> = pieces.iter().map(|piece| size_of_val(&**piece)).collect();
        let bytes = lengths.iter().sum();
        let mut place = lock(&self.places[queue::current()]);
        let start = room(&mut place, context, bytes)?.start();
        fill(start)?;
        let mut arrays: Vec<_> = consecutive(start, lengths.into_iter()).zip(pieces).collect();
        let by_lanes =
            |lanes: &mut Lanes| lanes.fetch(arrays.iter_mut().map(|(from, to)| (*from, &mut **to)).collect());
        match with_lanes(context, bytes, Lanes::WORTH_IT, by_lanes)? {
            Some(()) => Ok(()),
            None => arrays.into_iter().try_for_each(|(from, to)| context.receive(from, to)),
        }
    }
}

/// Returns the address of each of these many bytes, one after the other.
fn consecutive(start: Pointer, lengths: impl Iterator<Item = usize>) -> impl Iterator<Item = Pointer> {
    lengths.scan(start, |next, bytes| Some(std::mem::replace(next, *next + bytes as Pointer)))
}
