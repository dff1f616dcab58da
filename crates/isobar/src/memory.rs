//! Memory that a solver takes.

pub use isobar_core::build::Memory;
use isobar_core::build::memory::{MatrixKind, MatrixSize, Overhead, predict, shared_setup};
use isobar_core::prelude::{Choice, Result, Shape, SolverOptions};
use isobar_core::stencil::galerkin::Window;
use isobar_core::stencil::galerkin::window::MARGIN;
use isobar_dist::Slabs;

use crate::device::Device;
use crate::matrix::Matrix;

/// Predicts the memory of making and using a solver, besides the matrix itself and your arrays, without allocating any: on grids of 10⁵ cells and
/// more at most 3 % too little and at most a third too much. On ranks it is the memory of one of them, the one with the largest part.
///
/// ```
/// use isobar::problem::Helmholtz;
/// use isobar::{Device, predict_memory};
///
/// # fn main() -> isobar::Result<()> {
/// let matrix = Helmholtz::default().stencil()?; // 128 × 128 × 128
/// let memory = predict_memory(&Device::cpu()?, &matrix, &Default::default())?;
/// assert!(memory.host < 80e6); // multigrid takes little more than b and u
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`Error::Invalid`](crate::Error::Invalid) for invalid options.
pub fn predict_memory(device: &Device, matrix: &impl Matrix, options: &SolverOptions) -> Result<Memory> {
    let (size, choice) = matrix.size(options);
    device.predict_memory(&size, &choice, options)
}

/// Vectors of the exchanges with the ranks that solve for modes, sent and received.
const MODES_ON_THEIR_WAY: f64 = 4.0;

impl Device {
    /// Predicts the memory of a solver for a matrix that does not exist yet.
    ///
    /// # Errors
    /// See [`predict_memory`](predict_memory()); more ranks than rows.
    pub fn predict_memory(&self, size: &MatrixSize, choice: &Choice, options: &SolverOptions) -> Result<Memory> {
        let alone = |shape| predict(&MatrixSize { shape, ..*size }, choice, options, &self.overhead());
        let Some(slabs) = self.slabs(size.shape)? else { return alone(size.shape) };
        let own = Shape { ny: slabs.largest(), ..size.shape };
        let window = Window::new(slabs.starts().to_vec(), 0, size.is_periodic[1]);
        let part = alone(Shape { ny: own.ny + 2, ..own })?;
        // The first level that every rank holds completely, and all coarser ones.
        let coarser = |(slabs, shape): &(Slabs, Shape)| slabs.halved().zip(shape.halved());
        let mut levels = std::iter::successors(Some((slabs, size.shape)), coarser);
        let whole = levels.find(|(slabs, _)| !slabs.stay_divided());
        let whole = whole
            .map(|(_, shape)| shape.halved().unwrap_or(shape))
            .filter(|&whole| whole != size.shape)
            .map_or(Ok(Memory::default()), alone)?;
        let value = size_of::<f64>() as f64;
        let beside = match size.kind {
            // The ranks compute coarser coefficients from those of the whole grid.
            MatrixKind::Diffusion => size.values * size.shape.cells() as f64,
            MatrixKind::TensorProduct => MODES_ON_THEIR_WAY * own.cells() as f64,
            _ => 0.0,
        };
        // A part's levels are made of its rows and some around them, which GPUs send to all, or, if it has too few, of all rows.
        let rows = window.map_or(size.shape.ny, |window| 2 * MARGIN * (window.ranks() + 2));
        let in_setup = MatrixSize { shape: Shape { ny: rows, ..size.shape }, ..*size };
        let setup = shared_setup(&in_setup, choice, options, &self.overhead())?;
        Ok(Memory {
            host: part.host + whole.host + setup.host + beside * value,
            device: part.device + whole.device + setup.device,
        })
    }

    /// Returns how ranks divide the rows of a grid; nothing if there are none.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) if there are more ranks than rows.
    pub fn slabs(&self, shape: Shape) -> Result<Option<Slabs>> {
        self.ranks().map(|ranks| ranks.slabs(shape)).transpose()
    }

    /// Returns the memory that the back end takes besides vectors and coefficients.
    pub fn overhead(&self) -> Overhead {
        let mut overhead = match self {
            Self::Cpu(cpu) => cpu.overhead(),
            Self::Cuda(_) | Self::Cards(_) => isobar_cuda::OVERHEAD,
        };
        overhead.orientation.divides_rows = self.ranks().is_some_and(|ranks| ranks.size() > 1);
        overhead
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use isobar_cpu::Cpu;
    use isobar_dist::{join, threads};

    use super::*;
    use crate::Solver;
    use crate::grid::GridOptions;
    use crate::options::Method;
    use crate::problem::Helmholtz;

    /// Checks that ranks hold no more than was predicted, which is less than one rank alone takes.
    #[test]
    fn a_rank_takes_its_part() {
        let grid = GridOptions { nx: 48, ny: 96, nz: 32, ..GridOptions::default() };
        let stencil = Helmholtz { grid, ..Helmholtz::default() }.stencil().unwrap();
        for method in [Method::Multigrid, Method::Modes, Method::Cg] {
            let options = SolverOptions { method, ..SolverOptions::default() };
            let cpu = || Cpu::new(1).map(Device::Cpu);
            let alone = predict_memory(&cpu().unwrap(), &stencil, &options).unwrap().host;
            let held = threads::run(4, |world| {
                let device = Device::Cpu(join(Cpu::new(1)?, Arc::new(world)));
                let solver = Solver::builder(&stencil).options(&options).device(&device).build()?;
                let held = solver.description();
                Ok([(held.bytes + held.coefficient_bytes) as f64, predict_memory(&device, &stencil, &options)?.host])
            });
            for [held, predicted] in held.unwrap() {
                assert!(held <= predicted && predicted < 0.8 * alone, "{method:?}: {held} {predicted} {alone}");
            }
        }
    }
}
