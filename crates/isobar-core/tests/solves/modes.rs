//! Vertical modes: their definition, their convergence, and unsupported input.

use isobar_core::conformance::arrays::{self, distance, noise};
use isobar_core::grid::HorizontalField;
use isobar_core::prelude::*;
use isobar_core::stencil::VerticalModes;

fn helmholtz(geometry: Geometry, nx: usize, ny: usize, nz: usize) -> TensorProduct {
    let grid = GridOptions { geometry, nx, ny, nz, ..GridOptions::default() };
    Helmholtz { grid, ..Helmholtz::default() }.stencil().unwrap()
}

/// Makes any profile with couplings of one sign.
fn profile(layers: usize, seed: u64) -> VerticalProfile {
    let positive = |which: u64, n: usize| 10f64.powf(3.0 * random(seed + which, n));
    let coupling: Vec<f64> = (1..layers).map(|k| -positive(0, k)).collect();
    VerticalProfile::new(
        (0..layers).map(|k| positive(1, k)).collect(),
        coupling.iter().copied().chain([0.0]).collect(),
        [0.0].into_iter().chain(coupling.iter().copied()).collect(),
        (0..layers).map(|k| -positive(2, k)).collect(),
    )
    .unwrap()
}

/// Computes V x.
fn apply(profile: &VerticalProfile, x: &[f64]) -> Vec<f64> {
    let VerticalProfile { a, b, c, .. } = profile;
    let n = x.len();
    (0..n)
        .map(|k| {
            let above = if k + 1 < n { b[k] * (x[k + 1] - x[k]) } else { 0.0 };
            let below = if k > 0 { c[k] * (x[k - 1] - x[k]) } else { 0.0 };
            a[k] * x[k] + above + below
        })
        .collect()
}

/// Checks V s = μ D s, Sᵀ D S = 1, in ascending order.
#[track_caller]
fn assert_modes(profile: &VerticalProfile, slack: f64) -> VerticalModes {
    let modes = VerticalModes::new(profile).unwrap();
    let layers = profile.len();
    assert_eq!((modes.count(), modes.layers()), (layers, layers));
    assert!(modes.values().is_sorted() && modes.values()[0] >= 0.0);
    let dot = |x: &[f64], y: &[f64]| -> f64 { x.iter().zip(y).map(|(x, y)| x * y).sum() };
    let weighted = |x: &[f64]| -> Vec<f64> { x.iter().zip(&profile.d).map(|(x, d)| -d * x).collect() };
    let largest = modes.values()[layers - 1];
    for m in 0..layers {
        for n in 0..layers {
            let unit = dot(modes.vector(m), &weighted(modes.vector(n)));
            assert!((unit - f64::from(u8::from(m == n))).abs() < 1e-12 * layers as f64, "{m} {n}: {unit}");
            let energy = dot(modes.vector(m), &apply(profile, modes.vector(n)));
            let expected = if m == n { modes.values()[m] } else { 0.0 };
            assert!((energy - expected).abs() <= slack * largest, "{m} {n}: {energy} instead of {expected}");
        }
    }
    modes
}

#[test]
fn modes_diagonalise_the_vertical_operator() {
    for layers in [1, 2, 3, 4, 7, 32, 65] {
        for seed in 0..3 {
            assert_modes(&profile(layers, 100 * seed), 1e-12);
        }
        for geometry in [Geometry::Panel, Geometry::Box] {
            assert_modes(helmholtz(geometry, 4, 4, layers).vertical(), 1e-12);
        }
    }
}

#[test]
fn equal_eigenvalues() {
    let profile = VerticalProfile::new(vec![3.0; 6], vec![0.0; 6], vec![0.0; 6], vec![-2.0; 6]).unwrap();
    let modes = assert_modes(&profile, 1e-14);
    assert!(modes.values().iter().all(|mu| (mu - 1.5).abs() < 1e-14));
}

