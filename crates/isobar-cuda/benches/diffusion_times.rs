//! Times of the diffusion operator on the first GPU, in double precision by default: steps, compared with the copy measured in the
//! same run (by declared traffic), then whole solves, with their setup the first time and once more and an update with the same
//! coefficients.
//!
//! `diffusion_times [steps|solves|galerkin [f64|auto]|points [fixed]]`: all, 256³ cells by Galerkin levels with cycles in double
//! precision or in the automatically chosen one, or cycles that relax points, with all sides fixed or others too

use isobar_core::backend::{Backend, Ratio, Sums};
use isobar_core::bench::{seconds, time_setup, upload_noise};
use isobar_core::build::{Solve, System};
use isobar_core::conformance::arrays::solve_again;
use isobar_core::layout::{Colour, Layout, Shape};
use isobar_core::operator::line::scratch_layout;
use isobar_core::operator::{Direction, Guess, Relaxation, ResidualUpdate, Sweep};
use isobar_core::options::{
    CoarseSolve, Compatibility, CyclePrecision, Deflation as DeflationOptions, Method, Preconditioner, Smoother,
    SolverOptions, Stripes,
};
use isobar_core::precond::Deflation;
use isobar_core::problem::materials::{Bubbles, bubbles, noise, two_phase};
use isobar_core::problem::{Boundary, Coefficient, DiffusionProblem, RhsKind, Weighting};
use isobar_core::real::{Precision, Real};
use isobar_core::stencil::{Diffusion, Stencil, Supports};
use isobar_core::traffic::{self, Traffic};
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
    if what == "points" {
        return points(&cuda);
    }
    if what == "galerkin" {
        return galerkin(&cuda);
    }
    if what != "solves" {
        for shape in [Shape::new(1024, 1024, 1), Shape::new(4096, 4096, 1), Shape::new(256, 256, 256)] {
            let stencil = problem(shape)?.stencil()?;
            steps::<f64>(&cuda, &stencil)?;
            steps::<f32>(&cuda, &stencil)?;
        }
    }
    if what != "steps" {
        let base = SolverOptions { method: Method::Cg, tolerance: 1e-6, ..SolverOptions::default() };
        for n in [1024, 4096] {
            let deflation = DeflationOptions { stripes: Stripes::Blocks([16, 16, 1]), ..Default::default() };
            let options = SolverOptions {
                preconditioner: Preconditioner::Neumann { order: 2 },
                deflation: Some(deflation),
                ..base.clone()
            };
            solve(&cuda, &problem(Shape::new(n, n, 1))?, "deflated CG, Neumann(2), 16×16", options)?;
        }
        galerkin(&cuda)?;
        // Not floating, so that setup and update are those of the operator.
        let mut tied = problem(Shape::new(256, 256, 256))?;
        tied.boundary[2][0] = Boundary::Dirichlet(0.0);
        let options = SolverOptions { preconditioner: Preconditioner::Line, tolerance: 1e-2, ..base };
        solve(&cuda, &tied, "CG, lines, fixed bottom", options)?;
    }
    Ok(())
}

/// Times conjugate gradients with multigrid on Galerkin levels.
fn galerkin(cuda: &Cuda) -> Result<()> {
    let shape = Shape::new(256, 256, 256);
    let cube = problem(shape)?;
    let even = DiffusionProblem::new(shape, Coefficient::Isotropic(vec![1.0; shape.cells()]));
    let uneven = DiffusionProblem::new(shape, Coefficient::Isotropic(noise(shape, 1.0, 3)?));
    for (what, problem) in [("bubbles 1e3", &cube), ("κ = 1", &even), ("white noise", &uneven)] {
        for (cycles, name) in [(CyclePrecision::F64, "f64"), (CyclePrecision::Auto, "auto")] {
            if std::env::args().nth(2).is_some_and(|only| only != name) {
                continue;
            }
            let mut options = SolverOptions {
                method: Method::Cg,
                preconditioner: Preconditioner::Multigrid,
                compatibility: Compatibility::Project,
                tolerance: 1e-8,
                ..SolverOptions::default()
            };
            options.multigrid.precision = cycles;
            solve(cuda, problem, &format!("CG, multigrid, cycles {name}, {what}"), options)?;
        }
    }
    Ok(())
}

