//! Transfers between a fine plane, the middle array and a coarse plane: restriction gathers, prolongation scatters.

use isobar_core::prelude::{Colour, Layout, Real};

use super::interpolation::Interpolation;
use super::weights::{AxisWeights, Stored, add_weighted, combine};

impl<T: Real> Interpolation<T> {
    /// Returns the position of row k of the half plane of one parity of i, relative to the start of plane j.
    #[inline(always)]
    pub(super) fn half_row(layout: &Layout, j: usize, parity: usize, k: usize) -> usize {
        layout.pitch() * (k + layout.shape().nz * ((j + parity) % 2))
    }

    /// Returns the number of cells of one parity of i in a row.
    #[inline(always)]
    pub(super) fn columns(layout: &Layout, parity: usize) -> usize {
        (layout.shape().nx + 1 - parity) / 2
    }

    /// Computes a plane of the middle from fine plane j of f; other colours than the given ones count as zeros.
    #[inline(always)]
    pub(super) fn gather(&self, x: Option<&Stored<T>>, j: usize, colours: &[Colour], f: &[T], middle: &mut [T]) {
        let (layout, whole_j) = (&self.fine_layout, self.first[0] + j);
        for (k, out) in middle.chunks_exact_mut(self.row).enumerate() {
            out.fill(T::ZERO);
            for &colour in colours {
                let parity = layout.parity(j, colour);
                let columns = Self::columns(layout, parity);
                let f = &f[Self::half_row(layout, j, parity, k)..][..columns];
                match x {
                    None => out[parity..].iter_mut().step_by(2).zip(f).for_each(|(out, &f)| *out = f),
                    Some(_) if parity == 0 => out.iter_mut().zip(f).for_each(|(out, &f)| *out += f),
                    Some(x) => {
                        let [below, above] = x.rows(whole_j, k);
                        add_weighted(out, below, f);
                        add_weighted(&mut out[1..], above, f);
                    }
                }
            }
            // The ghost beyond the last cell of an even periodic line is the first cell.
            if x.is_some() {
                let ghost = std::mem::take(&mut out[self.nx]);
                out[0] += ghost;
            }
        }
    }

    /// Computes u += P_x middle on the given colours of a fine plane.
    #[inline(always)]
    pub(super) fn scatter(&self, x: Option<&Stored<T>>, j: usize, colours: &[Colour], middle: &[T], u: &mut [T]) {
        let (layout, whole_j) = (&self.fine_layout, self.first[0] + j);
        for (k, row) in middle.chunks_exact(self.row).enumerate() {
            for &colour in colours {
                let parity = layout.parity(j, colour);
                let columns = Self::columns(layout, parity);
                let u = &mut u[Self::half_row(layout, j, parity, k)..][..columns];
                match x {
                    None => u.iter_mut().zip(row[parity..].iter().step_by(2)).for_each(|(u, &v)| *u += v),
                    Some(_) if parity == 0 => u.iter_mut().zip(row).for_each(|(u, &v)| *u += v),
                    Some(x) => {
                        let [below, above] = x.rows(whole_j, k);
                        let terms = below.iter().zip(row).zip(above.iter().zip(&row[1..]));
                        u.iter_mut().zip(terms).for_each(|(u, ((&a, &x), (&b, &y)))| *u += a * x + b * y);
                    }
                }
            }
        }
    }

