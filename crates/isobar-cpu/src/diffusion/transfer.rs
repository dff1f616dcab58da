//! Prolongation and its transpose, restriction, a plane at a time. Safety of all memory accesses: see the module
//! `kernels`.
//!
//! A fine column m of parity p is i = 2m + p: where x is halved, its coarse column is m, and the one on its side
//! m − 1 + 2p. With coarse rows in natural order and a ghost at either end, both are contiguous.

use isobar_core::error::{Error, Result};
use isobar_core::layout::Layout;
use isobar_core::real::Real;
use isobar_core::simd::Pack;
use isobar_core::stencil;
use pulp::{Simd, WithSimd};

use super::Diffusion;
use super::faces::arranged;
use super::rows::Geometry;
use crate::cpu::Cpu;
use crate::shared::{Row, RowMut, Shared};
use crate::vector::Vector;

/// The weights of transfers to the next coarser grid, [`stencil::Diffusion::transfer_weights`].
#[derive(Debug)]
pub(super) struct Weights<T> {
    /// None for a direction that is not halved.
    x: Option<Vector<T>>,
    y: Option<Vector<T>>,
}

impl<T: Real> Weights<T> {
    pub(super) fn new(cpu: &Cpu, layout: &Layout, stencil: &stencil::Diffusion, wanted: bool) -> Result<Option<Self>> {
        if !wanted {
            return Ok(None);
        }
        let [x, y] = stencil
            .transfer_weights()
            .map(|weights| weights.map(|weights| arranged(cpu, layout, |n| weights[n])).transpose());
        Ok(Some(Self { x: x?, y: y? }))
    }
}

/// A fine grid, a coarse one, and what lies between.
#[derive(Clone, Copy)]
pub(super) struct Transfer<'a, T> {
    fine: &'a Geometry<T>,
    coarse: &'a Geometry<T>,
    weights: &'a Weights<T>,
}

impl<T: Real> Diffusion<T> {
    /// How this operator's grid and a coarser one are connected.
    ///
    /// # Errors
    /// [`Error::Invalid`] where weights have not been asked for, [`Error::Shape`] for another operator's coarse grid.
    pub(super) fn transfer<'a>(&'a self, coarse: &'a Self) -> Result<Transfer<'a, T>> {
        let (fine, coarse) = (&self.geometry, &coarse.geometry);
        let (shape, found) = (fine.layout.shape(), coarse.layout.shape());
        let Some(weights) = &self.weights else {
            return Err(Error::invalid(
                "with_transfers",
                format!("the operator on {shape} has no weights to interpolate with; make it with transfers"),
            ));
        };
        let mut expected = shape;
        if weights.x.is_some() {
            expected.nx = shape.nx.div_ceil(2);
        }
        if weights.y.is_some() {
            expected.ny = shape.ny.div_ceil(2);
        }
        if expected != found {
            return Err(Error::shape("the coarse grid", format!("{found} cells"), format!("{expected} cells")));
        }
        Ok(Transfer { fine, coarse, weights })
    }
}

/// Entries of a natural row with its ghosts, and of what packs may reach beyond.
pub(super) fn natural_row_len(layout: &Layout) -> usize {
    2 * layout.pitch() + 16
}

impl<'a, T: Real> Transfer<'a, T> {
    /// The coarse plane of a fine one, and the one on its side.
    fn planes_of(&self, j: usize) -> (usize, Option<usize>) {
        if self.weights.y.is_none() {
            return (j, None);
        }
        let (own, count) = (j / 2, self.coarse.layout.shape().ny);
        let far = match (j.is_multiple_of(2), self.fine.periodic[1]) {
            (true, true) => Some((own + count - 1) % count),
            (true, false) => own.checked_sub(1),
            (false, true) => Some((own + 1) % count),
            (false, false) => Some(own + 1).filter(|&far| far < count),
        };
        (own, far)
    }

