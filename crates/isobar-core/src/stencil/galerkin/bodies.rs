//! Strongly coupled aggregates, whose constants the smoother hardly changes.
//!
//! In a matrix of strong contrast the slow vectors that no grid of 2ⁿ cells represents are the constants of aggregates of cells
//! that couple strongly to each other and weakly to all other cells. For θ = 0.3, 0.03 and 0.001 two cells belong to one
//! aggregate if their coupling is at least θ times the larger of the two cells' largest couplings; besides the sweeps,
//!
//! u += ω Σ_θ Z D⁻¹ Zᵀ r,
//!
//! with Z the indicator vectors of aggregates, D the couplings that leave them and their row sums. Coarser grids correct
//! aggregates that are larger than `LARGEST` cells, as these are small there, and those that are not weakly coupled to the rest,
//! see `LOOSE`. Lines solve exactly what lies in one column, such as the columns of thin cells. Smooth coefficients have no aggregates, at no cost.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use super::couplings::{Couplings, UPPER, upper_offset};
use super::shared::{Shared, Sums};
use super::{Execute, Ranked};
use crate::Result;
use crate::disjoint_sets::{DisjointSets, Joins, for_each_set};
use crate::execute::{PIECE, atomics, for_each_piece};
use crate::large_pages::zeros;
use crate::layout::{Axis, Layout, Shape};
use crate::real::{Precision, Real};

/// ω; twice as much diverges.
pub const DAMPING: f64 = 0.3;
/// θ
pub const THRESHOLDS: [f64; 3] = [0.3, 0.03, 0.001];
/// The most cells in an aggregate.
pub const LARGEST: u32 = 512;
/// The largest D relative to the sum of an aggregate's diagonals: the smoother reduces the constants of those coupled more
/// strongly.
pub const LOOSE: f64 = 0.1;
/// The smallest D relative to the sum of its terms' absolute values: less is rounding.
pub const CANCELLED: f64 = 1e-3;
/// Returns the smallest D relative to the sum of diagonals, for residuals in this precision: the rounding of a sum of residuals over less is a
/// correction larger than u. A cycle in single precision is for couplings that differ less.
pub fn negligible(levels: Precision) -> f64 {
    if levels == Precision::F32 { 1e-8 } else { 1e-14 }
}
/// The ratio of two successive couplings of one direction below which there may be aggregates.
pub const CONTRAST: f64 = 0.1;

/// The strongly coupled aggregates of one θ: disjoint sets of cells.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bodies {
    /// The place of each aggregate's first cell, and one past the last.
    pub starts: Vec<u32>,
    /// Positions in a vector.
    pub cells: Vec<u32>,
    /// ω / D
    pub factors: Vec<f64>,
    /// The number of aggregates, the first ones, with cells in several subdomains; `cells` are those of one subdomain.
    pub shared: usize,
}

impl Bodies {
    /// Returns the bytes of the tables.
    pub fn bytes(&self) -> usize {
        (self.starts.len() + self.cells.len()) * size_of::<u32>() + self.factors.len() * size_of::<f64>()
    }

    /// Adds an aggregate.
    pub fn push(&mut self, cells: impl Iterator<Item = u32>, factor: f64) {
        self.cells.extend(cells);
        self.starts.push(self.cells.len() as u32);
        self.factors.push(factor);
    }

    /// Returns these aggregates after others.
    #[must_use]
    pub fn after(&self, others: &Self) -> Self {
        let mut all = others.clone();
        for (body, &factor) in self.factors.iter().enumerate() {
            all.push(self.cells_of(body).iter().copied(), factor);
        }
        all
    }

    /// Returns the cells of one aggregate.
    pub fn cells_of(&self, body: usize) -> &[u32] {
        &self.cells[self.starts[body] as usize..self.starts[body + 1] as usize]
    }

