//! Deflation: taking a few slow directions out of an iteration (Nicolaides, 1987; paper D, section 4).

use std::sync::Arc;

use faer::Side;
use faer::linalg::solvers::Solve;
use faer::sparse::linalg::solvers::Llt;
use faer::sparse::{SparseColMat, Triplet};

use crate::backend::{AggregateBackend, AggregateMap, Backend, Scalar};
use crate::disjoint_sets::DisjointSets;
use crate::error::{Error, Result};
use crate::layout::Shape;
use crate::operator::AggregateOperator;
use crate::operator::aggregate::{Components, Entry};
use crate::options::{self, CoarseSolve, Stripes};
use crate::real::Real;

/// What deflation adds to conjugate gradients.
pub trait Projection<B: Backend, T: Real>: Send {
    /// q = P q with P = I − A Z E⁻¹ Zᵀ;  σ = ⟨p, q⟩
    ///
    /// # Errors
    /// What the device reports.
    fn project(
        &mut self,
        p: &B::Vector<T>,
        q: &mut B::Vector<T>,
        sigma: Scalar,
        scalars: &mut B::Scalars,
    ) -> Result<()>;

    /// u += Z E⁻¹ Zᵀ r, after which Zᵀ(b − A u) = 0 if r was b − A u
    ///
    /// # Errors
    /// What the device reports.
    fn correct(&mut self, r: &B::Vector<T>, u: &mut B::Vector<T>) -> Result<()>;

    /// Computes E anew, after the matrix has got other coefficients.
    ///
    /// # Errors
    /// [`Error::Invalid`] where E cannot be factorised; what the device reports.
    fn update(&mut self) -> Result<()>;

    /// Whether [`Projection::project`] computes on the host, so that a device cannot record it.
    fn needs_host(&self) -> bool;
}

/// Sub-domain deflation: the columns of Z are the indicator vectors of aggregates, E = Zᵀ A Z.
///
/// A Z is never stored: (A Z a)_n is the operator's row applied to numbers that are constant over each
/// aggregate. E is sparse, as aggregates have few neighbours, and so is its Cholesky factor L. Each
/// application either solves with L on the host, or multiplies with E⁻¹ on the device; E⁻¹ comes from L at
/// the price of one solve an aggregate, which even for thousands of aggregates is cheap.
pub struct Deflation<B: AggregateBackend, T: Real> {
    operator: Arc<dyn AggregateOperator<B, T>>,
    options: options::Deflation,
    aggregates: B::Aggregates,
    coarse: Coarse<B>,
    sums: B::AggregateVector,
    solution: B::AggregateVector,
}

enum Coarse<B: AggregateBackend> {
    Inverse(B::AggregateMatrix),
    Triangular { factor: Box<Llt<usize, f64>>, host: faer::Mat<f64> },
}

/// With more aggregates, reading E⁻¹ takes as long as a visit to the host, and making it far longer.
const LARGEST_INVERSE: usize = 2048;

