//! The tensor-product operator on processor cores: each fused step one pass over memory.
//!
//! * this file: the operator, its coefficients and how a pass is put together,
//! * [`steps`] the fused steps as lists of stages,
//! * [`stages`] what a stage does to one plane,
//! * [`kernels`] the loops of the stages, one half plane at a time; [`lines`] those that solve lines;
//! * [`transfer`] those between two grids.

mod kernels;
mod lines;
mod stages;
mod steps;
mod transfer;

use std::sync::{Mutex, MutexGuard, PoisonError};

use isobar_core::error::Result;
use isobar_core::layout::{Colour, Layout};
use isobar_core::operator::{Guess, Relaxation};
use isobar_core::options::Smoother;
use isobar_core::real::Real;
use isobar_core::stencil;
use pulp::Simd;

use crate::cpu::Cpu;
use crate::half_plane::{Columns, HalfPlane, Level};
use crate::shared::{Row, Shared};
use crate::wavefront::{self, Chunks};

/// Bytes of elimination factors that a tile of columns may take up, so that they stay in the second
/// level cache beside the rows that stream through.
const FACTOR_BYTES: usize = 192 << 10;
/// The most stages that a pass has.
const MAX_STAGES: usize = 4;
/// Planes of Jacobi corrections that a thread keeps: its first, its last, and two in flight.
const CORRECTION_PLANES: usize = 4;

/// [`stencil::TensorProduct`] on processor cores.
///
/// Storage beside the coefficients: a few planes of scratch for every thread.
#[derive(Debug)]
pub struct TensorProduct<T> {
    cpu: Cpu,
    layout: Layout,
    levels: Vec<Level<T>>,
    horizontal: Horizontal<T>,
    /// Columns eliminated together.
    tile: usize,
    scratch: Mutex<Scratch<T>>,
}

/// Horizontal factors over |T|, at `m + pitch · (colour + 2j)`.
#[derive(Debug)]
struct Horizontal<T> {
    west: Vec<T>,
    east: Vec<T>,
    south: Vec<T>,
    north: Vec<T>,
    total: Vec<T>,
    area: Vec<T>,
    inverse_area: Vec<T>,
}

#[derive(Debug)]
struct Scratch<T> {
    chunks: Vec<ChunkScratch<T>>,
    /// Two sums a plane.
    sums: Vec<[f64; 2]>,
    /// [`CORRECTION_PLANES`] planes a chunk.
    corrections: Vec<T>,
}

/// What one thread needs while it works on its chunk of planes.
#[derive(Debug)]
struct ChunkScratch<T> {
    /// excess / pivot of the row below.
    ratio: Vec<T>,
    /// Elimination factors of a tile, all levels.
    factors: Vec<T>,
    /// Solution of a tile, all levels, where it may not overwrite u.
    values: Vec<T>,
    /// A row of coarse values in natural order, ghosts included.
    row: Vec<T>,
}

/// A stage of a pass: plane, and the scratch space of whoever runs it.
type Stage<'a, T> = &'a (dyn Fn(usize, &mut ChunkScratch<T>) + Sync);

impl<T: Real> TensorProduct<T> {
    /// Rounds and arranges the coefficients.
    ///
    /// # Errors
    /// Those of [`Layout::new`].
    pub(crate) fn new(cpu: &Cpu, stencil: &stencil::TensorProduct) -> Result<Self> {
        let layout = Layout::new(stencil.shape())?;
        let (v, h) = (stencil.vertical(), stencil.horizontal());
        let round = T::from_f64;
        let levels = (0..v.len())
            .map(|k| Level {
                mass: round(v.a[k]),
                above: round(-v.b[k]),
                below: round(-v.c[k]),
                horizontal: round(-v.d[k]),
            })
            .collect();
        let arrange = |f: &dyn Fn(usize) -> f64| {
            let mut out = vec![T::ZERO; layout.columns_len()];
            for j in 0..h.ny {
                for i in 0..h.nx {
                    out[layout.column_index(i, j)] = round(f(i + h.nx * j));
                }
            }
            out
        };
        let pitch = layout.pitch();
        let tile = (FACTOR_BYTES / (v.len() * size_of::<T>())).next_multiple_of(8).clamp(8, pitch.max(8));
        let threads = cpu.threads_for(layout.len());
        let chunk = || ChunkScratch {
            ratio: vec![T::ZERO; tile],
            factors: vec![T::ZERO; tile * v.len()],
            values: vec![T::ZERO; tile * v.len()],
            row: vec![T::ZERO; 2 * pitch + 32],
        };
        Ok(Self {
            cpu: cpu.clone(),
            layout,
            levels,
            horizontal: Horizontal {
                west: arrange(&|n| h.west[n] / h.area[n]),
                east: arrange(&|n| h.east[n] / h.area[n]),
                south: arrange(&|n| h.south[n] / h.area[n]),
                north: arrange(&|n| h.north[n] / h.area[n]),
                total: arrange(&|n| h.total[n] / h.area[n]),
                area: arrange(&|n| h.area[n]),
                inverse_area: arrange(&|n| 1.0 / h.area[n]),
            },
            tile,
            scratch: Mutex::new(Scratch {
                chunks: (0..threads).map(|_| chunk()).collect(),
                sums: vec![[0.0; 2]; layout.shape().ny],
                corrections: vec![T::ZERO; threads * CORRECTION_PLANES * 2 * layout.half_plane()],
            }),
        })
    }

