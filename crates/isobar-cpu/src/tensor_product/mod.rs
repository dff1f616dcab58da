//! The tensor-product operator on processor cores: each fused step one pass over memory.
//!
//! * this file: the operator, its coefficients and its steps as lists of stages,
//! * [`stages`] what a stage does to one plane,
//! * [`kernels`] the loops of the stages, one half plane at a time,
//! * [`transfer`] those between two grids.

mod kernels;
mod stages;
mod transfer;

use std::sync::{Mutex, MutexGuard, PoisonError};

use isobar_core::backend::{HostScalars, Ratio, Slot};
use isobar_core::error::Result;
use isobar_core::layout::{Colour, Layout};
use isobar_core::operator::{
    Direction, Guess, LineOperator, LineSolver, MultigridOperator, OnBackend, Operator, Relaxation,
};
use isobar_core::options::Smoother;
use isobar_core::real::Real;
use isobar_core::stencil;
use pulp::Simd;

use crate::blas;
use crate::cpu::Cpu;
use crate::half_plane::{Columns, HalfPlane, Level};
use crate::shared::{Row, Shared};
use crate::vector::Vector;
use crate::wavefront::{self, Chunks};
use stages::Restricted;

/// Bytes of elimination factors that a tile of columns may take up, so that they stay in the second
/// level cache beside the rows that stream through.
const FACTOR_BYTES: usize = 192 << 10;
/// The most stages that a pass has.
const MAX_STAGES: usize = 5;
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

impl<T> OnBackend<Cpu> for TensorProduct<T> {
    fn backend(&self) -> &Cpu {
        &self.cpu
    }
}

impl<T: Real> Operator<Cpu, T> for TensorProduct<T> {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn apply(&self, x: &Vector<T>, y: &mut Vector<T>) -> Result<()> {
        let (x, y) = (x.share(), y.share_mut());
        self.pass(&mut self.scratch(), &[&|j, _| self.apply_plane(j, x, y, None)]);
        Ok(())
    }

    fn divide_by_diagonal(&self, r: &Vector<T>, z: &mut Vector<T>) -> Result<()> {
        let (r, z) = (r.share(), z.share_mut());
        self.pass(&mut self.scratch(), &[&|j, _| self.divide_plane(j, r, z)]);
        Ok(())
    }

    fn residual(
        &self,
        f: &Vector<T>,
        u: &Vector<T>,
        r: &mut Vector<T>,
        norm: Slot,
        scalars: &mut HostScalars,
    ) -> Result<()> {
        let (f, u, r) = (f.share(), u.share(), r.share_mut());
        let mut scratch = self.scratch();
        let sums = Shared::of(&mut scratch.sums);
        self.pass(&mut scratch, &[&|j, s| self.residual_plane(j, &Colour::BOTH, f, u, Some(r), sums, s)]);
        scalars.0[norm.index()] = Self::total(&scratch, 0);
        Ok(())
    }

    fn residual_norm(
        &self,
        f: &Vector<T>,
        u: &Vector<T>,
        _: &mut Vector<T>,
        norm: Slot,
        scalars: &mut HostScalars,
    ) -> Result<()> {
        let (f, u) = (f.share(), u.share());
        let mut scratch = self.scratch();
        let sums = Shared::of(&mut scratch.sums);
        self.pass(&mut scratch, &[&|j, s| self.residual_plane(j, &Colour::BOTH, f, u, None::<Shared<T>>, sums, s)]);
        scalars.0[norm.index()] = Self::total(&scratch, 0);
        Ok(())
    }

    fn norm_needs_scratch(&self) -> bool {
        false
    }

    fn advance_direction(
        &self,
        v: Direction<'_, Vector<T>>,
        alpha: Ratio,
        beta: Ratio,
        sigma: Slot,
        scalars: &mut HostScalars,
    ) -> Result<()> {
        let [alpha, beta] = [alpha, beta].map(|ratio| T::from_f64(ratio.value(&scalars.0)));
        let (u, p, z, q) = (v.u.share_mut(), v.p.share_mut(), v.z.share(), v.q.share_mut());
        let mut scratch = self.scratch();
        let sums = Shared::of(&mut scratch.sums);
        self.pass(
            &mut scratch,
            &[&|j, _| self.advance_plane(j, alpha, beta, u, p, z), &|j, _| self.apply_plane(j, p, q, Some(sums))],
        );
        scalars.0[sigma.index()] = Self::total(&scratch, 0);
        Ok(())
    }
}

