//! The 27-point operator: couplings in the vectors' layout, and rows of the matrix as streams.

use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

use isobar_core::backend::{HostScalars, Scalar};
use isobar_core::error::Result;
use isobar_core::layout::Layout;
use isobar_core::operator::Operator;
use isobar_core::real::Real;
use isobar_core::simd::Pack;
use isobar_core::stencil::Axis;
use isobar_core::stencil::galerkin::couplings::{Grid, UPPER, along, number, upper_offset};
use isobar_core::stencil::galerkin::{Couplings, Execute, Offset};
use pulp::{Simd, WithSimd};

use crate::cpu::Cpu;
use crate::row_sum::RowSum;
use crate::shared::{Row, RowMut, Shared};
use crate::vector::Vector;

/// A pivot this small beside its diagonal is rounding.
const SINGULAR_PIVOT: f64 = 1e-13;
/// The most neighbours of a cell.
pub(super) const NEIGHBOURS: usize = 26;

/// A symmetric matrix with couplings to the 26 cells around each; what lies within a half plane and its neighbours is read
/// as streams, from end to end.
#[derive(Debug)]
pub struct Level27<T> {
    pub(super) cpu: Cpu,
    pub(super) layout: Layout,
    pub(super) grid: Grid,
    offsets: Vec<Offset>,
    numbers: RwLock<Numbers<T>>,
    pub(super) workspace: Mutex<Workspace<T>>,
}

/// The coefficients.
#[derive(Debug)]
pub(super) struct Numbers<T> {
    /// By stored offset, without those across the ends of x and z.
    couplings: [Option<Vector<T>>; UPPER],
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

/// Rows from some layer on, one couplings' and one neighbours' a stream.
pub(super) struct Streams<'a, S: Simd, T: Real> {
    pairs: [(Row<'a, S, T>, Row<'a, S, T>); NEIGHBOURS],
    count: usize,
}

impl<'a, S: Simd, T: Real> Streams<'a, S, T> {
    /// x + Σ c u
    #[inline(always)]
    pub(super) fn add_to(&self, x: Pack<S, T>, i: usize) -> Pack<S, T> {
        self.pairs[..self.count].iter().fold(x, |sum, (c, u)| c.get(i).mul_add(u.get(i), sum))
    }

    /// x + Σ c (own − u)
    #[inline(always)]
    pub(super) fn add_differences_to(&self, x: Pack<S, T>, own: Pack<S, T>, i: usize) -> Pack<S, T> {
        self.pairs[..self.count].iter().fold(x, |sum, (c, u)| c.get(i).mul_add(own - u.get(i), sum))
    }
}

