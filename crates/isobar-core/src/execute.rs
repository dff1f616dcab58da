//! Passes over a grid on the host, on all threads, and the arrays that such passes make.

use std::collections::TryReserveError;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicUsize};
use std::sync::{Arc, Mutex};
use std::{ptr, thread};

use crate::error::Error;
use crate::large_pages::prefer_large_pages;
use crate::team::{self, Team};

/// Runs passes over planes, rows or other pieces.
pub trait Execute: Sync {
    /// Calls `f(n, items[n])` for all n, in any order, or concurrently.
    fn for_each<X: Send>(&self, items: &mut [X], f: impl Fn(usize, &mut X) + Sync);
}

/// Runs one item after the other on the calling thread.
#[derive(Clone, Copy, Debug)]
pub struct Serial;

impl Execute for Serial {
    fn for_each<X: Send>(&self, items: &mut [X], f: impl Fn(usize, &mut X) + Sync) {
        items.iter_mut().enumerate().for_each(|(n, item)| f(n, item));
    }
}

/// The threads of the team that this thread has entered: a CPU back end's own within [`Backend::enter`](crate::backend::Backend::enter),
/// elsewhere all cores.
#[derive(Clone, Copy, Debug)]
pub struct Host;

impl Execute for Host {
    fn for_each<X: Send>(&self, items: &mut [X], f: impl Fn(usize, &mut X) + Sync) {
        match items {
            // A single piece starts no threads.
            [] => {}
            [item] => f(0, item),
            _ => on_threads(items, &f),
        }
    }
}

/// Calls `f(n, items[n])` on the threads of the current team, or of one of all cores. It is compiled once for a kind of items.
fn on_threads<X: Send>(items: &mut [X], f: &(dyn Fn(usize, &mut X) + Sync)) {
    match team::current().or_else(all_cores) {
        Some(team) => team.for_each_of(items, f),
        None => Serial.for_each(items, f),
    }
}

/// Returns the team for callers outside of any; nothing if no threads can be started. A forked process has none of its parent's threads,
/// and starts its own.
fn all_cores() -> Option<Team> {
    static ALL: Mutex<Option<Team>> = Mutex::new(None);
    let mut all = team::lock(&ALL);
    if all.as_ref().is_none_or(|team| team.process() != std::process::id()) {
        *all = Some(Team::new(thread::available_parallelism().map_or(1, usize::from), "isobar-host").ok()?);
    }
    all.clone()
}

/// The elements of an array that a thread takes at a time.
pub(crate) const PIECE: usize = 1 << 16;

/// … and where each is much work.
const SMALL_PIECE: usize = PIECE / 16;

/// Calls `f(first, piece)` for all pieces of an array, `first` being the place of the piece.
pub fn for_each_piece<X: Send>(execute: &impl Execute, all: &mut [X], f: impl Fn(usize, &mut [X]) + Sync) {
    let mut pieces: Vec<&mut [X]> = all.chunks_mut(PIECE).collect();
    execute.for_each(&mut pieces, |piece, values| f(piece * PIECE, values));
}

/// Calls `f(row, values)` for all rows of `nx` elements of an array.
pub fn for_each_row<X: Send>(execute: &impl Execute, all: &mut [X], nx: usize, f: impl Fn(usize, &mut [X]) + Sync) {
    for_each_row_of(PIECE, execute, all, nx, f);
}

/// Implements [`for_each_row`] for threads that take so many elements at a time.
fn for_each_row_of<X: Send>(
    piece: usize,
    execute: &impl Execute,
    all: &mut [X],
    nx: usize,
    f: impl Fn(usize, &mut [X]) + Sync,
) {
    let nx = nx.max(1);
    let rows = (piece / nx).max(1);
    let mut pieces: Vec<&mut [X]> = all.chunks_mut(rows * nx).collect();
    execute.for_each(&mut pieces, |piece, values| {
        values.chunks_mut(nx).enumerate().for_each(|(row, values)| f(piece * rows + row, values));
    });
}

/// Collects `f(first, piece)` of all pieces of an array, in order.
pub(crate) fn map_pieces<X: Sync, R: Send>(
    execute: &impl Execute,
    all: &[X],
    f: impl Fn(usize, &[X]) -> R + Sync,
) -> Vec<R> {
    let mut said: Vec<Option<R>> = all.chunks(PIECE).map(|_| None).collect();
    execute.for_each(&mut said, |piece, said| {
        let first = piece * PIECE;
        *said = Some(f(first, &all[first..all.len().min(first + PIECE)]));
    });
    said.into_iter().flatten().collect()
}

/// Returns the place of the first element that is not `right`.
pub fn find_wrong<X: Copy + Sync>(
    execute: &impl Execute,
    all: &[X],
    right: impl Fn(X) -> bool + Sync,
) -> Option<usize> {
    /// Elements examined without branches.
    const BLOCK: usize = 1024;
    let of_piece = |first: usize, piece: &[X]| {
        let are_right = |block: &[X]| block.iter().fold(true, |all, &value| all & right(value));
        let block = piece.chunks(BLOCK).position(|block| !are_right(block))?;
        let wrong = piece[block * BLOCK..].iter().position(|&value| !right(value))?;
        Some(first + block * BLOCK + wrong)
    };
    map_pieces(execute, all, of_piece).into_iter().flatten().next()
}

