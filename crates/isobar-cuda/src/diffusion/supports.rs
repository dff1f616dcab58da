//! Support of the diffusion operator on a GPU, on the whole grid and on subdomains.

use std::sync::Arc;

use isobar_core::operator::MixedTop;
use isobar_core::prelude::{
    Axis, Backend, Capabilities, Choice, Hierarchy, Layout, MixedSmoother, Operator, Precision, Real, Relaxation,
    Result, Separable, Smoother, SolverOptions, Stencil, Supports,
};
use isobar_core::stencil::galerkin::Grid;
use isobar_core::stencil::point_levels::levels_for;
use isobar_core::stencil::{self, Lines};
use isobar_dist::PartBackend;
use isobar_dist::diffusion::choice;

use super::rows_beside;
use crate::cuda::vector_source;
use crate::galerkin::setup::{Number, expect_levels};
use crate::halving::measure;
use crate::launch::refuse_while_recording;
use crate::overhead::OVERHEAD;
use crate::seven_point::passes::Passes;
use crate::seven_point::{Kernels, SevenPoint, Steps};
use crate::{Cuda, Pointer, Sum, Vector};

/// Copies coefficients of one operator to another one of the same rows in another precision.
fn round<T: Real, R: Real>(stencil: &stencil::Diffusion, from: &Passes<T>, to: &Passes<R>) -> Result<()> {
    let (cuda, layout) = (to.cuda(), to.layout());
    let ([before, after], row) = (rows_beside(layout), 2 * layout.half_plane());
    let len = (before + layout.shape().ny + after) * row;
    for [source, target] in pairs(from, to) {
        let beside = |size: usize| (before * row * size) as Pointer;
        cuda.convert_entries::<T, R>(len, source - beside(size_of::<T>()), target - beside(size_of::<R>()))?;
    }
    complete(stencil, to)
}

/// Sends the data that an operator needs besides its arrays of coefficients, which kernels have written.
fn complete<T: Real>(stencil: &stencil::Diffusion, to: &Passes<T>) -> Result<()> {
    if let Some(axes) = stencil.factors() {
        to.kind().send_ratios::<T>(to.cuda(), to.operands(), &axes)?;
    }
    to.note_sent(stencil)
}

/// Returns the addresses of each array of coefficients of two operators of one stencil.
fn pairs<T: Real, R: Real>(from: &Passes<T>, to: &Passes<R>) -> impl Iterator<Item = [Pointer; 2]> {
    let (kind, source, target) = (*to.kind(), *from.operands(), *to.operands());
    let fields: Vec<_> = kind.used_fields().map(|field| [source.field(field), target.field(field)]).collect();
    fields.into_iter().chain(kind.shift.then(|| [source.shift(), target.shift()]))
}

/// Has the kernels of multigrid cycles in precision T compiled; Galerkin levels are usually made in the given number type.
fn expect_cycles<T: Real>(stencil: &stencil::Diffusion, operator: &Passes<f64>, by_points: bool, number: Number) {
    let cuda = operator.cuda();
    if !by_points {
        expect_levels::<T>(cuda, number, &Grid::of(stencil), true);
    }
    operator.expect_cycles::<T>(by_points);
    cuda.expect(vector_source::<T>(), &["convert_f64"]);
    if T::PRECISION == Precision::F32 {
        cuda.expect(vector_source::<f32>(), &["axpy_norm", "dot"]);
    }
    if !by_points {
        cuda.expect_aggregates::<T>();
    }
}

impl MixedSmoother<Cuda> for SevenPoint<Passes<f64>> {
    fn residual_in_single(
        &self,
        f: &Vector<f64>,
        u: &mut Vector<f64>,
        r: &mut Vector<f32>,
        scratch: &mut Vector<f64>,
        (norm, scalars): Sum<'_>,
    ) -> Result<()> {
        if self.kernels().has_colours() {
            self.fill(u)?;
            self.kernels().norm_of_cells(f, u, Some(r), norm.of(scalars))?;
            return self.sum([norm], scalars);
        }
        self.residual(f, [u, scratch], norm.of(scalars))?;
        self.backend().convert(scratch, r)
    }

    fn mixed_needs_scratch(&self, smoother: Smoother) -> bool {
        smoother != Smoother::PointRedBlack
    }
}

impl Supports<stencil::Diffusion> for Cuda {
    type Operator<T: Real> = SevenPoint<Passes<T>>;
    const ORIENTATION: isobar_core::stencil::orientation::Orientation = OVERHEAD.orientation;

    fn choice(
        &self,
        stencil: &stencil::Diffusion,
        operator: &Arc<Self::Operator<f64>>,
        options: &SolverOptions,
    ) -> Result<Choice> {
        match self.ranks() {
            Some(ranks) => choice(self, ranks, stencil, options, [false, true]),
            None => stencil.choice_by(options, true, || measure(stencil, operator)),
        }
    }