/// With Neumann sides everywhere the constant has μ = 0, also for layers 10⁶ times thinner than others.
#[test]
fn the_smallest_is_known_however_thin_layers_are() {
    let thickness: Vec<f64> = (0..64).map(|k| 10f64.powf(-6.0 + 6.0 * f64::from(k) / 63.0)).collect();
    let coupling: Vec<f64> = thickness.windows(2).map(|pair| -2.0 / (pair[0] + pair[1])).collect();
    let with_mass = |mass: f64| {
        VerticalProfile::new(
            thickness.iter().map(|t| mass * t).collect(),
            coupling.iter().copied().chain([0.0]).collect(),
            [0.0].into_iter().chain(coupling.iter().copied()).collect(),
            thickness.iter().map(|t| -t).collect(),
        )
        .unwrap()
    };
    // A mass is added to every eigenvalue: the smallest is the mass.
    let modes = VerticalModes::new(&with_mass(1.0)).unwrap();
    assert!((modes.values()[0] - 1.0).abs() < 1e-8, "{:e}", modes.values()[0] - 1.0);
    let singular = VerticalModes::new(&with_mass(0.0)).unwrap();
    assert!(singular.values()[0] < 1e-12 * modes.values()[1], "{:e}", singular.values()[0]);
}

fn solve(stencil: &TensorProduct, options: &SolverOptions, b: &[f64]) -> (Outcome, Vec<f64>) {
    arrays::solve(&Reference, stencil, options, b)
}

fn by_modes(count: Count, tolerance: f64) -> SolverOptions {
    let modes = ModesOptions { count, ..ModesOptions::default() };
    SolverOptions { method: Method::Modes, modes, tolerance, ..SolverOptions::default() }
}

fn random_rhs(shape: Shape) -> Vec<f64> {
    noise(shape.cells(), 7)
}

#[test]
fn one_iteration_reaches_a_usual_tolerance() {
    for (geometry, nx, ny, nz) in [(Geometry::Panel, 48, 48, 32), (Geometry::Box, 32, 40, 16)] {
        let stencil = helmholtz(geometry, nx, ny, nz);
        for b in [random_rhs(stencil.shape()), vec![1.0; stencil.shape().cells()]] {
            let (outcome, _) = solve(&stencil, &by_modes(Count::Auto, 1e-5), &b);
            assert!(outcome.converged() && outcome.iterations == 1, "{outcome:?}");
            let (outcome, _) = solve(&stencil, &by_modes(Count::Auto, 1e-9), &b);
            assert!(outcome.converged() && outcome.iterations <= 2, "{outcome:?}");
        }
    }
}

#[test]
fn the_same_answer_as_multigrid_on_any_grid() {
    for (nx, ny, nz) in [(1, 1, 1), (1, 1, 7), (2, 3, 1), (5, 1, 4), (7, 5, 10), (17, 3, 2), (33, 17, 3), (12, 12, 12)]
    {
        let columns = HorizontalField::laplacian(&GridOptions { nx, ny, nz, ..GridOptions::default() }).unwrap();
        let random_profile = TensorProduct::new(profile(nz, 3), columns).unwrap();
        // In a general profile all modes may be equally hard, so that one may not suffice.
        let few = [vec![Count::Auto, Count::Given(1), Count::Given(nz)], vec![Count::Auto, Count::Given(nz)]];
        for (stencil, counts) in [helmholtz(Geometry::Panel, nx, ny, nz), random_profile].iter().zip(few) {
            let b = random_rhs(stencil.shape());
            let tight = SolverOptions { tolerance: 1e-10, ..SolverOptions::default() };
            let (expected, u) = solve(stencil, &SolverOptions { method: Method::Multigrid, ..tight }, &b);
            assert!(expected.converged(), "{expected:?}");
            for count in counts {
                let (outcome, v) = solve(stencil, &by_modes(count, 1e-10), &b);
                assert!(outcome.converged(), "{nx}×{ny}×{nz} {count:?}: {outcome:?}");
                let apart = distance(&v, &u);
                assert!(apart <= 1e-6, "{nx}×{ny}×{nz} {count:?}: {apart:e}");
            }
        }
    }
}

