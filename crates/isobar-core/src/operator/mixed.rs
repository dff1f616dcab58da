//! The finest level of multigrid in two precisions: corrections in single, the solution in double.

use std::sync::Arc;

use super::line::scratch_layout;
use super::{Guess, LineSmoother, Relaxation, Transfer};
use crate::backend::{Backend, Ratio, Scalar};
use crate::error::Result;
use crate::layout::Layout;
use crate::options::Smoother;

/// An operator's steps in double precision on corrections e and residuals r that are stored in single precision.
pub trait MixedSmoother<B: Backend>: LineSmoother<B, f64> {
    /// r = f − A u, rounded;  ‖f − A u‖²
    fn residual_in_single(
        &self,
        f: &B::Vector<f64>,
        u: &mut B::Vector<f64>,
        r: &mut B::Vector<f32>,
        scratch: &mut B::Vector<f64>,
        norm: Scalar,
        scalars: &mut B::Scalars,
    ) -> Result<()> {
        self.residual(f, u, scratch, norm, scalars)?;
        self.backend().convert(scratch, r)
    }

    /// u += e, then one sweep, then r = f − A u and ‖r‖²
    fn correct_smooth_residual(
        &self,
        relaxation: Relaxation,
        f: &B::Vector<f64>,
        [u, scratch]: [&mut B::Vector<f64>; 2],
        [e, r]: [&mut B::Vector<f32>; 2],
        norm: Scalar,
        scalars: &mut B::Scalars,
    ) -> Result<()> {
        self.backend().axpy(Ratio::ONE, e, u, scalars)?;
        self.smooth(relaxation, Guess::Given, f, u, scratch)?;
        self.residual_in_single(f, u, r, scratch, norm, scalars)
    }

    /// Returns whether these steps write to the scratch vector they are given.
    fn mixed_needs_scratch(&self, _smoother: Smoother) -> bool {
        true
    }
}

/// The finest level of a mixed-precision V(1,1) cycle, between two visits to the coarser levels. It owns the correction e and the
/// residual r, in single precision; their contents between its steps are private to it.
pub trait MixedTop<B: Backend>: Send {
    /// r = b, the residual of u = 0
    fn begin_from_zero(&mut self, b: &B::Vector<f64>) -> Result<()>;

    /// r = b − A u;  ‖r‖²
    fn begin(
        &mut self,
        b: &B::Vector<f64>,
        u: &mut B::Vector<f64>,
        norm: Scalar,
        scalars: &mut B::Scalars,
    ) -> Result<()>;

    /// Returns the residual after [`MixedTop::begin`], and the correction, for cycles of another form.
    fn parts(&mut self) -> [&mut B::Vector<f32>; 2];

    /// u += e, then one sweep, then r = b − A u and ‖r‖²
    fn correct(
        &mut self,
        b: &B::Vector<f64>,
        u: &mut B::Vector<f64>,
        norm: Scalar,
        scalars: &mut B::Scalars,
    ) -> Result<()>;

    /// Descends after a beginning or [`MixedTop::correct`]: e = one sweep from zero on A e = r, then f_c = R (r − A e)
    fn descend_first(&mut self, coarse_f: &mut B::Vector<f32>) -> Result<()>;

    /// Descends after [`MixedTop::ascend`]; see [`MixedTop::descend_first`].
    fn descend(&mut self, coarse_f: &mut B::Vector<f32>) -> Result<()> {
        self.descend_first(coarse_f)
    }

    /// Ascends: u += e + P u_c, then one sweep, then r = b − A u and ‖r‖²
    fn ascend(
        &mut self,
        b: &B::Vector<f64>,
        u: &mut B::Vector<f64>,
        coarse_u: &mut B::Vector<f32>,
        norm: Scalar,
        scalars: &mut B::Scalars,
    ) -> Result<()>;

    /// Returns whether it includes the finest level of a V(1,1) cycle. If not, cycles are whole, and [`MixedTop::correct`] has no
    /// sweep.
    fn takes_over(&self) -> bool {
        true
    }

    /// Returns the bytes of vectors held.
    fn workspace_bytes(&self) -> usize;
}