/// Makes two phases on the unit square, Dirichlet at the bottom; bubbles in a closed cube.
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
    let made = Supports::operator::<T>(cuda, stencil)?;
    let capabilities = Supports::<Diffusion>::capabilities(cuda, &made);
    let Some((diagonal, triangular)) = capabilities.diagonal.zip(capabilities.triangular) else { return Ok(()) };
    let operator = capabilities.operator;
    let vectors = operator.coefficient_vectors();
    println!("{shape} {}, {vectors} coefficient vectors, copy {:.0} GB/s", T::PRECISION, copy / 1e9);
    let noise = || -> Result<_> {
        let mut v = cuda.zeros::<T>(&layout)?;
        upload_noise(cuda, &layout, &mut v)?;
        Ok(v)
    };
    let (mut f, mut u, mut p, mut q, mut next) = (noise()?, noise()?, noise()?, noise()?, noise()?);
    let mut scalars = cuda.scalars()?;
    let out = Sums::<2>::new(0);
    let first = out.get(0);
    let report = |step: &Traffic, name: &str, seconds: f64| {
        let bandwidth = step.bytes(shape.cells(), size_of::<T>(), vectors) / seconds;
        println!(
            "  {name:<26} {:9.4} ms {:6.0} GB/s {:5.1} %",
            1e3 * seconds,
            bandwidth / 1e9,
            100.0 * bandwidth / copy
        );
    };
    let time = seconds(cuda, || cuda.update(&*made, stencil).map(drop))?;
    println!("  {:<26} {:9.4} ms", "update", 1e3 * time);
    report(&traffic::APPLY, "apply", seconds(cuda, || operator.apply(&mut f, &mut q))?);
    report(
        &traffic::RESIDUAL,
        "residual",
        seconds(cuda, || operator.residual(&f, &mut u, &mut q, first, &mut scalars))?,
    );
    operator.needs_next_direction()?;
    let time = seconds(cuda, || {
        let (next, [alpha, beta], sigma) = (Some(&mut next), [Ratio::ZERO; 2], first);
        let direction = Direction { u: &mut u, p: &mut p, next, z: &mut f, q: &mut q, alpha, beta, sigma };
        operator.advance_direction(direction, &mut scalars)
    })?;
    report(&traffic::ADVANCE_DIRECTION, "advance_direction", time);
    let time = seconds(cuda, || {
        let update = ResidualUpdate { r: &mut f, q: &q, z: &mut u, alpha: Ratio::ZERO, out };
        diagonal.scale_residual(update, &mut scalars)
    })?;
    report(&traffic::SCALE_RESIDUAL, "scale_residual", time);
    let time = seconds(cuda, || triangular.relax_lower(&f, &mut u, &mut q, Some((first, &mut scalars))))?;
    report(&traffic::RELAX_LOWER, "relax_lower", time);
    report(
        &traffic::RELAX_UPPER,
        "relax_upper",
        seconds(cuda, || triangular.relax_upper(&mut f, Some(&mut u), &mut q))?,
    );
    let time = seconds(cuda, || triangular.incomplete_poisson(true, &u, &mut f, &mut q))?;
    report(&traffic::INCOMPLETE_POISSON, "incomplete_poisson", time);
    if let Some(lines) = cuda.lines(stencil, &made)? {
        report(&traffic::SOLVE_LINES, "solve_lines", seconds(cuda, || lines.solver.solve_lines(&f, &mut q))?);
    }
    if let Some(hierarchy) = cuda.hierarchy(stencil, &made, Smoother::LineRedBlack, Some(2))? {
        let relaxation = |smoother| Relaxation { smoother, rho: 1.0, first: Colour::Red };
        for (smoother, name) in
            [(Smoother::LineRedBlack, "smooth, red–black"), (Smoother::LineJacobi, "smooth, Jacobi")]
        {
            let level = &hierarchy.levels[0];
            let time =
                seconds(cuda, || level.smooth(Sweep::new(relaxation(smoother), Guess::Given, &f, &mut u, &mut q)))?;
            report(&traffic::SMOOTH, name, time);
        }
        if let Some(between) = hierarchy.transfers.first() {
            let mut coarse_f = cuda.zeros::<T>(between.coarse_layout())?;
            // The traffic is the fine vector, weights, and a quarter; a corrected fine vector counts twice.
            let transfer = |reads, writes| Traffic { reads, writes, coefficients: 0.0, ..traffic::APPLY };
            let time = seconds(cuda, || between.restrict(&mut f, &mut coarse_f))?;
            report(&transfer(3.0, 0.25), "restrict", time);
            report(&transfer(3.25, 1.0), "prolong", seconds(cuda, || between.prolong(&mut coarse_f, &mut u))?);
            let time = seconds(cuda, || between.residual_restrict(&f, &mut u, &mut coarse_f, &mut q))?;
            report(&traffic::RESIDUAL_RESTRICT, "residual_restrict", time);
        }
    }
    let rows = 8 * shape.nx;
    upload_noise(cuda, &layout, &mut u)?;
    let time = seconds(cuda, || triangular.substitute(rows, &u, &f, &mut q))?;
    report(&traffic::SUBSTITUTE, "substitute, 8 rows", time);
    for (block, name) in [(1, "factorise, diagonal"), (rows, "factorise, 8 rows")] {
        let time = seconds(cuda, || triangular.factorise(block, 0.0, &mut u))?;
        println!("  {name:<26} {:9.4} ms", 1e3 * time);
    }
    let Some(aggregating) = capabilities.aggregates else { return Ok(()) };
    if shape.nz == 1 || T::PRECISION == isobar_core::real::Precision::F64 {
        let mut stripes = vec![(if shape.nz == 1 { Stripes::Blocks([16, 16, 1]) } else { Stripes::Bodies }, "few")];
        if shape.nx == 1024 {
            stripes.push((Stripes::HalfRows, "half rows"));
        }
        for (stripes, name) in stripes {
            let options = DeflationOptions { stripes, coarse: CoarseSolve::Inverse };
            let mut deflation = Deflation::new(std::sync::Arc::clone(&aggregating), shape, &options)?;
            let time = seconds(cuda, || deflation.project(&p, &mut q, first, &mut scalars))?;
            report(&traffic::PROJECT, &format!("project, {name}"), time);
        }
    }
    Ok(())
}

