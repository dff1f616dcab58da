//! The finest level of a mixed-precision cycle: steps of the operator in double precision on residuals and corrections in
//! single, and, where both stream, two half sweeps at a time in each.

use std::sync::Arc;

use isobar_core::backend::{Backend, Ratio, Scalar};
use isobar_core::error::Result;
use isobar_core::layout::Colour;
use isobar_core::operator::line::scratch_layout;
use isobar_core::operator::{Guess, LineSmoother, MixedSmoother, MixedTop, Operator, Relaxation, Transfer};
use isobar_core::options::Smoother;
use isobar_core::real::Real;

use super::TensorProduct;
use super::launches::Coarse;
use crate::cuda::Cuda;
use crate::scalars::Scalars;
use crate::seven_point::{Kernels, Residual, SevenPoint, Steps};
use crate::vector::Vector;

impl<T: Real> TensorProduct<T> {
    fn prepare_mixed(&self, names: &[&'static str]) -> Result<()> {
        self.prepare(Steps::Sweeps)?;
        self.modules.mixed.prepare(names, self.streaming()?.shared_bytes)
    }
}

impl TensorProduct<f64> {
    /// r = f − A u, rounded;  ‖f − A u‖²
    fn residual_rounded(
        &self,
        which: Residual,
        f: &Vector<f64>,
        u: &Vector<f64>,
        r: &mut Vector<f32>,
        norm: Scalar,
        scalars: &mut Scalars,
    ) -> Result<()> {
        let name = if which == Residual::Any { "residual_in_single" } else { "residual_in_single_red" };
        let arguments = self.arguments().with(f.pointer()).with(u.pointer()).with(r.pointer());
        self.residual_sums(name, arguments, scalars.pointer(norm))
    }

    /// One colour of a sweep of u + e. The other colour is stale until it is swept.
    fn correct_sweep(&self, colour: Colour, f: &Vector<f64>, e: &Vector<f32>, u: &mut Vector<f64>) -> Result<()> {
        let arguments = self.arguments().with(colour as i32).with(f.pointer()).with(u.pointer()).with(e.pointer());
        self.stream(&self.modules.mixed, "correct_sweep", |_| arguments)
    }

    /// A sweep of u + e + P `coarse`, red first; w is what its black half changed.
    fn correct_sweep_change(
        &self,
        f: &Vector<f64>,
        [e, coarse]: [&Vector<f32>; 2],
        u: &mut Vector<f64>,
        w: &mut Vector<f32>,
    ) -> Result<()> {
        let arguments = self.arguments().with(f.pointer()).with(u.pointer());
        let red = arguments.clone().with(e.pointer()).with(Coarse::of(coarse)).with(w.pointer());
        self.stream(&self.modules.mixed, "correct_sweep_red", |_| red)?;
        self.stream(&self.modules.mixed, "sweep_black_change", |_| arguments.with(w.pointer()))
    }
}

impl TensorProduct<f32> {
    /// The red half of a sweep from zero on the residual that goes with a change w, and that residual's norm.
    fn sweep_red_from_change(
        &self,
        w: &Vector<f32>,
        e: &mut Vector<f32>,
        norm: Scalar,
        scalars: &mut Scalars,
    ) -> Result<()> {
        let arguments = self.arguments().with(w.pointer()).with(e.pointer());
        let with_sum = |blocks| self.reduction.append(arguments, blocks, scalars.pointer(norm));
        self.stream(&self.modules.mixed, "sweep_red_from_change", with_sum)
    }

    /// Its black half, the residual being zero there.
    fn sweep_black_homogeneous(&self, e: &mut Vector<f32>) -> Result<()> {
        let arguments = self.arguments().with(e.pointer());
        self.stream(&self.modules.mixed, "sweep_black_homogeneous", |_| arguments)
    }
}

impl MixedSmoother<Cuda> for SevenPoint<TensorProduct<f64>> {
    fn residual_in_single(
        &self,
        f: &Vector<f64>,
        u: &Vector<f64>,
        r: &mut Vector<f32>,
        _scratch: &mut Vector<f64>,
        norm: Scalar,
        scalars: &mut Scalars,
    ) -> Result<()> {
        self.kernels().residual_rounded(Residual::Any, f, u, r, norm, scalars)
    }

    fn correct_smooth_residual(
        &self,
        relaxation: Relaxation,
        f: &Vector<f64>,
        e: &Vector<f32>,
        u: &mut Vector<f64>,
        r: &mut Vector<f32>,
        scratch: &mut Vector<f64>,
        norm: Scalar,
        scalars: &mut Scalars,
    ) -> Result<()> {
        if self.overwrites(relaxation) && self.kernels().streams() {
            let first = self.layout().local(relaxation.first);
            self.kernels().correct_sweep(first, f, e, u)?;
            self.kernels().sweep(1.0, first.other(), Guess::Given, f, u, scratch)?;
        } else {
            self.kernels().cuda().axpy(Ratio::ONE, e, u, scalars)?;
            self.smooth(relaxation, Guess::Given, f, u, scratch)?;
        }
        let left = self.left_by(relaxation, Guess::Given);
        self.kernels().residual_rounded(left, f, u, r, norm, scalars)
    }

