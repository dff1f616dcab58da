//! Levels of multigrid by points on a GPU: coefficients of coarse grids, and transfers between two levels; `small`: small levels in one launch.

mod small;

use std::sync::Arc;

use isobar_core::operator::{prolong_smooth_unfused, smooth_residual_restrict_unfused};
use isobar_core::prelude::{
    Layout, LineSmoother, MultigridOptions, Real, Relaxation, Result, Shape, Smoother, Stencil, Supports, Transfer,
};
use isobar_core::stencil::halving::{End, Halving};
use isobar_core::stencil::point_levels::SupportsPoints;
use isobar_core::stencil::{self, Measures, Small, stiffness_of};

pub(crate) use self::small::THREADS;
use self::small::small_levels;
use crate::diffusion::first_factor;
use crate::launch::refuse_while_recording;
use crate::part::rows_around;
use crate::seven_point::colours::{Level, cell_blocks};
use crate::seven_point::passes::Passes;
use crate::seven_point::{Kernels, SevenPoint};
use crate::{Arguments, Buffer, Cuda, Pointer, Sum, Sweep, Vector, argument};

/// The diffusion operator.
type DiffusionOperator<T> = SevenPoint<Passes<T>>;

argument! {
    /// `Halving` of colours.cu.
    struct Operands {
        near: [Pointer; 3],
        far: [Pointer; 3],
        fine: [i32; 4],
        coarse: [i32; 4],
        halved: i32,
        rings: i32,
        rows: [i32; 2],
    }
}

/// The coarsening between two levels, on the GPU.
#[derive(Debug)]
struct Tables {
    /// The memory of the operands and the weights.
    _numbers: Buffer,
    operands: Operands,
    shares: [Pointer; 3],
    coarse: Shape,
}

/// Returns a bit for each direction.
pub(crate) fn bits(of: [bool; 3]) -> i32 {
    of.into_iter().enumerate().map(|(d, is_set)| i32::from(is_set) << d).sum()
}

/// Returns nx, ny, nz and the pitch.
pub(crate) fn extents(layout: &Layout) -> [i32; 4] {
    let Shape { nx, ny, nz } = layout.shape();
    [nx, ny, nz, layout.pitch()].map(|n| n as i32)
}

impl Tables {
    /// Makes it for grids or subdomains in these layouts.
    fn new<T: Real>(cuda: &Cuda, by: &Halving, ends: [[End; 2]; 3], [fine, coarse]: [&Layout; 2]) -> Result<Self> {
        let mut numbers = Vec::<T>::new();
        let mut place = |values: &[f64]| {
            let at = numbers.len();
            numbers.extend(values.iter().map(|&value| T::from_f64(value)));
            (at * size_of::<T>()) as Pointer
        };
        let [near, far, shares] = [
            by.along.each_ref().map(|along| place(&along.near)),
            by.along.each_ref().map(|along| place(&along.far)),
            by.along.each_ref().map(|along| place(&along.share)),
        ];
        let buffer = Buffer::from_slice(cuda.context(), &numbers, "weights of a halved grid")?;
        // On a subdomain, weights begin with its first row.
        let before = [0, fine.first_row() * size_of::<T>(), 0].map(|bytes| bytes as Pointer);
        let at = |places: [Pointer; 3]| [0, 1, 2].map(|d: usize| buffer.start() + places[d] + before[d]);
        let operands = Operands {
            near: at(near),
            far: at(far),
            fine: extents(fine),
            coarse: extents(coarse),
            halved: bits(by.halved()),
            rings: bits(ends.map(|ends| ends[0] == End::Ring)),
            rows: rows_around(coarse, by.coarse.ny),
        };
        Ok(Self { shares: at(shares), operands, coarse: coarse.shape(), _numbers: buffer })
    }

    /// Returns the blocks with one coarse cell per thread.
    fn coarse_grid(&self) -> [usize; 3] {
        let Shape { nx, ny, nz } = self.coarse;
        cell_blocks(nx, ny, nz, 1)
    }

    fn arguments(&self) -> Arguments {
        Arguments::new().with(self.operands)
    }
}

/// Transfers between two levels of point relaxation.
#[derive(Debug)]
pub(crate) struct PointTransfer<T: Real> {
    fine: Arc<DiffusionOperator<T>>,
    coarse: Layout,
    tables: Tables,
    /// Whether all directions are coarsened and the fine level's relaxation may be streamed in one pass.
    streams: bool,
}

