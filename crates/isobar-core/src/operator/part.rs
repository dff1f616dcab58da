//! Operators on a part of a larger grid, with what lies beyond it in halo rows.
//!
//! A step reads the halo rows of the vectors that it couples, and whoever calls it has filled them. Relaxation by colours
//! needs those of one colour again after the other was swept: such a step asks for them. So does one whose inner cells can be
//! computed while they travel.

use super::{
    CgOperator, Correction, Diagonal, Direction, Guess, LineSmoother, LineSolver, MixedSmoother, ModalTransfer,
    PointSmoother, Relaxation, Transfer, Triangular,
};
use crate::backend::part::{Fill, Meanwhile, PartBackend, nothing};
use crate::backend::{Backend, Ratio, Scalar, Sums};
use crate::error::Result;
use crate::layout::Colour;
use crate::options::{PointCycle, Smoother};
use crate::real::Real;

/// An operator whose vectors may be parts of larger ones, and that relaxes. Sums are those of the part's own rows.
pub trait PartSmoother<B: PartBackend, T: Real>: LineSmoother<B, T> {
    /// [`LineSmoother::smooth`], with `fill` called whenever halo rows of u must hold what the neighbours have by then. It
    /// is called as often on every part, whatever there is to fill.
    ///
    /// # Errors
    /// Those of `fill`; what the device reports.
    fn smooth_part(
        &self,
        relaxation: Relaxation,
        guess: Guess,
        f: &B::Vector<T>,
        u: &mut B::Vector<T>,
        scratch: &mut B::Vector<T>,
        fill: &mut Fill<'_, B::Vector<T>>,
    ) -> Result<()>;

    /// [`Operator::apply`](super::Operator::apply), with `fill` called for x, and so it is for u by the next two.
    ///
    /// # Errors
    /// As [`PartSmoother::smooth_part`].
    fn apply_part(&self, x: &mut B::Vector<T>, y: &mut B::Vector<T>, fill: &mut Fill<'_, B::Vector<T>>) -> Result<()> {
        fill(x, &Colour::BOTH, &mut nothing)?;
        self.apply(x, y)
    }

    /// [`Operator::residual`](super::Operator::residual)
    ///
    /// # Errors
    /// As [`PartSmoother::smooth_part`].
    fn residual_part(
        &self,
        f: &B::Vector<T>,
        u: &mut B::Vector<T>,
        r: &mut B::Vector<T>,
        norm: Scalar,
        scalars: &mut B::Scalars,
        fill: &mut Fill<'_, B::Vector<T>>,
    ) -> Result<()> {
        fill(u, &Colour::BOTH, &mut nothing)?;
        self.residual(f, u, r, norm, scalars)
    }

    /// [`Operator::residual_norm`](super::Operator::residual_norm)
    ///
    /// # Errors
    /// As [`PartSmoother::smooth_part`].
    fn residual_norm_part(
        &self,
        f: &B::Vector<T>,
        u: &mut B::Vector<T>,
        scratch: &mut B::Vector<T>,
        norm: Scalar,
        scalars: &mut B::Scalars,
        fill: &mut Fill<'_, B::Vector<T>>,
    ) -> Result<()> {
        fill(u, &Colour::BOTH, &mut nothing)?;
        self.residual_norm(f, u, scratch, norm, scalars)
    }

    /// The colours whose halo rows are not what the neighbours hold after a sweep.
    fn stale_after(&self, relaxation: Relaxation) -> &'static [Colour] {
        stale_after(relaxation)
    }
}

/// The same for Krylov methods. [`CgOperator::advance_direction`] advances p in its halo rows too, from those of z: that saves an
/// exchange between advancing and applying.
pub trait PartOperator<B: PartBackend, T: Real>:
    CgOperator<B, T> + Diagonal<B, T> + LineSolver<B, T> + PartSmoother<B, T>
{
    /// [`CgOperator::advance_direction`], with `fill` called for z.
    ///
    /// # Errors
    /// As [`PartSmoother::smooth_part`].
    fn advance_direction_part(
        &self,
        v: Direction<'_, B::Vector<T>, &mut B::Vector<T>>,
        alpha: Ratio,
        beta: Ratio,
        sigma: Scalar,
        scalars: &mut B::Scalars,
        fill: &mut Fill<'_, B::Vector<T>>,
    ) -> Result<()> {
        let Direction { u, p, next, z, q } = v;
        fill(z, &Colour::BOTH, &mut nothing)?;
        self.advance_direction(Direction { u, p, next, z, q }, alpha, beta, sigma, scalars)
    }
}

