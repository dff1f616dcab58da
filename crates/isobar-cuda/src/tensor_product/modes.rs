//! Between a grid and its vertical modes on a card. What each kernel computes is said above it in `modes.cu`.

use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

use isobar_core::backend::Scalar;
use isobar_core::backend::part::Fill;
use isobar_core::error::Result;
use isobar_core::layout::{Colour, Layout, Shape};
use isobar_core::operator::part::{PartModalTransfer, PartOperator, PartSmoother, no_neighbours, stale_after};
use isobar_core::operator::{self, Guess, LineSmoother, Relaxation};
use isobar_core::options::MultigridOptions;
use isobar_core::real::Real;
use isobar_core::stencil::hierarchy::Coarsened;
use isobar_core::stencil::modes::{SupportsModes, problems_of_modes};
use isobar_core::stencil::parts::SupportsPartModes;
use isobar_core::stencil::{self, Hierarchy, VerticalModes};

use super::TensorProduct;
use super::planes::{SmallLevels, first_small_level};
use crate::compile::Source;
use crate::cuda::{Cuda, check_size};
use crate::driver::Pointer;
use crate::kernels::tensor_product as kernels;
use crate::launch::{Argument, Arguments, Launch, refuse_while_recording};
use crate::memory::Buffer;
use crate::module::Module;
use crate::reduction::Reduction;
use crate::scalars::Scalars;
use crate::seven_point::{Kernels, Residual, SevenPoint, Steps};
use crate::vector::{Vector, c_name};

/// `Modes` of modes.cu.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Modes {
    values: Pointer,
    first: i32,
    all: i32,
    stride: i32,
}

// SAFETY: laid out as `Modes` in modes.cu: a pointer, three 32-bit integers.
unsafe impl Argument for Modes {}

/// The most modes of a launch: as many sums as a thread has registers for.
const MOST_TOGETHER: usize = 32;

/// `WARPS` of modes.cu.
const WARPS: usize = 8;
/// Warps that a multiprocessor needs to hide the latency of memory.
const WARPS_A_MULTIPROCESSOR: usize = 24;

/// The source for so many modes, specialised.
pub fn source<T: Real, C: Real>(count: usize) -> Source {
    Source::new("tensor_product_modes", kernels::MODES)
        .define("REAL", c_name::<T>())
        .define("MODE_REAL", c_name::<C>())
        .define("COUNT", count)
        .define("ROWS", 1)
        .define("ODD", 1)
}

/// Between the grid of an operator and some of its modes.
#[derive(Debug)]
struct ModalTransfer<T: Real, C> {
    fine: Arc<SevenPoint<TensorProduct<T>>>,
    layout: Layout,
    /// s_m(k) at m + stride · k, the stride being a multiple of what a launch is for.
    table: Buffer,
    together: usize,
    module: Arc<Module>,
    reduction: Reduction,
    /// Warps that share columns, and blocks, of projection and of expansion on one colour.
    project: Share,
    expand: Share,
    precision: PhantomData<C>,
}

/// How a kernel is launched.
#[derive(Clone, Copy, Debug)]
struct Share {
    split: usize,
    blocks: usize,
    shared_bytes: usize,
}

