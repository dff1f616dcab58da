//! Galerkin levels of diffusion: every operator, transfer and correction of a hierarchy, level by level.

use super::fixture::{SCALARS, Twin, both, compare_at_scale, fetch, largest, ok, own, poison, random_pair, send};
use crate::prelude::*;
use crate::reference::Vector;

/// Grids that are odd and even, flat, with rows as long as their padding, large enough for several threads.
const SHAPES: [(usize, usize, usize); 8] =
    [(12, 10, 7), (34, 14, 5), (32, 48, 9), (48, 32, 1), (6, 2, 12), (64, 20, 40), (10, 1, 16), (16, 36, 16)];

/// A named stencil.
struct Sample {
    name: String,
    stencil: Diffusion,
    /// Whether weights of coarse grids depend on rounding: inactive cells give couplings that are zero up to rounding, and
    /// contrast couplings that are differences of much larger ones.
    is_sensitive: bool,
    /// Whether floating components become single coarse cells, which get a row sum: A_c is not PᵀAP there.
    has_pieces: bool,
}

/// Makes samples that alternate strong directions, kinds of sides, inactive cells and contrasts; every grid has all kinds of the
/// first two.
fn samples() -> Vec<Sample> {
    use Side::{Closed, Fixed, Periodic};
    let factors = [[1.0; 3], [100.0, 1.0, 1.0], [1.0, 100.0, 100.0], [1.0, 1.0, 100.0]];
    let sides =
        [[Closed; 3], [Fixed, Closed, Fixed], [Periodic; 3], [Periodic, Fixed, Closed], [Closed, Periodic, Fixed]];
    let mut all = Vec::new();
    for (nx, ny, nz) in SHAPES {
        let shape = Shape::new(nx, ny, nz);
        for factors in factors {
            for sides in sides {
                let n = all.len();
                let sides = [0, 1, 2].map(|d| if [nx, ny][d.min(1)] % 2 == 1 && d < 2 { Closed } else { sides[d] });
                let contrast: f64 = [1e2, 1e12, 1e6][n % 3];
                let value = |cell: usize| match random(3, cell) {
                    closed if n % 2 == 1 && closed > 0.5 => 0.0,
                    _ if n % 4 < 2 && random(4, cell) > 0.0 => contrast,
                    _ if n % 4 < 2 => 1.0,
                    _ => contrast.powf(0.5 * random(4, cell)),
                };
                let field: Vec<f64> = (0..shape.cells()).map(value).collect();
                // Larger than the rounding of any component, so that none collapses.
                let tie = (1e-9 * contrast).max(0.1);
                let shift = field.iter().map(|&k| if k > 0.0 { tie } else { 0.0 }).collect();
                let stencil = ok(Diffusion::of_field(shape, field, factors, Some(shift), sides.map(|side| [side; 2])));
                all.push(Sample {
                    name: format!("{shape} {factors:?} {sides:?} contrast {contrast:e} number {n}"),
                    stencil,
                    is_sensitive: n % 2 == 1 || contrast > 1e3,
                    has_pieces: false,
                });
            }
        }
    }
    all.push(pieces());
    all
}

/// Makes floating blocks of at most 3×3×3 cells in an otherwise open grid; κ = 1.
fn pieces() -> Sample {
    let shape = Shape::new(24, 32, 12);
    let is_open = |cell: usize| {
        let at = shape.place(cell);
        at[1] >= 16 || at.iter().all(|n| n % 4 != 3)
    };
    let field: Vec<f64> = (0..shape.cells()).map(|cell| if is_open(cell) { 1.0 } else { 0.0 }).collect();
    let stencil = ok(Diffusion::of_field(shape, field, [2.0; 3], None, [[Side::Closed; 2]; 3]));
    Sample { name: format!("{shape} pieces"), stencil, is_sensitive: false, has_pieces: true }
}