    /// The fine planes that a coarse one is summed up from, and whether it is their own or the one on their side.
    pub(super) fn planes_into(&self, coarse_j: usize) -> [Option<(usize, bool)>; 4] {
        if self.weights.y.is_none() {
            return [Some((coarse_j, true)), None, None, None];
        }
        let ny = self.fine.layout.shape().ny;
        let at = |j: usize| if j < ny { Some(j) } else { self.fine.periodic[1].then_some(j - ny) };
        let before = if coarse_j > 0 { Some(2 * coarse_j - 1) } else { self.fine.periodic[1].then(|| ny - 1) };
        [
            before.map(|j| (j, false)),
            Some((2 * coarse_j, true)),
            Some(2 * coarse_j + 1).filter(|&j| j < ny).map(|j| (j, true)),
            at(2 * coarse_j + 2).map(|j| (j, false)),
        ]
    }

    /// Position of row k of the columns of one parity.
    fn row_of(layout: &Layout, j: usize, parity: usize, k: usize) -> isize {
        let colour = (parity + j) % 2;
        (layout.pitch() * (k + layout.shape().nz * (colour + 2 * j))) as isize
    }

    #[inline(always)]
    fn weight_row<S: Simd>(&self, simd: S, weights: Option<&Vector<T>>, position: isize, n: usize) -> Row<'a, S, T>
    where
        T: 'a,
    {
        match weights {
            // SAFETY: rows of a vector that nobody writes after construction.
            Some(weights) => unsafe { weights.share().packs(simd, position, n) },
            None => self.fine.zeros(simd, n),
        }
    }
}

/// u += P u_c on plane j
pub(super) struct Prolong<'a, 's, T> {
    pub(super) transfer: Transfer<'a, T>,
    pub(super) j: usize,
    pub(super) coarse_u: Shared<T>,
    pub(super) u: Shared<T>,
    pub(super) natural: &'s mut [Vec<T>; 2],
}

impl<T: Real> Prolong<'_, '_, T> {
    /// A coarse row in natural order from entry 1, ghosts before and after.
    #[inline(always)]
    fn lay_out(&self, coarse_j: Option<usize>, k: usize, row: &mut [T]) {
        row.fill(T::ZERO);
        let Some(j) = coarse_j else { return };
        let (layout, nx) = (&self.transfer.coarse.layout, self.transfer.coarse.layout.shape().nx);
        // SAFETY: see the top of this file, here and below.
        let read =
            |parity: usize| unsafe { self.coarse_u.row(Transfer::<T>::row_of(layout, j, parity, k), layout.pitch()) };
        for ((pair, &even), &odd) in row[1..].as_chunks_mut::<2>().0.iter_mut().zip(read(0)).zip(read(1)) {
            *pair = [even, odd];
        }
        if self.transfer.fine.periodic[0] {
            (row[0], row[nx + 1]) = (row[nx], row[1]);
        }
    }
}

impl<T: Real> WithSimd for Prolong<'_, '_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Transfer { fine, coarse, weights } = self.transfer;
        let (layout, n, one) = (&fine.layout, fine.layout.pitch(), Pack::splat(simd, T::ONE));
        let (own, far) = self.transfer.planes_of(self.j);
        let mut natural = std::mem::take(self.natural);
        for k in 0..layout.shape().nz {
            if weights.x.is_some() {
                self.lay_out(Some(own), k, &mut natural[0]);
                self.lay_out(far, k, &mut natural[1]);
            }
            for parity in 0..2 {
                let position = Transfer::<T>::row_of(layout, self.j, parity, k);
                let x = self.transfer.weight_row(simd, weights.x.as_ref(), position, n);
                let y = self.transfer.weight_row(simd, weights.y.as_ref(), position, n);
                // In the coarse plane and in the one beside: the column's own, and the one on its side.
                let pick = |coarse_j: Option<usize>, which: usize| match (coarse_j, weights.x.is_some()) {
                    (None, _) => [fine.zeros(simd, n); 2],
                    (Some(_), true) => {
                        let row = &natural[which];
                        [Row::new(simd, &row[1..1 + n]), Row::new(simd, &row[2 * parity..2 * parity + n])]
                    }
                    (Some(j), false) => {
                        let position = Transfer::<T>::row_of(&coarse.layout, j, parity, k);
                        // SAFETY: see the top of this file.
                        [unsafe { self.coarse_u.packs(simd, position, n) }; 2]
                    }
                };
                let ([a, b], [c, d]) = (pick(Some(own), 0), pick(far, 1));
                // SAFETY: see the top of this file.
                let u = unsafe { self.u.row_mut(position, n) };
                let mut out = RowMut::new(simd, &mut *u);
                for i in 0..out.len() {
                    let (w_x, w_y) = (x.get(i), y.get(i));
                    let near = w_x.mul_add(b.get(i), (one - w_x) * a.get(i));
                    let far = w_x.mul_add(d.get(i), (one - w_x) * c.get(i));
                    out.set(i, out.get(i) + w_y.mul_add(far, (one - w_y) * near));
                }
                // A ghost of a periodic row may lie where the row's padding begins.
                let columns = (layout.shape().nx + 1 - parity) / 2;
                u[columns..].fill(T::ZERO);
            }
        }
        *self.natural = natural;
    }
}