/// Layers k of a half plane that have the same neighbours: the first, those in the middle, the last.
pub(super) fn parts(nz: usize) -> [(usize, usize); 3] {
    match nz {
        1 => [(0, 1), (1, 1), (1, 1)],
        _ => [(0, 1), (1, nz - 1), (nz - 1, nz)],
    }
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

    /// The couplings of some layers of a half plane and the neighbours they go to, vertical ones or not. `ring` stands in
    /// for half planes across the end of an odd ring.
    ///
    /// # Safety
    /// Nobody writes the rows of `u` meanwhile.
    #[inline(always)]
    pub(super) unsafe fn streams<'a, S: Simd>(
        &self,
        simd: S,
        numbers: &'a Numbers<T>,
        (j, parity): (usize, usize),
        (first, beyond): (usize, usize),
        u: Shared<T>,
        with_vertical: bool,
        ring: Option<&'a [Vec<T>; 2]>,
    ) -> Streams<'a, S, T> {
        let (pitch, nz) = (self.layout.pitch(), self.grid.shape.nz as isize);
        let n = (beyond - first) * pitch;
        let own = self.start(j, parity) + (first * pitch) as isize;
        let empty = Row::new(simd, &[]);
        let mut streams = Streams { pairs: [(empty, empty); NEIGHBOURS], count: 0 };
        for &offset @ [dx, dy, dz] in &self.offsets {
            if dx == 0 && dy == 0 && !with_vertical {
                continue;
            }
            // Parts are chosen so that all their layers have a neighbour or none.
            let from = first as isize + dz;
            if from < 0 || beyond as isize + dz > nz {
                continue;
            }
            let Some(to_j) = self.grid.beside(j, dy) else { continue };
            let to_parity = (parity + usize::from(dx != 0)) % 2;
            let shift = (parity as isize + dx - to_parity as isize) / 2;
            let to = self.start(to_j, to_parity) + from * pitch as isize + shift;
            let number = number(offset);
            let (c, at) = if number > UPPER {
                (&numbers.couplings[number - UPPER - 1], own)
            } else {
                (&numbers.couplings[UPPER - 1 - number], to)
            };
            let Some(c) = c else { continue };
            let is_across = (dy < 0 && j == 0) || (dy > 0 && j + 1 == self.grid.shape.ny);
            let values = match ring {
                Some(ring) if is_across && dx == 0 && !ring[0].is_empty() => {
                    let copy = &ring[usize::from(to_j != 0)];
                    Row::new(simd, &copy[from as usize * pitch..from as usize * pitch + n])
                }
                // SAFETY: promised by the caller; rows of the vector, or one entry into its guard.
                _ => unsafe { u.packs(simd, to, n) },
            };
            // SAFETY: nobody writes coefficients while they are read; as above.
            let c = unsafe { c.share().packs(simd, at, n) };
            streams.pairs[streams.count] = (c, values);
            streams.count += 1;
        }
        streams
    }

    /// The entries of a half plane that streams read a neighbour's coupling for that is none: west of its first entry, and
    /// east of its last one, lie other half planes.
    #[inline(always)]
    pub(super) fn ends(&self, parity: usize) -> Option<usize> {
        let is_full = 2 * self.layout.pitch() == self.grid.shape.nx;
        match parity {
            0 => Some(0),
            _ => is_full.then(|| self.layout.half_plane() - 1),
        }
    }

    /// Σ c u, or Σ c (own − u), of one entry of a half plane, as [`Level27::streams`] would add them up.
    ///
    /// # Safety
    /// Nobody writes the entries of `u` meanwhile.
    pub(super) unsafe fn sum_at(
        &self,
        numbers: &Numbers<T>,
        (j, parity): (usize, usize),
        entry: usize,
        u: Shared<T>,
        own: Option<T>,
        ring: Option<&[Vec<T>; 2]>,
    ) -> T {
        let (pitch, [nx, ny, nz]) = (self.layout.pitch(), self.grid.extents());
        let at = [2 * (entry % pitch) + parity, j, entry / pitch];
        let mut sum = T::ZERO;
        for &offset @ [dx, dy, dz] in &self.offsets {
            let (i, k) = (at[0] as isize + dx, at[2] as isize + dz);
            let is_inside = (0..nx as isize).contains(&i) && (0..nz as isize).contains(&k);
            let Some(to_j) = self.grid.beside(j, dy).filter(|_| is_inside) else { continue };
            if own.is_none() && dx == 0 && dy == 0 {
                continue;
            }
            let number = number(offset);
            let to = self.layout.index(i as usize, to_j, k as usize);
            let (c, from) = if number > UPPER {
                (&numbers.couplings[number - UPPER - 1], self.layout.index(at[0], j, at[2]))
            } else {
                (&numbers.couplings[UPPER - 1 - number], to)
            };
            let Some(c) = c else { continue };
            let is_across = (dy < 0 && j == 0) || (dy > 0 && j + 1 == ny);
            let value = match ring {
                Some(ring) if is_across && dx == 0 && !ring[0].is_empty() => {
                    ring[usize::from(to_j != 0)][(at[0] / 2) + pitch * k as usize]
                }
                // SAFETY: promised by the caller.
                _ => unsafe { u.row(to as isize, 1)[0] },
            };
            sum += c.entries()[from] * own.map_or(value, |own| own - value);
        }
        sum
    }

    /// Runs `f(j)` for all planes, on all threads, each with a number.
    pub(super) fn for_each_plane(&self, threads: usize, f: impl Fn(usize, usize) + Sync) {
        let ny = self.grid.shape.ny;
        self.cpu.for_each(threads, |thread| {
            for j in ny * thread / threads..ny * (thread + 1) / threads {
                f(j, thread);
            }
        });
    }

    /// y = A x, or f − A x, on plane j, so far from its place; Σ y²
    pub(super) fn plane(
        &self,
        numbers: &Numbers<T>,
        j: usize,
        f: Option<Shared<T>>,
        x: Shared<T>,
        y: (Shared<T>, isize),
    ) -> f64 {
        [0, 1]
            .map(|parity| self.cpu.dispatch::<T, _>(HalfRows { level: self, numbers, j, parity, f, x, y }))
            .iter()
            .sum()
    }

    fn pass(&self, f: Option<&Vector<T>>, x: &Vector<T>, y: &mut Vector<T>) -> f64 {
        let (numbers, mut workspace) = (self.numbers(), self.workspace());
        let (f, x, y) = (f.map(Vector::share), x.share(), y.share_mut());
        let Workspace { values, norms, .. } = &mut *workspace;
        let sums = Shared::of(norms);
        self.for_each_plane(values.len(), |j, _| {
            let sum = self.plane(&numbers, j, f, x, (y, 0));
            // SAFETY: each plane is visited once.
            unsafe { sums.set(j as isize, sum) };
        });
        norms.iter().sum()
    }
}

