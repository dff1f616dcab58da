//! The trait by which a back end offers the solvers of a stencil.

use std::sync::Arc;

use super::hierarchy::{Hierarchy, Update};
use super::orientation::Orientation;
use super::turns::Turns;
use super::{Axis, Modes, Stencil};
use crate::backend::AggregateBackend;
use crate::direct::Separable;
use crate::operator::{Capabilities, LineSolver, MixedSmoother, MixedTop, Operator, Relaxation};
use crate::options::{MultigridOptions, Smoother, SolverOptions};
use crate::policy::Choice;
use crate::{Layout, Real, Result};

/// A matrix given by factors, with a number stored for every face.
pub struct StoredFaces<B: AggregateBackend, S, T: Real> {
    /// The capabilities of the matrix.
    pub capabilities: Capabilities<B, T>,
    /// A function that changes its coefficients.
    pub update: Update<S>,
}

/// A solver of the tridiagonal blocks of a stencil's matrix.
pub struct Lines<B: AggregateBackend, S, T: Real> {
    /// The solver.
    pub solver: Arc<dyn LineSolver<B, T>>,
    /// A function that changes its coefficients, where it has its own.
    pub update: Option<Update<S>>,
}

/// A back end that can put a kind of stencil on its device.
pub trait Supports<S: Stencil>: AggregateBackend {
    /// The matrix with its coefficients on the device.
    type Operator<T: Real>: Operator<Self, T> + 'static;

    /// The rules for the order of directions in this device's grids.
    const ORIENTATION: Orientation = Orientation {
        upright_from: 20.0,
        are_flat: false,
        row: 45.0,
        half_plane: 300.0,
        plane: 6.0,
        line: 0.0,
        longest_shared: usize::MAX,
        most_rows: usize::MAX,
        has_rows_of_factors: true,
        strong_lines: 1.6,
        divides_rows: false,
    };

    /// Returns how the grid of a solver with these options differs from the stencil's.
    fn turns(&self, stencil: &S, options: &SolverOptions) -> Turns {
        stencil.turns_for(options, Orientation { divides_rows: self.device().ranks > 1, ..Self::ORIENTATION })
    }

    /// Chooses a solver if these options leave that open: the stencil's own choice, unless this back end does not support it, or has
    /// measured the operator's coefficients.
    fn choice(&self, stencil: &S, _operator: &Arc<Self::Operator<f64>>, options: &SolverOptions) -> Result<Choice> {
        Ok(stencil.choice(options))
    }

    /// Returns the factors of the matrix, from coefficients on the host or the device.
    fn separable(&self, stencil: &S) -> Result<Separable> {
        stencil.separable()
    }

    /// Returns the nearest separable matrix, from coefficients on the host or the device.
    fn nearest_box(&self, stencil: &S, line: Option<Axis>) -> Result<Separable> {
        stencil.nearest_box(line)
    }

    /// Prepares the parts of a solver with these options, which leave nothing open, so that a device compiles all its kernels at once.
    /// Other parts are prepared when they are needed.
    fn prepare(&self, _stencil: &S, _operator: &Arc<Self::Operator<f64>>, _options: &SolverOptions) -> Result<()> {
        Ok(())
    }

    /// Returns the layout of vectors that the matrix acts on.
    ///
    /// # Errors
    /// See [`Layout::new`]; [`Error::Unsupported`](crate::Error::Unsupported) for periodic directions with an odd number of
    /// cells, which [`Stencil::around`] makes even.
    fn layout(&self, stencil: &S) -> Result<Layout> {
        stencil.turns().require_one("a checkerboard")?;
        Layout::new(stencil.shape())
    }

    /// Puts a stencil on the device.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory) if it does not fit; the errors of the device.
    fn operator<T: Real>(&self, stencil: &S) -> Result<Arc<Self::Operator<T>>>;

