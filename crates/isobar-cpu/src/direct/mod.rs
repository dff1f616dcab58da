//! Direct solves of separable boxes: transforms along two axes, tridiagonal systems along the third.
//!
//! * `transform` multiplies lines by eigenvectors: `trig` and `fft` on uniform axes, `products` on others,
//! * `blocks` transforms two packs of lines (`both`), along rows (`transpose`) or across them,
//! * `lines` solves tridiagonal systems, `line` a single one,
//! * `passes` has the passes of a solve, `tables` their data, `planes` the places of numbers in vectors and in the working
//!   array, `memory` that array,
//! * `divided` solves lines that ranks divide,
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
mod divided;
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
use isobar_core::prelude::{Backend, Layout, Result, Separable, SharedDirect, Source, Target};
use isobar_core::stencil::Axis;

use self::divided::Divided;
use self::line::OneLine;
use self::memory::Buffer;
use self::passes::{Array, Passes};
use self::tables::Tables;
use self::transform::Transform;
use crate::{Cpu, Shared, Vector};

/// Makes the solver of a separable matrix; on ranks, where its lines lie along y, which they divide.
///
/// # Errors
/// See [`Separable::bases`]; [`Error::OutOfMemory`](isobar_core::Error::OutOfMemory).
pub(crate) fn direct(cpu: &Cpu, layout: &Layout, factors: &Separable) -> Result<Option<SharedDirect<Cpu>>> {
    let is_part = layout.first_row() != 0 || layout.len_with_halo() != layout.len();
    let is_possible = if cpu.ranks.is_some() { factors.line == Axis::Y as usize } else { !is_part };
    if !is_possible {
        return Ok(None);
    }
    if factors.lines.len() == factors.shape.cells() && cpu.ranks.is_none() {
        return Ok(Some(Arc::new(Mutex::new(OneLine::new(cpu, *layout, factors)?))));
    }
    Ok(Some(Arc::new(Mutex::new(Planewise::new(cpu, layout, factors)?))))
}

struct Planewise {
    tables: Tables,
    memory: Memory,
    /// The ends of lines that ranks divide.
    divided: Option<Divided>,
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

/// The passes over this memory.
fn passes<'a>(tables: &'a Tables, Memory { work, passing, scratch }: &mut Memory) -> Passes<'a> {
    Passes { tables, work: work.share(), passing: passing.share(), scratch: scratch.share() }
}

/// Makes the tables of a matrix, and those of the ends of its lines if ranks divide them.
fn tables(cpu: &Cpu, layout: &Layout, factors: &Separable) -> Result<(Tables, Option<Divided>)> {
    let bases = factors.bases()?;
    let Some(ranks) = &cpu.ranks else { return Ok((Tables::new(cpu, *layout, [factors; 2], &bases), None)) };
    let (own, piece) = factors.rows(cpu.own_rows(factors.shape)?);
    let tables = Tables::new(cpu, *layout, [&own, factors], &bases);
    let modes = tables.planes.rows * tables.planes.pitch;
    Ok((tables, Some(Divided::new(cpu, ranks, factors, piece, modes)?)))
}

impl Planewise {
    fn new(cpu: &Cpu, layout: &Layout, factors: &Separable) -> Result<Self> {
        let (tables, divided) = tables(cpu, layout, factors)?;
        Ok(Self { memory: Memory::new(&tables)?, tables, divided })
    }

    /// Computes u = A⁻¹ b; both may be the same vector.
    fn run(&mut self, b: Shared<f64>, u: Shared<f64>) -> Result<()> {
        let passes = passes(&self.tables, &mut self.memory);
        passes.take(Array::Vector(b));
        if let Some(divided) = &mut self.divided {
            divided.meet(&passes)?;
        }
        passes.solve_lines();
        passes.give(Array::Vector(u));
        Ok(())
    }

    /// Takes other factors where only the tridiagonal systems change, so that eigenvectors stay. Returns whether that is so.
    ///
    /// # Errors
    /// See [`Separable::check`].
    fn change_lines(&mut self, factors: &Separable) -> Result<bool> {
        let before = self.divided.as_ref().map_or(&self.tables.factors, |divided| &divided.whole);
        if !factors.has_transforms_of(before) {
            return Ok(false);
        }
        factors.check(self.tables.values.each_ref().map(Vec::as_slice))?;
        match &mut self.divided {
            None => self.tables.change_lines(factors.clone()),
            Some(divided) => {
                let (own, piece) = factors.rows(self.tables.cpu.own_rows(factors.shape)?);
                self.tables.change_lines(own);
                divided.change_lines(factors, piece);
            }
        }
        Ok(true)
    }
}

impl DirectSolver<Cpu> for Planewise {
    fn solve(&mut self, b: &Vector<f64>, u: &mut Vector<f64>) -> Result<()> {
        self.run(b.share(), u.share_mut())
    }

    fn solve_in_place(&mut self, x: &mut Vector<f64>) -> Result<()> {
        let x = x.share_mut();
        self.run(x, x)
    }

    fn solve_arrays(&mut self, b: &Source<'_>, u: &mut Target<'_>) -> Result<Option<Judged>> {
        callers::solve(&passes(&self.tables, &mut self.memory), self.divided.as_mut(), b, u)
    }

    fn update(&mut self, factors: &Separable) -> Result<()> {
        if self.change_lines(factors)? {
            return Ok(());
        }
        let Tables { cpu, planes, .. } = &self.tables;
        let (tables, divided) = tables(cpu, &planes.layout, factors)?;
        if !self.memory.suits(&tables) {
            self.memory = Memory::new(&tables)?;
        }
        (self.tables, self.divided) = (tables, divided);
        Ok(())
    }

    fn describe(&self) -> String {
        self.tables.description.clone()
    }

    fn bytes(&self) -> usize {
        let Memory { work, passing, scratch } = &self.memory;
        let Tables { along, across, systems, .. } = &self.tables;
        let tables = along.bytes() + across.as_ref().map_or(0, Transform::bytes) + systems.bytes();
        (work.len() + passing.len() + scratch.len()) * size_of::<f64>()
            + tables
            + self.divided.as_ref().map_or(0, Divided::bytes)
    }
}

#[cfg(test)]
mod tests;
