//! Predicts how much memory a solver takes, before any is allocated.
//!
//! The prediction adds up the vectors of the method and its preconditioner, which state their number where they allocate them; the vectors
//! and coefficients of each level; and the additional memory of the back end, which it declares as an [`Overhead`]. On grids of 10⁵ cells and
//! more it is at most 3 % below what is allocated and at most a third above it (`isobar-case/tests/memory.rs`).

mod matrix_size;

use crate::options::{Acceleration, CyclePrecision, Method, Norm, Preconditioner as Kind, Smoother, SolverOptions};
use crate::policy::Choice;
use crate::policy::modes::{MOST_LAYERS, single_suffices};
use crate::precond::deflation::{self, Sizes};
use crate::precond::neumann;
use crate::solver::{bicgstab, cg};
use crate::stencil::TensorProduct;
use crate::stencil::galerkin::sizes::level_sizes;
use crate::stencil::halving::{End, halvings};
use crate::stencil::orientation::Orientation;
use crate::{Layout, Precision, Result, Shape};

pub use matrix_size::{MatrixKind, MatrixSize};

/// The memory that a back end takes besides the vectors and coefficients that all back ends keep; none by default, with vectors on the host.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Overhead {
    /// Whether the device has memory of its own.
    pub is_apart: bool,
    /// Threads of the host, and the cells that are enough work for one.
    pub threads: [usize; 2],
    /// The half planes that a thread keeps for each operator.
    pub half_planes: f64,
    /// The tile that a thread keeps for Jacobi's method. B
    pub tile: f64,
    /// The buffers through which an array is copied to the device. B per cell
    pub staged: f64,
    /// Vectors that conjugate gradients, lines and each level of stored coefficients keep in addition.
    pub vectors: f64,
    /// The device memory in which Galerkin levels are made; zero if the host makes them. B per cell of the finest grid
    pub galerkin: f64,
    /// Cells of the coarsest Galerkin grid, which has a dense inverse, at most.
    pub coarsest: usize,
    /// The rules for the order of directions in this device's grids.
    pub orientation: Orientation,
    /// Whether Jacobi's method needs the faces of a tensor product.
    pub stores_faces: bool,
}

/// Bytes, at the moment when most are taken: while a solver is set up or while it solves.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Memory {
    /// Bytes on the host; all of them where that is the device.
    pub host: f64,
    /// Bytes on the device, where that is not the host.
    pub device: f64,
}

const DOUBLE: f64 = size_of::<f64>() as f64;
const SINGLE: f64 = size_of::<f32>() as f64;

/// Predicts the memory of a solver besides the matrix and the caller's arrays. `choice` is the matrix's own, for options that are left open.
pub fn predict(matrix: &MatrixSize, choice: &Choice, options: &SolverOptions, overhead: &Overhead) -> Result<Memory> {
    let (around, moves) = matrix.around(options, overhead.orientation);
    let copies = around.shape.cells() != matrix.shape.cells();
    predict_around(&around, [copies, moves], choice, options, overhead)
}

