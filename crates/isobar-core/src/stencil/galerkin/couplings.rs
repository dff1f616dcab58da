//! Symmetric 27-point matrices on a grid.

use std::sync::Arc;

use super::Execute;
pub use super::grid::Grid;
use super::spare::Spare;
use super::window::{Ranked, Window, collect_any, collect_equal};
use crate::real::harmonic;
use crate::stencil::{Axis, Coefficients, Diffusion, Side, Stencil};
use crate::{Real, Result, Shape};

/// The offset from a cell to one of the 26 around it: −1, 0 or 1 in x, y and z.
pub type Offset = [isize; 3];

/// The number of column colours of a 27-point matrix, (i mod 2, j mod 2); columns of one colour are not coupled.
pub const COLOURS: usize = 4;

/// The number of stored offsets: to cells in a higher plane j, in a higher layer of the same plane, or farther along the
/// same row.
pub const UPPER: usize = 13;

/// Returns the number of an offset: 0 to 12 are the mirror images of 26 to 14, 13 is the cell itself.
#[inline(always)]
pub fn number([dx, dy, dz]: Offset) -> usize {
    ((dx + 1) + 3 * (dz + 1) + 9 * (dy + 1)) as usize
}

/// Returns the stored offset of a number from 0 to 12.
#[inline(always)]
pub fn upper_offset(n: usize) -> Offset {
    let n = n as isize + 14;
    [n % 3 - 1, n / 9 - 1, n / 3 % 3 - 1]
}

/// Returns whether there are couplings in a direction, stored or not.
#[inline(always)]
pub fn is_present(present: &[bool; UPPER], offset: Offset) -> bool {
    match number(offset) {
        n if n > UPPER => present[n - UPPER - 1],
        n if n < UPPER => present[UPPER - 1 - n],
        _ => false,
    }
}

/// One plane of a matrix.
#[derive(Debug, Default)]
pub struct CouplingPlane<'p, N = f64> {
    /// The couplings by stored offset: minus the entries of the matrix, empty for an offset without entries.
    pub couplings: [&'p mut [N]; UPPER],
    /// The row sums.
    pub sums: &'p mut [N],
}

/// A symmetric matrix with couplings to the 26 cells around each:
///
/// (A u)_n = s_n u_n + Σ_m c_nm (u_n − u_m)
///
/// Row sums s are stored besides the couplings: computed as differences of entries, they would be lost to rounding from a
/// contrast of 10⁹ on.
#[derive(Clone, Debug)]
pub struct Couplings<N = f64> {
    /// The cells: those of the window, if there is one.
    pub grid: Grid,
    /// The rows of the whole grid that these are; nothing if they are all.
    pub window: Option<Arc<Window>>,
    /// The stored offsets.
    pub present: [bool; UPPER],
    /// The number of stored offsets before each, and in all.
    places: [usize; UPPER + 1],
    /// The couplings by stored offset, and the row sums, plane by plane.
    pub(super) numbers: Vec<N>,
    /// The values beyond closed sides.
    zeros: Vec<N>,
    /// Memory of finer matrices, which products reuse.
    pub(super) spare: Spare<N>,
}

impl<N: Real> Couplings<N> {
    /// Makes a matrix of zeros, its planes first touched by the threads that will use them.
    pub fn zeros(grid: Grid, present: [bool; UPPER]) -> Self {
        Self::of_any(grid, present, &Spare::default())
    }

    /// Makes a matrix of arbitrary numbers, in spare memory where there is some.
    pub(super) fn of_any(grid: Grid, present: [bool; UPPER], spare: &Spare<N>) -> Self {
        let mut places = [0; UPPER + 1];
        for (n, &present) in present.iter().enumerate() {
            places[n + 1] = places[n] + usize::from(present);
        }
        let numbers = spare.take((1 + places[UPPER]) * grid.plane() * grid.shape.ny);
        let zeros = vec![N::ZERO; grid.plane()];
        Self { grid, window: None, present, places, numbers, zeros, spare: Spare::default() }
    }

    /// Takes over the memory of a finer matrix, and its spare memory.
    pub(super) fn inherit(&self, finer: Self) {
        self.spare.give(finer.numbers);
        self.spare.inherit(finer.spare);
    }