impl<B: AggregateBackend, T: Real> Deflation<B, T> {
    /// Deflation of a matrix, as the options ask.
    ///
    /// # Errors
    /// [`Error::Invalid`] for more blocks than cells in a direction, more aggregates than is sensible, or an E that cannot
    /// be factorised; as [`Backend::zeros`].
    pub fn new(operator: Arc<dyn AggregateOperator<B, T>>, options: &options::Deflation) -> Result<Self> {
        let backend = operator.backend();
        let components = operator.components()?;
        let map = match options.stripes {
            Stripes::Bodies => operator.bodies()?,
            ref stripes => in_blocks(blocks(stripes, operator.layout().shape())?, components.as_ref(), &*operator),
        };
        if map.count() > MOST_AGGREGATES {
            return Err(Error::invalid(
                "solver.deflation.stripes",
                format!(
                    "{} deflation vectors; more than {MOST_AGGREGATES} cost more than they save. Use blocks, such as \
                     {{ blocks = [16, 16, 1] }}",
                    map.count()
                ),
            ));
        }
        let map = match &components {
            Some(components) => without_null_space(map, components),
            None => map,
        };
        let count = map.count();
        let is_inverse = match options.coarse {
            CoarseSolve::Inverse => true,
            CoarseSolve::Triangular => false,
            CoarseSolve::Auto => count <= LARGEST_INVERSE,
        };
        if is_inverse && count > LARGEST_INVERSE_ASKED_FOR {
            return Err(Error::invalid(
                "solver.deflation.coarse",
                format!(
                    "the inverse of a matrix of {count} deflation vectors takes {:.1} GB; use \"triangular\", or fewer \
                     vectors",
                    (count as f64).powi(2) * 8e-9
                ),
            ));
        }
        let factor = factorise(&operator.galerkin(&map)?, count)?;
        let coarse = if is_inverse {
            Coarse::Inverse(backend.aggregate_matrix(count, &inverse_entries(&factor, count))?)
        } else {
            Coarse::Triangular { factor: Box::new(factor), host: faer::Mat::zeros(count, 1) }
        };
        Ok(Self {
            aggregates: backend.aggregates(&map)?,
            coarse,
            sums: backend.aggregate_vector(count)?,
            solution: backend.aggregate_vector(count)?,
            options: options.clone(),
            operator,
        })
    }

    /// solution = E⁻¹ Zᵀ x
    fn solve(&mut self, x: &B::Vector<T>) -> Result<()> {
        let Self { operator, aggregates, coarse, sums, solution, .. } = self;
        let backend = operator.backend();
        backend.aggregate_sums(x, aggregates, sums)?;
        match coarse {
            Coarse::Inverse(inverse) => backend.aggregate_multiply(inverse, sums, solution),
            Coarse::Triangular { factor, host } => {
                let column = host.col_as_slice_mut(0);
                backend.read_aggregated(sums, column)?;
                factor.solve_in_place(host.as_mut());
                backend.write_aggregated(host.col_as_slice(0), solution)
            }
        }
    }
}

impl<B: AggregateBackend, T: Real> Projection<B, T> for Deflation<B, T> {
    fn project(
        &mut self,
        p: &B::Vector<T>,
        q: &mut B::Vector<T>,
        sigma: Scalar,
        scalars: &mut B::Scalars,
    ) -> Result<()> {
        self.solve(q)?;
        self.operator.subtract_aggregated(&self.aggregates, &self.solution, p, q, sigma, scalars)
    }

    fn correct(&mut self, r: &B::Vector<T>, u: &mut B::Vector<T>) -> Result<()> {
        self.solve(r)?;
        self.operator.backend().add_aggregated(&self.aggregates, &self.solution, u)
    }

    /// Bodies and components depend on the coefficients as well, so all is made anew.
    fn update(&mut self) -> Result<()> {
        *self = Self::new(Arc::clone(&self.operator), &self.options)?;
        Ok(())
    }

    fn needs_host(&self) -> bool {
        matches!(self.coarse, Coarse::Triangular { .. })
    }
}

/// How many blocks the options ask for in each direction.
fn blocks(stripes: &Stripes, shape: Shape) -> Result<[usize; 3]> {
    let extents = [shape.nx, shape.ny, shape.nz];
    let Stripes::Blocks(blocks) = *stripes else { return Ok([2.min(shape.nx), shape.ny, shape.nz]) };
    match (0..3).find(|&d| blocks[d] == 0 || blocks[d] > extents[d]) {
        None => Ok(blocks),
        Some(d) => Err(Error::invalid(
            "solver.deflation.stripes",
            format!(
                "{} blocks in {}, which has {} cells; use 1 to {}",
                blocks[d],
                ["x", "y", "z"][d],
                extents[d],
                extents[d]
            ),
        )),
    }
}

