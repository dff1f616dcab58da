//! An operator that couples a cell to its six neighbours, on a GPU.
//!
//! [`SevenPoint`] takes all the steps that solvers ask for, over `Kernels` that launch them: what is done in which order,
//! what a sweep leaves, which vectors are exchanged, is written here once.
//!
//! * `steps` the capabilities that all have, [`transfer`] what goes between two levels of multigrid, `part` sweeps of parts of a
//!   grid, whose halo rows are filled on the way,
//! * [`passes`] kernels for any stencil that has a header (`kernels/seven_point/seven_point.cuh` says what is in one): a new
//!   stencil gets everything for that header and its `kind`, what `triangular` and `aggregate` add included; `lines` says how
//!   their blocks tile columns, `points` relaxation of points, `colours` that by colour, `look` what coefficients
//!   are like, `whole_grid` how substitution tiles the grid.
//!
//! The tensor-product operator brings kernels of its own.

#![expect(
    private_bounds,
    private_interfaces,
    reason = "operators are public by what they can do; what they are made of is the crate's"
)]

mod aggregate;
pub(crate) mod colours;
pub(crate) mod kind;
mod lines;
pub(crate) mod look;
pub mod passes;
pub(crate) mod points;
mod relay;
mod steps;
pub mod transfer;
mod triangular;
mod whole_grid;

use std::fmt::Debug;
use std::sync::Arc;

use isobar_core::backend::{Ratio, Scalar, Sums};
use isobar_core::error::{Error, Result};
use isobar_core::layout::{Colour, Layout};
use isobar_core::operator::Guess;
use isobar_core::operator::Relaxation;
use isobar_core::real::Real;
use isobar_core::stencil::Stencil;

use crate::cuda::Cuda;
use crate::launch::refuse_while_recording;
use crate::scalars::Scalars;
use crate::vector::Vector;

pub use transfer::LevelTransfer;

/// An operator with its coefficients on the GPU, by kernels `K`.
#[derive(Debug)]
pub struct SevenPoint<K> {
    kernels: K,
}

/// What the residual is like that a sweep leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Residual {
    /// Nothing is known of it.
    Any,
    /// It is zero in black columns, which were swept last.
    Red,
    /// It is that, and its red entries are no more than couplings to black ones: the sweep was from zero.
    Coupled,
}

/// What a group of steps needs that is made before the first of them is taken: kernels, and room for what they store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Steps {
    /// The step of conjugate gradients.
    Direction,
    /// Solves with lines.
    Lines,
    /// Sweeps.
    Sweeps,
    /// Transfers to a coarser level.
    Transfers,
}

