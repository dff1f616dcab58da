//! The diffusion operator on the first card, in double precision unless said: steps against the copy measured in the same
//! run (by declared traffic), then whole solves.
//!
//! `diffusion_times [steps|solves]`

use std::time::Instant;

use isobar_core::backend::{Backend, DiffusionBackend, Ratio, Slot};
use isobar_core::bench::{seconds, upload_noise};
use isobar_core::deflation::{Deflation, Projection};
use isobar_core::layout::{ArrayView, ArrayViewMut, Colour, Layout, Shape};
use isobar_core::operator::{Direction, Guess, LineOperator, LineSolver, MultigridOperator, Operator, Relaxation};
use isobar_core::options::{
    CoarseSolve, Compatibility, DeflationOptions, Method, PreconditionerKind, Smoother, SolverOptions, Stripes,
};
use isobar_core::problem::materials::{Bubbles, bubbles, two_phase};
use isobar_core::problem::{Boundary, Coefficient, DiffusionProblem, RhsKind, Weighting};
use isobar_core::real::Real;
use isobar_core::solver::{Solve, System};
use isobar_core::stencil::Diffusion;
use isobar_core::traffic::{self, Traffic};
use isobar_core::triangular::TriangularOperator;
use isobar_cuda::Cuda;

type Result<T> = isobar_core::Result<T>;

fn main() -> Result<()> {
    let cuda = match Cuda::new(0) {
        Ok(cuda) => cuda,
        Err(error) => {
            println!("skipped: {error}");
            return Ok(());
        }
    };
    println!("{}", cuda.device().name);
    let what = std::env::args().nth(1).unwrap_or_default();
    if what != "solves" {
        for shape in [Shape::new(1024, 1024, 1), Shape::new(4096, 4096, 1), Shape::new(256, 256, 256)] {
            let stencil = problem(shape)?.stencil()?;
            steps::<f64>(&cuda, &stencil)?;
            steps::<f32>(&cuda, &stencil)?;
        }
    }
    if what != "steps" {
        for n in [1024, 4096] {
            let mut options = SolverOptions { method: Method::DeflatedCg, tolerance: 1e-6, ..SolverOptions::default() };
            options.preconditioner.kind = PreconditionerKind::Neumann;
            options.preconditioner.order = 2;
            options.deflation.stripes = Stripes::Blocks([16, 16, 1]);
            solve(&cuda, &problem(Shape::new(n, n, 1))?, "deflated CG, Neumann(2), 16×16", options)?;
        }
        let mut options = SolverOptions { method: Method::Cg, tolerance: 1e-6, ..SolverOptions::default() };
        options.preconditioner.kind = PreconditionerKind::Multigrid;
        options.compatibility = Compatibility::Project;
        solve(&cuda, &problem(Shape::new(256, 256, 256))?, "CG, multigrid", options)?;
    }
    Ok(())
}

/// Two phases on the unit square, Dirichlet at the bottom; bubbles in a closed cube.
fn problem(shape: Shape) -> Result<DiffusionProblem> {
    if shape.nz == 1 {
        let mut problem = DiffusionProblem::new(shape, Coefficient::Isotropic(two_phase(shape, 1e3)?));
        problem.boundary[1][0] = Boundary::Dirichlet(0.0);
        return Ok(problem);
    }
    let some = Bubbles { count: 20, radius: 0.08, contrast: 1e3, seed: 1 };
    Ok(DiffusionProblem::new(shape, Coefficient::Isotropic(bubbles(shape, [1.0; 3], &some)?)))
}