/// Beyond this even a sparse E is a problem in its own right.
const MOST_AGGREGATES: usize = 1 << 16;
/// Beyond this the inverse takes more memory (2 GiB) than a user can have meant.
const LARGEST_INVERSE_ASKED_FOR: usize = 1 << 14;

/// Boxes of cells, as equal as can be; inactive cells belong to none.
fn in_blocks<B: AggregateBackend, T: Real>(
    blocks: [usize; 3],
    components: Option<&Components>,
    operator: &dyn AggregateOperator<B, T>,
) -> AggregateMap {
    let shape = operator.layout().shape();
    let of = |d: usize, extent: usize| -> Vec<u32> { (0..extent).map(|n| (n * blocks[d] / extent) as u32).collect() };
    let (of_x, of_y, of_z) = (of(0, shape.nx), of(1, shape.ny), of(2, shape.nz));
    let [bx, by, _] = blocks.map(|count| count as u32);
    let mut ids = Vec::with_capacity(shape.cells());
    for z in of_z {
        for y in &of_y {
            ids.extend(of_x.iter().map(|x| x + bx * (y + by * z)));
        }
    }
    if let Some(components) = components {
        for (id, &component) in ids.iter_mut().zip(components.all.ids()) {
            if component == AggregateMap::NONE {
                *id = AggregateMap::NONE;
            }
        }
    }
    AggregateMap::from_parts(shape, ids, blocks.iter().product()).compacted()
}

/// Leaves out one aggregate of every combination of aggregates that A maps to zero: with it, E would be
/// singular.
fn without_null_space(map: AggregateMap, components: &Components) -> AggregateMap {
    if components.anchored.iter().all(|&anchored| anchored) {
        return map;
    }
    // If Z a lies in the null space, a is the same in all aggregates that meet in a floating component, and zero in
    // aggregates that meet an anchored one or share a floating component with cells of no aggregate.
    let zero = map.count();
    let mut sets = DisjointSets::new(zero + 1);
    let mut first: Vec<Option<usize>> = components.anchored.iter().map(|&anchored| anchored.then_some(zero)).collect();
    for cell in 0..map.ids().len() {
        let Some(component) = components.all.aggregate(cell) else { continue };
        let aggregate = map.aggregate(cell).unwrap_or(zero);
        sets.union(aggregate, *first[component].get_or_insert(aggregate));
    }
    let with_zero = sets.find(zero);
    let dropped: Vec<bool> = (0..zero).map(|n| sets.find(n) == n && n != with_zero).collect();
    map.filtered(|aggregate| !dropped[aggregate])
}

/// E⁻¹, which is symmetric, so that its columns one after another are its rows one after another.
fn inverse_entries(factor: &Llt<usize, f64>, count: usize) -> Vec<f64> {
    /// Columns solved for at once: enough for the solver's kernels, few enough for the cache.
    const BATCH: usize = 32;
    let mut entries = Vec::with_capacity(count * count);
    for first in (0..count).step_by(BATCH) {
        let columns = BATCH.min(count - first);
        let mut batch = faer::Mat::<f64>::from_fn(count, columns, |row, col| f64::from(u8::from(row == first + col)));
        factor.solve_in_place(batch.as_mut());
        (0..columns).for_each(|col| entries.extend_from_slice(batch.col_as_slice(col)));
    }
    entries
}

fn factorise(lower: &[Entry], count: usize) -> Result<Llt<usize, f64>> {
    let singular = || {
        Error::invalid(
            "solver.deflation.stripes",
            format!(
                "the deflation matrix E = Zᵀ A Z of {count} vectors is not positive definite to rounding; use fewer, \
                 larger blocks, or a smaller contrast"
            ),
        )
    };
    let triplets: Vec<Triplet<usize, usize, f64>> =
        lower.iter().map(|&Entry { row, column, value }| Triplet { row, col: column, val: value }).collect();
    let matrix = SparseColMat::try_new_from_triplets(count, count, &triplets).map_err(|_| singular())?;
    matrix.sp_cholesky(Side::Lower).map_err(|_| singular())
}
