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

use std::sync::atomic::{AtomicU32, Ordering};

use super::Execute;
use super::couplings::{Couplings, UPPER, upper_offset};
use crate::layout::{Layout, Shape};

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
/// Planes that one pass joins the cells of.
const SLAB: usize = 16;

/// The bodies of one θ: disjoint sets of cells.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bodies {
    /// Where the cells of each begin, and where the last ones' end.
    pub starts: Vec<u32>,
    /// Positions in a vector.
    pub cells: Vec<u32>,
    /// ω / D
    pub factors: Vec<f64>,
}

impl Bodies {
    /// Bytes of the tables.
    pub fn bytes(&self) -> usize {
        (self.starts.len() + self.cells.len()) * size_of::<u32>() + self.factors.len() * size_of::<f64>()
    }
}

/// One number a cell, in the order of i, k, j.
type Numbers = Vec<Vec<f64>>;

/// The bodies of a matrix whose vectors have this layout, of each θ that has any; those of one θ only where they are not
/// the same as of the one before.
pub fn find(execute: &impl Execute, matrix: &Couplings, layout: &Layout) -> Vec<Bodies> {
    if layout.len() > u32::MAX as usize {
        return Vec::new();
    }
    let largest = largest_couplings(execute, matrix);
    let mut all: Vec<Bodies> = Vec::new();
    for theta in THRESHOLDS {
        let bodies = Joined::new(execute, matrix, &largest, theta).bodies(execute, matrix, layout);
        if !bodies.factors.is_empty() && all.last() != Some(&bodies) {
            all.push(bodies);
        }
    }
    all
}

/// The largest coupling of each cell.
fn largest_couplings(execute: &impl Execute, matrix: &Couplings) -> Numbers {
    let Shape { nx, ny, nz } = matrix.grid.shape;
    let mut largest: Numbers = vec![Vec::new(); ny];
    execute.for_each(
        &mut largest,
        #[inline(always)]
        |j, plane| {
            *plane = vec![0.0; matrix.grid.plane()];
            for k in 0..nz as isize {
                let out = &mut plane[matrix.grid.at(0, k)..][..nx];
                for offset in matrix.offsets() {
                    let c = &matrix.row(j, k, offset)[1..=nx];
                    out.iter_mut().zip(c).for_each(|(largest, c)| *largest = largest.max(*c));
                }
            }
            matrix.grid.fill_ghosts(plane);
        },
    );
    largest
}

/// Cells joined by strong couplings.
struct Joined {
    shape: Shape,
    /// A cell of the same body, the body's first cell one of itself.
    parents: Vec<u32>,
}

fn find_root(parents: &[u32], mut cell: u32) -> u32 {
    while parents[cell as usize] != cell {
        cell = parents[cell as usize];
    }
    cell
}

/// Joins two cells of `parents`, which holds the cells from `first` on.
fn join(parents: &mut [u32], first: u32, a: u32, b: u32) {
    let root = |parents: &mut [u32], cell: u32| {
        let mut at = cell;
        loop {
            let parent = parents[(at - first) as usize];
            if parent == at {
                return at;
            }
            let grandparent = parents[(parent - first) as usize];
            parents[(at - first) as usize] = grandparent;
            at = grandparent;
        }
    };
    let (a, b) = (root(parents, a), root(parents, b));
    parents[(a.max(b) - first) as usize] = a.min(b);
}

struct Slab<'p> {
    first: usize,
    parents: &'p mut [u32],
}

impl Joined {
    fn new(execute: &impl Execute, matrix: &Couplings, largest: &Numbers, theta: f64) -> Self {
        let shape @ Shape { nx, ny, nz } = matrix.grid.shape;
        let plane = nx * nz;
        let mut parents = vec![0; plane * ny];
        let slabs = parents.chunks_mut(SLAB * plane).enumerate();
        let mut slabs: Vec<Slab<'_>> = slabs.map(|(n, parents)| Slab { first: n * SLAB, parents }).collect();
        execute.for_each(&mut slabs, |_, slab| {
            let first = (slab.first * plane) as u32;
            slab.parents.iter_mut().zip(first..).for_each(|(parent, cell)| *parent = cell);
            let planes = slab.first..slab.first + slab.parents.len() / plane;
            for j in planes.clone() {
                strong_links(matrix, largest, theta, j, |a, b, to_j| {
                    if planes.contains(&to_j) {
                        join(slab.parents, first, a, b);
                    }
                });
            }
        });
        drop(slabs);
        // Across slabs, and across a periodic end.
        let is_periodic = matrix.grid.periodic[1];
        for j in (0..ny).filter(|j| (j + 1) % SLAB == 0 || (is_periodic && j + 1 == ny)) {
            strong_links(matrix, largest, theta, j, |a, b, to_j| {
                if to_j / SLAB != j / SLAB {
                    join(&mut parents, 0, a, b);
                }
            });
        }
        Self { shape, parents }
    }