    fn half_plane(&self, j: usize, colour: Colour) -> HalfPlane {
        HalfPlane::new(&self.layout, j, colour)
    }

    /// The coefficients of columns m … m + n − 1 of a half plane.
    #[inline(always)]
    fn columns<S: Simd>(&self, simd: S, h: &HalfPlane, m: usize, n: usize) -> Columns<'_, S, T> {
        let range = h.column as usize + m..h.column as usize + m + n;
        let f = &self.horizontal;
        Columns {
            west: Row::new(simd, &f.west[range.clone()]),
            east: Row::new(simd, &f.east[range.clone()]),
            south: Row::new(simd, &f.south[range.clone()]),
            north: Row::new(simd, &f.north[range.clone()]),
            total: Row::new(simd, &f.total[range.clone()]),
            area: Row::new(simd, &f.area[range.clone()]),
            inverse_area: Row::new(simd, &f.inverse_area[range]),
        }
    }

    fn scratch(&self) -> MutexGuard<'_, Scratch<T>> {
        // Scratch holds nothing between passes, so a panic elsewhere cannot have spoilt it.
        self.scratch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn chunks(&self, scratch: &Scratch<T>, stages: usize) -> Chunks {
        Chunks::new(self.layout.shape().ny, scratch.chunks.len(), stages)
    }

    /// Runs stages in one pass over the planes.
    fn pass(&self, scratch: &mut Scratch<T>, stages: &[Stage<'_, T>]) {
        let chunks = self.chunks(scratch, stages.len());
        let spaces = Shared::of(&mut scratch.chunks);
        wavefront::run(&self.cpu, chunks, stages.len(), |s, plane, chunk| {
            // SAFETY: calls with the same `chunk` never overlap.
            let space = unsafe { spaces.row_mut(chunk as isize, 1) };
            stages[s](plane, &mut space[0]);
        });
    }

    /// Adds up what the stages left for each plane.
    fn total(scratch: &Scratch<T>, which: usize) -> f64 {
        scratch.sums.iter().map(|sums| sums[which]).sum()
    }

    /// The colours whose residual does not vanish after a sweep.
    fn unsolved(relaxation: Relaxation) -> &'static [Colour] {
        match (relaxation.smoother, relaxation.first) {
            (Smoother::LineRedBlack, Colour::Red) if relaxation.rho == 1.0 => &[Colour::Red],
            (Smoother::LineRedBlack, Colour::Black) if relaxation.rho == 1.0 => &[Colour::Black],
            _ => &Colour::BOTH,
        }
    }

    /// The colours whose old values a sweep looks at.
    fn needed(relaxation: Relaxation) -> &'static [Colour] {
        match (relaxation.smoother, relaxation.first) {
            (Smoother::LineRedBlack, Colour::Red) if relaxation.rho == 1.0 => &[Colour::Black],
            (Smoother::LineRedBlack, Colour::Black) if relaxation.rho == 1.0 => &[Colour::Red],
            _ => &Colour::BOTH,
        }
    }

    /// A pass with the stages of one red–black sweep in the middle.
    fn pass_around_sweep(
        &self,
        scratch: &mut Scratch<T>,
        before: Option<Stage<'_, T>>,
        relaxation: Relaxation,
        guess: Guess,
        f: Shared<T>,
        u: Shared<T>,
        after: Option<Stage<'_, T>>,
    ) {
        let rho = T::from_f64(relaxation.rho);
        let from_zero = guess == Guess::Zero;
        let first = |j: usize, s: &mut ChunkScratch<T>| self.relax(j, relaxation.first, from_zero, rho, f, u, s);
        let second = |j: usize, s: &mut ChunkScratch<T>| self.relax(j, relaxation.first.other(), false, rho, f, u, s);
        let mut stages: [Stage<'_, T>; MAX_STAGES] = [&first; MAX_STAGES];
        let mut count = 0;
        for stage in [before, Some(&first as Stage<'_, T>), Some(&second), after].into_iter().flatten() {
            stages[count] = stage;
            count += 1;
        }
        self.pass(scratch, &stages[..count]);
    }

    /// One sweep of block Jacobi: corrections of a plane are kept until its neighbours have theirs.
    fn jacobi_sweep(&self, scratch: &mut Scratch<T>, rho: f64, f: Shared<T>, u: Shared<T>) {
        let rho = T::from_f64(rho);
        let chunks = self.chunks(scratch, 2);
        let corrections = Shared::of(&mut scratch.corrections);
        let plane_len = 2 * self.layout.half_plane();
        let kept = |j: usize| {
            let (chunk, place) = chunks.locate(j);
            ((chunk * CORRECTION_PLANES + place) * plane_len) as isize
        };
        let solve = |j: usize, s: &mut ChunkScratch<T>| self.jacobi_correction(j, f, u, corrections, kept(j), s);
        let correct = |j: usize, _: &mut ChunkScratch<T>| self.add_correction(j, rho, u, corrections, kept(j));
        self.pass(scratch, &[&solve, &correct]);
    }
}
