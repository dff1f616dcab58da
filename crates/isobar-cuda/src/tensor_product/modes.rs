//! Transfers between a grid and its vertical modes on a GPU. The recurrences are above the kernels in `modes.cu`.

use std::marker::PhantomData;
use std::sync::Arc;

use isobar_core::operator;
use isobar_core::prelude::{
    Backend, Colour, Expansion, Guess, Hierarchy, Layout, LineSmoother, MultigridOptions, Real, Result, Scalar, Shape,
    Transfer, VerticalModes,
};
use isobar_core::stencil;
use isobar_core::stencil::tensor_levels::SupportsTransfers;

use super::TensorProduct;
use super::expand::{ExpandSweep, MOST_TOGETHER, Modes, numbers, sweep_source};
use super::single::{self, SingleSweeps};
use super::small_levels::{SmallLevels, first_small_level};
use super::transfer::LevelTransfer;
use crate::kernels::tensor_product as kernels;
use crate::launch::refuse_while_recording;
use crate::seven_point::{Kernels, Residual, SevenPoint, Steps};
use crate::vector::{c_name, check_size, is_single};
use crate::{Arguments, Buffer, Cuda, Launch, Module, Reduction, Scalars, Source, Sum, Sweep, Vector};

/// `WARPS` of modes.cu.
const WARPS: usize = 8;
/// Warps that a multiprocessor needs to hide memory latency.
const WARPS_A_MULTIPROCESSOR: usize = 24;

/// Returns the specialised source for a number of modes.
pub fn source<T: Real, C: Real>(count: usize) -> Source {
    Source::new("tensor_product_modes", kernels::MODES)
        .define("REAL", c_name::<T>())
        .define("MODE_REAL", c_name::<C>())
        .define("COUNT", count)
        .define("ROWS", 1)
        .define("ODD", 1)
        .define("SINGLE", u32::from(is_single::<T>()))
}

/// Transfers between the grid of an operator and some of its modes.
#[derive(Debug)]
struct ModalTransfer<T: Real, C> {
    fine: Arc<SevenPoint<TensorProduct<T>>>,
    layout: Layout,
    /// s_m(k) at m + stride · k; the stride is a multiple of the modes per launch.
    table: Buffer,
    together: usize,
    module: Arc<Module>,
    sweep: Option<ExpandSweep>,
    /// All sweeps except the last, if modes are in single precision and the grid is not.
    single: Option<SingleSweeps>,
    reduction: Reduction,
    /// Warps that share columns, and blocks, for projection and for expansion on one colour.
    project: Share,
    expand: Share,
    precision: PhantomData<C>,
}

/// Launch parameters of a kernel.
#[derive(Clone, Copy, Debug)]
struct Share {
    split: usize,
    blocks: usize,
    shared_bytes: usize,
}

impl<T: Real> TensorProduct<T> {
    /// Has the kernels compiled that expand in modes and sweep.
    fn expect_expansion<C: Real>(&self, modes: &VerticalModes) {
        let (layers, count) = (modes.layers(), modes.count());
        if count > MOST_TOGETHER {
            return;
        }
        if is_single::<C>() && !is_single::<T>() && self.streams {
            let [sweep, last, expand] = single::sources(self.tile, layers, count);
            self.cuda.expect(sweep, &["line_sweep"]);
            self.cuda.expect(last, &["line_sweep_rounded"]);
            self.cuda.expect(expand, &["expand_sweep"]);
        } else {
            self.cuda.expect(sweep_source::<T, C>(self.tile, layers, count), &["expand_sweep"]);
        }
    }
}