    /// Returns the part of these aggregates of the whole grid, whose vectors have this layout, on one subdomain: rank r has rows
    /// `starts[r]` to `starts[r + 1]`, none beginning with an odd one. All subdomains have the shared aggregates in the same
    /// order, with or without cells of them.
    pub fn part(&self, whole: &Layout, starts: &[usize], rank: usize) -> Self {
        let plane = 2 * whole.half_plane() as u32;
        let ends = [rank, rank + 1].map(|n| starts[n] as u32 * plane);
        let part_of = |cell: u32| starts.partition_point(|&start| start <= (cell / plane) as usize);
        let of_part: Vec<(&[u32], f64, bool)> = (0..self.factors.len())
            .map(|body| {
                let cells = self.cells_of(body);
                let is_shared = cells.iter().any(|&cell| part_of(cell) != part_of(cells[0]));
                (cells, self.factors[body], is_shared)
            })
            .collect();
        let mut part = Self { starts: vec![0], ..Self::default() };
        let mut add = |cells: &[u32], factor: f64| {
            let own = cells.iter().filter(|&&cell| (ends[0]..ends[1]).contains(&cell));
            part.push(own.map(|cell| cell - ends[0]), factor);
        };
        let shared = of_part.iter().filter(|(_, _, is_shared)| *is_shared);
        shared.for_each(|&(cells, factor, _)| add(cells, factor));
        let is_own = |cells: &[u32]| cells.first().is_some_and(|cell| (ends[0]..ends[1]).contains(cell));
        let own = of_part.iter().filter(|(cells, _, is_shared)| !is_shared && is_own(cells));
        own.for_each(|&(cells, factor, _)| add(cells, factor));
        part.shared = of_part.iter().filter(|(_, _, is_shared)| *is_shared).count();
        part
    }
}

/// Finds the aggregates of a matrix, for each θ that has any; those of one θ only where they differ from those of the previous one. Of several ranks each
/// returns its share, as [`Bodies::part`]. Residuals are in the precision of the levels.
///
/// # Errors
/// The errors of [`Ranked::division`] and of the transport.
pub fn find<N: Real>(on: &impl Ranked, matrix: &Couplings<N>, levels: Precision) -> Result<Vec<Bodies>> {
    let whole = Layout::new(matrix.whole_grid().shape)?;
    if whole.len() > u32::MAX as usize {
        return Ok(Vec::new());
    }
    let largest = largest_couplings(on, matrix);
    let mut joined = Joined::apart(on, matrix);
    let mut all: Vec<Bodies> = Vec::new();
    // Cells joined for one θ stay joined for the next, which is smaller.
    for (n, &theta) in THRESHOLDS.iter().enumerate() {
        let thetas = [theta, if n > 0 { THRESHOLDS[n - 1] } else { f64::INFINITY }];
        let has_joined = joined.join_strong(on, &largest, thetas);
        if !matrix.on_any(on, has_joined)? {
            continue;
        }
        let bodies = joined.bodies(on, negligible(levels))?;
        if matrix.on_any(on, !bodies.factors.is_empty())? && matrix.on_any(on, all.last() != Some(&bodies))? {
            all.push(bodies);
        }
    }
    matrix.spare.give(largest);
    if matrix.window.is_some() {
        return Ok(all);
    }
    let Some((starts, rank)) = on.division(matrix.grid.shape)? else { return Ok(all) };
    Ok(all.iter().map(|bodies| bodies.part(&whole, &starts, rank)).collect())
}

/// Returns the largest coupling of each cell, planes in the order of [`Couplings`].
fn largest_couplings<N: Real>(execute: &impl Execute, matrix: &Couplings<N>) -> Vec<N> {
    let Shape { nx, ny, nz } = matrix.grid.shape;
    let len = matrix.grid.plane();
    let mut largest = matrix.spare.take(len * ny);
    let mut planes: Vec<&mut [N]> = largest.chunks_exact_mut(len).collect();
    execute.for_each(
        &mut planes,
        #[inline(always)]
        |j, plane| {
            for k in 0..nz as isize {
                let out = &mut plane[matrix.grid.at(0, k)..][..nx];
                out.fill(N::ZERO);
                for offset in matrix.offsets() {
                    let c = &matrix.row(j, k, offset)[1..=nx];
                    out.iter_mut().zip(c).for_each(|(largest, &c)| *largest = if c > *largest { c } else { *largest });
                }
            }
            matrix.grid.clear_ghosts(plane);
            matrix.grid.fill_ghosts(plane);
        },
    );
    largest
}

/// Cells joined by strong couplings.
struct Joined<'a, N> {
    matrix: &'a Couplings<N>,
    sets: DisjointSets,
    /// For each row (j, k): whether each cell is joined to its predecessor in x, with an entry of 0 at either end.
    along: Vec<Vec<u8>>,
    /// For each row (j, k) and stored offset: whether no coupling is left for a smaller θ, as is said of all rows of a window that are not the rank's own.
    settled: Vec<Vec<bool>>,
    /// The number of other cells of the aggregate that begins at this cell, later its number; 0 for other cells.
    sizes: Vec<u32>,
}