/// A [`MixedTop`] of any operator, composed of other steps. Points are relaxed in single precision alone: the rounding of a
/// correction is as rough as the grid, and the next one removes it.
///
/// Storage: 2 n-vectors in single precision.
pub struct UnfusedTop<B: Backend> {
    double: Arc<dyn MixedSmoother<B>>,
    single: Arc<dyn LineSmoother<B, f32>>,
    /// The transfer to the coarser levels, where there are any.
    transfer: Option<Arc<dyn Transfer<B, f32>>>,
    relaxation: Relaxation,
    e: B::Vector<f32>,
    r: B::Vector<f32>,
    scratch: B::Vector<f64>,
    scratch_single: B::Vector<f32>,
    bytes: usize,
}

impl<B: Backend> UnfusedTop<B> {
    /// Makes it from the same matrix in both precisions.
    ///
    /// # Errors
    /// Where the workspace does not fit in memory.
    pub fn new(
        double: Arc<dyn MixedSmoother<B>>,
        single: Arc<dyn LineSmoother<B, f32>>,
        transfer: Option<Arc<dyn Transfer<B, f32>>>,
        relaxation: Relaxation,
    ) -> Result<Self> {
        let backend = double.backend().clone();
        let layout = *double.layout();
        let small = Layout::smallest()?;
        let scratch = if double.mixed_needs_scratch(relaxation.smoother) { layout } else { small };
        // Cycles that relax points are whole, with a finest level of their own.
        let takes_over = relaxation.smoother != Smoother::PointRedBlack;
        let scratch_single = if takes_over { scratch_layout(&*single, relaxation.smoother)? } else { small };
        Ok(Self {
            e: backend.zeros(&layout)?,
            r: backend.zeros(&layout)?,
            scratch: backend.zeros(&scratch)?,
            scratch_single: backend.zeros(&scratch_single)?,
            bytes: (2 * layout.len() + scratch_single.len()) * size_of::<f32>() + scratch.len() * size_of::<f64>(),
            double,
            single,
            transfer,
            relaxation,
        })
    }
}

impl<B: Backend> MixedTop<B> for UnfusedTop<B> {
    fn begin_from_zero(&mut self, b: &B::Vector<f64>) -> Result<()> {
        self.double.backend().convert(b, &mut self.r)
    }

    fn begin(
        &mut self,
        b: &B::Vector<f64>,
        u: &mut B::Vector<f64>,
        norm: Scalar,
        scalars: &mut B::Scalars,
    ) -> Result<()> {
        self.double.residual_in_single(b, u, &mut self.r, &mut self.scratch, norm, scalars)
    }

    fn parts(&mut self) -> [&mut B::Vector<f32>; 2] {
        [&mut self.r, &mut self.e]
    }

    fn correct(
        &mut self,
        b: &B::Vector<f64>,
        u: &mut B::Vector<f64>,
        norm: Scalar,
        scalars: &mut B::Scalars,
    ) -> Result<()> {
        let Self { double, relaxation, e, r, scratch, .. } = self;
        if relaxation.smoother == Smoother::PointRedBlack {
            double.backend().axpy(Ratio::ONE, e, u, scalars)?;
            return double.residual_in_single(b, u, r, scratch, norm, scalars);
        }
        double.correct_smooth_residual(*relaxation, b, [u, scratch], [e, r], norm, scalars)
    }

    fn descend_first(&mut self, coarse_f: &mut B::Vector<f32>) -> Result<()> {
        let Self { single, transfer, relaxation, e, r, scratch_single, .. } = self;
        match transfer {
            Some(transfer) => {
                transfer.smooth_residual_restrict(*relaxation, Guess::Zero, r, e, coarse_f, scratch_single)
            }
            None => single.smooth(*relaxation, Guess::Zero, r, e, scratch_single),
        }
    }

    fn ascend(
        &mut self,
        b: &B::Vector<f64>,
        u: &mut B::Vector<f64>,
        coarse_u: &mut B::Vector<f32>,
        norm: Scalar,
        scalars: &mut B::Scalars,
    ) -> Result<()> {
        if let Some(transfer) = &self.transfer {
            transfer.prolong(coarse_u, &mut self.e)?;
        }
        self.correct(b, u, norm, scalars)
    }

    fn takes_over(&self) -> bool {
        self.relaxation.smoother != Smoother::PointRedBlack
    }

    fn workspace_bytes(&self) -> usize {
        self.bytes
    }
}

