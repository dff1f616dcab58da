//! Relaxation of points, cell by cell, by sweeps over the grid or by several of them within tiles.

use super::Operator;
use crate::options::PointCycle;
use crate::{Backend, Error, Layout, Real, Result, Scalar, Shape, Sum};

/// A matrix whose cells can be relaxed one by one.
pub trait PointSmoother<B: Backend, T: Real>: Operator<B, T> {
    /// Returns which directions are periodic.
    fn periodic(&self) -> [bool; 3];

    /// Returns a tile that suits the device.
    fn suggested_tile(&self) -> [usize; 3];

    /// Returns a tile that suits the device where lines of cells along x are independent problems.
    fn suggested_line_tile(&self) -> [usize; 3] {
        self.suggested_tile()
    }

    /// Prepares for cycles of a kind: afterwards they allocate nothing, for any relaxation and momentum.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a tile larger than the device can hold, naming its limits; the errors of the device.
    fn prepare(&self, cycle: &PointCycle) -> Result<()>;

    /// Computes v = u after one cycle;  ‖f − A u‖² of the initial u. If D is zero, so that nothing determines u, a sub-iteration
    /// returns (1 − ω) u. With momentum v holds the previous u on entry, and m (u − v) is added everywhere.
    fn relax_points(
        &self,
        cycle: &PointCycle,
        f: &B::Vector<T>,
        u: &mut B::Vector<T>,
        v: &mut B::Vector<T>,
        norm: Sum<'_, B>,
    ) -> Result<()>;

    /// Computes v = u after k sweeps with momentum, k those of an exact cycle, and w = u after k − 1;  ‖f − A u‖² of the first u.
    /// `before` is the u before that. The scalar after `norm` is overwritten.
    fn relax_moving(
        &self,
        cycle: &PointCycle,
        [f, before]: [&B::Vector<T>; 2],
        u: &mut B::Vector<T>,
        [v, w]: [&mut B::Vector<T>; 2],
        norm: Sum<'_, B>,
    ) -> Result<()> {
        move_by_sweeps(self, cycle, [f, before], u, [v, w], norm)
    }

    /// Prepares for [`PointSmoother::relax_lines`] and [`PointSmoother::judge_lines`].
    ///
    /// # Errors
    /// See [`PointSmoother::prepare`]; [`Error::Unsupported`] if lines cannot be separated.
    fn prepare_lines(&self, _cycle: &PointCycle) -> Result<()> {
        Err(no_lines())
    }

    /// Computes v = u after one cycle;  ‖f − A u‖² of every line of cells along x, of the initial u. The grid has one layer, and its
    /// lines are not coupled; `norms`, like all vectors below, has one number for each line, on [`lines_layout`].
    fn relax_lines(
        &self,
        _cycle: &PointCycle,
        _f: &B::Vector<T>,
        _u: &B::Vector<T>,
        _v: &mut B::Vector<T>,
        _norms: &mut B::Vector<f64>,
    ) -> Result<()> {
        Err(no_lines())
    }

    /// worst = max w ‖r‖²;  n += 1 in lines where w ‖r‖² exceeds `allowed`, or is NaN
    fn judge_lines(
        &self,
        [_norms, _weights]: [&B::Vector<f64>; 2],
        _n: &mut B::Vector<f64>,
        _allowed: f64,
        _worst: Sum<'_, B>,
    ) -> Result<()> {
        Err(no_lines())
    }
}

fn no_lines() -> Error {
    Error::Unsupported(
        "solver.jacobi.batch: lines are judged by one device only; run on one, or use batch = false".into(),
    )
}

/// Does [`PointSmoother::relax_moving`] sweep by sweep.
pub fn move_by_sweeps<B: Backend, T: Real>(
    operator: &(impl PointSmoother<B, T> + ?Sized),
    cycle: &PointCycle,
    [f, before]: [&B::Vector<T>; 2],
    u: &mut B::Vector<T>,
    [v, w]: [&mut B::Vector<T>; 2],
    (norm, scalars): Sum<'_, B>,
) -> Result<()> {
    let (backend, k) = (operator.backend(), cycle.sub_iterations);
    let sweep = PointCycle { sub_iterations: 1, ..*cycle };
    // Alternates, so that the last sweep writes v.
    let [mut now, mut other] = if k % 2 == 1 { [v, w] } else { [w, v] };
    backend.convert(before, now)?;
    operator.relax_points(&sweep, f, u, now, norm.of(scalars))?;
    backend.convert(u, other)?;
    for _ in 1..k {
        operator.relax_points(&sweep, f, now, other, Scalar::new(norm.index() as u8 + 1).of(scalars))?;
        std::mem::swap(&mut now, &mut other);
    }
    Ok(())
}

/// Returns the layout of vectors with one number for each line of cells along x of a grid of one layer.
pub fn lines_layout(shape: Shape) -> Result<Layout> {
    Layout::new(Shape::new(shape.ny, 1, 1))
}

/// Does [`PointSmoother::judge_lines`] in host memory, with ‖r‖², w and n of each line. NaN is the worst.
pub fn worst_of_lines<'l>(lines: impl Iterator<Item = (f64, f64, &'l mut f64)>, allowed: f64) -> f64 {
    let mut worst = 0.0;
    for (norm, weight, n) in lines {
        let relative = weight * norm;
        if relative > allowed || relative.is_nan() {
            *n += 1.0;
        }
        if relative > worst || relative.is_nan() {
            worst = relative;
        }
        if worst.is_nan() {
            break;
        }
    }
    worst
}
