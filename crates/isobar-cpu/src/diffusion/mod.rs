//! The diffusion operator on processor cores: each fused step one pass over memory.
//!
//! * this file: the operator, its coefficients and how a pass is put together,
//! * [`rows`] where the neighbours of a row lie, [`faces`] the transmissibilities between them,
//! * [`steps`] the fused steps as lists of stages,
//! * [`kernels`] the loops of the stages, one half plane at a time; [`lines`] those that solve lines;
//!   [`triangular`] those of the strict triangular parts,
//! * [`substitution`] forward and backward substitution in blocks,
//! * [`regional`] deflation's step, [`transfer`] restriction and prolongation.

mod faces;
mod kernels;
mod lines;
mod regional;
mod rows;
mod steps;
mod substitution;
mod transfer;
mod triangular;

use std::sync::{Mutex, MutexGuard, PoisonError};

use isobar_core::error::Result;
use isobar_core::layout::{Colour, Layout, Shape};
use isobar_core::real::Real;
use isobar_core::stencil::{self, Axis};
use pulp::{Simd, WithSimd};

use self::faces::{Coefficients, Faces};
use self::rows::{Geometry, HalfPlane};
use self::transfer::{Weights, natural_row_len};
use crate::cpu::Cpu;
use crate::shared::Shared;
use crate::vector::Vector;
use crate::wavefront::{self, Chunks};

/// Bytes of elimination factors that a tile of columns may take up, so that they stay in the second
/// level cache beside the rows that stream through.
const FACTOR_BYTES: usize = 192 << 10;

/// Planes that a thread keeps for itself: as many as a plane of the coarse grid is restricted from.
const PLANES: usize = 4;

/// [`stencil::Diffusion`] on processor cores.
///
/// Storage beside the coefficients: for every thread the elimination factors of a tile, and four planes.
#[derive(Debug)]
pub struct Diffusion<T> {
    cpu: Cpu,
    geometry: Geometry<T>,
    coefficients: Coefficients<T>,
    coefficient_vectors: f64,
    weights: Option<Weights<T>>,
    scratch: Mutex<Scratch<T>>,
}

#[derive(Debug)]
struct Scratch<T> {
    chunks: Vec<ChunkScratch<T>>,
    /// Two sums a plane.
    sums: Vec<[f64; 2]>,
}

/// What one thread needs while it works on its chunk of planes.
#[derive(Debug)]
struct ChunkScratch<T> {
    /// excess / pivot of the row below, of as many columns as are eliminated together.
    ratio: Vec<T>,
    /// Elimination factors of a tile, all levels.
    factors: Vec<T>,
    /// Solution of a tile, all levels, where it may not overwrite u.
    values: Vec<T>,
    /// Rows in natural order.
    natural: [Vec<T>; 2],
    /// Four planes of Z a or of a residual, and which.
    planes: Vector<T>,
    kept: [Option<usize>; PLANES],
}

/// A stage of a pass: plane, and the scratch space of whoever runs it.
type Stage<'a, T> = &'a (dyn Fn(usize, &mut ChunkScratch<T>) + Sync);

/// A loop over one half plane, written once for all kinds of coefficients. (A trait, not a closure: only
/// functions that are sure to be inlined get this machine's vector instructions.)
trait Kernel<T: Real> {
    /// What it sums up.
    type Output;

    /// Runs it; everywhere `#[inline(always)]`.
    fn run<S: Simd, F: Faces<T>>(self, simd: S, g: &Geometry<T>, faces: &F) -> Self::Output;
}

struct On<'a, K, T, F> {
    kernel: K,
    geometry: &'a Geometry<T>,
    faces: &'a F,
}

impl<T: Real, K: Kernel<T>, F: Faces<T>> WithSimd for On<'_, K, T, F> {
    type Output = K::Output;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> K::Output {
        self.kernel.run(simd, self.geometry, self.faces)
    }
}

impl<T: Real> Diffusion<T> {
    /// Rounds and arranges the coefficients.
    ///
    /// # Errors
    /// Those of [`Layout::new`], and [`OutOfMemory`](isobar_core::Error::OutOfMemory).
    pub(crate) fn new(cpu: &Cpu, stencil: &stencil::Diffusion, with_transfers: bool) -> Result<Self> {
        let layout = Layout::new(stencil.shape())?;
        let shape = layout.shape();
        let extents = [shape.nx, shape.ny, shape.nz];
        let periodic = Axis::ALL.map(|axis| stencil.is_periodic(axis) && extents[axis as usize] > 1);
        let geometry = Geometry::new(layout, periodic);
        let tile = (FACTOR_BYTES / (shape.nz * size_of::<T>())).next_multiple_of(8).clamp(8, layout.pitch());
        let few_planes = Layout::new(Shape::new(shape.nx, PLANES, shape.nz))?;
        let chunk = || {
            Ok(ChunkScratch {
                ratio: vec![T::ZERO; tile],
                factors: vec![T::ZERO; tile * shape.nz],
                values: vec![T::ZERO; tile * shape.nz],
                natural: [0, 1].map(|_| vec![T::ZERO; natural_row_len(&layout)]),
                planes: Vector::zeros(cpu, &few_planes)?,
                kept: [None; PLANES],
            })
        };
        Ok(Self {
            cpu: cpu.clone(),
            coefficients: Coefficients::new(cpu, &geometry, stencil)?,
            coefficient_vectors: stencil.coefficient_vectors(),
            weights: Weights::new(cpu, &layout, stencil, with_transfers)?,
            geometry,
            scratch: Mutex::new(Scratch {
                chunks: (0..cpu.threads_for(layout.len())).map(|_| chunk()).collect::<Result<_>>()?,
                sums: vec![[0.0; 2]; shape.ny],
            }),
        })
    }

    fn layout(&self) -> &Layout {
        &self.geometry.layout
    }

    fn half_plane(&self, j: usize, colour: Colour) -> HalfPlane {
        self.geometry.half_plane(j, colour)
    }

    /// Runs a loop with this machine's instructions.
    fn run<K: Kernel<T>>(&self, kernel: K) -> K::Output {
        let geometry = &self.geometry;
        match &self.coefficients {
            Coefficients::Cells(faces) => self.cpu.dispatch::<T, _>(On { kernel, geometry, faces }),
            Coefficients::Stored(faces) => self.cpu.dispatch::<T, _>(On { kernel, geometry, faces }),
        }
    }

    fn scratch(&self) -> MutexGuard<'_, Scratch<T>> {
        // Scratch holds nothing between passes, so a panic elsewhere cannot have spoilt it.
        self.scratch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs stages in one pass over the planes.
    fn pass(&self, scratch: &mut Scratch<T>, stages: &[Stage<'_, T>]) {
        let chunks = Chunks::new(self.layout().shape().ny, scratch.chunks.len(), stages.len());
        let chunks = if self.geometry.periodic[1] { chunks.periodic() } else { chunks };
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

    /// Stores a plane's sums.
    fn store(sums: Shared<[f64; 2]>, j: usize, values: [f64; 2]) {
        // SAFETY: a stage runs once on each plane.
        unsafe { sums.set(j as isize, values) };
    }

    /// Runs a kernel on both half planes of plane j and adds up what it sums up.
    fn on_both<K: Kernel<T, Output = [f64; 2]>>(&self, j: usize, kernel: impl Fn(HalfPlane) -> K) -> [f64; 2] {
        let [red, black] = Colour::BOTH.map(|colour| self.run(kernel(self.half_plane(j, colour))));
        [red[0] + black[0], red[1] + black[1]]
    }
}
