//! Times of solves of diffusion on several GPUs of this host, one thread each: the median in milliseconds, and the comparison with
//! one GPU. κ = 1 to 1e-8 by cycles that relax points, in double and in mixed precision, and 100 iterations of conjugate gradients
//! with lines on bubbles of contrast 1000. Arguments: `weak` or `strong` (both by default), then columns in x, rows a GPU (weak) or
//! in all (strong), layers (default 512 512 256).

mod scaling;

use std::sync::Arc;

use isobar_core::error::Result;
use isobar_core::layout::Shape;
use isobar_core::options::{Method, Preconditioner, SolverOptions};
use isobar_core::real::Precision;
use isobar_core::stencil::{Coefficients, Diffusion, Side};

use scaling::Scaling;

/// Makes cubes of κ = 1, with spheres of κ = 1000 where there are bubbles; all sides are fixed.
fn problem(shape: Shape, has_bubbles: bool) -> Result<Diffusion> {
    let Shape { nx, ny, .. } = shape;
    let is_in_bubble = |n: usize| {
        let at = [n % nx, n / nx % ny, n / nx / ny].map(|n| (n % 64) as f64 - 32.0);
        at.iter().map(|x| x * x).sum::<f64>() < 400.0
    };
    let kappa = |n: usize| if has_bubbles && is_in_bubble(n) { 1000.0 } else { 1.0 };
    let field: Arc<[f64]> = (0..shape.cells()).map(kappa).collect();
    let cells = Coefficients::Cells { fields: vec![field], axes: [(0, 2.0); 3] };
    Diffusion::new(shape, cells, None, [[Side::Fixed; 2]; 3])
}

fn main() -> Result<()> {
    let Some(cards) = scaling::several_cards() else { return Ok(()) };
    let (words, sizes) = scaling::arguments();
    let [nx, ny, nz] = sizes.get(..3).and_then(|sizes| sizes.try_into().ok()).unwrap_or([512, 512, 256]);
    scaling::print_head();
    let points = SolverOptions { tolerance: 1e-8, ..SolverOptions::default() };
    let lines = SolverOptions { method: Method::Cg, preconditioner: Preconditioner::Line, ..points.clone() };
    let kinds = [
        ("points", false, points.clone()),
        ("points", false, SolverOptions { precision: Precision::Mixed, ..points }),
        ("cg lines", true, SolverOptions { max_iterations: 100, ..lines }),
    ];
    for (name, is_weak) in Scaling::BOTH {
        if !words.is_empty() && !words.iter().any(|word| word == name) {
            continue;
        }
        for (method, has_bubbles, options) in &kinds {
            let mut rows = Scaling::new(is_weak);
            for count in (0..).map(|n| 1 << n).take_while(|&count| count <= cards) {
                let shape = Shape::new(nx, if is_weak { count * ny } else { ny }, nz);
                rows.row(count, method, &problem(shape, *has_bubbles)?, options);
            }
        }
    }
    Ok(())
}
