//! Deflation: taking a few slow directions out of an iteration (Nicolaides, 1987; paper D, section 4).

use std::sync::Arc;

use faer::Side;
use faer::linalg::solvers::Solve;
use faer::sparse::linalg::solvers::Llt;
use faer::sparse::{SparseColMat, Triplet};

use crate::backend::{Backend, Slot};
use crate::disjoint_sets::DisjointSets;
use crate::error::{Error, Result};
use crate::null_space::Parts;
use crate::options::{CoarseSolve, DeflationOptions, Stripes};
use crate::real::Real;
use crate::region::{RegionBackend, RegionMap, RegionOperator};
use crate::stencil::{Axis, Diffusion};

/// What deflation adds to conjugate gradients.
pub trait Projection<B: Backend, T: Real>: Send {
    /// q = P q with P = I − A Z E⁻¹ Zᵀ;  σ = ⟨p, q⟩
    ///
    /// # Errors
    /// What the device reports.
    fn project(&mut self, p: &B::Vector<T>, q: &mut B::Vector<T>, sigma: Slot, scalars: &mut B::Scalars) -> Result<()>;

    /// u += Z E⁻¹ Zᵀ r, after which Zᵀ(b − A u) = 0 if r was b − A u
    ///
    /// # Errors
    /// What the device reports.
    fn correct(&mut self, r: &B::Vector<T>, u: &mut B::Vector<T>) -> Result<()>;

    /// Whether [`Projection::project`] computes on the host, so that a device cannot record it.
    fn needs_host(&self) -> bool;
}

/// Sub-domain deflation: the columns of Z are the indicator vectors of regions, E = Zᵀ A Z.
///
/// A Z is never stored: (A Z a)_n is the operator's row applied to numbers that are constant over each
/// region. E is sparse, as regions have few neighbours, and so is its Cholesky factor L. Each
/// application either solves with L on the host, or multiplies with E⁻¹ on the device; E⁻¹ comes from L at
/// the price of one solve a region, which even for thousands of regions is cheap.
pub struct Deflation<B: RegionBackend, A> {
    operator: Arc<A>,
    regions: B::Regions,
    coarse: Coarse<B>,
    sums: B::RegionVector,
    solution: B::RegionVector,
}

enum Coarse<B: RegionBackend> {
    Inverse(B::RegionMatrix),
    Triangular { factor: Box<Llt<usize, f64>>, host: faer::Mat<f64> },
}

/// With more regions, reading E⁻¹ takes as long as a visit to the host, and making it far longer.
const LARGEST_INVERSE: usize = 2048;

impl<B: RegionBackend, A> Deflation<B, A> {
    /// Deflation of `stencil`, whose `operator` that is, as the options ask.
    ///
    /// # Errors
    /// Those of [`regions`]; [`Error::Invalid`] where E cannot be factorised; as [`Backend::zeros`].
    pub fn new(backend: &B, stencil: &Diffusion, operator: Arc<A>, options: &DeflationOptions) -> Result<Self> {
        let map = without_null_space(regions(stencil, &options.stripes)?, &Parts::of(stencil));
        let count = map.count();
        let factor = factorise(&galerkin(stencil, &map), count)?;
        let inverse = match options.coarse {
            CoarseSolve::Inverse => true,
            CoarseSolve::Triangular => false,
            CoarseSolve::Auto => count <= LARGEST_INVERSE,
        };
        let coarse = if inverse {
            let entries = inverse_entries(&factor, count);
            Coarse::Inverse(backend.region_matrix(count, &entries)?)
        } else {
            Coarse::Triangular { factor: Box::new(factor), host: faer::Mat::zeros(count, 1) }
        };
        Ok(Self {
            operator,
            regions: backend.regions(&map)?,
            coarse,
            sums: backend.region_vector(count)?,
            solution: backend.region_vector(count)?,
        })
    }