/// [`PointSmoother`] on a part, by sweeps. [`PointSmoother::relax_points`] reads the halo rows of u.
pub trait PartPoints<B: PartBackend, T: Real>: PointSmoother<B, T> + PartSmoother<B, T> {
    /// [`PointSmoother::relax_points`], with `fill` called for u.
    ///
    /// # Errors
    /// As [`PartSmoother::smooth_part`].
    fn relax_points_part(
        &self,
        cycle: &PointCycle,
        f: &B::Vector<T>,
        u: &mut B::Vector<T>,
        v: &mut B::Vector<T>,
        norm: Scalar,
        scalars: &mut B::Scalars,
        fill: &mut Fill<'_, B::Vector<T>>,
    ) -> Result<()> {
        fill(u, &Colour::BOTH, &mut nothing)?;
        self.relax_points(cycle, f, u, v, norm, scalars)
    }
}

/// What goes from part to part where unknowns are gone through in order: a piece of the row at the end of one, which is the
/// halo row of the next.
#[derive(Debug)]
pub struct Handed<'a, T> {
    /// Whether parts take their turns from the first to the last, or from the last to the first.
    pub upwards: bool,
    /// What the next part needs; empty where there is nothing to send.
    pub send: &'a [T],
    /// What the part before has sent; empty where nothing comes.
    pub receive: &'a mut [T],
}

/// Hands pieces on. What is sent in one call the neighbour receives in one call, in the same order.
pub type HandOn<'f, T> = dyn FnMut(Handed<'_, T>) -> Result<()> + 'f;

/// [`Triangular`] on a part, with unknowns numbered as those of the whole grid. [`Triangular::relax_lower`] and
/// [`Triangular::relax_upper`] read the halo rows of w, [`Triangular::incomplete_poisson`] those of r and of D⁻¹.
pub trait PartTriangular<B: PartBackend, T: Real>: Triangular<B, T> + PartOperator<B, T> {
    /// Factorisation and substitution over all parts; nothing where parts have no such steps.
    fn substitution(&self) -> Option<&dyn PartSubstitution<B, T>> {
        None
    }
}

/// Factorisation and substitution on a part. They go through the unknowns of the whole grid in order, wherever those are: a part
/// begins with a piece of its rows when the part before has handed its own on.
pub trait PartSubstitution<B: PartBackend, T: Real>: PartTriangular<B, T> {
    /// [`Triangular::factorise`]
    ///
    /// # Errors
    /// Those of `hand_on`; what the device reports.
    fn factorise_part(
        &self,
        block: usize,
        relaxation: f64,
        inverse_pivots: &mut B::Vector<T>,
        hand_on: &mut HandOn<'_, T>,
    ) -> Result<()>;

    /// [`Triangular::substitute`]
    ///
    /// # Errors
    /// As [`PartSubstitution::factorise_part`].
    fn substitute_part(
        &self,
        block: usize,
        inverse_pivots: &B::Vector<T>,
        r: &B::Vector<T>,
        z: &mut B::Vector<T>,
        hand_on: &mut HandOn<'_, T>,
    ) -> Result<()>;

    /// [`Triangular::substitute_residual`]
    ///
    /// # Errors
    /// As [`PartSubstitution::factorise_part`].
    fn substitute_residual_part(
        &self,
        block: usize,
        inverse_pivots: &B::Vector<T>,
        r: &mut B::Vector<T>,
        q: &B::Vector<T>,
        z: &mut B::Vector<T>,
        alpha: Ratio,
        out: Sums<2>,
        scalars: &mut B::Scalars,
        hand_on: &mut HandOn<'_, T>,
    ) -> Result<()> {
        let backend = LineSolver::<B, T>::backend(self);
        backend.axpy(alpha.negated(), q, r, scalars)?;
        self.substitute_part(block, inverse_pivots, r, z, hand_on)?;
        backend.dot(r, z, out.get(0), scalars)?;
        backend.dot(r, r, out.get(1), scalars)
    }
}

