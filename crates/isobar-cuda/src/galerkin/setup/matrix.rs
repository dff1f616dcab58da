//! A matrix on the GPU from which levels are made.

use std::ops::Range;
use std::sync::Arc;

use isobar_core::prelude::{Axis, Error, Layout, Precision, Real, Result, Shape};
use isobar_core::stencil::galerkin::couplings::{UPPER, strong};
use isobar_core::stencil::galerkin::{Grid, Window};
use isobar_core::stencil::{MOST_CONTRAST_SINGLE, MOST_SINGLE};
use isobar_dist::communicator::agree;

use isobar_dist::{PartBackend, Ranks, Slabs};

use super::rows::combined;
use super::sources::{Number, expect_levels, measures, source};
use super::workspace::{Piece, Workspace};
use crate::galerkin::sources::bits;
use crate::launch::refuse_while_recording;
use crate::seven_point::Kernels;
use crate::seven_point::passes::Passes;
use crate::{Arguments, Buffer, Cuda, Kernel, Pointer, argument};

/// Cells of a tile in x and y, as in finest.cu.
const TILE: usize = 32;
/// Threads of a block with one cell per thread.
pub(super) const BLOCK: usize = 256;
/// Largest number of cells that kernels can index.
const MOST_CELLS: usize = 1 << 31;
/// Largest number of blocks of a launch in z.
const MOST_LAYERS: usize = 1 << 15;

argument! {
    /// `Divisor` of setup.cuh.
    pub(super) struct Divisor {
        factor: u32,
        shift: u32,
    }
}

impl Divisor {
    /// Returns the factor f and the shift s with which ⌊n/d⌋ = ⌊n f / 2ˢ⌋ for all n < 2³¹, for 1 ≤ d ≤ 2³¹.
    ///
    /// With 2ˡ⁻¹ < d ≤ 2ˡ and s = 31 + l, f = ⌈2ˢ/d⌉ is (2ˢ + e)/d for some e < d. Then n f / 2ˢ = n/d + (n/2ˢ)(e/d) exceeds n/d by less than
    /// 2⁻ˡ ≤ 1/d, too little to reach the next integer. And f < 2³², since 2ˢ/d = 2³² 2ˡ⁻¹/d ≤ 2³² (1 − 1/d) ≤ 2³² − 2 if d > 1.
    pub(super) fn new(d: usize) -> Self {
        let d = d as u64;
        let shift = 31 + d.next_power_of_two().trailing_zeros();
        Self { factor: (1u64 << shift).div_ceil(d) as u32, shift }
    }
}

argument! {
    /// `OwnRows` of setup.cuh.
    pub(super) struct OwnRows {
        first: i32,
        end: i32,
    }
}

argument! {
    /// `Part` of finest.cu.
    struct Part {
        first: i32,
        rows: i32,
        stored: i32,
        start: i32,
        whole: i32,
        periodic: i32,
    }
}

impl OwnRows {
    pub(super) fn of(matrix: &Matrix) -> Self {
        let own = matrix.own_rows();
        Self { first: own.start as i32, end: own.end as i32 }
    }
}

/// Returns the row of a window that is the first of a period, 0 if that is none but the first row.
fn seam(window: &Window) -> usize {
    (0..window.rows()).find(|&row| window.there(row) == 0).unwrap_or(0)
}

argument! {
    /// `Matrix` of setup.cuh.
    pub(super) struct Operands {
        fields: Pointer,
        cells: i64,
        extents: [i32; 3],
        present: u32,
        periodic: u32,
        seam: i32,
        by: [Divisor; 2],
    }
}

/// Buffers for measures of a matrix.
#[derive(Debug)]
struct Measures {
    /// Results, the block counter, a flag for collapsed cells of a product, and six partial sums per block.
    buffer: Buffer,
}

/// Returns how many blocks of [`BLOCK`] threads run at once.
fn most_blocks(cuda: &Cuda) -> usize {
    8 * cuda.context().multiprocessors
}

impl Measures {
    const RESULTS: usize = 10;
    const SUMS: usize = 6;

