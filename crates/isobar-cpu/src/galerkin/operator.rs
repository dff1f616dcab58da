//! The 27-point operator: couplings in the vectors' layout.

use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

use crate::cpu::Cpu;
use crate::shared::Shared;
use crate::vector::Vector;
use isobar_core::error::Result;
use isobar_core::layout::Layout;
use isobar_core::real::Real;
use isobar_core::stencil::Axis;
use isobar_core::stencil::galerkin::couplings::{Grid, UPPER, along, upper_offset};
use isobar_core::stencil::galerkin::{Couplings, Execute, Offset};

/// A pivot this small beside its diagonal is rounding.
const SINGULAR_PIVOT: f64 = 1e-13;
/// A symmetric matrix with couplings to the 26 cells around each; what lies within a half plane and its neighbours is read
/// as streams, from end to end.
#[derive(Debug)]
pub struct Level27<T> {
    pub(super) cpu: Cpu,
    pub(super) layout: Layout,
    pub(super) grid: Grid,
    pub(super) offsets: Vec<Offset>,
    numbers: RwLock<Numbers<T>>,
    pub(super) workspace: Mutex<Workspace<T>>,
}

/// The coefficients.
#[derive(Debug)]
pub(super) struct Numbers<T> {
    /// By stored offset, without those across the ends of x and z.
    pub(super) couplings: [Option<Vector<T>>; UPPER],
    pub(super) sums: Vector<T>,
    /// 1 / pivot of the lines in z.
    pub(super) inverse_pivots: Vector<T>,
    /// Of each half plane, in the order of memory.
    pub(super) across: Vec<Across<T>>,
}

impl<T: Real> Numbers<T> {
    /// Couplings to the cells above, of one half plane.
    #[inline(always)]
    pub(super) fn vertical(&self, start: isize, half_plane: usize) -> Option<&[T]> {
        let c = self.couplings[along(Axis::Z)].as_ref()?;
        Some(&c.entries()[start as usize..start as usize + half_plane])
    }
}

/// What a half plane has beside streams.
#[derive(Clone, Debug, Default)]
pub(super) struct Across<T> {
    /// Couplings across periodic ends of x and z.
    pub(super) couplings: Vec<Wrapped<T>>,
    /// Σ |c| over couplings to the same colour, which lag behind in a sweep: entry of the half plane, and the sum.
    pub(super) lagging: Vec<(u32, T)>,
}

/// A coupling across a periodic end of x or z.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wrapped<T> {
    /// Of the half plane.
    pub(super) entry: u32,
    /// The neighbour's in a vector.
    pub(super) position: isize,
    pub(super) coupling: T,
    /// If the neighbour is also across the end of an odd ring of planes, in a half plane of the same colour: which of
    /// [`Workspace::ring`] has its old value, and where.
    pub(super) in_ring: Option<(u8, u32)>,
}

/// Space of the threads.
#[derive(Debug)]
pub(super) struct Workspace<T> {
    /// One half plane a thread.
    pub(super) values: Vec<Vec<T>>,
    /// One sum a plane.
    pub(super) norms: Vec<f64>,
    /// In a ring of an odd number of planes: old values of the half planes at its ends.
    pub(super) ring: [Vec<T>; 2],
}

impl<T: Real> Level27<T> {
    pub(super) fn new(cpu: &Cpu, matrix: &Couplings) -> Result<Self> {
        let (grid, layout) = (matrix.grid, Layout::new(matrix.grid.shape)?);
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
        let is_odd_ring = grid.periodic[1] && !grid.shape.ny.is_multiple_of(2);
        let ring = if is_odd_ring { layout.half_plane() } else { 0 };
        let threads = cpu.threads_for(layout.len()).min(grid.shape.ny);
        let workspace = Workspace {
            values: vec![vec![T::ZERO; layout.half_plane()]; threads],
            norms: vec![0.0; grid.shape.ny],
            ring: [vec![T::ZERO; ring], vec![T::ZERO; ring]],
        };
        let this = Self {
            cpu: cpu.clone(),
            layout,
            grid,
            offsets: matrix.offsets().collect(),
            numbers: RwLock::new(numbers),
            workspace: Mutex::new(workspace),
        };
        this.update(matrix);
        Ok(this)
    }

    /// Takes the numbers of a matrix on the same grid, with the same offsets.
    pub(super) fn update(&self, matrix: &Couplings) {
        let mut numbers = self.numbers.write().unwrap_or_else(PoisonError::into_inner);
        let Numbers { couplings, sums, inverse_pivots, across } = &mut *numbers;
        let shared = couplings.each_mut().map(|vector| vector.as_mut().map(Vector::share_mut));
        let (sums, inverse_pivots) = (sums.share_mut(), inverse_pivots.share_mut());
        let (nx, nz) = (self.grid.shape.nx, self.grid.shape.nz);
        let mut planes: Vec<&mut [Across<T>]> = across.chunks_mut(2).collect();
        Execute::for_each(&self.cpu, &mut planes, |j, across| {
            for (n, out) in shared.iter().enumerate() {
                let &Some(out) = out else { continue };
                let [dx, _, dz] = upper_offset(n);
                for k in 0..nz {
                    let row = &matrix.row(j, k as isize, upper_offset(n))[1..=nx];
                    let leaves = dz != 0 && !(0..nz as isize).contains(&(k as isize + dz));
                    self.store(out, j, k, |i| {
                        let is_across = leaves || (dx < 0 && i == 0) || (dx > 0 && i + 1 == nx);
                        if is_across { 0.0 } else { row[i] }
                    });
                }
            }
            for k in 0..nz {
                let row = &matrix.sums(j, k as isize)[1..=nx];
                self.store(sums, j, k, |i| row[i]);
            }
            for across in across.iter_mut() {
                across.couplings.clear();
                across.lagging.clear();
            }
            self.find_across(matrix, j, across);
            self.find_pivots(matrix, j, across, inverse_pivots);
        });
    }