/// f_c = R f on a plane of the coarse grid
pub(super) struct Restrict<'a, 's, T> {
    pub(super) transfer: Transfer<'a, T>,
    pub(super) coarse_j: usize,
    pub(super) f: Shared<T>,
    /// Where the planes that [`Transfer::planes_into`] names start in f.
    pub(super) starts: [isize; 4],
    pub(super) coarse_f: Shared<T>,
    pub(super) natural: &'s mut [Vec<T>; 2],
}

impl<T: Real> WithSimd for Restrict<'_, '_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Transfer { fine, coarse, weights } = self.transfer;
        let (layout, n, one) = (&fine.layout, fine.layout.pitch(), Pack::splat(simd, T::ONE));
        let (coarse_n, nx) = (coarse.layout.pitch(), coarse.layout.shape().nx);
        for k in 0..layout.shape().nz {
            // Sums in natural order from entry 1, or by parity where x is not halved.
            let [sums, more] = &mut *self.natural;
            sums.fill(T::ZERO);
            more.fill(T::ZERO);
            for (from, start) in self.transfer.planes_into(self.coarse_j).into_iter().zip(self.starts) {
                let Some((j, is_own)) = from else { continue };
                let shift = start - (j * fine.plane_len()) as isize;
                for parity in 0..2 {
                    let position = Transfer::<T>::row_of(layout, j, parity, k);
                    let x = self.transfer.weight_row(simd, weights.x.as_ref(), position, n);
                    let y = self.transfer.weight_row(simd, weights.y.as_ref(), position, n);
                    // SAFETY: see the top of this file.
                    let f = unsafe { self.f.packs(simd, position + shift, n) };
                    let packs = f.len();
                    if weights.x.is_none() {
                        let sums = if parity == 0 { &mut *sums } else { &mut *more };
                        let mut out = RowMut::new(simd, &mut sums[..n]);
                        for i in 0..packs {
                            let share = if is_own { one - y.get(i) } else { y.get(i) };
                            out.set(i, share.mul_add(f.get(i), out.get(i)));
                        }
                        continue;
                    }
                    let mut out = RowMut::new(simd, &mut sums[1..1 + n]);
                    for i in 0..packs {
                        let share = if is_own { one - y.get(i) } else { y.get(i) };
                        out.set(i, (share * f.get(i)).mul_add(one - x.get(i), out.get(i)));
                    }
                    let mut out = RowMut::new(simd, &mut sums[2 * parity..2 * parity + n]);
                    for i in 0..packs {
                        let share = if is_own { one - y.get(i) } else { y.get(i) };
                        out.set(i, (share * f.get(i)).mul_add(x.get(i), out.get(i)));
                    }
                }
            }
            // SAFETY: see the top of this file.
            let out = |parity: usize| unsafe {
                let position = Transfer::<T>::row_of(&coarse.layout, self.coarse_j, parity, k);
                self.coarse_f.row_mut(position, coarse_n)
            };
            let (even, odd) = (out(0), out(1));
            if weights.x.is_none() {
                even.copy_from_slice(&sums[..coarse_n]);
                odd.copy_from_slice(&more[..coarse_n]);
                continue;
            }
            if fine.periodic[0] {
                let ghosts = [sums[0], sums[nx + 1]];
                sums[nx] += ghosts[0];
                sums[1] += ghosts[1];
            }
            sums[nx + 1..].fill(T::ZERO);
            for ((pair, even), odd) in sums[1..].as_chunks::<2>().0.iter().zip(even).zip(odd) {
                [*even, *odd] = *pair;
            }
        }
    }
}