    /// Returns the matrix in double precision.
    pub(super) fn in_double(&self) -> Couplings {
        let &Self { grid, present, places, ref numbers, .. } = self;
        let numbers = numbers.iter().map(|number| number.to_f64()).collect();
        let (window, zeros) = (self.window.clone(), vec![0.0; grid.plane()]);
        Couplings { grid, window, present, places, numbers, zeros, spare: Spare::default() }
    }

    /// Returns the number of arrays of a plane.
    #[inline(always)]
    fn arrays(&self) -> usize {
        1 + self.places[UPPER]
    }

    /// Returns the count of numbers of a plane.
    pub(super) fn plane_len(&self) -> usize {
        self.arrays() * self.grid.plane()
    }

    /// Returns the cells of the whole grid.
    pub fn whole_grid(&self) -> Grid {
        self.window.as_ref().map_or(self.grid, |window| window.whole_grid(self.grid))
    }

    /// Returns the number here of a row of the whole grid.
    #[inline(always)]
    pub fn here(&self, row: usize) -> usize {
        self.window.as_ref().map_or(row, |window| window.here(row))
    }

    /// Returns the number in the whole grid of row j here.
    #[inline(always)]
    pub fn there(&self, j: usize) -> usize {
        self.window.as_ref().map_or(j, |window| window.there(j))
    }

