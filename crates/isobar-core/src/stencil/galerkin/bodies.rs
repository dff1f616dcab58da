//! Strongly coupled bodies, whose constants the smoother hardly moves.
//!
//! In a matrix of strong contrast the slow vectors that no grid of 2ⁿ cells represents are the constants of bodies of cells
//! that hang together strongly and are tied weakly to all else. For θ = 0.3, 0.03 and 0.001 two cells belong to one body
//! where their coupling is at least θ times the larger of the two cells' largest couplings; beside the sweeps,
//!
//! u += ω Σ_θ Z D⁻¹ Zᵀ r,
//!
//! Z the indicator vectors of bodies, D the couplings that leave them and their row sums. Bodies larger than
//! `LARGEST` cells are left to coarser grids, where they are small, and so are those that are no weakly tied bodies, see
//! `LOOSE`: where coefficients are kind there is none, and nothing to pay.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use super::couplings::{Couplings, UPPER, upper_offset};
use super::{Axis, Execute};
use crate::layout::{Layout, Shape};
use crate::real::Real;

/// ω; twice as much diverges.
pub const DAMPING: f64 = 0.3;
/// θ
pub const THRESHOLDS: [f64; 3] = [0.3, 0.03, 0.001];
/// Cells in a body.
pub const LARGEST: u32 = 512;
/// D beside the sum of a body's diagonals, at most: what is tied more strongly the smoother sees to.
pub const LOOSE: f64 = 0.1;
/// D beside the sum of its terms' absolute values, at least: less is their rounding.
pub const CANCELLED: f64 = 1e-3;
/// D beside the sum of diagonals, at least.
pub const NEGLIGIBLE: f64 = 1e-14;
/// Couplings of one direction that vary less belong together.
pub const CONTRAST: f64 = 0.1;

/// The bodies of one θ: disjoint sets of cells.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bodies {
    /// Where the cells of each begin, and where the last ones' end.
    pub starts: Vec<u32>,
    /// Positions in a vector.
    pub cells: Vec<u32>,
    /// ω / D
    pub factors: Vec<f64>,
    /// How many of them, the first, have cells in several parts of a grid, of which `cells` are those of one part.
    pub shared: usize,
}

impl Bodies {
    /// Bytes of the tables.
    pub fn bytes(&self) -> usize {
        (self.starts.len() + self.cells.len()) * size_of::<u32>() + self.factors.len() * size_of::<f64>()
    }

    /// The cells of one.
    pub fn cells_of(&self, body: usize) -> &[u32] {
        &self.cells[self.starts[body] as usize..self.starts[body + 1] as usize]
    }

