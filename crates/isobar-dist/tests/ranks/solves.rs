//! Solves on one device, on several, and their differences.

use std::sync::Arc;

pub(crate) use isobar_core::conformance::arrays::distance;
use isobar_core::conformance::arrays::{cg, solve_into};
use isobar_core::prelude::*;
use isobar_dist::part::PartBackend;
use isobar_dist::threads::Threads;
use isobar_dist::{join, threads};

use crate::late::Late;

/// Makes the back end of one device, or of each rank.
pub(crate) trait Devices: Sync {
    type Backend: PartBackend + Supports<Diffusion> + Supports<TensorProduct>;

    fn of(&self, rank: Option<&Threads>) -> Self::Backend;

    /// Returns the largest number of ranks that there are devices for.
    fn most(&self) -> usize {
        usize::MAX
    }
}

/// Returns those of these numbers of ranks that there are devices for.
pub(crate) fn possible(backend: &impl Devices, ranks: &[usize]) -> Vec<usize> {
    ranks.iter().copied().filter(|&ranks| ranks <= backend.most()).collect()
}

impl<B: PartBackend + Supports<Diffusion> + Supports<TensorProduct>, F: Fn(Option<&Threads>) -> B + Sync> Devices
    for F
{
    type Backend = B;

    fn of(&self, rank: Option<&Threads>) -> B {
        self(rank)
    }
}

/// Returns options, followed by copies with a change each.
pub(crate) fn variants(base: &SolverOptions, changes: &[&dyn Fn(&mut SolverOptions)]) -> Vec<SolverOptions> {
    let changed = changes.iter().map(|change| {
        let mut options = base.clone();
        change(&mut options);
        options
    });
    std::iter::once(base.clone()).chain(changed).collect()
}

/// Returns a rank's part of an array of the whole grid, (nz, ny, nx) in C order.
pub(crate) fn part_of(whole: &[f64], shape: Shape, rows: Slab) -> ArrayView<'_, f64> {
    ArrayView::c_order(whole, shape).unwrap().part(rows).unwrap()
}

/// Joins the parts of all ranks.
pub(crate) fn joined(shape: Shape, parts: &[(Slab, Vec<f64>)]) -> Vec<f64> {
    let mut whole = vec![f64::NAN; shape.cells()];
    for (rows, part) in parts {
        for (n, line) in part.chunks_exact(shape.nx).enumerate() {
            let (j, k) = (rows.first + n % rows.rows(), n / rows.rows());
            let at = shape.nx * (j + shape.ny * k);
            whole[at..at + line.len()].copy_from_slice(line);
        }
    }
    whole
}

/// Computes A u on ranks, each with its own back end.
fn apply_on<S: Stencil>(
    ranks: usize,
    backend: &impl Devices<Backend: Supports<S>>,
    stencil: &S,
    options: &SolverOptions,
    u: &[f64],
) -> Result<Vec<f64>> {
    let shape = stencil.shape();
    let parts = threads::run(ranks, |world| {
        let backend = join(backend.of(Some(&world)), Arc::new(Late(world)));
        let rows = backend.own_rows(shape)?;
        let mut system = System::new(&backend, stencil, options)?;
        let mut v = vec![0.0; rows.shape(shape).cells()];
        let target = ArrayViewMut::c_order(&mut v, rows.shape(shape))?;
        system.apply(part_of(u, shape, rows).into(), target.into())?;
        Ok((rows, v))
    })?;
    Ok(joined(shape, &parts))
}

/// Checks that A u is the same number by number: rows do not depend on ranks.
pub(crate) fn check_products<S: Stencil>(
    backend: &impl Devices<Backend: Supports<S>>,
    stencil: &S,
    u: &[f64],
    ranks: &[usize],
) {
    // One row a rank supports products, but not multigrid.
    let options = cg(Preconditioner::Line);
    let expected = apply_on(1, backend, stencil, &options, u).unwrap();
    for ranks in possible(backend, ranks) {
        let found = apply_on(ranks, backend, stencil, &options, u).unwrap();
        assert_eq!(found, expected, "{} on {ranks:?} ranks", stencil.shape());
    }
}

/// Solves on ranks from u = 0, or from a given u; each rank has its own back end, `backend.of(Some(rank))`. All ranks must report the
/// same.
pub(crate) fn solve_on<S: Stencil>(
    ranks: usize,
    backend: &impl Devices<Backend: Supports<S>>,
    stencil: &S,
    options: &SolverOptions,
    rhs: &[f64],
    guess: Option<&[f64]>,
) -> Result<(Outcome, Vec<f64>)> {
    let make = |backend: &_| System::new(backend, stencil, options);
    let (outcome, _, u) = solve_by(ranks, backend, stencil.shape(), make, rhs, guess)?;
    Ok((outcome, u))
}

