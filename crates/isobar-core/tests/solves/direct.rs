//! Direct solves of separable boxes: every pair of sides an axis, spacings, layers, singular boxes, refused matrices.

use isobar_core::conformance::arrays::{self, cg, norm, residual, solve_by, without_mean};
use isobar_core::conformance::direct::SIDES;
use isobar_core::grid::HorizontalField;
use isobar_core::prelude::*;

fn options(tolerance: f64) -> SolverOptions {
    SolverOptions { method: Method::Direct, tolerance, norm: Norm::Rhs, ..SolverOptions::default() }
}

/// Returns widths of cells, uniform or stretched by a factor in all.
fn widths(n: usize, stretching: f64) -> Vec<f64> {
    (0..n).map(|i| 0.7 * stretching.powf(i as f64 / n as f64)).collect()
}

/// A box with these widths, sides, coefficients by layer of an axis, and an optional reaction.
struct Case {
    widths: [Vec<f64>; 3],
    sides: [[Side; 2]; 3],
    layered: usize,
    kappa: [Vec<f64>; 3],
    reaction: Option<Vec<f64>>,
}

impl Case {
    /// A box of κ = 1.
    fn plain(widths: [Vec<f64>; 3], sides: [[Side; 2]; 3]) -> Self {
        let kappa = [0, 1, 2].map(|_| vec![1.0; widths[2].len()]);
        Self { widths, sides, layered: 2, kappa, reaction: None }
    }

    fn shape(&self) -> Shape {
        let [x, y, z] = &self.widths;
        Shape::new(x.len(), y.len(), z.len())
    }

    fn stencil(&self) -> Diffusion {
        let shape = self.shape();
        let of = |value: &dyn Fn([usize; 3]) -> f64| shape.places().map(value).collect::<Vec<f64>>();
        let width = |d: usize, at: [usize; 3]| self.widths[d][at[d]];
        let volume = |at: [usize; 3]| width(0, at) * width(1, at) * width(2, at);
        let fields = (0..3)
            .map(|d| of(&|at| 2.0 * self.kappa[d][at[self.layered]] * volume(at) / width(d, at).powi(2)).into())
            .collect();
        let shift = self.reaction.as_ref().map(|c| of(&|at| c[at[self.layered]] * volume(at)));
        let axes = [(0, 1.0), (1, 1.0), (2, 1.0)];
        Diffusion::new(shape, Coefficients::Cells { fields, axes }, shift, self.sides).unwrap()
    }
}

/// Multiplies the coefficients of every field and cell by a factor.
fn scaled(stencil: &Diffusion, factor: impl Fn(usize, usize) -> f64) -> Diffusion {
    let Coefficients::Cells { fields, axes } = stencil.coefficients() else { unreachable!() };
    let scaled = |(field, values): (usize, &std::sync::Arc<[f64]>)| {
        values.iter().enumerate().map(|(n, h)| h * factor(field, n)).collect()
    };
    let cells = Coefficients::Cells { fields: fields.iter().enumerate().map(scaled).collect(), axes: *axes };
    let shift = stencil.stored_shift().map(<[f64]>::to_vec);
    Diffusion::new(Stencil::shape(stencil), cells, shift, stencil.sides()).unwrap()
}

/// Returns a right-hand side with a solution for every box.
fn noise(shape: Shape, is_singular: bool) -> Vec<f64> {
    let b: Vec<f64> = (0..shape.cells()).map(|n| random(11, n) - 0.5).collect();
    if is_singular { without_mean(b) } else { b }
}

/// Solves a case to nearly all digits, without refinement where none should be needed.
fn check(case: &Case, tolerance: f64, most: usize) {
    let (stencil, shape) = (case.stencil(), case.shape());
    let is_singular = !case.sides.as_flattened().contains(&Side::Fixed) && case.reaction.is_none();
    let b = noise(shape, is_singular);
    let (outcome, u) = arrays::solve(&Reference, &stencil, &options(tolerance), &b);
    let what = format!("{shape} {:?} layered in {}: {outcome:?}", case.sides, case.layered);
    if norm(&b) > 1e-12 {
        assert_eq!(outcome.stop, Stop::Converged, "{what}");
        assert!(outcome.iterations <= most, "{what}");
        assert!(residual(&stencil, &b, &u) <= 1.01 * tolerance, "{what}");
    }
    if is_singular {
        let mean = u.iter().sum::<f64>() / u.len() as f64;
        let largest = u.iter().fold(1e-300f64, |most, u| most.max(u.abs()));
        assert!(mean.abs() <= 1e-12 * largest, "{mean:e} {what}");
    }
}