    /// Returns the planes, by j.
    pub fn planes_mut(&mut self) -> Vec<CouplingPlane<'_, N>> {
        let (len, arrays, present) = (self.grid.plane(), self.arrays(), self.present);
        let planes = self.numbers.chunks_exact_mut(arrays * len);
        planes
            .map(|mut rest| {
                let mut next = || {
                    let (own, after) = std::mem::take(&mut rest).split_at_mut(len);
                    rest = after;
                    own
                };
                let couplings = present.map(|present| if present { next() } else { &mut [] });
                CouplingPlane { couplings, sums: next() }
            })
            .collect()
    }

    /// Removes the couplings of cells, and sets their row sums.
    pub(super) fn hold(&mut self, cells: &[([usize; 3], N)]) {
        let (grid, offsets): (Grid, Vec<Offset>) = (self.grid, self.offsets().collect());
        let mut found = Vec::new();
        for &(at, _) in cells {
            let stored = |offset: &Offset| {
                let (n, to) = (number(*offset), self.neighbour(at, *offset)?);
                Some(if n > UPPER { (at, n - UPPER - 1) } else { (to, UPPER - 1 - n) })
            };
            found.extend(offsets.iter().filter_map(stored));
        }
        let mut planes = self.planes_mut();
        for ([i, j, k], n) in found {
            planes[j].couplings[n][grid.at(i as isize, k as isize)] = N::ZERO;
        }
        for &([i, j, k], sum) in cells {
            planes[j].sums[grid.at(i as isize, k as isize)] = sum;
        }
        if !cells.is_empty() && (grid.periodic[0] || grid.periodic[2]) {
            for plane in planes {
                plane.couplings.into_iter().filter(|c| !c.is_empty()).for_each(|c| grid.fill_ghosts(c));
                grid.fill_ghosts(plane.sums);
            }
        }
    }

    /// Returns the couplings at a stored offset of plane j, empty if there are none.
    #[inline(always)]
    pub(super) fn stored(&self, j: usize, n: usize) -> &[N] {
        let len = self.grid.plane();
        &self.numbers[(j * self.arrays() + self.places[n]) * len..][..if self.present[n] { len } else { 0 }]
    }

    /// Makes the seven-point matrix of a diffusion stencil.
    pub fn of(execute: &impl Execute, stencil: &Diffusion) -> Self {
        Self::within(execute, stencil, None)
    }

    /// Makes the rows of a window, or all.
    pub(super) fn within(execute: &impl Execute, stencil: &Diffusion, window: Option<Window>) -> Self {
        let whole = Grid::of(stencil);
        let extents = whole.extents();
        let grid = window.as_ref().map_or(whole, |window| window.of_grid(whole));
        let shape = grid.shape;
        let mut matrix = Self::zeros(grid, whole.seven_points());
        matrix.window = window.map(Arc::new);
        let window = matrix.window.clone();
        execute.for_each(
            &mut matrix.planes_mut(),
            #[inline(always)]
            |j, plane| {
                let row = window.as_ref().map_or(j, |window| window.there(j));
                for k in 0..shape.nz {
                    let start = grid.at(0, k as isize);
                    for axis in Axis::ALL.into_iter().filter(|&axis| extents[axis as usize] > 1) {
                        faces_of_row(
                            stencil,
                            axis,
                            [row, k],
                            &mut plane.couplings[along(axis)][start..start + shape.nx],
                        );
                    }
                    shifts_of_row(stencil, [row, k], &mut plane.sums[start..start + shape.nx]);
                }
                plane.couplings.iter_mut().filter(|c| !c.is_empty()).for_each(|c| grid.fill_ghosts(c));
                grid.fill_ghosts(plane.sums);
            },
        );
        matrix
    }

    /// Returns the least and the largest coupling of a seven-point matrix; 0 if a cell is inactive.
    pub(super) fn extremes(&self, on: &impl Ranked) -> Result<[f64; 2]> {
        let (grid, Shape { nx, ny, nz }) = (self.grid, self.grid.shape);
        let mut extremes = vec![[f64::INFINITY, 0.0]; ny];
        on.for_each(
            &mut extremes,
            #[inline(always)]
            |j, extremes| {
                for n in (0..UPPER).filter(|&n| self.present[n]) {
                    let [dx, dy, dz] = upper_offset(n);
                    // There is none beyond a closed side.
                    if grid.beside(j, dy).is_none() {
                        continue;
                    }
                    let rows = if dz > 0 && !grid.periodic[2] { nz - 1 } else { nz };
                    let columns = if dx > 0 && !grid.periodic[0] { nx - 1 } else { nx };
                    for k in 0..rows {
                        let row = &self.stored(j, n)[grid.at(0, k as isize)..][..columns];
                        let of_row = |best: fn(N, N) -> bool| {
                            row[1..].iter().fold(row[0], |all, &c| if best(c, all) { c } else { all }).to_f64()
                        };
                        *extremes =
                            [extremes[0].min(of_row(|c, all| c < all)), extremes[1].max(of_row(|c, all| c > all))];
                    }
                }
            },
        );
        let of_all = |extremes: &[[f64; 2]]| {
            extremes
                .iter()
                .fold([f64::INFINITY, 0.0], |[least, most]: [f64; 2], of| [least.min(of[0]), most.max(of[1])])
        };
        let own = of_all(&extremes);
        let Some(window) = &self.window else { return Ok(own) };
        Ok(of_all(collect_equal(on, window.ranks(), &own)?.as_chunks().0))
    }

    /// Returns whether there are couplings in a direction.
    #[inline(always)]
    pub fn has(&self, offset: Offset) -> bool {
        is_present(&self.present, offset)
    }

    /// Returns the couplings of the cells of row (j, k) in a direction, ghosts included: entry i + 1 is that of cell i.
    #[inline(always)]
    pub fn row(&self, j: usize, k: isize, offset @ [dx, dy, dz]: Offset) -> &[N] {
        let (grid, n) = (&self.grid, number(offset));
        if n > UPPER {
            let c = self.stored(j, n - UPPER - 1);
            return &c[grid.at(-1, k)..][..grid.span()];
        }
        // The coupling is stored at the other cell.
        let Some(plane) = grid.beside(j, dy) else { return &self.zeros[..grid.span()] };
        let c = self.stored(plane, UPPER - 1 - n);
        &c[grid.at(dx - 1, k + dz)..][..grid.span()]
    }

    /// Returns the row sums of the cells of row (j, k), ghosts included.
    #[inline(always)]
    pub fn sums(&self, j: usize, k: isize) -> &[N] {
        let arrays = self.arrays();
        &self.numbers[(j * arrays + arrays - 1) * self.grid.plane()..][self.grid.at(-1, k)..][..self.grid.span()]
    }

    /// Returns all offsets to other cells with couplings.
    pub fn offsets(&self) -> impl Iterator<Item = Offset> + '_ {
        (0..UPPER).filter(|&n| self.present[n]).flat_map(|n| {
            let [dx, dy, dz] = upper_offset(n);
            [[dx, dy, dz], [-dx, -dy, -dz]]
        })
    }

    /// Returns the coupling of a cell in a direction.
    pub fn coupling(&self, [i, j, k]: [usize; 3], offset: Offset) -> N {
        if self.has(offset) { self.row(j, k as isize, offset)[i + 1] } else { N::ZERO }
    }

    /// Computes s + Σ c of the cells of row (j, k), the diagonal.
    #[inline(always)]
    pub fn diagonals(&self, j: usize, k: usize, out: &mut [N]) {
        let n = self.grid.shape.nx;
        out[..n].copy_from_slice(&self.sums(j, k as isize)[1..=n]);
        for offset in self.offsets() {
            let row = &self.row(j, k as isize, offset)[1..=n];
            out.iter_mut().zip(row).for_each(|(sum, &c)| *sum += c);
        }
    }

    /// Returns the cell at an offset from another; nothing beyond a closed side.
    pub fn neighbour(&self, at: [usize; 3], offset: Offset) -> Option<[usize; 3]> {
        let extents = self.grid.extents();
        let mut to = at;
        for d in 0..3 {
            let moved = at[d] as isize + offset[d];
            to[d] = match usize::try_from(moved) {
                Ok(moved) if moved < extents[d] => moved,
                _ if self.grid.periodic[d] => moved.rem_euclid(extents[d] as isize) as usize,
                _ => return None,
            };
        }
        Some(to)
    }

    /// Returns the directions to halve, see [`strong`].
    ///
    /// # Errors
    /// The errors of the transport.
    pub fn strong_axes(&self, on: &impl Ranked, halves_lines: bool) -> Result<Vec<Axis>> {
        let Shape { nx, nz, .. } = self.grid.shape;
        let own = self.own_rows();
        // The sum and the count of each direction.
        let mut sums = vec![[0.0; 6]; own.len()];
        on.for_each(
            &mut sums,
            #[inline(always)]
            |j, sums| {
                let j = own.start + j;
                let mut row = vec![N::ZERO; nx];
                for k in 0..nz {
                    for axis in Axis::ALL {
                        row.fill(N::ZERO);
                        for offset in self.offsets().filter(|offset| offset[axis as usize] == 1) {
                            let c = &self.row(j, k as isize, offset)[1..=nx];
                            row.iter_mut().zip(c).for_each(|(sum, &c)| *sum += c);
                        }
                        let [sum, count] = &mut sums.as_chunks_mut::<2>().0[axis as usize];
                        // Sums of every eighth entry, one in each lane of a register.
                        let (eights, rest) = row.as_chunks::<8>();
                        let mut partial = [0.0; 8];
                        for eight in eights {
                            partial.iter_mut().zip(eight).for_each(|(sum, &c)| *sum += positive(c).to_f64());
                        }
                        *sum += partial.iter().sum::<f64>() + rest.iter().map(|&c| positive(c).to_f64()).sum::<f64>();
                        *count += row.iter().map(|&c| usize::from(c > N::ZERO)).sum::<usize>() as f64;
                    }
                }
            },
        );
        let all = match &self.window {
            Some(window) => collect_any(on, window.ranks(), sums.as_flattened())?,
            None => sums.into_flattened(),
        };
        // Row by row, as on one rank.
        let sums = all.as_chunks::<6>().0.iter();
        let sums = sums.fold([0.0; 6], |all, of_row| std::array::from_fn(|n| all[n] + of_row[n]));
        Ok(strong(&self.whole_grid(), sums, halves_lines))
    }
}