/// [`Transfer`] between two levels whose parts are made of the same rows. [`Transfer::prolong`] reads the halo rows of u_c,
/// [`Transfer::residual_restrict`] those of u.
pub trait PartTransfer<B: PartBackend, T: Real>: Transfer<B, T> {
    /// The finer level.
    fn fine_part(&self) -> &dyn PartSmoother<B, T>;

    /// Whether [`PartTransfer::restrict_part`] reads the halo rows of f, which whoever calls it has filled then.
    fn restricts_halo(&self) -> bool {
        false
    }

    /// [`Transfer::restrict`], with `fill` called for vectors of its own where a coarse row is made of rows of several parts.
    ///
    /// # Errors
    /// As [`PartSmoother::smooth_part`].
    fn restrict_part(
        &self,
        f: &B::Vector<T>,
        coarse_f: &mut B::Vector<T>,
        _fill: &mut Fill<'_, B::Vector<T>>,
    ) -> Result<()> {
        self.restrict(f, coarse_f)
    }

    /// [`Transfer::residual_restrict`] in the same way; the halo rows of u are filled.
    ///
    /// # Errors
    /// As there.
    fn residual_restrict_part(
        &self,
        f: &B::Vector<T>,
        u: &B::Vector<T>,
        coarse_f: &mut B::Vector<T>,
        scratch: &mut B::Vector<T>,
        _fill: &mut Fill<'_, B::Vector<T>>,
    ) -> Result<()> {
        self.residual_restrict(f, u, coarse_f, scratch)
    }

    /// [`Transfer::smooth_residual_restrict`], with `fill` called as by [`PartSmoother::smooth_part`].
    ///
    /// # Errors
    /// As there.
    fn smooth_residual_restrict_part(
        &self,
        relaxation: Relaxation,
        guess: Guess,
        f: &B::Vector<T>,
        u: &mut B::Vector<T>,
        coarse_f: &mut B::Vector<T>,
        scratch: &mut B::Vector<T>,
        fill: &mut Fill<'_, B::Vector<T>>,
    ) -> Result<()> {
        self.fine_part().smooth_part(relaxation, guess, f, u, scratch, fill)?;
        fill(u, self.fine_part().stale_after(relaxation), &mut nothing)?;
        self.residual_restrict_part(f, u, coarse_f, scratch, fill)
    }

    /// [`Transfer::prolong_smooth`], with `fill` called for u as by [`PartSmoother::smooth_part`].
    ///
    /// # Errors
    /// As there.
    fn prolong_smooth_part(
        &self,
        relaxation: Relaxation,
        f: &B::Vector<T>,
        coarse_u: &B::Vector<T>,
        u: &mut B::Vector<T>,
        scratch: &mut B::Vector<T>,
        norm: Option<(Scalar, &mut <B as Backend>::Scalars)>,
        fill: &mut Fill<'_, B::Vector<T>>,
    ) -> Result<()> {
        self.prolong(coarse_u, u)?;
        self.fine_part().smooth_part(relaxation, Guess::Given, f, u, scratch, fill)?;
        match norm {
            Some((scalar, scalars)) => {
                fill(u, self.fine_part().stale_after(relaxation), &mut nothing)?;
                self.fine_part().residual_norm(f, u, scratch, scalar, scalars)
            }
            None => Ok(()),
        }
    }
}

/// [`Correction`] on a part, of bodies that may go on in others.
pub trait PartCorrection<B: PartBackend, T: Real>: Correction<B, T> {
    /// Whether [`PartCorrection::correct_part`] combines any sums; the same on every part.
    fn has_shared(&self) -> bool;

    /// [`Correction::correct`]; `combine` makes sums of the part's own cells those of all parts. It is called as often on every
    /// part, with as many.
    ///
    /// # Errors
    /// Those of `combine`; what the device reports.
    fn correct_part(
        &self,
        r: &B::Vector<T>,
        u: &mut B::Vector<T>,
        combine: &mut dyn FnMut(&mut [f64]) -> Result<()>,
    ) -> Result<()>;
}

