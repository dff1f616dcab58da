//! Updates of operators and solvers, which must equal new ones.

use super::arrays::{distance, noise, solve, solve_by};
use super::fixture::{Sample, floating, ok, sample};
use super::solves::loose_options;
use crate::prelude::*;
use crate::stencil::StoredMatrix;

/// Checks that a solver updated to another stencil and back equals new solvers for them, bit for bit.
fn update_is_like_new<B: Supports<S>, S: Stencil>(backend: &B, first: &S, second: &S, options: &[SolverOptions]) {
    let shape = first.shape();
    let rhs = noise(shape.cells(), 5);
    for options in options {
        let mut system = ok(System::new(backend, first, options));
        for stencil in [first, second, first] {
            ok(system.update(stencil));
            let (outcome, u) = solve_by(&mut system, shape, &rhs);
            let (expected, expected_u) = solve(backend, stencil, options, &rhs);
            assert_eq!(outcome.history, expected.history, "{options:?}");
            assert!(u == expected_u, "{options:?}");
            // Compares A itself, which judges.
            let mut v = vec![f64::NAN; rhs.len()];
            let (from, to) = (ok(ArrayView::c_order(&u, shape)), ok(ArrayViewMut::c_order(&mut v, shape)));
            ok(system.apply(from.into(), to.into()));
            if outcome.removed.is_none() {
                let (residual, judged) = (distance(&v, &rhs), outcome.relative_residual);
                assert!((residual - judged).abs() <= 1e-6 * judged + 1e-13, "{options:?}: {residual} {judged}");
            }
        }
    }
}

fn with<T: Real>(method: Method, preconditioner: Preconditioner) -> SolverOptions {
    SolverOptions { method, preconditioner, ..loose_options::<T>() }
}

/// Checks updates of vertical and horizontal factors.
pub(super) fn tensor_product<B: Supports<TensorProduct>, T: Real>(backend: &B) {
    let first = sample(Shape::new(34, 20, 12));
    let (mut vertical, mut horizontal) = (first.vertical().clone(), first.horizontal().clone());
    vertical.a.iter_mut().for_each(|a| *a *= 2.5);
    horizontal.total.iter_mut().for_each(|total| *total += 0.5);
    let second = ok(TensorProduct::new(vertical, horizontal));
    let mut options = vec![
        with::<T>(Method::Multigrid, Preconditioner::Auto),
        with::<T>(Method::Cg, Preconditioner::Line),
        with::<T>(Method::Cg, Preconditioner::Multigrid),
        with::<T>(Method::Bicgstab, Preconditioner::Jacobi),
        with::<T>(Method::Cg, Preconditioner::Mic { relaxation: 1.0, block: None }),
    ];
    if T::PRECISION == Precision::F64 {
        options.push(SolverOptions { precision: Precision::Mixed, ..options[0].clone() });
    }
    update_is_like_new(backend, &first, &second, &options);
    let other = sample(Shape::new(34, 20, 11));
    assert!(ok(System::new(backend, &first, &options[0])).update(&other).is_err());
}

/// Checks updates of cell coefficients, shift and factors, and from a regular matrix to a singular one.
pub(super) fn diffusion<B: Supports<Diffusion>, T: Real>(backend: &B) {
    let shape = Shape::new(20, 14, 6);
    let samples = Diffusion::samples(shape);
    let mut options: Vec<SolverOptions> = [
        Preconditioner::Jacobi,
        Preconditioner::Line,
        Preconditioner::Multigrid,
        Preconditioner::BlockIc { block: None },
        Preconditioner::Mic { relaxation: 0.9, block: None },
        Preconditioner::IncompletePoisson { scaling: true },
        Preconditioner::Neumann { order: 2 },
    ]
    .map(|preconditioner| with::<T>(Method::Cg, preconditioner))
    .into();
    if backend.device().ranks == 1 {
        options.push(with::<T>(Method::Cg, Preconditioner::Amg));
    }
    let deflation = Some(Deflation { stripes: Stripes::Blocks([3, 2, 1]), ..Deflation::default() });
    options.push(SolverOptions { deflation, ..options[1].clone() });
    if T::PRECISION == Precision::F64 {
        options.push(SolverOptions { precision: Precision::Mixed, ..options[2].clone() });
        // An automatic choice is not repeated for other coefficients.
        options[2].multigrid.precision = CyclePrecision::F64;
    }
    // Inactive cells in other places.
    for (_, first) in samples.iter().filter(|(name, _)| name.starts_with("one field")) {
        let second = scaled(first);
        update_is_like_new(backend, first, &second, &options);
    }
    let (closed, odd) = (scaled(&floating(shape)), floating(shape));
    update_is_like_new(backend, &closed, &odd, &options[..3]);
    // From one floating component to many, and back.
    let field: Vec<f64> = (0..shape.cells()).map(|n| 1.5 + random(3, n)).collect();
    let whole = ok(Diffusion::of_field(shape, field, [1.0; 3], None, odd.sides()));
    update_is_like_new(backend, &whole, &closed, &options[..3]);
    for (_, other) in &samples[1..] {
        if samples[0].1.check_update(other).is_err() {
            assert!(ok(System::new(backend, &samples[0].1, &options[0])).update(other).is_err());
        }
    }
}

/// Returns other coefficients of the same form.
fn scaled(stencil: &Diffusion) -> Diffusion {
    let Coefficients::Cells { fields, axes } = stencil.coefficients() else { panic!("not of cells") };
    let change = |(n, value): (usize, &f64)| if n % 11 == 3 { 0.0 } else { value * (1.0 + 0.5 * random(77, n)) };
    let fields = fields.iter().map(|field| field.iter().enumerate().map(change).collect()).collect();
    let axes = axes.map(|(field, factor)| (field, 1.5 * factor));
    let shift = stencil.stored_shift().map(|shift| shift.iter().map(|s| 0.5 * s).collect());
    ok(Diffusion::new(stencil.shape(), Coefficients::Cells { fields, axes }, shift, stencil.sides()))
}

/// Checks updates of the entries of a stored matrix.
pub(super) fn stored_matrix<B: Supports<StoredMatrix>, T: Real>(backend: &B) {
    let shape = Shape::new(12, 10, 6);
    let first = sample(shape);
    let mut vertical = first.vertical().clone();
    vertical.a.iter_mut().for_each(|a| *a *= 2.0);
    let second = ok(TensorProduct::new(vertical, first.horizontal().clone()));
    let options = [with::<T>(Method::Cg, Preconditioner::Line), with::<T>(Method::Cg, Preconditioner::Jacobi)];
    update_is_like_new(backend, &ok(first.stored()), &ok(second.stored()), &options);
}
