//! Operators that couple a cell to its six neighbours, on a GPU.
//!
//! [`SevenPoint`] implements all steps of solvers with the launches of `Kernels`: the order of launches,
//! the state after a sweep, and swaps of vectors are implemented here once.
//!
//! * `steps`: the common capabilities,
//! * [`passes`]: kernels for a stencil with a header (specified in `kernels/seven_point/seven_point.cuh`), now diffusion's alone; `form`:
//!   the properties that kernels are compiled for; `triangular`, `aggregate`; `lines`: tiles of columns; `points`: point relaxation;
//!   `colours`: red–black point relaxation; `look`: measures of coefficients; `whole_grid`: tiles of triangular solves; `sources`: all of
//!   these, for tests.
//!
//! The tensor-product operator has its own kernels.

#![expect(
    private_bounds,
    private_interfaces,
    reason = "operators are public through their capabilities; their parts are private"
)]

mod aggregate;
pub(crate) mod colours;
pub(crate) mod form;
mod lines;
pub(crate) mod look;
pub mod passes;
pub(crate) mod points;
mod relay;
pub(crate) mod sources;
mod steps;
mod triangular;
mod whole_grid;

use std::fmt::Debug;
use std::sync::Arc;

use isobar_core::prelude::{
    Colour, Error, Guess, Layout, Ratio, Real, Relaxation, ResidualUpdate, Result, Scalar, Stencil,
};

use crate::launch::refuse_while_recording;
use crate::vector::is_single;
use crate::{Cuda, Scalars, Sum, Vector};

/// An operator with its coefficients on the GPU and kernels `K`.
#[derive(Debug)]
pub struct SevenPoint<K> {
    kernels: K,
}

/// Properties of the residual after a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Residual {
    /// No special property.
    Any,
    /// Zero in black columns, which were swept last.
    Red,
    /// Zero in black columns; red entries consist of couplings to black ones only, since the sweep began from zero.
    Coupled,
}

/// Returns the kernel of [`Kernels::advance_direction`] for z and q in single precision, or in that of the operator.
pub(crate) fn direction_kernel<T: Real>(is_rounded: bool) -> &'static str {
    if is_rounded && !is_single::<T>() { "advance_direction_single" } else { "advance_direction" }
}

/// A group of steps whose kernels and memory are prepared together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Steps {
    /// The step of conjugate gradients, with z and q in single precision or in that of the operator.
    Direction { is_single: bool },
    /// Line solves.
    Lines,
    /// Sweeps.
    Sweeps,
    /// Transfers to a coarser level.
    Transfers,
}