impl<T: Real> PointTransfer<T> {
    /// Returns the finer level, if its sweep and this transfer may be one pass.
    fn level<'a>(&self, sweep: &'a mut Sweep<'_, T>) -> Option<Level<'a, T>> {
        let Relaxation { smoother, rho, first, .. } = sweep.relaxation;
        let Sweep { f, u, scratch, .. } = sweep;
        let halving = self.tables.arguments();
        (self.streams && smoother == Smoother::PointRedBlack).then_some(Level { halving, rho, first, f, u, scratch })
    }
}

impl<T: Real> Transfer<Cuda, T> for PointTransfer<T> {
    fn fine(&self) -> &dyn LineSmoother<Cuda, T> {
        &*self.fine
    }

    fn coarse_layout(&self) -> &Layout {
        &self.coarse
    }

    fn restrict(&self, f: &mut Vector<T>, coarse_f: &mut Vector<T>) -> Result<()> {
        let arguments = self.tables.arguments().with(f.pointer()).with(coarse_f.pointer());
        self.fine.kernels().launch_halving("restrict_field", self.tables.coarse_grid(), arguments)
    }

    fn prolong(&self, coarse_u: &mut Vector<T>, u: &mut Vector<T>) -> Result<()> {
        self.fine.fill(coarse_u)?;
        let (kernels, Shape { nx, ny, nz }) = (self.fine.kernels(), self.fine.layout_of().shape());
        let march = kernels.march()?;
        let arguments = self.tables.arguments().with(march as i32).with(coarse_u.pointer()).with(u.pointer());
        kernels.launch_halving("prolong_cells", cell_blocks(nx.div_ceil(2), ny, nz, march), arguments)
    }

    fn residual_restrict(&self, f: &Vector<T>, [u, coarse_f, _]: [&mut Vector<T>; 3]) -> Result<()> {
        self.fine.fill(u)?;
        let vectors = [f.pointer(), u.pointer(), coarse_f.pointer()];
        self.fine.kernels().launch_restriction(self.tables.coarse_grid(), self.tables.arguments(), vectors)
    }

    fn smooth_residual_restrict(&self, mut sweep: Sweep<'_, T>, coarse_f: &mut Vector<T>) -> Result<()> {
        let guess = sweep.guess;
        if let Some(level) = self.level(&mut sweep)
            && self.fine.kernels().relax_restrict(guess, level, coarse_f)?
        {
            return Ok(());
        }
        smooth_residual_restrict_unfused(self, sweep, coarse_f)
    }

    fn prolong_smooth(&self, coarse_u: &mut Vector<T>, mut sweep: Sweep<'_, T>, norm: Option<Sum<'_>>) -> Result<()> {
        let out = norm.as_ref().map(|(norm, scalars)| (*norm, &**scalars));
        if let Some(level) = self.level(&mut sweep)
            && self.fine.kernels().prolong_relax(level, coarse_u, out)?
        {
            return Ok(());
        }
        match norm {
            Some((norm, scalars)) if sweep.relaxation.smoother == Smoother::PointRedBlack => {
                prolong_smooth_unfused(self, coarse_u, sweep.again(), None)?;
                self.fine.fill(sweep.u)?;
                self.fine.kernels().norm_of_cells(sweep.f, sweep.u, None, norm.of(scalars))?;
                self.fine.sum([norm], scalars)
            }
            norm => prolong_smooth_unfused(self, coarse_u, sweep, norm),
        }
    }
}

/// Computes the coefficients of the coarser operator from those of the finer one.
fn fill<T: Real>(
    tables: &Tables,
    (stencil, fine): (&stencil::Diffusion, &Passes<T>),
    (form, coarse): (&stencil::Diffusion, &Passes<T>),
    is_regular: bool,
) -> Result<()> {
    let grid = tables.coarse_grid();
    let (from, to) = (fine.operands(), coarse.operands());
    let factors = |stencil: &stencil::Diffusion| stencil.factors().unwrap_or([(0, 1.0); 3]);
    let (fine_axes, coarse_axes) = (factors(stencil), factors(form));
    for field in coarse.kind().used_fields() {
        let d = coarse_axes.iter().position(|axis| axis.0 == field).unwrap_or(0);
        let source = if is_regular { field } else { fine_axes[d].0 };
        let scale = fine_axes[d].1 / first_factor(&fine_axes, source);
        let arguments = tables.arguments().with(d as i32).with_real::<T>(scale).with(tables.shares[d]);
        let arguments = arguments.with(from.field(source)).with(to.field(field));
        fine.launch_halving("halve_field", grid, arguments)?;
    }
    if form.has_shift() {
        let arguments = tables.arguments().with(from.shift()).with(to.shift());
        fine.launch_halving("restrict_field", grid, arguments)?;
    }
    coarse.kind().send_ratios::<T>(coarse.cuda(), to, &coarse_axes)?;
    coarse.prepare_colours()?;
    coarse.look(coarse.prepare_looks()?)
}