    fn new(cuda: &Cuda) -> Result<Self> {
        let bytes = 8 * (Self::RESULTS + 2 + Self::SUMS * most_blocks(cuda));
        Ok(Self { buffer: Buffer::zeros(cuda.context(), bytes, "partial sums")? })
    }
}

/// The sum of the couplings of each direction, and their number.
type Means = [f64; 2 * 3];

/// The couplings and row sums of a level on the GPU.
#[derive(Debug)]
pub struct Matrix {
    pub(super) cuda: Cuda,
    pub(super) number: Number,
    pub(super) workspace: Arc<Workspace>,
    measures: Arc<Measures>,
    /// The cells: of a window, if several GPUs make the matrix.
    pub(super) grid: Grid,
    /// The rows of this GPU and those around them; nothing if it has all rows.
    pub(super) window: Option<Arc<Window>>,
    /// The offsets that are stored.
    pub(crate) present: [bool; UPPER],
    /// Whether a coupling is much weaker than the next one in its direction; known on the finest level only.
    pub(super) has_contrast: bool,
    /// The result of `mean_couplings` of measures.cu; on the finest level only.
    means: Option<Means>,
    fields: Piece,
}

impl Operands {
    /// Returns the address of the first field.
    pub(super) fn fields(&self) -> Pointer {
        self.fields
    }
}

fn count(present: &[bool; UPPER]) -> usize {
    present.iter().filter(|present| **present).count()
}

fn in_tiles(cuda: &Cuda, kernel: Kernel, Shape { nx, ny, nz }: Shape, arguments: Arguments) -> Result<()> {
    let grid = [nx.div_ceil(TILE), ny.div_ceil(TILE), nz.min(MOST_LAYERS)];
    cuda.launch(kernel, grid, [TILE, 8], arguments)
}

argument! {
    /// Some planes along y; plane `first` is stored in row 0. In a periodic direction, numbers continue beyond the ends: −1 is the last plane.
    pub(super) struct Planes {
        first: i32,
        begin: i32,
        end: i32,
    }
}

impl Planes {
    /// Returns the planes of a subdomain's rows from the first of `layout`, or in a window from `own`, with `before` more before and `after` more behind:
    /// periodically, or as far as they exist among `count`.
    pub(super) fn new(
        (layout, own): (&Layout, Option<usize>),
        rows: usize,
        [before, after]: [usize; 2],
        count: usize,
    ) -> Self {
        let first = own.unwrap_or_else(|| layout.first_row());
        let [first, rows, before, after] = [first, rows, before, after].map(|n| n as i32);
        let [mut begin, mut end] = [first - before, first + rows + after];
        if own.is_some() || !layout.divides_ring() {
            (begin, end) = (begin.max(0), end.min(count as i32));
        }
        Self { first, begin, end }
    }

    /// Returns the number of planes.
    pub(super) fn rows(self) -> usize {
        (self.end - self.begin).max(0) as usize
    }

    /// Returns the number of planes before the one in row 0.
    pub(super) fn before(self) -> usize {
        (self.first - self.begin) as usize
    }
}

/// Copies planes of contiguous fields of a grid to arrays in precision T: to vectors with a pitch, or
/// with pitch 0 to arrays in the order (i, k, j).
pub(super) fn store<T: Real>(
    cuda: &Cuda,
    (number, fields): (Number, Pointer),
    (shape, planes): (Shape, Planes),
    pitch: usize,
    to: &[Pointer],
) -> Result<()> {
    // `Targets` of finest.cu.
    let mut targets: [Pointer; UPPER + 1] = [0; UPPER + 1];
    targets[..to.len()].copy_from_slice(to);
    let Shape { nx, ny, nz } = shape;
    let numbers = [nx, ny, nz, to.len(), pitch];
    let arguments = numbers.into_iter().fold(Arguments::new().with(fields), |all, n| all.with(n as i32));
    let module = cuda.module(source::<T>(number));
    in_tiles(cuda, module.kernel("store")?, shape, arguments.with(planes).with(targets))
}

