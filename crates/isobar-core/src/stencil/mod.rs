//! Stencils are data: the numbers from which a back end computes rows of the matrix.
//!
//! * [`TensorProduct`] vertical vectors times horizontal fields (papers A and B),
//! * [`Diffusion`] one coefficient a cell, faces by harmonic means (papers C, D and E, reservoirs),
//! * [`StoredMatrix`] any matrix, every entry stored, [`OwnOperator`] one that a caller applies,
//! * [`Supports`] what a back end makes of a stencil, [`hierarchy`] its coarser levels, [`galerkin`] those of diffusion,
//!   [`point_levels`] other ones for coefficients that are smooth, on grids as [`halving`] makes them,
//! * [`modes`] the two-dimensional problems that a tensor product falls apart into, [`tensor_levels`] its coarser levels and these,
//! * [`rings`] periodic directions of an odd number of cells,
//! * [`matrix_market`] matrices as files.

mod aggregation;
mod csr;
mod diffusion;
mod diffusion_halved;
mod diffusion_measures;
mod diffusion_rows;
mod diffusion_stencil;
mod faces;
pub mod galerkin;
pub mod galerkin_levels;
pub mod halving;
pub mod hierarchy;
pub mod matrix_market;
pub mod modes;
mod own;
pub mod point_levels;
pub mod rings;
mod spread;
mod stored_matrix;
pub mod tensor_levels;
mod tensor_product;
mod tensor_product_stencil;

use std::borrow::Cow;
use std::sync::Arc;

use crate::backend::AggregateBackend;
use crate::direct::Separable;
use crate::error::Result;
pub use crate::layout::Axis;
use crate::layout::{Layout, Shape};
use crate::operator::{Capabilities, LineSolver, MixedSmoother, MixedTop, Operator, Relaxation};
use crate::options::{Smoother, SolverOptions};
use crate::policy::Choice;
use crate::real::Real;
use rings::Turns;

pub use crate::policy::diffusion::{MOST_CONTRAST_SINGLE, MOST_SINGLE, Measures, stiffness_of};
pub use csr::Csr;
pub use diffusion::{Coefficients, Diffusion, Side};
pub use diffusion_halved::ends_of;
pub use faces::by_stored_faces;
pub use hierarchy::Hierarchy;
pub use modes::VerticalModes;
pub use own::{HostOperator, OwnMatrix, OwnOperator};
pub use spread::Spread;
pub use stored_matrix::StoredMatrix;
pub use tensor_levels::Modes;
pub use tensor_product::{Coupling, TensorProduct};

/// A matrix as data.
pub trait Stencil: Clone + Send + Sync + 'static {
    /// Returns the shape of the grid.
    fn shape(&self) -> Shape;

    /// Returns whether A = Aᵀ.
    fn is_symmetric(&self) -> bool;

    /// Returns whether A is known by construction to have no negative eigenvalue.
    fn is_definite(&self) -> bool {
        false
    }

    /// Fails where an iterative method is known to be wrong for the matrix.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) naming the number that causes it.
    fn check_iterated(&self) -> Result<()> {
        Ok(())
    }

    /// Returns whether no cell is coupled to one beside its line along x, as far as that is known without a device.
    fn has_lines_apart(&self) -> bool {
        false
    }

    /// Chooses a solver for the matrix where these options leave that open.
    fn choice(&self, options: &SolverOptions) -> Choice;

    /// Returns the copies of a solver's grid: more than one where a checkerboard does not fit on a periodic direction.
    fn turns(&self) -> Turns {
        Turns::ONE
    }

    /// Repeats the matrix on copies of odd periodic directions.
    ///
    /// # Errors
    /// [`Error::Unsupported`](crate::Error::Unsupported) for coefficients that cannot be copied.
    fn around(&self) -> Result<Cow<'_, Self>> {
        Ok(Cow::Borrowed(self))
    }

    /// Returns the factors of the matrix, where it is separable.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) naming the first number that is not a product of factors;
    /// [`Error::Unsupported`](crate::Error::Unsupported) for matrices of another kind.
    fn separable(&self) -> Result<Separable> {
        Err(crate::Error::Unsupported(
            "solver.method: \"direct\" is for boxes whose coefficients are products of one factor a direction; use \"auto\"".into(),
        ))
    }

    /// Returns its factors where it is separable and a direct solve is estimated to take less time than iterating.
    fn chooses_direct(&self) -> Option<Separable> {
        None
    }

    /// Returns the separable matrix nearest to this one.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) where no cell is open; [`Error::Unsupported`](crate::Error::Unsupported) for matrices of another kind.
    fn nearest_box(&self) -> Result<Separable> {
        Err(crate::Error::Unsupported(
            "solver.preconditioner.kind: \"direct\" is for grids with six neighbours a cell; use \"jacobi\" or \"none\"".into(),
        ))
    }

    /// Returns the nearest separable matrix where conjugate gradients may be faster with it than with multigrid, and why; a few
    /// iterations decide.
    fn tries_box(&self) -> Option<(Separable, String)> {
        None
    }

    /// Fails where `new` differs in more than coefficients, which [`Supports::update`] cannot change.
    ///
    /// # Errors
    /// [`Error::Shape`](crate::Error::Shape) for another grid, [`Error::Invalid`](crate::Error::Invalid) naming any other
    /// difference.
    fn check_update(&self, new: &Self) -> Result<()>;
}