/// Returns the directions to halve, given for each, one after the other, the sum over cells of the positive total couplings to the plane above, and the
/// number of these cells: directions of more than one cell where such couplings are on average at least a quarter of the strongest direction's, in z half.
/// Unless it `halves_lines`, z comes after x and y have one cell.
pub fn strong(grid: &Grid, sums: [f64; 6], halves_lines: bool) -> Vec<Axis> {
    /// The ratio up to which means of couplings count as equal.
    const ISOTROPIC: f64 = 4.0;
    /// The ratio for z, whose lines are solved exactly: halving it too is cheaper, but never necessary; where layers lie
    /// across it, with weak couplings on average, it costs iterations.
    const ISOTROPIC_IN_Z: f64 = 2.0;
    let mut means = [0, 1, 2].map(|d| if sums[2 * d + 1] > 0.0 { sums[2 * d] / sums[2 * d + 1] } else { 0.0 });
    let extents = grid.extents();
    if !halves_lines && extents[0].max(extents[1]) > 1 {
        means[2] = 0.0;
    }
    let strongest = means.into_iter().fold(0.0, f64::max);
    let is_strong = |d: usize| {
        extents[d] > 1 && means[d] > 0.0 && means[d] * [ISOTROPIC, ISOTROPIC, ISOTROPIC_IN_Z][d] >= strongest
    };
    Axis::ALL.into_iter().filter(|&axis| is_strong(axis as usize)).collect()
}

