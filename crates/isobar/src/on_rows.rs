//! Solvers of a rank's subdomain that also take arrays of the whole grid.

use std::sync::Arc;

use isobar_core::build::{Balance, Description};
use isobar_core::options::Compatibility;
use isobar_core::prelude::{
    Error, Guess, Observer, Outcome, Result, Shape, Slab, Solve, SolverOptions, Source, Target,
};
use isobar_dist::{Communicator, Ranks, together};

use crate::divided::{OnRanks, one_rank_only, require_same, require_same_system};

/// Replaces the levels in the description of a subdomain by those of the whole grid.
pub(crate) fn described_whole(description: &Description, levels: &[Shape]) -> Description {
    // A subdomain has all layers, and a level of vertical modes one layer per mode.
    let levels = levels.iter().zip(&description.levels).map(|(&whole, part)| Shape { nz: part.nz, ..whole });
    Description { levels: levels.collect(), ..description.clone() }
}

/// A rank's solver that takes arrays of the whole grid, of which it reads and writes its subdomain, or arrays of
/// that subdomain alone.
struct OnRows<S> {
    world: Arc<dyn Communicator>,
    part: Box<dyn Solve<S>>,
    rows: Slab,
    /// The caller's grid; the first of `levels` may hold a periodic direction twice.
    whole: Shape,
    levels: Vec<Shape>,
    description: Description,
}

impl<S: OnRanks> OnRows<S> {
    /// Wraps the subdomain's solver that `make` makes.
    fn new(
        ranks: &Ranks,
        matrix: &S,
        options: &SolverOptions,
        make: impl FnOnce() -> Result<Box<dyn Solve<S>>>,
    ) -> Result<Self> {
        let world = ranks.world();
        together(&**world, || {
            require_same_system(&**world, matrix, Some(options))?;
            if !S::IS_DIVIDED {
                return Err(one_rank_only("matrices of this kind"));
            }
            let rows = ranks.slabs(matrix.shape())?.of(ranks.rank());
            let (part, levels) = (make()?, matrix.levels());
            let description = described_whole(part.description(), &levels);
            Ok(Self { world: Arc::clone(world), part, rows, whole: matrix.shape(), levels, description })
        })
    }

    /// Calls a function on all ranks; an error of one is that of all.
    fn on_all<R>(&mut self, call: impl FnOnce(&mut Self, &dyn Communicator) -> Result<R>) -> Result<R> {
        let world = Arc::clone(&self.world);
        together(&*world, || call(self, &*world))
    }

    fn is_own(&self, shape: Shape) -> bool {
        shape == self.rows.shape(self.whole)
    }

    fn own<'a>(&self, array: Source<'a>) -> Result<Source<'a>> {
        if self.is_own(array.shape()) { Ok(array) } else { array.part(self.rows) }
    }

    fn own_target<'a>(&self, array: Target<'a>) -> Result<Target<'a>> {
        if self.is_own(array.shape()) { Ok(array) } else { array.into_part(self.rows) }
    }
}

/// Makes a solver with `make`, of a whole matrix or of a rank's subdomain.
///
/// # Errors
/// The errors of `make`; [`Error::Unsupported`] for a matrix that cannot be divided; matrices that differ between ranks.
pub(crate) fn on_ranks<S: OnRanks>(
    ranks: Option<&Arc<Ranks>>,
    matrix: &S,
    options: &SolverOptions,
    make: impl FnOnce() -> Result<Box<dyn Solve<S>>>,
) -> Result<Box<dyn Solve<S>>> {
    match ranks {
        Some(ranks) => Ok(Box::new(OnRows::new(ranks, matrix, options, make)?)),
        None => make(),
    }
}

/// Numbers the cells in an error about a subdomain as those of the whole grid.
pub(crate) fn about_whole(error: Error, rows: Slab) -> Error {
    match error {
        Error::NotFinite { what, value, i, j, k } => Error::NotFinite { what, value, i, j: j + rows.first, k },
        other => other,
    }
}

impl<S: OnRanks> Solve<S> for OnRows<S> {
    fn solve(&mut self, rhs: Source<'_>, u: Target<'_>, guess: Guess, observer: &mut Observer<'_>) -> Result<Outcome> {
        self.on_all(|own, _| {
            let (rhs, u) = (own.own(rhs)?, own.own_target(u)?);
            let outcome = own.part.solve(rhs, u, guess, observer);
            // A solve may have replaced a slow preconditioner.
            own.description = described_whole(own.part.description(), &own.levels);
            outcome.map_err(|error| about_whole(error, own.rows))
        })
    }

    fn apply(&mut self, u: Source<'_>, v: Target<'_>) -> Result<()> {
        self.on_all(|own, _| {
            let (u, v) = (own.own(u)?, own.own_target(v)?);
            own.part.apply(u, v)
        })
    }

    fn precondition(&mut self, r: Source<'_>, z: Target<'_>, iterations: usize) -> Result<()> {
        self.on_all(|own, _| {
            let (r, z) = (own.own(r)?, own.own_target(z)?);
            own.part.precondition(r, z, iterations)
        })
    }

    fn set_tolerance(&mut self, tolerance: f64) -> Result<()> {
        self.on_all(|own, world| {
            require_same(world, "the tolerance", &tolerance.to_le_bytes())?;
            own.part.set_tolerance(tolerance)
        })
    }

    fn update(&mut self, stencil: &S) -> Result<()> {
        self.on_all(|own, world| {
            require_same_system(world, stencil, None)?;
            own.part.update(stencil)
        })
    }

    fn balance(&mut self) -> Result<Balance> {
        self.on_all(|own, _| own.part.balance())
    }

    fn set_compatibility(&mut self, compatibility: Compatibility) -> Compatibility {
        self.part.set_compatibility(compatibility)
    }

    fn description(&self) -> &Description {
        &self.description
    }

    fn copy_bandwidth(&self) -> Result<f64> {
        together(&*self.world, || self.part.copy_bandwidth())
    }
}
