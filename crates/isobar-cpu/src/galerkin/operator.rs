//! The 27-point operator: couplings in the vectors' layout.

use std::ops::Range;
use std::sync::{MutexGuard, RwLock, RwLockReadGuard};

use crate::per_queue::PerQueue;
use crate::{Cpu, Shared, Vector};
use isobar_core::prelude::{Layout, Real, Result, Slab, read, write};
use isobar_core::stencil::galerkin::couplings::{Grid, UPPER, upper_offset};
use isobar_core::stencil::galerkin::{Couplings, Execute, Matrix, Offset};

/// Pivots below this fraction of their diagonal are rounding errors.
const SINGULAR_PIVOT: f64 = 1e-13;
/// A symmetric matrix with couplings to the 26 cells around each; entries within a half plane and its neighbours are read as
/// contiguous streams.
#[derive(Debug)]
pub struct Level27<T> {
    pub(super) cpu: Cpu,
    pub(super) layout: Layout,
    /// The cells of this subdomain.
    pub(super) grid: Grid,
    /// The number of the first plane in the whole grid, which is even.
    first: usize,
    pub(super) offsets: Vec<Offset>,
    numbers: RwLock<Numbers<T>>,
    workspace: PerQueue<Workspace<T>>,
}

/// The coefficients.
#[derive(Debug)]
pub(super) struct Numbers<T> {
    /// The couplings of each stored offset, halo rows included; couplings across periodic ends of x and z are in `across`.
    pub(super) couplings: [Option<Vector<T>>; UPPER],
    pub(super) sums: Vector<T>,
    /// 1 / pivot of the lines in z.
    pub(super) inverse_pivots: Vector<T>,
    /// The exceptions of each half plane, in the order of memory.
    pub(super) across: Vec<Across<T>>,
}

/// The numbers of a half plane that are not in streams.
#[derive(Clone, Debug, Default)]
pub(super) struct Across<T> {
    /// Couplings across periodic ends of x and z.
    pub(super) couplings: Vec<Wrapped<T>>,
    /// Σ |c| over couplings to the same colour, which use old values in a sweep: entry of the half plane, and the sum.
    pub(super) lagging: Vec<(u32, T)>,
}

/// A coupling across a periodic end of x or z.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wrapped<T> {
    /// The entry of the half plane.
    pub(super) entry: u32,
    /// The neighbour's position in a vector.
    pub(super) position: isize,
    pub(super) coupling: T,
    /// The buffer (number in [`Workspace::ring`] and entry there) with the neighbour's old value, if the neighbour is also
    /// across the end of a periodic direction with an odd number of planes, in a half plane of the same colour.
    pub(super) in_ring: Option<(u8, u32)>,
}

/// The scratch memory of the threads.
#[derive(Debug)]
pub(super) struct Workspace<T> {
    /// One half plane per thread.
    pub(super) values: Vec<Vec<T>>,
    /// One sum per plane.
    pub(super) norms: Vec<f64>,
    /// The old values of the half planes at the ends of a periodic direction with an odd number of planes.
    pub(super) ring: [Vec<T>; 2],
}

impl<T: Real> Workspace<T> {
    /// Makes the workspace of the threads that are worth using on vectors of this layout.
    fn new(cpu: &Cpu, layout: &Layout, grid: &Grid) -> Self {
        let is_odd_ring = grid.periodic[1] && !grid.shape.ny.is_multiple_of(2);
        let ring = if is_odd_ring { layout.half_plane() } else { 0 };
        let threads = cpu.threads_for(layout.len()).min(grid.shape.ny);
        Self {
            values: vec![vec![T::ZERO; layout.half_plane()]; threads],
            norms: vec![0.0; grid.shape.ny],
            ring: [vec![T::ZERO; ring], vec![T::ZERO; ring]],
        }
    }
}

impl<T: Real> Level27<T> {
    pub(super) fn new(cpu: &Cpu, matrix: &Matrix, slab: Slab) -> Result<Self> {
        match matrix {
            Matrix::Single(matrix) => Self::of(cpu, matrix, slab),
            Matrix::Double(matrix) => Self::of(cpu, matrix, slab),
        }
    }