/// Sweeps in two precisions that pass on their changes. After a red–black sweep in double precision black residuals are zero, and
/// red ones are couplings to the change w of its black half: this change, rounded, is all that the sweep from zero in single
/// precision needs. Neither the residual nor the right-hand side of that sweep is stored. A = M + N here, with M the columns' own
/// blocks.
pub trait ChangeSteps<B: Backend>: Send + Sync {
    /// u_red = M⁻¹ (f − N (u + e + P u_c)_black)_red;  w_black = (e + P u_c)_black, which is not yet in u_black
    fn correct_red(
        &self,
        f: &B::Vector<f64>,
        e: &B::Vector<f32>,
        coarse_u: &mut B::Vector<f32>,
        u: &mut B::Vector<f64>,
        w: &mut B::Vector<f32>,
    ) -> Result<()>;

    /// v = M⁻¹ (f − N u_red)_black;  w_black = v − (u + w)_black;  u_black = v
    fn change_black(&self, f: &B::Vector<f64>, u: &mut B::Vector<f64>, w: &mut B::Vector<f32>) -> Result<()>;

    /// r_red = −(N w_black)_red;  e_red = M⁻¹ r_red;  ‖r_red‖²
    fn begin_red(
        &self,
        w: &mut B::Vector<f32>,
        e: &mut B::Vector<f32>,
        norm: Scalar,
        scalars: &mut B::Scalars,
    ) -> Result<()>;

    /// e_black = −M⁻¹ (N e_red)_black
    fn end_black(&self, e: &mut B::Vector<f32>) -> Result<()>;

    /// f_c = −R (N e_black)_red
    fn restrict(&self, e: &mut B::Vector<f32>, coarse_f: &mut B::Vector<f32>) -> Result<()>;
}

/// A [`MixedTop`] of [`ChangeSteps`]: cycles begin like those of [`UnfusedTop`]. After [`MixedTop::ascend`] the red columns of the
/// correction are those of the next one, and the residual is the change, in black columns.
///
/// Storage: that of [`UnfusedTop`].
pub struct ChangeTop<B: Backend> {
    inner: UnfusedTop<B>,
    steps: Box<dyn ChangeSteps<B>>,
}

impl<B: Backend> ChangeTop<B> {
    /// Makes it of one that has a coarser level.
    pub fn new(inner: UnfusedTop<B>, steps: Box<dyn ChangeSteps<B>>) -> Self {
        Self { inner, steps }
    }
}

impl<B: Backend> MixedTop<B> for ChangeTop<B> {
    fn begin_from_zero(&mut self, b: &B::Vector<f64>) -> Result<()> {
        self.inner.begin_from_zero(b)
    }

    fn begin(
        &mut self,
        b: &B::Vector<f64>,
        u: &mut B::Vector<f64>,
        norm: Scalar,
        scalars: &mut B::Scalars,
    ) -> Result<()> {
        self.inner.begin(b, u, norm, scalars)
    }

    fn parts(&mut self) -> [&mut B::Vector<f32>; 2] {
        self.inner.parts()
    }

    fn correct(
        &mut self,
        b: &B::Vector<f64>,
        u: &mut B::Vector<f64>,
        norm: Scalar,
        scalars: &mut B::Scalars,
    ) -> Result<()> {
        self.inner.correct(b, u, norm, scalars)
    }

    fn descend_first(&mut self, coarse_f: &mut B::Vector<f32>) -> Result<()> {
        self.inner.descend_first(coarse_f)
    }

    /// The red half of the sweep is done already.
    fn descend(&mut self, coarse_f: &mut B::Vector<f32>) -> Result<()> {
        self.steps.end_black(&mut self.inner.e)?;
        self.steps.restrict(&mut self.inner.e, coarse_f)
    }

    /// The norm is that of the residual that the change implies.
    fn ascend(
        &mut self,
        b: &B::Vector<f64>,
        u: &mut B::Vector<f64>,
        coarse_u: &mut B::Vector<f32>,
        norm: Scalar,
        scalars: &mut B::Scalars,
    ) -> Result<()> {
        let Self { steps, inner: UnfusedTop { e, r, .. } } = self;
        steps.correct_red(b, e, coarse_u, u, r)?;
        steps.change_black(b, u, r)?;
        steps.begin_red(r, e, norm, scalars)
    }

    fn workspace_bytes(&self) -> usize {
        self.inner.workspace_bytes()
    }
}
