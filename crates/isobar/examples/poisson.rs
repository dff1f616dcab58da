//! A first solve: −∇²u = 1 in the unit square, u = 0 on its sides.
//!
//! ```sh
//! cargo run --release --example poisson
//! ```

use isobar::problem::{Boundary, Coefficient, DiffusionProblem, RhsKind, Weighting};
use isobar::{Device, Shape, Solver};

fn main() -> isobar::Result<()> {
    let shape = Shape::new(100, 100, 1);
    let mut problem = DiffusionProblem::new(shape, Coefficient::Isotropic(vec![1.0; shape.cells()]));
    problem.boundary[..2].fill([Boundary::Dirichlet(0.0); 2]); // x and y
    let rhs = problem.rhs(Some(RhsKind::Constant), 0, Weighting::Volume)?;

    let mut solver = Solver::builder(&problem.stencil()?).tolerance(1e-8).device(&Device::auto(None)?).build()?;
    let mut u = vec![0.0; shape.cells()];
    let outcome = solver.solve(&rhs, &mut u)?;

    println!("{} after {} iterations, residual {:.1e}", outcome.stop, outcome.iterations, outcome.relative_residual);
    println!("largest u: {:.6}", u.iter().copied().fold(0.0, f64::max));
    Ok(())
}