    fn of<N: Real>(cpu: &Cpu, matrix: &Couplings<N>, slab: Slab) -> Result<Self> {
        let whole = matrix.whole_grid();
        let layout = slab.layout(whole.shape, whole.periodic[1])?;
        let grid = Grid { shape: layout.shape(), periodic: layout.periodic_within(whole.periodic) };
        let mut couplings = [const { None }; UPPER];
        for (vector, present) in couplings.iter_mut().zip(matrix.present) {
            *vector = present.then(|| Vector::zeros(cpu, &layout)).transpose()?;
        }
        let numbers = Numbers {
            couplings,
            sums: Vector::zeros(cpu, &layout)?,
            inverse_pivots: Vector::zeros(cpu, &layout)?,
            across: vec![Across::default(); 2 * grid.shape.ny],
        };
        let this = Self {
            cpu: cpu.clone(),
            layout,
            grid,
            first: slab.first,
            offsets: matrix.offsets().collect(),
            numbers: RwLock::new(numbers),
            workspace: PerQueue::new(cpu, Workspace::new(cpu, &layout, &grid)),
        };
        this.set(matrix);
        Ok(this)
    }

    /// Replaces the coefficients by those of a matrix on the same grid, with the same offsets.
    pub(super) fn update(&self, matrix: &Matrix) {
        match matrix {
            Matrix::Single(matrix) => self.set(matrix),
            Matrix::Double(matrix) => self.set(matrix),
        }
    }

    fn set<N: Real>(&self, matrix: &Couplings<N>) {
        let mut numbers = write(&self.numbers);
        let Numbers { couplings, sums, inverse_pivots, across } = &mut *numbers;
        let shared = couplings.each_mut().map(|vector| vector.as_mut().map(Vector::share_mut));
        let (sums, inverse_pivots) = (sums.share_mut(), inverse_pivots.share_mut());
        let (nx, nz) = (self.grid.shape.nx, self.grid.shape.nz);
        let [before, after] = self.layout.halo();
        let ny = self.grid.shape.ny as isize;
        (-(before as isize)..0).chain(ny..ny + after as isize).for_each(|j| self.store_couplings(matrix, &shared, j));
        let mut planes: Vec<&mut [Across<T>]> = across.chunks_mut(2).collect();
        Execute::for_each(
            &self.cpu,
            &mut planes,
            #[inline(always)]
            |j, across| {
                self.store_couplings(matrix, &shared, j as isize);
                for k in 0..nz {
                    self.store(
                        sums,
                        (j as isize, k),
                        &matrix.sums(matrix.here(self.first + j), k as isize)[1..=nx],
                        0..0,
                    );
                }
                for across in across.iter_mut() {
                    across.couplings.clear();
                    across.lagging.clear();
                }
                self.find_across(matrix, j, across);
                self.find_pivots(matrix, j, across, inverse_pivots);
            },
        );
    }

    /// Stores the couplings of a plane, which may be a halo plane.
    #[inline(always)]
    fn store_couplings<N: Real>(&self, matrix: &Couplings<N>, out: &[Option<Shared<T>>], j: isize) {
        let (nx, nz) = (self.grid.shape.nx, self.grid.shape.nz);
        let row = matrix.here(self.layout.row_there(j));
        for (n, out) in out.iter().enumerate() {
            let &Some(out) = out else { continue };
            let [dx, _, dz] = upper_offset(n);
            for k in 0..nz {
                let row = &matrix.row(row, k as isize, upper_offset(n))[1..=nx];
                let leaves = dz != 0 && !(0..nz as isize).contains(&(k as isize + dz));
                let end = if dx < 0 { 0 } else { nx - 1 };
                let beyond = if leaves { 0..nx } else { end..end + usize::from(dx != 0) };
                self.store(out, (j, k), row, beyond);
            }
        }
    }

