//! Stencils are data: what a back end needs to compute rows of the matrix.
//!
//! * [`TensorProduct`] vertical vectors times horizontal fields (papers A and B),
//! * [`Diffusion`] one coefficient a cell, faces by harmonic means (papers C, D and E, reservoirs),
//! * [`StoredMatrix`] any matrix, every entry stored, [`OwnOperator`] one that a caller applies,
//! * [`Supports`] what a back end makes of a stencil, [`hierarchy`] its coarser levels, [`galerkin`] those of diffusion,
//!   [`point_levels`] other ones for coefficients that are smooth, on grids as [`halving`] makes them,
//! * [`modes`] the two-dimensional problems that a tensor product falls apart into,
//! * [`rings`] periodic directions of an odd number of cells,
//! * [`matrix_market`] matrices as files.

mod aggregation;
mod csr;
mod diffusion;
mod diffusion_choice;
mod diffusion_halved;
mod diffusion_rows;
mod faces;
pub mod galerkin;
pub mod galerkin_levels;
pub mod halving;
pub mod hierarchy;
pub mod matrix_market;
pub mod modes;
mod own;
mod plan;
pub mod point_levels;
pub mod rings;
mod separable;
mod spread;
mod stored_matrix;
mod tensor_product;

use std::borrow::Cow;
use std::sync::Arc;

use crate::backend::AggregateBackend;
use crate::direct::Separable;
use crate::error::Result;
use crate::layout::{Layout, Shape};
use crate::operator::{Capabilities, CgOperator, DirectBackend, LineSolver, MixedTop, Relaxation};
use crate::options::{Choice, SolverOptions};
use crate::real::Real;
use rings::Turns;

pub use csr::Csr;
pub use diffusion::{Axis, Coefficients, Diffusion, Side};
pub use diffusion_choice::{MOST_CONTRAST_SINGLE, MOST_SINGLE, Measures, stiffness_of};
pub use diffusion_halved::ends_of;
pub use faces::by_stored_faces;
pub use hierarchy::{Coarsen, Hierarchy};
pub use modes::{Modes, VerticalModes};
pub use own::{HostOperator, OwnMatrix, OwnOperator};
pub use spread::Spread;
pub use stored_matrix::StoredMatrix;
pub use tensor_product::{Coupling, TensorProduct};

/// A matrix as data.
pub trait Stencil: Clone + Send + Sync + 'static {
    /// The grid.
    fn shape(&self) -> Shape;

    /// Whether A = Aᵀ.
    fn is_symmetric(&self) -> bool;

    /// Whether A is known to have no negative eigenvalue, by how it is made.
    fn is_definite(&self) -> bool {
        false
    }

    /// Fails where a method that iterates is known to be wrong for the matrix.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) naming the number that makes it so.
    fn check_iterated(&self) -> Result<()> {
        Ok(())
    }

    /// Whether no cell is coupled to one beside its line along x, as far as that is known without asking a device.
    fn has_lines_apart(&self) -> bool {
        false
    }

    /// The solver that suits it where these options leave that open.
    fn choice(&self, options: &SolverOptions) -> Choice;

    /// How often a solver's grid goes around this one: more than once where a checkerboard does not fit on it.
    fn turns(&self) -> Turns {
        Turns::ONE
    }

    /// Repeats the matrix on copies of odd periodic directions.
    ///
    /// # Errors
    /// [`Error::Unsupported`](crate::Error::Unsupported) where it cannot be had.
    fn around(&self) -> Result<Cow<'_, Self>> {
        Ok(Cow::Borrowed(self))
    }

    /// The factors of the matrix, where it is separable.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) naming the first number that is no product of factors;
    /// [`Error::Unsupported`](crate::Error::Unsupported) for matrices of another kind.
    fn separable(&self) -> Result<Separable> {
        Err(crate::Error::Unsupported(
            "solver.method: \"direct\" is for boxes whose coefficients are products of one factor a direction; use \"auto\"".into(),
        ))
    }

    /// Its factors where it is separable and a direct solve takes less time than iterating, as far as that can be said without them.
    fn chooses_direct(&self) -> Option<Separable> {
        None
    }

    /// The separable matrix that is nearest to this one.
    ///
    /// # Errors
    /// See [`nearest`](crate::direct::nearest); [`Error::Unsupported`](crate::Error::Unsupported) for matrices of another kind.
    fn nearest_box(&self) -> Result<Separable> {
        Err(crate::Error::Unsupported(
            "solver.preconditioner.kind: \"direct\" is for grids with six neighbours a cell; use \"jacobi\" or \"none\"".into(),
        ))
    }

    /// That matrix where conjugate gradients may be faster with it than with multigrid, and why: a few iterations tell.
    fn tries_box(&self) -> Option<(Separable, String)> {
        None
    }

    /// Fails where `new` has more than other coefficients: what [`Supports::update`] cannot change.
    ///
    /// # Errors
    /// [`Error::Shape`](crate::Error::Shape) for another grid, [`Error::Invalid`](crate::Error::Invalid) naming what else
    /// is not the same.
    fn check_update(&self, new: &Self) -> Result<()>;
}

