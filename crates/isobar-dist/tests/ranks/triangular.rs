//! Preconditioners of triangular parts on several ranks: substitution, in which a rank follows the previous one, and
//! polynomials in L and Lᵀ.

use isobar_core::conformance::arrays::noise;
use isobar_core::options::Preconditioner::{BlockIc, Ic, IncompletePoisson, Mic, Neumann, SsorAi};
use isobar_core::prelude::*;

use crate::rocks::rough;
use crate::solves::{check_as_alone, solve_on};
use crate::steps::{check_steps, check_updates, with};
use crate::{cpu, cpus};

/// Returns odd sizes, a periodic x, inactive cells, one layer, many; slabs of one row.
fn shapes() -> [(Shape, &'static [usize]); 5] {
    [
        (Shape::new(7, 13, 5), &[1, 2, 3, 4, 6, 13]),
        (Shape::new(8, 16, 4), &[1, 2, 3, 4, 6]),
        (Shape::new(34, 9, 20), &[2, 3, 9]),
        (Shape::new(12, 10, 1), &[2, 3, 4]),
        (Shape::new(2, 8, 3), &[2, 3]),
    ]
}

#[test]
fn steps_are_those_of_one_rank() {
    for (shape, ranks) in shapes() {
        let problem = rough(shape);
        check_steps::<f64>(&cpu, &problem.stencil().unwrap(), ranks);
        check_steps::<f32>(&cpu, &problem.stencil().unwrap(), ranks);
    }
    // Conductances, of which those around a periodic x are stored apart.
    for shape in [Shape::new(4, 7, 1), Shape::new(8, 16, 4)] {
        let Shape { nx, ny, nz } = shape;
        let counts = [shape.cells(), nx * (ny - 1) * nz, nx * ny * (nz - 1)];
        let faces = counts.map(|count| noise(count, 1).iter().map(|value| value.abs()).collect());
        let stencil = Diffusion::from_faces(shape, faces, [true, false, false], Some(vec![0.1; shape.cells()]), None);
        check_steps::<f64>(&cpu, &stencil.unwrap(), &[2, 3]);
    }
    // Several threads a rank, each behind the previous one; constant coefficients, and periodic layers.
    let shape = Shape::new(40, 48, 24);
    check_steps::<f64>(&cpus(3), &rough(shape).stencil().unwrap(), &[2, 3]);
    let mut even = DiffusionProblem::new(shape, Coefficient::Isotropic(vec![2.0; shape.cells()]));
    even.boundary = [[Boundary::Dirichlet(0.0); 2], [Boundary::default(); 2], [Boundary::Periodic; 2]];
    check_steps::<f64>(&cpus(2), &even.stencil().unwrap(), &[2, 3]);
}

fn preconditioners(nx: usize) -> Vec<Preconditioner> {
    vec![
        Neumann { order: 0 },
        Neumann { order: 1 },
        Neumann { order: 2 },
        Neumann { order: 3 },
        SsorAi,
        IncompletePoisson { scaling: true },
        BlockIc { block: None },
        BlockIc { block: Some(2 * nx) },
        Ic { block: None },
        Ic { block: Some(5 * nx + 3) },
        Mic { relaxation: 1.0, block: None },
        Mic { relaxation: 0.97, block: Some(4 * nx) },
    ]
}

#[test]
fn conjugate_gradients_with_them() {
    for (shape, ranks) in [shapes()[0], shapes()[1], shapes()[3]] {
        let problem = rough(shape);
        for preconditioner in preconditioners(shape.nx) {
            check_as_alone(&cpu, &problem, ranks, &with(preconditioner));
        }
    }
    let shape = Shape::new(16, 24, 8);
    let single = |kind| SolverOptions { precision: Precision::F32, tolerance: 1e-3, ..with(kind) };
    for kind in [Neumann { order: 2 }, Ic { block: None }] {
        check_as_alone(&cpu, &rough(shape), &[2, 3, 6], &single(kind));
        let bicgstab = SolverOptions { method: Method::Bicgstab, tolerance: 1e-6, ..with(kind) };
        let (stencil, rhs) = (rough(shape).stencil().unwrap(), vec![1.0; shape.cells()]);
        let (outcome, _) = solve_on(3, &cpu, &stencil, &bicgstab, &rhs, None).unwrap();
        assert!(outcome.converged(), "{outcome:?}");
    }
}

#[test]
fn updates() {
    check_updates(
        &cpu,
        &[3],
        &[Mic { relaxation: 0.97, block: None }, IncompletePoisson { scaling: true }, Neumann { order: 2 }],
    );
}
