//! The back end: threads, vector instructions, vectors.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Instant;

use isobar_core::array::{ArrayView, ArrayViewMut};
use isobar_core::backend::{
    Backend, BodyAfter, DeviceInfo, HostScalars, Meanwhile, Ratio, Scalar, SharedDirect, Shares, iterate_after_first,
    queue,
};
use isobar_core::direct::Separable;
use isobar_core::error::{Error, Result};
use isobar_core::layout::{Colour, Layout, Patch, Shape};
use isobar_core::real::{Precision, Real};
use isobar_core::reference::check_shape;
use isobar_core::team::Team;
use isobar_dist::part;
use isobar_dist::{Ranks, Watched};
#[cfg(target_arch = "x86_64")]
use pulp::Simd;
use pulp::{Arch, WithSimd};

use crate::blas;
use crate::direct;
use crate::shared::Shared;
use crate::vector::Vector;

/// Fewer cells are no work for a thread of their own: handing it over would take longer.
pub(crate) const CELLS_WORTH_A_THREAD: usize = 1 << 11;

/// The most parts of a vector that have their own sums.
pub(crate) const MAX_PARTS: usize = 256;
/// The fewest entries in a part.
const SMALLEST_PART: usize = 1 << 14;

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

/// A loop that needs no packs.
struct Plain<F>(F);

impl<F: FnMut()> WithSimd for Plain<F> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(mut self, _: S) {
        (self.0)();
    }
}