    /// Writes a row.
    fn store(&self, out: Shared<T>, j: usize, k: usize, value: impl Fn(usize) -> f64) {
        for parity in 0..2 {
            let start = self.start(j, parity) + (k * self.layout.pitch()) as isize;
            let columns = (self.grid.shape.nx + 1 - parity) / 2;
            // SAFETY: each plane has one thread.
            let row = unsafe { out.row_mut(start, columns) };
            row.iter_mut().enumerate().for_each(|(m, entry)| *entry = T::from_f64(value(2 * m + parity)));
        }
    }

    /// Number of a half plane in plane j, by the parity of its columns.
    pub(super) fn colour(j: usize, parity: usize) -> usize {
        (j + parity) % 2
    }

    /// Whether nothing couples cells of one colour beside each other: no line of x or z is a ring, and none of y an odd one.
    pub(super) fn has_no_rings(&self) -> bool {
        !self.grid.periodic[0] && !self.grid.periodic[2] && !self.is_odd_ring()
    }

    /// Whether plane 0 and the last one are neighbours, both even.
    pub(super) fn is_odd_ring(&self) -> bool {
        self.grid.periodic[1] && !self.grid.shape.ny.is_multiple_of(2)
    }

    /// Position of the half plane of one parity of i in plane j.
    #[inline(always)]
    pub(super) fn start(&self, j: usize, parity: usize) -> isize {
        ((Self::colour(j, parity) + 2 * j) * self.layout.half_plane()) as isize
    }

    /// Couplings of plane j across the ends of x and z, and those that lag behind.
    fn find_across(&self, matrix: &Couplings, j: usize, across: &mut [Across<T>]) {
        let (grid, pitch) = (self.grid, self.layout.pitch());
        let [nx, ny, nz] = grid.extents();
        if grid.periodic == [false; 3] {
            return;
        }
        for (k, i) in (0..nz).flat_map(|k| (0..nx).map(move |i| (k, i))) {
            let at = [i, j, k];
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
                let c = matrix.coupling(at, offset);
                if crosses[0] || crosses[2] {
                    let position = self.layout.index(to[0], to[1], to[2]) as isize;
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

    /// 1 / pivot of the lines of plane j, on the way up: pivots are sums of row sums and couplings.
    fn find_pivots(&self, matrix: &Couplings, j: usize, across: &[Across<T>], out: Shared<T>) {
        let [nx, _, nz] = self.grid.extents();
        let pitch = self.layout.pitch();
        let (mut rest, mut diagonal) = (vec![0.0; nx], vec![0.0; nx]);
        let (mut ratio, mut below) = (vec![0.0; nx], vec![0.0; nx]);
        let vertical = |offset: &Offset| offset[0] == 0 && offset[1] == 0;
        let zeros = vec![0.0; nx];
        for k in 0..nz {
            rest.copy_from_slice(&matrix.sums(j, k as isize)[1..=nx]);
            let mut above = &zeros[..];
            diagonal.copy_from_slice(&rest);
            for &offset in &self.offsets {
                let row = &matrix.row(j, k as isize, offset)[1..=nx];
                diagonal.iter_mut().zip(row).for_each(|(sum, c)| *sum += c);
                let is_inside = (0..nz as isize).contains(&(k as isize + offset[2]));
                if vertical(&offset) && is_inside {
                    if offset[2] > 0 {
                        above = row;
                    }
                } else {
                    rest.iter_mut().zip(row).for_each(|(sum, c)| *sum += c);
                }
            }
            for parity in 0..2 {
                for &(entry, lag) in &across[Self::colour(j, parity)].lagging {
                    if entry as usize / pitch == k {
                        rest[2 * (entry as usize % pitch) + parity] += lag.to_f64();
                    }
                }
            }
            let mut inverses = vec![0.0; nx];
            for i in 0..nx {
                let excess = below[i] * ratio[i] + rest[i];
                let pivot = above[i] + excess;
                let is_regular = pivot > SINGULAR_PIVOT * diagonal[i] && pivot > 0.0;
                inverses[i] = if is_regular { 1.0 / pivot } else { 0.0 };
                ratio[i] = excess * inverses[i];
                below[i] = above[i];
            }
            self.store(out, j, k, |i| inverses[i]);
        }
    }

    /// They are written entry by entry, and valid as numbers whatever happened elsewhere.
    pub(super) fn numbers(&self) -> RwLockReadGuard<'_, Numbers<T>> {
        self.numbers.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn workspace(&self) -> MutexGuard<'_, Workspace<T>> {
        self.workspace.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