#[test]
fn every_pair_of_sides_is_solved_at_once() {
    for (n, extents) in
        [[6, 5, 4], [7, 1, 3], [1, 6, 1], [2, 2, 2], [4, 3, 1], [1, 1, 5], [1, 1, 1]].into_iter().enumerate()
    {
        for (a, x) in SIDES.into_iter().enumerate() {
            for (b, y) in SIDES.into_iter().enumerate() {
                let z = SIDES[(a + b + n) % SIDES.len()];
                for stretching in [1.0, 30.0] {
                    check(&Case::plain(extents.map(|n| widths(n, stretching)), [x, y, z]), 1e-11, 1);
                }
            }
        }
    }
}

#[test]
fn layers_are_solved_along_their_axis() {
    for layered in 0..3 {
        for sides in SIDES {
            for contrast in [1.0, 1e6, 1e12f64] {
                let extents = [6, 5, 7];
                let kappa = [0, 1, 2].map(|d: u64| {
                    (0..extents[layered]).map(|k| contrast.powf(0.5 * random(d, k))).collect::<Vec<f64>>()
                });
                let reaction = (0..extents[layered]).map(|k| 0.1 * (1.1 + random(9, k))).collect();
                let widths = extents.map(|n| widths(n, 3.0));
                let mut all = [SIDES[1], SIDES[0], SIDES[3]];
                all[layered] = sides;
                check(&Case { widths, sides: all, layered, kappa, reaction: Some(reaction) }, 1e-9, 2);
            }
        }
    }
}

#[test]
fn strong_stretching_keeps_all_digits() {
    for stretching in [1e2, 1e6] {
        let widths = [40, 36, 32].map(|n| widths(n, stretching));
        check(&Case::plain(widths, [SIDES[0], SIDES[0], SIDES[1]]), 1e-9, 2);
    }
}

/// A reaction of 10⁻¹⁷ of the couplings, uniform and not, alone determines the constant.
#[test]
fn a_small_reaction_determines_the_constant() {
    for layers in [[1.0; 6], [1.0, 2.0, 0.5, 1.0, 3.0, 1.0]] {
        let widths = [10, 8, 6].map(|n| vec![1.0; n]);
        let case = Case { reaction: Some(layers.map(|c| 1e-17 * c).to_vec()), ..Case::plain(widths, [SIDES[0]; 3]) };
        let (stencil, shape) = (case.stencil(), case.shape());
        let mut system = System::new(&Reference, &stencil, &options(1e-8)).unwrap();
        let b = vec![1.0; shape.cells()];
        let (_, u) = solve_by(&mut system, shape, &b);
        let total: f64 = layers.iter().map(|c| 80.0 * 1e-17 * c).sum();
        let expected = 480.0 / total;
        assert!(u.iter().all(|u| (u / expected - 1.0).abs() < 1e-12), "{} {expected}", u[0]);
    }
}