/// Makes up to four levels that are relaxed by lines.
pub fn hierarchy<B: Supports<Diffusion>, T: Real>(backend: &B, stencil: &Diffusion) -> Hierarchy<B, Diffusion, T> {
    let operator = ok(backend.operator::<T>(stencil));
    ok(backend.hierarchy(stencil, &operator, Smoother::LineRedBlack, Some(4))).unwrap_or_else(|| panic!("no levels"))
}

/// Checks A_c = PᵀAP on all levels, for any P; `name` is for the message.
pub fn products<B: Supports<Diffusion>, T: Real>(backend: &B, tested: &Hierarchy<B, Diffusion, T>, name: &str) {
    for (n, transfer) in tested.transfers.iter().enumerate() {
        let layouts = [tested.levels[n].layout(), transfer.coarse_layout()];
        let [fine, coarse] = layouts.map(Layout::shape);
        let (_, mut v) = random_pair::<B, T>(backend, coarse, 7);
        let mut expected = ok(Vector::<T>::zeros(layouts[1]));
        let [mut interpolated, mut product] = [fine; 2].map(|shape| ok(backend.zeros::<T>(&ok(Layout::new(shape)))));
        let [mut restricted, mut found] = [coarse; 2].map(|shape| ok(backend.zeros::<T>(&ok(Layout::new(shape)))));
        ok(transfer.prolong(&mut v, &mut interpolated));
        ok(tested.levels[n].apply(&mut interpolated, &mut product));
        ok(transfer.restrict(&mut product, &mut restricted));
        ok(tested.levels[n + 1].apply(&mut v, &mut found));
        let values = fetch(backend, &restricted, coarse);
        expected.fill_with(|i, j, k| values[coarse.number([i, j, k])]);
        let what = format!("A_c below level {n} of {name}");
        compare_at_scale(backend, &found, &expected, 1e-30, &what);
    }
}