    /// Stores a row, with zeros in some columns.
    #[inline(always)]
    fn store<N: Real>(&self, out: Shared<T>, (j, k): (isize, usize), row: &[N], zeros: Range<usize>) {
        let (pairs, rest) = row.as_chunks::<2>();
        for parity in 0..2 {
            let start = self.start_of(j, parity) + (k * self.layout.pitch()) as isize;
            // SAFETY: each plane belongs to one thread.
            let entries = unsafe { out.row_mut(start, (row.len() + 1 - parity) / 2) };
            entries.iter_mut().zip(pairs).for_each(|(entry, pair)| *entry = T::from_f64(pair[parity].to_f64()));
            if let (0, &[last]) = (parity, rest) {
                entries[pairs.len()] = T::from_f64(last.to_f64());
            }
            for i in zeros.clone().filter(|i| i % 2 == parity) {
                entries[i / 2] = T::ZERO;
            }
        }
    }

    /// Returns the number of a half plane in plane j, by the parity of its columns.
    pub(super) fn colour(j: usize, parity: usize) -> usize {
        (j + parity) % 2
    }

    /// Returns whether no coupling joins cells of one colour: no line of x or z is periodic, and none of y with an odd
    /// number of cells.
    pub(super) fn has_no_rings(&self) -> bool {
        !self.grid.periodic[0] && !self.grid.periodic[2] && !self.is_odd_ring()
    }

    /// Returns whether plane 0 and the last one are neighbours, both even.
    pub(super) fn is_odd_ring(&self) -> bool {
        self.grid.periodic[1] && !self.grid.shape.ny.is_multiple_of(2)
    }

    /// Returns the position of the half plane of one parity of i in plane j.
    #[inline(always)]
    pub(super) fn start(&self, j: usize, parity: usize) -> isize {
        self.start_of(j as isize, parity)
    }

    /// Returns the position of the half plane of one parity of i in plane j, which may be a halo plane.
    #[inline(always)]
    pub(super) fn start_of(&self, j: isize, parity: usize) -> isize {
        ((j + parity as isize).rem_euclid(2) + 2 * j) * self.layout.half_plane() as isize
    }

    /// Returns the position of a cell in a plane, which may be a halo plane.
    #[inline(always)]
    pub(super) fn position(&self, i: usize, j: isize, k: usize) -> isize {
        self.start_of(j, i % 2) + (i / 2 + self.layout.pitch() * k) as isize
    }

    /// Returns the neighbour of a plane in direction dy, halo planes included.
    #[inline(always)]
    pub(super) fn beside(&self, j: usize, dy: isize) -> Option<isize> {
        let ([before, after], to) = (self.layout.halo(), j as isize + dy);
        if to + before as isize >= 0 && to < (self.grid.shape.ny + after) as isize {
            return Some(to);
        }
        self.grid.beside(j, dy).map(|to| to as isize)
    }

    /// Finds the couplings of plane j across the ends of x and z, and those that use old values.
    fn find_across<N: Real>(&self, matrix: &Couplings<N>, j: usize, across: &mut [Across<T>]) {
        let (grid, pitch) = (matrix.grid, self.layout.pitch());
        let [nx, ny, nz] = grid.extents();
        if grid.periodic == [false; 3] {
            return;
        }
        let here = matrix.here(self.first + j);
        let is_end = |d: usize, n: usize| grid.periodic[d] && (n == 0 || n + 1 == [nx, ny, nz][d]);
        for (k, i) in (0..nz).flat_map(|k| (0..nx).map(move |i| (k, i))) {
            let at = [i, here, k];
            if !(0..3).any(|d| is_end(d, at[d])) {
                continue;
            }
            let entry = (i / 2 + pitch * k) as u32;
            let half = &mut across[Self::colour(j, i % 2)];
            let mut lag = 0.0;
            for &offset in &self.offsets {
                let moved = [0, 1, 2].map(|d| at[d] as isize + offset[d]);
                let crosses = [0, 1, 2].map(|d| moved[d] < 0 || moved[d] >= [nx, ny, nz][d] as isize);
                if crosses == [false; 3] {
                    continue;
                }
                let Some(to) = matrix.neighbour(at, offset) else { continue };
                let c = matrix.coupling(at, offset).to_f64();
                if crosses[0] || crosses[2] {
                    let position = self.position(to[0], self.layout.row_here(matrix.there(to[1])), to[2]);
                    let is_lagging = crosses[1] && !ny.is_multiple_of(2) && to[0] % 2 == i % 2;
                    let in_ring = is_lagging.then(|| (u8::from(to[1] != 0), (to[0] / 2 + pitch * to[2]) as u32));
                    half.couplings.push(Wrapped { entry, position, coupling: T::from_f64(c), in_ring });
                }
                if to[0] % 2 == i % 2 && to[1] % 2 == j % 2 {
                    lag += c.abs();
                }
            }
            if lag > 0.0 {
                half.lagging.push((entry, T::from_f64(lag)));
            }
        }
    }

