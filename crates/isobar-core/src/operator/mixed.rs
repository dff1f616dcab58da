//! The finest level of multigrid in two precisions: corrections in single, the solution in double.

use std::sync::Arc;

use super::line::scratch_layout;
use super::{Guess, LineSmoother, Relaxation, Sweep, Transfer};
use crate::options::Smoother;
use crate::{Backend, Layout, Ratio, Result, Sum};

/// An operator's steps in double precision on corrections e and residuals r that are stored in single precision.
pub trait MixedSmoother<B: Backend>: LineSmoother<B, f64> {
    /// r = f − A u, rounded;  ‖f − A u‖²
    fn residual_in_single(
        &self,
        f: &B::Vector<f64>,
        u: &mut B::Vector<f64>,
        r: &mut B::Vector<f32>,
        scratch: &mut B::Vector<f64>,
        norm: Sum<'_, B>,
    ) -> Result<()> {
        self.residual(f, [u, scratch], norm)?;
        self.backend().convert(scratch, r)
    }

    /// u += e, then one sweep, then r = f − A u and ‖r‖²
    fn correct_smooth_residual(
        &self,
        relaxation: Relaxation,
        f: &B::Vector<f64>,
        [u, scratch]: [&mut B::Vector<f64>; 2],
        [e, r]: [&mut B::Vector<f32>; 2],
        (norm, scalars): Sum<'_, B>,
    ) -> Result<()> {
        self.backend().axpy(Ratio::ONE, e, u, scalars)?;
        self.smooth(Sweep::new(relaxation, Guess::Given, f, u, scratch))?;
        self.residual_in_single(f, u, r, scratch, norm.of(scalars))
    }

