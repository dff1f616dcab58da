//! Ranks with a GPU each, or several ranks that share one and exchange through the host, compared with one GPU. Without a GPU the
//! tests are reported as ignored, or, with `ISOBAR_REQUIRE_CUDA=1`, as failed.

#[path = "ranks/boxes.rs"]
mod boxes;
#[path = "ranks/checks.rs"]
mod checks;
#[path = "ranks/deflated.rs"]
mod deflated;
#[path = "ranks/direct.rs"]
mod direct;
#[path = "ranks/jumps.rs"]
mod jumps;
#[path = "ranks/late.rs"]
mod late;
#[path = "ranks/levels.rs"]
mod levels;
#[path = "cards/rings.rs"]
mod rings;
#[path = "ranks/rocks.rs"]
mod rocks;
#[path = "ranks/solves.rs"]
mod solves;
#[path = "ranks/steps.rs"]
mod steps;
#[path = "cards/substitution.rs"]
mod substitution;
#[path = "ranks/sweeps.rs"]
mod sweeps;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use boxes::{check_refusals, smooth_ring};
use checks::{
    GRIDS, GRIDS_OF_MODES, check_a_rank_for_every_row, check_apply, check_grids, check_solves, krylov, modes,
    multigrid, problem,
};
use isobar_core::conformance::arrays::{cg, noise};
use isobar_core::prelude::*;
use isobar_cuda::link::Ways;
use isobar_cuda::nccl::Nccl;
use isobar_cuda::{Cuda, devices};
use isobar_dist::part::{Link, PartBackend};
use isobar_dist::threads::Threads;
use isobar_dist::{Communicator, threads};
use jumps::{bubbles, check, check_all, check_forms, check_pieces, points_above, problems, rolling};
use libtest_mimic::{Arguments, Failed, Trial};
use rocks::{check_all_floating, check_points, check_rough, check_smooth, point_cycles, rough, smooth};
use solves::{
    Devices, Like, check_updated, compare_with_alone, distance, possible, solve_alone, solve_on, solve_updated,
};
use sweeps::check_sweeps;

/// The connection between ranks.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Host,
    Directly,
    Nccl,
}

fn card(way: Way, rank: Option<&Threads>) -> Result<Cuda> {
    let count = devices()?.len();
    let Some(rank) = rank else { return Cuda::new(0) };
    let ways = Ways { stores: way == Way::Directly, nccl: way == Way::Nccl };
    Cuda::new(rank.rank() % count)?.join_by(ways, rank.rank(), rank.size(), &mut |mine| rank.all_gather_equal(mine))
}

/// GPUs that divide levels of more than a number of cells: of any size, unlike those of users.
struct Cards {
    way: Way,
    cells: usize,
}

impl Devices for Cards {
    type Backend = Cuda;

    fn of(&self, rank: Option<&Threads>) -> Cuda {
        card(self.way, rank).unwrap().dividing_down_to(self.cells)
    }

    fn most(&self) -> usize {
        match self.way {
            Way::Host => 4,
            Way::Directly | Way::Nccl => devices().unwrap().len(),
        }
    }
}

fn backend(way: Way) -> Cards {
    Cards { way, cells: 0 }
}

/// GPUs of one process are linked, unless two ranks share one; one rank has no link.
fn cards_are_linked(way: Way) {
    let count = devices().unwrap().len();
    for ranks in 1..=count + 1 {
        let linked = threads::run(ranks, |world| Ok(card(way, Some(&world))?.link().is_some()));
        assert_eq!(linked.unwrap(), vec![ranks > 1 && ranks <= count; ranks], "{ranks} ranks");
    }
}

/// A rank that waits for a missing one gives up.
fn a_rank_that_does_not_come(way: Way) {
    let is_over = AtomicBool::new(false);
    let waits = threads::run(2, |world| {
        let card = card(way, Some(&world))?;
        let link = card.card_link().expect("two cards are linked");
        if world.rank() == 1 {
            while !is_over.load(Ordering::Acquire) {
                std::thread::sleep(Duration::from_millis(50));
            }
            return Ok(None);
        }
        let mut scalars = card.scalars()?;
        let began = Instant::now();
        let result = link.sum(&card, &[Scalar::ONE], &mut scalars).and_then(|()| card.synchronize());
        is_over.store(true, Ordering::Release);
        Ok(Some((result.unwrap_err().to_string(), began.elapsed())))
    });
    let (message, after) = waits.unwrap()[0].clone().unwrap();
    assert!(message.contains("has not answered for 20 s"), "{message}");
    // The clock of a GPU is not the host's.
    assert!((19.9..30.0).contains(&after.as_secs_f64()), "{after:?}");
}

