//! The CPU back end as solvers see it: vectors in and out, operations on them, and iterations.

use std::sync::LazyLock;
use std::time::Instant;

use isobar_core::backend::{Body, DeviceInfo, Iterations, Look, iterate_stepwise};
use isobar_core::prelude::{
    ArrayView, ArrayViewMut, Axis, Backend, Colour, HostScalars, Layout, Meanwhile, Ratio, Real, Result, Scalar,
    Separable, Shape, SharedDirect, Shares, Slab, Sum,
};
use isobar_core::reference::check_shape;
use isobar_dist::part;

use crate::{Cpu, Shared, Vector, blas, direct};

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
        let one =
            DeviceInfo { kind: "cpu", name: processor_name().to_owned(), count: 1, ranks: 1, threads: self.threads() };
        isobar_dist::device(self, one)
    }

    fn shares(&self, grid: Shape) -> Option<Shares> {
        self.ranks.as_ref()?.shares(grid)
    }

    fn own_rows(&self, grid: Shape) -> Result<Slab> {
        isobar_dist::own_rows(self, grid)
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
        // Elements that lie otherwise are near each other from layer to layer.
        target.for_each_slice(self, Axis::Y, |j, row| {
            for k in 0..shape.nz {
                entries_of_row(source, j, k, |i, value| row.set(i, 0, k, S::from_f64(value.to_f64())));
            }
        });
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

    fn xpay<S: Real, T: Real>(&self, a: Ratio, x: &Vector<S>, y: &mut Vector<T>, scalars: &HostScalars) -> Result<()> {
        blas::xpay(self, T::from_f64(scalars.value(a)), x, y);
        Ok(())
    }

    fn dot<T: Real>(&self, x: &Vector<T>, y: &Vector<T>, (out, scalars): Sum<'_, Cpu>) -> Result<()> {
        scalars.reduce(out, [blas::dot(self, x, y)]);
        self.sum(x.layout(), &[out], scalars)
    }

    fn axpy_norm<T: Real>(
        &self,
        a: Ratio,
        x: &Vector<T>,
        y: &mut Vector<T>,
        (out, scalars): Sum<'_, Cpu>,
    ) -> Result<()> {
        let a = T::from_f64(scalars.value(a));
        scalars.reduce(out, [blas::axpy_norm(self, a, x, y)]);
        self.sum(y.layout(), &[out], scalars)
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
        how: Iterations,
        scalars: &mut HostScalars,
        body: &mut Body<'_, HostScalars>,
        observe: &mut Look<'_>,
    ) -> Result<()> {
        match self.ranks.as_ref().filter(|_| !how.on_host).map(|ranks| ranks.watch()) {
            Some(watched) => iterate_stepwise(self, scalars, body, &mut |bank| watched.pause(|| observe(bank))),
            None => iterate_stepwise(self, scalars, body, observe),
        }
    }

    /// Returns a queue for each system, up to one per thread, if several at a time keep more threads busy than one does; else 0.
    fn queues(&self, systems: usize, layout: &Layout, bytes: usize) -> Result<usize> {
        /// Systems with more bytes of vectors in all keep the memory busy one by one.
        const MOST_BYTES: usize = 4 << 30;
        let count = self.all_threads().min(systems).min(MOST_BYTES / bytes.max(1));
        Ok(if self.ranks.is_none() && 2 * count >= self.threads_for(layout.len()) { count } else { 0 })
    }

    fn most_queues(&self) -> usize {
        self.all_threads()
    }

    /// Waits for all ranks, so that no rank's wait for another is timed as work.
    fn synchronize(&self) -> Result<()> {
        self.ranks.as_ref().map_or(Ok(()), |ranks| ranks.world().barrier())
    }

    fn enter<R>(&self, work: impl FnOnce() -> R) -> R {
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

    /// Measured: docs/notes/direct.md, "Nearest box".
    fn products_like_rest(&self) -> Option<f64> {
        Some(160.0)
    }

    fn has_direct(&self) -> bool {
        true
    }

    fn direct(&self, layout: &Layout, factors: &Separable) -> Result<Option<SharedDirect<Self>>> {
        direct::direct(self, layout, factors)
    }
}

/// Returns the processor's model, where the system reports it. That is asked once: of many cores an answer takes milliseconds.
fn processor_name() -> &'static str {
    static NAME: LazyLock<String> = LazyLock::new(|| {
        let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let line = text.lines().find(|line| line.starts_with("model name"));
        let name = line.and_then(|line| line.split(':').nth(1)).map(str::trim);
        name.unwrap_or(std::env::consts::ARCH).to_owned()
    });
    &NAME
}
