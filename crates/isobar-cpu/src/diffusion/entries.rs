//! Code shared by all kinds of coefficients of the diffusion operator.

use isobar_core::prelude::{Axis, Colour, Layout, Pack, Real, Shape};
use pulp::Simd;

use crate::geometry::Link;
use crate::seven_point::Entries;
use crate::shared::Ahead;
use crate::{Cpu, Vector};

/// The transmissibilities around a pack of cells.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transmissibilities<S: Simd, T: Real> {
    /// The entries to the west, east, south and north.
    pub(super) horizontal: [Pack<S, T>; 4],
    /// The entries below and above; `None` if the grid has one layer.
    pub(super) vertical: Option<[Pack<S, T>; 2]>,
    /// The shift s, Dirichlet sides included.
    pub(super) shift: Pack<S, T>,
}

impl<S: Simd, T: Real> Entries<S, T> for Transmissibilities<S, T> {
    #[inline(always)]
    fn shift(&self) -> Pack<S, T> {
        self.shift
    }

    #[inline(always)]
    fn horizontal(&self) -> [Pack<S, T>; 4] {
        self.horizontal
    }

    #[inline(always)]
    fn vertical(&self) -> Option<[Pack<S, T>; 2]> {
        self.vertical
    }
}

/// Entries cell by cell, for loops from one unknown to the next.
pub(crate) trait CellCoefficients<T: Real>: Sync {
    /// Returns T between a cell and its upper neighbour, given their positions in a vector, which may be in a halo row, and (j, k) of
    /// the cell in the whole grid.
    fn between(&self, axis: Axis, lower: isize, upper: isize, link: Link, at: [usize; 2]) -> T;

    /// Returns s, Dirichlet sides included.
    fn shift(&self, layout: &Layout, at: [usize; 3]) -> T;
}

/// Copies a subdomain and its halo from a C-order array of the whole grid, each entry times `scale`.
pub(super) fn arrange<T: Real>(cpu: &Cpu, out: &mut Vector<T>, values: &[f64], whole: Shape, scale: f64) {
    let layout = *out.layout();
    let (shape, [before, after]) = (layout.shape(), layout.halo());
    let shared = out.share_mut();
    let of_row = |j: isize, colour: Colour, start: isize| {
        let (j, parity) = (layout.row_there(j), layout.parity(j.unsigned_abs(), colour));
        let columns = (shape.nx + 1 - parity) / 2;
        for k in 0..shape.nz {
            // SAFETY: each half plane is visited once.
            let row = unsafe { shared.row_mut(start + (k * layout.pitch()) as isize, columns) };
            let from = &values[whole.nx * (j + whole.ny * k)..][..shape.nx];
            for (entry, value) in row.iter_mut().zip(from[parity.min(shape.nx)..].iter().step_by(2)) {
                *entry = T::from_f64(scale * value);
            }
        }
    };
    cpu.for_each_half_plane(&layout, |j, colour, start| of_row(j as isize, colour, start));
    let last = shape.ny as isize;
    let beyond = [(before > 0, -1), (after > 0, last)];
    for (j, colour) in
        beyond.into_iter().filter(|(is_there, _)| *is_there).flat_map(|(_, j)| Colour::BOTH.map(|c| (j, c)))
    {
        of_row(j, colour, (colour as isize + 2 * j) * layout.half_plane() as isize);
    }
}

/// Sets values by their place in the whole grid, halo rows included.
pub(super) fn arrange_with<T: Real>(cpu: &Cpu, out: &mut Vector<T>, value: impl Fn([usize; 3]) -> f64 + Sync) {
    let layout = *out.layout();
    let (shape, shared) = (layout.shape(), out.share_mut());
    let of_row = |j: isize, colour: Colour, start: isize| {
        // Rows an even number apart have the same parities.
        let like = j.cast_unsigned().wrapping_add(2);
        let (parity, columns) = (layout.parity(like, colour), layout.columns(like, colour));
        for k in 0..shape.nz {
            // SAFETY: each half plane is visited once.
            let row = unsafe { shared.row_mut(start + (k * layout.pitch()) as isize, columns) };
            for (m, entry) in row.iter_mut().enumerate() {
                *entry = T::from_f64(value([parity + 2 * m, layout.row_there(j), k]));
            }
        }
    };
    cpu.for_each_half_plane(&layout, |j, colour, start| of_row(j as isize, colour, start));
    let [before, after] = layout.halo().map(|rows| rows > 0);
    for j in [(before, -1), (after, shape.ny as isize)].into_iter().filter_map(|(is_there, j)| is_there.then_some(j)) {
        for colour in Colour::BOTH {
            of_row(j, colour, (colour as isize + 2 * j) * layout.half_plane() as isize);
        }
    }
}

/// Prefetches each field. (An iterator over options would be written to the stack for every pack.)
#[inline(always)]
pub(super) fn fetch_each<T: Copy>(ahead: &[Option<Ahead<T>>; 3], i: usize, lanes: usize) {
    let [x, y, z] = ahead;
    if let Some(ahead) = x {
        ahead.fetch(i, lanes);
    }
    if let Some(ahead) = y {
        ahead.fetch(i, lanes);
    }
    if let Some(ahead) = z {
        ahead.fetch(i, lanes);
    }
}
