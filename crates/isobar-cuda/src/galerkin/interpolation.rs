//! Interpolation between two levels of a Galerkin hierarchy.

use std::sync::Arc;

use isobar_core::prelude::{Axis, Backend, Colour, Error, Guess, Layout, LineSmoother, Real, Result, Shape, Transfer};
use isobar_core::stencil::galerkin_levels::Finer;

use super::setup::DirectionWeights;
use super::sources::{bits, cell_block, sources};
use super::twenty_seven::TwentySeven;
use crate::halving::extents;
use crate::launch::refuse_while_recording;
use crate::seven_point::passes::Passes;
use crate::seven_point::{Kernels, SevenPoint, Steps};
use crate::{Arguments, Buffer, Cuda, Module, Pointer, Sum, Sweep, Vector, argument};

argument! {
    /// `Interpolation` of interpolation.cuh.
    pub(super) struct Weights {
        below: [Pointer; 3],
        above: [Pointer; 3],
        fine: [i32; 4],
        coarse: [i32; 4],
        odd: [i32; 3],
        ring: u32,
        before: i32,
        after: i32,
    }
}

/// The operator of the finer level.
#[derive(Debug)]
enum Fine<T: Real> {
    Finest(Arc<SevenPoint<Passes<T>>>),
    Coarse(Arc<TwentySeven<T>>),
}

/// Interpolation P = P_x P_y P_z over the coarsened directions, and restriction R = Pᵀ, between levels or subdomains of them.
#[derive(Debug)]
pub struct Interpolation<T: Real> {
    cuda: Cuda,
    fine: Fine<T>,
    coarse: Layout,
    /// The coarsened directions.
    axes: Vec<Axis>,
    /// Whether a row of one subdomain contributes to a coarse row of the next.
    meets: bool,
    /// The memory of the operands.
    _weights: Buffer,
    operands: Weights,
    module: Arc<Module>,
}

/// The kernels where all directions are halved, and elsewhere.
const HALVED: &[&str] = &["prolong_halved", "restrict_halved", "restrict_even", "restrict_odd"];
const GENERAL: &[&str] = &["prolong", "restrict_field"];

impl<T: Real> Interpolation<T> {
    pub(super) fn new(
        cuda: &Cuda,
        finer: Finer<'_, Cuda, T>,
        coarse: &Layout,
        weights: &[DirectionWeights],
    ) -> Result<Self> {
        refuse_while_recording("making a transfer")?;
        let [.., interpolate, _] = sources::<T>();
        let module = cuda.module(interpolate);
        module.prepare(if weights.len() == 3 { HALVED } else { GENERAL }, 0)?;
        let (fine, layout) = match finer {
            Finer::Finest(finest) => {
                finest.kernels().prepare(Steps::Transfers)?;
                (Fine::Finest(Arc::clone(finest)), *finest.layout_of())
            }
            Finer::Coarse(coarse) => {
                let operator: &dyn LineSmoother<Cuda, T> = &**coarse;
                (Fine::Coarse(Arc::clone(coarse)), *operator.layout())
            }
        };
        let mut operands = Weights {
            below: [0; 3],
            above: [0; 3],
            fine: extents(&layout),
            coarse: extents(coarse),
            odd: [0; 3],
            ring: 0,
            before: layout.halo()[0] as i32,
            after: coarse.halo()[1] as i32,
        };
        // Alignment of arrays in bytes.
        const ALIGNMENT: usize = 256;
        let places: Vec<[usize; 2]> = weights
            .iter()
            .map(|weights| {
                let [count, before] = weights.counts(&layout, coarse).map(|count| count * size_of::<T>());
                [count.next_multiple_of(ALIGNMENT), before]
            })
            .collect();
        let what = format!("weights of interpolation to {} cells", layout.shape());
        let buffer = Buffer::new(cuda.context(), places.iter().map(|[bytes, _]| 2 * bytes).sum(), &what)?;
        let (mut rings, mut next) = ([false; 3], buffer.start());
        for (weights, &[bytes, before]) in weights.iter().zip(&places) {
            let (d, odd) = (weights.axis as usize, weights.odd);
            [operands.below[d], operands.above[d]] = [before, bytes + before].map(|place| next + place as Pointer);
            next += 2 * bytes as Pointer;
            operands.odd[d] = if weights.axis == Axis::Y { layout.shape().ny / 2 } else { odd.extents()[d] } as i32;
            rings[d] = odd.periodic[d];
        }
        operands.ring = bits(layout.periodic_within(rings));
        let axes: Vec<Axis> = weights.iter().map(|weights| weights.axis).collect();
        let meets = layout.halo() != [0; 2] && axes.contains(&Axis::Y);
        let (cuda, coarse) = (cuda.clone(), *coarse);
        let this = Self { cuda, fine, coarse, axes, meets, _weights: buffer, operands, module };
        this.update(weights)?;
        Ok(this)
    }