/// The Helmholtz equation of waves, −Δu − k² u = f, also with vanishing pivots (cells of width 1), and methods that do not suit
/// it.
#[test]
fn indefinite_boxes_are_solved_and_refined() {
    let with = |extents: [usize; 3], sides: [[Side; 2]; 3], c: f64| Case {
        reaction: Some(vec![c; extents[2]]),
        ..Case::plain(extents.map(|n| vec![1.0; n]), sides)
    };
    let case = |sides, c| with([6, 8, 10], sides, c);
    for sides in
        [[SIDES[0]; 3], [SIDES[1]; 3], [SIDES[4]; 3], [SIDES[2], SIDES[0], SIDES[4]], [SIDES[4], SIDES[4], SIDES[1]]]
    {
        for c in [-0.05, -0.37, -1.1, -2.3, -5.7, -13.0] {
            check(&case(sides, c), 1e-10, 4);
        }
    }
    // The first pivot of closed lines with cells of width 1 is 0 although the matrix has no such eigenvalue.
    check(&with([1, 1, 11], [SIDES[0]; 3], -1.0), 1e-10, 4);
    let shape = Shape::new(6, 8, 10);
    let new = |case: &Case, options: &SolverOptions| System::new(&Reference, &case.stencil(), options);
    // −4 is an eigenvalue of the axis of 6 periodic cells.
    let singular = case([SIDES[4], SIDES[0], SIDES[0]], -4.0);
    let message = new(&singular, &options(1e-8)).err().unwrap().to_string();
    assert!(message.contains("eigenvalue that vanishes"), "{message}");
    // No iteration accepts it; an open choice solves it directly.
    let wave = case([SIDES[1]; 3], -1.1);
    for method in [Method::Cg, Method::Multigrid, Method::Bicgstab, Method::Jacobi] {
        let message = new(&wave, &SolverOptions { method, ..options(1e-8) }).err().unwrap().to_string();
        assert!(message.contains("negative in cell (i, j, k) = (0, 0, 0)"), "{message}");
    }
    let problem = DiffusionProblem {
        reaction: Some(vec![-1.1; shape.cells()]),
        ..DiffusionProblem::new(shape, Coefficient::Isotropic(vec![1.0; shape.cells()]))
    };
    assert!(Heat::in_cells(&problem, None).unwrap_err().to_string().contains("negative"));
    let mut system = new(&wave, &SolverOptions { method: Method::Auto, ..options(1e-8) }).unwrap();
    assert_eq!(system.description().method, "direct");
    // From definite to indefinite and back, also where the reaction is the only shift.
    let b = noise(shape, false);
    for (sides, c) in [([SIDES[1]; 3], 0.5), ([SIDES[1]; 3], -1.1), ([SIDES[1]; 3], 0.1)] {
        let stencil = case(sides, c).stencil();
        system.update(&stencil).unwrap();
        let (outcome, u) = solve_by(&mut system, shape, &b);
        assert!(outcome.converged() && residual(&stencil, &b, &u) < 1e-8, "{c}: {outcome:?}");
    }
}

/// Several hundred cells whose widths grow by a million, with equally many eigenvectors; the residual's own rounding is 10⁻⁹ here.
#[test]
fn long_stretched_axes_keep_all_digits() {
    let widths = [384, 1, 200].map(|n| widths(n, 1e6));
    for sides in [[SIDES[0]; 3], [SIDES[1], SIDES[0], SIDES[2]]] {
        check(&Case::plain(widths.clone(), sides), 1e-7, 2);
    }
}

#[test]
fn a_box_of_the_atmosphere_is_solved() {
    let (nx, ny, nz) = (6, 5, 8);
    let profile = VerticalProfile::new(
        (0..nz).map(|k| 0.2 + 0.1 * k as f64).collect(),
        (0..nz).map(|k| if k + 1 < nz { -1.0 - 0.3 * k as f64 } else { 0.0 }).collect(),
        (0..nz).map(|k| if k > 0 { -1.0 - 0.3 * (k - 1) as f64 } else { 0.0 }).collect(),
        (0..nz).map(|k| -0.5 - 0.1 * k as f64).collect(),
    )
    .unwrap();
    let inside = |is_inside: bool| if is_inside { 1.5 } else { 0.0 };
    let cells = || (0..nx * ny).map(|n| (n % nx, n / nx));
    let field = HorizontalField {
        nx,
        ny,
        area: vec![1.0; nx * ny],
        west: cells().map(|(i, _)| inside(i > 0)).collect(),
        east: cells().map(|(i, _)| inside(i + 1 < nx)).collect(),
        south: cells().map(|(_, j)| inside(j > 0)).collect(),
        north: cells().map(|(_, j)| inside(j + 1 < ny)).collect(),
        // Values half a cell away couple twice as strongly as a neighbour.
        total: cells().map(|(i, j)| 6.0 + inside(i == 0 || i + 1 == nx) + inside(j == 0 || j + 1 == ny)).collect(),
    };
    let stencil = TensorProduct::new(profile, field).unwrap();
    let shape = Shape::new(nx, ny, nz);
    let mut system = System::new(&Reference, &stencil, &options(1e-12)).unwrap();
    let (outcome, _) = solve_by(&mut system, shape, &noise(shape, false));
    assert_eq!((outcome.stop, outcome.iterations), (Stop::Converged, 1), "{outcome:?}");
    let notes = &system.description().notes;
    assert!(notes.iter().any(|note| note.contains("sine transform along x")), "{notes:?}");
}