/// Finds which couplings are at least θ times the largest of either cell, and which of these were not for the previous θ;
/// returns whether any are left for a smaller θ.
#[inline(always)]
fn are_strong<N: Real>(
    c: &[N],
    own: &[N],
    other: &[N],
    [theta, before]: [f64; 2],
    strong: &mut [u8],
    new: &mut [u8],
) -> bool {
    let is_first = before.is_infinite();
    let [theta, before] = [theta, before].map(N::from_f64);
    let largest = |own: N, other: N| if own > other { own } else { other };
    let rows = || c.iter().zip(own.iter().zip(other));
    let mut left = 0;
    strong.iter_mut().zip(rows()).for_each(|(strong, (&c, (&own, &other)))| {
        let is_coupled = u8::from(c > N::ZERO);
        *strong = is_coupled & u8::from(c >= theta * largest(own, other));
        left |= is_coupled & !*strong;
    });
    if is_first {
        new.copy_from_slice(&strong[..new.len()]);
    } else {
        new.iter_mut().zip(&*strong).zip(rows()).for_each(|((new, strong), (&c, (&own, &other)))| {
            *new = strong & u8::from(c < before * largest(own, other));
        });
    }
    left != 0
}

impl<'a, N: Real> Joined<'a, N> {
    /// Makes every cell an aggregate.
    fn apart(execute: &impl Execute, matrix: &'a Couplings<N>) -> Self {
        let Shape { nx, ny, nz } = matrix.grid.shape;
        let own = matrix.own_rows();
        Self {
            matrix,
            sets: DisjointSets::new(execute, nx * ny * nz),
            along: vec![vec![0; (nx + 2) * nz]; ny],
            settled: (0..ny).map(|j| vec![!own.contains(&j); nz * UPPER]).collect(),
            sizes: zeros(nx * ny * nz),
        }
    }

    /// Joins cells by couplings of at least θ, where those of the previous θ are joined; returns whether that changes anything.
    fn join_strong(&mut self, execute: &impl Execute, largest: &[N], thetas: [f64; 2]) -> bool {
        let Self { matrix, sets, along, settled, .. } = self;
        let (has_joined, is_first) = (AtomicBool::new(false), thetas[1].is_infinite());
        let (grid, present, sets) = (matrix.grid, matrix.present, sets.joins());
        let Shape { nx, nz, .. } = grid.shape;
        let cell = |j: usize, k: usize| (nx * (k + nz * j)) as u32;
        let x = super::couplings::along(Axis::X);
        let largest_of = |j: usize, dx: isize, k: isize| &largest[j * grid.plane() + grid.at(dx, k)..][..nx];
        if present[x] {
            let mut planes: Vec<(&mut Vec<u8>, &mut Vec<bool>)> = along.iter_mut().zip(&mut *settled).collect();
            execute.for_each(
                &mut planes,
                #[inline(always)]
                |j, (plane, settled)| {
                    let mut joins = false;
                    let [mut strong, mut new] = [vec![0; nx], vec![0; nx]];
                    for (k, row) in plane.chunks_exact_mut(nx + 2).enumerate() {
                        let settled = &mut settled[k * UPPER + x];
                        if *settled {
                            continue;
                        }
                        let c = &matrix.row(j, k as isize, [1, 0, 0])[1..=nx];
                        let [own, other] = [0, 1].map(|dx| largest_of(j, dx, k as isize));
                        *settled = !are_strong(c, own, other, thetas, &mut strong, &mut new);
                        row[2..=nx].copy_from_slice(&strong[..nx - 1]);
                        let first = cell(j, k);
                        if is_first {
                            joins |= sets.join_runs(&strong, first);
                            continue;
                        }
                        let next = |i: usize| if i + 1 < nx { i as u32 + 1 } else { 0 };
                        for_each_set(&new, |i| joins |= sets.join(first + i as u32, first + next(i)));
                    }
                    has_joined.fetch_or(joins, Ordering::Relaxed);
                },
            );
        }
        let along = &*along;
        execute.for_each(
            settled,
            #[inline(always)]
            |j, settled| {
                let mut joins = false;
                let [mut strong, mut new] = [vec![0; nx + 1], vec![0; nx]];
                for n in (0..UPPER).filter(|&n| present[n] && n != x) {
                    let offset @ [dx, dy, dz] = upper_offset(n);
                    let Some(to_j) = grid.beside(j, dy) else { continue };
                    for k in 0..nz {
                        let to_k = k as isize + dz;
                        let settled = &mut settled[k * UPPER + n];
                        if *settled || (!grid.periodic[2] && !(0..nz as isize).contains(&to_k)) {
                            continue;
                        }
                        let c = &matrix.row(j, k as isize, offset)[1..=nx];
                        let (own, other) = (largest_of(j, 0, k as isize), largest_of(to_j, dx, to_k));
                        *settled = !are_strong(c, own, other, thetas, &mut strong[1..], &mut new);
                        let to_k = to_k.rem_euclid(nz as isize) as usize;
                        // Nothing is left to join if both cells are joined to the previous cells, and these to each other.
                        let own = &along[j][k * (nx + 2) + 1..][..nx];
                        let other = &along[to_j][k_row(to_k, nx, dx)..][..nx];
                        let rows = new.iter_mut().zip(&strong[..nx]).zip(own.iter().zip(other));
                        rows.for_each(|((new, before), (own, other))| *new &= !(before & own & other));
                        let (first, to_first) = (cell(j, k), cell(to_j, to_k));
                        for_each_set(&new, |i| {
                            let to_i = (i as isize + dx).rem_euclid(nx as isize) as u32;
                            joins |= sets.join(first + i as u32, to_first + to_i);
                        });
                    }
                }
                has_joined.fetch_or(joins, Ordering::Relaxed);
            },
        );
        has_joined.into_inner()
    }