/// With all modes nothing is left for sweeps: the accuracy is that of the two-dimensional problems.
#[test]
fn all_modes_are_exact() {
    let stencil = helmholtz(Geometry::Panel, 24, 20, 6);
    let b = random_rhs(stencil.shape());
    let modes = ModesOptions { count: Count::Given(6), cycles: Count::Given(30), sweeps: Count::Given(1) };
    let options = SolverOptions { modes, ..by_modes(Count::Auto, 1e-12) };
    let (outcome, _) = solve(&stencil, &options, &b);
    assert!(outcome.converged() && outcome.iterations == 1, "{outcome:?}");
}

/// The factor of a sweep is max (α_T/(α_T + μ|T|))² for the first mode that is not solved for.
#[test]
fn sweeps_converge_at_least_at_the_rate_that_is_said() {
    // Weak vertical couplings, so that the factor is not negligible.
    let grid = GridOptions { geometry: Geometry::Box, nx: 24, ny: 24, nz: 12, ..GridOptions::default() };
    let stencil = TensorProduct::helmholtz(&grid, 0.1, 0.1).unwrap();
    let (modes, ratio) = (stencil.modes().unwrap(), stencil.largest_ratio());
    for count in [1, 2, 4] {
        let rate = (ratio / (ratio + modes.values()[count])).powi(2);
        assert!(rate > 1e-2, "{count}: {rate}");
        let options = ModesOptions { count: Count::Given(count), cycles: Count::Given(20), sweeps: Count::Given(2) };
        let options = SolverOptions { modes: options, ..by_modes(Count::Auto, 1e-12) };
        let (outcome, _) = solve(&stencil, &options, &random_rhs(stencil.shape()));
        assert!(outcome.converged(), "{outcome:?}");
        // The factor holds for every sweep only in another norm.
        let (times, last) = (outcome.iterations - 1, outcome.history[outcome.iterations]);
        let reduction = (last / outcome.history[1]).powf(1.0 / times as f64);
        assert!(reduction <= 1.1 * rate.powi(2), "{count}: {reduction:e} {rate} {:?}", outcome.history);
    }
}

/// Advection upwards and across has no modes of its own, but those of its symmetric part are close enough.
#[test]
fn modes_precondition_what_only_nearly_has_any() {
    let grid = GridOptions { nx: 24, ny: 20, nz: 16, ..GridOptions::default() };
    let omega = 8.4 / 24.0;
    let symmetric = TensorProduct::helmholtz(&grid, omega, 0.1).unwrap();
    let advected = symmetric.clone().with_advection(omega, |_, _| (0.5, -0.3), 0.2).unwrap();
    for (stencil, method) in [(symmetric, Method::Cg), (advected, Method::Bicgstab)] {
        let b = random_rhs(stencil.shape());
        let iterations = |preconditioner| {
            let options = SolverOptions { method, preconditioner, tolerance: 1e-8, ..SolverOptions::default() };
            let (outcome, u) = solve(&stencil, &options, &b);
            assert!(outcome.converged(), "{preconditioner:?}: {outcome:?}");
            (outcome.iterations, u)
        };
        let ((lines, expected), (modes, u)) = (iterations(Preconditioner::Line), iterations(Preconditioner::Modes));
        assert!(2 * modes < lines, "{modes} instead of {lines}");
        assert!(distance(&u, &expected) <= 1e-5);
    }
}