/// Predicts the memory on the solver's own grid, which has `copies` of the caller's, or `moves` its numbers.
fn predict_around(
    matrix: &MatrixSize,
    [copies, moves]: [bool; 2],
    choice: &Choice,
    options: &SolverOptions,
    overhead: &Overhead,
) -> Result<Memory> {
    let options = options.resolved(choice)?;
    let larger = |choices: [Choice; 2]| {
        let [a, b] = choices.map(|choice| predict_around(matrix, [copies, moves], &choice, &options, overhead));
        let (a, b) = (a?, b?);
        Ok(Memory { host: a.host.max(b.host), device: a.device.max(b.device) })
    };
    if options.method == Method::Auto && matrix.shape.nz > MOST_LAYERS {
        let choice = Choice::new(Method::Multigrid, choice.preconditioner);
        return predict_around(matrix, [copies, moves], &choice, &options, overhead);
    }
    if options.method == Method::Auto {
        return larger([Method::Multigrid, Method::Modes].map(|method| Choice::new(method, choice.preconditioner)));
    }
    if options.multigrid.precision == CyclePrecision::Auto {
        return larger([CyclePrecision::F32, CyclePrecision::F64].map(|cycles| Choice { cycles, ..choice.clone() }));
    }
    let (layout, cells) = (Layout::new(matrix.shape)?, matrix.shape.cells() as f64);
    let mut count = Count { overhead, options: &options, now: [0.0; 2], most: [0.0; 2] };
    if copies {
        // The stencil on all copies, and an array on its way.
        count.add(HOST, (matrix.values + 1.0) * DOUBLE * cells, 0.0);
    } else if moves {
        // The stencil in another order.
        count.add(HOST, matrix.values * DOUBLE * cells, 0.0);
    }
    let (outer, inner) = match options.storage() {
        Precision::F64 => (DOUBLE, DOUBLE),
        Precision::F32 => (SINGLE, SINGLE),
        Precision::Mixed => (DOUBLE, SINGLE),
    };
    count.operator(matrix.values, &layout, DOUBLE);
    if inner == SINGLE && (outer == SINGLE || options.method != Method::Modes) {
        count.operator(matrix.values, &layout, SINGLE);
        if !options.rounds_residuals() {
            // b and u, or r and z, once more.
            count.vectors(2.0, &layout, SINGLE);
        }
    }
    count.iteration(matrix, &layout, [outer, inner])?;
    let [norm, best] = [options.norm == Norm::Scaled, !options.method.is_stationary()].map(f64::from);
    count.vectors(2.0 + 2.0 * norm + best, &layout, DOUBLE);
    let [host, device] = count.most;
    Ok(Memory { host, device }.times(MARGIN))
}

/// Predicts the memory in which each of several devices makes levels of rows that it does not have, in addition to its part of the solver:
/// aggregates on the host; coefficients and a workspace on the device. It is zero for devices that make levels on the host.
pub fn shared_setup(
    matrix: &MatrixSize,
    choice: &Choice,
    options: &SolverOptions,
    overhead: &Overhead,
) -> Result<Memory> {
    let options = options.resolved(choice)?;
    let has_cycles = options.method == Method::Multigrid || options.preconditioner == Kind::Multigrid;
    let is_by_lines = has_cycles && !options.multigrid.smoother.begins_with_points();
    if overhead.galerkin == 0.0 || matrix.kind != MatrixKind::Diffusion || !is_by_lines {
        return Ok(Memory::default());
    }
    let device = DOUBLE * matrix.values + overhead.staged + overhead.galerkin;
    Ok(Memory { host: 3.0 * BODIES, device }.times(matrix.shape.cells() as f64))
}

/// A factor for small tables, and for the padding of the coarsest levels.
const MARGIN: f64 = 1.03;
/// Lists of the cells of strongly coupled aggregates. B per cell
const BODIES: f64 = 4.0;

impl Memory {
    fn times(self, factor: f64) -> Self {
        Self { host: factor * self.host, device: factor * self.device }
    }
}

/// Bytes on the host and on a device apart: now, and at most so far.
struct Count<'a> {
    overhead: &'a Overhead,
    options: &'a SolverOptions,
    now: [f64; 2],
    most: [f64; 2],
}

const HOST: usize = 0;
const DEVICE: usize = 1;

