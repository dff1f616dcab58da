//! Products with the eigenvectors of one axis: matrix products on tensor cores, or fast transforms.

use std::sync::Arc;

use isobar_core::direct::{AxisMatrix, Basis, Separable, Symmetry, Trig, has_small_factors, trig_of};
use isobar_core::error::Result;

use crate::{Arguments, Buffer, Cuda, Launch, Module, Pointer, Source, kernels};

/// Lines and columns of a block's part of a product, and numbers per step, as in direct.cu.
const LINES: usize = 64;
const MODES: usize = 64;
const DEPTH: usize = 16;
const STAGE: usize = 2 * LINES * (DEPTH + 4) + 2 * DEPTH * (MODES + 4);
/// Two pipeline stages of a product.
const PRODUCT_BYTES: usize = 2 * STAGE * size_of::<f64>();
/// Threads per block of products.
const THREADS: usize = 256;
/// Lengths of axes that are transformed: for shorter axes products are faster, longer ones do not fit (`docs/notes/direct.md`).
const FAST: std::ops::RangeInclusive<usize> = 128..=8192;
/// The longest axis for which matrices of products are worth while: they have n² numbers.
const LONGEST_PRODUCTS: usize = 4096;

/// Returns the pairs of lines per block: fewer for long lines, and as many as fill a memory sector where these fit.
fn pairs(n: usize) -> usize {
    match n {
        ..256 => 8,
        256..=512 => 4,
        513..=2048 => 2,
        _ => 1,
    }
}

/// Returns the numbers of a line that a thread has, as in fourier.cu.
fn numbers_a_thread(n: usize) -> usize {
    if n * pairs(n) > 4096 { 16 } else { 8 }
}

/// Returns whether an axis is transformed, or its products are worth while.
pub(super) fn pays(cuda: &Cuda, factor: &AxisMatrix) -> bool {
    factor.len() <= LONGEST_PRODUCTS || kind_of(cuda, factor.len(), trig_of(factor)).is_some()
}

/// Returns the shared memory of a block: a complex number per cell of a pair of lines, with gaps, as in fourier.cu.
fn transform_bytes(n: usize) -> usize {
    pairs(n) * (n + n / 8) * 16
}

/// Returns the source of transforms of n cells, along x or across it, forwards or backwards.
pub fn source(n: usize, is_along_x: bool, is_back: bool) -> Source {
    let flag = |is_set: bool| u8::from(is_set);
    let source = Source::new("fourier", kernels::FOURIER).define("N", n).define("PAIRS", pairs(n));
    source.define("ALONG_X", flag(is_along_x)).define("BACK", flag(is_back))
}

/// Returns the number of the transform of an axis of n cells if it is fast on a GPU.
fn kind_of(cuda: &Cuda, n: usize, trig: Option<Trig>) -> Option<i32> {
    let kind = match trig? {
        Trig::Cosine => 0,
        Trig::Sine => 1,
        Trig::Fourier => 2,
        _ => return None,
    };
    is_transformed(cuda, n).then_some(kind)
}

/// A matrix in the two parts of a product, see direct.cu.
struct Parts {
    kernels: [&'static str; 2],
    /// Depth of both parts.
    depth: usize,
    width: usize,
    values: Vec<f64>,
}

impl Parts {
    /// Returns the padded length of a row.
    fn pitch(&self) -> usize {
        self.width.next_multiple_of(MODES)
    }

    /// Makes a matrix from the entries of both parts by row and column.
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

/// The eigenvectors of an axis as matrices of products, even ones before odd ones if the axis is symmetric, with their eigenvalues in the
/// same order.
struct Products {
    values: Vec<f64>,
    /// The matrices from cells to modes and back.
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
        // The numbers of even and odd vectors, and entries of the first half of their cells.
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
            // The points are measured from the centre of the first cell, so that the same reflection works.
            true => basis.scale() * waves(n, part, k, i),
        };
        let is_middle = |i: usize| 2 * i + 1 == n;
        let forward = Parts::new(["to_modes_x", "to_modes"], half, half, |part, i, k| {
            // The middle cell is added to itself.
            if is_middle(i) { 0.5 * entry(part, k, i) } else { entry(part, k, i) }
        });
        let back = Parts::new(["from_modes_x", "from_modes"], half, half, entry);
        Self { values, ways: [forward, back] }
    }
}

