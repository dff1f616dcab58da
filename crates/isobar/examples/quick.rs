//! Scratch.
use isobar::grid::GridOptions; use isobar::options::*; use isobar::problem::*; use isobar::*;
fn main() -> Result<()> {
    let n: usize = std::env::args().nth(1).map_or(256, |s| s.parse().unwrap());
    let grid = GridOptions { nx: n, ny: n, nz: 128, ..GridOptions::default() };
    let problem = Helmholtz { grid, ..Helmholtz::default() };
    let stencil = problem.stencil()?;
    let device = Device::cpu()?;
    let rhs = problem.rhs(RhsKind::Random, 0, Weighting::None)?;
    for (method, precision) in [(Method::Multigrid, real::Precision::F64), (Method::Multigrid, real::Precision::Mixed), (Method::Cg, real::Precision::F64)] {
        let options = SolverOptions { method, precision, ..Default::default() };
        let mut s = isobar::solver(&device, &stencil, &options)?;
        let copy = s.copy_bandwidth()?;
        for t in isobar::bench(&device, &stencil, &options)? { println!("{:28} {:>12} {:8.3} ms {:6.1} GB/s {:4.0}%", t.step.name, t.grid.to_string(), t.seconds*1e3, t.bandwidth()/1e9, 100.*t.bandwidth()/copy); }
        for _ in 0..2 {
        let mut u = vec![0.0; rhs.len()];
        let o = s.solve(ArrayView::c_order(&rhs, stencil.shape())?, &mut ArrayViewMut::c_order(&mut u, stencil.shape())?, Guess::Zero, &mut |_| {})?;
        println!("{method:?} {precision:?} copy {:.1}: {:?} {} it {:.2e} solve {:.1} ms up {:.1} down {:.1}", copy/1e9, o.stop, o.iterations, o.relative_residual, o.timing.solve*1e3, o.timing.upload*1e3, o.timing.download*1e3);
        }
    }
    Ok(())
}
