//! The Galerkin levels of diffusion: the interface of a back end, and the hierarchy that it gives.

use std::sync::{Arc, Mutex, RwLock};

use super::galerkin::{Grid, Setup};
use super::{Axis, Diffusion, Hierarchy, Side, Stencil, Supports};
use crate::backend::{AggregateBackend, queue};
use crate::operator::{CoarsestSolver, Correction, LevelBackend, LineSmoother, Operator, Transfer, layout_of};
use crate::{AggregateMap, Layout, Precision, Real, Result, Shape, lock, read, write};

/// The finer level of a transfer.
pub enum Finer<'a, B: SupportsGalerkin, T: Real> {
    /// The seven-point operator.
    Finest(&'a Arc<B::Operator<T>>),
    /// A 27-point one.
    Coarse(&'a Arc<B::Coarse<T>>),
}

/// A back end that has 27-point operators with their transfers and corrections, and makes the matrices for them. All objects made from a matrix
/// can be updated with the numbers of another one with the same grid and the same offsets.
pub trait SupportsGalerkin: Supports<Diffusion> + Setup + LevelBackend {
    /// Returns how often the cycles of the first levels of a grid with this many cells visit the next one; those of all others visit it once. On a
    /// processor the third grid and those below it cost little, and three visits to them save a quarter of the iterations; where small grids cost
    /// as much as large ones that takes more time than it saves. Measured: docs/notes/diffusion-multigrid.md.
    fn visits(cells: usize) -> &'static [usize] {
        let _ = cells;
        &[1, 3]
    }
    /// The number of cells up to which a grid is solved exactly, by a dense inverse. The default is that of a processor, where a larger one takes
    /// longer than the levels that it replaces.
    const COARSEST_CELLS: usize = 256;

    /// A 27-point operator. Lines in z are relaxed all at once by line Jacobi, else in four colours, (i mod 2, j mod 2) = (0, 0),
    /// (1, 0), (0, 1), (1, 1), or in the opposite order where [`Relaxation::first`](crate::operator::Relaxation::first) is black.
    type Coarse<T: Real>: LineSmoother<Self, T> + 'static;
    /// The transfer P = P_x P_y P_z, with R = Pᵀ.
    type Interpolation<T: Real>: Transfer<Self, T> + 'static;
    /// The correction of strongly coupled aggregates.
    type BodyCorrection<T: Real>: Correction<Self, T> + 'static;

    /// Makes the matrix of a stencil, whose operator has its coefficients.
    fn finest<T: Real>(&self, stencil: &Diffusion, operator: &Arc<Self::Operator<T>>) -> Result<Self::Matrix>;

    /// Puts a matrix on the device: of several ranks each its rows.
    fn coarse<T: Real>(&self, matrix: &Self::Matrix) -> Result<Arc<Self::Coarse<T>>>;

    /// Gives it other numbers.
    fn update_coarse<T: Real>(&self, coarse: &Self::Coarse<T>, matrix: &Self::Matrix) -> Result<()>;

    /// Puts weights on the device.
    fn interpolation<T: Real>(
        &self,
        finer: Finer<'_, Self, T>,
        coarse: &Layout,
        weights: Self::Weights,
    ) -> Result<Arc<Self::Interpolation<T>>>;

    /// Replaces the weights of an interpolation.
    fn update_interpolation<T: Real>(&self, between: &Self::Interpolation<T>, weights: Self::Weights) -> Result<()>;

    /// Makes the correction by strongly coupled aggregates on the device.
    fn body_correction<T: Real>(&self, layout: &Layout, bodies: Self::Bodies) -> Result<Arc<Self::BodyCorrection<T>>>;

    /// Replaces the aggregates of a correction.
    fn update_bodies<T: Real>(&self, correction: &Self::BodyCorrection<T>, bodies: Self::Bodies) -> Result<()>;

    /// Computes G with A G A = A, see [`coarsest::inverse`](super::galerkin::coarsest::inverse).
    fn inverse(&self, matrix: &Self::Matrix, levels: Precision) -> Result<Self::AggregateMatrix>;
}

/// A level below the finest.
struct Below<B: SupportsGalerkin, T: Real> {
    /// The directions that were halved.
    axes: Vec<Axis>,
    /// Whether every rank has it whole, though the next finer level is divided.
    is_whole: bool,
    /// The matrix of this level.
    operator: Arc<B::Coarse<T>>,
    /// The transfer between the next finer level and this one.
    transfer: Arc<B::Interpolation<T>>,
    /// The aggregate correction that accompanies the sweeps of this level.
    correction: Arc<B::BodyCorrection<T>>,
}