/// Checks grids that are swept by streaming, with rows longer than a channel's buffer.
fn large(way: Way) {
    for (nx, ny, nz) in [(256, 256, 32), (190, 258, 24)] {
        for options in [&krylov()[0], &multigrid()[0], &multigrid()[10], &modes()[0], &modes()[1], &modes()[6]] {
            check_solves(&backend(way), &problem(nx, ny, nz), &[2, backend(way).most()], options);
        }
    }
    for options in [&krylov()[0], &multigrid()[0], &modes()[1]] {
        check_solves(&backend(way), &problem(2048, 48, 256), &[2], options);
    }
}

/// Checks conjugate gradients for diffusion, on flat grids, with columns of single threads, and with columns that threads share.
fn rough_rocks(way: Way) {
    for (nx, ny, nz) in [(7, 13, 5), (12, 9, 1), (40, 21, 40), (9, 3, 24)] {
        check_rough(&backend(way), &rough(Shape::new(nx, ny, nz)), &[1, 2, 3, 4][..ny.min(4)]);
    }
}

/// Checks preconditioners of triangular parts that need no order of unknowns, and Jacobi's method.
fn rough_rocks_by_halo_rows(way: Way) {
    for (nx, ny, nz) in [(7, 13, 5), (8, 16, 4), (12, 10, 1)] {
        check_halo_rows(way, &rough(Shape::new(nx, ny, nz)), &[1, 2, 3, 4]);
    }
}

fn check_halo_rows(way: Way, problem: &DiffusionProblem, ranks: &[usize]) {
    for preconditioner in [0, 1, 3].map(|order| Preconditioner::Neumann { order }).into_iter().chain([
        Preconditioner::SsorAi,
        Preconditioner::IncompletePoisson { scaling: false },
        Preconditioner::IncompletePoisson { scaling: true },
    ]) {
        let options = SolverOptions { tolerance: 1e-9, ..cg(preconditioner) };
        // Rounding changes the count of a long iteration: 228 instead of 223 were seen, with the same spectrum.
        compare_with_alone(&backend(way), problem, ranks, &options, |iterations| 1 + iterations / 40, 1e-7);
    }
    let rhs = noise(problem.shape.cells(), 5);
    check_sweeps(&backend(way), &problem.stencil().unwrap(), &rhs, ranks, false);
}

fn smooth_rocks(way: Way) {
    check_smooth(&backend(way));
    let shape = Shape::new(96, 128, 64);
    let mut problem = DiffusionProblem::new(shape, Coefficient::Isotropic(vec![2.0; shape.cells()]));
    problem.spacing = [0, 1, 2].map(|_| Spacing::Uniform(0.5));
    problem.boundary[2] = [Boundary::Dirichlet(0.0); 2];
    // Not the first, by which one card solves this box directly.
    for options in &point_cycles()[1..3] {
        check_points(&backend(way), &problem, &[2, 3, 4], options);
    }
}

/// Checks that new coefficients reach all GPUs.
fn updated_rocks(way: Way) {
    for problem in [smooth().swap_remove(1).0, smooth_ring([16, 32, 8], 3.0, true)] {
        let coefficient = Coefficient::Isotropic(vec![0.1; problem.shape.cells()]);
        let rhs = noise(problem.shape.cells(), 5);
        let stencils =
            [DiffusionProblem { coefficient, ..problem.clone() }, problem].map(|problem| problem.stencil().unwrap());
        let (ranks, like) = (&[2, 3, 4], Like::up_to(0, 1e-9));
        check_updated(&backend(way), stencils.each_ref(), ranks, &point_cycles()[0], &rhs, like);
    }
}

/// Returns options with cycles in single precision.
fn in_single() -> SolverOptions {
    let mut options = jumps::multigrid();
    options.multigrid.precision = CyclePrecision::F32;
    options
}

