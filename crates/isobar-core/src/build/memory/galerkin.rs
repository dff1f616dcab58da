//! The Galerkin levels of diffusion: what their setup holds, and what stays.

use super::{DEVICE, HOST, MatrixKind, MatrixSize, Memory, Processor, STAGED, Setup};
use crate::error::Result;
use crate::layout::{Layout, Shape};
use crate::options::{Choice, Method, Preconditioner, SolverOptions};
use crate::stencil::Axis;
use crate::stencil::galerkin::couplings::{Grid, UPPER, along, strong};
use crate::stencil::galerkin::product::coarse_offsets;
use crate::stencil::galerkin_levels::COARSEST_CELLS;

const DOUBLE: f64 = size_of::<f64>() as f64;
/// Bytes, a cell of the finest grid, of what a card makes levels with: see its `galerkin/setup`.
const CARD_SETUP: f64 = 9.6 * DOUBLE;
/// Bytes of the lists of cells in bodies, a cell of the grid: there may be none, and three times this.
const BODIES: f64 = 4.0;

/// A matrix while levels are made.
#[derive(Clone, Debug, PartialEq)]
struct Level {
    grid: Grid,
    present: [bool; UPPER],
    strengths: [f64; 3],
}

/// A step from a matrix to PᵀAP in one direction.
struct Halving {
    /// Odd cells, which have two weights each.
    odd: Grid,
    next: Level,
}

impl Level {
    fn finest(matrix: &MatrixSize) -> Option<Self> {
        let MatrixKind::Diffusion { strengths, is_periodic, .. } = matrix.kind else { return None };
        let mut level = Self {
            grid: Grid { shape: matrix.shape, periodic: [false; 3] },
            present: [false; UPPER],
            strengths: [0.0; 3],
        };
        let extents = level.grid.extents();
        for axis in Axis::ALL {
            let d = axis as usize;
            let is_coupled = extents[d] > 1;
            level.grid.periodic[d] = is_periodic[d] && is_coupled;
            level.present[along(axis)] = is_coupled;
            level.strengths[d] = if is_coupled { strengths[d] } else { 0.0 };
        }
        Some(level)
    }

    fn cells(&self) -> f64 {
        self.grid.shape.cells() as f64
    }

    fn couplings(&self) -> f64 {
        self.present.iter().filter(|&&present| present).count() as f64
    }

    /// Bytes of its couplings and row sums, in numbers of `size` bytes.
    fn bytes(&self, size: usize) -> f64 {
        (self.couplings() + 1.0) * field(&self.grid, size)
    }

    fn halved(&self, axis: Axis) -> Halving {
        let d = axis as usize;
        let with = |n: usize| {
            let mut extents = self.grid.extents();
            extents[d] = n;
            Shape::new(extents[0], extents[1], extents[2])
        };
        let count = self.grid.extents()[d];
        let mut grid = Grid { shape: with(count.div_ceil(2)), ..self.grid };
        let is_one = count <= 2;
        grid.periodic[d] &= !is_one;
        // Half as many faces across, of half the coupling each; twice the area of the others.
        let mut strengths = self.strengths.map(|strength| 2.0 * strength);
        strengths[d] = if is_one { 0.0 } else { self.strengths[d] / 2.0 };
        Halving {
            odd: Grid { shape: with(count / 2), ..self.grid },
            next: Self { grid, present: coarse_offsets(&self.present, axis, &grid), strengths },
        }
    }

    /// Each direction that is halved, if any, and the matrices on the way.
    fn coarsened(&self) -> Vec<(Axis, Halving)> {
        let mut steps: Vec<(Axis, Halving)> = Vec::new();
        for axis in strong(&self.grid, self.strengths.map(|strength| (strength, 1))) {
            let from = steps.last().map_or(self, |(_, step)| &step.next);
            let step = from.halved(axis);
            steps.push((axis, step));
        }
        steps
    }
}

/// Bytes of a number a cell, ghosts included.
fn field(grid: &Grid, size: usize) -> f64 {
    (size * grid.plane() * grid.shape.ny) as f64
}

/// Bytes of each piece of memory that setup on the host has kept for what comes next.
type Spare = Vec<f64>;

