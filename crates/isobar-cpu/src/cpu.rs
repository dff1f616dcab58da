//! This machine's processor cores: threads and vector instructions.

use std::sync::Arc;

use isobar_core::backend::queue;
use isobar_core::layout::ROW_ALIGNMENT;
use isobar_core::prelude::{Colour, Error, Layout, Precision, Real, Result};
use isobar_core::simd::Plain;
use isobar_core::team::Team;
use isobar_dist::Ranks;
#[cfg(target_arch = "x86_64")]
use pulp::Simd;
use pulp::{Arch, WithSimd};

use crate::Shared;

/// The number of cells below which a thread of their own takes longer to start than to compute.
pub(crate) const CELLS_WORTH_A_THREAD: usize = 1 << 11;

/// The most parts of a vector that have their own sums.
pub(crate) const MAX_PARTS: usize = 256;
/// The most pieces of a grid of one row.
pub(crate) const MOST_PIECES: usize = 64;
/// The fewest entries in a part.
const SMALLEST_PART: usize = 1 << 14;

/// Returns the pieces of a grid's layers, see [`Cpu::for_each_piece`].
fn pieces(layout: &Layout, layers: usize) -> usize {
    let is_row = layout.shape().ny == 1;
    if is_row { (layout.half_plane() / CELLS_WORTH_A_THREAD).min(layers).clamp(1, MOST_PIECES) } else { 1 }
}

/// This machine's processor cores. Cheap to clone; clones share the threads.
#[derive(Clone, Debug)]
pub struct Cpu {
    inner: Arc<Inner>,
    /// The ranks, if this is one of several.
    pub(crate) ranks: Option<Arc<Ranks>>,
}

#[derive(Debug)]
struct Inner {
    team: Team,
    /// Instructions for double precision, and elsewhere than on x86 for single precision.
    arch: Arch,
    /// Instructions for single precision.
    #[cfg(target_arch = "x86_64")]
    eight_lanes: Option<pulp::x86::V3>,
}

impl Cpu {
    /// Starts `threads` threads.
    ///
    /// # Errors
    /// [`Error::Invalid`] for 0 threads, [`Error::Device`] if they cannot be started.
    pub fn new(threads: usize) -> Result<Self> {
        Error::unless(threads > 0, "threads", || "0 threads; use 1 or more")?;
        let team = Team::new(threads, "isobar")
            .map_err(|error| Error::Device { device: "cpu".into(), message: format!("{threads} threads: {error}") })?;
        let inner = Inner {
            team,
            arch: Arch::new(),
            #[cfg(target_arch = "x86_64")]
            eight_lanes: pulp::x86::V3::try_new(),
        };
        Ok(Self { inner: Arc::new(inner), ranks: None })
    }

    /// Starts as many threads as the machine offers this process.
    pub fn with_all_threads() -> Result<Self> {
        Self::new(std::thread::available_parallelism().map_or(1, usize::from))
    }

    /// Returns the process that owns the threads. A process forked from it has none of them, and must not use this back end.
    pub fn process(&self) -> u32 {
        self.inner.team.process()
    }

    /// Returns the number of threads of this thread's work: all on the first queue, and one on others.
    pub fn threads(&self) -> usize {
        self.team().map_or(1, Team::size)
    }

    /// Returns the number of threads that were started.
    pub(crate) fn all_threads(&self) -> usize {
        self.inner.team.size()
    }

    /// Runs a kernel on elements of type T with this machine's instructions, at most eight lanes wide: rows are multiples of eight,
    /// so that no loop has a remainder.
    #[inline(always)]
    pub(crate) fn dispatch<T: Real, K: WithSimd>(&self, kernel: K) -> K::Output {
        // A constant, so that kernels in single precision are not compiled for wider instructions too.
        if const { matches!(T::PRECISION, Precision::F32) } {
            #[cfg(target_arch = "x86_64")]
            return match self.inner.eight_lanes {
                Some(simd) => Simd::vectorize(simd, kernel),
                None => Simd::vectorize(pulp::Scalar::new(), kernel),
            };
        }
        self.inner.arch.dispatch(kernel)
    }

    /// Runs a loop over plain numbers of type T with this machine's instructions: see [`Plain`].
    #[inline(always)]
    pub(crate) fn vectorize<T: Real>(&self, work: impl FnMut()) {
        self.dispatch::<T, _>(Plain(work));
    }

    /// Returns how many threads are worth using on this many cells.
    pub(crate) fn threads_for(&self, cells: usize) -> usize {
        self.threads().min(cells / CELLS_WORTH_A_THREAD).max(1)
    }