impl Cpu {
    /// Starts `threads` threads.
    ///
    /// # Errors
    /// [`Error::Invalid`] for 0 threads, [`Error::Device`] where they cannot be started.
    pub fn new(threads: usize) -> Result<Self> {
        if threads == 0 {
            return Err(Error::invalid("threads", "0 threads; use 1 or more"));
        }
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
    ///
    /// # Errors
    /// See [`Cpu::new`].
    pub fn with_all_threads() -> Result<Self> {
        Self::new(std::thread::available_parallelism().map_or(1, usize::from))
    }

    /// Returns the process that owns the threads. A process forked from it has none of them, and must not use this back end.
    pub fn process(&self) -> u32 {
        self.inner.team.process()
    }

    /// Returns the number of threads of this thread's work: all on the first queue, and one on others.
    pub fn threads(&self) -> usize {
        if queue::current() > 0 { 1 } else { self.inner.team.size() }
    }

    /// Returns the names of the vector instructions in use, found at run time.
    pub fn instructions(&self) -> String {
        format!("{:?}", self.inner.arch).split('(').next().unwrap_or_default().to_ascii_lowercase()
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

    /// Runs a loop over plain numbers of type T with this machine's instructions. The closure must be `#[inline(always)]`. (Pulp's
    /// own way with closures calls them by a function that has no vector instructions.)
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
}

/// Calls `f(i, value)` for the cells of row (j, k), in the order of their colours.
#[inline(always)]
fn entries_of_row<T: Real>(v: &Vector<T>, j: usize, k: usize, mut f: impl FnMut(usize, T)) {
    let (layout, entries) = (v.layout(), v.entries());
    for colour in Colour::BOTH {
        let parity = layout.parity(j, colour);
        let start = layout.pitch() * (k + layout.shape().nz * (colour as usize + 2 * j));
        let row = &entries[start..start + layout.columns(j, colour)];
        row.iter().enumerate().for_each(|(m, &value)| f(2 * m + parity, value));
    }
}

impl Backend for Cpu {
    type Vector<T: Real> = Vector<T>;
    type Scalars = HostScalars;

    fn device(&self) -> DeviceInfo {
        let one = DeviceInfo { kind: "cpu", name: processor_name(), count: 1, ranks: 1, threads: self.threads() };
        isobar_dist::device(self, one)
    }

    fn shares(&self, grid: Shape) -> Option<Shares> {
        self.ranks.as_ref()?.shares(grid)
    }

    fn own_columns(&self, grid: Shape) -> Result<Patch> {
        isobar_dist::own_columns(self, grid)
    }

    fn collect(&self, own: Vec<f64>, grid: Shape) -> Result<Vec<f64>> {
        isobar_dist::collect(self, own, grid)
    }

    fn fill_while<T: Real>(&self, x: &mut Vector<T>, colours: &[Colour], meanwhile: Meanwhile<'_>) -> Result<()> {
        let layout = *x.layout();
        part::fill(self, &layout, x, colours, meanwhile)
    }

    fn sum(&self, of: &Layout, sums: &[Scalar], scalars: &mut HostScalars) -> Result<()> {
        part::sum(self, of, sums, scalars)
    }

    fn zeros<T: Real>(&self, layout: &Layout) -> Result<Vector<T>> {
        Vector::zeros(self, layout)
    }

    fn upload<S: Real, T: Real>(&self, source: ArrayView<'_, S>, target: &mut Vector<T>) -> Result<()> {
        let layout = *target.layout();
        check_shape(source.shape(), layout.shape())?;
        let out = target.share_mut();
        self.for_each_half_plane(&layout, |j, colour, start| {
            let parity = layout.parity(j, colour);
            for k in 0..layout.shape().nz {
                // SAFETY: each half plane is visited once.
                let row = unsafe { out.row_mut(start + (k * layout.pitch()) as isize, layout.columns(j, colour)) };
                for (m, value) in row.iter_mut().enumerate() {
                    *value = T::from_f64(source.get(2 * m + parity, j, k).to_f64());
                }
            }
        });
        Ok(())
    }

    fn download<S: Real, T: Real>(&self, source: &Vector<T>, target: &mut ArrayViewMut<'_, S>) -> Result<()> {
        let layout = *source.layout();
        let shape = layout.shape();
        check_shape(target.shape(), shape)?;
        if let Some(all) = target.as_c_order_mut() {
            /// Elements worth a thread.
            const PIECE: usize = 1 << 16;
            let (nx, rows) = (shape.nx, shape.ny * shape.nz);
            let threads = self.threads().min(all.len().div_ceil(PIECE)).min(rows);
            let to = Shared::of(all);
            self.for_each(threads, |thread| {
                for row in rows * thread / threads..rows * (thread + 1) / threads {
                    // SAFETY: each row is visited once.
                    let values = unsafe { to.row_mut((row * nx) as isize, nx) };
                    entries_of_row(source, row % shape.ny, row / shape.ny, |i, value| {
                        values[i] = S::from_f64(value.to_f64());
                    });
                }
            });
            return Ok(());
        }
        for (k, j) in (0..shape.nz).flat_map(|k| (0..shape.ny).map(move |j| (k, j))) {
            entries_of_row(source, j, k, |i, value| target.set(i, j, k, S::from_f64(value.to_f64())));
        }
        Ok(())
    }

    fn clear<T: Real>(&self, x: &mut Vector<T>) -> Result<()> {
        blas::fill(self, T::ZERO, x);
        Ok(())
    }

    fn convert<S: Real, T: Real>(&self, x: &Vector<S>, y: &mut Vector<T>) -> Result<()> {
        blas::convert(self, x, y);
        Ok(())
    }

    fn scale<T: Real>(&self, a: f64, x: &mut Vector<T>) -> Result<()> {
        blas::scale(self, T::from_f64(a), x);
        Ok(())
    }

    fn extrapolate<T: Real>(&self, tau: f64, x: &Vector<T>, y: &mut Vector<T>) -> Result<()> {
        blas::extrapolate(self, T::from_f64(tau - 1.0), x, y);
        Ok(())
    }

    fn axpy<S: Real, T: Real>(&self, a: Ratio, x: &Vector<S>, y: &mut Vector<T>, scalars: &HostScalars) -> Result<()> {
        blas::axpy(self, T::from_f64(scalars.value(a)), x, y);
        Ok(())
    }

    fn xpay<T: Real>(&self, a: Ratio, x: &Vector<T>, y: &mut Vector<T>, scalars: &HostScalars) -> Result<()> {
        blas::xpay(self, T::from_f64(scalars.value(a)), x, y);
        Ok(())
    }

    fn dot<T: Real>(&self, x: &Vector<T>, y: &Vector<T>, out: Scalar, scalars: &mut HostScalars) -> Result<()> {
        scalars.reduce(out, [blas::dot(self, x, y)]);
        self.sum(x.layout(), &[out], scalars)
    }

    fn axpy_norm<T: Real>(
        &self,
        a: Ratio,
        x: &Vector<T>,
        y: &mut Vector<T>,
        out: Scalar,
        scalars: &mut HostScalars,
    ) -> Result<()> {
        let a = T::from_f64(scalars.value(a));
        scalars.reduce(out, [blas::axpy_norm(self, a, x, y)]);
        self.sum(y.layout(), &[out], scalars)
    }

    fn axpy_norm_convert<T: Real, S: Real>(
        &self,
        a: Ratio,
        x: &Vector<T>,
        y: &mut Vector<T>,
        converted: &mut Vector<S>,
        out: Scalar,
        scalars: &mut HostScalars,
    ) -> Result<()> {
        let a = T::from_f64(scalars.value(a));
        scalars.reduce(out, [blas::axpy_norm_convert(self, a, x, y, converted)]);
        self.sum(y.layout(), &[out], scalars)
    }

    fn convert_dot<S: Real, T: Real>(
        &self,
        x: &Vector<S>,
        y: &mut Vector<T>,
        z: &Vector<T>,
        out: Scalar,
        scalars: &mut HostScalars,
    ) -> Result<()> {
        scalars.reduce(out, [blas::convert_dot(self, x, y, z)]);
        self.sum(z.layout(), &[out], scalars)
    }

    fn scalars(&self) -> Result<HostScalars> {
        Ok(HostScalars::default())
    }

    fn set(&self, scalars: &mut HostScalars, scalar: Scalar, value: f64) -> Result<()> {
        scalars.set(scalar, value);
        Ok(())
    }

    fn read(&self, scalars: &HostScalars) -> Result<[f64; Scalar::COUNT]> {
        Ok(scalars.bank())
    }

    fn iterate(
        &self,
        scalars: &mut HostScalars,
        body: &mut dyn FnMut(usize, &mut HostScalars) -> Result<()>,
        observe: &mut dyn FnMut(&[f64; Scalar::COUNT]) -> ControlFlow<()>,
    ) -> Result<()> {
        match self.watched() {
            Some(watched) => self.iterate_stepwise(scalars, body, &mut |bank| watched.pause(|| observe(bank))),
            None => self.iterate_stepwise(scalars, body, observe),
        }
    }

    fn iterate_after(
        &self,
        scalars: &mut HostScalars,
        body: &mut BodyAfter<'_, HostScalars>,
        observe: &mut dyn FnMut(&[f64; Scalar::COUNT]) -> ControlFlow<()>,
    ) -> Result<()> {
        let _watched = self.watched();
        iterate_after_first(self, scalars, body, observe)
    }

    /// Each thread solves a system, where that many keep more threads busy than one does.
    fn queues(&self, systems: usize, layout: &Layout, bytes: usize) -> Result<usize> {
        /// Systems with more bytes of vectors in all keep the memory busy one by one.
        const MOST_BYTES: usize = 4 << 30;
        let count = self.inner.team.size().min(systems).min(MOST_BYTES / bytes.max(1));
        Ok(if self.ranks.is_none() && 2 * count >= self.threads_for(layout.len()) { count } else { 0 })
    }

    fn most_queues(&self) -> usize {
        self.inner.team.size()
    }

    /// Waits for all ranks, so that no rank's wait for another is timed as work.
    fn synchronize(&self) -> Result<()> {
        self.ranks.as_ref().map_or(Ok(()), |ranks| ranks.world().barrier())
    }

    /// Passes on the host run on the back end's own threads meanwhile.
    fn enter<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        match self.team() {
            Some(team) => team.enter(work),
            None => work(),
        }
    }

    /// Times the standard library's copy on all threads, the best of several. Vectors that might stay in a cache are replaced by
    /// larger ones, so that memory is measured.
    fn copy_bandwidth(&self, layout: &Layout) -> Result<f64> {
        let beyond_caches = Layout::new(Shape::new(256, 256, 128))?;
        let layout = if layout.len() < beyond_caches.len() { &beyond_caches } else { layout };
        let (mut x, mut y) = (Vector::<f64>::zeros(self, layout)?, Vector::<f64>::zeros(self, layout)?);
        blas::fill(self, 1.0, &mut x);
        let mut best = f64::INFINITY;
        for _ in 0..8 {
            let clock = Instant::now();
            blas::copy(self, &x, &mut y);
            best = best.min(clock.elapsed().as_secs_f64());
        }
        Ok(2.0 * (layout.len() * size_of::<f64>()) as f64 / best.max(1e-9))
    }

    /// Transforms of whole axes are not divided among ranks.
    fn has_direct(&self) -> bool {
        self.ranks.is_none()
    }

    fn direct(&self, layout: &Layout, factors: &Separable) -> Result<Option<SharedDirect<Self>>> {
        if self.has_direct() { direct::direct(self, layout, factors) } else { Ok(None) }
    }
}

impl Cpu {
    fn watched(&self) -> Option<Watched<'_>> {
        self.ranks.as_ref().map(|ranks| ranks.watch())
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

/// Returns the processor's model, where the system reports it.
fn processor_name() -> String {
    std::fs::read_to_string("/proc/cpuinfo")
        .ok()
        .and_then(|text| {
            let line = text.lines().find(|line| line.starts_with("model name"))?;
            Some(line.split(':').nth(1)?.trim().to_owned())
        })
        .unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}
