//! Direct solves of separable boxes: transforms along two axes, tridiagonal systems along the third.
//!
//! * `transform` multiplies lines by eigenvectors: `trig` and `fft` on uniform axes, `products` on others,
//! * `blocks` transforms two packs of lines, along rows (`transpose`) or across them,
//! * `lines` solves tridiagonal systems,
//! * `passes` has the passes of a solve, `planes` the places of numbers in vectors and in the working array, `memory` that array.
//!
//! A solve is three passes over memory. The first and the last transform plane by plane along both axes, the middle one solves
//! along the lines across the planes:
//!
//! ```text
//! work = Sᵀ b, 2 vectors read or written;   work = (T + μ D_a + ν D_b)⁻¹ work, 2;   u = S work, 2
//! ```
//!
//! An array that is written without being read is read by the processor all the same.

mod blocks;
mod fft;
mod lines;
mod memory;
mod passes;
mod planes;
mod products;
mod transform;
mod transpose;
mod trig;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use isobar_core::backend::Backend;
use isobar_core::backend::{DirectSolver, SharedDirect};
use isobar_core::direct::{Basis, Separable};
use isobar_core::error::Result;
use isobar_core::layout::Layout;
use pulp::{Simd, WithSimd};

use self::lines::Systems;
use self::memory::{Buffer, LINE};
use self::passes::Passes;
use self::planes::Planes;
use self::transform::Transform;
use crate::cpu::Cpu;
use crate::shared::Shared;
use crate::vector::Vector;

/// Makes the solver of a separable matrix, for vectors that are not part of a larger grid.
///
/// # Errors
/// See [`Separable::bases`]; [`Error::OutOfMemory`](isobar_core::Error::OutOfMemory).
pub(crate) fn direct(cpu: &Cpu, layout: &Layout, factors: &Separable) -> Result<Option<SharedDirect<Cpu>>> {
    let is_whole = layout.origin() == [0; 2] && layout.len_with_halo() == layout.len();
    if !is_whole || layout.shape() != factors.shape {
        return Ok(None);
    }
    let tables = Tables::new(cpu, *layout, factors)?;
    let memory = Memory::new(&tables)?;
    Ok(Some(Arc::new(Mutex::new(Planewise { tables, memory }))))
}

struct Planewise {
    tables: Tables,
    memory: Memory,
}

/// The data that a solve reads.
struct Tables {
    cpu: Cpu,
    planes: Planes,
    /// Transforms along rows and across them; a single row needs none.
    along: Transform,
    across: Option<Transform>,
    systems: Systems,
    /// Eigenvalues of both axes, those of rows padded to whole packs.
    values: [Vec<f64>; 2],
    description: String,
    machine: Machine,
}

/// The working memory of a solve.
struct Memory {
    work: Buffer,
    /// Planes on their way back, which need not be kept.
    passing: Buffer,
    scratch: Buffer,
}

/// The vector registers of a processor.
#[derive(Clone, Copy, Debug)]
struct Machine {
    lanes: usize,
    registers: usize,
}

struct Ask;

impl WithSimd for Ask {
    type Output = Machine;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> Machine {
        Machine { lanes: S::F64_LANES, registers: S::REGISTER_COUNT }
    }
}

impl Tables {
    fn new(cpu: &Cpu, layout: Layout, factors: &Separable) -> Result<Self> {
        let bases = factors.bases()?;
        let machine = cpu.dispatch::<f64, _>(Ask);
        let [along, across] = &bases;
        // A single row is multiplied by its vector of one entry together with the other factor.
        let [factor, across_rows] = match across.len() {
            1 => [across.entry(0, 0), 0.0],
            _ => [1.0, 1.0],
        };
        let mut values = [along, across].map(|basis| basis.values().to_vec());
        let largest = values[0].iter().copied().fold(0.0, f64::max);
        values[0].resize(along.len().next_multiple_of(LINE), largest);
        let by = |basis: &Basis| {
            if basis.trig().is_some() { "transform" } else { "products with its eigenvectors" }
        };
        Ok(Self {
            cpu: cpu.clone(),
            planes: Planes::new(layout, factors),
            along: Transform::new(along, factor, machine.registers),
            across: (across_rows > 0.0).then(|| Transform::new(across, 1.0, machine.registers)),
            systems: Systems::new(&factors.lines),
            values,
            description: factors.describe(&bases, by),
            machine,
        })
    }