fn solve(cuda: &Cuda, problem: &DiffusionProblem, name: &str, options: SolverOptions) -> Result<()> {
    /// The number of solves, of which the median counts.
    const SOLVES: usize = 5;
    let stencil = problem.stencil()?;
    let shape = stencil.shape();
    let rhs = problem.rhs(Some(RhsKind::Random), 0, Weighting::None)?;
    let setup = time_setup(cuda, &stencil, &options)?;
    let mut system = System::new(cuda, &stencil, &options)?;
    let mut u = vec![0.0; rhs.len()];
    let mut times = Vec::new();
    let mut last = String::new();
    for _ in 0..SOLVES {
        let outcome = solve_again(&mut system, shape, &rhs, &mut u, Guess::Zero)?;
        times.push(outcome.timing.solve);
        last = format!("{:?}, {} iterations, {:.1e}", outcome.stop, outcome.iterations, outcome.relative_residual);
    }
    let first = times[0];
    times.sort_by(f64::total_cmp);
    println!(
        "{shape} {name}: setup {:.0} ms, again {:.1}, update {:.1}, first {:.2} ms, median {:.2} ms ({last})",
        1e3 * setup.first,
        1e3 * setup.again,
        1e3 * setup.update,
        1e3 * first,
        1e3 * times[SOLVES / 2]
    );
    Ok(())
}

