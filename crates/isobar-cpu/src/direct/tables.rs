//! The data that a solve reads.

use std::sync::atomic::{AtomicUsize, Ordering};

use isobar_core::prelude::{Basis, Layout, Separable};
use pulp::{Simd, WithSimd};

use super::lines::Systems;
use super::memory::LINE;
use super::planes::Planes;
use super::transform::Transform;
use crate::cpu::Cpu;

/// The data that a solve reads.
pub(super) struct Tables {
    pub(super) cpu: Cpu,
    pub(super) factors: Separable,
    pub(super) planes: Planes,
    /// Transforms along rows and across them; a single row needs none.
    pub(super) along: Transform,
    pub(super) across: Option<Transform>,
    pub(super) systems: Systems,
    /// Eigenvalues of both axes, those of rows padded to whole packs.
    pub(super) values: [Vec<f64>; 2],
    /// The entry of the first mode of a plane in its first cell.
    pub(super) constant: f64,
    /// The sums of the eigenvectors of both axes, where a singular matrix has planes of cells of different masses; with equal ones only the
    /// constant has a sum.
    pub(super) sums: Option<[Vec<f64>; 2]>,
    pub(super) description: String,
    pub(super) machine: Machine,
}

/// The vector registers of a processor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Machine {
    pub(super) lanes: usize,
    pub(super) registers: usize,
}

pub(super) struct Ask;

impl WithSimd for Ask {
    type Output = Machine;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> Machine {
        Machine { lanes: S::F64_LANES, registers: S::REGISTER_COUNT }
    }
}

impl Tables {
    /// Takes factors of this rank's rows and of all, and the bases of their transformed axes.
    pub(super) fn new(cpu: &Cpu, layout: Layout, [factors, whole]: [&Separable; 2], bases: &[Basis; 2]) -> Self {
        let machine = cpu.dispatch::<f64, _>(Ask);
        let [along, across] = bases;
        // A single row is multiplied by its vector of one entry together with the other factor.
        let [factor, across_rows] = match across.len() {
            1 => [across.entry(0, 0), 0.0],
            _ => [1.0, 1.0],
        };
        let mut values = [along, across].map(|basis| basis.values().to_vec());
        let largest = values[0].iter().copied().fold(0.0, f64::max);
        values[0].resize(along.len().next_multiple_of(LINE), largest);
        let sums_of = |basis: &Basis| {
            let n = basis.len();
            (0..n).map(|k| (0..n).map(|i| basis.entry(k, i)).sum()).collect()
        };
        let by = |basis: &Basis| {
            if basis.trig().is_some() { "transform" } else { "products with its eigenvectors" }
        };
        Self {
            cpu: cpu.clone(),
            factors: factors.clone(),
            planes: Planes::new(layout, factors),
            along: Transform::new(along, factor, machine.registers),
            across: (across_rows > 0.0).then(|| Transform::new(across, 1.0, machine.registers)),
            systems: Systems::new(&factors.lines),
            values,
            constant: along.entry(0, 0) * across.entry(0, 0),
            sums: whole.has_uneven_sums().then(|| bases.each_ref().map(sums_of)),
            description: whole.describe(bases, by),
            machine,
        }
    }

    /// Takes other factors where only the tridiagonal systems change, so that eigenvectors stay.
    pub(super) fn change_lines(&mut self, factors: Separable) {
        self.systems = Systems::new(&factors.lines);
        self.factors = factors;
    }

    /// Returns the threads worth using.
    pub(super) fn threads(&self) -> usize {
        self.cpu.threads_for(self.factors.shape.cells())
    }

    /// Returns whether there are too few batches of planes for all threads.
    pub(super) fn divides_batches(&self) -> bool {
        let threads = self.threads();
        threads > 1 && self.planes.batches() < 4 * threads
    }

    /// Returns the blocks of rows in a batch.
    pub(super) fn blocks(&self, batch: usize) -> usize {
        (self.planes.planes(batch).len() * self.planes.rows).div_ceil(2 * self.machine.lanes)
    }

    /// Returns the packs of a row of modes.
    pub(super) fn packs(&self) -> usize {
        self.planes.columns.div_ceil(self.machine.lanes)
    }

    /// Returns the numbers of scratch a thread.
    pub(super) fn scratch(&self) -> usize {
        let along = self.along.scratch() + 2 * self.planes.columns;
        let across = self.across.as_ref().map_or(0, Transform::scratch);
        let systems = self.systems.scratch(self.planes.rows * self.packs());
        // Buffers of different threads are more than a line apart, as prefetchers fetch two lines.
        (along.max(across).max(systems) * self.machine.lanes).next_multiple_of(LINE) + 2 * LINE
    }

    /// Calls `f(item, thread)` for all items, concurrently on all threads.
    pub(super) fn each(&self, count: usize, f: impl Fn(usize, usize) + Sync) {
        each(&self.cpu, self.threads(), count, f);
    }
}

/// Calls `f(item, thread)` for all items, each by the first of these threads that is free.
pub(super) fn each(cpu: &Cpu, threads: usize, count: usize, f: impl Fn(usize, usize) + Sync) {
    let next = AtomicUsize::new(0);
    cpu.for_each(threads.min(count), |thread| {
        loop {
            let item = next.fetch_add(1, Ordering::Relaxed);
            if item >= count {
                break;
            }
            f(item, thread);
        }
    });
}