impl<T: Real, C: Real> ModalTransfer<T, C> {
    fn new(fine: &Arc<SevenPoint<TensorProduct<T>>>, modes: &VerticalModes) -> Result<Self> {
        refuse_while_recording("making modes")?;
        let (cuda, fine_layout) = (fine.kernels().cuda().clone(), *fine.layout_of());
        let layout = fine_layout.own_rows(modes.count())?;
        check_size(layout.shape())?;
        fine.kernels().prepare(Steps::Sweeps)?;
        fine.kernels().prepare(Steps::Transfers)?;
        // The kernels' own static shared memory is less than this.
        const STATIC: usize = 2048;
        let bytes_a_mode = (modes.layers() + 32 * WARPS) * size_of::<T>();
        let room = (cuda.context().shared_memory.saturating_sub(STATIC) / bytes_a_mode).max(1);
        let together = modes.count().min(MOST_TOGETHER).min(room);
        let [module] = cuda.prepare([source::<T, C>(together)])?;
        let numbers = modes.count().next_multiple_of(together) * modes.layers();
        let table = Buffer::new(cuda.context(), numbers * size_of::<T>(), "vertical modes")?;
        let shared_bytes = |split: usize| {
            let partial = if split > 1 { 32 * WARPS } else { 0 };
            (modes.layers() + partial) * together * size_of::<T>()
        };
        // The fewest warps a column that fill the card.
        let strips = fine_layout.pitch().div_ceil(32) * fine_layout.shape().ny;
        let wanted = WARPS_A_MULTIPROCESSOR * cuda.context().multiprocessors;
        let splits = [1, 2, 4, WARPS];
        let split = splits.into_iter().find(|split| strips * split >= wanted).unwrap_or(WARPS);
        let share = |name: &'static str, bytes: usize| -> Result<Share> {
            let kernel = module.kernel_with(name, bytes)?;
            let resident = module.resident_blocks(kernel, 32 * WARPS, bytes)?;
            let blocks = resident.min((2 * strips * split).div_ceil(WARPS));
            Ok(Share { split, blocks, shared_bytes: bytes })
        };
        let project = share("project_residual", shared_bytes(split))?;
        let expand = share("expand", shared_bytes(1))?;
        module.prepare(&["project", "project_residual_red"], shared_bytes(split))?;
        let this = Self {
            fine: Arc::clone(fine),
            layout,
            table,
            together,
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
        let stride = modes.count().next_multiple_of(self.together);
        let mut numbers = vec![T::ZERO; stride * modes.layers()];
        for m in 0..modes.count() {
            for (k, &s) in modes.vector(m).iter().enumerate() {
                numbers[m + stride * k] = T::from_f64(s);
            }
        }
        self.table.write(&numbers)
    }

    fn cuda(&self) -> &Cuda {
        self.fine.kernels().cuda()
    }