/// Times cycles that relax points, for constant and for smooth coefficients, compared with their declared bytes at the bandwidth of a
/// copy. Constant coefficients are not read, and not counted.
fn points(cuda: &Cuda) -> Result<()> {
    for shape in [Shape::new(8192, 8192, 1), Shape::new(256, 256, 256), Shape::new(512, 512, 512)] {
        let copy = cuda.copy_bandwidth(&Layout::new(shape)?)?;
        println!("{shape}, copy {:.0} GB/s", copy / 1e9);
        let even = vec![1.0; shape.cells()];
        let [fixed, bottom, ring] = [0, 1, 2].map(|kind| {
            let mut problem = DiffusionProblem::new(shape, Coefficient::Isotropic(even.clone()));
            let sides = if shape.nz == 1 { 2 } else { 3 };
            match kind {
                0 => problem.boundary[..sides].fill([Boundary::Dirichlet(0.0); 2]),
                1 => problem.boundary[sides - 1][0] = Boundary::Dirichlet(0.0),
                _ => problem.boundary[..sides].fill([Boundary::Periodic; 2]),
            }
            problem
        });
        let is_large = shape.cells() > 1 << 26;
        point_steps(cuda, &fixed.stencil()?, copy)?;
        for precision in [Precision::F64, Precision::Mixed] {
            point_solve(cuda, &fixed, "all sides fixed", precision, copy)?;
            if !is_large && std::env::args().nth(2).is_none() {
                point_solve(cuda, &bottom, "bottom fixed", precision, copy)?;
                point_solve(cuda, &ring, "periodic", precision, copy)?;
            }
        }
        if shape.nz > 1 && !is_large {
            let at = |n: usize| [n % shape.nx, n / shape.nx % shape.ny, n / shape.nx / shape.ny];
            let kappa = |n: usize| {
                let [x, y, z] = at(n).map(|n| n as f64 / shape.nx as f64);
                (1.5 * (4.0 * x + 1.0).sin() * (5.0 * y).cos() * (3.0 * z).cos()).exp()
            };
            let smooth = (0..shape.cells()).map(kappa).collect();
            let mut problem = DiffusionProblem::new(shape, Coefficient::Isotropic(smooth));
            problem.boundary = fixed.boundary;
            point_solve(cuda, &problem, "smooth coefficients", Precision::F64, copy)?;
            let mut options = SolverOptions { tolerance: 1e-8, ..SolverOptions::default() };
            options.multigrid.smoother = Smoother::LineRedBlack;
            solve(cuda, &fixed, "lines on Galerkin grids", options)?;
        }
    }
    Ok(())
}