/// Checks columns that several threads share, blocks of as many columns as there are, rows of many cells; also with all but the finest level whole.
fn large_jumps(way: Way) {
    for shape in [Shape::new(64, 96, 48), Shape::new(40, 64, 90), Shape::new(130, 50, 33)] {
        let problem = bubbles(shape, 1e6);
        for options in [jumps::multigrid(), in_single()] {
            for cells in [0, usize::MAX] {
                check(&Cards { way, cells }, ("bubbles", &problem, &[2, 3]), &options);
            }
        }
    }
}

/// Several GPUs choose what one would: by default, and after smooth coefficients have become rough.
fn jumps_where_nothing_is_said(way: Way) {
    let open = SolverOptions { tolerance: 1e-7, ..SolverOptions::default() };
    for (name, problem, ranks) in rolling() {
        // Left open, one GPU may solve a nearby box directly, which several do not.
        let multigrid = jumps::multigrid();
        for options in [&open, &multigrid] {
            jumps::check_against(&backend(way), (name, &problem, ranks), [&multigrid, options]);
        }
    }
    let shape = Shape::new(12, 24, 12);
    let [before, after] = [1.2, 1e6].map(|contrast| bubbles(shape, contrast).stencil().unwrap());
    let rhs = bubbles(shape, 1.0).rhs(Some(RhsKind::Random), 3, Weighting::None).unwrap();
    let (_, u) = solve_alone(&card(way, None).unwrap(), &after, &jumps::multigrid(), &rhs, None);
    for ranks in possible(&backend(way), &[2, 3]) {
        let (outcome, preconditioner, v) = solve_updated(ranks, &backend(way), [&before, &after], &open, &rhs).unwrap();
        assert_eq!((preconditioner.as_str(), outcome.converged()), ("multigrid", true), "{outcome:?}");
        assert!(distance(&v, &u) < 1e-5);
    }
    let refused = solve_on(2, &backend(Way::Host), &after, &points_above(), &rhs, None).unwrap_err().to_string();
    assert!(refused.contains("point-line"), "{refused}");
}

/// A matrix given by its faces equals that of cells.
fn stored_faces(way: Way) {
    let mut around = rough(Shape::new(9, 14, 5));
    around.boundary[1] = [Boundary::Periodic; 2];
    for problem in [rough(Shape::new(9, 13, 5)), rough(Shape::new(8, 11, 1)), around] {
        let cells = problem.stencil().unwrap();
        let faces = Axis::ALL.map(|axis| cells.cells().map(|at| cells.face(axis, at)).collect());
        let fixed = cells.cells().map(|at| cells.shift(at)).collect();
        let sides = cells.sides().map(|sides| sides.map(|side| if side == Side::Fixed { Side::Closed } else { side }));
        let faces = Diffusion::new(problem.shape, Coefficients::Faces(faces), Some(fixed), sides).unwrap();
        let rhs = noise(problem.shape.cells(), 5);
        for preconditioner in [Preconditioner::Jacobi, Preconditioner::Line, Preconditioner::SsorAi] {
            let options = SolverOptions { tolerance: 1e-9, ..cg(preconditioner) };
            for ranks in possible(&backend(way), &[1, 2, 3, 4]) {
                let [(of_cells, u), (of_faces, v)] = [&cells, &faces]
                    .map(|stencil| solve_on(ranks, &backend(way), stencil, &options, &rhs, None).unwrap());
                assert!(of_cells.converged() && of_faces.converged(), "{of_cells:?} {of_faces:?}");
                assert!(of_faces.iterations.abs_diff(of_cells.iterations) <= 1, "{of_faces:?} instead of {of_cells:?}");
                assert!(distance(&v, &u) < 1e-7, "{ranks} ranks, {}", distance(&v, &u));
            }
        }
    }
}

