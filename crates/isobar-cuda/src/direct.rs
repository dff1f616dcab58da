//! Direct solves of separable boxes: products with eigenvectors by tensor cores, tridiagonal systems a thread each.

use std::sync::{Arc, Mutex};

use isobar_core::direct::{Basis, Separable, Symmetry, Trig};
use isobar_core::error::Result;
use isobar_core::layout::Layout;
use isobar_core::operator::{DirectSolver, SharedDirect};

use crate::compile::Source;
use crate::cuda::Cuda;
use crate::driver::Pointer;
use crate::kernels;
use crate::launch::{Arguments, Launch, refuse_while_recording};
use crate::memory::Buffer;
use crate::module::Module;
use crate::vector::Vector;

/// As in direct.cu: lines and columns of a block's part of a product, numbers that it takes at a time, threads.
const LINES: usize = 64;
const MODES: usize = 64;
const DEPTH: usize = 16;
const THREADS: usize = 256;
const STAGE: usize = 2 * LINES * (DEPTH + 4) + 2 * DEPTH * (MODES + 4);
/// Two stages of a product.
const SHARED_BYTES: usize = 2 * STAGE * size_of::<f64>();
/// Cells between pivots that are kept.
const CHUNK: usize = 16;
/// Threads of a block that solves lines.
const LINES_A_BLOCK: usize = 128;

/// The kernels.
pub fn source() -> Source {
    Source::new("direct", kernels::DIRECT)
}

/// A matrix in the two parts that a product takes, see direct.cu.
struct Parts {
    kernels: [&'static str; 2],
    /// Of both parts.
    depth: usize,
    width: usize,
    values: Vec<f64>,
}

impl Parts {
    /// Numbers in a row, filled up.
    fn pitch(&self) -> usize {
        self.width.next_multiple_of(MODES)
    }