/// Changes the coefficients of something that was made from a stencil.
pub type Update<S> = Box<dyn Fn(&S) -> Result<()> + Send + Sync>;

/// A matrix made of factors, with a number stored for every face instead.
pub struct StoredFaces<B: AggregateBackend, S, T: Real> {
    /// Its capabilities.
    pub capabilities: Capabilities<B, T>,
    /// Changes its coefficients.
    pub update: Update<S>,
}

/// A solver of the tridiagonal blocks of a stencil's matrix.
pub struct Lines<B: AggregateBackend, S, T: Real> {
    /// It.
    pub solver: Arc<dyn LineSolver<B, T>>,
    /// Where it has coefficients of its own: what changes them.
    pub update: Option<Update<S>>,
}

/// A back end that can put a kind of stencil on its device.
pub trait Supports<S: Stencil>: AggregateBackend + DirectBackend {
    /// The matrix with its coefficients on the device.
    type Operator<T: Real>: CgOperator<Self, T> + 'static;

    /// The solver where these options leave that open: the stencil's own choice, unless this back end cannot make it, or knows
    /// more of the coefficients, which are the operator's.
    ///
    /// # Errors
    /// The errors of the device.
    fn choice(&self, stencil: &S, _operator: &Arc<Self::Operator<f64>>, options: &SolverOptions) -> Result<Choice> {
        Ok(stencil.choice(options))
    }

    /// The factors of the matrix, from its coefficients wherever they lie.
    ///
    /// # Errors
    /// See [`Stencil::separable`]; the errors of the device.
    fn separable(&self, stencil: &S) -> Result<Separable> {
        stencil.separable()
    }

    /// The separable matrix that is nearest, from coefficients wherever they lie.
    ///
    /// # Errors
    /// See [`Stencil::nearest_box`]; the errors of the device.
    fn nearest_box(&self, stencil: &S) -> Result<Separable> {
        stencil.nearest_box()
    }

    /// Gets ready what a solver by these options, which leave nothing open, is made of: a device that compiles its kernels does so
    /// for all of them at the same time. What is left out is got ready when it is asked for.
    ///
    /// # Errors
    /// The errors of the device.
    fn prepare(&self, _stencil: &S, _operator: &Arc<Self::Operator<f64>>, _options: &SolverOptions) -> Result<()> {
        Ok(())
    }

    /// The vectors that the matrix acts on.
    ///
    /// # Errors
    /// See [`Layout::new`]; [`Error::Unsupported`](crate::Error::Unsupported) for rings of an odd number of cells, of which
    /// [`Stencil::around`] makes even ones.
    fn layout(&self, stencil: &S) -> Result<Layout> {
        stencil.turns().require_one("a checkerboard")?;
        Layout::new(stencil.shape())
    }

    /// Puts a stencil on the device.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory) where it does not fit; the errors of the device.
    fn operator<T: Real>(&self, stencil: &S) -> Result<Arc<Self::Operator<T>>>;