    /// Those of the whole grid, whose vectors have this layout, for one of several parts: rank r has rows `starts[r]` to
    /// `starts[r + 1]`, of which none begins with an odd one. All parts have what they share in the same order, whether they have
    /// cells of it or not.
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
            part.cells.extend(own.map(|cell| cell - ends[0]));
            part.starts.push(part.cells.len() as u32);
            part.factors.push(factor);
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

/// The bodies of a matrix whose vectors have this layout, of each θ that has any; those of one θ only where they are not
/// the same as of the one before.
pub fn find<N: Real>(execute: &impl Execute, matrix: &Couplings<N>, layout: &Layout) -> Vec<Bodies> {
    if layout.len() > u32::MAX as usize {
        return Vec::new();
    }
    let largest = largest_couplings(execute, matrix);
    let mut joined = Joined::apart(execute, matrix);
    let mut all: Vec<Bodies> = Vec::new();
    // What a θ has joined stays so for the next, which is smaller.
    for (n, &theta) in THRESHOLDS.iter().enumerate() {
        let thetas = [theta, if n > 0 { THRESHOLDS[n - 1] } else { f64::INFINITY }];
        if !joined.join_strong(execute, &largest, thetas) {
            continue;
        }
        let bodies = joined.bodies(execute, layout);
        if !bodies.factors.is_empty() && all.last() != Some(&bodies) {
            all.push(bodies);
        }
    }
    matrix.spare.give(largest);
    all
}

/// The largest coupling of each cell, planes in the order of [`Couplings`].
fn largest_couplings<N: Real>(execute: &impl Execute, matrix: &Couplings<N>) -> Vec<N> {
    let Shape { nx, ny, nz } = matrix.grid.shape;
    let len = matrix.grid.plane();
    let mut largest = matrix.spare.take(execute, len * ny);
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
    /// A cell of the same body, of a lower number but for the body's first cell, which has its own.
    parents: Vec<AtomicU32>,
    /// By j, row after row of k: whether a cell is joined to the one before it in its row, behind one entry of 0 and
    /// before another.
    along: Vec<Vec<u8>>,
    /// By j, row after row of k, by stored offset: whether no coupling of the row is left for a smaller θ.
    settled: Vec<Vec<bool>>,
    /// Space.
    sizes: Vec<AtomicU32>,
}

/// The first cell of a body. Other threads may join bodies meanwhile: what is read of them is an earlier state.
#[inline(always)]
fn root(parents: &[AtomicU32], cell: u32) -> u32 {
    let mut at = cell;
    loop {
        let parent = parents[at as usize].load(Ordering::Relaxed);
        if parent == at {
            return at;
        }
        let grandparent = parents[parent as usize].load(Ordering::Relaxed);
        if grandparent == parent {
            return parent;
        }
        parents[at as usize].store(grandparent, Ordering::Relaxed);
        at = grandparent;
    }
}

/// Joins two cells: the higher first cell goes below the lower, so that what comes out depends on no order. Whether they were
/// apart.
#[inline(always)]
fn join(parents: &[AtomicU32], a: u32, b: u32) -> bool {
    loop {
        let (a, b) = (root(parents, a), root(parents, b));
        if a == b {
            return false;
        }
        let (low, high) = (a.min(b), a.max(b));
        let hooked = parents[high as usize].compare_exchange(high, low, Ordering::Relaxed, Ordering::Relaxed);
        if hooked.is_ok() {
            return true;
        }
    }
}

/// Joins the cells of a row, `first` and those after it, which are all by themselves, each with the next where an entry is not
/// 0; whether any were joined.
#[inline(always)]
fn join_runs(parents: &[AtomicU32], strong: &[u8], first: u32) -> bool {
    let (last, row) = (strong.len() - 1, &parents[first as usize..][..strong.len()]);
    let (mut run, mut joins) = (first, 0);
    for (cell, (parent, &is_strong)) in (first + 1..).zip(row[1..].iter().zip(strong)) {
        run = if is_strong > 0 { run } else { cell };
        joins |= is_strong;
        parent.store(run, Ordering::Relaxed);
    }
    // Of a ring.
    let is_closed = strong[last] > 0 && join(parents, first + last as u32, first);
    joins > 0 || is_closed
}

/// `f` of where an entry is not 0.
#[inline(always)]
fn for_each_set(row: &[u8], mut f: impl FnMut(usize)) {
    let (eights, rest) = row.as_chunks::<8>();
    for (n, eight) in eights.iter().enumerate().filter(|(_, eight)| u64::from_ne_bytes(**eight) != 0) {
        (0..8).filter(|&i| eight[i] != 0).for_each(|i| f(8 * n + i));
    }
    let first = 8 * eights.len();
    (0..rest.len()).filter(|&i| rest[i] != 0).for_each(|i| f(first + i));
}

/// Which couplings are at least θ times the largest of either cell, and which of these were not at the θ before; whether there
/// are any left for a smaller θ.
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
    /// Every cell by itself.
    fn apart(execute: &impl Execute, matrix: &'a Couplings<N>) -> Self {
        let Shape { nx, ny, nz } = matrix.grid.shape;
        let cells = (nx * ny * nz) as u32;
        let mut numbers = [Vec::with_capacity(cells as usize), Vec::with_capacity(cells as usize)];
        for numbers in &mut numbers {
            execute.prefer_large_pages(numbers.spare_capacity_mut());
        }
        let [mut parents, mut sizes] = numbers;
        parents.extend((0..cells).map(AtomicU32::new));
        sizes.extend((0..cells).map(|_| AtomicU32::new(0)));
        Self {
            matrix,
            parents,
            along: vec![vec![0; (nx + 2) * nz]; ny],
            settled: vec![vec![false; nz * UPPER]; ny],
            sizes,
        }
    }