/// The end of a hierarchy: its coarsest matrix, if it is solved exactly, and notes.
struct Descent<B: SupportsGalerkin> {
    /// The last matrix, if it can be solved with exactly.
    coarsest: Option<B::Matrix>,
    /// Notes for the user.
    notes: Vec<String>,
}

/// Calls `make` with the directions that are halved, the weights and the matrix of each coarser level, which it returns: of as many levels as are `wanted`
/// with the finest one, or as lead to a grid that can be solved exactly. `halves_lines` states whether z is halved too.
///
/// # Errors
/// The errors of `make`; as [`Supports::operator`].
fn descend<B: SupportsGalerkin>(
    backend: &B,
    finest: B::Matrix,
    wanted: Option<usize>,
    halves_lines: bool,
    make: &mut dyn FnMut(Vec<Axis>, B::Weights, B::Matrix) -> Result<B::Matrix>,
) -> Result<Descent<B>> {
    let is_small = |matrix: &B::Matrix| backend.grid(matrix).shape.cells() <= B::COARSEST_CELLS;
    let (mut matrix, mut levels, mut notes) = (finest, 1, Vec::new());
    while wanted.map_or(!is_small(&matrix), |wanted| levels < wanted) {
        let axes = backend.strong_axes(&matrix, halves_lines)?;
        if axes.is_empty() {
            if let Some(wanted) = wanted {
                let Shape { nx, ny, nz } = backend.grid(&matrix).shape;
                notes.push(format!(
                    "{levels} of {wanted} multigrid levels: {nx}×{ny}×{nz} cells are not coarsened further"
                ));
            }
            break;
        }
        levels += 1;
        let (weights, coarse) = backend.coarsen(matrix, &axes)?;
        matrix = make(axes, weights, coarse)?;
    }
    let coarsest = is_small(&matrix).then(|| backend.whole(matrix)).transpose()?;
    Ok(Descent { coarsest, notes })
}

/// Makes the hierarchy of a diffusion stencil: `wanted` levels, or as many as lead to a grid that can be solved exactly.
pub fn galerkin<B: SupportsGalerkin, T: Real>(
    backend: &B,
    stencil: &Diffusion,
    finest: &Arc<B::Operator<T>>,
    wanted: Option<usize>,
) -> Result<Hierarchy<B, Diffusion, T>>
where
    B::Operator<T>: LineSmoother<B, T>,
{
    let mut layout = *layout_of::<B, T>(&**finest);
    let halves_lines = stencil.crossing().halves_lines(stencil.shape(), stencil.periodic());
    let matrix = backend.finest(stencil, finest)?;
    let has_bodies = backend.may_have_bodies(&matrix)?;
    // A shift or a side may hold a component weakly, and then it needs its correction in any precision; without them, what holds one is rounding.
    let is_held = stencil.has_shift() || stencil.sides().as_flattened().contains(&Side::Fixed);
    let precision = if is_held { Precision::F64 } else { T::PRECISION };
    // Finds the aggregates of level `level` (1 is the finest), unless it has none, or is the last level, which is solved exactly.
    let bodies = move |on: &B, has_bodies: bool, matrix: &B::Matrix, level: usize| {
        let grid = on.grid(matrix).shape;
        let is_solved = grid.cells() <= B::COARSEST_CELLS && wanted.is_none_or(|wanted| level >= wanted);
        if has_bodies && !is_solved { on.bodies(matrix, precision) } else { Ok(B::Bodies::default()) }
    };
    let top = backend.body_correction::<T>(&layout, bodies(backend, has_bodies, &matrix, 1)?)?;
    let (mut below, mut transfers, mut gathers) = (Vec::<Below<B, T>>::new(), Vec::new(), None);
    let (mut on, mut fine) = (backend.clone(), stencil.shape());
    let Descent { coarsest, mut notes } =
        descend(backend, matrix, wanted, halves_lines, &mut |axes, weights, matrix| {
            let Grid { shape, periodic: [_, y, _] } = backend.grid(&matrix);
            // Neighbours have one colour if a periodic direction has an odd number of rows.
            let is_odd = y && !shape.ny.is_multiple_of(2);
            let coarser = on.coarser(fine, shape, is_odd || shape.cells() <= B::COARSEST_CELLS)?;
            let (level, is_whole) = (coarser.level(), coarser.alone.is_some());
            let matrix = if is_whole { backend.whole(matrix)? } else { matrix };
            let operator = level.coarse::<T>(&matrix)?;
            layout = *layout_of::<B, T>(&*operator);
            let own = coarser.own.own_rows(shape)?.layout(shape, y)?;
            let finer = match below.last() {
                None => Finer::Finest(finest),
                Some(level) => Finer::Coarse(&level.operator),
            };
            let transfer = on.interpolation(finer, &own, weights)?;
            transfers.push(coarser.transfer(Arc::clone(&transfer) as _, &own, &layout)?);
            gathers = gathers.take().or(coarser.note(shape));
            let own_bodies = bodies(level, has_bodies, &matrix, below.len() + 2)?;
            let correction = level.body_correction(&layout, own_bodies)?;
            below.push(Below { axes, is_whole, operator, transfer, correction });
            (on, fine) = (level.clone(), shape);
            Ok(matrix)
        })?;
    notes.splice(0..0, gathers);
    let coarsest =
        coarsest.map(|matrix| DenseSolver::of(&on, &matrix, &layout, precision).map(Arc::new)).transpose()?;
    let levels = [Arc::clone(finest) as Arc<dyn LineSmoother<B, T>>]
        .into_iter()
        .chain(below.iter().map(|level| Arc::clone(&level.operator) as _))
        .collect();
    let corrections = [Some(Arc::clone(&top) as Arc<dyn Correction<B, T>>)]
        .into_iter()
        .chain(below.iter().map(|level| Some(Arc::clone(&level.correction) as _)))
        .collect();
    let shared = coarsest.clone().map(|solver| solver as Arc<dyn CoarsestSolver<B, T>>);
    let backend = backend.clone();
    let finest = Arc::clone(finest);
    let update = move |stencil: &Diffusion| {
        let mut matrix = backend.finest(stencil, &finest)?;
        let has_bodies = backend.may_have_bodies(&matrix)?;
        backend.update_bodies(&top, bodies(&backend, has_bodies, &matrix, 1)?)?;
        for (level, Below { axes, is_whole, operator, transfer, correction }) in (2..).zip(&below) {
            let weights;
            (weights, matrix) = backend.coarsen(matrix, axes)?;
            matrix = if *is_whole { backend.whole(matrix)? } else { matrix };
            backend.update_interpolation(transfer, weights)?;
            backend.update_coarse(operator, &matrix)?;
            let on = Operator::<B, T>::backend(&**operator);
            backend.update_bodies(correction, bodies(on, has_bodies, &matrix, level)?)?;
        }
        if let Some(solver) = &coarsest {
            solver.update(backend.inverse(&backend.whole(matrix)?, precision)?);
        }
        Ok(())
    };
    let visits = vec![1; transfers.len()];
    let made = Hierarchy {
        levels,
        transfers,
        corrections,
        coarsest: shared,
        by_points: 0,
        visits,
        notes,
        update: Box::new(update),
        at_once: None,
    };
    // If lines are kept whole, more visits save no iteration.
    Ok(made.visited(if halves_lines { B::visits(stencil.shape().cells()) } else { &[] }))
}