/// y = A x or f − A x on a half plane; Σ y²
struct HalfRows<'a, T> {
    level: &'a Level27<T>,
    numbers: &'a Numbers<T>,
    j: usize,
    parity: usize,
    f: Option<Shared<T>>,
    x: Shared<T>,
    /// And how far from its place.
    y: (Shared<T>, isize),
}

impl<T: Real> WithSimd for HalfRows<'_, T> {
    type Output = f64;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> f64 {
        let Self { level, numbers, j, parity, f, x, y: (y, shift) } = self;
        let (pitch, start) = (level.layout.pitch(), level.start(j, parity));
        for part @ (first, beyond) in parts(level.grid.shape.nz) {
            let (position, n) = (start + (first * pitch) as isize, (beyond - first) * pitch);
            // SAFETY: planes of y have one thread each, and nobody writes x, f or coefficients, here and below.
            let (streams, own, sums, mut out) = unsafe {
                (
                    level.streams(simd, numbers, (j, parity), part, x, true, None),
                    x.packs(simd, position, n),
                    numbers.sums.share().packs(simd, position, n),
                    y.packs_mut(simd, position + shift, n),
                )
            };
            for i in 0..out.len() {
                let here = own.get(i);
                out.set(i, streams.add_differences_to(sums.get(i) * here, here, i));
            }
        }
        let n = level.layout.half_plane();
        // SAFETY: as above.
        let (own, out) = unsafe { (x.row(start, n), y.row_mut(start + shift, n)) };
        if let Some(entry) = level.ends(parity) {
            // SAFETY: as above.
            let sum = unsafe { level.sum_at(numbers, (j, parity), entry, x, Some(own[entry]), None) };
            out[entry] = numbers.sums.entries()[start as usize + entry] * own[entry] + sum;
        }
        for across in &numbers.across[2 * j + Level27::<T>::colour(j, parity)].couplings {
            let entry = across.entry as usize;
            // SAFETY: as above.
            let other = unsafe { x.row(across.position, 1)[0] };
            out[entry] += across.coupling * (own[entry] - other);
        }
        let Some(f) = f else { return 0.0 };
        // SAFETY: as above.
        let f = unsafe { f.packs(simd, start, n) };
        let mut out = RowMut::new(simd, out);
        let mut sum = RowSum::new(simd);
        for i in 0..out.len() {
            let value = f.get(i) - out.get(i);
            sum.add_product(value, value);
            out.set(i, value);
        }
        sum.total()
    }
}

impl<T: Real> Operator<Cpu, T> for Level27<T> {
    fn backend(&self) -> &Cpu {
        &self.cpu
    }

    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn apply(&self, x: &Vector<T>, y: &mut Vector<T>) -> Result<()> {
        self.pass(None, x, y);
        Ok(())
    }

    fn residual(
        &self,
        f: &Vector<T>,
        u: &Vector<T>,
        r: &mut Vector<T>,
        norm: Scalar,
        scalars: &mut HostScalars,
    ) -> Result<()> {
        let sum = self.pass(Some(f), u, r);
        scalars.reduce(norm, [sum]);
        Ok(())
    }

    /// Couplings, row sums and pivots.
    fn coefficient_vectors(&self) -> f64 {
        (self.offsets.len() / 2 + 2) as f64
    }
}