    /// Gives an operator the coefficients of another stencil, for which [`Stencil::check_update`] holds. Returns whether a number may
    /// have changed: if not, all objects made from the coefficients remain valid. No vector is allocated, and nothing compiled or
    /// recorded again.
    fn update<T: Real>(&self, operator: &Self::Operator<T>, stencil: &S) -> Result<bool>;

    /// Makes an operator in another precision: from the stencil, unless a back end rounds the first one's coefficients.
    fn rounded<T: Real, R: Real>(&self, stencil: &S, _from: &Arc<Self::Operator<T>>) -> Result<Arc<Self::Operator<R>>> {
        self.operator(stencil)
    }

    /// Gives it the coefficients of another stencil, which the first operator has already.
    fn round_again<T: Real, R: Real>(
        &self,
        stencil: &S,
        _from: &Self::Operator<T>,
        to: &Self::Operator<R>,
    ) -> Result<()> {
        self.update(to, stencil).map(drop)
    }

    /// Returns all capabilities of the operator.
    fn capabilities<T: Real>(&self, operator: &Arc<Self::Operator<T>>) -> Capabilities<Self, T>;

    /// Returns the solver of the matrix's columns, if there is one: the operator itself, or one that is made now.
    fn lines<T: Real>(&self, _stencil: &S, operator: &Arc<Self::Operator<T>>) -> Result<Option<Lines<Self, S, T>>> {
        Ok(self.capabilities(operator).lines.map(|solver| Lines { solver, update: None }))
    }

    /// Returns this matrix with stored faces, which adds capabilities that it lacks itself, if the back end has that form.
    fn stored_faces<T: Real>(&self, _stencil: &S) -> Result<Option<StoredFaces<Self, S, T>>> {
        Ok(None)
    }

    /// Returns the coarser levels of multigrid below an operator for a resolved smoother, if there can be any: `wanted` levels, the
    /// finest included, or as many as are useful. By default there are none.
    fn hierarchy<T: Real>(
        &self,
        _stencil: &S,
        _finest: &Arc<Self::Operator<T>>,
        _smoother: Smoother,
        _wanted: Option<usize>,
    ) -> Result<Option<Hierarchy<Self, S, T>>> {
        Ok(None)
    }

    /// Returns some vertical modes of a matrix, if it has any: the number in the options, or the cheapest that reaches a tolerance. By
    /// default there are none.
    fn modes<T: Real, C: Real>(
        &self,
        _stencil: &S,
        _operator: &Arc<Self::Operator<T>>,
        _options: &SolverOptions,
        _tolerance: f64,
    ) -> Result<Option<Modes<Self, S, T, C>>> {
        Ok(None)
    }

    /// Returns the steps of an operator in two precisions, where there are hierarchies.
    fn mixed_smoother(&self, _double: &Arc<Self::Operator<f64>>) -> Option<Arc<dyn MixedSmoother<Self>>> {
        None
    }

    /// Makes the finest level of a mixed-precision hierarchy, where there are hierarchies.
    fn mixed_top(
        &self,
        double: &Arc<Self::Operator<f64>>,
        _single: &Arc<Self::Operator<f32>>,
        hierarchy: &Hierarchy<Self, S, f32>,
        relaxation: Relaxation,
    ) -> Result<Option<MixedTop<Self>>> {
        let Some(double) = self.mixed_smoother(double) else { return Ok(None) };
        let (single, transfer) = (Arc::clone(&hierarchy.levels[0]), hierarchy.transfers.first().cloned());
        MixedTop::new(double, single, transfer, relaxation).map(Some)
    }
}

/// Makes the levels below an operator that options request, whose smoother is resolved; none if the back end has no such levels.
pub(crate) fn levels<B: Supports<S>, S: Stencil, T: Real>(
    backend: &B,
    stencil: &S,
    finest: &Arc<B::Operator<T>>,
    options: &MultigridOptions,
) -> Result<Option<Hierarchy<B, S, T>>> {
    let found = backend.hierarchy(stencil, finest, options.smoother, options.levels)?;
    Ok(found.map(|found| match &options.visits {
        Some(visits) => found.visited(visits),
        None => found,
    }))
}
