//! Operators on a part of a larger grid, with what lies beyond it in halo rows.
//!
//! A step reads the halo rows of the vectors that it couples, and whoever calls it has filled them. Relaxation by colours
//! needs those of one colour again after the other was swept: such a step asks for them.

use super::{CgOperator, Diagonal, Guess, LineSmoother, LineSolver, Relaxation, Transfer};
use crate::backend::part::{Fill, PartBackend};
use crate::backend::{Backend, Scalar};
use crate::error::Result;
use crate::layout::Colour;
use crate::options::Smoother;
use crate::real::Real;

/// An operator whose vectors may be parts of larger ones. [`CgOperator::advance_direction`] advances p in its halo rows too,
/// from those of z: that saves an exchange between advancing and applying. Sums are those of the part's own rows.
pub trait PartOperator<B: PartBackend, T: Real>:
    CgOperator<B, T> + Diagonal<B, T> + LineSolver<B, T> + LineSmoother<B, T>
{
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
}

/// [`Transfer`] between two levels whose parts are made of the same rows. [`Transfer::prolong`] reads the halo rows of u_c,
/// [`Transfer::residual_restrict`] those of u.
pub trait PartTransfer<B: PartBackend, T: Real>: Transfer<B, T> {
    /// The finer level.
    fn fine_part(&self) -> &dyn PartOperator<B, T>;

    /// [`Transfer::smooth_residual_restrict`], with `fill` called as by [`PartOperator::smooth_part`].
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
        fill(u, stale_after(relaxation))?;
        self.residual_restrict(f, u, coarse_f, scratch)
    }

    /// [`Transfer::prolong_smooth`], with `fill` called for u as by [`PartOperator::smooth_part`].
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
                fill(u, stale_after(relaxation))?;
                self.fine_part().residual_norm(f, u, scratch, scalar, scalars)
            }
            None => Ok(()),
        }
    }
}

/// The colours whose halo rows are not what the neighbours hold after a sweep.
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
pub fn no_neighbours<V>(_: &mut V, _: &[Colour]) -> Result<()> {
    Ok(())
}