    /// Returns whether these steps write to the scratch vector they are given.
    fn mixed_needs_scratch(&self, _smoother: Smoother) -> bool {
        true
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
    fn begin_red(&self, w: &mut B::Vector<f32>, e: &mut B::Vector<f32>, norm: Sum<'_, B>) -> Result<()>;

    /// e_black = −M⁻¹ (N e_red)_black
    fn end_black(&self, e: &mut B::Vector<f32>) -> Result<()>;

    /// f_c = −R (N e_black)_red
    fn restrict(&self, e: &mut B::Vector<f32>, coarse_f: &mut B::Vector<f32>) -> Result<()>;
}

/// The finest level of a mixed-precision V(1,1) cycle, between two visits to the coarser levels: steps of any operator, or [`ChangeSteps`].
/// Points are relaxed in single precision alone: the rounding of a correction is as rough as the grid, and the next one removes it.
///
/// Storage: the correction e and the residual r, 2 n-vectors in single precision; their contents between steps are private.
pub struct MixedTop<B: Backend> {
    double: Arc<dyn MixedSmoother<B>>,
    single: Arc<dyn LineSmoother<B, f32>>,
    /// The transfer to the coarser levels, if there are any.
    transfer: Option<Arc<dyn Transfer<B, f32>>>,
    steps: Option<Box<dyn ChangeSteps<B>>>,
    relaxation: Relaxation,
    e: B::Vector<f32>,
    r: B::Vector<f32>,
    scratch: B::Vector<f64>,
    scratch_single: B::Vector<f32>,
    bytes: usize,
}

impl<B: Backend> MixedTop<B> {
    /// Makes it from the same matrix in both precisions.
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
        let relaxes_points = relaxation.smoother == Smoother::PointRedBlack;
        let scratch_single = if relaxes_points { small } else { scratch_layout(&*single, relaxation.smoother)? };
        Ok(Self {
            e: backend.zeros(&layout)?,
            r: backend.zeros(&layout)?,
            scratch: backend.zeros(&scratch)?,
            scratch_single: backend.zeros(&scratch_single)?,
            bytes: (2 * layout.len() + scratch_single.len()) * size_of::<f32>() + scratch.len() * size_of::<f64>(),
            double,
            single,
            transfer,
            steps: None,
            relaxation,
        })
    }

    /// Takes steps that pass on their changes, where there is a coarser level. Then, after [`MixedTop::ascend`], the red columns of the
    /// correction are those of the next one, and the residual is the change, in black columns.
    #[must_use]
    pub fn with_changes(self, steps: Option<Box<dyn ChangeSteps<B>>>) -> Self {
        Self { steps, ..self }
    }

    /// r = b, the residual of u = 0
    pub fn begin_from_zero(&mut self, b: &B::Vector<f64>) -> Result<()> {
        self.double.backend().convert(b, &mut self.r)
    }

    /// r = b − A u;  ‖r‖²
    pub fn begin(&mut self, b: &B::Vector<f64>, u: &mut B::Vector<f64>, norm: Sum<'_, B>) -> Result<()> {
        self.double.residual_in_single(b, u, &mut self.r, &mut self.scratch, norm)
    }

    /// Returns the residual after [`MixedTop::begin`], and the correction, for cycles of another form.
    pub fn parts(&mut self) -> [&mut B::Vector<f32>; 2] {
        [&mut self.r, &mut self.e]
    }

    /// u += e, then one sweep, then r = b − A u and ‖r‖²
    pub fn correct(&mut self, b: &B::Vector<f64>, u: &mut B::Vector<f64>, (norm, scalars): Sum<'_, B>) -> Result<()> {
        let Self { double, relaxation, e, r, scratch, .. } = self;
        if relaxation.smoother == Smoother::PointRedBlack {
            double.backend().axpy(Ratio::ONE, e, u, scalars)?;
            return double.residual_in_single(b, u, r, scratch, norm.of(scalars));
        }
        double.correct_smooth_residual(*relaxation, b, [u, scratch], [e, r], norm.of(scalars))
    }

    /// Descends after a beginning or [`MixedTop::correct`]: e = one sweep from zero on A e = r, then f_c = R (r − A e)
    pub fn descend_first(&mut self, coarse_f: &mut B::Vector<f32>) -> Result<()> {
        let Self { single, transfer, relaxation, e, r, scratch_single, .. } = self;
        let sweep = Sweep::new(*relaxation, Guess::Zero, r, e, scratch_single);
        match transfer {
            Some(transfer) => transfer.smooth_residual_restrict(sweep, coarse_f),
            None => single.smooth(sweep),
        }
    }

    /// Descends after [`MixedTop::ascend`]; see [`MixedTop::descend_first`].
    pub fn descend(&mut self, coarse_f: &mut B::Vector<f32>) -> Result<()> {
        let Some(steps) = &self.steps else { return self.descend_first(coarse_f) };
        // The red half of the sweep is done already.
        steps.end_black(&mut self.e)?;
        steps.restrict(&mut self.e, coarse_f)
    }

    /// Ascends: u += e + P u_c, then one sweep, then r = b − A u and ‖r‖²; with [`ChangeSteps`] ‖r‖² is that of the residual which the
    /// change implies.
    pub fn ascend(
        &mut self,
        b: &B::Vector<f64>,
        u: &mut B::Vector<f64>,
        coarse_u: &mut B::Vector<f32>,
        (norm, scalars): Sum<'_, B>,
    ) -> Result<()> {
        let Self { transfer, steps, e, r, .. } = self;
        if let Some(steps) = steps {
            steps.correct_red(b, e, coarse_u, u, r)?;
            steps.change_black(b, u, r)?;
            return steps.begin_red(r, e, norm.of(scalars));
        }
        if let Some(transfer) = transfer {
            transfer.prolong(coarse_u, e)?;
        }
        self.correct(b, u, norm.of(scalars))
    }

    /// Returns whether it includes the finest level of a V(1,1) cycle. If not, cycles are whole, and [`MixedTop::correct`] has no
    /// sweep.
    pub fn takes_over(&self) -> bool {
        self.relaxation.smoother != Smoother::PointRedBlack
    }

    /// Returns the bytes of vectors held.
    pub fn workspace_bytes(&self) -> usize {
        self.bytes
    }
}