/// Solves on ranks, from u = 0, with systems made for one stencil and then given the coefficients of another. Also returns the final
/// preconditioner.
pub(crate) fn solve_updated<S: Stencil>(
    ranks: usize,
    backend: &impl Devices<Backend: Supports<S>>,
    [before, after]: [&S; 2],
    options: &SolverOptions,
    rhs: &[f64],
) -> Result<(Outcome, String, Vec<f64>)> {
    let make = |backend: &_| {
        let mut system = System::new(backend, before, options)?;
        system.update(after)?;
        Ok(system)
    };
    solve_by(ranks, backend, before.shape(), make, rhs, None)
}

fn solve_by<D: Devices<Backend: Supports<S>>, S: Stencil>(
    ranks: usize,
    backend: &D,
    shape: Shape,
    make: impl Fn(&D::Backend) -> Result<System<D::Backend, S>> + Sync,
    rhs: &[f64],
    guess: Option<&[f64]>,
) -> Result<(Outcome, String, Vec<f64>)> {
    let mut all = threads::run(ranks, |world| {
        let backend = join(backend.of(Some(&world)), Arc::new(Late(world)));
        let rows = backend.own_rows(shape)?;
        let mut system = make(&backend)?;
        let own = |whole: &[f64]| -> Vec<f64> {
            let view = part_of(whole, shape, rows);
            rows.shape(shape).places().map(|[i, j, k]| view.get(i, j, k)).collect()
        };
        let mut u = guess.map_or_else(|| vec![0.0; rows.shape(shape).cells()], own);
        let b = own(rhs);
        let target = ArrayViewMut::c_order(&mut u, rows.shape(shape))?;
        let given = if guess.is_some() { Guess::Given } else { Guess::Zero };
        let b = ArrayView::c_order(&b, rows.shape(shape))?;
        let outcome = system.solve(b.into(), target.into(), given, &mut ignore)?;
        Ok((outcome, system.description().preconditioner.clone(), (rows, u)))
    })?;
    let (first, preconditioner, _) = all[0].clone();
    for (outcome, with, _) in &all {
        assert_eq!((outcome.stop, &outcome.history, with), (first.stop, &first.history, &preconditioner));
        assert_eq!(outcome.notes, first.notes);
    }
    let parts: Vec<_> = all.drain(..).map(|(.., part)| part).collect();
    Ok((first, preconditioner, joined(shape, &parts)))
}

/// Balances a right-hand side: subtracts its mean over each floating component.
pub(crate) fn balanced(stencil: &Diffusion, mut rhs: Vec<f64>) -> Vec<f64> {
    let Some(components) = stencil.components(&Serial) else { return rhs };
    let floating = components.floating();
    let mut means = vec![0.0; floating.count()];
    (0..rhs.len()).for_each(|n| floating.aggregate(n).into_iter().for_each(|component| means[component] += rhs[n]));
    means.iter_mut().zip(floating.sizes()).for_each(|(mean, size)| *mean /= size as f64);
    (0..rhs.len()).for_each(|n| floating.aggregate(n).into_iter().for_each(|component| rhs[n] -= means[component]));
    rhs
}

/// Solves on one device, without ranks.
pub(crate) fn solve_alone<B: Supports<S>, S: Stencil>(
    backend: &B,
    stencil: &S,
    options: &SolverOptions,
    rhs: &[f64],
    guess: Option<&[f64]>,
) -> (Outcome, Vec<f64>) {
    let mut u = guess.map_or_else(|| vec![0.0; rhs.len()], <[f64]>::to_vec);
    let given = if guess.is_some() { Guess::Given } else { Guess::Zero };
    (solve_into(backend, stencil, options, rhs, &mut u, given).unwrap(), u)
}

/// Relative residuals that are rounding where κ differs by 10⁶, and a coarse grid, or all of a small one, is solved exactly.
const NEAR_ROUNDING: f64 = 1e-8;