    /// From the entries of both parts, row and column.
    fn new(kernels: [&'static str; 2], depth: usize, width: usize, entry: impl Fn(usize, usize, usize) -> f64) -> Self {
        let (rows, pitch) = (depth.next_multiple_of(DEPTH), width.next_multiple_of(MODES));
        let mut values = vec![0.0; 2 * rows * pitch];
        for part in 0..2 {
            for row in 0..depth {
                for column in 0..width {
                    values[(part * rows + row) * pitch + column] = entry(part, row, column);
                }
            }
        }
        Self { kernels, depth, width, values }
    }
}

/// The eigenvectors of an axis as products take them, even ones before odd ones where there are such, and their eigenvalues in the
/// same order.
struct Products {
    values: Vec<f64>,
    /// From cells to modes and back.
    ways: [Parts; 2],
}

impl Products {
    fn new(basis: &Basis) -> Self {
        let n = basis.len();
        let half = n.div_ceil(2);
        let is_fourier = basis.trig() == Some(Trig::Fourier);
        if !is_fourier && basis.symmetry() != Symmetry::Reversal {
            let values = basis.values().to_vec();
            let vectors = basis.vectors();
            let plain = ["multiply_x", "multiply"];
            let entry = |k: usize, i: usize| if k < n && i < n { vectors[k * n + i] } else { 0.0 };
            let forward = Parts::new(plain, n, half, |part, i, k| entry(part * half + k, i));
            let back = Parts::new(plain, n, half, |part, k, i| entry(k, part * half + i));
            return Self { values, ways: [forward, back] };
        }
        // The numbers of even vectors and of odd ones, and entries of the first half of their cells.
        let number = |part: usize, k: usize| match (is_fourier, part) {
            (false, _) => 2 * k + part,
            (true, 0) => (2 * k).saturating_sub(1),
            (true, _) if 2 * (k + 1) == n => n - 1,
            (true, _) => 2 * (k + 1),
        };
        let count = [half, n - half];
        let values = [0, 1].iter().flat_map(|&part| (0..count[part]).map(move |k| number(part, k)));
        let values = values.map(|k| basis.values()[k]).collect();
        let entry = |part: usize, k: usize, i: usize| match is_fourier {
            _ if k >= count[part] => 0.0,
            false => basis.entry(number(part, k), i),
            // Around the middle of the first cell, so that the same reflection serves.
            true => basis.scale() * waves(n, part, k, i),
        };
        let is_middle = |i: usize| 2 * i + 1 == n;
        let forward = Parts::new(["to_modes_x", "to_modes"], half, half, |part, i, k| {
            // The cell in the middle is added to itself.
            if is_middle(i) { 0.5 * entry(part, k, i) } else { entry(part, k, i) }
        });
        let back = Parts::new(["from_modes_x", "from_modes"], half, half, |part, k, i| entry(part, k, i));
        Self { values, ways: [forward, back] }
    }
}

/// Periodic waves of length 1 that are even or odd about the middle of n cells.
fn waves(n: usize, part: usize, k: usize, i: usize) -> f64 {
    let frequency = k + part;
    let is_single = frequency == 0 || 2 * frequency == n;
    let length = (if is_single { 1.0 } else { 2.0 } / n as f64).sqrt();
    let angle = std::f64::consts::PI * (frequency * (2 * i + 1) % (2 * n)) as f64 / n as f64;
    length * if part == 0 { angle.cos() } else { angle.sin() }
}

/// An axis on the card.
struct Axis {
    /// Its matrices, to modes and back.
    matrices: [Buffer; 2],
    values: Buffer,
    ways: [Way; 2],
}

/// What a product is launched with.
#[derive(Clone, Copy)]
struct Way {
    kernel: &'static str,
    depth: usize,
    width: usize,
    pitch: usize,
}

/// A box on a card.
struct Direct {
    backend: Cuda,
    module: Arc<Module>,
    layout: Layout,
    factors: Separable,
    bases: [Basis; 2],
    axes: [Axis; 2],
    /// T, D_a and D_b.
    lines: Buffer,
    /// Pivots on the way.
    kept: Buffer,
    /// Arrays in C order.
    work: [Buffer; 2],
}

/// The solver of a separable matrix.
pub(crate) fn direct(backend: &Cuda, layout: &Layout, factors: &Separable) -> Result<SharedDirect<Cuda>> {
    Ok(Arc::new(Mutex::new(Direct::new(backend, layout, factors)?)))
}

/// σ, t, D_a and D_b, one after another.
fn table(factors: &Separable) -> Vec<f64> {
    let lines = &factors.lines;
    [&lines.shift, &lines.couplings, &lines.weights[0], &lines.weights[1]].into_iter().flatten().copied().collect()
}

impl Direct {
    fn new(backend: &Cuda, layout: &Layout, factors: &Separable) -> Result<Self> {
        refuse_while_recording("allocating")?;
        let context = backend.context();
        let [module] = backend.prepare([source()])?;
        let bases = factors.bases()?;
        let room = |count: usize, what: &str| Buffer::new(context, count * size_of::<f64>(), what);
        let place = |which: usize, products: &Products| -> Result<Axis> {
            let is_along_x = factors.across[which] == 0;
            let ways = [0, 1].map(|way| {
                let parts = &products.ways[way];
                let kernel = parts.kernels[usize::from(!is_along_x)];
                Way { kernel, depth: parts.depth, width: parts.width, pitch: parts.pitch() }
            });
            for way in ways {
                module.kernel_with(way.kernel, SHARED_BYTES)?;
            }
            let [forward, back] = &products.ways;
            let send = |parts: &Parts| Buffer::from_slice(context, &parts.values, "eigenvectors");
            let matrices = [send(forward)?, send(back)?];
            Ok(Axis { matrices, values: Buffer::from_slice(context, &products.values, "eigenvalues")?, ways })
        };
        let [a, b] = bases.each_ref().map(Products::new);
        let axes = [place(0, &a)?, place(1, &b)?];
        let (cells, n) = (factors.shape.cells(), factors.lines.len());
        let periodic = if factors.lines.is_periodic() { 2 } else { 1 };
        let this = Self {
            lines: Buffer::from_slice(context, &table(factors), "tridiagonal systems")?,
            kept: room(periodic * n.div_ceil(CHUNK) * (cells / n), "pivots of tridiagonal systems")?,
            work: [room(cells, "the box in its own order")?, room(cells, "the box in its own order")?],
            backend: backend.clone(),
            module,
            layout: *layout,
            factors: factors.clone(),
            bases,
            axes,
        };
        this.module.kernel(this.line_kernel())?;
        Ok(this)
    }

