//! Deflation: removing a few slow directions from an iteration (Nicolaides, 1987; paper D, section 4).

use std::sync::Arc;

use crate::backend::AggregateBackend;
use crate::disjoint_sets::DisjointSets;
use crate::elimination::{Elimination, places};
use crate::operator::AggregateOperator;
use crate::operator::aggregate::{Components, Entry};
use crate::options::{self, CoarseSolve, Stripes};
use crate::{AggregateMap, Error, Real, Result, Serial, Shape, Sum};

/// Subdomain deflation: the columns of Z are the indicator vectors of aggregates, E = Zᵀ A Z.
///
/// A Z is never stored: (A Z a)_n is the operator's row applied to numbers that are constant over each aggregate. E is sparse, as aggregates
/// have few neighbours, and so are its triangular factors. Each application either solves with these on the host, or multiplies with E⁻¹ on
/// the device; E⁻¹ costs one solve for each aggregate, which is cheap even for thousands of aggregates.
pub struct Deflation<B: AggregateBackend, T: Real> {
    operator: Arc<dyn AggregateOperator<B, T>>,
    shape: Shape,
    options: options::Deflation,
    /// The aggregates and E; nothing if large bodies are useless: too few, or with an E that cannot be factorised.
    vectors: Option<Vectors<B>>,
}

struct Vectors<B: AggregateBackend> {
    count: usize,
    aggregates: B::Aggregates,
    coarse: Coarse<B>,
    sums: B::AggregateVector,
    solution: B::AggregateVector,
}

enum Coarse<B: AggregateBackend> {
    Inverse { matrix: B::AggregateMatrix, passes: usize },
    Triangular { matrix: Box<CoarseMatrix>, host: Columns<1> },
}

/// The most aggregates for E⁻¹: with more, reading E⁻¹ takes as long as a round trip to the host, and computing it far longer.
const LARGEST_INVERSE: usize = 2048;

/// The memory of a [`Deflation`]. B
pub(crate) struct Sizes {
    /// Sets of cells, and faces of a direction, while aggregates are found on the host.
    pub(crate) search: f64,
    /// E and its factor on the host.
    pub(crate) sparse: f64,
    /// E⁻¹ on the device, and before that on the host; zero if E is factored.
    pub(crate) inverse: f64,
    /// Runs of cells of the same aggregate.
    pub(crate) runs: f64,
    /// The aggregate of each cell.
    pub(crate) map: f64,
}

/// Predicts the memory of deflation on a grid; bodies, whose number is not known before they are found, count as 64.
pub(crate) fn sizes(shape: Shape, options: &options::Deflation) -> Sizes {
    let (cells, lines) = (shape.cells() as f64, (shape.ny * shape.nz) as f64);
    let (across, count) = match options.stripes {
        Stripes::HalfRows => (2.0, 2.0 * lines),
        Stripes::Blocks(blocks) => (blocks[0] as f64, blocks.iter().map(|&count| count as f64).product()),
        Stripes::Bodies | Stripes::LargeBodies => (8.0, 64.0),
    };
    let is_inverse = match options.coarse {
        CoarseSolve::Auto => count <= LARGEST_INVERSE as f64,
        coarse => coarse == CoarseSolve::Inverse,
    };
    Sizes {
        search: 20.0 * cells,
        sparse: 450.0 * count,
        inverse: if is_inverse { 8.0 * count * count } else { 0.0 },
        runs: 64.0 * lines * (across + 2.0),
        map: 4.0 * cells,
    }
}

impl<B: AggregateBackend> Vectors<B> {
    fn new<T: Real>(
        operator: &dyn AggregateOperator<B, T>,
        shape: Shape,
        options: &options::Deflation,
    ) -> Result<Option<Self>> {
        let backend = operator.backend();
        let components = operator.components()?;
        let is_optional = options.stripes == Stripes::LargeBodies;
        let map = match options.stripes {
            Stripes::Bodies => operator.bodies()?,
            Stripes::LargeBodies => match large_bodies(operator)? {
                Some(bodies) => bodies,
                None => return Ok(None),
            },
            ref stripes => in_blocks(shape, blocks(stripes, shape)?, components.as_ref()),
        };
        Error::unless(map.count() <= MOST_AGGREGATES, "solver.deflation.stripes", || {
            format!(
                "{} deflation vectors; more than {MOST_AGGREGATES} cost more than they save. Use blocks, such as \
                 {{ blocks = [16, 16, 1] }}",
                map.count()
            )
        })?;
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
        Error::unless(!is_inverse || count <= LARGEST_INVERSE_ASKED_FOR, "solver.deflation.coarse", || {
            let size = (count as f64).powi(2) * 8e-9;
            format!(
                "the inverse of a matrix of {count} deflation vectors takes {size:.1} GB; use \"triangular\", or fewer vectors"
            )
        })?;
        let matrix = match CoarseMatrix::new(&operator.galerkin(&map)?, count) {
            Err(Error::Invalid { .. }) if is_optional => return Ok(None),
            matrix => matrix?,
        };
        let coarse = if is_inverse {
            let passes = if matrix.refinements > 0 { 2 } else { 1 };
            Coarse::Inverse { matrix: backend.aggregate_matrix(count, &matrix.inverse_entries())?, passes }
        } else {
            Coarse::Triangular { matrix: Box::new(matrix), host: Columns::new(count) }
        };
        Ok(Some(Self {
            count,
            aggregates: backend.aggregates(&map.on(operator.layout())?)?,
            coarse,
            sums: backend.aggregate_vector(count)?,
            solution: backend.aggregate_vector(count)?,
        }))
    }

