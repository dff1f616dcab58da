//! Transfers between a grid and its vertical modes.

use super::complete::Complete;
use super::fixture::{SCALARS, Sample, compare_at_scale, ok, poison, random_pair, random_vector, send, shapes};
use crate::precond::multigrid::Cycle;
use crate::prelude::*;
use crate::stencil::Modes;

fn modes<B: Supports<TensorProduct>, T: Real, C: Real>(
    backend: &B,
    stencil: &TensorProduct,
    count: usize,
) -> Modes<B, TensorProduct, T, C> {
    let operator = ok(backend.operator::<T>(stencil));
    let modes = ModesOptions { count: Count::Given(count), ..ModesOptions::default() };
    let options = SolverOptions { modes, ..SolverOptions::default() };
    let Some(modes) = ok(backend.modes(stencil, &operator, &options, 1e-5)) else { panic!("no modes") };
    modes
}

/// The scale of rounding of sums over layers or modes, and of differences of residuals.
const SCALE: f64 = 30.0;

/// Checks projection, expansion, and both with sweeps in one pass; modes in precision C.
pub(super) fn steps<B: Complete, T: Real, C: Real>(backend: &B) {
    let [norm, ..] = SCALARS;
    for (shape, (name, stencil)) in
        shapes::<B>().flat_map(|shape| TensorProduct::samples(shape).into_iter().map(move |s| (shape, s)))
    {
        let mut counts = vec![1, 3, 8, shape.nz];
        counts.retain(|&count| count <= shape.nz);
        counts.dedup();
        for count in counts {
            let tested = modes::<B, T, C>(backend, &stencil, count).transfer;
            let reference = modes::<Reference, T, C>(&Reference, &stencil, count).transfer;
            assert_eq!(tested.modal_layout().shape(), Shape { nz: count, ..shape });
            let name = format!("{name}, {count} modes");
            let (f, x) = (random_vector::<T>(shape, 31), random_vector::<C>(Shape { nz: count, ..shape }, 32));
            let (on_f, on_x) = (send(backend, &f), send(backend, &x));
            let (mut g, mut on_g) = poison::<B, C>(backend, Shape { nz: count, ..shape });
            ok(reference.project(&f, &mut g));
            ok(tested.project(&on_f, &mut on_g));
            // Compares in the lower of both precisions.
            let same_modes = |found: &B::Vector<C>, expected: &crate::reference::Vector<C>, what: &str| {
                let scale = SCALE * (T::EPSILON / C::EPSILON).max(1.0);
                compare_at_scale(backend, found, expected, scale, &format!("{what} with {name}"));
            };
            same_modes(&on_g, &g, "project");
            let (mut u, mut on_u) = poison::<B, T>(backend, shape);
            for guess in [Guess::Zero, Guess::Given] {
                ok(reference.expand(&x, guess, &mut u));
                ok(tested.expand(&on_x, guess, &mut on_u));
                compare_at_scale(backend, &on_u, &u, SCALE, &format!("expand {guess:?} with {name}"));
            }
            let (mut scalars, mut reference_scalars) = (ok(backend.scalars()), ok(Reference.scalars()));
            let (mut s, mut on_s) = poison::<B, T>(backend, shape);
            let same_norm = |scalars: &B::Scalars, expected: f64, epsilon: f64, what: &str| {
                let found = ok(backend.read(scalars))[norm.index()];
                let scale = expected.max(shape.cells() as f64);
                assert!((found - expected).abs() <= 1e3 * epsilon * scale, "{what} with {name}: {found} {expected}");
            };
            let (mut again, mut on_again) = poison::<B, C>(backend, Shape { nz: count, ..shape });
            ok(reference.project_rhs(&f, &mut again, &mut s, norm.of(&mut reference_scalars)));
            ok(tested.project_rhs(&on_f, &mut on_again, &mut on_s, norm.of(&mut scalars)));
            same_modes(&on_again, &again, "project_rhs");
            same_norm(&scalars, reference_scalars.get(norm), T::EPSILON, "norm of project_rhs");
            ok(reference.project_residual(&f, &mut u, &mut g, &mut s, norm.of(&mut reference_scalars)));
            ok(tested.project_residual(&on_f, &mut on_u, &mut on_g, &mut on_s, norm.of(&mut scalars)));
            same_modes(&on_g, &g, "project_residual");
            same_norm(&scalars, reference_scalars.get(norm), T::EPSILON, "norm of project_residual");
            // The number of modes does not affect several sweeps.
            let all = [(Colour::Red, 2), (Colour::Red, 1), (Colour::Black, 3), (Colour::Red, 7)];
            for &(first, sweeps) in &all[..if count == 1 { 4 } else { 1 }] {
                let relaxation = Relaxation { smoother: Smoother::LineRedBlack, rho: 1.0, first };
                // All sweeps but the last may be in the modes' precision.
                let epsilon = if sweeps > 1 { T::EPSILON.max(C::EPSILON) } else { T::EPSILON };
                let scale = SCALE * epsilon / T::EPSILON;
                let (mut u, mut on_u) = poison::<B, T>(backend, shape);
                for guess in [Guess::Zero, Guess::Given] {
                    let what = format!("expand_smooth_project {sweeps} {guess:?}");
                    let expansion = Expansion { x: &x, guess, relaxation, sweeps };
                    let on_expansion = Expansion { x: &on_x, guess, relaxation, sweeps };
                    let (mut g, mut on_g) = poison::<B, C>(backend, Shape { nz: count, ..shape });
                    if guess == Guess::Zero {
                        ok(tested.project_rhs(&on_f, &mut on_g, &mut on_u, norm.of(&mut scalars)));
                    }
                    ok(reference.expand_smooth_project(
                        &expansion,
                        &f,
                        [&mut u, &mut s],
                        &mut g,
                        norm.of(&mut reference_scalars),
                    ));
                    ok(tested.expand_smooth_project(
                        &on_expansion,
                        &on_f,
                        [&mut on_u, &mut on_s],
                        &mut on_g,
                        norm.of(&mut scalars),
                    ));
                    compare_at_scale(backend, &on_u, &u, scale, &format!("{what} with {name}"));
                    same_modes(&on_g, &g, &what);
                    same_norm(&scalars, reference_scalars.get(norm), epsilon, &what);
                    let what = what.replace("project", "norm");
                    if guess == Guess::Zero {
                        ok(tested.project_rhs(&on_f, &mut on_g, &mut on_u, norm.of(&mut scalars)));
                    }
                    ok(reference.expand_smooth_norm(&expansion, &f, [&mut u, &mut s], norm.of(&mut reference_scalars)));
                    ok(tested.expand_smooth_norm(&on_expansion, &on_f, [&mut on_u, &mut on_s], norm.of(&mut scalars)));
                    compare_at_scale(backend, &on_u, &u, scale, &format!("{what} with {name}"));
                    same_norm(&scalars, reference_scalars.get(norm), epsilon, &what);
                }
            }
        }
    }
}