    /// Returns the aggregates that are worth correcting: in a window the rank's share.
    fn bodies(&mut self, on: &impl Ranked, least: f64) -> Result<Bodies> {
        let Self { matrix, sets, sizes, .. } = self;
        let shape @ Shape { nx, nz, .. } = matrix.grid.shape;
        let (sets, rows) = (sets.joins(), matrix.own_rows());
        let own = rows.start * nx * nz..rows.end * nx * nz;
        let layout = Layout::new(Shape { ny: rows.len(), ..shape })?;
        let place = |[i, j, k]: [usize; 3]| layout.index(i, j - rows.start, k) as u32;
        count_others(on, sets, atomics(sizes), own.clone());
        let shared = Shared::find(on, matrix, sets, sizes)?;
        let first_of = |cell: [usize; 3]| shared.first_of(matrix, sets, cell);
        let mut bodies = shared.bodies(on, matrix, least, place, first_of)?;
        // Small aggregates, piece by piece of the grid; numbers within the piece, from 1, replace the sizes of their first cells.
        let mut of_pieces: Vec<(&mut [u32], Vec<u32>)> =
            sizes.chunks_mut(PIECE).map(|sizes| (sizes, Vec::new())).collect();
        on.for_each(&mut of_pieces, |_, (sizes, bodies)| {
            for size in &mut **sizes {
                let is_small = (1..LARGEST).contains(size);
                if is_small {
                    bodies.push(*size + 1);
                }
                *size = if is_small { bodies.len() as u32 } else { 0 };
            }
        });
        let (mut starts, mut before) = (vec![0u32], Vec::with_capacity(of_pieces.len()));
        for (_, bodies) in of_pieces {
            before.push(starts.len() - 1);
            let mut total = starts[starts.len() - 1];
            starts.extend(bodies.into_iter().map(|size| {
                total += size;
                total
            }));
        }
        let count = starts.len() - 1;
        if count == 0 {
            return Ok(bodies);
        }
        let mut next = starts.clone();
        let mut cells = zeros(starts[count] as usize);
        let (next, unordered, numbers) = (atomics(&mut next), atomics(&mut cells), &*sizes);
        on.for_each(&mut vec![(); own.len().div_ceil(PIECE)], |piece, ()| {
            for cell in piece_of(&own, piece) {
                let first = sets.parent(cell) as usize;
                if numbers[first] > 0 {
                    let body = before[first / PIECE] + numbers[first] as usize - 1;
                    let place = next[body].fetch_add(1, Ordering::Relaxed);
                    unordered[place as usize].store(cell, Ordering::Relaxed);
                }
            }
        });
        for_each_piece(on, sizes, |_, sizes| sizes.fill(0));
        let mut rest = &mut *cells;
        let mut found: Vec<(&mut [u32], f64)> = starts
            .windows(2)
            .map(|ends| {
                let (own, after) = std::mem::take(&mut rest).split_at_mut((ends[1] - ends[0]) as usize);
                rest = after;
                (own, 0.0)
            })
            .collect();
        const TOGETHER: usize = 256;
        on.for_each(&mut found.chunks_mut(TOGETHER).collect::<Vec<_>>(), |_, bodies| {
            for (cells, factor) in &mut **bodies {
                cells.sort_unstable();
                *factor = factor_of(matrix, least, cells.iter().map(|&cell| at(shape, cell)), first_of);
                cells.iter_mut().for_each(|cell| *cell = place(at(shape, *cell)));
            }
        });
        for (cells, factor) in found.iter().filter(|(_, factor)| *factor > 0.0) {
            bodies.push(cells.iter().copied(), *factor);
        }
        Ok(bodies)
    }
}