fn main() {
    let why = match devices() {
        Ok(cards) if !cards.is_empty() => Cuda::new(0).err().map(|error| error.to_string()),
        Ok(_) => Some("there is no GPU".to_owned()),
        Err(error) => Some(error.to_string()),
    };
    let is_required = std::env::var_os("ISOBAR_REQUIRE_CUDA").is_some_and(|value| value == "1");
    if let Some(why) = why.as_ref().filter(|_| !is_required) {
        eprintln!("ignored: {why}");
    }
    let mut trials = Vec::new();
    for way in [Way::Host, Way::Directly, Way::Nccl] {
        type Check = Box<dyn Fn() + Send + Sync>;
        let mut checks: Vec<(&str, Check)> = vec![
            ("apply", Box::new(move || check_apply(&backend(way)))),
            ("krylov_methods", Box::new(move || check_grids(&backend(way), &GRIDS, &krylov()))),
            ("multigrid_methods", Box::new(move || check_grids(&backend(way), &GRIDS, &multigrid()))),
            ("vertical_modes", Box::new(move || check_grids(&backend(way), &GRIDS_OF_MODES, &modes()))),
            ("a_rank_for_every_row", Box::new(move || check_a_rank_for_every_row(&backend(way)))),
            ("large", Box::new(move || large(way))),
            ("rough_rocks", Box::new(move || rough_rocks(way))),
            ("rough_rocks_by_halo_rows", Box::new(move || rough_rocks_by_halo_rows(way))),
            ("smooth_rocks", Box::new(move || smooth_rocks(way))),
            ("updated_rocks", Box::new(move || updated_rocks(way))),
            ("floating_rocks", Box::new(move || check_all_floating(&backend(way)))),
            ("rings_step_by_step", Box::new(move || rings::step_by_step(way))),
            ("rings_by_krylov_methods", Box::new(move || rings::krylov_methods(way))),
            ("rings_by_points", Box::new(move || rings::points(way))),
            ("rings_that_float", Box::new(move || rings::floating(way))),
            ("rings_say_what_is_not_there", Box::new(move || check_refusals(&backend(way), &[2, 3]))),
            ("jumps_around_rings", Box::new(move || rings::jumps(way))),
            ("large_jumps_around_rings", Box::new(move || rings::large_jumps(way))),
            ("updated_jumps_around_rings", Box::new(move || rings::updated_jumps(way))),
            ("jumps", Box::new(move || check_all(&backend(way), problems()))),
            (
                "jumps_by_other_cycles",
                Box::new(move || check_forms(&[backend(way)], problems(), &[0, 5, 6, 8, 10], &[in_single()])),
            ),
            ("levels", Box::new(move || levels::check_all(&backend(way), &[2, 3, 4]))),
            ("large_jumps", Box::new(move || large_jumps(way))),
            ("jumps_where_nothing_is_said", Box::new(move || jumps_where_nothing_is_said(way))),
            ("updated_jumps", Box::new(move || jumps::check_updates(&backend(way), &[2, 3]))),
            ("jumps_in_pieces", Box::new(move || check_pieces(&backend(way)))),
            ("deflation", Box::new(move || deflated::check_all(&backend(way), &backend(way)))),
            ("updated_deflation", Box::new(move || deflated::check_updates(&backend(way), &[2, 3]))),
            ("substitution", Box::new(move || substitution::solves(way))),
            ("updated_substitution", Box::new(move || substitution::updates(way))),
            ("stored_faces", Box::new(move || stored_faces(way))),
            ("direct_solves", Box::new(move || direct::check_boxes(&backend(way)))),
            ("updated_direct_solves", Box::new(move || direct::check_changes(&backend(way)))),
            ("direct_solves_where_possible", Box::new(move || direct::check_choice(&backend(way)))),
        ];
        if way != Way::Host {
            checks.push(("cards_are_linked", Box::new(move || cards_are_linked(way))));
            checks.push(("a_rank_that_does_not_come", Box::new(move || a_rank_that_does_not_come(way))));
        }
        let none = why.clone().or_else(|| {
            let library = (way == Way::Nccl).then(Nccl::get)?;
            library.err().map(|error| error.to_string())
        });
        trials.extend(checks.into_iter().map(|(name, check)| {
            let name = format!("{way:?}::{name}").to_lowercase();
            match none.clone() {
                None => Trial::test(name, move || {
                    check();
                    Ok(())
                }),
                Some(why) => Trial::test(name, move || Err(Failed::from(why))).with_ignored_flag(!is_required),
            }
        }));
    }
    // Ranks that share a GPU wait for each other on it: one job at a time.
    let arguments = Arguments { test_threads: Some(1), ..Arguments::from_args() };
    libtest_mimic::run(&arguments, trials).exit();
}
