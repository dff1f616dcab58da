//! New coefficients of a solver.

use isobar_core::conformance::arrays::{noise, solve_by};
use isobar_core::prelude::*;
use isobar_cpu::Cpu;

/// Even lines have no strongly coupled aggregates; lines of other coefficients get them on any number of levels.
#[test]
fn short_lines_get_aggregates() {
    let cpu = Cpu::new(1).unwrap();
    for n in [3, 4, 16, 19, 64] {
        let shape = Shape::new(n, 1, 1);
        let rhs = noise(n, 2);
        let stencil = |decades: f64| {
            let kappa: Vec<f64> = noise(n, 1).iter().map(|x| 10f64.powf(decades * x)).collect();
            let sides = [[Side::Fixed; 2], [Side::Closed; 2], [Side::Closed; 2]];
            Diffusion::of_field(shape, kappa, [1.0; 3], None, sides).unwrap()
        };
        for (levels, method) in (2..9).flat_map(|levels| [(levels, Method::Cg), (levels, Method::Multigrid)]) {
            let multigrid = MultigridOptions {
                levels: Some(levels),
                smoother: Smoother::LineRedBlack,
                ..MultigridOptions::default()
            };
            let options = SolverOptions { method, multigrid, tolerance: 1e-8, ..SolverOptions::default() };
            let mut system = System::new(&cpu, &stencil(0.0), &options).unwrap();
            system.update(&stencil(2.0)).unwrap();
            let (outcome, _) = solve_by(&mut system, shape, &rhs);
            assert!(outcome.converged(), "{n} cells, {levels} levels: {outcome:?}");
        }
    }
}