/// The kernels of an operator, a method a step, and what they are about. Scalars, and vectors of the operator's layout, are
/// the caller's; coefficients are on the GPU.
pub(crate) trait Kernels: Debug + Send + Sync + Sized + 'static {
    /// Of vectors and coefficients.
    type Real: Real;
    /// What coefficients come from.
    type Stencil: Stencil;

    /// Room for the coefficients of stencils of this form, without them.
    fn new(cuda: &Cuda, stencil: &Self::Stencil) -> Result<Self>;

    /// Puts coefficients on the GPU, and has it compute what depends on them. Allocates nothing; what was recorded stays
    /// valid.
    fn send(&self, stencil: &Self::Stencil) -> Result<()>;

    fn prepare(&self, steps: Steps) -> Result<()>;

    fn cuda(&self) -> &Cuda;

    fn layout(&self) -> &Layout;

    /// As [`isobar_core::operator::Operator::coefficient_vectors`].
    fn coefficient_vectors(&self) -> f64;

    /// Bytes of coefficients on the GPU.
    fn coefficient_bytes(&self) -> usize;

    /// Whether a sweep needs a column's own old values, even where it is not over-relaxed.
    fn looks_at_itself(&self) -> bool {
        false
    }

    /// Whether transfers and sweeps of this kind write to their scratch vector.
    fn needs_scratch(&self) -> bool;

    /// Whether transfers with sweeps of points may exchange u with their scratch vector.
    fn exchanges_cells(&self) -> bool {
        false
    }

    /// y = A x
    fn apply(&self, x: &Vector<Self::Real>, y: &mut Vector<Self::Real>) -> Result<()>;

    /// r = f − A u;  ‖r‖²
    fn residual(
        &self,
        f: &Vector<Self::Real>,
        u: &Vector<Self::Real>,
        r: &mut Vector<Self::Real>,
        norm: Scalar,
        scalars: &mut Scalars,
    ) -> Result<()>;

    /// ‖f − A u‖²
    fn residual_norm(
        &self,
        which: Residual,
        f: &Vector<Self::Real>,
        u: &Vector<Self::Real>,
        norm: Scalar,
        scalars: &mut Scalars,
    ) -> Result<()>;

    /// z = D⁻¹ r
    fn divide_by_diagonal(&self, r: &Vector<Self::Real>, z: &mut Vector<Self::Real>) -> Result<()>;

    /// r −= αq;  z = D⁻¹ r;  ρ = ⟨r, z⟩;  ‖r‖²
    fn scale_residual(
        &self,
        r: &mut Vector<Self::Real>,
        q: &Vector<Self::Real>,
        z: &mut Vector<Self::Real>,
        alpha: Ratio,
        out: Sums<2>,
        scalars: &mut Scalars,
    ) -> Result<()>;

    /// u += αp;  p' = z + βp;  q = A p';  σ = ⟨p', q⟩, given z and p, u, p' and q, α and β
    fn advance_direction(
        &self,
        z_p: [&Vector<Self::Real>; 2],
        u_next_q: [&mut Vector<Self::Real>; 3],
        alpha_beta: [Ratio; 2],
        sigma: Scalar,
        scalars: &mut Scalars,
    ) -> Result<()>;

    /// z = M⁻¹ r
    fn solve_lines(&self, r: &Vector<Self::Real>, z: &mut Vector<Self::Real>) -> Result<()>;

    /// r −= αq;  z = M⁻¹ r;  ρ = ⟨r, z⟩;  ‖r‖²
    fn precondition_residual(
        &self,
        r: &mut Vector<Self::Real>,
        q: &Vector<Self::Real>,
        z: &mut Vector<Self::Real>,
        alpha: Ratio,
        out: Sums<2>,
        scalars: &mut Scalars,
    ) -> Result<()>;

    /// u += ρ M⁻¹(f − A u) in the columns of one colour. From [`Guess::Zero`] the other colour counts as zero whatever it
    /// holds; so does this one, but where ρ ≠ 1 or [`Kernels::looks_at_itself`], where it has been cleared. `scratch` is
    /// overwritten or, where [`Kernels::needs_scratch`] says no, left alone.
    fn sweep(
        &self,
        rho: f64,
        colour: Colour,
        guess: Guess,
        f: &Vector<Self::Real>,
        u: &mut Vector<Self::Real>,
        scratch: &mut Vector<Self::Real>,
    ) -> Result<()>;

    /// A sweep of u += ρ D⁻¹(f − A u) in the cells of one colour, then in the others; from [`Guess::Zero`] u counts as zero
    /// whatever it holds. Before either half that looks at u its halo rows are filled.
    fn sweep_cells(
        &self,
        _rho: f64,
        _first: Colour,
        _guess: Guess,
        _f: &Vector<Self::Real>,
        _u: &mut Vector<Self::Real>,
    ) -> Result<()> {
        Err(Error::Unsupported("relaxation of points by colour is not for matrices of this kind on this device".into()))
    }

    /// to = u + ρ M⁻¹(f − A u). From [`Guess::Zero`] u may be overwritten.
    fn sweep_to(
        &self,
        rho: f64,
        guess: Guess,
        f: &Vector<Self::Real>,
        u: &mut Vector<Self::Real>,
        to: &mut Vector<Self::Real>,
    ) -> Result<()>;
}