    /// Joins by couplings of at least θ, given that those of the θ before are joined; whether that changes anything.
    fn join_strong(&mut self, execute: &impl Execute, largest: &[N], thetas: [f64; 2]) -> bool {
        let Self { matrix, parents, along, settled, .. } = self;
        let (has_joined, is_first) = (AtomicBool::new(false), thetas[1].is_infinite());
        let (grid, present, parents) = (matrix.grid, matrix.present, &**parents);
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
                            joins |= join_runs(parents, &strong, first);
                            continue;
                        }
                        let next = |i: usize| if i + 1 < nx { i as u32 + 1 } else { 0 };
                        for_each_set(&new, |i| joins |= join(parents, first + i as u32, first + next(i)));
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
                        // Where both cells hang together with the cells before them, and these with each other, nothing
                        // is left to join.
                        let own = &along[j][k * (nx + 2) + 1..][..nx];
                        let other = &along[to_j][k_row(to_k, nx, dx)..][..nx];
                        let rows = new.iter_mut().zip(&strong[..nx]).zip(own.iter().zip(other));
                        rows.for_each(|((new, before), (own, other))| *new &= !(before & own & other));
                        let (first, to_first) = (cell(j, k), cell(to_j, to_k));
                        for_each_set(&new, |i| {
                            let to_i = (i as isize + dx).rem_euclid(nx as isize) as u32;
                            joins |= join(parents, first + i as u32, to_first + to_i);
                        });
                    }
                }
                has_joined.fetch_or(joins, Ordering::Relaxed);
            },
        );
        has_joined.into_inner()
    }

    /// The bodies that are worth correcting.
    fn bodies(&mut self, execute: &impl Execute, layout: &Layout) -> Bodies {
        let Self { matrix, parents, sizes, .. } = self;
        let shape @ Shape { nx, ny, nz } = matrix.grid.shape;
        let plane = (nx * nz) as u32;
        let parents = &**parents;
        // Beside the first cell. One addition for cells in a row, or all threads would wait for the same few numbers.
        execute.for_each(&mut vec![(); ny], |j, ()| {
            let (mut last, mut count) = (0, 0);
            for cell in j as u32 * plane..(j as u32 + 1) * plane {
                // Most cells belong to the body of the one before.
                let parent = parents[cell as usize].load(Ordering::Relaxed);
                let first = if parent == last { last } else { root(parents, cell) };
                if first != parent {
                    parents[cell as usize].store(first, Ordering::Relaxed);
                }
                if first != last {
                    if count > 0 {
                        sizes[last as usize].fetch_add(count, Ordering::Relaxed);
                    }
                    (last, count) = (first, 0);
                }
                count += u32::from(first != cell);
            }
            if count > 0 {
                sizes[last as usize].fetch_add(count, Ordering::Relaxed);
            }
        });
        // Cells of small bodies, gathered by their bodies' first cells, whose sizes give way to 1 + their numbers.
        let mut starts = vec![0u32];
        let mut total = 0;
        for size in sizes.iter_mut().map(AtomicU32::get_mut) {
            *size = if (1..LARGEST).contains(size) {
                total += *size + 1;
                starts.push(total);
                starts.len() as u32 - 1
            } else {
                0
            };
        }
        let mut bodies = Bodies { starts: vec![0], ..Bodies::default() };
        if total > 0 {
            let mut next: Vec<u32> = starts[..starts.len() - 1].to_vec();
            let mut cells = vec![0u32; total as usize];
            for (cell, first) in parents.iter().enumerate() {
                let number = *sizes[first.load(Ordering::Relaxed) as usize].get_mut();
                if number > 0 {
                    let next = &mut next[number as usize - 1];
                    cells[*next as usize] = cell as u32;
                    *next += 1;
                }
            }
            sizes.iter_mut().for_each(|size| *size.get_mut() = 0);
            let mut factors = vec![0.0; starts.len() - 1];
            const TOGETHER: usize = 256;
            let mut parts: Vec<&mut [f64]> = factors.chunks_mut(TOGETHER).collect();
            let first_of = |[i, j, k]: [usize; 3]| parents[i + nx * (k + nz * j)].load(Ordering::Relaxed);
            execute.for_each(&mut parts, |part, factors| {
                for (n, factor) in factors.iter_mut().enumerate() {
                    let body = part * TOGETHER + n;
                    let cells = &cells[starts[body] as usize..starts[body + 1] as usize];
                    *factor = factor_of(matrix, cells.iter().map(|&cell| at(shape, cell)), first_of);
                }
            });
            for (body, &factor) in factors.iter().enumerate().filter(|&(_, &factor)| factor > 0.0) {
                let cells = &cells[starts[body] as usize..starts[body + 1] as usize];
                bodies.cells.extend(cells.iter().map(|&cell| {
                    let [i, j, k] = at(shape, cell);
                    layout.index(i, j, k) as u32
                }));
                bodies.starts.push(bodies.cells.len() as u32);
                bodies.factors.push(factor);
            }
        }
        bodies
    }
}