impl Matrix {
    /// Computes the matrix of an operator on a grid from its coefficients, and allocates the memory for everything computed from it: of several
    /// ranks' operators a window each, or the whole matrix, if they have too few rows.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`]; [`Error::Unsupported`] for more than 2³¹ cells.
    pub(crate) fn of<T: Real>(operator: &Passes<T>, grid: Grid) -> Result<Self> {
        refuse_while_recording("making levels of multigrid")?;
        if T::PRECISION == Precision::F32 {
            let mut single = Self::made(operator, grid, Number::Single)?;
            if single.look()? {
                expect_levels::<T>(operator.cuda(), Number::Single, &grid, single.has_contrast);
                return Ok(single);
            }
        }
        let mut double = Self::made(operator, grid, Number::Double)?;
        double.look()?;
        expect_levels::<T>(operator.cuda(), Number::Double, &grid, double.has_contrast);
        Ok(double)
    }

    /// Computes the matrix in the given number type.
    fn made<T: Real>(operator: &Passes<T>, whole: Grid, number: Number) -> Result<Self> {
        let (cuda, layout, [_, is_periodic, _]) = (operator.cuda(), operator.layout(), whole.periodic);
        let ranks = cuda.ranks().filter(|_| layout.is_part());
        let slabs = ranks.map(|ranks| ranks.pairs_of_rows(whole.shape)).transpose()?;
        let ranks = ranks.zip(slabs.as_ref().map(Slabs::starts));
        let window = ranks.and_then(|(ranks, starts)| Window::new(starts.to_vec(), ranks.rank(), is_periodic));
        // The rows of the matrix, those of its workspace, and which of the former is the operator's first.
        let rows = layout.shape().ny;
        let (made, room, first) = match (&window, ranks) {
            (Some(window), _) => (window.rows(), window.rows(), window.own().start),
            (None, Some(_)) => (rows, whole.shape.ny, 0),
            (None, None) => (rows, rows, 0),
        };
        let of_rows = |ny: usize| Shape { ny, ..whole.shape };
        let [x, _, z] = whole.periodic;
        let grid = Grid { shape: of_rows(made), periodic: [x, is_periodic && ranks.is_none(), z] };
        let part = Part {
            first: first as i32,
            rows: rows as i32,
            stored: (rows + layout.halo()[1]) as i32,
            start: layout.first_row() as i32,
            whole: whole.shape.ny as i32,
            periodic: i32::from(is_periodic),
        };
        let make = || match of_rows(room) {
            shape if shape.cells() <= MOST_CELLS => Self::filled(operator, grid, part, number, shape.cells()),
            shape => Err(Error::Unsupported(format!(
                "multigrid for diffusion on {shape} cells: at most 2³¹ cells are supported per GPU"
            ))),
        };
        let Some((ranks, starts)) = ranks else { return make() };
        let this = agree(&**ranks.world(), make())?;
        match window {
            Some(window) => this.renewed(ranks, window, first),
            None => this.collected(ranks, starts, first, is_periodic),
        }
    }

    /// Computes the rows of an operator, in a workspace for levels of some cells.
    fn filled<T: Real>(operator: &Passes<T>, grid: Grid, part: Part, number: Number, cells: usize) -> Result<Self> {
        let (cuda, present) = (operator.cuda(), grid.seven_points());
        // The matrix, then either the search for aggregates, or weights and the first product.
        let vectors = (count(&present) + 1) as f64 + if number == Number::Single { 9.7 } else { 5.6 };
        let bytes = (number.bytes() as f64 * vectors * cells as f64) as usize + (64 << 10);
        let workspace = Workspace::new(cuda.context(), bytes)?;
        let measures = Arc::new(Measures::new(cuda)?);
        let this = Self::new(cuda, number, workspace, measures, grid, present)?;
        let module = cuda.module(source::<T>(number));
        let arguments = Arguments::new().with(*operator.operands()).with(operator.kind().form()).with(part);
        in_tiles(cuda, module.kernel("couplings_of_cells")?, grid.shape, arguments.with(this.operands()))?;
        Ok(this)
    }