/// Predicts the memory of each of several GPUs while it makes the Galerkin levels of a shared grid, beside its own part of the solver:
/// coefficients of the whole grid, and the workspace of setup. Zero on processors, and without such levels.
///
/// # Errors
/// As [`predict`](super::predict).
pub fn shared_setup(
    matrix: &MatrixSize,
    choice: &Choice,
    options: &SolverOptions,
    processor: Processor,
) -> Result<Memory> {
    /// Bytes of the lists of all bodies on the host, a cell, before each card has its own.
    const LISTS: f64 = 3.0 * BODIES;
    let options = options.resolved(choice)?;
    let has_cycles = options.method == Method::Multigrid || options.preconditioner == Preconditioner::Multigrid;
    let MatrixKind::Diffusion { fields, has_shift, .. } = matrix.kind else { return Ok(Memory::default()) };
    if processor != Processor::Cuda || !has_cycles || options.multigrid.smoother.begins_with_points() {
        return Ok(Memory::default());
    }
    let cells = matrix.shape.cells() as f64;
    let vector = DOUBLE * Layout::new(matrix.shape)?.len() as f64;
    let coefficients = (fields + usize::from(has_shift)) as f64 * vector + STAGED * cells;
    Ok(Memory { host: LISTS * cells, device: coefficients + CARD_SETUP * cells })
}