    /// Gives an operator the coefficients of another stencil, for which [`Stencil::check_update`] holds. Nothing is
    /// allocated, compiled or recorded anew.
    ///
    /// # Errors
    /// The errors of the device.
    fn update<T: Real>(&self, operator: &Self::Operator<T>, stencil: &S) -> Result<()>;

    /// An operator in another precision, made as the first was unless a back end rounds what that has.
    ///
    /// # Errors
    /// See [`Supports::operator`].
    fn rounded<T: Real, R: Real>(&self, stencil: &S, _from: &Arc<Self::Operator<T>>) -> Result<Arc<Self::Operator<R>>> {
        self.operator(stencil)
    }

    /// Gives it the coefficients of another stencil, which the first has already.
    ///
    /// # Errors
    /// See [`Supports::update`].
    fn round_again<T: Real, R: Real>(
        &self,
        stencil: &S,
        _from: &Self::Operator<T>,
        to: &Self::Operator<R>,
    ) -> Result<()> {
        self.update(to, stencil)
    }

    /// All that the operator offers, but for lines.
    fn capabilities<T: Real>(&self, operator: &Arc<Self::Operator<T>>) -> Capabilities<Self, T>;

    /// The solver of the matrix's columns, if there is one.
    ///
    /// # Errors
    /// See [`Supports::operator`].
    fn lines<T: Real>(&self, stencil: &S, operator: &Arc<Self::Operator<T>>) -> Result<Option<Lines<Self, S, T>>>;

    /// Returns this matrix with stored faces, which adds capabilities that it lacks itself, if the back end has that form.
    ///
    /// # Errors
    /// See [`Supports::operator`].
    fn stored_faces<T: Real>(&self, _stencil: &S) -> Result<Option<StoredFaces<Self, S, T>>> {
        Ok(None)
    }

    /// The coarser levels of multigrid below an operator, where there can be any: as many as `wanted`, the finest
    /// included, or as many as are good. There are none unless a back end says so.
    ///
    /// # Errors
    /// See [`Supports::operator`].
    fn hierarchy<T: Real>(
        &self,
        _stencil: &S,
        _finest: &Arc<Self::Operator<T>>,
        _wanted: Option<usize>,
    ) -> Result<Option<Hierarchy<Self, S, T>>> {
        Ok(None)
    }

    /// The levels for relaxation of points, [`Smoother::PointRedBlack`](crate::options::Smoother::PointRedBlack).
    ///
    /// # Errors
    /// See [`Supports::operator`].
    fn point_hierarchy<T: Real>(
        &self,
        _stencil: &S,
        _finest: &Arc<Self::Operator<T>>,
        _wanted: Option<usize>,
    ) -> Result<Option<Hierarchy<Self, S, T>>> {
        Ok(None)
    }

    /// The levels for the hybrid smoother, [`Smoother::PointLine`](crate::options::Smoother::PointLine).
    ///
    /// # Errors
    /// See [`Supports::operator`].
    fn point_line_hierarchy<T: Real>(
        &self,
        _stencil: &S,
        _finest: &Arc<Self::Operator<T>>,
        _wanted: Option<usize>,
    ) -> Result<Option<Hierarchy<Self, S, T>>> {
        Ok(None)
    }

    /// Some vertical modes of a matrix, where it has any: as many as the options say, or as reach a tolerance at the least
    /// cost. It has none unless a back end says so.
    ///
    /// # Errors
    /// See [`VerticalModes::new`]; as [`Supports::operator`].
    fn modes<T: Real, C: Real>(
        &self,
        _stencil: &S,
        _operator: &Arc<Self::Operator<T>>,
        _options: &SolverOptions,
        _tolerance: f64,
    ) -> Result<Option<Modes<Self, S, T, C>>> {
        Ok(None)
    }

    /// The finest level of a mixed-precision hierarchy, where there are hierarchies.
    ///
    /// # Errors
    /// See [`Supports::operator`].
    fn mixed_top(
        &self,
        _double: &Arc<Self::Operator<f64>>,
        _single: &Arc<Self::Operator<f32>>,
        _hierarchy: &Hierarchy<Self, S, f32>,
        _relaxation: Relaxation,
    ) -> Result<Option<Box<dyn MixedTop<Self>>>> {
        Ok(None)
    }
}
