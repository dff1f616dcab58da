//! Operators on a part of a larger grid, with what lies beyond it in halo rows.
//!
//! A step that changes a vector fills its halo rows by [`Backend::fill`](crate::backend::Backend::fill)(crate::backend::Backend::fill) whenever it needs what the
//! neighbours have. Of a vector that a step only reads, the caller fills them; the steps here fill them too, so that they may compute
//! the inside while halo rows travel.

use super::{CgOperator, Diagonal, Direction, LineSmoother, LineSolver, PointSmoother, Triangular};
use crate::backend::part::{PartBackend, nothing};
use crate::backend::{Ratio, Scalar};
use crate::error::Result;
use crate::layout::Colour;
use crate::options::PointCycle;
use crate::real::Real;

/// An operator whose vectors may be parts of larger ones, and that relaxes. Sums are those of the part's own rows.
pub trait PartSmoother<B: PartBackend, T: Real>: LineSmoother<B, T> {
    /// [`Operator::apply`](super::Operator::apply), and halo rows of x are filled.
    ///
    /// # Errors
    /// As [`Backend::fill`](crate::backend::Backend::fill).
    fn apply_part(&self, x: &mut B::Vector<T>, y: &mut B::Vector<T>) -> Result<()> {
        self.backend().fill(x, &Colour::BOTH, &mut nothing)?;
        self.apply(x, y)
    }

    /// [`Operator::residual`](super::Operator::residual), and halo rows of u are filled.
    ///
    /// # Errors
    /// As [`Backend::fill`](crate::backend::Backend::fill).
    fn residual_part(
        &self,
        f: &B::Vector<T>,
        u: &mut B::Vector<T>,
        r: &mut B::Vector<T>,
        norm: Scalar,
        scalars: &mut B::Scalars,
    ) -> Result<()> {
        self.backend().fill(u, &Colour::BOTH, &mut nothing)?;
        self.residual(f, u, r, norm, scalars)
    }

    /// [`Operator::residual_norm`](super::Operator::residual_norm), and halo rows of u are filled.
    ///
    /// # Errors
    /// As [`Backend::fill`](crate::backend::Backend::fill).
    fn residual_norm_part(
        &self,
        f: &B::Vector<T>,
        u: &mut B::Vector<T>,
        scratch: &mut B::Vector<T>,
        norm: Scalar,
        scalars: &mut B::Scalars,
    ) -> Result<()> {
        self.backend().fill(u, &Colour::BOTH, &mut nothing)?;
        self.residual_norm(f, u, scratch, norm, scalars)
    }
}

/// The same for Krylov methods. [`CgOperator::advance_direction`] advances p in its halo rows too, from those of z: that saves an
/// exchange between advancing and applying.
pub trait PartOperator<B: PartBackend, T: Real>:
    CgOperator<B, T> + Diagonal<B, T> + LineSolver<B, T> + PartSmoother<B, T>
{
    /// [`CgOperator::advance_direction`], and halo rows of z are filled.
    ///
    /// # Errors
    /// As [`Backend::fill`](crate::backend::Backend::fill).
    fn advance_direction_part(
        &self,
        v: Direction<'_, B::Vector<T>, &mut B::Vector<T>>,
        alpha: Ratio,
        beta: Ratio,
        sigma: Scalar,
        scalars: &mut B::Scalars,
    ) -> Result<()> {
        let Direction { u, p, next, z, q } = v;
        LineSolver::<B, T>::backend(self).fill(z, &Colour::BOTH, &mut nothing)?;
        self.advance_direction(Direction { u, p, next, z, q }, alpha, beta, sigma, scalars)
    }
}

/// [`PointSmoother`] on a part, by sweeps. [`PointSmoother::relax_points`] reads the halo rows of u.
pub trait PartPoints<B: PartBackend, T: Real>: PointSmoother<B, T> + PartSmoother<B, T> {
    /// [`PointSmoother::relax_points`], and halo rows of u are filled.
    ///
    /// # Errors
    /// As [`Backend::fill`](crate::backend::Backend::fill).
    fn relax_points_part(
        &self,
        cycle: &PointCycle,
        f: &B::Vector<T>,
        u: &mut B::Vector<T>,
        v: &mut B::Vector<T>,
        norm: Scalar,
        scalars: &mut B::Scalars,
    ) -> Result<()> {
        self.backend().fill(u, &Colour::BOTH, &mut nothing)?;
        self.relax_points(cycle, f, u, v, norm, scalars)
    }
}

/// An operator of a part with the steps of [`Triangular`], which go through the unknowns of the whole grid in order, wherever those are:
/// [`Triangular::relax_lower`] and [`Triangular::relax_upper`] read the halo rows of w, [`Triangular::incomplete_poisson`] those of r
/// and of D⁻¹; where parts take turns, each begins with what [`PartBackend::hand_on`] brings.
pub trait PartTriangular<B: PartBackend, T: Real>: Triangular<B, T> + PartOperator<B, T> {}

impl<B: PartBackend, T: Real, O: Triangular<B, T> + PartOperator<B, T>> PartTriangular<B, T> for O {}