/// Returns the cells of a piece of some.
pub(super) fn piece_of(cells: &Range<usize>, piece: usize) -> Range<u32> {
    let start = cells.start + piece * PIECE;
    start as u32..cells.end.min(start + PIECE) as u32
}

/// Counts for the first cell of each aggregate its other cells among those in a range.
fn count_others(execute: &impl Execute, sets: Joins<'_>, sizes: &[AtomicU32], cells: Range<usize>) {
    execute.for_each(&mut vec![(); cells.len().div_ceil(PIECE)], |piece, ()| {
        // Consecutive cells are added at once, so that threads do not wait for the same few numbers.
        let (mut last, mut count) = (0, 0);
        let add = |last: u32, count: u32| {
            if count > 0 {
                sizes[last as usize].fetch_add(count, Ordering::Relaxed);
            }
        };
        for cell in piece_of(&cells, piece) {
            // Most cells belong to the aggregate of the previous one.
            let first = if sets.parent(cell) == last { last } else { sets.shorten(cell) };
            if first != last {
                add(last, count);
                (last, count) = (first, 0);
            }
            count += u32::from(first != cell);
        }
        add(last, count);
    });
}

/// Returns the place of row k in a plane of [`Joined::along`], shifted by `dx`.
#[inline(always)]
fn k_row(k: usize, nx: usize, dx: isize) -> usize {
    (k * (nx + 2) + 1).wrapping_add_signed(dx)
}

pub(super) fn at(shape: Shape, cell: u32) -> [usize; 3] {
    let cell = cell as usize;
    [cell % shape.nx, cell / (shape.nx * shape.nz), cell / shape.nx % shape.nz]
}

/// Returns ω / D of an aggregate that is worth correcting, 0 for any other.
fn factor_of<N: Real>(
    matrix: &Couplings<N>,
    least: f64,
    cells: impl Iterator<Item = [usize; 3]> + Clone,
    first_of: impl Fn([usize; 3]) -> u32,
) -> f64 {
    let mut columns = cells.clone().map(|[i, j, _]| [i, j]);
    let first = columns.next();
    if !matrix.grid.periodic[2] && columns.all(|column| Some(column) == first) {
        return 0.0;
    }
    Sums::of(matrix, cells, first_of).factor(least)
}

/// Returns whether there can be aggregates, on this grid or on coarser ones: whether anywhere in the seven-point matrix a
/// coupling is much weaker than the next one in its direction.
///
/// # Errors
/// The errors of the transport.
pub fn may_exist<N: Real>(on: &impl Ranked, matrix: &Couplings<N>) -> Result<bool> {
    let (grid, Shape { nx, ny, nz }) = (matrix.grid, matrix.grid.shape);
    let (found, contrast) = (AtomicBool::new(false), N::from_f64(CONTRAST));
    on.for_each(
        &mut vec![(); ny],
        #[inline(always)]
        |j, ()| {
            for n in (0..UPPER).filter(|&n| matrix.present[n]) {
                let offset @ [dx, dy, dz] = upper_offset(n);
                let (Some(before_j), Some(_)) = (grid.beside(j, -dy), grid.beside(j, dy)) else { continue };
                // A closed side has no coupling to compare with.
                let [x_end, z_end] = [(dx, 0), (dz, 2)].map(|(d, axis)| usize::from(d == 1 && !grid.periodic[axis]));
                let columns = x_end..nx.max(2 * x_end) - x_end;
                for k in z_end..nz.max(2 * z_end) - z_end {
                    if found.load(Ordering::Relaxed) {
                        return;
                    }
                    let c = &matrix.row(j, k as isize, offset)[1..=nx][columns.clone()];
                    let before = &matrix.stored(before_j, n)[grid.at(-dx, k as isize - dz)..][columns.clone()];
                    let is_weak = |&c: &N, &before: &N| (c < contrast * before) | (before < contrast * c);
                    if c.iter().zip(before).fold(false, |found, (c, before)| found | is_weak(c, before)) {
                        found.store(true, Ordering::Relaxed);
                    }
                }
            }
        },
    );
    matrix.on_any(on, found.into_inner())
}
