//! Relaxation of points: plain sweeps in one pass over memory, and hierarchical cycles whose tiles stay in cache.
//!
//! * `sweep`: the loop over a half plane, and the update of a pack of cells, `colours`: sweeps of one colour of cells,
//! * `tile`: all sub-iterations of one tile, `space`: its storage,
//! * `streamed`: cycles of several sweeps, in one pass over memory.

mod colours;
mod space;
mod streamed;
mod sweep;
mod tile;

use std::sync::MutexGuard;

use isobar_core::operator::points::{move_by_sweeps, worst_of_lines};
use isobar_core::prelude::{Operator, PointCycle, PointSmoother, Real, Result, Shape, Sum};
use isobar_dist::require_sweeps;

use self::space::TileSpace;
pub(super) use self::space::Tiles;
use self::sweep::Sweep;
use self::tile::{Moving, Tile};
use super::{SevenPoint, Stored};
use crate::{Cpu, Shared, Vector};

/// Cells of a tile in one, two and three dimensions: its storage is about a second-level cache of a mebibyte, and rows are long
/// enough for vector instructions.
const TILES: [[usize; 3]; 3] = [[4096, 1, 1], [128, 48, 1], [64, 16, 8]];

impl<C: Stored<T>, T: Real> SevenPoint<C, T> {
    fn tiles(&self) -> MutexGuard<'_, Tiles<T>> {
        self.tiles.lock(|| Ok(Tiles::default()))
    }

    /// Returns Σ r² over all cells, and of each line in each tile where these are wanted.
    fn relax_tiles(
        &self,
        cycle: &PointCycle,
        [f, u, v]: [Shared<T>; 3],
        tiles: &mut Tiles<T>,
        by_line: bool,
        moving: Option<Moving<T>>,
    ) -> Result<f64> {
        let (g, shape) = (self.geometry(), self.geometry().layout.shape());
        let is_exact = cycle.is_exact(shape, self.periodic);
        let count = cycle.tiles(shape);
        let c = self.coefficients();
        self.make_room(cycle, tiles)?;
        let Tiles { spaces, sums, lines, .. } = tiles;
        let lines = by_line.then(|| Shared::of(lines));
        let threads = spaces.len().min(count);
        let (spaces, shared_sums) = (Shared::of(spaces), Shared::of(sums));
        self.cpu().for_each(threads, |n| {
            // SAFETY: each call has a space of its own.
            let space = unsafe { &mut spaces.row_mut(n as isize, 1)[0] };
            for t in count * n / threads..count * (n + 1) / threads {
                let lines = lines.map(|lines| (lines, (t % cycle.counts(shape)[0] * shape.ny) as isize));
                let tile =
                    Tile { cycle, is_exact, spans: cycle.spans(shape, t), f, u, v, lines, moving, space: &mut *space };
                let sum = tile.relax(self.cpu(), g, &*c);
                // SAFETY: each tile has a place of its own.
                unsafe { shared_sums.set(t as isize, sum) };
            }
        });
        Ok(sums[..count].iter().sum())
    }

    fn make_line_room(&self, cycle: &PointCycle, tiles: &mut Tiles<T>) {
        let shape = self.geometry().layout.shape();
        tiles.lines.resize(cycle.counts(shape)[0] * shape.ny, 0.0);
    }

    fn make_room(&self, cycle: &PointCycle, tiles: &mut Tiles<T>) -> Result<()> {
        if self.is_streamed(cycle) {
            if tiles.between.is_none() {
                tiles.between = Some(Vector::zeros(self.cpu(), &self.layout)?);
            }
            return Ok(());
        }
        let shape = self.geometry().layout.shape();
        let work = cycle.updates(shape).min(1e15) as usize;
        let threads = self.cpu().threads_for(work).min(cycle.tiles(shape));
        for space in &mut tiles.spaces {
            if !space.holds(cycle, shape) {
                *space = TileSpace::new(self.cpu(), cycle, shape)?;
            }
        }
        while tiles.spaces.len() < threads {
            tiles.spaces.push(TileSpace::new(self.cpu(), cycle, shape)?);
        }
        if tiles.sums.len() < cycle.tiles(shape) {
            tiles.sums.resize(cycle.tiles(shape), 0.0);
        }
        Ok(())
    }
}

impl<C: Stored<T>, T: Real> SevenPoint<C, T> {
    /// Runs a sweep, with the norm of the residual before it.
    fn sweep_points(
        &self,
        cycle: &PointCycle,
        f: &Vector<T>,
        u: &mut Vector<T>,
        v: &mut Vector<T>,
        norm: Sum<'_, Cpu>,
    ) -> Result<()> {
        let [omega, momentum] = [cycle.relaxation, cycle.momentum].map(T::from_f64);
        let (f, shared_u, v) = (f.share(), u.share(), v.share_mut());
        let momentum = (cycle.momentum > 0.0).then_some(momentum);
        let sweep = |h| Sweep { h, omega, momentum, f, u: shared_u, v };
        self.summing_pass_and_fill(|c, j, _| self.on_both(c, j, sweep), norm, u)
    }
}

