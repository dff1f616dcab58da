//! How much memory a solver takes, predicted before any of it is.
//!
//! The numbers follow what setup does, in its order: what it makes and keeps, and what it only needs on the way. Whoever
//! makes a solver keep more notes it here; `isobar-case/tests/memory.rs` compares with what is allocated.

mod galerkin;
mod levels;
mod matrix_size;

use crate::error::Result;
use crate::layout::{Layout, Shape};
use crate::options::{
    Acceleration, Choice, CoarseSolve, CyclePrecision, Deflation, JacobiOptions, Method, Norm, Preconditioner,
    Smoother, SolverOptions, Stripes,
};
use crate::real::Precision;
use crate::stencil::modes::single_suffices;
use crate::stencil::rings::Turns;

pub use galerkin::shared_setup;
pub use matrix_size::{MatrixKind, MatrixSize};

/// The properties of a device that determine a solver's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Processor {
    /// Cores of the host, so many threads.
    Cpu {
        /// How many.
        threads: usize,
    },
    /// A card.
    Cuda,
}

/// Bytes, at the moment when most are taken: while a solver is set up or while it solves.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Memory {
    /// Bytes on the host; all of them where that is the device.
    pub host: f64,
    /// Bytes on the device, where that is not the host.
    pub device: f64,
}

impl Memory {
    /// Whichever is more.
    fn or_more(self, other: Self) -> Self {
        Self { host: self.host.max(other.host), device: self.device.max(other.device) }
    }
}

/// Predicts the memory of a solver beside the matrix and the caller's arrays. `choice` is the matrix's own, for options that
/// are left open.
///
/// # Errors
/// As [`SolverOptions::resolved`] and [`Layout::new`].
pub fn predict(matrix: &MatrixSize, choice: &Choice, options: &SolverOptions, processor: Processor) -> Result<Memory> {
    let options = options.resolved(choice)?;
    if options.method == Method::Auto {
        let of = |method| {
            let choice = Choice::new(method, choice.preconditioner);
            predict(matrix, &choice, &options, processor)
        };
        return Ok(of(Method::Multigrid)?.or_more(of(Method::Modes)?));
    }
    if options.multigrid.precision == CyclePrecision::Auto {
        let of = |cycles| predict(matrix, &Choice { cycles, ..choice.clone() }, &options, processor);
        return Ok(of(CyclePrecision::F32)?.or_more(of(CyclePrecision::F64)?));
    }
    let (turns, matrix) = (matrix.turns(), &matrix.around());
    let layout = Layout::new(matrix.shape)?;
    let mut setup = Setup { processor, options: &options, now: [0.0; 2], most: [0.0; 3] };
    let double = size_of::<f64>();
    if let (MatrixKind::Diffusion { fields, has_shift, .. }, true) = (matrix.kind, turns != Turns::ONE) {
        // The stencil on all turns, and an array on its way.
        let arrays = (fields + usize::from(has_shift) + 1) as f64;
        setup.keep(if setup.is_cuda() { HOST } else { DEVICE }, arrays * (matrix.shape.cells() * double) as f64);
    }
    setup.operator(matrix, &layout, double);
    match options.storage() {
        Precision::F64 => setup.iteration(matrix, &layout, double, double)?,
        Precision::F32 => {
            let single = size_of::<f32>();
            setup.operator(matrix, &layout, single);
            setup.iteration(matrix, &layout, single, single)?;
            // b and u once more.
            setup.vectors(2.0, &layout, single);
        }
        Precision::Mixed if options.method == Method::Modes => {
            setup.iteration(matrix, &layout, double, size_of::<f32>())?;
        }
        Precision::Mixed => {
            let single = size_of::<f32>();
            setup.operator(matrix, &layout, single);
            setup.iteration(matrix, &layout, double, single)?;
            setup.vectors(2.0, &layout, single);
            if setup.needs_scratch(matrix) && options.method == Method::Multigrid {
                setup.vectors(1.0, &layout, double);
                setup.vectors(1.0, &layout, single);
                if setup.is_cuda() && matches!(matrix.kind, MatrixKind::Diffusion { .. }) && matrix.shape.nz > 1 {
                    // Elimination factors of lines in double precision.
                    setup.vectors(1.0, &layout, double);
                }
            }
        }
    }
    // b, u, and what the norm takes; the best u of Krylov methods.
    setup.vectors(if options.norm == Norm::Scaled { 4.0 } else { 2.0 }, &layout, double);
    setup.vectors(if options.method.is_stationary() { 0.0 } else { 1.0 }, &layout, double);
    Ok(setup.memory())
}