    /// Computes 1 / pivot of the lines of plane j, upwards: pivots are sums of row sums and couplings.
    #[inline(always)]
    fn find_pivots<N: Real>(&self, matrix: &Couplings<N>, j: usize, across: &[Across<T>], out: Shared<T>) {
        let [nx, _, nz] = self.grid.extents();
        let pitch = self.layout.pitch();
        let [mut rest, mut diagonal, mut inverses, mut excess] = [(); 4].map(|()| vec![0.0; nx]);
        let zeros = vec![N::ZERO; nx];
        let here = matrix.here(self.first + j);
        let mut below = &zeros[..];
        for k in 0..nz {
            let row = |offset: Offset| &matrix.row(here, k as isize, offset)[1..=nx];
            let is_in_line = |[dx, dy, dz]: Offset| dx == 0 && dy == 0 && (0..nz as isize).contains(&(k as isize + dz));
            let sums = &matrix.sums(here, k as isize)[1..=nx];
            rest.iter_mut().zip(sums).for_each(|(rest, &sum)| *rest = sum.to_f64());
            // Nearly decoupled columns are sensitive to the order of this sum.
            for &offset in self.offsets.iter().filter(|&&offset| !is_in_line(offset)) {
                rest.iter_mut().zip(row(offset)).for_each(|(sum, &c)| *sum += c.to_f64());
            }
            diagonal.copy_from_slice(&rest);
            let mut above = &zeros[..];
            for &offset in self.offsets.iter().filter(|&&offset| is_in_line(offset)) {
                let c = row(offset);
                diagonal.iter_mut().zip(c).for_each(|(sum, &c)| *sum += c.to_f64());
                if offset[2] > 0 {
                    above = c;
                }
            }
            for parity in 0..2 {
                for &(entry, lag) in &across[Self::colour(j, parity)].lagging {
                    if entry as usize / pitch == k {
                        rest[2 * (entry as usize % pitch) + parity] += lag.to_f64();
                    }
                }
            }
            // `excess` holds the values of the row before.
            excess
                .iter_mut()
                .zip(below)
                .zip(&rest)
                .for_each(|((excess, &below), rest)| *excess = below.to_f64() * *excess + rest);
            let rows = inverses.iter_mut().zip(excess.iter().zip(above).zip(&diagonal));
            rows.for_each(|(inverse, ((excess, &above), diagonal))| {
                let pivot = above.to_f64() + excess;
                let is_regular = (pivot > SINGULAR_PIVOT * diagonal) & (pivot > 0.0);
                *inverse = if is_regular { 1.0 / pivot } else { 0.0 };
            });
            excess.iter_mut().zip(&inverses).for_each(|(excess, inverse)| *excess *= inverse);
            below = above;
            self.store(out, (j as isize, k), &inverses, 0..0);
        }
    }

    /// Returns the numbers. They are written entry by entry, and stay valid after a panic elsewhere.
    pub(super) fn numbers(&self) -> RwLockReadGuard<'_, Numbers<T>> {
        read(&self.numbers)
    }

    pub(super) fn workspace(&self) -> MutexGuard<'_, Workspace<T>> {
        self.workspace.lock(|| Ok(Workspace::new(&self.cpu, &self.layout, &self.grid)))
    }
}