    fn new(
        cuda: &Cuda,
        number: Number,
        workspace: Arc<Workspace>,
        measures: Arc<Measures>,
        grid: Grid,
        present: [bool; UPPER],
    ) -> Result<Self> {
        let fields = workspace.take(number.bytes() * (count(&present) + 1) * grid.shape.cells())?;
        Ok(Self {
            cuda: cuda.clone(),
            number,
            workspace,
            measures,
            grid,
            window: None,
            present,
            has_contrast: false,
            means: None,
            fields,
        })
    }

    /// Allocates a matrix that is computed from this one.
    pub(super) fn next(&self, grid: Grid, present: [bool; UPPER]) -> Result<Self> {
        Self::new(&self.cuda, self.number, Arc::clone(&self.workspace), Arc::clone(&self.measures), grid, present)
    }

    pub(super) fn cells(&self) -> usize {
        self.grid.shape.cells()
    }

    /// Returns the number of cells in a row.
    pub(super) fn columns(&self) -> usize {
        self.grid.shape.nx * self.grid.shape.nz
    }

    /// Returns the rows of this GPU.
    pub(super) fn own_rows(&self) -> Range<usize> {
        self.window.as_ref().map_or(0..self.grid.shape.ny, |window| window.own())
    }

    /// Returns the number of fields: couplings in each stored direction, and row sums.
    pub(super) fn fields(&self) -> usize {
        count(&self.present) + 1
    }

    /// Returns the whole grid.
    pub(crate) fn whole_grid(&self) -> Grid {
        self.window.as_ref().map_or(self.grid, |window| window.whole_grid(self.grid))
    }

    /// Returns the ranks that make this matrix together, and its window.
    pub(super) fn divided(&self) -> Option<(&Arc<Ranks>, &Arc<Window>)> {
        self.cuda.ranks().zip(self.window.as_ref())
    }

    pub(super) fn operands(&self) -> Operands {
        let [nx, ny, _] = self.grid.extents();
        Operands {
            fields: self.fields.start(),
            cells: self.cells() as i64,
            extents: self.grid.extents().map(|n| n as i32),
            present: bits(self.present),
            periodic: bits(self.grid.periodic),
            seam: self.window.as_ref().map_or(0, |window| seam(window)) as i32,
            by: [nx, ny].map(Divisor::new),
        }
    }

    /// Launches a kernel with one element per thread.
    pub(super) fn launch(&self, kernel: Kernel, len: usize, block: usize, arguments: Arguments) -> Result<()> {
        self.cuda.launch(kernel, [len.div_ceil(block), 1, 1], [block, 1], arguments)
    }

    /// Launches a kernel whose threads loop over elements, `part` at a time, in at most as many blocks as run at once: blocks that
    /// return at once take time too.
    pub(super) fn launch_loop(&self, kernel: Kernel, len: usize, part: usize, arguments: Arguments) -> Result<()> {
        let blocks = len.div_ceil(BLOCK * part).min(most_blocks(&self.cuda));
        self.cuda.launch(kernel, [blocks, 1, 1], [BLOCK, 1], arguments)
    }

    /// Copies couplings, then row sums, to vectors of a layout with some rows and the halo row before them.
    pub(crate) fn store_in<T: Real>(&self, layout: &Layout, to: &[Pointer]) -> Result<()> {
        let (shape, [before, _]) = (self.grid.shape, layout.halo());
        let own = self.window.as_ref().map(|window| window.own().start);
        let planes = Planes::new((layout, own), layout.shape().ny, [before, 0], shape.ny);
        store::<T>(&self.cuda, (self.number, self.fields.start()), (shape, planes), layout.pitch(), to)
    }

    /// Returns the first results of a kernel that reads all cells: sums, as many as there are [`Means`], and the largest of others.
    fn measure<const N: usize>(&self, name: &'static str) -> Result<[f64; N]> {
        let buffer = &self.measures.buffer;
        let kernel = self.cuda.module(measures(self.number)).kernel(name)?;
        let at = |n: usize| buffer.start() + 8 * n as Pointer;
        buffer.clear(0, 8 * Measures::RESULTS)?;
        let (partial, counter) = (at(Measures::RESULTS + 2), at(Measures::RESULTS));
        let arguments =
            Arguments::new().with(self.operands()).with(OwnRows::of(self)).with(partial).with(counter).with(at(0));
        self.launch_loop(kernel, self.cells(), 1, arguments)?;
        let mut results = [0.0; N];
        buffer.read(&mut results)?;
        self.divided().map_or(Ok(results), |(ranks, _)| combined(ranks, results, Measures::SUMS))
    }