/// Cycles, modes, and multigrid around them do not help where advection outweighs diffusion between cells; lines do.
#[test]
fn strong_advection_is_solved_for_by_default() {
    for advection in [[20.0, 0.0, 0.0], [150.0, 0.0, 0.0], [50.0, 50.0, 0.0]] {
        let grid = GridOptions { nx: 40, ny: 40, nz: 32, ..GridOptions::default() };
        let stencil = Helmholtz { grid, advection, ..Helmholtz::default() }.stencil().unwrap();
        let b = random_rhs(stencil.shape());
        let options = SolverOptions { tolerance: 1e-8, ..SolverOptions::default() };
        let (outcome, u) = solve(&stencil, &options, &b);
        assert!(outcome.converged(), "{advection:?}: {outcome:?}");
        let (method, preconditioner) = (Method::Bicgstab, Preconditioner::Line);
        let (_, expected) = solve(&stencil, &SolverOptions { method, preconditioner, ..options }, &b);
        assert!(distance(&u, &expected) <= 1e-5, "{advection:?}");
    }
    let refused = Helmholtz { advection: [3000.0, 0.0, 0.0], ..Helmholtz::default() }.stencil().unwrap_err();
    assert!(refused.to_string().contains("reduce it (problem.advection)"), "{refused}");
}

#[test]
fn what_has_no_modes_is_refused() {
    let new = |a: Vec<f64>, b: f64, c: f64, d: Vec<f64>| {
        VerticalModes::new(&VerticalProfile::new(a, vec![b, 0.0], vec![0.0, c], d).unwrap()).map(|_| ())
    };
    let message = |result: isobar_core::Result<()>| result.unwrap_err().to_string();
    let indefinite = message(new(vec![1.0, -5.0], -1.0, -1.0, vec![-1.0; 2]));
    assert!(indefinite.contains("positive semi-definite") && indefinite.contains("layer 1"), "{indefinite}");
    assert!(message(new(vec![1.0; 2], -1.0, -2.0, vec![-1.0; 2])).contains("symmetric"));
    assert!(message(new(vec![1.0; 2], -1.0, -1.0, vec![-1.0, 0.0])).contains("layer 1"));
    assert!(new(vec![0.0; 2], -1.0, -1.0, vec![-1.0; 2]).is_ok());

    let stencil = helmholtz(Geometry::Panel, 8, 8, 4);
    let refused = |options: &SolverOptions| match System::new(&Reference, &stencil, options) {
        Ok(_) => panic!("{options:?} is taken"),
        Err(error) => error.to_string(),
    };
    let message = refused(&by_modes(Count::Given(5), 1e-5));
    assert!(message.contains("5 modes") && message.contains("4 layers"), "{message}");
    assert!(refused(&by_modes(Count::Given(0), 1e-5)).contains("0 modes"));
    for smoother in [Smoother::PointRedBlack, Smoother::PointLine] {
        let mut options = by_modes(Count::Auto, 1e-5);
        options.multigrid.smoother = smoother;
        let message = refused(&options);
        assert!(message.contains(smoother.name()) && message.contains("line-red-black"), "{message}");
    }
}

/// A basin without flow through its sides: layers that thicken by 1 : 20, areas and faces that differ by 30 %, and a little mass or none.
fn basin([nx, ny, nz]: [usize; 3], mass: f64) -> TensorProduct {
    let around_one = |len: usize, seed| noise(len, seed).iter().map(|x| (0.3 * x).exp()).collect::<Vec<_>>();
    let [mut x, mut y] = [((nx + 1) * ny, 1), (nx * (ny + 1), 2)].map(|(len, seed)| around_one(len, seed));
    x.iter_mut().enumerate().for_each(|(n, x)| *x *= if n % (nx + 1) % nx == 0 { 0.0 } else { (nx * nx) as f64 });
    y.iter_mut().enumerate().for_each(|(n, y)| *y *= if n / nx % ny == 0 { 0.0 } else { (ny * ny) as f64 });
    let horizontal = HorizontalField::from_faces(nx, ny, around_one(nx * ny, 3), &x, &y).unwrap();
    let thickness: Vec<f64> = (0..nz).map(|k| 1.0 + 19.0 * k as f64 / (nz - 1) as f64).collect();
    let total: f64 = thickness.iter().sum();
    let thickness: Vec<f64> = thickness.iter().map(|dz| dz / total).collect();
    let between: Vec<f64> = thickness.windows(2).map(|pair| -2.0 / (pair[0] + pair[1])).collect();
    let above = between.iter().copied().chain([0.0]).collect();
    let below = [0.0].into_iter().chain(between.iter().copied()).collect();
    let of = |factor: f64| thickness.iter().map(|dz| factor * dz).collect();
    TensorProduct::new(VerticalProfile::new(of(mass), above, below, of(-1.0)).unwrap(), horizontal).unwrap()
}