/// Returns the first of the results of `f(rows)` for some of `count` rows of `nx` elements; not all rows after a find are searched.
pub(crate) fn find_in_rows<R: Send>(
    execute: &impl Execute,
    count: usize,
    nx: usize,
    f: impl Fn(Range<usize>) -> Option<R> + Sync,
) -> Option<R> {
    let rows = (SMALL_PIECE / nx.max(1)).max(1);
    let first = AtomicUsize::new(usize::MAX);
    let mut found: Vec<Option<R>> = (0..count.div_ceil(rows)).map(|_| None).collect();
    execute.for_each(&mut found, |piece, found| {
        if piece > first.load(Relaxed) {
            return;
        }
        *found = f(piece * rows..count.min((piece + 1) * rows));
        if found.is_some() {
            first.fetch_min(piece, Relaxed);
        }
    });
    found.into_iter().flatten().next()
}

/// Elements that are cleared at a time, so that they are in a cache when they are set.
const BLOCK: usize = 1 << 12;

/// Clears memory that has not been initialised.
fn cleared<X: Copy + Default>(room: &mut [MaybeUninit<X>]) -> &mut [X] {
    room.fill(MaybeUninit::new(X::default()));
    // SAFETY: all elements have been written.
    unsafe { &mut *(ptr::from_mut(room) as *mut [X]) }
}

/// Sets the rows of new memory, which are zeros before `f(row, values)` sets them.
fn set_rows<X: Copy + Default + Send>(
    piece: usize,
    execute: &impl Execute,
    room: &mut [MaybeUninit<X>],
    nx: usize,
    f: impl Fn(usize, &mut [X]) + Sync,
) {
    prefer_large_pages(room);
    for_each_row_of(piece, execute, room, nx, |row, room| f(row, cleared(room)));
}

/// Sets new memory block by block, each of which is zeros before `f(first, block)` sets it, and collects the returned values in order.
fn set_blocks<X: Copy + Default + Send, R: Send>(
    execute: &impl Execute,
    room: &mut [MaybeUninit<X>],
    f: impl Fn(usize, &mut [X]) -> R + Sync,
) -> Vec<R> {
    prefer_large_pages(room);
    let mut said: Vec<Option<R>> = (0..room.len().div_ceil(BLOCK)).map(|_| None).collect();
    let mut pieces: Vec<_> = room.chunks_mut(PIECE).zip(said.chunks_mut(PIECE / BLOCK)).collect();
    execute.for_each(&mut pieces, |piece, (room, said)| {
        for ((n, block), said) in room.chunks_mut(BLOCK).enumerate().zip(&mut **said) {
            *said = Some(f(piece * PIECE + n * BLOCK, cleared(block)));
        }
    });
    said.into_iter().flatten().collect()
}

/// Makes an array whose rows of `nx` zeros `f(row, values)` sets, first touched by the threads that will use them.
pub(crate) fn rows<X: Copy + Default + Send>(
    execute: &impl Execute,
    count: usize,
    nx: usize,
    f: impl Fn(usize, &mut [X]) + Sync,
) -> Vec<X> {
    rows_of(PIECE, execute, count, nx, f)
}

/// Makes an array as [`rows`] does, where each element is so much work that threads take few at a time.
pub(crate) fn rows_in_small_pieces<X: Copy + Default + Send>(
    execute: &impl Execute,
    count: usize,
    nx: usize,
    f: impl Fn(usize, &mut [X]) + Sync,
) -> Vec<X> {
    rows_of(SMALL_PIECE, execute, count, nx, f)
}

fn rows_of<X: Copy + Default + Send>(
    piece: usize,
    execute: &impl Execute,
    count: usize,
    nx: usize,
    f: impl Fn(usize, &mut [X]) + Sync,
) -> Vec<X> {
    let mut all = Vec::with_capacity(count);
    set_rows(piece, execute, &mut all.spare_capacity_mut()[..count], nx, f);
    // SAFETY: there is room for as many, and every one of them has been written.
    unsafe { all.set_len(count) };
    all
}

/// Fails if no array of this many numbers can be allocated, which would end the process.
///
/// # Errors
/// [`Error::Invalid`]
pub(crate) fn require_room(cells: usize) -> crate::Result<()> {
    Vec::<f64>::new().try_reserve_exact(cells).map_err(|_| no_room(cells))
}

/// Returns the error if no memory can be allocated for a number for each of these cells.
pub(crate) fn no_room(cells: usize) -> Error {
    Error::invalid("the grid", format!("{cells} cells, for which no memory can be allocated; use a smaller grid"))
}