    /// solution = sign · E⁻¹ Zᵀ x
    fn solve<T: Real>(&mut self, x: &B::Vector<T>) -> Result<()>
    where
        A: RegionOperator<B, T>,
    {
        let Self { operator, regions, coarse, sums, solution } = self;
        let backend = operator.backend();
        backend.region_sums(x, regions, sums)?;
        match coarse {
            Coarse::Inverse(inverse) => backend.region_multiply(inverse, sums, solution),
            Coarse::Triangular { factor, host } => {
                let column = host.col_as_slice_mut(0);
                backend.read_regional(sums, column)?;
                factor.solve_in_place(host.as_mut());
                backend.write_regional(host.col_as_slice(0), solution)
            }
        }
    }
}

impl<B: RegionBackend, A: RegionOperator<B, T>, T: Real> Projection<B, T> for Deflation<B, A> {
    fn project(&mut self, p: &B::Vector<T>, q: &mut B::Vector<T>, sigma: Slot, scalars: &mut B::Scalars) -> Result<()> {
        self.solve(q)?;
        self.operator.subtract_regional(&self.regions, &self.solution, p, q, sigma, scalars)
    }

    fn correct(&mut self, r: &B::Vector<T>, u: &mut B::Vector<T>) -> Result<()> {
        self.solve(r)?;
        self.operator.backend().add_regional(&self.regions, &self.solution, u)
    }

    fn needs_host(&self) -> bool {
        matches!(self.coarse, Coarse::Triangular { .. })
    }
}

/// The regions that options name; inactive cells belong to none.
///
/// # Errors
/// [`Error::Invalid`] for more blocks than cells in a direction, or more regions than is sensible.
pub fn regions(stencil: &Diffusion, stripes: &Stripes) -> Result<RegionMap> {
    let shape = stencil.shape();
    let extents = [shape.nx, shape.ny, shape.nz];
    let map = match *stripes {
        Stripes::HalfRows => in_blocks(stencil, [2.min(shape.nx), shape.ny, shape.nz]),
        Stripes::Blocks(blocks) => {
            if let Some(d) = (0..3).find(|&d| blocks[d] == 0 || blocks[d] > extents[d]) {
                return Err(Error::invalid(
                    "solver.deflation.stripes",
                    format!(
                        "{} blocks in {}, which has {} cells; use 1 to {}",
                        blocks[d],
                        ["x", "y", "z"][d],
                        extents[d],
                        extents[d]
                    ),
                ));
            }
            in_blocks(stencil, blocks)
        }
        Stripes::Bodies => bodies(stencil),
    };
    if map.count() > MOST_REGIONS {
        return Err(Error::invalid(
            "solver.deflation.stripes",
            format!(
                "{} deflation vectors; more than {MOST_REGIONS} cost more than they save. Use blocks, such as {{ blocks = [16, 16, 1] }}",
                map.count()
            ),
        ));
    }
    Ok(map)
}

/// Beyond this even a sparse E is a problem in its own right.
const MOST_REGIONS: usize = 1 << 16;

/// Boxes of cells, as equal as can be.
fn in_blocks(stencil: &Diffusion, blocks: [usize; 3]) -> RegionMap {
    let shape = stencil.shape();
    let of = |d: usize, extent: usize| -> Vec<u32> { (0..extent).map(|n| (n * blocks[d] / extent) as u32).collect() };
    let (of_x, of_y, of_z) = (of(0, shape.nx), of(1, shape.ny), of(2, shape.nz));
    let [bx, by, _] = blocks.map(|count| count as u32);
    let mut ids = Vec::with_capacity(shape.cells());
    for z in of_z {
        for y in &of_y {
            ids.extend(of_x.iter().map(|x| x + bx * (y + by * z)));
        }
    }
    if !stencil.is_one_piece() {
        for (id, at) in ids.iter_mut().zip(stencil.cells()) {
            if !stencil.is_active(at) {
                *id = RegionMap::NONE;
            }
        }
    }
    RegionMap::from_parts(shape, ids, blocks.iter().product()).compacted()
}