    fn separable(&self, stencil: &stencil::Diffusion) -> Result<Separable> {
        if stencil.has_rows() {
            return stencil.separable();
        }
        stencil.on_host(|array| self.read_array(array))?.separable()
    }

    fn nearest_box(&self, stencil: &stencil::Diffusion, line: Option<Axis>) -> Result<Separable> {
        stencil.on_host(|array| self.read_array(array))?.nearest_box(line)
    }

    fn prepare(
        &self,
        stencil: &stencil::Diffusion,
        operator: &Arc<Self::Operator<f64>>,
        options: &SolverOptions,
    ) -> Result<()> {
        if self.ranks().is_some() {
            return Ok(());
        }
        operator.kernels().expect_preconditioner(&options.preconditioner);
        if options.deflation.is_some() {
            self.expect_aggregates::<f64>();
        }
        if !options.has_cycles() {
            return Ok(());
        }
        let by_points = options.multigrid.smoother == Smoother::PointRedBlack;
        match options.storage() {
            Precision::F64 => expect_cycles::<f64>(stencil, operator.kernels(), by_points, Number::Double),
            _ => expect_cycles::<f32>(stencil, operator.kernels(), by_points, Number::Single),
        }
        Ok(())
    }

    fn layout(&self, stencil: &stencil::Diffusion) -> Result<Layout> {
        stencil.turns().require_one("a checkerboard")?;
        self.own_rows(stencil.shape())?.layout(stencil.shape(), stencil.has_periodic_rows())
    }

    fn operator<T: Real>(&self, stencil: &stencil::Diffusion) -> Result<Arc<Self::Operator<T>>> {
        let Some(ranks) = self.ranks() else { return SevenPoint::new(self, stencil) };
        refuse_while_recording("making an operator")?;
        let slab = ranks.slabs(stencil.shape())?.of(ranks.rank());
        stencil.require_part(slab)?;
        SevenPoint::made_of(Passes::make(self, stencil, slab)?, stencil)
    }

    fn update<T: Real>(&self, operator: &Self::Operator<T>, stencil: &stencil::Diffusion) -> Result<bool> {
        // Ranks continue together, even if only some of them have other numbers.
        Ok(operator.update(stencil)? || self.ranks().is_some())
    }

    fn rounded<T: Real, R: Real>(
        &self,
        stencil: &stencil::Diffusion,
        from: &Arc<Self::Operator<T>>,
    ) -> Result<Arc<Self::Operator<R>>> {
        refuse_while_recording("making an operator")?;
        let made = SevenPoint::with(match self.ranks() {
            Some(_) => Passes::<R>::make(self, stencil, self.own_rows(stencil.shape())?)?,
            None => Passes::<R>::new(self, stencil)?,
        });
        round(stencil, from.kernels(), made.kernels())?;
        Ok(made)
    }

    fn round_again<T: Real, R: Real>(
        &self,
        stencil: &stencil::Diffusion,
        from: &Self::Operator<T>,
        to: &Self::Operator<R>,
    ) -> Result<()> {
        refuse_while_recording("updating an operator")?;
        round(stencil, from.kernels(), to.kernels())
    }

    fn capabilities<T: Real>(&self, operator: &Arc<Self::Operator<T>>) -> Capabilities<Self, T> {
        Capabilities::all(operator)
    }

    fn lines<T: Real>(
        &self,
        _: &stencil::Diffusion,
        operator: &Arc<Self::Operator<T>>,
    ) -> Result<Option<Lines<Self, stencil::Diffusion, T>>> {
        operator.kernels().prepare(Steps::Lines)?;
        Ok(Some(Lines { solver: Arc::clone(operator) as _, update: None }))
    }

    fn hierarchy<T: Real>(
        &self,
        stencil: &stencil::Diffusion,
        finest: &Arc<Self::Operator<T>>,
        smoother: Smoother,
        wanted: Option<usize>,
    ) -> Result<Option<Hierarchy<Self, stencil::Diffusion, T>>> {
        match smoother {
            Smoother::PointRedBlack => {
                finest.kernels().prepare_colours()?;
            }
            // There is none: lines on the finest grid cost a GPU no more.
            Smoother::PointLine => return Ok(None),
            _ => finest.kernels().prepare(Steps::Sweeps)?,
        }
        levels_for(self, stencil, finest, smoother, wanted).map(Some)
    }

    fn mixed_top(
        &self,
        double: &Arc<Self::Operator<f64>>,
        single: &Arc<Self::Operator<f32>>,
        hierarchy: &Hierarchy<Self, stencil::Diffusion, f32>,
        relaxation: Relaxation,
    ) -> Result<Option<MixedTop<Self>>> {
        if relaxation.smoother == Smoother::PointRedBlack {
            double.kernels().prepare_colours()?;
        } else {
            double.kernels().prepare(Steps::Sweeps)?;
        }
        let transfer = hierarchy.transfers.first().cloned();
        MixedTop::new(Arc::clone(double) as _, Arc::clone(single) as _, transfer, relaxation).map(Some)
    }
}