    /// Runs `f(0) … f(count − 1)` concurrently on this back end's threads. It allocates nothing.
    pub(crate) fn for_each(&self, count: usize, f: impl Fn(usize) + Sync) {
        self.distribute(count, &f);
    }

    /// Divides the layers of a grid of one row among threads: calls `f(piece, first, one past the last)`, piece < [`MOST_PIECES`]. Pieces are
    /// the same for any number of threads. A grid of several rows is one piece: threads share its rows instead.
    pub(crate) fn for_each_piece(&self, layout: &Layout, layers: usize, f: impl Fn(usize, usize, usize) + Sync) {
        let pieces = pieces(layout, layers);
        self.for_each(pieces, |n| f(n, layers * n / pieces, layers * (n + 1) / pieces));
    }

    /// Runs [`Cpu::for_each_piece`] and adds up the results of `f`, in the order of pieces.
    pub(crate) fn sum_pieces(
        &self,
        layout: &Layout,
        layers: usize,
        f: impl Fn(usize, usize, usize) -> [f64; 2] + Sync,
    ) -> [f64; 2] {
        if pieces(layout, layers) == 1 {
            return f(0, 0, layers);
        }
        let mut sums = [[0.0; 2]; MOST_PIECES];
        let shared = Shared::of(&mut sums);
        self.for_each_piece(layout, layers, |piece, first, beyond| {
            // SAFETY: each piece comes once.
            unsafe { shared.set(piece as isize, f(piece, first, beyond)) };
        });
        sums.into_iter().fold([0.0; 2], |total, sum| [total[0] + sum[0], total[1] + sum[1]])
    }

    /// Divides the columns of a half plane of a grid of one row among threads: calls `f(first, one past the last)`, whole packs of them.
    /// Pieces depend on the number of threads, and results must not depend on them.
    pub(crate) fn for_each_columns(&self, layout: &Layout, f: impl Fn(usize, usize) + Sync) {
        let packs = layout.pitch() / ROW_ALIGNMENT;
        let pieces = if layout.shape().ny == 1 { self.threads_for(layout.half_plane()).min(packs) } else { 1 };
        let start = |n: usize| packs * n / pieces * ROW_ALIGNMENT;
        self.for_each(pieces, |n| f(start(n), start(n + 1)));
    }

    /// Runs `f(0) … f(count − 1)`: one function for all kernels, which is compiled once.
    fn distribute(&self, count: usize, f: &(dyn Fn(usize) + Sync)) {
        match self.team() {
            Some(team) => team.for_each(count, f),
            None => (0..count).for_each(f),
        }
    }

    /// Returns the threads of this thread's work, where that is more than itself.
    pub(crate) fn team(&self) -> Option<&Team> {
        (queue::current() == 0).then_some(&self.inner.team)
    }

    /// Calls `f(j, colour, start)` for every half plane, `start` being its position.
    pub(crate) fn for_each_half_plane(&self, layout: &Layout, f: impl Fn(usize, Colour, isize) + Sync) {
        let ny = layout.shape().ny;
        let threads = self.threads_for(layout.len());
        self.for_each(threads.min(ny), |n| {
            for j in ny * n / threads.min(ny)..ny * (n + 1) / threads.min(ny) {
                for colour in Colour::BOTH {
                    f(j, colour, ((colour as usize + 2 * j) * layout.half_plane()) as isize);
                }
            }
        });
    }

    /// Calls `f(j, colour, start)` for every row of a horizontal field, `start` being its position.
    pub(crate) fn for_each_column_row(&self, layout: &Layout, f: impl Fn(usize, Colour, isize) + Sync) {
        let ny = layout.shape().ny;
        let threads = self.threads_for(layout.columns_len()).min(ny);
        self.for_each(threads, |n| {
            for j in ny * n / threads..ny * (n + 1) / threads {
                for colour in Colour::BOTH {
                    f(j, colour, ((colour as usize + 2 * j) * layout.pitch()) as isize);
                }
            }
        });
    }

    /// Splits `len` entries into parts, the same for any number of threads: `f(part, first, one past the last)`, part <
    /// [`MAX_PARTS`].
    pub(crate) fn for_each_part(&self, len: usize, f: impl Fn(usize, usize, usize) + Sync) {
        let size = len.div_ceil(MAX_PARTS).max(SMALLEST_PART).next_multiple_of(16);
        let parts = len.div_ceil(size);
        let threads = self.threads_for(len).min(parts).max(1);
        self.for_each(threads, |n| {
            for part in parts * n / threads..parts * (n + 1) / threads {
                f(part, part * size, ((part + 1) * size).min(len));
            }
        });
    }
}