impl<T: Real> LineSolver<Cpu, T> for TensorProduct<T> {
    fn solve_lines(&self, r: &Vector<T>, z: &mut Vector<T>) -> Result<()> {
        let (r, z) = (r.share(), z.share_mut());
        self.pass(&mut self.scratch(), &[&|j, s| self.solve_plane(j, r, z, s)]);
        Ok(())
    }

    fn precondition_residual(
        &self,
        r: &mut Vector<T>,
        q: &Vector<T>,
        z: &mut Vector<T>,
        alpha: Ratio,
        [rho, norm]: [Slot; 2],
        scalars: &mut HostScalars,
    ) -> Result<()> {
        let alpha = T::from_f64(alpha.value(&scalars.0));
        let (r, q, z) = (r.share_mut(), q.share(), z.share_mut());
        let mut scratch = self.scratch();
        let sums = Shared::of(&mut scratch.sums);
        self.pass(&mut scratch, &[&|j, s| self.precondition_plane(j, alpha, r, q, z, sums, s)]);
        scalars.0[rho.index()] = Self::total(&scratch, 0);
        scalars.0[norm.index()] = Self::total(&scratch, 1);
        Ok(())
    }
}

impl<T: Real> LineOperator<Cpu, T> for TensorProduct<T> {
    fn smooth(
        &self,
        relaxation: Relaxation,
        guess: Guess,
        f: &Vector<T>,
        u: &mut Vector<T>,
        _: &mut Vector<T>,
    ) -> Result<()> {
        let mut scratch = self.scratch();
        match relaxation.smoother {
            Smoother::LineJacobi => {
                self.prepare(relaxation, guess, u);
                self.jacobi_sweep(&mut scratch, relaxation.rho, f.share(), u.share_mut());
            }
            Smoother::LineRedBlack => {
                let guess = self.prepare(relaxation, guess, u);
                self.pass_around_sweep(&mut scratch, None, relaxation, guess, f.share(), u.share_mut(), None);
            }
        }
        Ok(())
    }

    fn needs_scratch(&self, _: Smoother) -> bool {
        false
    }
}

impl<T: Real> TensorProduct<T> {
    /// Only red–black relaxation without over-relaxation can do without old values; for the others a
    /// guess of zero must be written out.
    fn prepare(&self, relaxation: Relaxation, guess: Guess, u: &mut Vector<T>) -> Guess {
        let ignores_old = relaxation.smoother == Smoother::LineRedBlack && relaxation.rho == 1.0;
        if guess == Guess::Zero && !ignores_old {
            blas::fill(&self.cpu, T::ZERO, u);
            return Guess::Given;
        }
        guess
    }
}

impl<T: Real> MultigridOperator<Cpu, T> for TensorProduct<T> {
    fn restrict(&self, coarse: &Self, f: &Vector<T>, coarse_f: &mut Vector<T>) -> Result<()> {
        let (f, coarse_f) = (f.share(), coarse_f.share_mut());
        self.pass(&mut self.scratch(), &[&|j, s| self.restrict_plane(j, coarse, Restricted::Vector(f), coarse_f, s)]);
        Ok(())
    }

    fn prolong(&self, coarse: &Self, coarse_u: &Vector<T>, u: &mut Vector<T>) -> Result<()> {
        let (coarse_u, u) = (coarse_u.share(), u.share_mut());
        self.pass(&mut self.scratch(), &[&|j, s| self.prolong_plane(j, coarse, &Colour::BOTH, coarse_u, u, s)]);
        Ok(())
    }

    fn residual_restrict(
        &self,
        coarse: &Self,
        f: &Vector<T>,
        u: &Vector<T>,
        coarse_f: &mut Vector<T>,
        _: &mut Vector<T>,
    ) -> Result<()> {
        let (f, u, coarse_f) = (f.share(), u.share(), coarse_f.share_mut());
        let restrict = |j: usize, s: &mut ChunkScratch<T>| {
            self.restrict_plane(j, coarse, Restricted::Residual { f, u, colours: &Colour::BOTH }, coarse_f, s)
        };
        self.pass(&mut self.scratch(), &[&restrict]);
        Ok(())
    }