    pub(super) fn strong_axes(&self, halves_lines: bool) -> Result<Vec<Axis>> {
        let sums = self.means.map_or_else(|| self.measure("mean_couplings"), Ok)?;
        Ok(strong(&self.whole_grid(), sums, halves_lines))
    }

    /// Returns the address of the flag that products set if a cell may have collapsed.
    pub(super) fn any_collapsed(&self) -> Pointer {
        self.measures.buffer.start() + 8 * (Measures::RESULTS as Pointer + 1)
    }

    /// Determines the contrast and the means of couplings. Returns whether all cells are open and couplings vary so little
    /// that levels can be made in single precision.
    fn look(&mut self) -> Result<bool> {
        let [means @ .., found, most, inverse]: [f64; 9] = self.measure("look_at_finest")?;
        self.means = Some(means);
        self.has_contrast = found != 0.0;
        Ok(most * inverse <= MOST_CONTRAST_SINGLE && (1.0 / MOST_SINGLE..=MOST_SINGLE).contains(&most))
    }
}

#[cfg(test)]
mod tests {
    use isobar_core::layout::Slab;

    use super::*;

    /// Returns the rows to which `store` of finest.cu copies a plane.
    fn rows_of(plane: usize, count: usize, to: Planes) -> impl Iterator<Item = i32> {
        let (plane, count) = (plane as i32, count as i32);
        (plane - count..to.end)
            .step_by(count as usize)
            .filter(move |&plane| plane >= to.begin)
            .map(move |n| n - to.first)
    }

    #[test]
    fn divisors_divide_exactly() {
        const LAST: u64 = (1 << 31) - 1;
        let powers = (0..32).flat_map(|l| [(1u64 << l).saturating_sub(1), 1 << l, (1 << l) + 1]);
        let primes =
            [3, 5, 7, 97, 251, 641, 46_337, 46_349, 65_521, 65_537, 1_073_741_827, 2_147_483_629, 2_147_483_647];
        for d in powers.chain(primes).filter(|d| (1..=LAST + 1).contains(d)) {
            let by = Divisor::new(d as usize);
            let near = |n: u64| n.saturating_sub(2)..=n + 2;
            let multiples = [1, 2, 3, LAST / d / 2, LAST / d].map(|m| m * d);
            for n in multiples.into_iter().chain([LAST / 2, LAST]).flat_map(near).filter(|&n| n <= LAST) {
                assert_eq!((n * u64::from(by.factor)) >> by.shift, n / d, "{n} / {d}");
            }
        }
    }

    #[test]
    fn every_row_of_a_part_is_stored_once() {
        for (rows, starts) in
            [(8, vec![0, 2, 4, 8]), (9, vec![0, 4, 9]), (6, vec![0, 4, 5, 6]), (2, vec![0, 1, 2]), (5, vec![0, 5])]
        {
            for (slab, is_ring) in starts.windows(2).flat_map(|slab| [(slab, false), (slab, true)]) {
                let slab = Slab { first: slab[0], beyond: slab[1] };
                let layout = slab.layout(Shape::new(3, rows, 2), is_ring).unwrap();
                let [before, after] = layout.halo();
                let planes = Planes::new((&layout, None), slab.rows(), [before, after], rows);
                let mut found: Vec<(i32, usize)> =
                    (0..rows).flat_map(|plane| rows_of(plane, rows, planes).map(move |row| (row, plane))).collect();
                found.sort_unstable();
                let all = -(before as i32)..(slab.rows() + after) as i32;
                let expected: Vec<(i32, usize)> = all.map(|row| (row, layout.row_there(row as isize))).collect();
                assert_eq!(found, expected, "{slab:?} of {rows}, {is_ring}");
                assert_eq!((planes.rows(), planes.before()), (expected.len(), before), "{slab:?} of {rows}, {is_ring}");
            }
        }
    }
}