impl Count<'_> {
    /// Adds memory that is kept, and memory that is needed only at this moment.
    fn add(&mut self, place: usize, kept: f64, passing: f64) {
        let n = if self.overhead.is_apart { place } else { HOST };
        self.now[n] += kept;
        self.most[n] = self.most[n].max(self.now[n] + passing);
    }

    /// Adds vectors of numbers of `size` bytes on the device.
    fn vectors(&mut self, count: f64, layout: &Layout, size: f64) {
        self.add(DEVICE, count * size * layout.len() as f64, 0.0);
    }

    /// Adds coefficients in numbers of `size` bytes, with the workspace of passes and the buffer through which they are copied.
    fn operator(&mut self, values: f64, layout: &Layout, size: f64) {
        let [threads, cells] = self.overhead.threads;
        let chunks = threads.min(layout.len() / cells.max(1)).min(layout.shape().ny / 2).max(1) as f64;
        self.add(DEVICE, chunks * self.overhead.half_planes * size * layout.half_plane() as f64, 0.0);
        let staged = if size == DOUBLE { self.overhead.staged } else { 0.0 };
        self.add(DEVICE, staged * layout.shape().cells() as f64, 0.0);
        self.vectors(values, layout, size);
    }

    /// Returns how many vectors sweeps of a level write to.
    fn sweeping(&self, matrix: &MatrixSize) -> f64 {
        let smoother = self.options.multigrid.smoother;
        let is_jacobi = matches!(smoother, Smoother::LineJacobi | Smoother::Chebyshev);
        let is_written = is_jacobi || matrix.kind == MatrixKind::Diffusion;
        if is_written && smoother != Smoother::PointLine { self.overhead.vectors } else { 0.0 }
    }

    /// Adds an iteration in numbers of `size` bytes, with multigrid in numbers of `inner`.
    fn iteration(&mut self, matrix: &MatrixSize, layout: &Layout, [size, inner]: [f64; 2]) -> Result<()> {
        let (options, more) = (self.options, self.overhead.vectors);
        let kind = options.preconditioner;
        match (options.method, kind) {
            (Method::Direct, _) | (_, Kind::Direct) => self.direct(layout),
            (Method::Multigrid, _) | (_, Kind::Multigrid) => self.levels(matrix, options.multigrid.levels, inner)?,
            (Method::Modes, _) => {
                let modal = if single_suffices(&options.modes) { SINGLE } else { inner };
                self.modes(matrix, layout, [size, modal])?;
            }
            (_, Kind::Modes) => self.modes(matrix, layout, [size, size])?,
            (_, Kind::Amg) => self.algebraic(matrix),
            (Method::Jacobi, _) => self.jacobi(matrix, layout, size),
            (_, Kind::Line) => self.vectors(if matrix.kind == MatrixKind::Stored { 3.0 } else { more }, layout, size),
            (_, Kind::Neumann { order }) => self.triangular(matrix, neumann::vectors(order) as f64, layout, size),
            (_, Kind::Ic { .. } | Kind::Mic { .. }) => self.triangular(matrix, 1.0 + more, layout, size),
            (_, kind) if kind.is_triangular() => self.triangular(matrix, 1.0, layout, size),
            _ => {}
        }
        match options.method {
            Method::Bicgstab => self.vectors(bicgstab::VECTORS as f64, layout, size),
            Method::Cg => {
                let norm = f64::from(options.norm == Norm::Scaled);
                let (residual, exact) = if options.rounds_residuals() { (inner, 1.0) } else { (size, 0.0) };
                let vectors = cg::residuals(!matches!(kind, Kind::None | Kind::Auto));
                self.vectors(vectors as f64 + norm, layout, residual);
                self.vectors(1.0 + more + exact, layout, size);
            }
            // The residual in both precisions, and elimination factors.
            Method::Multigrid if size > inner && !options.multigrid.smoother.begins_with_points() => {
                self.vectors(2.5 * self.sweeping(matrix), layout, size);
            }
            _ => {}
        }
        if let Some(deflation) = &options.deflation {
            let Sizes { search, sparse, inverse, runs, map } = deflation::sizes(layout.shape(), deflation);
            self.add(HOST, 0.0, search);
            self.add(DEVICE, inverse + runs + if self.overhead.is_apart { map } else { 0.0 }, 0.0);
            self.add(HOST, sparse, inverse);
        }
        Ok(())
    }

    /// Adds the vectors of a preconditioner by triangles. A tensor product gets its faces, on the host before they are on the device.
    fn triangular(&mut self, matrix: &MatrixSize, vectors: f64, layout: &Layout, size: f64) {
        self.vectors(vectors, layout, size);
        if matrix.kind == MatrixKind::TensorProduct {
            let array = DOUBLE * matrix.shape.cells() as f64;
            self.add(HOST, 4.0 * array, array);
            self.operator(4.0, layout, size);
        }
    }

    /// Adds the next u; two vectors of accelerated cycles; zeros to compare with; u between the sweeps of exact cycles, and tiles of threads.
    fn jacobi(&mut self, matrix: &MatrixSize, layout: &Layout, size: f64) {
        let options = &self.options.jacobi;
        let is_tiled = options.sub_iterations.given() != Some(1);
        let moving = options.acceleration != Acceleration::None && options.exact;
        let zeros = options.batch && self.options.norm == Norm::Rhs;
        let [moving, zeros, between] = [moving, zeros, is_tiled && options.exact].map(f64::from);
        self.vectors(1.0 + 2.0 * moving + zeros + between, layout, size);
        let tiles = if is_tiled { self.overhead.threads[0] as f64 } else { 0.0 };
        self.add(DEVICE, tiles * self.overhead.tile.min(16.0 * size * layout.len() as f64), 0.0);
        if self.overhead.stores_faces {
            self.triangular(matrix, 0.0, layout, size);
        }
    }

    /// Adds the residual and two arrays of the box; eigenvectors of the two axes with fewer cells, there and back, from the host.
    fn direct(&mut self, layout: &Layout) {
        let Shape { nx, ny, nz } = layout.shape();
        let squares = [nx, ny, nz].map(|n| (n as f64).powi(2));
        let eigenvectors = 2.0 * DOUBLE * (squares.iter().sum::<f64>() - squares.into_iter().fold(f64::MAX, f64::min));
        self.vectors(3.0, layout, DOUBLE);
        self.add(DEVICE, eigenvectors, 0.0);
        self.add(HOST, 0.0, eigenvectors);
    }

    /// Adds the levels of algebraic multigrid where all cells are active, what their setup needs, and two arrays.
    fn algebraic(&mut self, matrix: &MatrixSize) {
        /// Bytes for each cell: kept, and during setup.
        const LEVELS: [f64; 2] = [180.0, 50.0];
        let cells = matrix.shape.cells() as f64;
        self.add(HOST, (LEVELS[0] + 2.0 * DOUBLE) * cells, LEVELS[1] * cells);
    }

    /// Adds the levels of multigrid and the vectors of a cycle.
    fn levels(&mut self, matrix: &MatrixSize, wanted: Option<usize>, size: f64) -> Result<()> {
        let (MatrixSize { shape, mut strengths, .. }, more) = (*matrix, self.sweeping(matrix));
        let smoother = self.options.multigrid.smoother;
        let is_diffusion = matrix.kind == MatrixKind::Diffusion;
        let is_jacobi = is_diffusion && matches!(smoother, Smoother::LineJacobi | Smoother::Chebyshev);
        self.vectors(more, &Layout::new(shape)?, size);
        let (mut fine, mut values) = (shape, matrix.values);
        // Levels whose coefficients are averages.
        let averaged = match (matrix.kind, smoother) {
            (MatrixKind::Diffusion, Smoother::PointRedBlack) => wanted,
            (MatrixKind::Diffusion, Smoother::PointLine) => Some(2),
            (MatrixKind::Diffusion, _) => Some(1),
            _ => wanted.or(Some(TensorProduct::DEFAULT_LEVELS)),
        };
        let ends = matrix.is_periodic.map(|is_ring| [if is_ring { End::Ring } else { End::Closed }; 2]);
        let halvings = halvings(shape, ends, strengths, averaged);
        let count = halvings.len();
        for by in halvings {
            let layout = Layout::new(by.coarse)?;
            if is_diffusion && (smoother == Smoother::PointLine || !by.is_regular) {
                values = 4.0;
            }
            if is_diffusion && (smoother == Smoother::PointLine || self.overhead.galerkin == 0.0) {
                self.add(HOST, values * DOUBLE * by.coarse.cells() as f64, 0.0);
            }
            self.operator(values, &layout, size);
            self.vectors(2.0 + more, &layout, size);
            (0..3).filter(|&d| by.halved()[d]).for_each(|d| strengths[d] /= 4.0);
            fine = by.coarse;
        }
        if !is_diffusion || smoother == Smoother::PointRedBlack {
            return Ok(());
        }
        let made_from = fine;
        let sizes = level_sizes(
            fine,
            strengths,
            matrix.crossing.halves_lines(matrix.shape, matrix.is_periodic),
            self.overhead.coarsest,
            wanted.map(|wanted| wanted.saturating_sub(count)),
        );
        // Elimination factors of the finest lines.
        self.vectors(if shape.nz > 1 { self.overhead.vectors } else { 0.0 }, &Layout::new(fine)?, size);
        // On the host: couplings with ghosts, before and after a direction is halved, and weights while they are relaxed; three quarters
        // of that are used again for coarser levels.
        let Shape { nx, ny, nz } = fine;
        let directions = [nx, ny, nz].iter().filter(|&&n| n > 1).count() as f64;
        let ghosted = size * ((nx + 4) * ny * (nz + 2)) as f64;
        let setup = if self.overhead.galerkin == 0.0 { (4.5 * directions + 1.0) * ghosted } else { 0.0 };
        for (n, (shape, couplings)) in sizes.into_iter().enumerate() {
            let layout = Layout::new(shape)?;
            // Strongly coupled aggregates, the residual, two weights of each cell between coarse ones, and the buffer of a product.
            self.vectors(4.5, &Layout::new(fine)?, size);
            // Row sums, pivots and diagonals; b, u and the targets of sweeps.
            let vectors = 4.0 + self.overhead.vectors + if is_jacobi { more.max(1.0) } else { more };
            self.operator(couplings as f64 + vectors, &layout, size);
            self.add(HOST, 0.0, if n == 0 { setup } else { 0.75 * setup });
            fine = shape;
        }
        let inverse = DOUBLE * (fine.cells().min(self.overhead.coarsest) as f64).powi(2);
        self.add(DEVICE, inverse, self.overhead.galerkin * made_from.cells() as f64);
        if self.overhead.galerkin == 0.0 {
            self.add(HOST, 0.0, inverse);
        }
        Ok(())
    }

    /// Adds the vectors of modes (one layer and its levels each), the cycles on them, and the singular vectors that define them.
    fn modes(&mut self, matrix: &MatrixSize, layout: &Layout, [size, modal]: [f64; 2]) -> Result<()> {
        let layers = matrix.shape.nz;
        // The number that a profile usually needs.
        let count = self.options.modes.count.given().unwrap_or(layers.div_ceil(8));
        let shape = Shape { nz: count, ..matrix.shape };
        let problems = MatrixSize { shape, values: matrix.values * layers as f64 / count.max(1) as f64, ..*matrix };
        let modal_layout = Layout::new(shape)?;
        self.add(HOST, 0.0, 6.0 * DOUBLE * (layers as f64).powi(2));
        self.add(DEVICE, size * count as f64 * layers as f64, 0.0);
        // The grid's coefficients once more, in the precision of the modes; three vectors, and one more for sweeps.
        self.vectors(matrix.values, layout, modal);
        self.operator(problems.values, &modal_layout, modal);
        self.vectors(3.0 + self.overhead.vectors, &modal_layout, modal);
        self.levels(&problems, Some(usize::MAX), modal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grid::GridOptions;
    use crate::options::Deflation;
    use crate::problem::{Coefficient, DiffusionProblem, Helmholtz};
    use crate::stencil::{Diffusion, Stencil};

    fn diffusion(shape: Shape) -> Diffusion {
        DiffusionProblem::new(shape, Coefficient::Isotropic(vec![1.0; shape.cells()])).stencil().unwrap()
    }

    #[test]
    fn choices_are_the_matrices_own() {
        let flat = diffusion(Shape::new(6, 4, 2));
        let mut lines = SolverOptions::default();
        lines.multigrid.smoother = Smoother::LineRedBlack;
        let cycles = CyclePrecision::Auto;
        assert_eq!(MatrixSize::from(&flat).choice(), Choice { cycles, why_cycles: None, ..flat.choice(&lines) });
        let grid = GridOptions { nx: 4, ny: 4, nz: 3, ..GridOptions::default() };
        let tall = Helmholtz { grid, ..Helmholtz::default() }.stencil().unwrap();
        let options = SolverOptions::default();
        assert_eq!(MatrixSize::from(&tall).choice().preconditioner, tall.choice(&options).preconditioner);
        let stored = tall.stored().unwrap();
        assert_eq!(MatrixSize::from(&stored).choice(), stored.choice(&options));
    }

    #[test]
    fn what_takes_more_is_predicted_to() {
        let size = MatrixSize::from(&diffusion(Shape::new(64, 64, 16)));
        let cpu = Overhead { threads: [2, 1 << 14], half_planes: 10.0, ..Overhead::default() };
        let apart = Overhead { is_apart: true, vectors: 1.0, galerkin: 80.0, ..Overhead::default() };
        let of = |change: &dyn Fn(&mut SolverOptions), overhead| {
            let mut options = SolverOptions { preconditioner: Kind::Multigrid, ..SolverOptions::default() };
            change(&mut options);
            let predicted = predict(&size, &size.choice(), &options, overhead).unwrap();
            (predicted, shared_setup(&size, &size.choice(), &options, overhead).unwrap())
        };
        let (usual, shared) = of(&|_| {}, &cpu);
        assert_eq!((usual.device, shared), (0.0, Memory::default()));
        assert!(of(&|o| o.preconditioner = Kind::Jacobi, &cpu).0.host < 0.7 * usual.host);
        assert!(of(&|o| o.deflation = Some(Deflation::default()), &cpu).0.host > usual.host);
        let (on_device, shared) = of(&|_| {}, &apart);
        assert!(on_device.device > 0.5 * usual.host && on_device.host < usual.host);
        assert!(shared.device >= 80.0 * size.shape.cells() as f64);
        assert_eq!(of(&|o| o.multigrid.smoother = Smoother::PointRedBlack, &apart).1, Memory::default());
    }

    #[test]
    fn columns_without_modes_need_memory_for_their_cells_alone() {
        let of = |nz: usize| {
            let grid = GridOptions { nx: 4, ny: 4, nz, ..GridOptions::default() };
            let size = MatrixSize::from(&Helmholtz { grid, ..Helmholtz::default() }.stencil().unwrap());
            predict(&size, &size.choice(), &SolverOptions::default(), &Overhead::default()).unwrap().host / nz as f64
        };
        let [short, long] = [2_000, 20_000].map(of);
        assert!(long < 1.1 * short && long < 16.0 * 1e3, "{short}, {long}");
        // Modes that may be used are counted.
        assert!(of(MOST_LAYERS) > 2.0 * long);
    }

    #[test]
    fn grids_of_short_rows_are_predicted_as_they_are_solved() {
        let longest = usize::MAX;
        let orientation =
            Orientation { row: 45.0, longest_shared: longest, most_rows: longest, ..Orientation::default() };
        let cpu = Overhead { threads: [2, 1 << 14], half_planes: 10.0, orientation, ..Overhead::default() };
        let [thin, wide] = [Shape::new(4, 120, 90), Shape::new(120, 90, 4)].map(|shape| {
            let size = MatrixSize::from(&diffusion(shape));
            predict(&size, &size.choice(), &SolverOptions::default(), &cpu).unwrap().host
        });
        // κ in another order.
        assert!(wide < thin && thin < 1.1 * wide, "{thin}, {wide}");
    }
}