impl Products {
    /// Returns Sᵀ 1.
    fn of_constant(&self) -> Vec<f64> {
        // The rows of the backward matrix are vectors: half of the even ones, with the middle separate.
        let [_, back] = &self.ways;
        let (n, pitch, rows) = (self.values.len(), back.pitch(), back.depth.next_multiple_of(DEPTH));
        let row = |part: usize, k: usize| &back.values[(part * rows + k) * pitch..][..back.width];
        let sums: Vec<f64> = if back.depth == n {
            (0..n).map(|k| row(0, k).iter().chain(row(1, k)).sum()).collect()
        } else {
            let of_even = |k: usize| {
                let half = row(0, k);
                2.0 * half.iter().sum::<f64>() - if n.is_multiple_of(2) { 0.0 } else { half[back.width - 1] }
            };
            (0..n).map(|k| if k < back.depth { of_even(k) } else { 0.0 }).collect()
        };
        let most = sums.iter().fold(0f64, |most, sum| most.max(sum.abs()));
        sums.into_iter().map(|sum| if sum.abs() < 1e-13 * most { 0.0 } else { sum }).collect()
    }
}

/// Returns periodic waves of length 1 that are even or odd about the centre of n cells.
fn waves(n: usize, part: usize, k: usize, i: usize) -> f64 {
    let frequency = k + part;
    let is_single = frequency == 0 || 2 * frequency == n;
    let length = (if is_single { 1.0 } else { 2.0 } / n as f64).sqrt();
    let angle = std::f64::consts::PI * (frequency * (2 * i + 1) % (2 * n)) as f64 / n as f64;
    length * if part == 0 { angle.cos() } else { angle.sin() }
}

/// Launch parameters of a product.
#[derive(Clone, Copy)]
struct Way {
    kernel: &'static str,
    depth: usize,
    width: usize,
    pitch: usize,
}

/// The method of multiplication for an axis.
enum By {
    /// Matrices, to modes and back.
    Products { module: Arc<Module>, ways: [(Buffer, Way); 2] },
    /// Kernels to modes and back, roots of unity, the number of the transform, the scale of vectors.
    Transforms { modules: [Arc<Module>; 2], roots: Buffer, kind: i32, scale: f64 },
}

/// An axis with its eigenvectors on the GPU.
pub(super) struct Axis {
    by: By,
    /// The eigenvalues of the axis, in the order of the modes.
    pub(super) values: Buffer,
    /// Sᵀ 1
    pub(super) of_constant: Buffer,
    /// The first entry of Sᵀ 1.
    pub(super) first_of_constant: f64,
    n: usize,
    inner: usize,
    lines: usize,
}

/// The name of every transform kernel.
const TRANSFORM: &str = "transform";

/// Returns whether a GPU has room for transforms of n cells, and n has only factors that they support.
fn is_transformed(cuda: &Cuda, n: usize) -> bool {
    FAST.contains(&n) && has_small_factors(n) && transform_bytes(n) <= cuda.context().shared_memory
}

/// Returns exp(−2πi k/n), then exp(−πi k/2n), as real and imaginary parts.
fn roots(n: usize) -> Vec<f64> {
    let root = |k: usize, of: usize| {
        let angle = -2.0 * std::f64::consts::PI * k as f64 / of as f64;
        [angle.cos(), angle.sin()]
    };
    (0..n).map(|k| root(k, n)).chain((0..n).map(|k| root(k, 4 * n))).flatten().collect()
}