#[test]
fn new_coefficients_take_the_place_of_old_ones() {
    let case = |scale: f64| Case {
        widths: [6, 4, 5].map(|n| widths(n, 2.0)),
        sides: [SIDES[1], SIDES[0], SIDES[0]],
        layered: 2,
        kappa: [0, 1, 2].map(|d: u64| (0..5).map(|k| scale * (1.5 + random(d, k))).collect()),
        reaction: Some(vec![0.1 * scale * scale; 5]),
    };
    let (first, second) = (case(1.0), case(3.0));
    let (shape, b) = (first.shape(), noise(first.shape(), false));
    let mut system = System::new(&Reference, &first.stencil(), &options(1e-11)).unwrap();
    assert!(solve_by(&mut system, shape, &b).0.converged());
    system.update(&second.stencil()).unwrap();
    let (outcome, u) = solve_by(&mut system, shape, &b);
    assert_eq!((outcome.stop, outcome.iterations), (Stop::Converged, 1), "{outcome:?}");
    assert!(residual(&second.stencil(), &b, &u) < 1e-11);
    // A refused update changes nothing.
    let mut other = case(1.0);
    other.kappa[2][1] = 5.0;
    let rough = scaled(&other.stencil(), |field, n| if (field, n) == (0, 7) { 2.0 } else { 1.0 });
    let message = system.update(&rough).unwrap_err().to_string();
    assert!(message.contains("neighbours in x"), "{message}");
    let (outcome, u) = solve_by(&mut system, shape, &b);
    assert!(outcome.converged() && residual(&second.stencil(), &b, &u) < 1e-11);
}

/// An ocean basin: thin cells, a floor that rises, an island; conjugate gradients with the nearest box.
#[test]
fn the_nearest_box_preconditions_basins() {
    let shape = Shape::new(24, 20, 12);
    let floor = |i: usize, j: usize| {
        let island = (i as f64 - 15.0).hypot(j as f64 - 6.0) < 3.0;
        if island { 12 } else { 2 + (4.0 * (0.3 * i as f64).sin() * (0.25 * j as f64).cos()).max(0.0) as usize }
    };
    let cell = |n: usize| shape.place(n);
    for (sides, reaction) in [(SIDES[0], None), (SIDES[1], None), (SIDES[0], Some(1e-3))] {
        for thin in [1.0, 0.1, 0.01] {
            let open = |n: usize| f64::from(u8::from(cell(n)[2] >= floor(cell(n)[0], cell(n)[1])));
            let field = |factor: f64| (0..shape.cells()).map(|n| factor * open(n)).collect::<Vec<_>>().into();
            let shift = || reaction.map(|c| (0..shape.cells()).map(|n| c * open(n)).collect());
            let cells = Coefficients::Cells {
                fields: vec![field(thin), field(1.0 / thin)],
                axes: [(0, 2.0), (0, 2.0), (1, 2.0)],
            };
            let stencil = Diffusion::new(shape, cells, shift(), [SIDES[0], sides, SIDES[0]]).unwrap();
            let options = SolverOptions {
                tolerance: 1e-8,
                norm: Norm::Rhs,
                compatibility: Compatibility::Project,
                ..cg(Preconditioner::Direct)
            };
            let mut system = System::new(&Reference, &stencil, &options).unwrap();
            let b: Vec<f64> = (0..shape.cells()).map(|n| random(2, n) * open(n)).collect();
            let (outcome, _) = solve_by(&mut system, shape, &b);
            assert!(outcome.converged() && outcome.iterations <= 16, "{sides:?} {thin}: {outcome:?}");
        }
    }
}

/// Thin cells, mostly open: the box is tried, kept where it is fast, and replaced where there are too many obstacles.
#[test]
fn the_choice_tries_the_nearest_box() {
    let shape = Shape::new(24, 20, 12);
    let cell = |n: usize| shape.place(n);
    let basin = |n: usize| cell(n)[2] >= 2 && (cell(n)[0] as f64 - 15.0).hypot(cell(n)[1] as f64 - 6.0) > 3.0;
    let pores = |n: usize| random(5, n) > 0.7;
    let stencil = |is_open: &dyn Fn(usize) -> bool| {
        let field = |factor: f64| (0..shape.cells()).map(|n| if is_open(n) { factor } else { 0.0 }).collect::<Vec<_>>();
        let cells = Coefficients::Cells {
            fields: vec![field(0.1).into(), field(10.0).into()],
            axes: [(0, 2.0), (0, 2.0), (1, 2.0)],
        };
        Diffusion::new(shape, cells, None, [SIDES[1], SIDES[0], SIDES[0]]).unwrap()
    };
    let options = SolverOptions {
        tolerance: 1e-8,
        norm: Norm::Rhs,
        compatibility: Compatibility::Project,
        ..SolverOptions::default()
    };
    for (is_open, is_kept) in [(&basin as &dyn Fn(usize) -> bool, true), (&|n| !pores(n), false)] {
        let stencil = stencil(is_open);
        let mut system = System::new(&Reference, &stencil, &options).unwrap();
        assert_eq!(system.description().preconditioner, "direct");
        let notes = system.description().notes.join("; ");
        assert!(notes.contains("of the cells are open"), "{notes}");
        let b: Vec<f64> = (0..shape.cells()).map(|n| if is_open(n) { random(2, n) } else { 0.0 }).collect();
        for _ in 0..2 {
            let (outcome, u) = solve_by(&mut system, shape, &b);
            assert!(outcome.converged(), "{outcome:?}");
            assert!(residual(&stencil, &b, &u) <= 1.01e-8, "{outcome:?}");
        }
        let wanted = if is_kept { "direct" } else { "multigrid" };
        assert_eq!(system.description().preconditioner, wanted);
    }
}