impl<T: Real, C: Real> ModalTransfer<T, C> {
    fn new(fine: &Arc<SevenPoint<TensorProduct<T>>>, modes: &VerticalModes) -> Result<Self> {
        refuse_while_recording("making modes")?;
        let (cuda, fine_layout) = (fine.kernels().cuda().clone(), *fine.layout_of());
        let layout = fine_layout.own_rows(modes.count())?;
        check_size(layout.shape())?;
        fine.kernels().prepare(Steps::Sweeps)?;
        fine.kernels().prepare(Steps::Transfers)?;
        // Upper bound of the kernels' static shared memory.
        const STATIC: usize = 2048;
        let bytes_a_mode = (modes.layers() + 32 * WARPS) * size_of::<T>();
        let room = (cuda.context().shared_memory.saturating_sub(STATIC) / bytes_a_mode).max(1);
        let together = modes.count().min(MOST_TOGETHER).min(room);
        let module = cuda.module(source::<T, C>(together));
        module.expect(&["project_residual", "expand", "project", "project_norm", "project_residual_red"]);
        fine.kernels().expect_expansion::<C>(modes);
        let numbers = modes.count().next_multiple_of(together) * modes.layers();
        let table = Buffer::new(cuda.context(), numbers * size_of::<T>(), "vertical modes")?;
        let shared_bytes = |split: usize| {
            let partial = if split > 1 { 32 * WARPS } else { 0 };
            (modes.layers() + partial) * together * size_of::<T>()
        };
        // The smallest number of warps per column that fills the GPU.
        let strips = fine_layout.pitch().div_ceil(32) * fine_layout.shape().ny;
        let wanted = WARPS_A_MULTIPROCESSOR * cuda.context().multiprocessors;
        let splits = [1, 2, 4, WARPS];
        let split = splits.into_iter().find(|split| strips * split >= wanted).unwrap_or(WARPS);
        let share = |name: &'static str, bytes: usize| -> Result<Share> {
            let kernel = module.kernel_with(name, bytes)?;
            let resident = module.resident_blocks(&kernel, 32 * WARPS, bytes)?;
            let blocks = resident.min((2 * strips * split).div_ceil(WARPS));
            Ok(Share { split, blocks, shared_bytes: bytes })
        };
        let project = share("project_residual", shared_bytes(split))?;
        let expand = share("expand", shared_bytes(1))?;
        module.prepare(&["project", "project_norm", "project_residual_red"], shared_bytes(split))?;
        let may_round = is_single::<C>() && !is_single::<T>();
        let single = if may_round { SingleSweeps::new(fine.kernels(), modes.count())? } else { None };
        if single.is_some() {
            module.prepare(&["project_rounded"], shared_bytes(split))?;
        }
        let sweep = if single.is_some() {
            None
        } else {
            let (layout, tile) = (fine.layout_of(), fine.kernels().tile);
            let source = sweep_source::<T, C>(tile, modes.layers(), modes.count());
            ExpandSweep::new::<T>(&cuda, layout, tile, source, modes.count())?
        };
        let this = Self {
            fine: Arc::clone(fine),
            layout,
            table,
            together,
            sweep,
            single,
            module,
            reduction: Reduction::new(cuda.context(), project.blocks)?,
            project,
            expand,
            precision: PhantomData,
        };
        this.send(modes)?;
        Ok(this)
    }

    fn send(&self, modes: &VerticalModes) -> Result<()> {
        self.table.write(&numbers::<T>(modes, modes.count().next_multiple_of(self.together)))?;
        match &self.single {
            Some(single) => single.update(self.fine.kernels(), modes),
            None => Ok(()),
        }
    }

    fn cuda(&self) -> &Cuda {
        self.fine.kernels().cuda()
    }

    /// Launches a kernel repeatedly, for some modes at a time. The first arguments are common; the others may
    /// depend on the launch.
    fn launch(&self, name: &'static str, share: Share, rest: impl Fn(usize, Arguments) -> Arguments) -> Result<()> {
        let kernel = self.module.kernel_with(name, share.shared_bytes)?;
        let (grid, block) = ([share.blocks as u32, 1, 1], [32, WARPS as u32]);
        let count = self.layout.shape().nz;
        for first in (0..count).step_by(self.together) {
            let stride = count.next_multiple_of(self.together);
            let modes = Modes {
                values: self.table.start(),
                first: first as i32,
                all: count as i32,
                stride: stride as i32,
                unused: 0,
            };
            let arguments = self.fine.kernels().arguments().with(modes).with(share.split as i32);
            let (shared_bytes, arguments) = (share.shared_bytes as u32, rest(first, arguments));
            self.cuda().submit(Launch { kernel: kernel.clone(), grid, block, shared_bytes, arguments })?;
        }
        Ok(())
    }

    fn expand_colours(&self, x: &Vector<C>, guess: Guess, colours: &[Colour], u: &Vector<T>) -> Result<()> {
        let colour = colours.first().map_or(0, |&colour| colour as i32);
        self.launch("expand", self.expand, |first, arguments| {
            let adds = first > 0 || guess == Guess::Given;
            let arguments = arguments.with(colour).with(colours.len() as i32).with(i32::from(adds));
            arguments.with(x.pointer()).with(u.pointer())
        })
    }

    fn project_what(
        &self,
        which: Residual,
        f: &Vector<T>,
        u: &Vector<T>,
        g: &Vector<C>,
        norm: Scalar,
        scalars: &Scalars,
    ) -> Result<()> {
        let name = if which == Residual::Any { "project_residual" } else { "project_residual_red" };
        self.launch(name, self.project, |_, arguments| {
            let arguments = arguments.with(f.pointer()).with(u.pointer()).with(g.pointer());
            self.reduction.append(arguments, self.project.blocks, scalars.pointer(norm))
        })
    }
}