/// A function that changes the coefficients of an object made from a stencil.
pub type Update<S> = Box<dyn Fn(&S) -> Result<()> + Send + Sync>;

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

    /// Chooses a solver where these options leave that open: the stencil's own choice, unless this back end does not support
    /// it, or knows more of the coefficients, which are the operator's.
    ///
    /// # Errors
    /// The errors of the device.
    fn choice(&self, stencil: &S, _operator: &Arc<Self::Operator<f64>>, options: &SolverOptions) -> Result<Choice> {
        Ok(stencil.choice(options))
    }

    /// Returns the factors of the matrix, from coefficients on the host or the device.
    ///
    /// # Errors
    /// See [`Stencil::separable`]; the errors of the device.
    fn separable(&self, stencil: &S) -> Result<Separable> {
        stencil.separable()
    }

    /// Returns the nearest separable matrix, from coefficients on the host or the device.
    ///
    /// # Errors
    /// See [`Stencil::nearest_box`]; the errors of the device.
    fn nearest_box(&self, stencil: &S) -> Result<Separable> {
        stencil.nearest_box()
    }

    /// Prepares the parts of a solver with these options, which leave nothing open: a device compiles all its kernels at once.
    /// Other parts are prepared when they are needed.
    ///
    /// # Errors
    /// The errors of the device.
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
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory) where it does not fit; the errors of the device.
    fn operator<T: Real>(&self, stencil: &S) -> Result<Arc<Self::Operator<T>>>;

    /// Gives an operator the coefficients of another stencil, for which [`Stencil::check_update`] holds. Returns whether a number may
    /// have changed: if not, everything else that was made of the coefficients is valid still. No vector is allocated, and nothing
    /// compiled or recorded again.
    ///
    /// # Errors
    /// The errors of the device.
    fn update<T: Real>(&self, operator: &Self::Operator<T>, stencil: &S) -> Result<bool>;

    /// Makes an operator in another precision: from the stencil, unless a back end rounds the first one's coefficients.
    ///
    /// # Errors
    /// See [`Supports::operator`].
    fn rounded<T: Real, R: Real>(&self, stencil: &S, _from: &Arc<Self::Operator<T>>) -> Result<Arc<Self::Operator<R>>> {
        self.operator(stencil)
    }

    /// Gives it the coefficients of another stencil, which the first operator has already.
    ///
    /// # Errors
    /// See [`Supports::update`].
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
    ///
    /// # Errors
    /// See [`Supports::operator`].
    fn lines<T: Real>(&self, _stencil: &S, operator: &Arc<Self::Operator<T>>) -> Result<Option<Lines<Self, S, T>>> {
        Ok(self.capabilities(operator).lines.map(|solver| Lines { solver, update: None }))
    }

    /// Returns this matrix with stored faces, which adds capabilities that it lacks itself, if the back end has that form.
    ///
    /// # Errors
    /// See [`Supports::operator`].
    fn stored_faces<T: Real>(&self, _stencil: &S) -> Result<Option<StoredFaces<Self, S, T>>> {
        Ok(None)
    }

    /// The coarser levels of multigrid below an operator for a smoother that is resolved, where there can be any: as many as `wanted`,
    /// the finest included, or as many as are good. There are none unless a back end says so.
    ///
    /// # Errors
    /// See [`Supports::operator`].
    fn hierarchy<T: Real>(
        &self,
        _stencil: &S,
        _finest: &Arc<Self::Operator<T>>,
        _smoother: Smoother,
        _wanted: Option<usize>,
    ) -> Result<Option<Hierarchy<Self, S, T>>> {
        Ok(None)
    }

    /// Returns some vertical modes of a matrix, where it has any: the number in the options, or the cheapest that reaches a
    /// tolerance. By default there are none.
    ///
    /// # Errors
    /// See [`VerticalModes::new`] and [`Supports::operator`].
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
    ///
    /// # Errors
    /// See [`Supports::operator`].
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
