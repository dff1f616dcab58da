//! The matrix of a case, and the functions that use a device or a solver.

use isobar::options::SolverOptions;
use isobar::stencil::{Csr, Diffusion, Stencil, TensorProduct};
use isobar::{Device, Setup, Shape, Solver, Timed};

/// The matrix of a linear system.
#[derive(Clone, Debug)]
pub enum Matrix {
    /// Kind "helmholtz": a tensor product of vertical vectors and horizontal fields.
    TensorProduct(TensorProduct),
    /// Kinds "diffusion" and "poisson": a coefficient per cell.
    Diffusion(Diffusion),
}

impl Matrix {
    /// Returns the grid's shape.
    pub fn shape(&self) -> Shape {
        match self {
            Self::TensorProduct(matrix) => matrix.shape(),
            Self::Diffusion(matrix) => matrix.shape(),
        }
    }

    /// Returns the name used in reports if there is no case.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::TensorProduct(_) => "tensor-product",
            Self::Diffusion(_) => "diffusion",
        }
    }

    /// Makes a solver on a device.
    pub fn solver(&self, device: &Device, options: &SolverOptions) -> isobar::Result<Solver> {
        match self {
            Self::TensorProduct(matrix) => Solver::builder(matrix).device(device).options(options).build(),
            Self::Diffusion(matrix) => Solver::builder(matrix).device(device).options(options).build(),
        }
    }

    /// Updates a solver, made for a matrix of the same kind, with this matrix's coefficients.
    pub fn update(&self, solver: &mut Solver) -> isobar::Result<()> {
        match self {
            Self::TensorProduct(matrix) => solver.update(matrix),
            Self::Diffusion(matrix) => solver.update(matrix),
        }
    }

    /// Measures the time of solver setup and of each step of an iteration.
    pub fn bench(&self, device: &Device, options: &SolverOptions) -> isobar::Result<(Setup, Vec<Timed>)> {
        match self {
            Self::TensorProduct(matrix) => isobar::bench(device, matrix, options),
            Self::Diffusion(matrix) => isobar::bench(device, matrix, options),
        }
    }

    /// Returns the matrix with all entries stored; unknown (i, j, k) is row i + nx (k + nz j).
    ///
    /// # Errors
    /// More rows or entries than the indices can count.
    pub fn to_csr(&self) -> isobar::Result<Csr> {
        match self {
            Self::TensorProduct(stencil) => stencil.to_csr(),
            Self::Diffusion(stencil) => diffusion_to_csr(stencil),
        }
    }
}

fn diffusion_to_csr(stencil: &Diffusion) -> isobar::Result<Csr> {
    let Shape { nx, nz, .. } = stencil.shape();
    let row_of = |[i, j, k]: [usize; 3]| i + nx * (k + nz * j);
    Csr::from_rows(stencil.shape().cells(), |row, out| {
        let at = [row % nx, row / nx / nz, row / nx % nz];
        let diagonal = stencil.diagonal(at);
        // Negative with a negative reaction; inactive cells have none.
        if diagonal != 0.0 {
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
        for reaction in [None, Some(vec![-5e3; shape.cells()])] {
            problem.reaction = reaction;
            check(&problem.stencil().unwrap());
        }
    }

    fn check(stencil: &Diffusion) {
        let shape = stencil.shape();
        let matrix = diffusion_to_csr(stencil).unwrap();
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
            assert!((product - expected).abs() < 1e-12 * expected.abs().max(1.0), "{product} {expected}");
        }
    }
}