/// Widths grow in two directions, one of them periodic, so that lines in no direction smooth everywhere: the box is tried for
/// coefficients that vary more than a box's do, and kept while it takes fewer iterations than multigrid.
#[test]
fn the_choice_tries_the_nearest_box_where_widths_grow_in_two_directions() {
    let shape = Shape::new(48, 40, 1);
    let waves = |n: usize| 1.0 + 0.9 * ((shape.place(n)[0] + shape.place(n)[1]) as f64 / 8.0).sin();
    let kappa = Coefficient::Isotropic((0..shape.cells()).map(waves).collect());
    let growing = |n: usize, most: f64| Spacing::Given((0..n).map(|m| most.powf(m as f64 / n as f64)).collect());
    let mut problem = DiffusionProblem::new(shape, kappa);
    problem.spacing = [growing(48, 100.0), growing(40, 300.0), Spacing::Uniform(1.0)];
    problem.boundary = [[Boundary::Dirichlet(0.0); 2], [Boundary::Periodic; 2], [Boundary::Neumann(0.0); 2]];
    let stencil = problem.stencil().unwrap();
    let b: Vec<f64> = (0..shape.cells()).map(|n| random(2, n)).collect();
    let options = SolverOptions { tolerance: 1e-8, norm: Norm::Rhs, ..SolverOptions::default() };
    let mut system = System::new(&Reference, &stencil, &options).unwrap();
    let notes = system.description().notes.join("; ");
    assert!(notes.contains("the strongest couplings changes over the grid"), "{notes}");
    let (outcome, u) = solve_by(&mut system, shape, &b);
    assert!(outcome.converged() && residual(&stencil, &b, &u) <= 1.01e-8, "{outcome:?}");
    assert!(outcome.iterations <= 60, "{outcome:?}");
    assert_eq!(system.description().preconditioner, "direct");
    let (outcome, _) = arrays::solve(
        &Reference,
        &stencil,
        &SolverOptions { tolerance: 1e-8, norm: Norm::Rhs, ..cg(Preconditioner::Multigrid) },
        &b,
    );
    assert!(outcome.iterations > 65, "{outcome:?}");
}

/// An open choice is a direct solve where possible, and changes with new coefficients.
#[test]
fn the_choice_takes_it_and_leaves_it() {
    let case = |kappa: f64| Case {
        widths: [6, 4, 5].map(|n| widths(n, 2.0)),
        sides: [SIDES[1], SIDES[0], SIDES[0]],
        layered: 2,
        kappa: [0, 1, 2].map(|_| vec![kappa; 5]),
        reaction: None,
    };
    let (first, second) = (case(1.0).stencil(), case(2.0).stencil());
    let rough = scaled(&first, |_, n| 1.5 + random(1, n));
    let options = SolverOptions { tolerance: 1e-10, norm: Norm::Rhs, ..SolverOptions::default() };
    let (shape, b) = (Stencil::shape(&first), noise(Stencil::shape(&first), false));
    let mut system = System::new(&Reference, &first, &options).unwrap();
    for (stencil, method) in [(&first, "direct"), (&second, "direct"), (&rough, "cg"), (&first, "direct")] {
        system.update(stencil).unwrap();
        let (outcome, u) = solve_by(&mut system, shape, &b);
        let (found, notes) = (&system.description().method, &system.description().notes);
        assert_eq!(found, method);
        assert_eq!(notes.iter().any(|note| note.contains("direct")), method == "direct", "{method}: {notes:?}");
        assert!(outcome.converged() && residual(stencil, &b, &u) < 1e-10, "{method}: {outcome:?}");
    }
    // A mask of whole layers is separable.
    let masked = scaled(&first, |_, n| if n / 24 == 2 { 0.0 } else { 1.0 });
    let system = System::new(&Reference, &masked, &options).unwrap();
    assert_eq!(system.description().method, "cg");
}

