//! Points: relaxation of every cell by itself, by sweeps over the grid or by several of them within tiles.

use super::Operator;
use crate::backend::{Backend, Scalar};
use crate::error::Result;
use crate::options::PointCycle;
use crate::real::Real;

/// A matrix whose cells can be relaxed each by itself.
pub trait PointSmoother<B: Backend, T: Real>: Operator<B, T> {
    /// Which directions are periodic.
    fn periodic(&self) -> [bool; 3];

    /// A tile that suits the device.
    fn suggested_tile(&self) -> [usize; 3];

    /// Gets ready for cycles of a kind: after this they take no memory.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) for a tile larger than what the device can hold, naming its limits; what the
    /// device reports.
    fn prepare(&self, cycle: &PointCycle) -> Result<()>;

    /// v = u after one cycle;  ‖f − A u‖², of the u that it began with. Where D is zero, so that nothing determines u, a
    /// sub-iteration leaves (1 − ω) u. With momentum v holds the u before, and m (u − v) is added everywhere.
    fn relax_points(
        &self,
        cycle: &PointCycle,
        f: &B::Vector<T>,
        u: &B::Vector<T>,
        v: &mut B::Vector<T>,
        norm: Scalar,
        scalars: &mut B::Scalars,
    ) -> Result<()>;
}