    /// Computes solution = E⁻¹ Zᵀ x.
    fn solve<T: Real>(&mut self, backend: &B, x: &B::Vector<T>) -> Result<()> {
        let Self { aggregates, coarse, sums, solution, .. } = self;
        backend.aggregate_sums(x, aggregates, sums)?;
        match coarse {
            Coarse::Inverse { matrix, .. } => backend.aggregate_multiply(matrix, sums, solution),
            Coarse::Triangular { matrix, host } => {
                backend.read_aggregated(sums, host.x.as_flattened_mut())?;
                matrix.solve(host);
                backend.write_aggregated(host.x.as_flattened(), solution)
            }
        }
    }
}

impl<B: AggregateBackend, T: Real> Deflation<B, T> {
    /// Makes the deflation that the options request, for a matrix of a grid with this shape, of which the operator may have a
    /// subdomain.
    ///
    /// # Errors
    /// [`Error::Invalid`] for more blocks than cells in a direction, too many aggregates, or an E that cannot be factorised; see
    /// [`Backend::zeros`](crate::backend::Backend::zeros).
    pub fn new(operator: Arc<dyn AggregateOperator<B, T>>, shape: Shape, options: &options::Deflation) -> Result<Self> {
        let vectors = Vectors::new(&*operator, shape, options)?;
        Ok(Self { operator, shape, options: options.clone(), vectors })
    }

    /// Returns why nothing is deflated, if there are no vectors.
    pub fn why_idle(&self) -> Option<&'static str> {
        match &self.vectors {
            None => Some(
                "solver.deflation has no effect: fewer than two bodies of one material have 32 cells or more, or the matrix E of such bodies is \
                 singular to rounding",
            ),
            Some(Vectors { count: 0, .. }) => {
                Some("solver.deflation has no effect: its one vector is constant where nothing fixes the solution")
            }
            Some(_) => None,
        }
    }

    /// q = P q with P = I − A Z E⁻¹ Zᵀ;  σ = ⟨p, q⟩
    pub fn project(&mut self, p: &B::Vector<T>, q: &mut B::Vector<T>, (sigma, scalars): Sum<'_, B>) -> Result<()> {
        let passes = self.passes();
        let Some(vectors) = &mut self.vectors else { return Ok(()) };
        for _ in 0..passes {
            vectors.solve(self.operator.backend(), q)?;
            let Vectors { aggregates, solution, .. } = &*vectors;
            self.operator.subtract_aggregated(aggregates, solution, p, q, sigma.of(scalars))?;
        }
        Ok(())
    }

    /// Returns how often [`Deflation::correct`] must be applied to a residual, until Zᵀr is rounding.
    pub fn passes(&self) -> usize {
        match self.vectors.as_ref().map(|vectors| &vectors.coarse) {
            Some(&Coarse::Inverse { passes, .. }) => passes,
            Some(Coarse::Triangular { .. }) => 1,
            None => 0,
        }
    }

    /// u += Z E⁻¹ Zᵀ r, after which Zᵀ(b − A u) = 0 if r was b − A u
    pub fn correct(&mut self, r: &B::Vector<T>, u: &mut B::Vector<T>) -> Result<()> {
        let Some(vectors) = &mut self.vectors else { return Ok(()) };
        let backend = self.operator.backend();
        vectors.solve(backend, r)?;
        backend.add_aggregated(&vectors.aggregates, &vectors.solution, u)
    }

    /// Computes everything again after a change of the coefficients, on which bodies and components depend too.
    ///
    /// # Errors
    /// The errors of [`Deflation::new`].
    pub fn update(&mut self) -> Result<()> {
        self.vectors = Vectors::new(&*self.operator, self.shape, &self.options)?;
        Ok(())
    }

    /// Returns whether [`Deflation::project`] computes on the host, so that a device cannot record it.
    pub fn needs_host(&self) -> bool {
        let is_triangular = |vectors: &Vectors<B>| matches!(vectors.coarse, Coarse::Triangular { .. });
        self.vectors.as_ref().is_some_and(|vectors| is_triangular(vectors) || self.operator.backend().sums_on_host())
    }
}