fn steps<T: Real>(cuda: &Cuda, stencil: &Diffusion) -> Result<()> {
    let shape = stencil.shape();
    let layout = Layout::new(shape)?;
    let copy = cuda.copy_bandwidth(&layout)?;
    let operator = std::sync::Arc::new(cuda.diffusion::<T>(stencil, true)?);
    let vectors = operator.coefficient_vectors();
    println!("{shape} {}, {vectors} coefficient vectors, copy {:.0} GB/s", T::PRECISION, copy / 1e9);
    let noise = || -> Result<_> {
        let mut v = cuda.zeros::<T>(&layout)?;
        upload_noise(cuda, &layout, &mut v)?;
        Ok(v)
    };
    let (mut f, mut u, mut p, mut q) = (noise()?, noise()?, noise()?, noise()?);
    let mut scalars = cuda.scalars()?;
    let [first, second] = [Slot::new(0), Slot::new(1)];
    let report = |step: &Traffic, name: &str, seconds: f64| {
        let bandwidth = step.bytes(shape.cells(), size_of::<T>(), vectors) / seconds;
        println!(
            "  {name:<26} {:9.4} ms {:6.0} GB/s {:5.1} %",
            1e3 * seconds,
            bandwidth / 1e9,
            100.0 * bandwidth / copy
        );
    };
    report(&traffic::APPLY, "apply", seconds(cuda, || operator.apply(&f, &mut q))?);
    report(&traffic::RESIDUAL, "residual", seconds(cuda, || operator.residual(&f, &u, &mut q, first, &mut scalars))?);
    operator.reserve_direction()?;
    let time = seconds(cuda, || {
        let direction = Direction { u: &mut u, p: &mut p, z: &f, q: &mut q };
        operator.advance_direction(direction, Ratio::ZERO, Ratio::ZERO, first, &mut scalars)
    })?;
    report(&traffic::ADVANCE_DIRECTION, "advance_direction", time);
    let time =
        seconds(cuda, || operator.scale_residual(&mut f, &q, &mut u, Ratio::ZERO, [first, second], &mut scalars))?;
    report(&traffic::SCALE_RESIDUAL, "scale_residual", time);
    let time = seconds(cuda, || operator.relax_lower(&f, &u, &mut q, Some((first, &mut scalars))))?;
    report(&traffic::RELAX_LOWER, "relax_lower", time);
    report(&traffic::RELAX_UPPER, "relax_upper", seconds(cuda, || operator.relax_upper(&f, &u, &mut q))?);
    let time = seconds(cuda, || operator.incomplete_poisson(true, &u, &f, &mut q))?;
    report(&traffic::INCOMPLETE_POISSON, "incomplete_poisson", time);
    report(&traffic::SOLVE_LINES, "solve_lines", seconds(cuda, || operator.solve_lines(&f, &mut u))?);
    let relaxation = |smoother| Relaxation { smoother, rho: 1.0, first: Colour::Red };
    for (smoother, name) in [(Smoother::LineRedBlack, "smooth, red–black"), (Smoother::LineJacobi, "smooth, Jacobi")]
    {
        let time = seconds(cuda, || operator.smooth(relaxation(smoother), Guess::Given, &f, &mut u, &mut q))?;
        report(&traffic::SMOOTH, name, time);
    }
    if let Some(coarse) = stencil.coarsened() {
        let coarse_layout = Layout::new(coarse.shape())?;
        let coarse = cuda.diffusion::<T>(&coarse, true)?;
        let mut coarse_f = cuda.zeros::<T>(&coarse_layout)?;
        // Their own declared traffic: fine vector, weights, and a quarter; twice the fine one to be corrected.
        let transfer = |reads, writes| Traffic { reads, writes, coefficients: 0.0, ..traffic::APPLY };
        let time = seconds(cuda, || operator.restrict(&coarse, &f, &mut coarse_f))?;
        report(&transfer(3.0, 0.25), "restrict", time);
        report(&transfer(3.25, 1.0), "prolong", seconds(cuda, || operator.prolong(&coarse, &coarse_f, &mut u))?);
        let time = seconds(cuda, || operator.residual_restrict(&coarse, &f, &u, &mut coarse_f, &mut q))?;
        report(&traffic::RESIDUAL_RESTRICT, "residual_restrict", time);
    }
    let rows = 8 * shape.nx;
    upload_noise(cuda, &layout, &mut u)?;
    let time = seconds(cuda, || operator.substitute(rows, &u, &f, &mut q))?;
    report(&traffic::SUBSTITUTE, "substitute, 8 rows", time);
    if shape.nz == 1 || T::PRECISION == isobar_core::real::Precision::F64 {
        let mut stripes = vec![(if shape.nz == 1 { Stripes::Blocks([16, 16, 1]) } else { Stripes::Bodies }, "few")];
        if shape.nx == 1024 {
            stripes.push((Stripes::HalfRows, "half rows"));
        }
        for (stripes, name) in stripes {
            let options = DeflationOptions { stripes, coarse: CoarseSolve::Inverse };
            let mut deflation = Deflation::new(cuda, stencil, std::sync::Arc::clone(&operator), &options)?;
            let time = seconds(cuda, || deflation.project(&p, &mut q, first, &mut scalars))?;
            report(&traffic::PROJECT, &format!("project, {name}"), time);
        }
    }
    Ok(())
}

fn solve(cuda: &Cuda, problem: &DiffusionProblem, name: &str, options: SolverOptions) -> Result<()> {
    /// Solves of which the median is taken.
    const SOLVES: usize = 5;
    let stencil = problem.stencil()?;
    let shape = stencil.shape();
    let rhs = problem.rhs(Some(RhsKind::Random), 0, Weighting::None)?;
    let clock = Instant::now();
    let mut system = System::new(cuda, &stencil, &options)?;
    let setup = clock.elapsed().as_secs_f64();
    let mut u = vec![0.0; rhs.len()];
    let mut times = Vec::new();
    let mut last = String::new();
    for _ in 0..SOLVES {
        let mut out = ArrayViewMut::c_order(&mut u, shape)?;
        let outcome = system.solve(ArrayView::c_order(&rhs, shape)?, &mut out, Guess::Zero, &mut |_| {})?;
        times.push(outcome.timing.solve);
        last = format!("{:?}, {} iterations, {:.1e}", outcome.stop, outcome.iterations, outcome.relative_residual);
    }
    let first = times[0];
    times.sort_by(f64::total_cmp);
    println!(
        "{shape} {name}: setup {:.0} ms, first {:.2} ms, median {:.2} ms ({last})",
        1e3 * setup,
        1e3 * first,
        1e3 * times[SOLVES / 2]
    );
    Ok(())
}