/// Checks operators, sweeps, transfers and corrections of all levels.
pub(super) fn levels<B: Supports<Diffusion>, T: Real>(backend: &B) {
    // A GPU makes the levels by kernels of its own.
    let rounds_otherwise = backend.device().kind == "cuda";
    for Sample { name, stencil, is_sensitive, has_pieces } in samples() {
        let tested = hierarchy::<B, T>(backend, &stencil);
        if !has_pieces {
            products(backend, &tested, &name);
        }
        if rounds_otherwise && is_sensitive {
            continue;
        }
        let reference = hierarchy::<Reference, T>(&Reference, &stencil);
        assert_eq!(tested.shapes(), reference.shapes(), "{name}");
        assert_eq!(tested.visits.len(), reference.visits.len(), "{name}");
        for n in 0..reference.levels.len() {
            let (level, expected) = (&*tested.levels[n], &*reference.levels[n]);
            let shape = expected.layout().shape();
            let what = |step: &str| format!("{step} on level {n} of {name}");
            let same = |twin: &Twin<B, T>, scale: f64, step: &str| {
                compare_at_scale(backend, &twin.1, &twin.0, scale, &what(step));
            };
            let [mut x, mut f, mut u] = [1, 2, 3].map(|seed| random_pair::<B, T>(backend, shape, seed));
            if n > 0 {
                let mut y = poison::<B, T>(backend, shape);
                both!(expected, level => |on, x, y| on.apply(x, y));
                same(&y, 1e-30, "apply");
                let size = largest(&y.0, 0.0);
                let mut scalars = (ok(Reference.scalars()), ok(backend.scalars()));
                both!(expected, level => |on, f, x, y, scalars| on.residual(f, [x, y], SCALARS[0].of(scalars)));
                same(&y, size, "residual");
                y = poison::<B, T>(backend, shape);
                both!(expected, level => |on, f, x, y, scalars| on.residual_alone(f, [x, y], SCALARS[0].of(scalars)));
                same(&y, size, "residual alone");
                // With more contrast, nearly decoupled columns amplify rounding.
                if name.contains("contrast 1e2 ") {
                    sweeps(backend, level, expected, [&mut f, &mut x], &what);
                }
            }
            let solid: Vec<f64> = fetch(backend, &f.1, shape).iter().map(|v| v.to_f64()).collect();
            assert!(solid.iter().all(|v| v.is_finite()));
            // A grid that is solved on exactly, which one back end's may be and another's not, needs no corrections.
            let is_solved =
                n + 1 == reference.levels.len() && tested.coarsest.is_some() != reference.coarsest.is_some();
            if let (Some(tested), Some(reference), false) =
                (&tested.corrections[n], &reference.corrections[n], is_solved)
            {
                assert_eq!(tested.is_active(), reference.is_active(), "{}", what("corrections"));
                for guess in [Guess::Given, Guess::Zero] {
                    both!(reference, tested => |on, f, u| on.correct(f, u, guess));
                    same(&u, 1.0, "correct");
                }
            }
            let (Some(transfer), Some(expected)) = (tested.transfers.get(n), reference.transfers.get(n)) else {
                continue;
            };
            let coarse = expected.coarse_layout().shape();
            let mut coarse_f = poison::<B, T>(backend, coarse);
            both!(expected, transfer => |on, f, coarse_f| on.restrict(f, coarse_f));
            compare_at_scale(backend, &coarse_f.1, &coarse_f.0, 1.0, &what("restrict"));
            // In single precision nearly decoupled columns amplify rounding here as well.
            if n > 0 && name.contains("contrast 1e2 ") && T::PRECISION == crate::real::Precision::F64 {
                sweeps_with_restriction(backend, &**transfer, &**expected, &mut x.0, &what);
            }
            let mut coarse_u = random_pair::<B, T>(backend, coarse, 4);
            u = random_pair::<B, T>(backend, shape, 5);
            both!(expected, transfer => |on, coarse_u, u| on.prolong(coarse_u, u));
            same(&u, 1.0, "prolong");
        }
        // Nearly decoupled cells have solutions beyond single precision, for right-hand sides that no restriction gives.
        if T::PRECISION == crate::real::Precision::F64
            && let (Some(tested), Some(reference)) = (&tested.coarsest, &reference.coarsest)
        {
            let shape = *reference_shapes(&stencil).last().unwrap_or(&stencil.shape());
            let (mut f, mut u) = (random_pair::<B, T>(backend, shape, 6), poison::<B, T>(backend, shape));
            both!(reference, tested => |on, f, u| on.solve(f, u));
            let scale = 100.0 * largest(&u.0, 0.0);
            compare_at_scale(backend, &u.1, &u.0, scale, &format!("coarsest grid of {name}"));
        }
    }
}

/// Checks A G A v = A v on the coarsest grids, of regular and of floating components.
pub(super) fn coarsest<B: Supports<Diffusion>, T: Real>(backend: &B) {
    let mut cells = Vec::new();
    // G is accurate relative to its largest entries.
    let is_even = |sample: &Sample| sample.has_pieces || sample.name.contains("contrast 1e2 ");
    for Sample { name, stencil, .. } in samples().into_iter().filter(is_even) {
        let operator = ok(backend.operator::<T>(&stencil));
        let made = ok(backend.hierarchy(&stencil, &operator, Smoother::LineRedBlack, None));
        let made = made.unwrap_or_else(|| panic!("no levels of {name}"));
        let (Some(level), Some(solver)) = (made.levels.last(), &made.coarsest) else { continue };
        let shape = level.layout().shape();
        let (mut again, [mut f, mut u]) =
            (ok(backend.zeros::<T>(level.layout())), [0, 1].map(|_| poison::<B, T>(backend, shape).1));
        let (_, mut v) = random_pair::<B, T>(backend, shape, 8);
        ok(level.apply(&mut v, &mut f));
        ok(solver.solve(&f, &mut u));
        ok(level.apply(&mut u, &mut again));
        let mut expected = ok(Vector::<T>::zeros(level.layout()));
        let values = fetch(backend, &f, shape);
        expected.fill_with(|i, j, k| values[shape.number([i, j, k])]);
        compare_at_scale(
            backend,
            &again,
            &expected,
            1e3 * largest(&expected, 0.0),
            &format!("the coarsest grid of {name}"),
        );
        cells.push(shape.cells());
    }
    let most = cells.iter().copied().max();
    assert!(cells.len() > 40 && most > Some(64), "{} grids of at most {most:?} cells", cells.len());
}

