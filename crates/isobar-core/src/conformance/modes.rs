//! Transfers between a grid and its vertical modes.

use super::complete::Complete;
use super::fixture::{SCALARS, Sample, Twin, both, compare_at_scale, ok, own, poison, random_pair, shapes};
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
            let modal = Shape { nz: count, ..shape };
            let (mut f, mut x) = (random_pair::<B, T>(backend, shape, 31), random_pair::<B, C>(backend, modal, 32));
            let mut g = poison::<B, C>(backend, modal);
            both!(*reference, *tested => |on, f, g| on.project(f, g));
            // Compares in the lower of both precisions.
            let same_modes = |(expected, found): &Twin<B, C>, what: &str| {
                let scale = SCALE * (T::EPSILON / C::EPSILON).max(1.0);
                compare_at_scale(backend, found, expected, scale, &format!("{what} with {name}"));
            };
            let same = |(expected, found): &Twin<B, T>, scale: f64, what: &str| {
                compare_at_scale(backend, found, expected, scale, &format!("{what} with {name}"));
            };
            same_modes(&g, "project");
            let mut u = poison::<B, T>(backend, shape);
            for guess in [Guess::Zero, Guess::Given] {
                both!(*reference, *tested => |on, x, u| on.expand(x, guess, u));
                same(&u, SCALE, &format!("expand {guess:?}"));
            }
            let mut scalars = (ok(Reference.scalars()), ok(backend.scalars()));
            let mut s = poison::<B, T>(backend, shape);
            let same_norm = |(expected, found): &(HostScalars, B::Scalars), epsilon: f64, what: &str| {
                let (found, expected) = (ok(backend.read(found))[norm.index()], expected.get(norm));
                let scale = expected.max(shape.cells() as f64);
                assert!((found - expected).abs() <= 1e3 * epsilon * scale, "{what} with {name}: {found} {expected}");
            };
            let mut again = poison::<B, C>(backend, modal);
            both!(*reference, *tested => |on, f, again, s, scalars| on.project_rhs(f, again, s, norm.of(scalars)));
            same_modes(&again, "project_rhs");
            same_norm(&scalars, T::EPSILON, "norm of project_rhs");
            both!(*reference, *tested => |on, f, u, g, s, scalars| on.project_residual(f, u, g, s, norm.of(scalars)));
            same_modes(&g, "project_residual");
            same_norm(&scalars, T::EPSILON, "norm of project_residual");
            // The number of modes does not affect several sweeps.
            let all = [(Colour::Red, 2), (Colour::Red, 1), (Colour::Black, 3), (Colour::Red, 7)];
            for &(first, sweeps) in &all[..if count == 1 { 4 } else { 1 }] {
                let relaxation = Relaxation { smoother: Smoother::LineRedBlack, rho: 1.0, first, returns: false };
                // All sweeps but the last may be in the modes' precision.
                let epsilon = if sweeps > 1 { T::EPSILON.max(C::EPSILON) } else { T::EPSILON };
                let scale = SCALE * epsilon / T::EPSILON;
                let mut u = poison::<B, T>(backend, shape);
                for guess in [Guess::Zero, Guess::Given] {
                    let what = format!("expand_smooth_project {sweeps} {guess:?}");
                    let mut g = poison::<B, C>(backend, modal);
                    if guess == Guess::Zero {
                        ok(tested.project_rhs(&f.1, &mut g.1, &mut u.1, norm.of(&mut scalars.1)));
                    }
                    both!(*reference, *tested => |on, x, f, u, s, g, scalars| {
                        let expansion = Expansion { x, guess, relaxation, sweeps };
                        on.expand_smooth_project(&expansion, f, [u, s], g, norm.of(scalars))
                    });
                    same(&u, scale, &what);
                    same_modes(&g, &what);
                    same_norm(&scalars, epsilon, &what);
                    let what = what.replace("project", "norm");
                    if guess == Guess::Zero {
                        ok(tested.project_rhs(&f.1, &mut g.1, &mut u.1, norm.of(&mut scalars.1)));
                    }
                    both!(*reference, *tested => |on, x, f, u, s, scalars| {
                        let expansion = Expansion { x, guess, relaxation, sweeps };
                        on.expand_smooth_norm(&expansion, f, [u, s], norm.of(scalars))
                    });
                    same(&u, scale, &what);
                    same_norm(&scalars, epsilon, &what);
                }
            }
        }
    }
}

/// Checks cycles of multigrid on the problems of modes, on grids of few and of many columns, and with more sweeps.
pub(super) fn cycles<B: Complete, T: Real>(backend: &B) {
    let usual = MultigridOptions::default();
    let all = [usual.clone(), MultigridOptions { pre: 2, coarse_sweeps: 3, ..usual }];
    for shape in [Shape::new(1, 1, 2), Shape::new(9, 6, 5), Shape::new(70, 44, 3), Shape::new(131, 75, 4)] {
        let modal = Shape { nz: shape.nz - 1, ..shape };
        let mut f = random_pair::<B, T>(backend, modal, 33);
        for multigrid in &all {
            let options = SolverOptions {
                modes: ModesOptions { count: Count::Given(modal.nz), ..ModesOptions::default() },
                multigrid: multigrid.clone(),
                ..SolverOptions::default()
            };
            let stencil = super::fixture::sample(shape);
            let mut cycle = (cycle(&Reference, &stencil, &options), cycle(backend, &stencil, &options));
            let (mut u, name) = (poison::<B, T>(backend, modal), format!("{shape}, {multigrid:?}"));
            for guess in [Guess::Zero, Guess::Given, Guess::Given] {
                both!(|cycle, f, u| cycle.cycle(f, u, guess, None));
                compare_at_scale(backend, &u.1, &u.0, SCALE, &format!("cycle {guess:?}, {name}"));
            }
            let mut before = poison::<B, T>(backend, modal);
            for tau in [0.875, 1.0, 1.25] {
                both!(|cycle, f, u, before| cycle.extrapolated(f, [u, before], tau));
                compare_at_scale(backend, &u.1, &u.0, SCALE, &format!("cycle extrapolated by {tau}, {name}"));
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
    let (mut f, mut x) = (random_pair::<B, T>(backend, shape, 1), random_pair::<B, T>(backend, modal, 2));
    let (mut g, mut y) = (poison::<B, T>(backend, modal), poison::<B, T>(backend, modal));
    both!(*fresh.transfer, *changed.transfer => |on, f, g| on.project(f, g));
    compare_at_scale(backend, &g.1, &g.0, SCALE, "project after an update");
    for (problem, fresh) in changed.problems.levels.iter().zip(&fresh.problems.levels).take(1) {
        both!(**fresh, **problem => |on, x, y| on.apply(x, y));
        compare_at_scale(backend, &y.1, &y.0, SCALE, "problems after an update");
    }
}