    /// The bodies that are worth correcting.
    fn bodies(&self, execute: &impl Execute, matrix: &Couplings, layout: &Layout) -> Bodies {
        let Shape { nx, ny, nz } = self.shape;
        let plane = nx * nz;
        let mut roots: Vec<Vec<u32>> = vec![Vec::new(); ny];
        let sizes: Vec<AtomicU32> = (0..self.parents.len()).map(|_| AtomicU32::new(0)).collect();
        execute.for_each(&mut roots, |j, roots| {
            *roots = (j * plane..(j + 1) * plane).map(|cell| find_root(&self.parents, cell as u32)).collect();
            roots.iter().for_each(|&root| {
                sizes[root as usize].fetch_add(1, Ordering::Relaxed);
            });
        });
        // Cells of small bodies, gathered by their bodies' first cells.
        let mut starts = vec![0u32];
        let mut places = vec![u32::MAX; self.parents.len()];
        let mut total = 0;
        for (place, size) in places.iter_mut().zip(&sizes) {
            let size = size.load(Ordering::Relaxed);
            if (2..=LARGEST).contains(&size) {
                *place = starts.len() as u32 - 1;
                total += size;
                starts.push(total);
            }
        }
        let mut next: Vec<u32> = starts[..starts.len() - 1].to_vec();
        let mut cells = vec![0u32; total as usize];
        for (cell, &root) in roots.iter().flatten().enumerate() {
            if let Some(next) = next.get_mut(places[root as usize] as usize) {
                cells[*next as usize] = cell as u32;
                *next += 1;
            }
        }
        let mut factors = vec![0.0; starts.len() - 1];
        const TOGETHER: usize = 256;
        let mut parts: Vec<&mut [f64]> = factors.chunks_mut(TOGETHER).collect();
        let root = |[i, j, k]: [usize; 3]| roots[j][i + nx * k];
        execute.for_each(&mut parts, |part, factors| {
            for (n, factor) in factors.iter_mut().enumerate() {
                let body = part * TOGETHER + n;
                let cells = &cells[starts[body] as usize..starts[body + 1] as usize];
                *factor = factor_of(matrix, cells.iter().map(|&cell| at(self.shape, cell)), root);
            }
        });
        let mut bodies = Bodies { starts: vec![0], ..Bodies::default() };
        for (body, &factor) in factors.iter().enumerate().filter(|&(_, &factor)| factor > 0.0) {
            let cells = &cells[starts[body] as usize..starts[body + 1] as usize];
            bodies.cells.extend(cells.iter().map(|&cell| {
                let [i, j, k] = at(self.shape, cell);
                layout.index(i, j, k) as u32
            }));
            bodies.starts.push(bodies.cells.len() as u32);
            bodies.factors.push(factor);
        }
        bodies
    }
}

fn at(shape: Shape, cell: u32) -> [usize; 3] {
    let cell = cell as usize;
    [cell % shape.nx, cell / (shape.nx * shape.nz), cell / shape.nx % shape.nz]
}

/// ω / D of a body that is worth correcting, 0 of any other.
fn factor_of(matrix: &Couplings, cells: impl Iterator<Item = [usize; 3]>, root: impl Fn([usize; 3]) -> u32) -> f64 {
    let (mut leaving, mut absolute, mut diagonals) = (0.0, 0.0, 0.0);
    for cell @ [i, j, k] in cells {
        let own = root(cell);
        let s = matrix.sums(j, k as isize)[i + 1];
        let mut diagonal = s;
        leaving += s;
        absolute += s.abs();
        for offset in matrix.offsets() {
            let c = matrix.row(j, k as isize, offset)[i + 1];
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

/// `f(a, b, b's plane)` for all strong couplings of plane j with cells of higher number.
fn strong_links(matrix: &Couplings, largest: &Numbers, theta: f64, j: usize, mut f: impl FnMut(u32, u32, usize)) {
    let (grid, Shape { nx, nz, .. }) = (matrix.grid, matrix.grid.shape);
    for n in (0..UPPER).filter(|&n| matrix.present[n]) {
        let offset @ [dx, dy, dz] = upper_offset(n);
        let Some(to_j) = grid.beside(j, dy) else { continue };
        for k in 0..nz {
            let to_k = k as isize + dz;
            if !grid.periodic[2] && !(0..nz as isize).contains(&to_k) {
                continue;
            }
            let c = &matrix.row(j, k as isize, offset)[1..=nx];
            let own = &largest[j][grid.at(0, k as isize)..][..nx];
            let other = &largest[to_j][grid.at(dx, to_k)..][..nx];
            let to_k = to_k.rem_euclid(nz as isize) as usize;
            for i in 0..nx {
                if c[i] > 0.0 && c[i] >= theta * own[i].max(other[i]) {
                    let to_i = (i as isize + dx).rem_euclid(nx as isize) as usize;
                    f((i + nx * (k + nz * j)) as u32, (to_i + nx * (to_k + nz * to_j)) as u32, to_j);
                }
            }
        }
    }
}

/// Whether there can be bodies at all, on this grid or on coarser ones: whether anywhere in the seven-point matrix a coupling
/// is much weaker than the next one in its direction.
pub fn may_exist(execute: &impl Execute, matrix: &Couplings) -> bool {
    let (grid, Shape { nx, ny, nz }) = (matrix.grid, matrix.grid.shape);
    let mut found = vec![false; ny];
    execute.for_each(
        &mut found,
        #[inline(always)]
        |j, found| {
            for n in (0..UPPER).filter(|&n| matrix.present[n]) {
                let offset @ [dx, dy, dz] = upper_offset(n);
                let (Some(before_j), Some(_)) = (grid.beside(j, -dy), grid.beside(j, dy)) else { continue };
                for k in 0..nz as isize {
                    let c = &matrix.row(j, k, offset)[1..=nx];
                    let before = &matrix.planes[before_j].couplings[n][grid.at(-dx, k - dz)..][..nx];
                    // Beyond a closed side is no coupling to compare with.
                    let is_end = |i: usize| dx == 1 && !grid.periodic[0] && (i == 0 || i + 1 == nx);
                    let is_side = dz == 1 && !grid.periodic[2] && (k == 0 || k + 1 == nz as isize);
                    let is_weak = |(i, (&c, &before)): (usize, (&f64, &f64))| {
                        !is_end(i) && (c < CONTRAST * before || before < CONTRAST * c)
                    };
                    *found |= !is_side && c.iter().zip(before).enumerate().any(is_weak);
                }
            }
        },
    );
    found.contains(&true)
}