    /// Returns the threads worth using.
    fn threads(&self) -> usize {
        self.cpu.threads_for(self.planes.layout().shape().cells())
    }

    /// Returns whether there are too few batches of planes for all threads.
    fn divides_batches(&self) -> bool {
        let threads = self.threads();
        threads > 1 && self.planes.batches() < 4 * threads
    }

    /// Returns the blocks of rows in a batch.
    fn blocks(&self, batch: usize) -> usize {
        (self.planes.planes(batch).len() * self.planes.rows).div_ceil(2 * self.machine.lanes)
    }

    /// Returns the packs of a row of modes.
    fn packs(&self) -> usize {
        self.planes.columns.div_ceil(self.machine.lanes)
    }

    /// Returns the numbers of scratch a thread.
    fn scratch(&self) -> usize {
        let along = self.along.scratch() + 2 * self.planes.columns;
        let across = self.across.as_ref().map_or(0, Transform::scratch);
        // Buffers of different threads are more than a line apart, as prefetchers fetch two lines.
        (along.max(across).max(self.systems.scratch()) * self.machine.lanes).next_multiple_of(LINE) + 2 * LINE
    }

    /// Calls `f(item, thread)` for all items, concurrently on all threads.
    fn each(&self, count: usize, f: impl Fn(usize, usize) + Sync) {
        let next = AtomicUsize::new(0);
        self.cpu.for_each(self.threads().min(count), |thread| {
            loop {
                let item = next.fetch_add(1, Ordering::Relaxed);
                if item >= count {
                    break;
                }
                f(item, thread);
            }
        });
    }
}

impl Memory {
    fn sizes(tables: &Tables) -> [usize; 3] {
        let (planes, threads) = (&tables.planes, tables.threads());
        let passing = if tables.divides_batches() { planes.count } else { threads * planes.batch };
        [planes.len(planes.count), planes.len(passing), threads * tables.scratch()]
    }

    fn new(tables: &Tables) -> Result<Self> {
        let [work, passing, scratch] = Self::sizes(tables);
        let zeros = |len, what| Buffer::zeros(&tables.cpu, len, what);
        Ok(Self {
            work: zeros(work, "the working array of a direct solver")?,
            passing: zeros(passing, "planes of a direct solver")?,
            scratch: zeros(scratch, "scratch of a direct solver")?,
        })
    }

    /// Returns whether it is as large as these tables need.
    fn suits(&self, tables: &Tables) -> bool {
        let [work, passing, scratch] = Self::sizes(tables);
        self.work.len() >= work && self.passing.len() >= passing && self.scratch.len() >= scratch
    }
}

impl Planewise {
    fn run(&mut self, b: Shared<f64>, u: Shared<f64>) {
        let Memory { work, passing, scratch } = &mut self.memory;
        let passes =
            Passes { tables: &self.tables, work: work.share(), passing: passing.share(), scratch: scratch.share() };
        self.tables.cpu.enter(|| passes.solve(b, u));
    }
}

impl DirectSolver<Cpu> for Planewise {
    fn solve(&mut self, b: &Vector<f64>, u: &mut Vector<f64>) -> Result<()> {
        self.run(b.share(), u.share_mut());
        Ok(())
    }

    fn solve_in_place(&mut self, x: &mut Vector<f64>) -> Result<()> {
        let x = x.share_mut();
        self.run(x, x);
        Ok(())
    }

    fn update(&mut self, factors: &Separable) -> Result<()> {
        let tables = Tables::new(&self.tables.cpu, *self.tables.planes.layout(), factors)?;
        if !self.memory.suits(&tables) {
            self.memory = Memory::new(&tables)?;
        }
        self.tables = tables;
        Ok(())
    }

    fn describe(&self) -> String {
        self.tables.description.clone()
    }

    fn bytes(&self) -> usize {
        let Memory { work, passing, scratch } = &self.memory;
        let Tables { along, across, systems, .. } = &self.tables;
        let tables = along.bytes() + across.as_ref().map_or(0, Transform::bytes) + systems.bytes();
        (work.len() + passing.len() + scratch.len()) * size_of::<f64>() + tables
    }
}

#[cfg(test)]
mod tests;