    fn mixed_needs_scratch(&self, smoother: Smoother) -> bool {
        self.needs_scratch(smoother)
    }
}

/// A [`MixedTop`] by the kernels of mixed.cu: after a red–black sweep in double precision the black residuals are zero and the
/// red ones are couplings to what the black half changed, so that this change, rounded, is all that the sweep in single
/// precision needs. Neither the residual nor that sweep's right-hand side is stored.
///
/// Storage: 2 n-vectors in single precision.
pub(super) struct StreamedTop {
    double: Arc<SevenPoint<TensorProduct<f64>>>,
    single: Arc<SevenPoint<TensorProduct<f32>>>,
    transfer: Arc<dyn Transfer<Cuda, f32>>,
    relaxation: Relaxation,
    /// The correction. After [`MixedTop::ascend`] its red columns are those of the next one.
    e: Vector<f32>,
    /// The residual. After [`MixedTop::ascend`]: the change, in black columns.
    r: Vector<f32>,
    /// Not used by sweeps of this kind.
    scratch: Vector<f64>,
    scratch_single: Vector<f32>,
}

impl StreamedTop {
    /// Nothing where a grid does not stream, or sweeps are of another kind.
    pub(super) fn new(
        double: &Arc<SevenPoint<TensorProduct<f64>>>,
        single: &Arc<SevenPoint<TensorProduct<f32>>>,
        transfer: &Arc<dyn Transfer<Cuda, f32>>,
        relaxation: Relaxation,
    ) -> Result<Option<Self>> {
        let streams = double.kernels().streams() && single.kernels().streams();
        if !streams || double.left_by(relaxation, Guess::Given) != Residual::Red {
            return Ok(None);
        }
        double.kernels().prepare_mixed(&["correct_sweep_red", "sweep_black_change"])?;
        single.kernels().prepare_mixed(&["sweep_red_from_change", "sweep_black_homogeneous"])?;
        let (cuda, layout) = (double.kernels().cuda(), *double.layout());
        Ok(Some(Self {
            e: cuda.zeros(&layout)?,
            r: cuda.zeros(&layout)?,
            scratch: cuda.zeros(&scratch_layout(&**double, relaxation.smoother)?)?,
            scratch_single: cuda.zeros(&scratch_layout(&**single, relaxation.smoother)?)?,
            double: Arc::clone(double),
            single: Arc::clone(single),
            transfer: Arc::clone(transfer),
            relaxation,
        }))
    }
}

impl MixedTop<Cuda> for StreamedTop {
    fn begin_from_zero(&mut self, b: &Vector<f64>) -> Result<()> {
        self.double.kernels().cuda().convert(b, &mut self.r)
    }

    fn begin(&mut self, b: &Vector<f64>, u: &Vector<f64>, norm: Scalar, scalars: &mut Scalars) -> Result<()> {
        self.double.residual_in_single(b, u, &mut self.r, &mut self.scratch, norm, scalars)
    }

    fn parts(&mut self) -> [&mut Vector<f32>; 2] {
        [&mut self.r, &mut self.e]
    }

    fn correct(&mut self, b: &Vector<f64>, u: &mut Vector<f64>, norm: Scalar, scalars: &mut Scalars) -> Result<()> {
        let Self { double, relaxation, e, r, scratch, .. } = self;
        double.correct_smooth_residual(*relaxation, b, e, u, r, scratch, norm, scalars)
    }

    fn descend_first(&mut self, coarse_f: &mut Vector<f32>) -> Result<()> {
        let Self { transfer, relaxation, e, r, scratch_single, .. } = self;
        transfer.smooth_residual_restrict(*relaxation, Guess::Zero, r, e, coarse_f, scratch_single)
    }

    /// The red half of the sweep has been taken.
    fn descend(&mut self, coarse_f: &mut Vector<f32>) -> Result<()> {
        let kernels = self.single.kernels();
        kernels.sweep_black_homogeneous(&mut self.e)?;
        kernels.restrict_coupling(&self.e, coarse_f)
    }

    /// The norm is that of the residual that the change stands for.
    fn ascend(
        &mut self,
        b: &Vector<f64>,
        u: &mut Vector<f64>,
        coarse_u: &Vector<f32>,
        norm: Scalar,
        scalars: &mut Scalars,
    ) -> Result<()> {
        let Self { double, single, e, r, .. } = self;
        double.kernels().correct_sweep_change(b, [e, coarse_u], u, r)?;
        single.kernels().sweep_red_from_change(r, e, norm, scalars)
    }

    fn workspace_bytes(&self) -> usize {
        2 * self.double.layout().len() * size_of::<f32>()
    }
}
