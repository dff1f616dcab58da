//! The matrix of a case, of whichever stencil, and what is done with it: all that touches devices and solvers.

use isobar::Device;
use isobar::bench::{self, Timed};
use isobar::cpu::Cpu;
use isobar::cuda::Cuda;
use isobar::layout::Shape;
use isobar::options::SolverOptions;
use isobar::solver::{Solve, StepTraffic};
use isobar::stencil::{Csr, Diffusion, Stencil, TensorProduct};

/// A matrix.
#[derive(Clone, Debug)]
pub enum Matrix {
    /// Vertical vectors times horizontal fields.
    TensorProduct(TensorProduct),
    /// A coefficient in every cell.
    Diffusion(Diffusion),
}

impl Matrix {
    /// A solver for it on a device.
    ///
    /// # Errors
    /// Those of [`isobar::solver()`].
    pub fn solver(&self, device: &Device, options: &SolverOptions) -> isobar::Result<Box<dyn Solve>> {
        match self {
            Self::TensorProduct(stencil) => isobar::solver(device, stencil, options),
            Self::Diffusion(stencil) => isobar::solver(device, stencil, options),
        }
    }

    /// Times the steps of an iteration, each alone.
    ///
    /// # Errors
    /// What the device reports.
    pub fn time_iteration(
        &self,
        device: &Device,
        options: &SolverOptions,
        steps: &[StepTraffic],
    ) -> isobar::Result<Vec<Timed>> {
        match self {
            Self::TensorProduct(stencil) => time_iteration(device, stencil, options, steps),
            Self::Diffusion(stencil) => time_iteration(device, stencil, options, steps),
        }
    }

    /// Every entry, stored; unknown (i, j, k) is row i + nx (k + nz j).
    ///
    /// # Errors
    /// A matrix too large for its indices.
    pub fn to_csr(&self) -> isobar::Result<Csr> {
        match self {
            Self::TensorProduct(stencil) => stencil.to_csr(),
            Self::Diffusion(stencil) => diffusion_to_csr(stencil),
        }
    }
}

fn time_iteration<S>(
    device: &Device,
    stencil: &S,
    options: &SolverOptions,
    steps: &[StepTraffic],
) -> isobar::Result<Vec<Timed>>
where
    S: Stencil<Cpu> + Stencil<Cuda>,
{
    match device {
        Device::Cpu(backend) => bench::time_iteration(backend, stencil, options, steps),
        Device::Cuda(backend) => bench::time_iteration(backend, stencil, options, steps),
    }
}

fn diffusion_to_csr(stencil: &Diffusion) -> isobar::Result<Csr> {
    let Shape { nx, nz, .. } = stencil.shape();
    let row_of = |[i, j, k]: [usize; 3]| i + nx * (k + nz * j);
    Csr::from_rows(stencil.shape().cells(), |row, out| {
        let at = [row % nx, row / nx / nz, row / nx % nz];
        let diagonal = stencil.diagonal(at);
        if diagonal > 0.0 {
            out.push((row, diagonal));
        }
        out.extend(stencil.neighbours(at).map(|(other, t)| (row_of(other), -t)));
    })
}

#[cfg(test)]
mod tests {
    use isobar::problem::{Boundary, Coefficient, DiffusionProblem, materials};

    use super::*;

    #[test]
    fn stored_entries_are_those_of_the_stencil() {
        let shape = Shape::new(4, 3, 5);
        let mut problem =
            DiffusionProblem::new(shape, Coefficient::Isotropic(materials::noise(shape, 1.0, 2).unwrap()));
        problem.boundary[0] = [Boundary::Periodic; 2];
        problem.boundary[2][1] = Boundary::Dirichlet(1.0);
        let stencil = problem.stencil().unwrap();
        let matrix = diffusion_to_csr(&stencil).unwrap();
        assert!(matrix.is_symmetric());
        let x: Vec<f64> = (0..shape.cells()).map(|n| (n as f64).sin()).collect();
        let expected = stencil.times(&x);
        for at in stencil.cells() {
            let [i, j, k] = at;
            let product: f64 = matrix
                .row(i + 4 * (k + 5 * j))
                .map(|(column, value)| value * x[stencil.cell([column % 4, column / 20, column / 4 % 5])])
                .sum();
            let expected = expected[stencil.cell(at)];
            assert!((product - expected).abs() < 1e-12, "{product} {expected}");
        }
    }
}