impl SupportsPoints for Cuda {
    fn point_transfer<T: Real>(
        &self,
        fine: &Arc<DiffusionOperator<T>>,
        coarse: &Layout,
        by: &Halving,
    ) -> Result<Arc<dyn Transfer<Self, T>>> {
        refuse_while_recording("making a transfer")?;
        let (ends, layouts) = (stencil::ends_of(fine.kernels().kind().sides()), [fine.layout_of(), coarse]);
        let tables = Tables::new::<T>(self, by, ends, layouts)?;
        let shape = fine.layout_of().shape();
        let is_halved = by.halved().into_iter().zip(shape.extents()).all(|(halved, n)| halved || n == 1);
        let streams = is_halved && !fine.layout_of().is_part() && fine.kernels().prepare_streamed_colours()?;
        Ok(Arc::new(PointTransfer { fine: Arc::clone(fine), coarse: *coarse, tables, streams }))
    }

    fn point_operator<T: Real>(&self, stencil: &stencil::Diffusion) -> Result<Arc<DiffusionOperator<T>>> {
        let made: Arc<DiffusionOperator<T>> = self.operator(stencil)?;
        made.kernels().prepare_colours()?;
        Ok(made)
    }

    fn halve<T: Real>(
        &self,
        stencil: &stencil::Diffusion,
        operator: &Arc<DiffusionOperator<T>>,
        by: &Halving,
    ) -> Result<(stencil::Diffusion, Arc<DiffusionOperator<T>>)> {
        refuse_while_recording("making an operator")?;
        operator.kernels().prepare_colours()?;
        let form = stencil.halved_form(by)?;
        let coarse = SevenPoint::with(Passes::without_lines(self, &form)?);
        let layouts = [operator.layout_of(), coarse.layout_of()];
        let tables = Tables::new::<T>(self, by, stencil.ends(), layouts)?;
        fill(&tables, (stencil, operator.kernels()), (&form, coarse.kernels()), by.is_regular)?;
        Ok((form, coarse))
    }

    fn rehalve<T: Real>(
        &self,
        stencil: &stencil::Diffusion,
        fine: &Arc<DiffusionOperator<T>>,
        coarse: &Arc<DiffusionOperator<T>>,
        by: &Halving,
    ) -> Result<stencil::Diffusion> {
        refuse_while_recording("updating an operator")?;
        let form = stencil.halved_form(by)?;
        let tables = Tables::new::<T>(self, by, stencil.ends(), [fine.layout_of(), coarse.layout_of()])?;
        fill(&tables, (stencil, fine.kernels()), (&form, coarse.kernels()), by.is_regular)?;
        Ok(form)
    }

    fn small_levels<T: Real>(
        &self,
        operators: &[Arc<DiffusionOperator<T>>],
        steps: &[Halving],
        options: &MultigridOptions,
    ) -> Result<Option<Small<Self, T>>> {
        small_levels(self, operators, steps, options)
    }
}

/// Measures the coefficients of an operator, if they are coefficients of cells.
pub(crate) fn measure(
    stencil: &stencil::Diffusion,
    operator: &Arc<DiffusionOperator<f64>>,
) -> Result<Option<Measures>> {
    let Some(axes) = stencil.factors() else { return Ok(None) };
    let kernels = operator.kernels();
    kernels.prepare_colours()?;
    let look = kernels.prepare_looks()?.found();
    let Shape { nx, ny, nz } = stencil.shape();
    let (mut contrast, mut most, mut strengths) = (1.0f64, 0.0f64, [0.0; 3]);
    for (d, (field, factor)) in axes.into_iter().enumerate().filter(|&(d, _)| [nx, ny, nz][d] > 1) {
        contrast = contrast.max(look.most[field] / look.least[field]);
        let ratio = factor / first_factor(&axes, field);
        most = most.max(ratio * look.most[field]);
        strengths[d] = ratio * (look.most[field] * look.least[field]).sqrt();
    }
    let stiffness = stiffness_of(strengths.into_iter().filter(|&strength| strength > 0.0));
    // Inverses are rounded.
    let contrast = if look.jump == 1.0 { 1.0 } else { contrast };
    let fields = axes.iter().map(|&(field, _)| field).max().map_or(0, |last| last + 1);
    let (jump, has_closed, crosses) = (look.jump, look.has_zeros, stencil.crossing().is_strong());
    let hold = stencil.hold_of_shift(most, || look.shift);
    Ok(Some(Measures { stiffness, contrast, jump, has_closed, most, fields, crosses, hold }))
}
