//! Tensor products without a mass, as in Poisson's equation.

use isobar_core::conformance::arrays;
use isobar_core::grid::{HorizontalField, VerticalProfile};
use isobar_core::prelude::*;
use isobar_core::stencil::TensorProduct;
use isobar_cpu::Cpu;

#[test]
fn padding_without_a_mass_stays_finite() {
    // Widths with padding behind their columns, and one whose rows fill their packs.
    for (nx, ny, nz) in [(7, 6, 5), (13, 9, 4), (32, 8, 8)] {
        let coupling = vec![-0.3; nz - 1];
        let vertical = VerticalProfile::new(
            vec![0.0; nz],
            coupling.iter().copied().chain([0.0]).collect(),
            [0.0].into_iter().chain(coupling.iter().copied()).collect(),
            vec![-0.7; nz],
        );
        let (x_faces, y_faces) = (vec![1.1; (nx + 1) * ny], vec![0.9; nx * (ny + 1)]);
        let horizontal = HorizontalField::from_faces(nx, ny, vec![1.0; nx * ny], &x_faces, &y_faces).unwrap();
        let stencil = TensorProduct::new(vertical.unwrap(), horizontal).unwrap();
        let b: Vec<f64> = (0..nx * ny * nz).map(|n| ((n * n) % 17) as f64 - 8.0).collect();
        let multigrid = SolverOptions { method: Method::Multigrid, ..SolverOptions::default() };
        let modes = SolverOptions { method: Method::Modes, ..SolverOptions::default() };
        let single = SolverOptions { precision: Precision::F32, tolerance: 1e-4, ..multigrid.clone() };
        let lines = arrays::cg(Preconditioner::Line);
        for options in [multigrid, modes, single, lines] {
            let outcome = arrays::solve(&Cpu::new(2).unwrap(), &stencil, &options, &b).0;
            assert!(outcome.converged() && outcome.notes.is_empty(), "{nx}×{ny}×{nz}, {options:?}: {outcome:?}");
        }
    }
}