/// Connected bodies: neighbours belong together where their diagonals differ by less than the square root
/// of the contrast between them, so that a bubble is one body and the liquid around it another.
fn bodies(stencil: &Diffusion) -> RegionMap {
    /// Coefficients that differ less than so many times are one material.
    const ONE_MATERIAL: f64 = 10.0;
    let mut sets = DisjointSets::new(stencil.shape().cells());
    for at in stencil.cells() {
        for axis in Axis::ALL {
            let Some(upper) = stencil.upper(axis, at) else { continue };
            let (a, b) = (stencil.half(axis, at), stencil.half(axis, upper));
            if a.min(b) > 0.0 && a.max(b) < ONE_MATERIAL * a.min(b) {
                sets.union(stencil.cell(at), stencil.cell(upper));
            }
        }
    }
    let active: Vec<bool> = stencil.cells().map(|at| stencil.is_active(at)).collect();
    sets.regions(stencil.shape(), |cell| active[cell])
}

/// Leaves out one region of every combination of regions that A maps to zero: with it, E would be
/// singular.
fn without_null_space(map: RegionMap, parts: &Parts) -> RegionMap {
    if parts.anchored.iter().all(|&anchored| anchored) {
        return map;
    }
    // If Z a lies in the null space, a is the same in all regions that meet in a floating part, and zero in
    // regions that meet an anchored one or share a floating part with cells of no region.
    let zero = map.count();
    let mut sets = DisjointSets::new(zero + 1);
    let mut first: Vec<Option<usize>> = parts.anchored.iter().map(|&anchored| anchored.then_some(zero)).collect();
    for cell in 0..map.ids().len() {
        let Some(part) = parts.all.region(cell) else { continue };
        let region = map.region(cell).unwrap_or(zero);
        sets.union(region, *first[part].get_or_insert(region));
    }
    let with_zero = sets.find(zero);
    let dropped: Vec<bool> = (0..zero).map(|region| sets.find(region) == region && region != with_zero).collect();
    map.filtered(|region| !dropped[region])
}

/// E = Zᵀ A Z, as triplets of its lower triangle.
fn galerkin(stencil: &Diffusion, map: &RegionMap) -> Vec<Triplet<usize, usize, f64>> {
    let mut diagonal = vec![0.0; map.count()];
    let mut off = std::collections::HashMap::<(u32, u32), f64>::new();
    let ids = map.ids();
    stencil.for_each_shift(|cell, shift| {
        if ids[cell] != RegionMap::NONE {
            diagonal[ids[cell] as usize] += shift;
        }
    });
    stencil.for_each_open_face(|lower, upper, t| {
        let (here, there) = (ids[lower], ids[upper]);
        if here == there {
            return;
        }
        for region in [here, there].into_iter().filter(|&region| region != RegionMap::NONE) {
            diagonal[region as usize] += t;
        }
        if here != RegionMap::NONE && there != RegionMap::NONE {
            *off.entry((here.max(there), here.min(there))).or_default() -= t;
        }
    });
    let diagonal = diagonal.into_iter().enumerate().map(|(n, val)| Triplet { row: n, col: n, val });
    let off = off.into_iter().map(|((row, col), val)| Triplet { row: row as usize, col: col as usize, val });
    diagonal.chain(off).collect()
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

fn factorise(lower: &[Triplet<usize, usize, f64>], count: usize) -> Result<Llt<usize, f64>> {
    let singular = || {
        Error::invalid(
            "solver.deflation.stripes",
            format!(
                "the deflation matrix E = Zᵀ A Z of {count} vectors is not positive definite to rounding; use fewer, \
                 larger blocks, or a smaller contrast"
            ),
        )
    };
    let matrix = SparseColMat::try_new_from_triplets(count, count, lower).map_err(|_| singular())?;
    matrix.sp_cholesky(Side::Lower).map_err(|_| singular())
}