/// Checks cycles of multigrid on the problems of modes, on grids of few and of many columns, and with more
/// sweeps.
pub(super) fn cycles<B: Complete, T: Real>(backend: &B) {
    let usual = MultigridOptions::default();
    let all = [usual.clone(), MultigridOptions { pre: 2, coarse_sweeps: 3, ..usual }];
    for shape in [Shape::new(1, 1, 2), Shape::new(9, 6, 5), Shape::new(70, 44, 3), Shape::new(131, 75, 4)] {
        let modal = Shape { nz: shape.nz - 1, ..shape };
        let (f, on_f) = random_pair::<B, T>(backend, modal, 33);
        for multigrid in &all {
            let options = SolverOptions {
                modes: ModesOptions { count: Count::Given(modal.nz), ..ModesOptions::default() },
                multigrid: multigrid.clone(),
                ..SolverOptions::default()
            };
            let stencil = super::fixture::sample(shape);
            let mut tested = cycle::<B, T>(backend, &stencil, &options);
            let mut reference = cycle::<Reference, T>(&Reference, &stencil, &options);
            let ((mut u, mut on_u), name) = (poison::<B, T>(backend, modal), format!("{shape}, {multigrid:?}"));
            for guess in [Guess::Zero, Guess::Given, Guess::Given] {
                ok(reference.cycle(&f, &mut u, guess, None));
                ok(tested.cycle(&on_f, &mut on_u, guess, None));
                compare_at_scale(backend, &on_u, &u, SCALE, &format!("cycle {guess:?}, {name}"));
            }
            let (mut before, mut on_before) = poison::<B, T>(backend, modal);
            for tau in [0.875, 1.0, 1.25] {
                ok(reference.extrapolated(&f, &mut u, &mut before, tau));
                ok(tested.extrapolated(&on_f, &mut on_u, &mut on_before, tau));
                compare_at_scale(backend, &on_u, &u, SCALE, &format!("cycle extrapolated by {tau}, {name}"));
            }
        }
    }
}

fn cycle<B: Supports<TensorProduct>, T: Real>(
    backend: &B,
    stencil: &TensorProduct,
    options: &SolverOptions,
) -> Cycle<B, T> {
    let operator = ok(backend.operator::<T>(stencil));
    let Some(modes) = ok(backend.modes::<T, T>(stencil, &operator, options, 1e-5)) else { panic!("no modes") };
    ok(Cycle::new(&modes.problems, &options.multigrid))
}

/// Checks that an update equals a new solver.
pub(super) fn update<B: Complete, T: Real>(backend: &B) {
    let shape = Shape::new(10, 7, 6);
    let other = super::fixture::sample(shape);
    let profile = crate::grid::VerticalProfile::new(vec![2.0; 6], vec![0.0; 6], vec![0.0; 6], vec![-1.0; 6]);
    let first = ok(profile.and_then(|profile| TensorProduct::new(profile, other.horizontal().clone())));
    assert_eq!(Stencil::shape(&first), shape);
    let changed = modes::<B, T, T>(backend, &first, 3);
    ok((changed.problems.update)(&other));
    let fresh = modes::<Reference, T, T>(&Reference, &other, 3);
    let modal = Shape { nz: 3, ..shape };
    let (f, mut x) = (random_vector::<T>(shape, 1), random_vector::<T>(modal, 2));
    let ((mut g, mut on_g), (mut y, mut on_y)) = (poison::<B, T>(backend, modal), poison::<B, T>(backend, modal));
    ok(fresh.transfer.project(&f, &mut g));
    ok(changed.transfer.project(&send(backend, &f), &mut on_g));
    compare_at_scale(backend, &on_g, &g, SCALE, "project after an update");
    for (problem, fresh) in changed.problems.levels.iter().zip(&fresh.problems.levels).take(1) {
        ok(fresh.apply(&mut x, &mut y));
        ok(problem.apply(&mut send(backend, &x), &mut on_y));
        compare_at_scale(backend, &on_y, &y, SCALE, "problems after an update");
    }
}