fn reference_shapes(stencil: &Diffusion) -> Vec<Shape> {
    hierarchy::<Reference, f64>(&Reference, stencil).shapes()
}

/// Returns sweeps in four colours, in either order, and of all columns at once.
fn sweeps_of_lines() -> [Relaxation; 4] {
    use Smoother::{LineJacobi, LineRedBlack};
    [
        (LineRedBlack, 1.0, Colour::Red),
        (LineRedBlack, 1.0, Colour::Black),
        (LineRedBlack, 0.8, Colour::Red),
        (LineJacobi, 0.4, Colour::Red),
    ]
    .map(|(smoother, rho, first)| Relaxation { smoother, rho, first, returns: false })
}

/// Checks one sweep in either order, from zero and from a guess.
fn sweeps<B: Supports<Diffusion>, T: Real>(
    backend: &B,
    tested: &dyn LineSmoother<B, T>,
    expected: &dyn LineSmoother<Reference, T>,
    [f, x]: [&mut Twin<B, T>; 2],
    what: &dyn Fn(&str) -> String,
) {
    let shape = expected.layout().shape();
    for relaxation in sweeps_of_lines() {
        let scratch = if tested.needs_scratch(relaxation.smoother) { shape } else { Shape::new(1, 1, 1) };
        let mut s = (poison::<B, T>(backend, shape).0, poison::<B, T>(backend, scratch).1);
        for guess in [Guess::Zero, Guess::Given] {
            let mut u = match guess {
                Guess::Zero => poison::<B, T>(backend, shape),
                Guess::Given => (x.0.clone(), send(backend, &x.0)),
            };
            both!(*expected, *tested => |on, f, u, s| on.smooth(Sweep::new(relaxation, guess, f, u, s)));
            let scale = 10.0 * largest(&u.0, 0.0);
            compare_at_scale(backend, &u.1, &u.0, scale, &what(&format!("smooth {relaxation:?} {guess:?}")));
        }
    }
}

/// Checks one sweep in either order with the restriction of the residual. The right-hand side is A x, which vanishes where rows
/// do.
fn sweeps_with_restriction<B: Supports<Diffusion>, T: Real>(
    backend: &B,
    tested: &dyn Transfer<B, T>,
    expected: &dyn Transfer<Reference, T>,
    x: &mut Vector<T>,
    what: &dyn Fn(&str) -> String,
) {
    let (shape, coarse) = (expected.fine().layout().shape(), expected.coarse_layout().shape());
    let mut product = ok(Reference.zeros::<T>(expected.fine().layout()));
    ok(expected.fine().apply(x, &mut product));
    let on_product = send(backend, &product);
    let (mut f, mut s) = ((product, on_product), poison::<B, T>(backend, shape));
    for relaxation in sweeps_of_lines() {
        let mut u = poison::<B, T>(backend, shape);
        // The second sweep continues from the first.
        for guess in [Guess::Zero, Guess::Given] {
            let mut coarse_f = poison::<B, T>(backend, coarse);
            both!(*expected, *tested => |on, f, u, s, coarse_f| {
                on.smooth_residual_restrict(Sweep::new(relaxation, guess, f, u, s), coarse_f)
            });
            let step = format!("smooth_residual_restrict {relaxation:?} {guess:?}");
            // A nearly decoupled column amplifies rounding as much as its right-hand side.
            let slack = 100.0 * (largest(&u.0, 0.0) / largest(x, 0.0)).clamp(1.0, 1e5);
            compare_at_scale(backend, &u.1, &u.0, slack * largest(&u.0, 0.0), &what(&step));
            // Residuals are differences of terms that are larger than the right-hand side.
            compare_at_scale(backend, &coarse_f.1, &coarse_f.0, slack * largest(&f.0, 0.0), &what(&step));
        }
    }
}
