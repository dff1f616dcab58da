//! A user's own operator: coefficients that factorise into vertical vectors and horizontal fields, and
//! arrays in the model's own order.
//!
//! ```sh
//! cargo run --release --example own_profiles
//! ```

use isobar::grid::{HorizontalField, VerticalProfile};
use isobar::stencil::TensorProduct;
use isobar::{ArrayView, ArrayViewMut, Device, Shape, Solver};

fn main() -> isobar::Result<()> {
    let shape = Shape::new(96, 64, 40);
    let Shape { nx, ny, nz } = shape;

    // An ocean basin: layers that thicken downwards, stiffness between them, mass in them.
    let thickness: Vec<f64> = (0..nz).map(|k| 5.0 + 2.0 * k as f64).collect(); // m
    let stiffness = |k: usize| -2.0 / (thickness[k] + thickness[k + 1]);
    let vertical = VerticalProfile::new(
        thickness.clone(),
        (0..nz).map(|k| if k + 1 < nz { stiffness(k) } else { 0.0 }).collect(),
        (0..nz).map(|k| if k > 0 { stiffness(k - 1) } else { 0.0 }).collect(),
        thickness.iter().map(|h| -h).collect(),
    )?;

    // Couplings through cell faces: closed basin (0 at the outermost faces), a shelf half as conductive.
    let shelf = |i: usize| if i < nx / 3 { 0.5 } else { 1.0 };
    let x_faces: Vec<f64> =
        (0..ny).flat_map(|_| (0..=nx).map(|i| if i == 0 || i == nx { 0.0 } else { shelf(i) })).collect();
    let y_faces: Vec<f64> =
        (0..=ny).flat_map(|j| (0..nx).map(move |i| if j == 0 || j == ny { 0.0 } else { shelf(i) })).collect();
    let horizontal = HorizontalField::from_faces(nx, ny, vec![1.0; nx * ny], &x_faces, &y_faces)?;
    let stencil = TensorProduct::new(vertical, horizontal)?;

    // The model keeps its columns contiguous: element (i, j, k) at k + nz (j + ny i).
    let strides = [nz * ny, nz, 1];
    let mut rhs = vec![0.0; shape.cells()];
    rhs[nz / 2 + nz * (ny / 2 + ny * (nx / 2))] = 1.0;
    let mut u = vec![0.0; shape.cells()];

    let mut solver = Solver::builder(&stencil).device(&Device::cpu()?).tolerance(1e-9).build()?;
    let outcome = solver.solve(ArrayView::new(&rhs, shape, strides)?, ArrayViewMut::new(&mut u, shape, strides)?)?;
    for (n, residual) in outcome.history.iter().enumerate() {
        println!("{n:3}  {residual:.2e}");
    }
    for note in &solver.description().notes {
        println!("note: {note}");
    }
    println!(
        "{} after {} iterations, true residual {:.2e}",
        outcome.stop, outcome.iterations, outcome.relative_residual
    );
    assert!(outcome.converged());
    Ok(())
}