    fn smooth_residual_restrict(
        &self,
        coarse: &Self,
        relaxation: Relaxation,
        guess: Guess,
        f: &Vector<T>,
        u: &mut Vector<T>,
        coarse_f: &mut Vector<T>,
        scratch: &mut Vector<T>,
    ) -> Result<()> {
        if relaxation.smoother == Smoother::LineJacobi {
            self.smooth(relaxation, guess, f, u, scratch)?;
            return self.residual_restrict(coarse, f, u, coarse_f, scratch);
        }
        let guess = self.prepare(relaxation, guess, u);
        let (f, u, coarse_f) = (f.share(), u.share_mut(), coarse_f.share_mut());
        let colours = Self::unsolved(relaxation);
        let restrict = |j: usize, s: &mut ChunkScratch<T>| {
            self.restrict_plane(j, coarse, Restricted::Residual { f, u, colours }, coarse_f, s)
        };
        self.pass_around_sweep(&mut self.scratch(), None, relaxation, guess, f, u, Some(&restrict));
        Ok(())
    }

    fn prolong_smooth(
        &self,
        coarse: &Self,
        relaxation: Relaxation,
        f: &Vector<T>,
        coarse_u: &Vector<T>,
        u: &mut Vector<T>,
        scratch: &mut Vector<T>,
        norm: Option<(Slot, &mut HostScalars)>,
    ) -> Result<()> {
        if relaxation.smoother == Smoother::LineJacobi {
            self.prolong(coarse, coarse_u, u)?;
            self.smooth(relaxation, Guess::Given, f, u, scratch)?;
            return norm.map_or(Ok(()), |(slot, scalars)| self.residual_norm(f, u, scratch, slot, scalars));
        }
        let (f, coarse_u, u) = (f.share(), coarse_u.share(), u.share_mut());
        let (needed, unsolved) = (Self::needed(relaxation), Self::unsolved(relaxation));
        let mut scratch = self.scratch();
        let sums = Shared::of(&mut scratch.sums);
        let prolong = |j: usize, s: &mut ChunkScratch<T>| self.prolong_plane(j, coarse, needed, coarse_u, u, s);
        let measure =
            |j: usize, s: &mut ChunkScratch<T>| self.residual_plane(j, unsolved, f, u, None::<Shared<T>>, sums, s);
        let after: Option<Stage<'_, T>> = if norm.is_some() { Some(&measure) } else { None };
        self.pass_around_sweep(&mut scratch, Some(&prolong), relaxation, Guess::Given, f, u, after);
        if let Some((slot, scalars)) = norm {
            scalars.0[slot.index()] = Self::total(&scratch, 0);
        }
        Ok(())
    }

    fn correct_smooth_residual<S: Real>(
        &self,
        relaxation: Relaxation,
        f: &Vector<T>,
        e: &Vector<S>,
        u: &mut Vector<T>,
        r: &mut Vector<S>,
        scratch: &mut Vector<T>,
        norm: Slot,
        scalars: &mut HostScalars,
    ) -> Result<()> {
        let (e_shared, r) = (e.share(), r.share_mut());
        let unsolved = Self::unsolved(relaxation);
        if relaxation.smoother == Smoother::LineJacobi {
            blas::axpy(&self.cpu, T::ONE, e, u);
            self.smooth(relaxation, Guess::Given, f, u, scratch)?;
            let (f, u) = (f.share(), u.share());
            let mut scratch = self.scratch();
            let sums = Shared::of(&mut scratch.sums);
            self.pass(&mut scratch, &[&|j, s| self.residual_plane(j, unsolved, f, u, Some(r), sums, s)]);
            scalars.0[norm.index()] = Self::total(&scratch, 0);
            return Ok(());
        }
        let (f, u) = (f.share(), u.share_mut());
        let needed = Self::needed(relaxation);
        let mut scratch = self.scratch();
        let sums = Shared::of(&mut scratch.sums);
        let correct = |j: usize, _: &mut ChunkScratch<T>| self.correct_plane(j, needed, e_shared, u);
        let residual = |j: usize, s: &mut ChunkScratch<T>| self.residual_plane(j, unsolved, f, u, Some(r), sums, s);
        self.pass_around_sweep(&mut scratch, Some(&correct), relaxation, Guess::Given, f, u, Some(&residual));
        scalars.0[norm.index()] = Self::total(&scratch, 0);
        Ok(())
    }
}