    fn line_kernel(&self) -> &'static str {
        if self.factors.lines.is_periodic() { "solve_periodic_lines" } else { "solve_lines" }
    }

    /// Multiplies by the eigenvectors of an axis or back.
    fn multiply(&self, which: usize, way: usize, from: Pointer, to: Pointer) -> Result<()> {
        let (axis, cells) = (self.factors.across[which], self.factors.shape.cells());
        let n = self.factors.extent(axis);
        let lines = cells / n;
        let Way { kernel, depth, width, pitch } = self.axes[which].ways[way];
        let arguments = Arguments::new()
            .with(n as i32)
            .with(depth as i32)
            .with(width as i32)
            .with(pitch as i32)
            .with(self.factors.stride(axis) as i32)
            .with(lines as i32)
            .with(self.axes[which].matrices[way].start())
            .with(from)
            .with(to);
        let blocks = width.div_ceil(MODES) * lines.div_ceil(LINES);
        self.backend.submit(Launch {
            kernel: self.module.kernel_with(kernel, SHARED_BYTES)?,
            grid: [blocks as u32, 1, 1],
            block: [THREADS as u32, 1],
            shared_bytes: SHARED_BYTES as u32,
            arguments,
        })
    }

    fn solve_lines(&self, x: Pointer) -> Result<()> {
        let Separable { shape, line, across, .. } = &self.factors;
        let n = self.factors.extent(*line);
        let lines = shape.cells() / n;
        let arguments = Arguments::new()
            .with(n as i32)
            .with(self.factors.stride(*line) as i32)
            .with(lines as i32)
            .with(self.factors.extent(across[0]) as i32)
            .with(self.lines.start())
            .with(self.axes[0].values.start())
            .with(self.axes[1].values.start())
            .with(self.kept.start())
            .with(x);
        let kernel = self.module.kernel(self.line_kernel())?;
        self.backend.launch(kernel, [lines.div_ceil(LINES_A_BLOCK), 1, 1], [LINES_A_BLOCK, 1], arguments)
    }

    /// What is in the first of the working arrays becomes the solution, there too.
    fn solve_work(&self) -> Result<()> {
        let [first, second] = self.work.each_ref().map(Buffer::start);
        self.multiply(0, 0, first, second)?;
        self.multiply(1, 0, second, first)?;
        self.solve_lines(first)?;
        self.multiply(1, 1, first, second)?;
        self.multiply(0, 1, second, first)
    }
}

impl DirectSolver<Cuda> for Direct {
    fn solve(&mut self, b: &Vector<f64>, u: &mut Vector<f64>) -> Result<()> {
        let work = self.work[0].start();
        self.backend.to_c_order(&self.layout, b.pointer(), work)?;
        self.solve_work()?;
        self.backend.from_c_order(&self.layout, work, u.pointer())
    }

    fn solve_in_place(&mut self, x: &mut Vector<f64>) -> Result<()> {
        let work = self.work[0].start();
        self.backend.to_c_order(&self.layout, x.pointer(), work)?;
        self.solve_work()?;
        self.backend.from_c_order(&self.layout, work, x.pointer())
    }

    fn update(&mut self, factors: &Separable) -> Result<()> {
        refuse_while_recording("new coefficients")?;
        let keeps = |which: usize| factors.factors[which] == self.factors.factors[which];
        let is_same_kind = factors.line == self.factors.line
            && factors.lines.is_periodic() == self.factors.lines.is_periodic()
            && [keeps(0), keeps(1)] == [true; 2];
        if is_same_kind {
            // Only what the tridiagonal systems are made of: a time step, a reaction, layers.
            factors.check(&self.bases)?;
            self.lines.write(&table(factors))?;
            self.factors = factors.clone();
            return Ok(());
        }
        *self = Self::new(&self.backend, &self.layout, factors)?;
        Ok(())
    }

    fn describe(&self) -> String {
        self.factors.describe(&self.bases, |_| "products with its eigenvectors")
    }

    fn bytes(&self) -> usize {
        let Self { axes, lines, kept, work, .. } = self;
        let axes = axes.iter().flat_map(|axis| axis.matrices.iter().chain([&axis.values]));
        axes.chain([lines, kept]).chain(work).map(Buffer::bytes).sum()
    }
}