/// Makes an array whose blocks of zeros `f(first, block)` sets, first touched by the threads that set them; all memory is allocated first.
///
/// # Errors
/// Memory that cannot be allocated.
pub fn try_pieces<X: Copy + Default + Send>(
    execute: &impl Execute,
    count: usize,
    f: impl Fn(usize, &mut [X]) + Sync,
) -> Result<Vec<X>, TryReserveError> {
    let mut all = Vec::new();
    all.try_reserve_exact(count)?;
    set_blocks(execute, &mut all.spare_capacity_mut()[..count], f);
    // SAFETY: as many were reserved, and every one of them has been written.
    unsafe { all.set_len(count) };
    Ok(all)
}

/// Makes a shared array of elements that `set` writes.
///
/// # Safety
/// `set` writes all elements.
unsafe fn shared_array<R>(count: usize, set: impl FnOnce(&mut [MaybeUninit<f64>]) -> R) -> (Arc<[f64]>, R) {
    let mut all = Arc::<[f64]>::new_uninit_slice(count);
    let Some(room) = Arc::get_mut(&mut all) else { unreachable!("a new array has one owner") };
    let said = set(room);
    // SAFETY: promised by the caller.
    (unsafe { all.assume_init() }, said)
}

/// Makes a shared array whose rows of `nx` zeros `f(row, values)` sets in place.
pub(crate) fn shared(
    execute: &impl Execute,
    count: usize,
    nx: usize,
    f: impl Fn(usize, &mut [f64]) + Sync,
) -> Arc<[f64]> {
    // SAFETY: `set_rows` clears all elements.
    unsafe { shared_array(count, |room| set_rows(PIECE, execute, room, nx, f)) }.0
}

/// Makes a shared array whose blocks of zeros `f(first, block)` sets in place, and collects the results of `f`, in order.
pub(crate) fn shared_blocks<R: Send>(
    execute: &impl Execute,
    count: usize,
    f: impl Fn(usize, &mut [f64]) -> R + Sync,
) -> (Arc<[f64]>, Vec<R>) {
    // SAFETY: `set_blocks` clears all elements.
    unsafe { shared_array(count, |room| set_blocks(execute, room, f)) }
}

/// Makes a shared copy.
pub(crate) fn shared_copy(execute: &impl Execute, values: &[f64]) -> Arc<[f64]> {
    shared_blocks(execute, values.len(), |first, copy| copy.copy_from_slice(&values[first..][..copy.len()])).0
}

/// Shares numbers among several threads.
pub(crate) fn atomics(values: &mut [u32]) -> &[AtomicU32] {
    let values: *mut [u32] = values;
    // SAFETY: an `AtomicU32` has the size, the alignment and the values of a `u32`, and these stay borrowed for as long.
    unsafe { &*(values as *const [AtomicU32]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Several pieces, the last of them short.
    const MANY: usize = 3 * PIECE + 17;

    #[test]
    fn pieces_and_rows_are_all_there() {
        let expected: Vec<usize> = (0..MANY).collect();
        let set = |first: usize, piece: &mut [usize]| piece.iter_mut().zip(first..).for_each(|(x, n)| *x = n);
        assert_eq!(try_pieces(&Host, MANY, set).unwrap(), expected);
        assert!(try_pieces::<f64>(&Serial, usize::MAX / 8, |_, _| {}).is_err());
        for nx in [1, 7, PIECE + 1, MANY] {
            let set = |row: usize, values: &mut [usize]| set(row * nx, values);
            assert_eq!(rows(&Host, MANY, nx, set), expected, "{nx}");
        }
        let values: Vec<f64> = expected.iter().map(|&n| n as f64).collect();
        assert_eq!(*shared_copy(&Host, &values), values);
        assert!(rows::<f64>(&Host, 0, 0, |_, _| panic!("of nothing")).is_empty());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_forked_process_has_threads_of_its_own() {
        let work = || rows(&Host, MANY, 1, |row, values: &mut [usize]| values[0] = row).last() == Some(&(MANY - 1));
        assert!(work());
        // SAFETY: the child only does the same work and ends; one that waits for missing threads is ended.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: as above.
            unsafe {
                libc::alarm(60);
                libc::_exit(i32::from(!work()))
            }
        }
        let mut status = 0;
        // SAFETY: `status` may be written.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0);
    }

    #[test]
    fn the_first_row_is_found() {
        for (count, nx) in [(0_usize, 5), (7, 0), (1000, 200), (3, 1 << 20), (200_000, 1)] {
            for wanted in [0, count / 3, count.saturating_sub(1), count] {
                let all = AtomicUsize::new(0);
                let found = find_in_rows(&Host, count, nx, |mut rows| {
                    all.fetch_add(rows.len(), Relaxed);
                    rows.find(|&row| row >= wanted)
                });
                assert_eq!(found, (wanted < count).then_some(wanted), "{count} rows of {nx}");
                assert!(wanted < count || all.into_inner() == count);
            }
        }
    }

    #[test]
    fn the_first_wrong_one_is_found() {
        let mut values = vec![1.0; MANY];
        assert_eq!(find_wrong(&Host, &values, |value| value > 0.0), None);
        for n in [MANY - 1, 2 * PIECE + 5000, 2 * PIECE + 4999, PIECE, 3] {
            values[n] = f64::NAN;
            assert_eq!(find_wrong(&Host, &values, |value| value > 0.0), Some(n));
        }
    }
}