    /// Replaces the weights; the directions must be the same.
    pub(super) fn update(&self, weights: &[DirectionWeights]) -> Result<()> {
        refuse_while_recording("updating a transfer")?;
        let has_same_axes = weights.iter().map(|weights| weights.axis).eq(self.axes.iter().copied());
        Error::unless(
            has_same_axes,
            "the new coefficients",
            || "multigrid would coarsen other directions than before; make a new solver",
        )?;
        weights.iter().try_for_each(|weights| {
            let d = weights.axis as usize;
            let layouts = [self.fine().layout(), &self.coarse];
            weights.store_in::<T>(&self.cuda, layouts, [self.operands.below[d], self.operands.above[d]])
        })
    }

    /// Returns blocks and threads for the columns of both colours or of one.
    fn blocks(nx: usize, rows: usize, layers: usize) -> ([usize; 3], [usize; 2]) {
        let [x, y] = cell_block(layers);
        ([nx.div_ceil(2).div_ceil(x), layers.div_ceil(y), rows], [x, y])
    }

    /// Restricts f_c = R f. f may be zero except in columns of one colour.
    fn restrict_colour(&self, colour: Option<Colour>, f: &Vector<T>, coarse_f: &mut Vector<T>) -> Result<()> {
        let name = match colour {
            _ if !self.halves_all() => "restrict_field",
            None => "restrict_halved",
            Some(Colour::Red) => "restrict_even",
            Some(Colour::Black) => "restrict_odd",
        };
        let Shape { nx, ny, nz } = self.coarse.shape();
        let (grid, block) = Self::blocks(nx, 2 * ny, nz);
        let arguments = Arguments::new().with(self.operands).with(f.pointer()).with(coarse_f.pointer());
        self.cuda.launch(self.module.kernel(name)?, grid, block, arguments)
    }

    /// Adds u += P u_c in columns of both colours or of one.
    fn prolong_colour(&self, colour: Option<Colour>, coarse_u: &Vector<T>, u: &mut Vector<T>) -> Result<()> {
        let (colours, shape) = (if colour.is_some() { 1 } else { 2 }, self.fine().layout().shape());
        // A thread has a cell, or the four cells of a colour among two rows and two layers.
        let (name, rows, layers) = match self.halves_all() {
            true => ("prolong_halved", shape.ny.div_ceil(2), shape.nz.div_ceil(2)),
            false => ("prolong", shape.ny, shape.nz),
        };
        let (grid, block) = Self::blocks(shape.nx, colours * rows, layers);
        let arguments = Arguments::new().with(self.operands).with(colour.map_or(-1, |colour| colour as i32));
        let arguments = arguments.with(coarse_u.pointer()).with(u.pointer());
        self.cuda.launch(self.module.kernel(name)?, grid, block, arguments)
    }

    /// Restricts the residual after a sweep, f_c = R r, which may be zero except in columns of one colour.
    fn restrict_left(&self, colour: Option<Colour>, r: &mut Vector<T>, coarse_f: &mut Vector<T>) -> Result<()> {
        if self.meets {
            match colour.map(|colour| r.layout().local(colour)) {
                Some(colour) => self.cuda.fill(r, &[colour])?,
                None => self.cuda.fill(r, &Colour::BOTH)?,
            }
        }
        self.restrict_colour(colour, r, coarse_f)
    }