/// The solver u = G f with a dense matrix G, on aggregates of one cell each, which any back end supports.
struct DenseSolver<B: AggregateBackend> {
    backend: B,
    cells: B::Aggregates,
    inverse: RwLock<B::AggregateMatrix>,
    /// The vectors f and u of each queue.
    vectors: Vec<Mutex<[B::AggregateVector; 2]>>,
    size: usize,
}

impl<B: AggregateBackend> DenseSolver<B> {
    /// Makes the solver of a matrix, on vectors of this layout: the dense inverse, with one aggregate per cell.
    fn of(backend: &B, matrix: &B::Matrix, layout: &Layout, levels: Precision) -> Result<Self>
    where
        B: SupportsGalerkin,
    {
        let (shape, inverse) = (backend.grid(matrix).shape, RwLock::new(backend.inverse(matrix, levels)?));
        let size = shape.cells();
        let cells = AggregateMap::new(shape, (0..size as u32).collect(), size)?.of_part(layout)?;
        let vector = || backend.aggregate_vector(size);
        let vectors =
            (0..=backend.most_queues()).map(|_| Ok(Mutex::new([vector()?, vector()?]))).collect::<Result<_>>()?;
        Ok(Self { backend: backend.clone(), cells: backend.aggregates(&cells)?, inverse, vectors, size })
    }

    /// Takes the inverse of another matrix of this size.
    fn update(&self, inverse: B::AggregateMatrix) {
        *write(&self.inverse) = inverse;
    }
}

impl<B: AggregateBackend, T: Real> CoarsestSolver<B, T> for DenseSolver<B> {
    fn solve(&self, f: &B::Vector<T>, u: &mut B::Vector<T>) -> Result<()> {
        // The vectors are overwritten completely before they are read, so a panic elsewhere does no harm.
        let inverse = read(&self.inverse);
        let mut vectors = lock(&self.vectors[queue::current()]);
        self.backend.multiply_cells(&self.cells, &inverse, &mut vectors, f, u)
    }

    fn bytes(&self) -> usize {
        self.size * self.size * size_of::<f64>()
    }

    fn needs_host(&self) -> bool {
        self.backend.sums_on_host()
    }
}
