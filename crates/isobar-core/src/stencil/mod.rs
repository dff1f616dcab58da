//! Stencils are data: the numbers from which a back end computes rows of the matrix.
//!
//! * [`TensorProduct`] vertical vectors times horizontal fields (papers A and B),
//! * [`Diffusion`] one coefficient per cell, faces by harmonic means (papers C, D and E, reservoirs),
//! * [`StoredMatrix`] any matrix, every entry stored; [`OwnOperator`] one that a caller applies,
//! * [`Supports`] a back end's operators of a stencil; [`hierarchy`] its coarser levels; [`galerkin`] those of diffusion; [`point_levels`] those for
//!   smooth coefficients, on the grids of [`halving`],
//! * [`modes`] the two-dimensional problems of a tensor product's vertical modes; [`tensor_levels`] the levels of both,
//! * [`turns`] solver's grids that differ from the caller's: copies of periodic directions with an odd number of cells, and directions in another
//!   order, which [`orientation`] chooses; [`Crossing`] the factor by which couplings of one direction exceed another's,
//! * [`matrix_market`] matrices as files.

mod aggregation;
mod box_to_try;
mod crossing;
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
pub mod orientation;
mod own;
pub mod point_levels;
mod spread;
mod stored_matrix;
mod supports;
pub mod tensor_levels;
mod tensor_product;
mod tensor_product_stencil;
pub mod turns;
mod unknowns;

use std::borrow::Cow;

use crate::direct::Separable;
pub use crate::layout::Axis;
use crate::options::{Preconditioner, SolverOptions};
use crate::policy::{Choice, Trial};
use crate::{Result, Shape};
use orientation::Orientation;
use turns::Turns;

pub use crate::policy::diffusion::{MOST_CONTRAST_SINGLE, MOST_SINGLE, Measures, stiffness_of};
pub(crate) use aggregation::connected;
pub use crossing::Crossing;
pub use csr::Csr;
pub use diffusion::{Coefficients, Diffusion, Side};
pub use diffusion_halved::ends_of;
pub use faces::by_stored_faces;
pub use hierarchy::{Hierarchy, Small, Update};
pub use modes::VerticalModes;
pub use own::{HostOperator, OwnMatrix, OwnOperator};
pub use spread::{KnownShift, Spread};
pub(crate) use spread::{check_length, wrong_cell};
pub use stored_matrix::StoredMatrix;
pub(crate) use supports::levels;
pub use supports::{Lines, StoredFaces, Supports};
pub use tensor_levels::Modes;
pub use tensor_product::{Coupling, TensorProduct};
pub use unknowns::Unknowns;

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

    /// Returns whether A maps constants to 0 by construction; for stencils without aggregates, which find that themselves.
    fn has_constants(&self) -> bool {
        false
    }

    /// Fails if an iterative method is known to be wrong for the matrix.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) naming the number that causes it.
    fn check_iterated(&self) -> Result<()> {
        Ok(())
    }

    /// Fails if the matrix has no vertical modes, which another one of its kind has.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) with the reason.
    fn check_modes(&self) -> Result<()> {
        Err(crate::Error::Unsupported("vertical modes are those of a tensor product".into()))
    }

    /// Returns the relative error by rounding, which is to be added to estimates from residuals; nothing if these may not detect errors of rounding,
    /// or after this number of iterations, with a preconditioner that is not strong, those of regions that hardly couple.
    fn error_floor(&self, _weak_iterations: Option<usize>) -> Option<f64> {
        Some(f64::EPSILON)
    }

    /// Returns about the least eigenvalue of D⁻¹A, that of a constant, where known shifts alone hold it.
    fn hold(&self) -> Option<f64> {
        None
    }

    /// Returns whether a shift is known to dominate the couplings, so that all eigenvalues are of one size, with this
    /// preconditioner: none, the diagonal or lines.
    fn is_dominated(&self, _by: Preconditioner, _tolerance: f64) -> bool {
        false
    }

    /// Counts the cells of each floating component; nothing if the coefficients are not on the host.
    fn floating_sizes(&self) -> Option<Vec<usize>> {
        None
    }

    /// Returns the sides whose values have no effect because no open cell touches them: an axis and 0 for its lower side or 1 for its upper one.
    fn idle_sides(&self) -> Vec<(Axis, usize)> {
        Vec::new()
    }

    /// Returns active cells whose row is 0 although no solver treats their null space, (i, j, k) in the caller's order.
    fn isolated(&self) -> &[[usize; 3]] {
        &[]
    }

    /// Returns whether no cell is coupled to a cell outside its line along x, if that is known without a device.
    fn has_lines_apart(&self) -> bool {
        false
    }

    /// Chooses a solver for the matrix if these options leave that open.
    fn choice(&self, options: &SolverOptions) -> Choice;

    /// Returns the copies of a solver's grid: more than one where a checkerboard does not fit on a periodic direction.
    fn turns(&self) -> Turns {
        Turns::ONE
    }

    /// Returns the grid of a solver with these options on one rank: as [`Stencil::turns`], or with the directions in the order
    /// in which this device takes the least time.
    fn turns_for(&self, _options: &SolverOptions, _orientation: Orientation) -> Turns {
        self.turns()
    }

    /// Returns the matrix on a solver's grid.
    ///
    /// # Errors
    /// The larger matrix cannot be made.
    fn around(&self, _turns: Turns) -> Result<Cow<'_, Self>> {
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

    /// Returns its factors if it is separable and a direct solve is estimated to take less time than iterating.
    fn chooses_direct(&self) -> Option<Separable> {
        None
    }

    /// Returns whether at most one direction couples cells, and lines along it are solved exactly.
    fn has_one_direction(&self) -> bool {
        false
    }

    /// Returns the separable matrix nearest to this one, with lines along an axis or along any.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) if no cell is open; [`Error::Unsupported`](crate::Error::Unsupported) for matrices of another kind.
    fn nearest_box(&self, _line: Option<Axis>) -> Result<Separable> {
        Err(crate::Error::Unsupported(
            "solver.preconditioner.kind: \"direct\" is for grids with six neighbours a cell; use \"jacobi\" or \"none\"".into(),
        ))
    }

    /// Returns the nearest separable matrix where conjugate gradients may be faster with it than with multigrid, on a device of this
    /// [`Backend::products_like_rest`](crate::Backend::products_like_rest) and with lines along an axis or along any; a few iterations decide.
    fn tries_box(&self, _products_like_rest: Option<f64>, _line: Option<Axis>) -> Option<Trial<Separable>> {
        None
    }

    /// Returns the matrix of active cells for algebraic multigrid; nothing for other matrices than those of diffusion, and where the host lacks its
    /// coefficients or a row sum is negative.
    fn unknowns(&self) -> Option<Unknowns> {
        None
    }

    /// Returns whether its numbers cannot change later: they are not in a caller's arrays.
    fn keeps_numbers(&self) -> bool {
        true
    }

    /// Fails if `new` differs in more than coefficients, which [`Supports::update`] cannot change.
    ///
    /// # Errors
    /// [`Error::Shape`](crate::Error::Shape) for another grid, [`Error::Invalid`](crate::Error::Invalid) naming any other
    /// difference.
    fn check_update(&self, new: &Self) -> Result<()>;
}