/// Returns the number of blocks in each direction.
fn blocks(stripes: &Stripes, shape: Shape) -> Result<[usize; 3]> {
    let extents = shape.extents();
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

/// The most aggregates: beyond them even a sparse E is a problem in its own right.
const MOST_AGGREGATES: usize = 1 << 16;
/// The most aggregates for which a user may request the inverse: beyond them it takes more than 2 GiB.
const LARGEST_INVERSE_ASKED_FOR: usize = 1 << 14;

/// The fewest cells of a body that multigrid may be slow for; it corrects smaller ones by itself, though not as well.
const LARGE: usize = 32;

/// Returns the largest bodies of one material, as many as a product with E⁻¹ can take in little time beside a cycle of multigrid; nothing if
/// fewer than two have enough cells for multigrid to be slow for them.
pub(crate) fn large_bodies<B: AggregateBackend, T: Real>(
    operator: &dyn AggregateOperator<B, T>,
) -> Result<Option<AggregateMap>> {
    let bodies = operator.bodies()?;
    let sizes = bodies.sizes();
    let mut large: Vec<usize> = (0..sizes.len()).filter(|&body| sizes[body] > 1).collect();
    large.sort_by_key(|&body| std::cmp::Reverse(sizes[body]));
    large.truncate(LARGEST_INVERSE.min(2 * bodies.shape().cells().isqrt()));
    let mut is_kept = vec![false; sizes.len()];
    large.iter().for_each(|&body| is_kept[body] = true);
    let are_several = large.get(1).is_some_and(|&second| sizes[second] >= LARGE);
    Ok(are_several.then(|| bodies.of_kept(&is_kept, &Serial)))
}

/// Makes boxes of cells, as equal as possible; inactive cells belong to none.
fn in_blocks(shape: Shape, blocks: [usize; 3], components: Option<&Components>) -> AggregateMap {
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

/// Leaves out one aggregate of every combination of aggregates that A maps to zero, with which E would be singular.
fn without_null_space(map: AggregateMap, components: &Components) -> AggregateMap {
    if components.anchored.iter().all(|&anchored| anchored) {
        return map;
    }
    // If Z a lies in the null space, a is the same in all aggregates that overlap a floating component, and zero in aggregates
    // that overlap another one or share a floating component with cells without an aggregate.
    let zero = map.count();
    let mut sets = DisjointSets::new(&Serial, zero + 1);
    let sets = sets.joins();
    let mut first: Vec<Option<usize>> = components.anchored.iter().map(|&anchored| anchored.then_some(zero)).collect();
    for cell in 0..map.ids().len() {
        let Some(component) = components.all.aggregate(cell) else { continue };
        let aggregate = map.aggregate(cell).unwrap_or(zero);
        sets.join(aggregate as u32, *first[component].get_or_insert(aggregate) as u32);
    }
    let with_zero = sets.first(zero as u32);
    let dropped: Vec<bool> = (0..zero as u32).map(|n| sets.first(n) == n && n != with_zero).collect();
    map.filtered(|aggregate| !dropped[aggregate])
}

/// E with its triangular factors.
struct CoarseMatrix {
    factors: Elimination,
    /// The sums of rows, in the order of elimination.
    sums: Vec<f64>,
    /// Entries of E: row, column below it, and the positive coupling between them.
    couplings: Vec<(usize, usize, f64)>,
    /// Steps of iterative refinement of a solution.
    refinements: usize,
}

/// W right-hand sides that become solutions, and scratch.
struct Columns<const W: usize> {
    x: Vec<[f64; W]>,
    residual: Vec<[f64; W]>,
    step: Vec<[f64; W]>,
}

impl<const W: usize> Columns<W> {
    fn new(count: usize) -> Self {
        let zeros = || vec![[0.0; W]; count];
        Self { x: zeros(), residual: zeros(), step: zeros() }
    }
}

/// The largest amplification of rounding by products with E⁻¹; beyond it solutions are refined, and where E⁻¹ is stored, a
/// projection is applied twice, which squares the remaining error. (Half rows of paper D's squares have 10³ at n = 32 and 10⁵ at
/// 256.)
const MOST_AMPLIFIED: f64 = 1e6;
/// The steps of iterative refinement of a solution with E. With a contrast of c in a hundred blocks, a Cholesky factor alone left an error
/// of about 10⁴ c ε in the slowest vector, which must vanish: an iteration takes the remainder for an eigenvalue next to zero.
const REFINEMENTS: usize = 2;

impl CoarseMatrix {
    fn new(entries: &[Entry], count: usize) -> Result<Self> {
        let singular = || {
            Error::invalid(
                "solver.deflation.stripes",
                format!(
                    "the deflation matrix E = Zᵀ A Z of {count} vectors is not positive definite to rounding; use fewer, \
                     larger blocks, or a smaller contrast"
                ),
            )
        };
        let mut sums = vec![0.0; count];
        let mut couplings = Vec::new();
        for &Entry { row, column, value } in entries {
            if row == column {
                sums[row] = value;
            } else {
                couplings.push((row, column, -value));
            }
        }
        // A fixed order makes rounding reproducible.
        couplings.sort_unstable_by_key(|&(row, column, _)| (row, column));
        let factors = Elimination::new(&sums, &couplings).ok_or_else(singular)?;
        let places = places(&factors.order);
        for (row, column, _) in &mut couplings {
            (*row, *column) = (places[*row] as usize, places[*column] as usize);
        }
        let sums = factors.order.iter().map(|&n| sums[n as usize]).collect();
        let mut this = Self { factors, sums, couplings, refinements: 0 };
        if this.amplification() > MOST_AMPLIFIED {
            this.refinements = REFINEMENTS;
        }
        Ok(this)
    }

    /// x = E⁻¹ x, column by column.
    ///
    /// Each step adds E⁻¹ r to x and subtracts E times that from the residual r: the remainder consists of couplings times
    /// differences, exact where these are almost constant, as in slow vectors.
    fn solve<const W: usize>(&self, Columns { x, residual, step }: &mut Columns<W>) {
        for (residual, &n) in residual.iter_mut().zip(&self.factors.order) {
            *residual = std::mem::replace(&mut x[n as usize], [0.0; W]);
        }
        for refinement in 0..=self.refinements {
            step.copy_from_slice(residual);
            self.factors.solve(step);
            for (step, &n) in step.iter().zip(&self.factors.order) {
                x[n as usize].iter_mut().zip(step).for_each(|(x, step)| *x += step);
            }
            if refinement < self.refinements {
                self.subtract(step, residual);
            }
        }
    }

    /// b −= E x
    fn subtract<const W: usize>(&self, x: &[[f64; W]], b: &mut [[f64; W]]) {
        for ((b, x), sum) in b.iter_mut().zip(x).zip(&self.sums) {
            (0..W).for_each(|w| b[w] -= sum * x[w]);
        }
        for &(m, n, coupling) in &self.couplings {
            for w in 0..W {
                let flow = coupling * (x[m][w] - x[n][w]);
                b[m][w] -= flow;
                b[n][w] += flow;
            }
        }
    }

    /// Returns the largest row sum of |E⁻¹| |E|, by which a product with E⁻¹ amplifies rounding (Skeel, 1979). No entry of E⁻¹
    /// is negative, so that one solve suffices.
    fn amplification(&self) -> f64 {
        let mut rows: Vec<[f64; 1]> = self.sums.iter().map(|&sum| [sum]).collect();
        for &(row, column, coupling) in &self.couplings {
            rows[row][0] += 2.0 * coupling;
            rows[column][0] += 2.0 * coupling;
        }
        self.factors.solve(&mut rows);
        rows.as_flattened().iter().fold(0.0, |most: f64, row| most.max(row.abs()))
    }

    /// Returns E⁻¹ by columns, which are its rows, as it is symmetric.
    fn inverse_entries(&self) -> Vec<f64> {
        /// Columns solved at once: enough for vector instructions, few enough for the cache.
        const BATCH: usize = 32;
        let count = self.sums.len();
        let mut entries = Vec::with_capacity(count * count);
        let mut columns = Columns::<BATCH>::new(count);
        for first in (0..count).step_by(BATCH) {
            let batch = BATCH.min(count - first);
            columns.x.fill([0.0; BATCH]);
            (0..batch).for_each(|w| columns.x[first + w][w] = 1.0);
            self.solve(&mut columns);
            for w in 0..batch {
                entries.extend(columns.x.iter().map(|x| x[w]));
            }
        }
        entries
    }
}