/// The kernels of an operator, a method per step. Scalars and vectors are the caller's; coefficients are on the GPU.
pub(crate) trait Kernels: Debug + Send + Sync + Sized + 'static {
    /// The precision of vectors and coefficients.
    type Real: Real;
    /// The stencil that coefficients come from.
    type Stencil: Stencil;

    /// Allocates the coefficients of stencils of this form.
    fn new(cuda: &Cuda, stencil: &Self::Stencil) -> Result<Self>;

    /// Copies coefficients to the GPU and computes everything that depends on them. Returns whether a number may have changed. Allocates
    /// no vector; recorded iterations stay valid.
    fn send(&self, stencil: &Self::Stencil) -> Result<bool>;

    fn prepare(&self, steps: Steps) -> Result<()>;

    fn cuda(&self) -> &Cuda;

    fn layout(&self) -> &Layout;

    /// Implements [`isobar_core::operator::Operator::coefficient_vectors`].
    fn coefficient_vectors(&self) -> f64;

    /// Returns the bytes of coefficients on the GPU.
    fn coefficient_bytes(&self) -> usize;

    /// Returns whether a sweep uses a column's own old values even without over-relaxation.
    fn looks_at_itself(&self) -> bool {
        false
    }

    /// Returns whether transfers and sweeps of this kind write to their scratch vector.
    fn needs_scratch(&self) -> bool;

    /// Returns whether transfers with sweeps of points may swap u with their scratch vector.
    fn exchanges_cells(&self) -> bool {
        false
    }

    /// Computes y = A x.
    fn apply(&self, x: &Vector<Self::Real>, y: &mut Vector<Self::Real>) -> Result<()>;

    /// Computes r = f − A u;  ‖r‖².
    fn residual(&self, f_u: [&Vector<Self::Real>; 2], r: &mut Vector<Self::Real>, norm: Sum<'_>) -> Result<()>;

    /// Computes ‖f − A u‖².
    fn residual_norm(&self, which: Residual, f_u: [&Vector<Self::Real>; 2], norm: Sum<'_>) -> Result<()>;

    /// Computes z = D⁻¹ r.
    fn divide_by_diagonal(&self, r: &Vector<Self::Real>, z: &mut Vector<Self::Real>) -> Result<()>;

    /// Computes r −= αq;  z = D⁻¹ r;  ρ = ⟨r, z⟩;  ‖r‖².
    fn scale_residual(&self, v: ResidualUpdate<'_, Vector<Self::Real>>, scalars: &mut Scalars) -> Result<()>;

    /// Computes u += αp;  p' = z + βp;  q = A p';  σ = ⟨p', q⟩, with z and q in either precision.
    fn advance_direction<R: Real>(
        &self,
        z_q: (&Vector<R>, &mut Vector<R>),
        p: &Vector<Self::Real>,
        u_next: [&mut Vector<Self::Real>; 2],
        alpha_beta: [Ratio; 2],
        sigma: Scalar,
        scalars: &mut Scalars,
    ) -> Result<()>;

    /// Computes z = M⁻¹ r.
    fn solve_lines(&self, r: &Vector<Self::Real>, z: &mut Vector<Self::Real>) -> Result<()>;

    /// Computes r −= αq;  z = M⁻¹ r;  ρ = ⟨r, z⟩;  ‖r‖².
    fn precondition_residual(&self, v: ResidualUpdate<'_, Vector<Self::Real>>, scalars: &mut Scalars) -> Result<()>;

    /// Sweeps u += ρ M⁻¹(f − A u) in the columns of one colour. With [`Guess::Zero`] the other colour counts as zero whatever it
    /// contains. So does this colour, except if ρ ≠ 1 or [`Kernels::looks_at_itself`]; it then has been cleared. `scratch` is
    /// overwritten if [`Kernels::needs_scratch`], else unchanged.
    fn sweep(
        &self,
        rho: f64,
        colour: Colour,
        guess: Guess,
        f: &Vector<Self::Real>,
        u: &mut Vector<Self::Real>,
        scratch: &mut Vector<Self::Real>,
    ) -> Result<()>;

    /// Sweeps u += ρ D⁻¹(f − A u) in the cells of one colour, then in the others; with [`Guess::Zero`] u counts as zero
    /// whatever it contains. Halo rows are filled before either half that reads u.
    fn sweep_cells(
        &self,
        _rho: f64,
        _first: Colour,
        _guess: Guess,
        _f: &Vector<Self::Real>,
        _u: &mut Vector<Self::Real>,
    ) -> Result<()> {
        Err(Error::Unsupported(
            "relaxation of points by colour is not supported for this kind of matrix on this device".into(),
        ))
    }

    /// Computes to = u + ρ M⁻¹(f − A u). With [`Guess::Zero`] u may be overwritten.
    fn sweep_to(
        &self,
        rho: f64,
        guess: Guess,
        f: &Vector<Self::Real>,
        u: &mut Vector<Self::Real>,
        to: &mut Vector<Self::Real>,
    ) -> Result<()>;
}

impl<K: Kernels> SevenPoint<K> {
    /// Copies a stencil to the GPU.
    pub(crate) fn new(cuda: &Cuda, stencil: &K::Stencil) -> Result<Arc<Self>> {
        refuse_while_recording("making an operator")?;
        Self::made_of(K::new(cuda, stencil)?, stencil)
    }

    /// Gives kernels their coefficients.
    pub(crate) fn made_of(kernels: K, stencil: &K::Stencil) -> Result<Arc<Self>> {
        kernels.send(stencil)?;
        Ok(Arc::new(Self { kernels }))
    }

    /// Wraps kernels whose coefficients come from elsewhere.
    pub(crate) fn with(kernels: K) -> Arc<Self> {
        Arc::new(Self { kernels })
    }

    /// Replaces the coefficients by those of another stencil of the same form. Returns whether a number may have changed.
    pub(crate) fn update(&self, stencil: &K::Stencil) -> Result<bool> {
        refuse_while_recording("updating an operator")?;
        self.kernels.send(stencil)
    }

    pub(crate) fn kernels(&self) -> &K {
        &self.kernels
    }

    /// Returns whether a sweep overwrites columns without using their values, so that it can be fused with the previous step.
    pub(crate) fn overwrites(&self, relaxation: Relaxation) -> bool {
        relaxation.overwrites() && !self.kernels.looks_at_itself()
    }

    /// Returns the properties of the residual after a sweep.
    pub(crate) fn left_by(&self, relaxation: Relaxation, guess: Guess) -> Residual {
        let ends_with_black = self.overwrites(relaxation) && self.layout_of().local(relaxation.last()) == Colour::Black;
        match guess {
            _ if !ends_with_black => Residual::Any,
            Guess::Zero if !relaxation.returns => Residual::Coupled,
            _ => Residual::Red,
        }
    }

    pub(crate) fn layout_of(&self) -> &Layout {
        self.kernels.layout()
    }
}