/// A solver whose coefficients change is as fast as a new one: on a stretched plane with a bubble that comes and goes it becomes upright, and direct
/// again.
#[test]
fn updates_change_the_choice() {
    let shape = Shape::new(40, 40, 1);
    let widths = widths(40, 60.0);
    let problem = |is_bubble: bool| {
        let inside = |[i, j, _]: [usize; 3]| (i as f64 - 20.0).hypot(j as f64 - 15.0) < 7.0;
        let kappa = |n: usize| if is_bubble && inside(shape.place(n)) { 1e3 } else { 1.0 };
        let mut problem = DiffusionProblem::new(shape, Coefficient::Isotropic((0..shape.cells()).map(kappa).collect()));
        problem.spacing = [Spacing::Given(widths.clone()), Spacing::Given(widths.clone()), Spacing::Uniform(1.0)];
        problem.boundary = [[Boundary::Dirichlet(0.0); 2], [Boundary::Dirichlet(0.0); 2], [Boundary::Neumann(0.0); 2]];
        problem.stencil().unwrap()
    };
    let options = SolverOptions { tolerance: 1e-8, norm: Norm::Rhs, ..SolverOptions::default() };
    let new = |stencil: &Diffusion| System::new(&Reference, stencil, &options).unwrap();
    let b: Vec<f64> = (0..shape.cells()).map(|n| random(2, n)).collect();
    let (plain, bubble) = (problem(false), problem(true));
    let mut system = new(&plain);
    for stencil in [&plain, &bubble, &plain, &bubble] {
        system.update(stencil).unwrap();
        let mut other = new(stencil);
        let (found, u) = solve_by(&mut system, shape, &b);
        let (expected, wanted) = solve_by(&mut other, shape, &b);
        assert_eq!((found.iterations, &u), (expected.iterations, &wanted));
        assert_eq!(system.description().method, other.description().method);
    }
    // From one iteration to another it changes once a solve is slow.
    let mut system = new(&scaled(&plain, |_, n| 1.5 + random(7, n)));
    for _ in 0..2 {
        system.update(&bubble).unwrap();
        let (found, u) = solve_by(&mut system, shape, &b);
        assert!(found.converged() && residual(&bubble, &b, &u) <= 1.01e-8, "{found:?}");
    }
    let (found, _) = solve_by(&mut system, shape, &b);
    let (expected, _) = solve_by(&mut new(&bubble), shape, &b);
    assert!(found.iterations <= expected.iterations + 1, "{} {}", found.iterations, expected.iterations);
}

/// Options for iterations keep a direct solve from being chosen, and a note says so.
#[test]
fn options_that_rule_out_a_direct_solve_are_noted() {
    let mut problem = DiffusionProblem::new(Shape::new(12, 10, 1), Coefficient::Isotropic(vec![1.0; 120]));
    problem.boundary[0][0] = Boundary::Dirichlet(0.0);
    let separable = problem.stencil().unwrap();
    problem.coefficient = Coefficient::Isotropic(arrays::noise(120, 1).iter().map(|x| x.exp()).collect());
    let rough = problem.stencil().unwrap();
    let levels = MultigridOptions { levels: Some(2), ..MultigridOptions::default() };
    let single = SolverOptions { precision: Precision::F32, ..SolverOptions::default() };
    let with_levels = SolverOptions { multigrid: levels, ..SolverOptions::default() };
    let asked = SolverOptions { method: Method::Cg, ..single.clone() };
    for (stencil, options, key) in [
        (&separable, &single, Some("solver.precision")),
        (&separable, &with_levels, Some("solver.multigrid")),
        (&separable, &asked, None),
        (&rough, &single, None),
    ] {
        let system = System::new(&Reference, stencil, options).unwrap();
        let notes = &system.description().notes;
        let found = notes.iter().find(|note| note.contains("would be solved directly"));
        assert_eq!(found.is_some(), key.is_some(), "{notes:?}");
        assert!(found.is_none_or(|note| note.starts_with(key.unwrap())), "{notes:?}");
    }
}
