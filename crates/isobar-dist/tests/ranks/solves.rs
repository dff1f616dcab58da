//! Solves on one device, on several, and how far they are apart.

use std::sync::Arc;

use isobar_core::array::{ArrayView, ArrayViewMut};
use isobar_core::build::{Solve, System};
use isobar_core::error::Result;
use isobar_core::layout::{Shape, Slab};
use isobar_core::operator::Guess;
use isobar_core::options::SolverOptions;
use isobar_core::outcome::Outcome;
use isobar_core::solver::ignore;
use isobar_core::stencil::{Stencil, Supports};
use isobar_dist::threads::Threads;
use isobar_dist::{Communicator, Distributed, threads};

/// The rows of a slab in an array of the whole grid, (nz, ny, nx) in C order.
pub(crate) fn rows_of(whole: &[f64], shape: Shape, slab: Slab) -> ArrayView<'_, f64> {
    let strides = [1, shape.nx, shape.nx * shape.ny];
    ArrayView::new(&whole[slab.first * shape.nx..], slab.shape(shape), strides).unwrap()
}

/// Puts the slabs of all ranks together.
pub(crate) fn joined(shape: Shape, parts: &[(Slab, Vec<f64>)]) -> Vec<f64> {
    let mut whole = vec![f64::NAN; shape.cells()];
    for (slab, part) in parts {
        let plane = slab.rows() * shape.nx;
        for k in 0..shape.nz {
            let at = shape.nx * (slab.first + shape.ny * k);
            whole[at..at + plane].copy_from_slice(&part[k * plane..(k + 1) * plane]);
        }
    }
    whole
}

/// Solves on so many ranks from u = 0, or from what is given; each rank has its own back end, `backend(Some(rank))`. All ranks
/// must tell the same.
pub(crate) fn solve_on<B, S>(
    ranks: usize,
    backend: impl Fn(Option<&Threads>) -> B + Sync,
    stencil: &S,
    options: &SolverOptions,
    rhs: &[f64],
    guess: Option<&[f64]>,
) -> Result<(Outcome, Vec<f64>)>
where
    B: isobar_core::backend::part::PartBackend,
    Distributed<B>: Supports<S>,
    S: Stencil,
{
    let shape = stencil.shape();
    let mut all = threads::run(ranks, |world| {
        let rank = world.rank();
        let backend = Distributed::new(backend(Some(&world)), Arc::new(world));
        let slab = backend.slabs(shape)?.of(rank);
        let mut system = System::new(&backend, stencil, options)?;
        let mut u = match guess {
            Some(guess) => {
                let view = rows_of(guess, shape, slab);
                let cells = slab.shape(shape);
                let at = move |n: usize| {
                    let (i, rest) = (n % cells.nx, n / cells.nx);
                    view.get(i, rest % cells.ny, rest / cells.ny)
                };
                (0..cells.cells()).map(at).collect()
            }
            None => vec![0.0; slab.shape(shape).cells()],
        };
        let target = ArrayViewMut::c_order(&mut u, slab.shape(shape))?;
        let given = if guess.is_some() { Guess::Given } else { Guess::Zero };
        let outcome = system.solve(rows_of(rhs, shape, slab).into(), target.into(), given, &mut ignore)?;
        Ok((outcome, (slab, u)))
    })?;
    let (first, _) = &all[0];
    for (outcome, _) in &all {
        assert_eq!((outcome.stop, &outcome.history), (first.stop, &first.history));
    }
    let (outcome, _) = all[0].clone();
    let parts: Vec<_> = all.drain(..).map(|(_, part)| part).collect();
    Ok((outcome, joined(shape, &parts)))
}

/// On one device, without ranks.
pub(crate) fn solve_alone<B: Supports<S>, S: Stencil>(
    backend: &B,
    stencil: &S,
    options: &SolverOptions,
    rhs: &[f64],
    guess: Option<&[f64]>,
) -> (Outcome, Vec<f64>) {
    let shape = stencil.shape();
    let mut system = System::new(backend, stencil, options).unwrap();
    let mut u = guess.map_or_else(|| vec![0.0; shape.cells()], <[f64]>::to_vec);
    let given = if guess.is_some() { Guess::Given } else { Guess::Zero };
    let target = ArrayViewMut::c_order(&mut u, shape).unwrap();
    let outcome =
        system.solve(ArrayView::c_order(rhs, shape).unwrap().into(), target.into(), given, &mut ignore).unwrap();
    (outcome, u)
}

/// ‖a − b‖ / ‖b‖
pub(crate) fn distance(a: &[f64], b: &[f64]) -> f64 {
    let norm = |v: &mut dyn Iterator<Item = f64>| v.map(|x| x * x).sum::<f64>().sqrt();
    norm(&mut a.iter().zip(b).map(|(a, b)| a - b)) / norm(&mut b.iter().copied()).max(f64::MIN_POSITIVE)
}