/// Kernels of transfers to a coarser level of the same kind.
pub(crate) trait TransferKernels: Kernels {
    /// Whether restriction is the transpose of prolongation.
    const ADJOINT: bool;

    /// f_c = R f
    fn restrict(&self, f: &Vector<Self::Real>, coarse_f: &mut Vector<Self::Real>) -> Result<()>;

    /// u += P u_c
    fn prolong(&self, coarse_u: &Vector<Self::Real>, u: &mut Vector<Self::Real>) -> Result<()>;

    /// f_c = R (f − A u)
    fn restrict_residual(
        &self,
        which: Residual,
        f: &Vector<Self::Real>,
        u: &Vector<Self::Real>,
        coarse_f: &mut Vector<Self::Real>,
    ) -> Result<()>;

    /// A sweep of both colours with ρ = 1, then f_c = R (f − A u), as one launch, where there is one. `scratch` is
    /// exchanged with u, and then what u was.
    fn sweep_restrict(
        &self,
        _first: Colour,
        _guess: Guess,
        _f: &Vector<Self::Real>,
        _u: &mut Vector<Self::Real>,
        _coarse_f: &mut Vector<Self::Real>,
        _scratch: &mut Vector<Self::Real>,
    ) -> Result<bool> {
        Ok(false)
    }

    /// u += P u_c, then a sweep of both colours with ρ = 1, and where τ is not 1 u = τ u + (1 − τ) scratch, as one launch, where
    /// there is one. `scratch` is exchanged with u.
    fn prolong_sweep_both(
        &self,
        _first: Colour,
        _f: &Vector<Self::Real>,
        _coarse_u: &Vector<Self::Real>,
        _u: &mut Vector<Self::Real>,
        _scratch: &mut Vector<Self::Real>,
        _tau: f64,
    ) -> Result<bool> {
        Ok(false)
    }

    /// u += P u_c, then [`Kernels::sweep`] of one colour with ρ = 1. The other colour may be left uncorrected: it is swept
    /// next.
    fn prolong_sweep(
        &self,
        colour: Colour,
        f: &Vector<Self::Real>,
        coarse_u: &Vector<Self::Real>,
        u: &mut Vector<Self::Real>,
    ) -> Result<()>;
}

impl<K: Kernels> SevenPoint<K> {
    /// Puts a stencil on the GPU.
    pub(crate) fn new(cuda: &Cuda, stencil: &K::Stencil) -> Result<Arc<Self>> {
        refuse_while_recording("making an operator")?;
        Self::made_of(K::new(cuda, stencil)?, stencil)
    }

    /// Gives kernels their coefficients.
    pub(crate) fn made_of(kernels: K, stencil: &K::Stencil) -> Result<Arc<Self>> {
        kernels.send(stencil)?;
        Ok(Arc::new(Self { kernels }))
    }

    /// Around kernels whose coefficients come from elsewhere.
    pub(crate) fn with(kernels: K) -> Arc<Self> {
        Arc::new(Self { kernels })
    }

    /// Gives it the coefficients of another stencil of the same form.
    pub(crate) fn update(&self, stencil: &K::Stencil) -> Result<()> {
        refuse_while_recording("updating an operator")?;
        self.kernels.send(stencil)
    }

    pub(crate) fn kernels(&self) -> &K {
        &self.kernels
    }

    /// Whether a sweep overwrites columns whatever they hold, so that it can be fused with what comes before.
    pub(crate) fn overwrites(&self, relaxation: Relaxation) -> bool {
        relaxation.overwrites() && !self.kernels.looks_at_itself()
    }

    /// The residual that a sweep leaves.
    pub(crate) fn left_by(&self, relaxation: Relaxation, guess: Guess) -> Residual {
        let ends_with_black = self.overwrites(relaxation) && self.layout_of().local(relaxation.first) == Colour::Red;
        match guess {
            _ if !ends_with_black => Residual::Any,
            Guess::Zero => Residual::Coupled,
            Guess::Given => Residual::Red,
        }
    }

    pub(crate) fn layout_of(&self) -> &Layout {
        self.kernels.layout()
    }
}
