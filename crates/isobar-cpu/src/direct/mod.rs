//! Direct solves of separable boxes: transforms along two axes, tridiagonal systems along the third.
//!
//! * `transform` multiplies lines by eigenvectors: `trig` and `fft` on uniform axes, `products` on others,
//! * `blocks` transforms two packs of lines (`both`), along rows (`transpose`) or across them,
//! * `lines` solves tridiagonal systems, `line` a single one,
//! * `passes` has the passes of a solve, `tables` their data, `planes` the places of numbers in vectors and in the working
//!   array, `memory` that array,
//! * `callers` solves between callers' arrays, and `judge` computes the norms of their residual.
//!
//! A solve is three passes over memory. The first and the last transform plane by plane along both axes, the middle one solves
//! along the lines across the planes:
//!
//! ```text
//! work = Sᵀ b, 2 vectors read or written;   work = (T + μ D_a + ν D_b)⁻¹ work, 2;   u = S work, 2
//! ```
//!
//! A processor reads an array before writing it, even if its values are not used.

mod blocks;
mod both;
mod callers;
mod fft;
mod judge;
mod line;
mod lines;
mod memory;
mod passes;
mod planes;
mod products;
mod tables;
mod transform;
mod transpose;
mod trig;

use std::sync::{Arc, Mutex};

use isobar_core::backend::{DirectSolver, Judged};
use isobar_core::prelude::{Layout, Result, Separable, SharedDirect, Source, Target};

use self::line::OneLine;
use self::memory::Buffer;
use self::passes::{Array, Passes};
use self::tables::Tables;
use self::transform::Transform;
use crate::{Cpu, Shared, Vector};

/// Makes the solver of a separable matrix, for vectors that are not part of a larger grid.
///
/// # Errors
/// See [`Separable::bases`]; [`Error::OutOfMemory`](isobar_core::Error::OutOfMemory).
pub(crate) fn direct(cpu: &Cpu, layout: &Layout, factors: &Separable) -> Result<Option<SharedDirect<Cpu>>> {
    if layout.first_row() != 0 || layout.len_with_halo() != layout.len() {
        return Ok(None);
    }
    if factors.lines.len() == factors.shape.cells() {
        return Ok(Some(Arc::new(Mutex::new(OneLine::new(cpu, *layout, factors)?))));
    }
    let tables = Tables::new(cpu, *layout, factors)?;
    let memory = Memory::new(&tables)?;
    Ok(Some(Arc::new(Mutex::new(Planewise { tables, memory }))))
}

struct Planewise {
    tables: Tables,
    memory: Memory,
}

/// The working memory of a solve.
struct Memory {
    work: Buffer,
    /// Planes on their way back, which need not be kept.
    passing: Buffer,
    scratch: Buffer,
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
    fn passes(&mut self) -> Passes<'_> {
        let Memory { work, passing, scratch } = &mut self.memory;
        Passes { tables: &self.tables, work: work.share(), passing: passing.share(), scratch: scratch.share() }
    }

    /// Computes u = A⁻¹ b; both may be the same vector.
    fn run(&mut self, b: Shared<f64>, u: Shared<f64>) {
        let passes = self.passes();
        passes.take(Array::Vector(b));
        passes.solve_lines();
        passes.give(Array::Vector(u));
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

    fn solve_arrays(&mut self, b: &Source<'_>, u: &mut Target<'_>) -> Result<Option<Judged>> {
        Ok(callers::solve(&self.passes(), b, u))
    }

    fn update(&mut self, factors: &Separable) -> Result<()> {
        if self.tables.change_lines(factors)? {
            return Ok(());
        }
        let tables = Tables::new(&self.tables.cpu, self.tables.planes.layout, factors)?;
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