impl<C: Stored<T>, T: Real> PointSmoother<Cpu, T> for SevenPoint<C, T> {
    fn periodic(&self) -> [bool; 3] {
        self.periodic
    }

    fn suggested_tile(&self) -> [usize; 3] {
        let Shape { ny, nz, .. } = Operator::layout(self).shape();
        TILES[if nz > 1 { 2 } else { usize::from(ny > 1) }]
    }

    fn prepare(&self, cycle: &PointCycle) -> Result<()> {
        require_sweeps(cycle, &self.layout)?;
        if cycle.is_sweep() { Ok(()) } else { self.make_room(cycle, &mut self.tiles()) }
    }

    fn relax_points(
        &self,
        cycle: &PointCycle,
        f: &Vector<T>,
        u: &mut Vector<T>,
        v: &mut Vector<T>,
        (norm, scalars): Sum<'_, Cpu>,
    ) -> Result<()> {
        if cycle.is_sweep() {
            return self.sweep_points(cycle, f, u, v, norm.of(scalars));
        }
        require_sweeps(cycle, &self.layout)?;
        let vectors = [f.share(), u.share(), v.share_mut()];
        let mut tiles = self.tiles();
        if self.is_streamed(cycle) {
            self.make_room(cycle, &mut tiles)?;
            if let Some(between) = &mut tiles.between {
                let [f, u, v] = vectors;
                self.stream(cycle, [f, u, v, between.share_mut()], None, norm.of(scalars));
            }
            return Ok(());
        }
        scalars.reduce(norm, [self.relax_tiles(cycle, vectors, &mut tiles, false, None)?]);
        Ok(())
    }

    fn relax_moving(
        &self,
        cycle: &PointCycle,
        [f, before]: [&Vector<T>; 2],
        u: &mut Vector<T>,
        [v, w]: [&mut Vector<T>; 2],
        (norm, scalars): Sum<'_, Cpu>,
    ) -> Result<()> {
        if self.layout.is_part() {
            return move_by_sweeps(self, cycle, [f, before], u, [v, w], norm.of(scalars));
        }
        let (vectors, before, last) = ([f.share(), u.share(), v.share_mut()], before.share(), w.share_mut());
        if self.is_streamed(cycle) {
            let [f, u, v] = vectors;
            self.stream(cycle, [f, u, v, last], Some(before), norm.of(scalars));
            return Ok(());
        }
        let moving = Moving { momentum: T::from_f64(cycle.momentum), before, last };
        scalars.reduce(norm, [self.relax_tiles(cycle, vectors, &mut self.tiles(), false, Some(moving))?]);
        Ok(())
    }

    fn suggested_line_tile(&self) -> [usize; 3] {
        TILES[0]
    }

    fn prepare_lines(&self, cycle: &PointCycle) -> Result<()> {
        self.make_line_room(cycle, &mut self.tiles());
        PointSmoother::prepare(self, cycle)
    }

    fn relax_lines(
        &self,
        cycle: &PointCycle,
        f: &Vector<T>,
        u: &Vector<T>,
        v: &mut Vector<T>,
        norms: &mut Vector<f64>,
    ) -> Result<()> {
        let (f, u, v) = (f.share(), u.share(), v.share_mut());
        let shape = Operator::layout(self).shape();
        let line = *norms.layout();
        let norms = norms.entries_mut();
        if cycle.is_sweep() {
            let omega = T::from_f64(cycle.relaxation);
            let sweep = |h| Sweep { h, omega, momentum: None, f, u, v };
            // A plane with one layer is a line.
            self.pass_by_plane(|c, j, _| self.on_both(c, j, sweep), |j, sums| norms[line.index(j, 0, 0)] = sums[0]);
            return Ok(());
        }
        let mut tiles = self.tiles();
        self.make_line_room(cycle, &mut tiles);
        tiles.lines.fill(0.0);
        self.relax_tiles(cycle, [f, u, v], &mut tiles, true, None)?;
        for j in 0..shape.ny {
            norms[line.index(j, 0, 0)] = tiles.lines.iter().skip(j).step_by(shape.ny).sum();
        }
        Ok(())
    }

    fn judge_lines(
        &self,
        [norms, weights]: [&Vector<f64>; 2],
        n: &mut Vector<f64>,
        allowed: f64,
        (worst, scalars): Sum<'_, Cpu>,
    ) -> Result<()> {
        let lines = norms.entries().iter().zip(weights.entries()).zip(n.entries_mut());
        scalars.set(worst, worst_of_lines(lines.map(|((&norm, &weight), n)| (norm, weight, n)), allowed));
        Ok(())
    }
}