    /// f_c = R (f − A u), the halo of u being filled.
    fn restrict_residual(&self, [f, u]: [&Vector<T>; 2], [coarse_f, scratch]: [&mut Vector<T>; 2]) -> Result<()> {
        match &self.fine {
            Fine::Finest(operator) => operator.kernels().residual_field(f, u, scratch)?,
            Fine::Coarse(operator)
                if self.halves_all() && operator.restrict_residual(self.operands, None, [f, u, &*coarse_f])? =>
            {
                return Ok(());
            }
            Fine::Coarse(operator) => operator.residual_field(f, u, scratch)?,
        }
        self.restrict_left(None, scratch, coarse_f)
    }

    fn halves_all(&self) -> bool {
        self.axes.len() == 3
    }
}

impl<T: Real> Transfer<Cuda, T> for Interpolation<T> {
    fn fine(&self) -> &dyn LineSmoother<Cuda, T> {
        match &self.fine {
            Fine::Finest(operator) => &**operator,
            Fine::Coarse(operator) => &**operator,
        }
    }

    fn coarse_layout(&self) -> &Layout {
        &self.coarse
    }

    fn is_adjoint(&self) -> bool {
        true
    }

    fn restrict(&self, f: &mut Vector<T>, coarse_f: &mut Vector<T>) -> Result<()> {
        self.restrict_left(None, f, coarse_f)
    }

    fn prolong(&self, coarse_u: &mut Vector<T>, u: &mut Vector<T>) -> Result<()> {
        self.cuda.fill(coarse_u, &Colour::BOTH)?;
        self.prolong_colour(None, coarse_u, u)
    }

    fn residual_restrict(&self, f: &Vector<T>, [u, coarse_f, scratch]: [&mut Vector<T>; 3]) -> Result<()> {
        self.cuda.fill(u, &Colour::BOTH)?;
        self.restrict_residual([f, u], [coarse_f, scratch])
    }

    /// After a sweep, the residual is zero in the columns that were relaxed last; after a sweep from zero it follows from the couplings
    /// to columns that were relaxed later.
    fn smooth_residual_restrict(&self, sweep: Sweep<'_, T>, coarse_f: &mut Vector<T>) -> Result<()> {
        let Sweep { relaxation, guess, f, u, scratch } = sweep;
        let fine = Transfer::fine(self);
        fine.smooth(Sweep::new(relaxation, guess, f, u, scratch))?;
        self.cuda.fill(u, fine.stale_after(relaxation))?;
        match &self.fine {
            Fine::Finest(operator) => {
                let left = operator.left_by(relaxation, guess);
                if self.halves_all() && operator.kernels().residual_of_colour(Colour::Red, left, f, u, scratch)? {
                    return self.restrict_left(Some(Colour::Red), scratch, coarse_f);
                }
            }
            Fine::Coarse(operator)
                if guess == Guess::Zero
                    && relaxation.overwrites()
                    && self.halves_all()
                    && operator.restrict_residual(self.operands, Some(relaxation.first), [f, &*u, &*coarse_f])? =>
            {
                return Ok(());
            }
            Fine::Coarse(operator) if guess == Guess::Zero && operator.residual_after(relaxation, u, scratch)? => {
                return self.restrict_left(None, scratch, coarse_f);
            }
            Fine::Coarse(_) => {}
        }
        self.restrict_residual([f, u], [coarse_f, scratch])
    }

    /// Columns that are relaxed first without using their old values need no correction.
    fn prolong_smooth(&self, coarse_u: &mut Vector<T>, mut sweep: Sweep<'_, T>, norm: Option<Sum<'_>>) -> Result<()> {
        let corrected = match &self.fine {
            Fine::Finest(operator) if operator.overwrites(sweep.relaxation) => {
                Some(operator.layout_of().local(sweep.relaxation.first).other())
            }
            _ => None,
        };
        self.cuda.fill(coarse_u, &Colour::BOTH)?;
        self.prolong_colour(corrected, coarse_u, sweep.u)?;
        let fine = Transfer::fine(self);
        fine.smooth(sweep.again())?;
        let Some((norm, scalars)) = norm else { return Ok(()) };
        fine.residual_norm(sweep.f, [sweep.u, sweep.scratch], norm.of(scalars))
    }
}