/// By how much a solve on ranks may differ from that of one.
#[derive(Clone, Copy)]
pub(crate) struct Like {
    /// Iterations; any number where one rank stagnates.
    pub(crate) iterations: usize,
    /// Residuals, relative to those of one rank, where these are not near rounding.
    pub(crate) residuals: f64,
    /// The number of residuals that are compared.
    pub(crate) compared: usize,
    /// The solution, relative to its norm.
    pub(crate) u: f64,
}

impl Like {
    /// Ignores residuals.
    pub(crate) fn up_to(iterations: usize, u: f64) -> Self {
        Self { iterations, residuals: 0.0, compared: 0, u }
    }

    /// Checks an outcome and its solution against those of one rank.
    pub(crate) fn check(self, what: &str, (alone, u): (&Outcome, &[f64]), (outcome, together): (&Outcome, &[f64])) {
        assert_eq!(outcome.stop, alone.stop, "{what}: {outcome:?} instead of {alone:?}");
        let is_same = outcome.iterations.abs_diff(alone.iterations) <= self.iterations || alone.stop == Stop::Stagnated;
        assert!(is_same, "{what}: {outcome:?} instead of {alone:?}");
        let all = outcome.history.iter().zip(&alone.history).enumerate().take(self.compared);
        for (n, (a, b)) in all.filter(|(_, (_, b))| **b > NEAR_ROUNDING * alone.history[0]) {
            assert!((a - b).abs() <= self.residuals * b, "{what}: residual {n} is {a:e} instead of {b:e}");
        }
        let error = distance(together, u);
        assert!(error <= self.u, "{what}: {error:e}");
    }
}

/// Solves on these numbers of ranks, as far as there are devices, and checks against one rank. Returns the solutions.
pub(crate) fn check_like<S: Stencil>(
    backend: &impl Devices<Backend: Supports<S>>,
    (name, stencil, rhs): (&str, &S, &[f64]),
    ranks: &[usize],
    options: &SolverOptions,
    (alone, u): (&Outcome, &[f64]),
    like: Like,
) -> Vec<Vec<f64>> {
    let on = |&ranks| {
        let what = format!("{name} {} on {ranks:?} ranks, {options:?}", stencil.shape());
        let found = solve_on(ranks, backend, stencil, options, rhs, None);
        let (outcome, together) = found.unwrap_or_else(|error| panic!("{what}: {error}"));
        like.check(&what, (alone, u), (&outcome, &together));
        together
    };
    possible(backend, ranks).iter().map(on).collect()
}

/// Checks that new coefficients reach everything on these numbers of ranks: compares with one rank whose solver is made for them.
pub(crate) fn check_updated<S: Stencil>(
    backend: &impl Devices<Backend: Supports<S>>,
    stencils: [&S; 2],
    ranks: &[usize],
    options: &SolverOptions,
    rhs: &[f64],
    like: Like,
) {
    let (alone, u) = solve_alone(&backend.of(None), stencils[1], options, rhs, None);
    for ranks in possible(backend, ranks) {
        let (outcome, _, v) = solve_updated(ranks, backend, stencils, options, rhs).unwrap();
        like.check(&format!("{ranks:?} ranks, {options:?}"), (&alone, &u), (&outcome, &v));
    }
}

/// Solves for random balanced sources on these numbers of ranks and on one: iterations must agree up to `few`, and solutions to a
/// tolerance. Returns the solutions, that of one rank first.
pub(crate) fn compare_with_alone(
    backend: &impl Devices,
    problem: &DiffusionProblem,
    ranks: &[usize],
    options: &SolverOptions,
    few: impl Fn(usize) -> usize,
    tolerance: f64,
) -> Vec<Vec<f64>> {
    let stencil = problem.stencil().unwrap();
    let rhs = balanced(&stencil, problem.rhs(Some(RhsKind::Random), 3, Weighting::None).unwrap());
    let (alone, u) = solve_alone(&backend.of(None), &stencil, options, &rhs, None);
    assert!(alone.converged(), "{options:?}: {alone:?}");
    let like = Like::up_to(few(alone.iterations), tolerance);
    let all = check_like(backend, ("", &stencil, &rhs), ranks, options, (&alone, &u), like);
    std::iter::once(u).chain(all).collect()
}

/// Checks for the iterations of one rank up to one, which may be rounding, and its solution.
pub(crate) fn check_as_alone(
    backend: &impl Devices,
    problem: &DiffusionProblem,
    ranks: &[usize],
    options: &SolverOptions,
) {
    let tolerance = if options.precision == Precision::F64 { 1e-7 } else { 2e-2 };
    compare_with_alone(backend, problem, ranks, options, |_| 1, tolerance);
}