impl Setup<'_> {
    /// Everything but the vectors of a cycle; the grids, finest first, as many as are `wanted`. Matrices on the host have numbers as
    /// cycles have; where couplings do not fit in single precision, which is not known before, they are in double precision.
    pub(super) fn galerkin(&mut self, matrix: &MatrixSize, size: usize, wanted: Option<usize>) -> Result<Vec<Shape>> {
        let mut shapes = vec![matrix.shape];
        let Some(mut fine) = Level::finest(matrix) else { return Ok(shapes) };
        let is_small = |level: &Level| level.grid.shape.cells() <= COARSEST_CELLS;
        if self.is_cuda() && matrix.shape.nz > 1 {
            // Elimination factors of the finest level's lines.
            self.vectors(1.0, &Layout::new(matrix.shape)?, size);
        }
        let on_card = if self.is_cuda() { CARD_SETUP * fine.cells() } else { 0.0 };
        self.keep(DEVICE, on_card);
        let mut spare = Spare::new();
        let mut held = self.take(&mut spare, fine.bytes(size));
        self.bodies(&fine, is_small(&fine), size, &mut spare)?;
        while wanted.map_or(!is_small(&fine), |wanted| shapes.len() < wanted) {
            let steps = fine.coarsened();
            let mut weights = 0.0;
            for (_, step) in &steps {
                // Both weights, diagonals, and P 1; four numbers a cell while the weights are relaxed.
                let own = 4.0 * field(&step.odd, size);
                self.on_host(own);
                let relaxing = self.take(&mut spare, (4 * size * step.odd.shape.cells()) as f64);
                spare.push(relaxing);
                let next = self.take(&mut spare, step.next.bytes(size));
                spare.push(std::mem::replace(&mut held, next));
                weights += own;
            }
            let Some((_, Halving { next, .. })) = steps.last() else { break };
            let layout = Layout::new(next.grid.shape)?;
            // Couplings, row sums, 1 / pivots, and on CUDA diagonals.
            let own = if self.is_cuda() { 3.0 } else { 2.0 };
            self.vectors(next.couplings() + own, &layout, size);
            self.workspace(&layout, size);
            self.transfer(&fine, &steps, size)?;
            self.on_host(-weights);
            fine = next.clone();
            self.bodies(&fine, is_small(&fine), size, &mut spare)?;
            shapes.push(fine.grid.shape);
        }
        if is_small(&fine) {
            // The inverse, here and in elimination.
            self.pass(HOST, DOUBLE * fine.cells().powi(2));
            self.keep(DEVICE, DOUBLE * fine.cells().powi(2));
        }
        self.on_host(-held - spare.iter().sum::<f64>());
        self.now[DEVICE] -= on_card;
        Ok(shapes)
    }

    /// Bytes that come, or go, where setup is the host's.
    fn on_host(&mut self, bytes: f64) {
        if !self.is_cuda() {
            self.keep(HOST, bytes);
        }
    }

    /// The smallest spare piece that is large enough for so many bytes, or a new one; its bytes.
    fn take(&mut self, spare: &mut Spare, bytes: f64) -> f64 {
        let large = spare.iter().enumerate().filter(|(_, piece)| **piece >= bytes);
        match large.min_by(|(_, a), (_, b)| a.total_cmp(b)) {
            Some((at, _)) => spare.swap_remove(at),
            None => {
                self.on_host(bytes);
                bytes
            }
        }
    }

    /// Bodies are looked for in the matrix, and corrections need a residual.
    fn bodies(&mut self, level: &Level, is_small: bool, size: usize, spare: &mut Spare) -> Result<()> {
        if is_small {
            return Ok(());
        }
        if !self.is_cuda() {
            let largest = self.take(spare, field(&level.grid, size));
            spare.push(largest);
            // Parents, sizes, links, cells and where those of bodies begin.
            self.pass(HOST, 20.0 * level.cells());
        }
        self.keep(DEVICE, BODIES * level.cells());
        self.vectors(1.0, &Layout::new(level.grid.shape)?, size);
        Ok(())
    }

    fn transfer(&mut self, fine: &Level, steps: &[(Axis, Halving)], size: usize) -> Result<()> {
        let shape = fine.grid.shape;
        let Processor::Cpu { threads } = self.processor else {
            let odd: f64 = steps.iter().map(|(_, step)| step.odd.shape.cells() as f64).sum();
            self.keep(DEVICE, 2.0 * size as f64 * odd);
            return Ok(());
        };
        let layout = Layout::new(shape)?;
        let nx = steps.last().map_or(shape.nx, |(_, step)| step.next.grid.shape.nx);
        let row = (nx.max(layout.pitch()) + 1).next_multiple_of(8) * size;
        for (_, step) in steps {
            self.keep(DEVICE, (2 * row * step.odd.shape.nz * step.odd.shape.ny) as f64);
        }
        // Numbers between the grids, in all of the fine planes; and three planes a thread.
        let threads = threads.min(shape.ny).min(layout.len() >> 14).max(1);
        self.keep(DEVICE, (row * shape.nz * (shape.ny + 3 * threads)) as f64);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::{Boundary, Coefficient, DiffusionProblem, Spacing};
    use crate::stencil::galerkin::{Couplings, Serial, coarsen};

    #[test]
    fn grids_are_those_that_multigrid_makes() {
        for (shape, widths, periodic) in [
            (Shape::new(40, 30, 3), [1.0; 3], false),
            (Shape::new(64, 48, 1), [1.0, 9.0, 1.0], false),
            (Shape::new(34, 1, 50), [1.0; 3], true),
            (Shape::new(16, 32, 2), [7.0, 1.0, 1.0], true),
            (Shape::new(17, 20, 12), [7.0, 1.0, 1.0], false),
            (Shape::new(12, 12, 60), [1.0, 1.0, 0.1], false),
        ] {
            let mut problem = DiffusionProblem::new(shape, Coefficient::Isotropic(vec![1.0; shape.cells()]));
            problem.spacing = widths.map(Spacing::Uniform);
            if periodic {
                problem.boundary[0] = [Boundary::Periodic; 2];
            }
            let stencil = problem.stencil().unwrap();
            let mut predicted = Level::finest(&MatrixSize::from(&stencil)).unwrap();
            let mut made: Couplings = Couplings::of(&Serial, &stencil);
            loop {
                assert_eq!((predicted.grid, predicted.present), (made.grid, made.present));
                let axes = made.strong_axes(&Serial);
                let steps = predicted.coarsened();
                assert_eq!(steps.iter().map(|&(axis, _)| axis).collect::<Vec<_>>(), axes, "{:?}", made.grid);
                if made.grid.shape.cells() <= COARSEST_CELLS {
                    break;
                }
                made = coarsen(&Serial, made, &axes).coarse;
                predicted = steps.last().unwrap().1.next.clone();
            }
        }
    }
}