/// [`MixedSmoother`] on a part. [`MixedSmoother::residual_in_single`] reads the halo rows of u.
pub trait PartMixedSmoother<B: PartBackend>: MixedSmoother<B> + PartOperator<B, f64> {
    /// [`MixedSmoother::correct_smooth_residual`], with `fill` called as by [`PartSmoother::smooth_part`].
    ///
    /// # Errors
    /// As there.
    fn correct_smooth_residual_part(
        &self,
        relaxation: Relaxation,
        f: &B::Vector<f64>,
        e: &B::Vector<f32>,
        u: &mut B::Vector<f64>,
        r: &mut B::Vector<f32>,
        scratch: &mut B::Vector<f64>,
        norm: Scalar,
        scalars: &mut B::Scalars,
        fill: &mut Fill<'_, B::Vector<f64>>,
    ) -> Result<()> {
        LineSolver::<_, f64>::backend(self).axpy(Ratio::ONE, e, u, scalars)?;
        self.smooth_part(relaxation, Guess::Given, f, u, scratch, fill)?;
        fill(u, stale_after(relaxation), &mut nothing)?;
        self.residual_in_single(f, u, r, scratch, norm, scalars)
    }
}

/// [`ModalTransfer`] between a part and all modes of its own rows, which have no halo. [`ModalTransfer::project_residual`] reads
/// the halo rows of u; no step leaves those of u right.
pub trait PartModalTransfer<B: PartBackend, T: Real, C: Real>: ModalTransfer<B, T, C> {
    /// The part's operator.
    fn fine_part(&self) -> &dyn PartOperator<B, T>;

    /// [`ModalTransfer::expand_smooth`], with `fill` called as by [`PartSmoother::smooth_part`], and once more for what reads
    /// the halo rows of u next.
    ///
    /// # Errors
    /// As there.
    fn expand_smooth_part(
        &self,
        x: &B::Vector<C>,
        guess: Guess,
        (relaxation, sweeps): (Relaxation, usize),
        f: &B::Vector<T>,
        u: &mut B::Vector<T>,
        scratch: &mut B::Vector<T>,
        fill: &mut Fill<'_, B::Vector<T>>,
    ) -> Result<()> {
        self.expand(x, guess, u)?;
        for _ in 0..sweeps {
            self.fine_part().smooth_part(relaxation, Guess::Given, f, u, scratch, &mut *fill)?;
        }
        fill(u, stale_after(relaxation), &mut nothing)
    }

    /// [`ModalTransfer::expand_smooth_project`], with `fill` called as by [`PartSmoother::smooth_part`].
    ///
    /// # Errors
    /// As there.
    fn expand_smooth_project_part(
        &self,
        x: &B::Vector<C>,
        guess: Guess,
        smoother: (Relaxation, usize),
        f: &B::Vector<T>,
        u: &mut B::Vector<T>,
        g: &mut B::Vector<C>,
        scratch: &mut B::Vector<T>,
        norm: Scalar,
        scalars: &mut B::Scalars,
        fill: &mut Fill<'_, B::Vector<T>>,
    ) -> Result<()> {
        self.expand_smooth_part(x, guess, smoother, f, u, scratch, fill)?;
        self.project_residual(f, u, g, scratch, norm, scalars)
    }

    /// [`ModalTransfer::expand_smooth_norm`], with `fill` called as by [`PartSmoother::smooth_part`].
    ///
    /// # Errors
    /// As there.
    fn expand_smooth_norm_part(
        &self,
        x: &B::Vector<C>,
        guess: Guess,
        smoother: (Relaxation, usize),
        f: &B::Vector<T>,
        u: &mut B::Vector<T>,
        scratch: &mut B::Vector<T>,
        norm: Scalar,
        scalars: &mut B::Scalars,
        fill: &mut Fill<'_, B::Vector<T>>,
    ) -> Result<()> {
        self.expand_smooth_part(x, guess, smoother, f, u, scratch, fill)?;
        self.fine_part().residual_norm(f, u, scratch, norm, scalars)
    }
}

/// [`PartSmoother::stale_after`] of two colours.
pub fn stale_after(relaxation: Relaxation) -> &'static [Colour] {
    match (relaxation.smoother, relaxation.first) {
        (Smoother::LineRedBlack, Colour::Red) => &[Colour::Black],
        (Smoother::LineRedBlack, Colour::Black) => &[Colour::Red],
        _ => &Colour::BOTH,
    }
}

/// For a part that is the whole grid: there is nothing to fill.
///
/// # Errors
/// Never.
pub fn no_neighbours<V>(_: &mut V, _: &[Colour], _: Meanwhile<'_>) -> Result<()> {
    Ok(())
}

/// The same for what is handed on.
///
/// # Errors
/// Never.
pub fn nothing_handed_on<T>(_: Handed<'_, T>) -> Result<()> {
    Ok(())
}