/// Where the row of k begins in a plane of [`Joined::along`], `dx` farther.
#[inline(always)]
fn k_row(k: usize, nx: usize, dx: isize) -> usize {
    (k * (nx + 2) + 1).wrapping_add_signed(dx)
}

fn at(shape: Shape, cell: u32) -> [usize; 3] {
    let cell = cell as usize;
    [cell % shape.nx, cell / (shape.nx * shape.nz), cell / shape.nx % shape.nz]
}

/// ω / D of a body that is worth correcting, 0 of any other.
fn factor_of<N: Real>(
    matrix: &Couplings<N>,
    cells: impl Iterator<Item = [usize; 3]>,
    root: impl Fn([usize; 3]) -> u32,
) -> f64 {
    let (mut leaving, mut absolute, mut diagonals) = (0.0, 0.0, 0.0);
    for cell @ [i, j, k] in cells {
        let own = root(cell);
        let s = matrix.sums(j, k as isize)[i + 1].to_f64();
        let mut diagonal = s;
        leaving += s;
        absolute += s.abs();
        for offset in matrix.offsets() {
            let c = matrix.row(j, k as isize, offset)[i + 1].to_f64();
            diagonal += c;
            if c != 0.0 && matrix.neighbour(cell, offset).is_some_and(|to| root(to) != own) {
                leaving += c;
                absolute += c.abs();
            }
        }
        diagonals += diagonal;
    }
    let is_worth_it = leaving > CANCELLED * absolute && leaving > NEGLIGIBLE * diagonals && leaving < LOOSE * diagonals;
    if is_worth_it { DAMPING / leaving } else { 0.0 }
}

/// Whether there can be bodies at all, on this grid or on coarser ones: whether anywhere in the seven-point matrix a coupling
/// is much weaker than the next one in its direction.
pub fn may_exist<N: Real>(execute: &impl Execute, matrix: &Couplings<N>) -> bool {
    let (grid, Shape { nx, ny, nz }) = (matrix.grid, matrix.grid.shape);
    let (found, contrast) = (AtomicBool::new(false), N::from_f64(CONTRAST));
    execute.for_each(
        &mut vec![(); ny],
        #[inline(always)]
        |j, ()| {
            for n in (0..UPPER).filter(|&n| matrix.present[n]) {
                let offset @ [dx, dy, dz] = upper_offset(n);
                let (Some(before_j), Some(_)) = (grid.beside(j, -dy), grid.beside(j, dy)) else { continue };
                // Beyond a closed side is no coupling to compare with.
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
    found.into_inner()
}