/// Returns the number of the stored offset along a direction.
pub fn along(axis: Axis) -> usize {
    let mut offset = [0; 3];
    offset[axis as usize] = 1;
    number(offset) - UPPER - 1
}

/// Returns max(x, 0).
#[inline(always)]
pub(super) fn positive<N: Real>(x: N) -> N {
    if x > N::ZERO { x } else { N::ZERO }
}

/// Computes T between the cells of row (j, k) and their upper neighbours.
#[inline(always)]
fn faces_of_row<N: Real>(stencil: &Diffusion, axis: Axis, [j, k]: [usize; 2], out: &mut [N]) {
    let nx = out.len();
    let start = stencil.cell([0, j, k]);
    match stencil.coefficients() {
        Coefficients::Faces(faces) => {
            let faces = &faces[axis as usize][start..start + nx];
            out.iter_mut().zip(faces).for_each(|(t, &face)| *t = N::from_f64(face));
        }
        // Back ends copy these to the host first.
        Coefficients::DeviceCells { .. } | Coefficients::DeviceFaces { .. } => out.fill(N::from_f64(f64::NAN)),
        Coefficients::Cells { fields, axes } => {
            let (field, factor) = axes[axis as usize];
            let field = &fields[field];
            let own = &field[start..start + nx];
            if axis == Axis::X {
                let pairs = own.iter().zip(&own[1..]);
                out.iter_mut().zip(pairs).for_each(|(t, (a, b))| *t = N::from_f64(harmonic(factor * a, factor * b)));
                out[nx - 1] = N::from_f64(stencil.face(axis, [nx - 1, j, k]));
            } else if let Some([_, j, k]) = stencil.upper(axis, [0, j, k]) {
                let upper = stencil.cell([0, j, k]);
                let pairs = own.iter().zip(&field[upper..upper + nx]);
                out.iter_mut().zip(pairs).for_each(|(t, (a, b))| *t = N::from_f64(harmonic(factor * a, factor * b)));
            }
        }
    }
}

/// Computes s of the cells of row (j, k).
fn shifts_of_row<N: Real>(stencil: &Diffusion, [j, k]: [usize; 2], out: &mut [N]) {
    let (nx, shape) = (out.len(), stencil.shape());
    let sides = stencil.sides();
    let touches = |d: usize, at: usize, n: usize| {
        (sides[d][0] == Side::Fixed && at == 0) || (sides[d][1] == Side::Fixed && at + 1 == n)
    };
    if touches(1, j, shape.ny) || touches(2, k, shape.nz) {
        out.iter_mut().enumerate().for_each(|(i, s)| *s = N::from_f64(stencil.shift([i, j, k])));
        return;
    }
    if let Some(shift) = stencil.stored_shift() {
        let shift = &shift[stencil.cell([0, j, k])..][..nx];
        out.iter_mut().zip(shift).for_each(|(s, &shift)| *s = N::from_f64(shift));
    }
    for i in [0, nx - 1] {
        out[i] = N::from_f64(stencil.shift([i, j, k]));
    }
}