/// Setup as it goes on: bytes of vectors and coefficients, and of the host beside them.
struct Setup<'a> {
    processor: Processor,
    options: &'a SolverOptions,
    /// Bytes on the device and on the host.
    now: [f64; 2],
    /// The same, and both together.
    most: [f64; 3],
}

const DEVICE: usize = 0;
const HOST: usize = 1;

/// Bytes that a copy to the card passes through on it, a cell: an array in double precision.
const STAGED: f64 = 8.0;
/// Bytes of elimination factors of a tile of columns, of one thread of the CPU.
const TILE: f64 = (192 << 10) as f64;

impl Setup<'_> {
    fn note(&mut self) {
        let [device, host] = self.now;
        for (most, now) in self.most.iter_mut().zip([device, host, device + host]) {
            *most = most.max(now);
        }
    }

    /// Bytes that stay.
    fn keep(&mut self, place: usize, bytes: f64) {
        self.now[place] += bytes;
        self.note();
    }

    /// Bytes that are there for a moment.
    fn pass(&mut self, place: usize, bytes: f64) {
        self.keep(place, bytes);
        self.now[place] -= bytes;
    }

    fn vectors(&mut self, count: f64, layout: &Layout, size: usize) {
        self.keep(DEVICE, count * (layout.len() * size) as f64);
    }

    fn is_cuda(&self) -> bool {
        self.processor == Processor::Cuda
    }

    /// A matrix with its coefficients in numbers of `size` bytes.
    fn operator(&mut self, matrix: &MatrixSize, layout: &Layout, size: usize) {
        match matrix.kind {
            MatrixKind::TensorProduct => {
                self.keep(DEVICE, (7 * layout.columns_len() * size) as f64);
            }
            MatrixKind::Diffusion { fields, has_shift, .. } => {
                self.vectors((fields + usize::from(has_shift)) as f64, layout, size);
            }
            MatrixKind::Stored { entries } => {
                self.keep(DEVICE, (entries * (4 + size) + layout.len() * (8 + size)) as f64);
            }
            MatrixKind::Own => {}
        }
        self.workspace(layout, size);
        if self.is_cuda() && size == size_of::<f64>() {
            self.keep(DEVICE, STAGED * layout.shape().cells() as f64);
        }
    }

    /// The workspace of the processor's passes.
    fn workspace(&mut self, layout: &Layout, size: usize) {
        let Processor::Cpu { threads } = self.processor else { return };
        let threads = threads.min(layout.len() >> 14).max(1) as f64;
        let tile = TILE.min((layout.half_plane() * size) as f64).max((8 * layout.shape().nz * size) as f64);
        let planes = (8 * layout.half_plane() * size) as f64;
        self.keep(DEVICE, threads * (2.0 * tile + planes + (4 * layout.pitch() * size) as f64));
    }

    /// Whether sweeps of the finest level write to a vector of their own.
    fn needs_scratch(&self, matrix: &MatrixSize) -> bool {
        self.is_cuda()
            && !self.options.multigrid.smoother.begins_with_points()
            && (self.sweeps_by_jacobi() || !matches!(matrix.kind, MatrixKind::TensorProduct))
    }

    /// Whether columns are relaxed all at once.
    fn sweeps_by_jacobi(&self) -> bool {
        matches!(self.options.multigrid.smoother, Smoother::LineJacobi | Smoother::Chebyshev)
    }

    /// Whether sweeps of points on a card may be one pass with what comes before and after, from one vector to another.
    fn streams(&self, matrix: &MatrixSize, Shape { nx, ny, nz }: Shape) -> bool {
        /// The fewest cells of a grid, flat or not, and of a direction.
        const CELLS: [usize; 2] = [1 << 21, 1 << 24];
        const FEWEST: usize = 64;
        let is_ring = matches!(matrix.kind, MatrixKind::Diffusion { is_periodic, .. } if is_periodic.contains(&true));
        let is_large =
            nx * ny * nz >= CELLS[usize::from(nz > 1)] && nx >= FEWEST && ny >= FEWEST && (nz == 1 || nz >= FEWEST);
        let is_point = self.options.multigrid.smoother == Smoother::PointRedBlack;
        self.is_cuda() && is_point && is_large && !is_ring
    }

    /// An iteration in numbers of `size` bytes, and multigrid in numbers of `cycle_size`.
    fn iteration(&mut self, matrix: &MatrixSize, layout: &Layout, size: usize, cycle_size: usize) -> Result<()> {
        match self.options.method {
            Method::Direct => {
                self.vectors(1.0, layout, size_of::<f64>());
                self.direct(layout.shape());
                return Ok(());
            }
            Method::Multigrid => return self.hierarchy(matrix, cycle_size),
            Method::Modes => {
                let modal_size = if single_suffices(&self.options.modes) { size_of::<f32>() } else { cycle_size };
                return self.modes(matrix, [size, modal_size]);
            }
            Method::Jacobi => {
                if self.is_cuda() {
                    self.stored_faces(matrix, layout, size);
                }
                self.jacobi(layout, size);
                return Ok(());
            }
            _ => {}
        }
        if self.options.preconditioner.is_triangular() {
            self.stored_faces(matrix, layout, size);
        }
        match self.options.preconditioner {
            Preconditioner::Direct => {
                self.vectors(1.0, layout, size_of::<f64>());
                self.direct(layout.shape());
            }
            Preconditioner::Multigrid => self.hierarchy(matrix, cycle_size)?,
            Preconditioner::Modes => self.modes(matrix, [size, size])?,
            Preconditioner::Neumann { order } => self.vectors(if order > 1 { 2.0 } else { 1.0 }, layout, size),
            // What tiles of a sweep hand on: one cell in 32, and one layer in six; on small grids one in 16, and one in eight.
            Preconditioner::Ic { block: None } | Preconditioner::Mic { block: None, .. } if self.is_cuda() => {
                // A part also has a right-hand side with what the one before adds to it.
                let is_part = layout.halo() != [0, 0];
                self.vectors(if is_part { 2.2 } else { 1.2 }, layout, size);
            }
            Preconditioner::BlockIc { .. }
            | Preconditioner::Ic { .. }
            | Preconditioner::Mic { .. }
            | Preconditioner::SsorAi
            | Preconditioner::IncompletePoisson { .. } => self.vectors(1.0, layout, size),
            // Elimination factors of columns too high for a block of threads, or the three bands of a stored matrix.
            Preconditioner::Line => match matrix.kind {
                MatrixKind::Stored { .. } => self.vectors(3.0, layout, size),
                MatrixKind::Diffusion { .. } if self.is_cuda() && layout.shape().nz > 1 => {
                    self.vectors(1.0, layout, size);
                }
                _ => {}
            },
            Preconditioner::Auto | Preconditioner::None | Preconditioner::Jacobi => {}
        }
        let fused = self.options.form == crate::options::Form::Fused;
        self.vectors(
            match self.options.method {
                Method::Bicgstab => 7.0,
                _ if self.is_cuda() && fused && !matches!(matrix.kind, MatrixKind::Stored { .. }) => 5.0,
                _ => 4.0,
            },
            layout,
            size,
        );
        if self.options.norm == Norm::Scaled {
            self.vectors(1.0, layout, size);
        }
        if let Some(deflation) = &self.options.deflation {
            self.deflation(layout.shape(), deflation);
        }
        Ok(())
    }

    /// A direct solver: two arrays of the box, eigenvectors of two axes there and back.
    fn direct(&mut self, shape: Shape) {
        let Shape { nx, ny, nz } = shape;
        let double = size_of::<f64>() as f64;
        self.keep(DEVICE, 2.0 * double * shape.cells() as f64);
        let squares = [nx, ny, nz].map(|n| (n * n) as f64);
        let least = squares.iter().copied().fold(f64::INFINITY, f64::min);
        let eigenvectors = 2.0 * double * (squares.iter().sum::<f64>() - least);
        self.keep(DEVICE, eigenvectors);
        self.pass(HOST, eigenvectors);
    }

    /// The faces of a tensor product and its shift, and the same as they were before they were arranged.
    fn stored_faces(&mut self, matrix: &MatrixSize, layout: &Layout, size: usize) {
        if matrix.kind != MatrixKind::TensorProduct {
            return;
        }
        let array = (8 * matrix.shape.cells()) as f64;
        self.keep(HOST, 4.0 * array);
        self.pass(HOST, array);
        let kind = MatrixKind::Diffusion { fields: 3, has_shift: true, strengths: [1.0; 3], is_periodic: [false; 3] };
        self.operator(&MatrixSize { kind, ..*matrix }, layout, size);
    }

    /// The next u, and what threads hold of a tile where there are several sub-iterations, or u between the sweeps of an exact cycle.
    fn jacobi(&mut self, layout: &Layout, size: usize) {
        /// Bytes of a tile that a thread works on.
        const TILE: f64 = (2 << 20) as f64;
        let JacobiOptions { acceleration, exact, batch, .. } = self.options.jacobi;
        let moving = if acceleration != Acceleration::None && exact { 2.0 } else { 0.0 };
        let zeros = if batch && self.options.norm == Norm::Rhs { 1.0 } else { 0.0 };
        self.vectors(1.0 + moving + zeros, layout, size);
        if let Processor::Cpu { threads } = self.processor
            && self.options.jacobi.sub_iterations.given() != Some(1)
        {
            if exact && layout.shape().nz > 1 {
                self.vectors(1.0, layout, size);
            } else {
                let cells = (16 * layout.len() * size) as f64;
                self.keep(DEVICE, threads as f64 * TILE.min(cells));
            }
        }
    }

    /// Modes, a layer each, with all levels there can be, and what takes part in them on the grid.
    fn modes(&mut self, matrix: &MatrixSize, [size, modal_size]: [usize; 2]) -> Result<()> {
        let layers = matrix.shape.nz;
        // Of as many as a profile usually asks for: that is known before a matrix is.
        let count = self.options.modes.count.given().unwrap_or(layers.div_ceil(8));
        let shape = Shape { nz: count, ..matrix.shape };
        let modal = MatrixSize { shape, kind: MatrixKind::TensorProduct };
        let modal_layout = Layout::new(shape)?;
        // The bidiagonal matrix with its singular vectors, and the modes.
        self.pass(HOST, (6 * 8 * layers * layers) as f64);
        self.keep(DEVICE, (size * count * layers) as f64);
        self.operator(&modal, &modal_layout, modal_size);
        if self.is_cuda() && modal_size < size {
            // The grid's coefficients once more, for sweeps in the modes' precision.
            self.keep(DEVICE, (7 * Layout::new(matrix.shape)?.columns_len() * modal_size) as f64);
        }
        // Sweeps of layers that are not coupled go from one vector to another on a card.
        let each = if self.is_cuda() { 3.0 } else { 2.0 };
        // What cycles extrapolate from.
        self.vectors(each + 1.0, &modal_layout, modal_size);
        if let Processor::Cpu { threads } = self.processor {
            self.keep(DEVICE, (threads * modal_layout.half_plane() * size) as f64);
        }
        for shape in std::iter::successors(shape.halved(), Shape::halved) {
            let coarse = Layout::new(shape)?;
            self.pass(HOST, (16 * 8 * shape.nx * shape.ny) as f64);
            self.operator(&MatrixSize { shape, ..modal }, &coarse, modal_size);
            self.vectors(each, &coarse, modal_size);
        }
        Ok(())
    }

    /// Aggregates of cells, and E or its inverse.
    fn deflation(&mut self, shape: Shape, deflation: &Deflation) {
        /// Beyond this many vectors, nobody inverts E unasked.
        const LARGEST_INVERSE: f64 = 2048.0;
        /// Bytes of an entry of a sparse matrix and of its factor.
        const ENTRY: f64 = 64.0;
        let cells = shape.cells() as f64;
        let (across, count) = match deflation.stripes {
            Stripes::HalfRows => (2.0, (2.min(shape.nx) * shape.ny * shape.nz) as f64),
            Stripes::Blocks(blocks) => (blocks[0] as f64, blocks.iter().map(|&count| count as f64).product()),
            // How many there are is not known before they are found.
            Stripes::Bodies => (8.0, 64.0),
        };
        // Numbers of aggregates and sets of cells, then all faces of a direction twice.
        let map = 4.0 * cells;
        self.pass(HOST, map + (2.0 * 8.0 * cells).max(2.0 * map));
        let is_inverse = match deflation.coarse {
            CoarseSolve::Inverse => true,
            CoarseSolve::Triangular => false,
            CoarseSolve::Auto => count <= LARGEST_INVERSE,
        };
        self.keep(HOST, 7.0 * ENTRY * count);
        if is_inverse {
            self.keep(DEVICE, 8.0 * count * count);
            // Its entries once more, and the columns that are solved for at once.
            self.pass(HOST, 8.0 * count * (count + 32.0));
        }
        // Where memory belongs to which.
        let runs = 2.0 * (shape.ny * shape.nz) as f64 * (across + 2.0);
        self.keep(if self.is_cuda() { DEVICE } else { HOST }, if self.is_cuda() { map } else { 0.0 } + 32.0 * runs);
    }

    fn memory(&self) -> Memory {
        /// Small tables, and what the coarsest levels are padded to.
        const MARGIN: f64 = 1.03;
        let [device, host, both] = self.most.map(|bytes| MARGIN * bytes);
        match self.processor {
            Processor::Cpu { .. } => Memory { host: both, device: 0.0 },
            Processor::Cuda => Memory { host, device },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::levels::halved;
    use super::*;
    use crate::grid::GridOptions;
    use crate::problem::{Coefficient, DiffusionProblem, Helmholtz, Spacing};
    use crate::stencil::{Diffusion, Stencil};

    fn diffusion(shape: Shape, widths: [f64; 3]) -> Diffusion {
        let mut problem = DiffusionProblem::new(shape, Coefficient::Isotropic(vec![1.0; shape.cells()]));
        problem.spacing = widths.map(Spacing::Uniform);
        problem.stencil().unwrap()
    }

    #[test]
    fn choices_are_the_matrices_own() {
        let flat = diffusion(Shape::new(6, 4, 2), [1.0; 3]);
        let options = SolverOptions::default();
        let mut lines = options.clone();
        lines.multigrid.smoother = Smoother::LineRedBlack;
        let cycles = CyclePrecision::Auto;
        assert_eq!(MatrixSize::from(&flat).choice(), Choice { cycles, why_cycles: None, ..flat.choice(&lines) });
        let grid = GridOptions { nx: 4, ny: 4, nz: 3, ..GridOptions::default() };
        let tall = Helmholtz { grid, ..Helmholtz::default() }.stencil().unwrap();
        assert_eq!(MatrixSize::from(&tall).choice().preconditioner, tall.choice(&options).preconditioner);
        let stored = tall.stored().unwrap();
        assert_eq!(MatrixSize::from(&stored).choice(), stored.choice(&options));
    }

    #[test]
    fn grids_of_tensor_products_are_those_that_multigrid_makes() {
        let grid = GridOptions { nx: 12, ny: 10, nz: 3, ..GridOptions::default() };
        let tall = Helmholtz { grid, ..Helmholtz::default() }.stencil().unwrap();
        assert_eq!(halved(&MatrixSize::from(&tall), Some(3))[2], Shape::new(3, 3, 3));
    }

    #[test]
    fn what_takes_more_is_predicted_to() {
        let size = MatrixSize::from(&diffusion(Shape::new(64, 64, 16), [1.0; 3]));
        let of = |change: &dyn Fn(&mut SolverOptions), processor| {
            let mut options = SolverOptions::default();
            change(&mut options);
            predict(&size, &size.choice(), &options, processor).unwrap()
        };
        let cpu = Processor::Cpu { threads: 2 };
        let usual = of(&|_| {}, cpu);
        assert_eq!(usual.device, 0.0);
        assert!(of(&|o| o.preconditioner = Preconditioner::Jacobi, cpu).host < 0.7 * usual.host);
        assert!(of(&|o| o.deflation = Some(Deflation::default()), cpu).host > usual.host);
        let on_card = of(&|_| {}, Processor::Cuda);
        assert!(on_card.device > 0.5 * usual.host && on_card.host < usual.host);
        let shared = |smoother, processor| {
            let mut options = SolverOptions { preconditioner: Preconditioner::Multigrid, ..SolverOptions::default() };
            options.multigrid.smoother = smoother;
            shared_setup(&size, &size.choice(), &options, processor).unwrap()
        };
        let on_cards = shared(Smoother::LineRedBlack, Processor::Cuda);
        assert!(on_cards.device > 9.6 * (8 * 64 * 64 * 16) as f64, "{on_cards:?}");
        assert_eq!(shared(Smoother::PointRedBlack, Processor::Cuda), Memory::default());
        assert_eq!(shared(Smoother::LineRedBlack, cpu), Memory::default());
    }
}