    /// Restricts the middle to a plane of the coarse grid: `before` is its plane before this subdomain's first, `sum` a
    /// plane of scratch.
    #[inline(always)]
    pub(super) fn gather_coarse(
        &self,
        w: &AxisWeights<T>,
        coarse_j: usize,
        (before, middle): (Option<&[T]>, &[Vec<T>]),
        sum: &mut [T],
        out: &mut [T],
    ) {
        let (row, nz, first) = (self.row, self.fine_layout.shape().nz, self.first[1]);
        match &w.y {
            None => sum.copy_from_slice(&middle[coarse_j]),
            Some(y) => {
                sum.copy_from_slice(&middle[2 * coarse_j]);
                // In a periodic direction of odd length no odd plane lies between the last and the first.
                let is_ring = self.periodic[1] && middle.len().is_multiple_of(2);
                // The plane below, and the index of its weights.
                let below = match coarse_j.checked_sub(1) {
                    Some(below) => Some((&middle[2 * below + 1][..], first + below)),
                    None if is_ring => middle.last().map(|last| (&last[..], y.planes.len() - 1)),
                    None => before.map(|before| (before, self.coarse.row_there(-1))),
                };
                let above = middle.get(2 * coarse_j + 1);
                for k in 0..nz {
                    let at = k * row..(k + 1) * row;
                    if let Some(above) = above {
                        add_weighted(&mut sum[at.clone()], y.rows(first + coarse_j, k)[0], &above[at.clone()]);
                    }
                    if let Some((below, weights)) = below {
                        add_weighted(&mut sum[at.clone()], y.rows(weights, k)[1], &below[at]);
                    }
                }
            }
        }
        let coarse_nz = self.coarse.shape().nz;
        for k in 0..coarse_nz {
            if let Some(z) = &w.z {
                let odd = nz / 2;
                let is_ring = self.periodic[2] && nz.is_multiple_of(2);
                let before = if k > 0 { Some(k - 1) } else { is_ring.then(|| odd - 1) };
                // Row 2k is read no more before it is overwritten by the sum.
                if k < odd {
                    let (own, other) = sum.split_at_mut((2 * k + 1) * row);
                    add_weighted(&mut own[2 * k * row..], z.rows(first + coarse_j, k)[0], &other[..row]);
                }
                if let Some(before) = before {
                    let weights = z.rows(first + coarse_j, before)[1];
                    let odd_row = 2 * before + 1;
                    if odd_row < 2 * k {
                        let (other, own) = sum.split_at_mut(2 * k * row);
                        add_weighted(&mut own[..row], weights, &other[odd_row * row..]);
                    } else {
                        let (own, other) = sum.split_at_mut(odd_row * row);
                        add_weighted(&mut own[2 * k * row..][..row], weights, &other[..row]);
                    }
                }
            }
            let from = &sum[if w.z.is_some() { 2 * k } else { k } * row..][..self.nx];
            for parity in 0..2 {
                let to = &mut out[Self::half_row(&self.coarse, coarse_j, parity, k)..][..self.coarse.pitch()];
                let columns = Self::columns(&self.coarse, parity);
                let values = from.get(parity..).unwrap_or(&[]).iter().step_by(2);
                to[..columns].iter_mut().zip(values).for_each(|(to, &value)| *to = value);
                to[columns..].fill(T::ZERO);
            }
        }
    }

    /// Expands a plane that is coarse in y from one of the coarse grid, which may be a halo plane.
    #[inline(always)]
    pub(super) fn scatter_coarse(&self, w: &AxisWeights<T>, coarse_j: usize, coarse_u: &[T], out: &mut [T]) {
        let (row, nz) = (self.row, self.fine_layout.shape().nz);
        let whole_j = self.coarse.row_there(coarse_j.cast_signed());
        let step = if w.z.is_some() { 2 } else { 1 };
        for k in 0..self.coarse.shape().nz {
            let out = &mut out[step * k * row..][..row];
            for parity in 0..2 {
                let columns = Self::columns(&self.coarse, parity);
                let from = &coarse_u[Self::half_row(&self.coarse, coarse_j, parity, k)..][..columns];
                out[parity..].iter_mut().step_by(2).zip(from).for_each(|(out, &value)| *out = value);
            }
            out[self.nx..].fill(T::ZERO);
        }
        if let Some(z) = &w.z {
            for k in 0..nz / 2 {
                let (lower, rest) = out.split_at_mut((2 * k + 1) * row);
                let (own, upper) = rest.split_at_mut(row);
                let below = &lower[2 * k * row..];
                let above = if 2 * k + 2 < nz { &upper[..row] } else { &lower[..row] };
                combine(own, z.rows(whole_j, k), below, above);
            }
        }
        self.close_rings(out);
    }

    /// Copies the first cell of periodic lines beyond the last.
    #[inline(always)]
    pub(super) fn close_rings(&self, plane: &mut [T]) {
        if self.periodic[0] {
            plane.chunks_exact_mut(self.row).for_each(|row| row[self.nx] = row[0]);
        }
    }
}