impl<T: Real, C: Real> operator::ModalTransfer<Cuda, T, C> for ModalTransfer<T, C> {
    fn fine(&self) -> &dyn LineSmoother<Cuda, T> {
        &*self.fine
    }

    fn modal_layout(&self) -> &Layout {
        &self.layout
    }

    fn update(&self, modes: &VerticalModes) -> Result<()> {
        refuse_while_recording("updating modes")?;
        self.send(modes)
    }

    fn project(&self, r: &Vector<T>, g: &mut Vector<C>) -> Result<()> {
        self.launch("project", self.project, |_, arguments| arguments.with(r.pointer()).with(g.pointer()))
    }

    fn project_rhs(&self, f: &Vector<T>, g: &mut Vector<C>, u: &mut Vector<T>, (norm, scalars): Sum<'_>) -> Result<()> {
        let name = if self.single.is_some() { "project_rounded" } else { "project_norm" };
        self.launch(name, self.project, |_, arguments| {
            let arguments = arguments.with(f.pointer()).with(g.pointer());
            let arguments = if self.single.is_some() { arguments.with(u.pointer()) } else { arguments };
            self.reduction.append(arguments, self.project.blocks, scalars.pointer(norm))
        })?;
        self.fine.sum([norm], scalars)
    }

    fn expand(&self, x: &Vector<C>, guess: Guess, u: &mut Vector<T>) -> Result<()> {
        self.expand_colours(x, guess, &Colour::BOTH, u)
    }

    fn project_residual(
        &self,
        f: &Vector<T>,
        u: &mut Vector<T>,
        g: &mut Vector<C>,
        _: &mut Vector<T>,
        (norm, scalars): Sum<'_>,
    ) -> Result<()> {
        self.fine.fill(u)?;
        self.project_what(Residual::Any, f, u, g, norm, scalars)?;
        self.fine.sum([norm], scalars)
    }