    /// Launches a kernel for as many modes at a time as it is for. The first arguments are those of all kernels; the rest may
    /// depend on which launch it is.
    fn launch(&self, name: &'static str, share: Share, rest: impl Fn(usize, Arguments) -> Arguments) -> Result<()> {
        let kernel = self.module.kernel_with(name, share.shared_bytes)?;
        let (grid, block) = ([share.blocks as u32, 1, 1], [32, WARPS as u32]);
        let count = self.layout.shape().nz;
        for first in (0..count).step_by(self.together) {
            let stride = count.next_multiple_of(self.together);
            let modes =
                Modes { values: self.table.start(), first: first as i32, all: count as i32, stride: stride as i32 };
            let arguments = self.fine.kernels().arguments().with(modes).with(share.split as i32);
            let (shared_bytes, arguments) = (share.shared_bytes as u32, rest(first, arguments));
            self.cuda().submit(Launch { kernel, grid, block, shared_bytes, arguments })?;
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

    fn expand_and_smooth(
        &self,
        x: &Vector<C>,
        guess: Guess,
        (relaxation, sweeps): (Relaxation, usize),
        f: &Vector<T>,
        u: &mut Vector<T>,
        scratch: &mut Vector<T>,
        fill: &mut Fill<'_, Vector<T>>,
    ) -> Result<()> {
        // A sweep overwrites the colour it begins with, whatever it holds.
        let needed = [self.layout.local(relaxation.first).other()];
        let colours = if self.fine.overwrites(relaxation) { &needed[..] } else { &Colour::BOTH };
        self.expand_colours(x, guess, colours, u)?;
        (0..sweeps).try_for_each(|_| self.fine.smooth_part(relaxation, Guess::Given, f, u, scratch, &mut *fill))
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

    fn expand(&self, x: &Vector<C>, guess: Guess, u: &mut Vector<T>) -> Result<()> {
        self.expand_colours(x, guess, &Colour::BOTH, u)
    }

    fn project_residual(
        &self,
        f: &Vector<T>,
        u: &Vector<T>,
        g: &mut Vector<C>,
        _: &mut Vector<T>,
        norm: Scalar,
        scalars: &mut Scalars,
    ) -> Result<()> {
        self.project_what(Residual::Any, f, u, g, norm, scalars)
    }

    fn expand_smooth(
        &self,
        x: &Vector<C>,
        guess: Guess,
        (relaxation, sweeps): (Relaxation, usize),
        f: &Vector<T>,
        u: &mut Vector<T>,
        scratch: &mut Vector<T>,
    ) -> Result<()> {
        self.expand_and_smooth(x, guess, (relaxation, sweeps), f, u, scratch, &mut no_neighbours)
    }

    fn expand_smooth_project(
        &self,
        x: &Vector<C>,
        guess: Guess,
        smoother: (Relaxation, usize),
        f: &Vector<T>,
        u: &mut Vector<T>,
        g: &mut Vector<C>,
        scratch: &mut Vector<T>,
        norm: Scalar,
        scalars: &mut Scalars,
    ) -> Result<()> {
        self.expand_smooth_project_part(x, guess, smoother, f, u, g, scratch, norm, scalars, &mut no_neighbours)
    }

    fn needs_scratch(&self) -> bool {
        false
    }
}

impl<T: Real, C: Real> PartModalTransfer<Cuda, T, C> for ModalTransfer<T, C> {
    fn fine_part(&self) -> &dyn PartOperator<Cuda, T> {
        &*self.fine
    }

    fn expand_smooth_project_part(
        &self,
        x: &Vector<C>,
        guess: Guess,
        smoother: (Relaxation, usize),
        f: &Vector<T>,
        u: &mut Vector<T>,
        g: &mut Vector<C>,
        scratch: &mut Vector<T>,
        norm: Scalar,
        scalars: &mut Scalars,
        fill: &mut Fill<'_, Vector<T>>,
    ) -> Result<()> {
        self.expand_and_smooth(x, guess, smoother, f, u, scratch, fill)?;
        fill(u, stale_after(smoother.0))?;
        self.project_what(self.fine.left_by(smoother.0, Guess::Given), f, u, g, norm, scalars)
    }

    fn expand_smooth_norm_part(
        &self,
        x: &Vector<C>,
        guess: Guess,
        smoother: (Relaxation, usize),
        f: &Vector<T>,
        u: &mut Vector<T>,
        scratch: &mut Vector<T>,
        norm: Scalar,
        scalars: &mut Scalars,
        fill: &mut Fill<'_, Vector<T>>,
    ) -> Result<()> {
        self.expand_and_smooth(x, guess, smoother, f, u, scratch, fill)?;
        fill(u, stale_after(smoother.0))?;
        self.fine.kernels().residual_norm(Residual::Any, f, u, norm, scalars)
    }
}

impl SupportsPartModes for Cuda {
    fn part_modes<T: Real, C: Real>(
        &self,
        part: &Arc<SevenPoint<TensorProduct<T>>>,
        modes: &VerticalModes,
    ) -> Result<Arc<dyn PartModalTransfer<Self, T, C>>> {
        Ok(Arc::new(ModalTransfer::<T, C>::new(part, modes)?))
    }

    fn problems_of_modes<C: Real>(
        &self,
        stencil: &stencil::TensorProduct,
        which: Range<usize>,
        options: &MultigridOptions,
    ) -> Result<Hierarchy<Self, stencil::TensorProduct, C>> {
        problems_of_modes(self, stencil, which, options)
    }
}

impl SupportsModes for Cuda {
    fn modal_transfer<T: Real, C: Real>(
        &self,
        operator: &Arc<SevenPoint<TensorProduct<T>>>,
        modes: &VerticalModes,
    ) -> Result<Arc<dyn operator::ModalTransfer<Self, T, C>>> {
        Ok(Arc::new(ModalTransfer::<T, C>::new(operator, modes)?))
    }

    fn levels_of_modes<C: Real>(
        &self,
        levels: Coarsened<Self, stencil::TensorProduct, C>,
        options: &MultigridOptions,
    ) -> Result<Hierarchy<Self, stencil::TensorProduct, C>> {
        let shapes: Vec<Shape> = levels.operators.iter().map(|operator| operator.layout_of().shape()).collect();
        let small = match first_small_level(&shapes, options) {
            Some(first) => {
                SmallLevels::new(&levels.operators[first..], options.coarse_sweeps)?.map(|small| (first, small))
            }
            None => None,
        };
        let hierarchy = levels.hierarchy();
        Ok(match small {
            Some((first, small)) => hierarchy.cut(first, Arc::new(small)),
            None => hierarchy,
        })
    }
}