/// Times the steps of the two finest levels.
fn point_steps(cuda: &Cuda, stencil: &Diffusion, copy: f64) -> Result<()> {
    let operator = Supports::operator::<f64>(cuda, stencil)?;
    let Some(levels) = cuda.hierarchy(stencil, &operator, Smoother::PointRedBlack, None)? else { return Ok(()) };
    for (level, transfer) in levels.levels.iter().zip(&levels.transfers).take(4) {
        let (layout, coarse) = (*level.layout(), *transfer.coarse_layout());
        let noise = |layout: &Layout| -> Result<_> {
            let mut v = cuda.zeros::<f64>(layout)?;
            upload_noise(cuda, layout, &mut v)?;
            Ok(v)
        };
        let (f, mut u, mut s) =
            (noise(&layout)?, noise(&layout)?, noise(&scratch_layout(&**level, Smoother::PointRedBlack)?)?);
        let (mut coarse_f, mut coarse_u) = (noise(&coarse)?, noise(&coarse)?);
        let mut scalars = cuda.scalars()?;
        let norm = Sums::<2>::new(0).get(0);
        let relaxation = Relaxation { smoother: Smoother::PointRedBlack, rho: 1.18, first: Colour::Red };
        let cells = layout.shape().cells();
        let report = |name: &str, references: f64, seconds: f64| {
            let bandwidth = references * (cells * size_of::<f64>()) as f64 / seconds;
            println!(
                "  {} {name:<24} {:8.4} ms {:5.1} % of copy",
                layout.shape(),
                1e3 * seconds,
                100.0 * bandwidth / copy
            );
        };
        let time = seconds(cuda, || level.smooth(Sweep::new(relaxation, Guess::Given, &f, &mut u, &mut s)))?;
        report("sweep", 3.0, time);
        let time = seconds(cuda, || level.smooth(Sweep::new(relaxation, Guess::Zero, &f, &mut u, &mut s)))?;
        report("sweep from zero", 2.0, time);
        let time = seconds(cuda, || transfer.residual_restrict(&f, &mut u, &mut coarse_f, &mut s))?;
        // One vector of the coarser grid.
        let part = coarse.shape().cells() as f64 / cells as f64;
        report("residual, restriction", 2.0 + part, time);
        report("prolongation", 2.0 + part, seconds(cuda, || transfer.prolong(&mut coarse_u, &mut u))?);
        let all = seconds(cuda, || {
            transfer.prolong_smooth(
                &mut coarse_u,
                Sweep::new(relaxation, Guess::Given, &f, &mut u, &mut s),
                Some((norm, &mut scalars)),
            )
        })?;
        report("prolongation, sweep, norm", 3.0 + part, all);
        for (guess, name, references) in
            [(Guess::Given, "sweep, restriction", 3.0), (Guess::Zero, "the same from zero", 2.0)]
        {
            let mut step =
                || transfer.smooth_residual_restrict(Sweep::new(relaxation, guess, &f, &mut u, &mut s), &mut coarse_f);
            report(name, references + part, seconds(cuda, &mut step)?);
        }
    }
    Ok(())
}

fn point_solve(cuda: &Cuda, problem: &DiffusionProblem, name: &str, precision: Precision, copy: f64) -> Result<()> {
    let stencil = problem.stencil()?;
    let shape = stencil.shape();
    let rhs = problem.rhs(Some(RhsKind::Random), 0, Weighting::None)?;
    let compatibility = Compatibility::Project;
    let options = SolverOptions { tolerance: 1e-8, precision, compatibility, ..SolverOptions::default() };
    let setup = time_setup(cuda, &stencil, &options)?;
    let mut system = System::new(cuda, &stencil, &options)?;
    let mut u = vec![0.0; rhs.len()];
    let (mut times, mut cycles, mut last) = (Vec::new(), 0, String::new());
    for _ in 0..4 {
        let outcome = solve_again(&mut system, shape, &rhs, &mut u, Guess::Zero)?;
        times.push(outcome.timing.solve);
        cycles = outcome.iterations;
        last = format!(
            "{:?}, {cycles} cycles, {:.1e} {}",
            outcome.stop,
            outcome.relative_residual,
            outcome.notes.join("; ")
        );
    }
    times.sort_by(f64::total_cmp);
    let traffic = &system.description().traffic;
    let bytes: f64 = traffic.iter().map(|step| step.count * step.step.bytes(step.cells, step.size, 0.0)).sum();
    let ideal = cycles as f64 * bytes / copy;
    println!(
        "{shape} {name}, {precision}, {}: setup {:.0} ms, again {:.1}, update {:.1}; solve {:.2} ms ({:.2} to {:.2}), {:.2} of what the \
         declared bytes take ({:.2} ms), {:.2e} unknowns/s ({last})",
        system.description().method,
        1e3 * setup.first,
        1e3 * setup.again,
        1e3 * setup.update,
        1e3 * times[1],
        1e3 * times[0],
        1e3 * times[times.len() - 1],
        times[1] / ideal,
        1e3 * ideal,
        shape.cells() as f64 / times[1],
    );
    Ok(())
}