/// Where cycles or modes are slow or fail, a Krylov method around them continues.
#[test]
fn automatic_solves_of_closed_basins_converge() {
    let mut replaced = 0;
    for (shape, mass) in
        [([16, 16, 16], 0.0), ([8, 8, 4], 0.0), ([23, 17, 16], 1e-4), ([16, 16, 4], 1e-8), ([8, 8, 8], 1e-10)]
    {
        let stencil = basin(shape, mass);
        let options = SolverOptions { tolerance: 1e-8, norm: Norm::Rhs, ..SolverOptions::default() };
        let product = {
            let mut system = System::new(&Reference, &stencil, &options).unwrap();
            let u = noise(stencil.shape().cells(), 5);
            let mut b = vec![0.0; u.len()];
            let view = ArrayView::c_order(&u, stencil.shape()).unwrap();
            system.apply(view.into(), ArrayViewMut::c_order(&mut b, stencil.shape()).unwrap().into()).unwrap();
            b
        };
        let (outcome, _) = solve(&stencil, &options, &product);
        assert!(outcome.converged() && outcome.iterations <= 60, "{shape:?} {mass:e}: {outcome:?}");
        replaced += usize::from(outcome.notes.iter().any(|note| note.contains("continued with cg")));
    }
    assert!(replaced > 0);
}

/// An update that has no vertical modes keeps the old matrix, or changes the method where that was left open.
#[test]
fn an_update_without_modes_is_refused_or_changes_the_method() {
    let first = helmholtz(Geometry::Panel, 24, 20, 8);
    let VerticalProfile { a, b, c, mut d } = first.vertical().clone();
    d[2] = 0.0;
    let second = TensorProduct::new(VerticalProfile::new(a, b, c, d).unwrap(), first.horizontal().clone()).unwrap();
    let rhs = random_rhs(first.shape());
    for asked in [
        by_modes(Count::Auto, 1e-8),
        SolverOptions { preconditioner: Preconditioner::Modes, method: Method::Cg, ..by_modes(Count::Auto, 1e-8) },
    ] {
        let mut system = System::new(&Reference, &first, &asked).unwrap();
        let (_, before) = arrays::solve_by(&mut system, first.shape(), &rhs);
        let refused = system.update(&second).unwrap_err().to_string();
        assert!(refused.contains("d < 0"), "{refused}");
        let (outcome, after) = arrays::solve_by(&mut system, first.shape(), &rhs);
        assert!(outcome.converged() && before == after);
    }
    let open = SolverOptions { tolerance: 1e-8, ..SolverOptions::default() };
    let mut system = System::new(&Reference, &first, &open).unwrap();
    assert_eq!(system.description().method, "modes");
    system.update(&second).unwrap();
    assert_ne!(system.description().method, "modes");
    let (outcome, u) = arrays::solve_by(&mut system, first.shape(), &rhs);
    let (_, expected) = solve(&second, &SolverOptions { method: Method::Multigrid, ..open }, &rhs);
    assert!(outcome.converged() && distance(&u, &expected) <= 1e-6);
}