impl Axis {
    /// Copies an axis to the GPU; `products` has the kernels of products.
    pub(super) fn new(
        cuda: &Cuda,
        products: &Arc<Module>,
        factors: &Separable,
        which: usize,
        basis: &Basis,
    ) -> Result<Self> {
        let context = cuda.context();
        let (axis, n) = (factors.across[which], basis.len());
        let send = |values: &[f64], what: &str| Buffer::from_slice(context, values, what);
        let is_along_x = axis == 0;
        let (by, values, of_constant) = match kind_of(cuda, n, basis.trig()) {
            Some(kind) => {
                let modules = [false, true].map(|is_back| cuda.module(source(n, is_along_x, is_back)));
                for module in &modules {
                    module.kernel_with(TRANSFORM, transform_bytes(n))?;
                }
                let by =
                    By::Transforms { modules, roots: send(&roots(n), "roots of one")?, kind, scale: basis.scale() };
                // The first wave is the constant, except for sines, which no singular matrix has.
                let of_constant =
                    (0..n).map(|k| if k == 0 { basis.scale() * (n as f64).sqrt() } else { 0.0 }).collect();
                (by, basis.values().to_vec(), of_constant)
            }
            None => {
                let made = Products::new(basis);
                let of_constant = made.of_constant();
                let place = |way: usize| {
                    let parts = &made.ways[way];
                    let kernel = parts.kernels[usize::from(!is_along_x)];
                    products.kernel_with(kernel, PRODUCT_BYTES)?;
                    let way = Way { kernel, depth: parts.depth, width: parts.width, pitch: parts.pitch() };
                    Ok::<_, isobar_core::Error>((send(&parts.values, "eigenvectors")?, way))
                };
                let ways = [place(0)?, place(1)?];
                (By::Products { module: Arc::clone(products), ways }, made.values, of_constant)
            }
        };
        Ok(Self {
            by,
            values: send(&values, "eigenvalues")?,
            of_constant: send(&of_constant, "transforms")?,
            first_of_constant: of_constant[0],
            n,
            inner: factors.stride(axis),
            lines: factors.shape.cells() / n,
        })
    }

    /// Multiplies all lines by the eigenvectors or their transpose, in ascending or descending order of lines.
    pub(super) fn multiply(
        &self,
        cuda: &Cuda,
        is_back: bool,
        is_descending: bool,
        [from, to]: [Pointer; 2],
    ) -> Result<()> {
        let Self { n, inner, lines, .. } = self;
        let launch = |(module, kernel): (&Module, &'static str),
                      [blocks, threads]: [usize; 2],
                      shared_bytes: usize,
                      arguments: Arguments| {
            cuda.submit(Launch {
                kernel: module.kernel_with(kernel, shared_bytes)?,
                grid: [blocks as u32, 1, 1],
                block: [threads as u32, 1],
                shared_bytes: shared_bytes as u32,
                arguments,
            })
        };
        match &self.by {
            By::Products { module, ways } => {
                let (matrix, Way { kernel, depth, width, pitch }) = &ways[usize::from(is_back)];
                let arguments = Arguments::new()
                    .with(*n as i32)
                    .with(*depth as i32)
                    .with(*width as i32)
                    .with(*pitch as i32)
                    .with(*inner as i32)
                    .with(*lines as i32)
                    .with(i32::from(is_descending))
                    .with(matrix.start())
                    .with(from)
                    .with(to);
                let blocks = width.div_ceil(MODES) * lines.div_ceil(LINES);
                launch((module, kernel), [blocks, THREADS], PRODUCT_BYTES, arguments)
            }
            By::Transforms { modules, roots, kind, scale } => {
                let width = pairs(*n);
                let arguments = Arguments::new()
                    .with(*inner as i32)
                    .with(*lines as i32)
                    .with(*kind)
                    .with(i32::from(is_descending))
                    .with(*scale)
                    .with(roots.start())
                    .with(from)
                    .with(to);
                let threads = (n * width).div_ceil(numbers_a_thread(*n)).next_multiple_of(32);
                let kernel = (&*modules[usize::from(is_back)], TRANSFORM);
                launch(kernel, [lines.div_ceil(2 * width), threads], transform_bytes(*n), arguments)
            }
        }
    }

    /// Returns its bytes on the GPU.
    pub(super) fn bytes(&self) -> usize {
        let by = match &self.by {
            By::Products { ways, .. } => ways.iter().map(|(matrix, _)| matrix.bytes()).sum(),
            By::Transforms { roots, .. } => roots.bytes(),
        };
        by + self.values.bytes() + self.of_constant.bytes()
    }
}
