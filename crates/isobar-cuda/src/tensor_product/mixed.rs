//! The finest level of mixed-precision cycles: double-precision steps of the operator with single-precision residuals and
//! corrections, and, if both stream, two half sweeps at a time in each precision.

use std::sync::Arc;

use isobar_core::operator::mixed::ChangeSteps;
use isobar_core::prelude::{
    Backend, Colour, Guess, LineSmoother, MixedSmoother, Operator, Ratio, Real, Relaxation, Result, Smoother,
};

use super::TensorProduct;
use super::launches::Coarse;
use crate::seven_point::{Kernels, Residual, SevenPoint, Steps};
use crate::{Cuda, Sum, Sweep, Vector};

impl<T: Real> TensorProduct<T> {
    fn prepare_mixed(&self, names: &[&'static str]) -> Result<()> {
        self.prepare(Steps::Sweeps)?;
        self.modules.mixed.prepare(names, self.streaming()?.shared_bytes)
    }
}

impl TensorProduct<f64> {
    /// Computes r = f − A u, rounded, and ‖f − A u‖².
    fn residual_rounded(
        &self,
        which: Residual,
        f: &Vector<f64>,
        u: &Vector<f64>,
        r: &mut Vector<f32>,
        (norm, scalars): Sum<'_>,
    ) -> Result<()> {
        let name = if which == Residual::Any { "residual_in_single" } else { "residual_in_single_red" };
        let arguments = self.arguments().with(f.pointer()).with(u.pointer()).with(r.pointer());
        self.residual_sums(name, arguments, scalars.pointer(norm))
    }

    /// Sweeps one colour of u + e. The other colour is old until it is swept.
    fn correct_sweep(&self, colour: Colour, f: &Vector<f64>, e: &Vector<f32>, u: &mut Vector<f64>) -> Result<()> {
        let arguments = self.arguments().with(colour as i32).with(f.pointer()).with(u.pointer()).with(e.pointer());
        self.stream(&self.modules.mixed, "correct_sweep", |_| arguments)
    }
}

impl MixedSmoother<Cuda> for SevenPoint<TensorProduct<f64>> {
    fn residual_in_single(
        &self,
        f: &Vector<f64>,
        u: &mut Vector<f64>,
        r: &mut Vector<f32>,
        _scratch: &mut Vector<f64>,
        (norm, scalars): Sum<'_>,
    ) -> Result<()> {
        self.fill(u)?;
        self.kernels().residual_rounded(Residual::Any, f, u, r, norm.of(scalars))?;
        self.sum([norm], scalars)
    }

    fn correct_smooth_residual(
        &self,
        relaxation: Relaxation,
        f: &Vector<f64>,
        [u, scratch]: [&mut Vector<f64>; 2],
        [e, r]: [&mut Vector<f32>; 2],
        (norm, scalars): Sum<'_>,
    ) -> Result<()> {
        if self.overwrites(relaxation) && self.kernels().streams && !self.layout().is_part() {
            let first = self.layout().local(relaxation.first);
            self.kernels().correct_sweep(first, f, e, u)?;
            self.kernels().sweep(1.0, first.other(), Guess::Given, f, u, scratch)?;
        } else {
            self.kernels().cuda().axpy(Ratio::ONE, e, u, scalars)?;
            self.smooth(Sweep::new(relaxation, Guess::Given, f, u, scratch))?;
            self.kernels().cuda().fill(u, self.stale_after(relaxation))?;
        }
        let left = self.left_by(relaxation, Guess::Given);
        self.kernels().residual_rounded(left, f, u, r, norm.of(scalars))?;
        self.sum([norm], scalars)
    }

    fn mixed_needs_scratch(&self, smoother: Smoother) -> bool {
        self.needs_scratch(smoother)
    }
}

/// Implements [`ChangeSteps`] with the kernels of mixed.cu. On a subdomain, whose coarser level is divided too, a cycle exchanges five half
/// rows besides those of the coarse correction. Subdomains begin with even rows, so that colours are those of the whole grid.
pub(super) struct StreamedSteps {
    double: Arc<SevenPoint<TensorProduct<f64>>>,
    single: Arc<SevenPoint<TensorProduct<f32>>>,
}

impl StreamedSteps {
    /// Returns `None` if a grid does not stream, or for other kinds of sweeps.
    pub(super) fn new(
        double: &Arc<SevenPoint<TensorProduct<f64>>>,
        single: &Arc<SevenPoint<TensorProduct<f32>>>,
        relaxation: Relaxation,
    ) -> Result<Option<Self>> {
        let streams = double.kernels().streams && single.kernels().streams;
        if !streams || double.left_by(relaxation, Guess::Given) != Residual::Red {
            return Ok(None);
        }
        double.kernels().prepare_mixed(&["correct_sweep_red", "sweep_black_change"])?;
        single.kernels().prepare_mixed(&["sweep_red_from_change", "sweep_black_homogeneous"])?;
        Ok(Some(Self { double: Arc::clone(double), single: Arc::clone(single) }))
    }
}

impl StreamedSteps {
    /// Fills the halo of one colour.
    fn fill<T: Real>(&self, x: &mut Vector<T>, colour: Colour) -> Result<()> {
        self.double.kernels().cuda().fill(x, &[colour])
    }
}

impl ChangeSteps<Cuda> for StreamedSteps {
    /// The halo rows of e have their values since its restriction.
    fn correct_red(
        &self,
        f: &Vector<f64>,
        e: &Vector<f32>,
        coarse_u: &mut Vector<f32>,
        u: &mut Vector<f64>,
        w: &mut Vector<f32>,
    ) -> Result<()> {
        self.fill(u, Colour::Black)?;
        self.single.fill(coarse_u)?;
        let double = self.double.kernels();
        let arguments = double.arguments().with(f.pointer()).with(u.pointer()).with(e.pointer());
        let arguments = arguments.with(Coarse::of(coarse_u)).with(w.pointer());
        double.stream(&double.modules.mixed, "correct_sweep_red", |_| arguments)
    }

    fn change_black(&self, f: &Vector<f64>, u: &mut Vector<f64>, w: &mut Vector<f32>) -> Result<()> {
        self.fill(u, Colour::Red)?;
        let double = self.double.kernels();
        let arguments = double.arguments().with(f.pointer()).with(u.pointer()).with(w.pointer());
        double.stream(&double.modules.mixed, "sweep_black_change", |_| arguments)
    }

    fn begin_red(&self, w: &mut Vector<f32>, e: &mut Vector<f32>, (norm, scalars): Sum<'_>) -> Result<()> {
        self.fill(w, Colour::Black)?;
        let single = self.single.kernels();
        let arguments = single.arguments().with(w.pointer()).with(e.pointer());
        let with_sum = |blocks| single.reduction.append(arguments, blocks, scalars.pointer(norm));
        single.stream(&single.modules.mixed, "sweep_red_from_change", with_sum)?;
        self.single.sum([norm], scalars)
    }

    fn end_black(&self, e: &mut Vector<f32>) -> Result<()> {
        self.fill(e, Colour::Red)?;
        let single = self.single.kernels();
        let arguments = single.arguments().with(e.pointer());
        single.stream(&single.modules.mixed, "sweep_black_homogeneous", |_| arguments)
    }

    fn restrict(&self, e: &mut Vector<f32>, coarse_f: &mut Vector<f32>) -> Result<()> {
        self.fill(e, Colour::Black)?;
        self.single.kernels().restrict_coupling(e, coarse_f)
    }
}