    fn expand_smooth(
        &self,
        &Expansion { x, guess, relaxation, sweeps }: &Expansion<'_, Vector<C>>,
        f: &Vector<T>,
        [u, scratch]: [&mut Vector<T>; 2],
    ) -> Result<()> {
        let (kernels, first) = (self.fine.kernels(), self.layout.local(relaxation.first));
        let is_fused = guess == Guess::Zero && self.fine.overwrites(relaxation);
        if let Some(single) = self.single.as_ref().filter(|_| is_fused && sweeps > 1) {
            single.expand_and_sweep(kernels, first, sweeps - 1, x, u)?;
            single.last_half(kernels, first, f, u)?;
            return kernels.sweep(1.0, first.other(), Guess::Given, f, u, scratch);
        }
        if let Some(sweep) = self.sweep.as_ref().filter(|_| is_fused && sweeps > 0) {
            let count = self.layout.shape().nz;
            let stride = count.next_multiple_of(self.together) as i32;
            let modes = Modes { values: self.table.start(), first: 0, all: count as i32, stride, unused: 0 };
            sweep.launch(kernels.cuda(), kernels.operator(), modes, first, x, [f.pointer(), u.pointer()])?;
            kernels.sweep(1.0, first.other(), Guess::Given, f, u, scratch)?;
            let mut sweep = Sweep { relaxation, guess: Guess::Given, f, u, scratch };
            return (1..sweeps).try_for_each(|_| self.fine.smooth(sweep.again()));
        }
        // A sweep overwrites its first colour, whatever it contains.
        let needed = [first.other()];
        let colours = if self.fine.overwrites(relaxation) { &needed[..] } else { &Colour::BOTH };
        self.expand_colours(x, guess, colours, u)?;
        let mut sweep = Sweep { relaxation, guess: Guess::Given, f, u, scratch };
        (0..sweeps).try_for_each(|_| self.fine.smooth(sweep.again()))
    }

    fn expand_smooth_project(
        &self,
        expansion: &Expansion<'_, Vector<C>>,
        f: &Vector<T>,
        [u, scratch]: [&mut Vector<T>; 2],
        g: &mut Vector<C>,
        (norm, scalars): Sum<'_>,
    ) -> Result<()> {
        let relaxation = expansion.relaxation;
        self.expand_smooth(expansion, f, [&mut *u, scratch])?;
        self.fine.kernels().cuda().fill(u, self.fine.stale_after(relaxation))?;
        self.project_what(self.fine.left_by(relaxation, Guess::Given), f, u, g, norm, scalars)?;
        self.fine.sum([norm], scalars)
    }

    fn needs_scratch(&self) -> bool {
        false
    }
}

impl SupportsTransfers for Cuda {
    fn transfer<T: Real>(
        &self,
        fine: &Arc<SevenPoint<TensorProduct<T>>>,
        coarse: &Arc<SevenPoint<TensorProduct<T>>>,
        own: &Layout,
    ) -> Result<Arc<dyn Transfer<Self, T>>> {
        Ok(LevelTransfer::new(fine, coarse, own)?)
    }

    fn modal_transfer<T: Real, C: Real>(
        &self,
        operator: &Arc<SevenPoint<TensorProduct<T>>>,
        modes: &VerticalModes,
    ) -> Result<Arc<dyn operator::ModalTransfer<Self, T, C>>> {
        Ok(Arc::new(ModalTransfer::<T, C>::new(operator, modes)?))
    }

    fn levels_of_modes<C: Real>(
        &self,
        levels: Hierarchy<Self, stencil::TensorProduct, C>,
        operators: &[Arc<SevenPoint<TensorProduct<C>>>],
        options: &MultigridOptions,
    ) -> Result<Hierarchy<Self, stencil::TensorProduct, C>> {
        let shapes: Vec<Shape> = operators.iter().map(|operator| operator.layout_of().shape()).collect();
        let small = match first_small_level(&shapes, options) {
            Some(first) => SmallLevels::new(&operators[first..], options.coarse_sweeps)?.map(|small| (first, small)),
            None => None,
        };
        Ok(match small {
            Some((first, small)) => levels.cut(first, Arc::new(small)),
            None => levels,
        })
    }
}
