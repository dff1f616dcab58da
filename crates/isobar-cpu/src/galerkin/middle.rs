//! Transfers between a fine plane, the middle array and a coarse plane: restriction gathers, prolongation scatters.

use isobar_core::prelude::{Colour, Layout, Real};

use super::interpolation::Interpolation;
use super::weights::{Stored, add_weighted, combine};
use crate::Shared;

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

    /// Computes layers from `first` on of a plane of the middle grid from fine plane j of f; colours other than the given ones count as zeros.
    #[inline(always)]
    pub(super) fn gather(
        &self,
        x: Option<&Stored<T>>,
        (j, first): (usize, usize),
        colours: &[Colour],
        f: &[T],
        middle: &mut [T],
    ) {
        let (layout, whole_j) = (&self.fine_layout, self.first[0] + j);
        for (k, out) in (first..).zip(middle.chunks_exact_mut(self.row)) {
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

    /// Computes u += P_x middle on the given colours of a fine plane, which begins at position `start` of u, from layer `first` on.
    ///
    /// # Safety
    /// Nobody else uses these layers of u.
    #[inline(always)]
    pub(super) unsafe fn scatter(
        &self,
        x: Option<&Stored<T>>,
        (j, first): (usize, usize),
        colours: &[Colour],
        middle: &[T],
        (u, start): (Shared<T>, isize),
    ) {
        let (layout, whole_j) = (&self.fine_layout, self.first[0] + j);
        for (k, row) in (first..).zip(middle.chunks_exact(self.row)) {
            for &colour in colours {
                let parity = layout.parity(j, colour);
                let columns = Self::columns(layout, parity);
                // SAFETY: promised by the caller.
                let u = unsafe { u.row_mut(start + Self::half_row(layout, j, parity, k) as isize, columns) };
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

    /// Computes layers from `first_k` on of P_yᵀ middle, on a plane of the coarse grid: `before` is the middle's plane before this subdomain's
    /// first.
    #[inline(always)]
    pub(super) fn gather_in_y(
        &self,
        y: Option<&Stored<T>>,
        (coarse_j, first_k): (usize, usize),
        (before, middle): (Option<&[T]>, &[Vec<T>]),
        sum: &mut [T],
    ) {
        let (start, first) = (first_k * self.row, self.first[1]);
        let layers = start..start + sum.len();
        let Some(y) = y else {
            sum.copy_from_slice(&middle[coarse_j][layers]);
            return;
        };
        sum.copy_from_slice(&middle[2 * coarse_j][layers.clone()]);
        // In a periodic direction of odd length no odd plane lies between the last and the first.
        let is_ring = self.periodic[1] && middle.len().is_multiple_of(2);
        // The plane below, and the index of its weights.
        let below = match coarse_j.checked_sub(1) {
            Some(below) => Some((&middle[2 * below + 1][..], first + below)),
            None if is_ring => middle.last().map(|last| (&last[..], y.planes.len() - 1)),
            None => before.map(|before| (before, self.coarse.row_there(-1))),
        };
        if let Some(above) = middle.get(2 * coarse_j + 1) {
            add_weighted(sum, &y.planes[first + coarse_j][0][layers.clone()], &above[layers.clone()]);
        }
        if let Some((below, weights)) = below {
            add_weighted(sum, &y.planes[weights][1][layers.clone()], &below[layers]);
        }
    }

    /// Computes some layers, first and one past the last, of P_zᵀ sum on a plane of the coarse grid, which begins at position `start` of `out`.
    ///
    /// # Safety
    /// Nothing else may use these layers of `out` and the layers of `sum` from which they are computed, except that odd layers may be read.
    #[inline(always)]
    pub(super) unsafe fn gather_in_z(
        &self,
        z: Option<&Stored<T>>,
        (coarse_j, layers): (usize, (usize, usize)),
        sum: Shared<T>,
        (out, start): (Shared<T>, isize),
    ) {
        let (row, nz, first) = (self.row, self.fine_layout.shape().nz, self.first[1]);
        // SAFETY: promised by the caller.
        let layer = |k: usize| unsafe { sum.row((k * row) as isize, row) };
        for k in layers.0..layers.1 {
            let own = if z.is_some() { 2 * k } else { k };
            // SAFETY: promised by the caller.
            let own = unsafe { sum.row_mut((own * row) as isize, row) };
            if let Some(z) = z {
                let odd = nz / 2;
                let is_ring = self.periodic[2] && nz.is_multiple_of(2);
                let before = if k > 0 { Some(k - 1) } else { is_ring.then(|| odd - 1) };
                if k < odd {
                    add_weighted(own, z.rows(first + coarse_j, k)[0], layer(2 * k + 1));
                }
                if let Some(before) = before {
                    add_weighted(own, z.rows(first + coarse_j, before)[1], layer(2 * before + 1));
                }
            }
            for parity in 0..2 {
                let position = start + Self::half_row(&self.coarse, coarse_j, parity, k) as isize;
                // SAFETY: promised by the caller.
                let to = unsafe { out.row_mut(position, self.coarse.pitch()) };
                let columns = Self::columns(&self.coarse, parity);
                let values = own[..self.nx].get(parity..).unwrap_or(&[]).iter().step_by(2);
                to[..columns].iter_mut().zip(values).for_each(|(to, &value)| *to = value);
                to[columns..].fill(T::ZERO);
            }
        }
    }

    /// Expands some layers, first and one past the last, of a plane of the coarse grid, which may be a halo plane, to a plane that is coarse in y.
    ///
    /// # Safety
    /// Nothing else may use the layers of `out` that this computes.
    #[inline(always)]
    pub(super) unsafe fn scatter_layers(
        &self,
        step: usize,
        (coarse_j, layers): (usize, (usize, usize)),
        coarse_u: &[T],
        out: Shared<T>,
    ) {
        for k in layers.0..layers.1 {
            // SAFETY: promised by the caller.
            let out = unsafe { out.row_mut((step * k * self.row) as isize, self.row) };
            for parity in 0..2 {
                let columns = Self::columns(&self.coarse, parity);
                let from = &coarse_u[Self::half_row(&self.coarse, coarse_j, parity, k)..][..columns];
                out[parity..].iter_mut().step_by(2).zip(from).for_each(|(out, &value)| *out = value);
            }
            out[self.nx..].fill(T::ZERO);
            self.close_rings(out);
        }
    }

    /// Computes some odd layers, by their halves, first and one past the last, of a plane that is coarse in y from even ones.
    ///
    /// # Safety
    /// Nobody else uses these layers of `out`, and even ones are only read.
    #[inline(always)]
    pub(super) unsafe fn scatter_between(
        &self,
        z: &Stored<T>,
        (coarse_j, layers): (usize, (usize, usize)),
        out: Shared<T>,
    ) {
        let (row, nz) = (self.row, self.fine_layout.shape().nz);
        let whole_j = self.coarse.row_there(coarse_j.cast_signed());
        for k in layers.0..layers.1 {
            let above = if 2 * k + 2 < nz { 2 * k + 2 } else { 0 };
            // SAFETY: promised by the caller.
            let [below, above] = [2 * k, above].map(|k| unsafe { out.row((k * row) as isize, row) });
            // SAFETY: as above.
            let own = unsafe { out.row_mut(((2 * k + 1) * row) as isize, row) };
            combine(own, z.rows(whole_j, k), below, above);
            self.close_rings(own);
        }
    }

    /// Copies the first cell of periodic lines beyond the last.
    #[inline(always)]
    pub(super) fn close_rings(&self, plane: &mut [T]) {
        if self.periodic[0] {
            plane.chunks_exact_mut(self.row).for_each(|row| row[self.nx] = row[0]);
        }
    }
}