/// Modes are chosen where sides are closed, beside which cycles on the whole grid leave much.
#[test]
fn closed_sides_are_left_to_modes() {
    let [nx, ny, nz] = [40, 33, 12];
    let (mut x, mut y) = (vec![1.0; (nx + 1) * ny], vec![1.0; nx * (ny + 1)]);
    (0..ny).for_each(|j| (x[j * (nx + 1)], x[j * (nx + 1) + nx]) = (0.0, 0.0));
    (0..nx).for_each(|i| (y[i], y[i + nx * ny]) = (0.0, 0.0));
    let area = (0..nx * ny).map(|n| 1.05 + 0.05 * random(1, n)).collect();
    let horizontal = HorizontalField::from_faces(nx, ny, area, &x, &y).unwrap();
    let (mut b, mut c) = (vec![-1.0; nz], vec![-1.0; nz]);
    (b[nz - 1], c[0]) = (0.0, 0.0);
    for ratio in [0.1, 1.0, 30.0, 100.0] {
        let vertical = VerticalProfile::new(vec![1e-3; nz], b.clone(), c.clone(), vec![-ratio; nz]).unwrap();
        let stencil = TensorProduct::new(vertical, horizontal.clone()).unwrap();
        let options = SolverOptions { tolerance: 1e-8, ..SolverOptions::default() };
        let mut system = System::new(&Reference, &stencil, &options).unwrap();
        assert_eq!(system.description().method, "modes", "{ratio}");
        let (outcome, _) = arrays::solve_by(&mut system, Stencil::shape(&stencil), &noise(nx * ny * nz, 1));
        assert!(outcome.converged() && outcome.iterations <= 60, "{ratio}: {:?} {}", outcome.stop, outcome.iterations);
    }
}

#[test]
fn entries_of_extreme_size_are_refused() {
    let stencil = helmholtz(Geometry::Box, 6, 5, 4);
    for (factor, is_refused) in [(1e-90, false), (1e90, false), (1e-160, true), (1e160, true)] {
        let VerticalProfile { a, b, c, d } = stencil.vertical();
        let [a, b, c, d] = [a, b, c, d].map(|values| values.iter().map(|x| factor * x).collect());
        let made = TensorProduct::new(VerticalProfile::new(a, b, c, d).unwrap(), stencil.horizontal().clone());
        assert_eq!(made.is_err_and(|error| error.to_string().contains("largest entry")), is_refused, "{factor:e}");
    }
}

/// BiCGStab from the iterate of slow cycles may stall, as its shadow residual is that iterate's; it begins anew then.
#[test]
fn what_stalls_begins_anew() {
    for seed in 0..30 {
        let of = |which: u64, n: usize| 10f64.powf(1.5 * random(100 * seed + which, n));
        let [nx, ny, nz] = [5, 12, 10];
        let all = |which: u64, count: usize| (0..count).map(|n| of(which, n)).collect::<Vec<f64>>();
        let negative = |which: u64| all(which, nz).into_iter().map(|value| -value).collect::<Vec<f64>>();
        let [mut b, mut c] = [negative(0), negative(1)];
        (b[nz - 1], c[0]) = (0.0, 0.0);
        let vertical = VerticalProfile::new(vec![1e-5; nz], b, c, negative(2)).unwrap();
        let [mut x, mut y] = [all(3, (nx + 1) * ny), all(4, nx * (ny + 1))];
        (0..ny).for_each(|j| (x[j * (nx + 1)], x[j * (nx + 1) + nx]) = (0.0, 0.0));
        (0..nx).for_each(|i| (y[i], y[i + nx * ny]) = (0.0, 0.0));
        let horizontal = HorizontalField::from_faces(nx, ny, vec![1.0; nx * ny], &x, &y).unwrap();
        let stencil = TensorProduct::new(vertical, horizontal).unwrap();
        let shape = Shape::new(nx, ny, nz);
        let options = SolverOptions { tolerance: 1e-6, ..SolverOptions::default() };
        let mut system = System::new(&Reference, &stencil, &options).unwrap();
        let (wanted, mut b) = (noise(shape.cells(), seed), vec![0.0; shape.cells()]);
        let target = ArrayViewMut::c_order(&mut b, shape).unwrap();
        system.apply(ArrayView::c_order(&wanted, shape).unwrap().into(), target.into()).unwrap();
        let (outcome, _) = arrays::solve_by(&mut system, shape, &b);
        assert!(outcome.converged(), "{seed}: {outcome:?}");
    }
}
