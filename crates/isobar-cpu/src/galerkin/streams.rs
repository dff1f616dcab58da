//! The neighbours of a half plane's cells as streams: rows of couplings and of the neighbours' values.

use std::ops::Range;

use isobar_core::prelude::{Colour, Pack, Real, Relaxation};
use isobar_core::stencil::galerkin::Offset;
use isobar_core::stencil::galerkin::couplings::{UPPER, number};
use pulp::Simd;

use super::operator::{Level27, Numbers};
use crate::shared::{Row, RowMut, Shared};

/// The most neighbours of a cell.
const NEIGHBOURS: usize = 26;

/// The order in which a sweep visits the four colours, (i mod 2, j mod 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Order {
    is_reversed: bool,
}

impl Order {
    pub(super) fn of(relaxation: Relaxation) -> Self {
        Self { is_reversed: relaxation.first == Colour::Black }
    }

    /// Returns the n-th colour.
    pub(super) fn colour(self, n: usize) -> [usize; 2] {
        let n = if self.is_reversed { 3 - n } else { n };
        [n % 2, n / 2]
    }

    /// Returns the position of a colour in the order.
    #[inline(always)]
    pub(super) fn turn(self, [column, plane]: [usize; 2]) -> usize {
        let n = column + 2 * plane;
        if self.is_reversed { 3 - n } else { n }
    }
}

/// The neighbours that count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Which {
    /// All neighbours.
    All,
    /// The couplings to other columns.
    Across,
    /// The couplings to columns that are relaxed before this one.
    Before(Order),
    /// The couplings to columns that are relaxed later.
    After(Order),
}

impl Which {
    /// Returns whether a neighbour at an offset counts, for a cell of a colour.
    #[inline(always)]
    fn has(self, [dx, dy, _]: Offset, [column, plane]: [usize; 2]) -> bool {
        let other = [(column + usize::from(dx != 0)) % 2, (plane + usize::from(dy != 0)) % 2];
        match self {
            Self::All => true,
            Self::Across => dx != 0 || dy != 0,
            Self::Before(order) => order.turn(other) < order.turn([column, plane]),
            Self::After(order) => order.turn(other) > order.turn([column, plane]),
        }
    }
}

/// Rows from some layer on: each stream has a row of couplings and a row of neighbours.
pub(super) struct Streams<'a, S: Simd, T: Real> {
    pairs: [(Row<'a, S, T>, Row<'a, S, T>); NEIGHBOURS],
    count: usize,
}

impl<'a, S: Simd, T: Real> Streams<'a, S, T> {
    /// Computes x + Σ c u, four packs at a time: their sums are independent, and streams are looked up once.
    #[inline(always)]
    pub(super) fn add_to(&self, out: &mut RowMut<'_, S, T>, x: impl Fn(usize) -> Pack<S, T>) {
        let (streams, fours) = (&self.pairs[..self.count], out.len() / 4 * 4);
        for i in (0..fours).step_by(4) {
            let mut sums = [x(i), x(i + 1), x(i + 2), x(i + 3)];
            for (c, u) in streams {
                let (c, u) = (c.four(i), u.four(i));
                for n in 0..4 {
                    sums[n] = c[n].mul_add(u[n], sums[n]);
                }
            }
            for (n, sum) in sums.into_iter().enumerate() {
                out.set(i + n, sum);
            }
        }
        for i in fours..out.len() {
            let mut sum = x(i);
            for (c, u) in streams {
                sum = c.get(i).mul_add(u.get(i), sum);
            }
            out.set(i, sum);
        }
    }

    /// Computes s own + Σ c (own − u), four packs at a time.
    #[inline(always)]
    pub(super) fn add_differences(&self, out: &mut RowMut<'_, S, T>, s: Row<'a, S, T>, own: Row<'a, S, T>) {
        let (streams, fours) = (&self.pairs[..self.count], out.len() / 4 * 4);
        for i in (0..fours).step_by(4) {
            let (s, own) = (s.four(i), own.four(i));
            let mut sums = [s[0] * own[0], s[1] * own[1], s[2] * own[2], s[3] * own[3]];
            for (c, u) in streams {
                let (c, u) = (c.four(i), u.four(i));
                for n in 0..4 {
                    sums[n] = c[n].mul_add(own[n] - u[n], sums[n]);
                }
            }
            for (n, sum) in sums.into_iter().enumerate() {
                out.set(i + n, sum);
            }
        }
        for i in fours..out.len() {
            let own = own.get(i);
            let mut sum = s.get(i) * own;
            for (c, u) in streams {
                sum = c.get(i).mul_add(own - u.get(i), sum);
            }
            out.set(i, sum);
        }
    }
}

/// Divides some layers of a half plane, first and one past the last, where neighbours change: above the lowest and below the highest of all.
#[inline(always)]
pub(super) fn parts(nz: usize, (first, beyond): (usize, usize)) -> impl Iterator<Item = (usize, usize)> {
    let bottom = 1.clamp(first, beyond);
    let top = (nz - 1).clamp(bottom, beyond);
    [(first, bottom), (bottom, top), (top, beyond)].into_iter().filter(|(first, beyond)| first < beyond)
}

/// The vector whose entries streams read.
#[derive(Clone, Copy)]
pub(super) struct Values<'a, T> {
    pub(super) u: Shared<T>,
    /// Copies that replace half planes across the end of an odd periodic direction.
    pub(super) ring: Option<&'a [Vec<T>; 2]>,
}

impl<T: Real> Level27<T> {
    /// Returns the couplings of some layers of a half plane and their neighbours.
    /// With copies across the end of a periodic direction, [`Which::Before`] and [`Which::After`] are not supported.
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
        which: Which,
        Values { u, ring }: Values<'a, T>,
    ) -> Streams<'a, S, T> {
        let (pitch, nz) = (self.layout.pitch(), self.grid.shape.nz as isize);
        let n = (beyond - first) * pitch;
        let own = self.start(j, parity) + (first * pitch) as isize;
        let empty = Row::new(simd, &[]);
        let mut streams = Streams { pairs: [(empty, empty); NEIGHBOURS], count: 0 };
        for &offset @ [dx, dy, dz] in &self.offsets {
            if !which.has(offset, [parity, j % 2]) {
                continue;
            }
            // The layers of a part either all have this neighbour, or none has.
            let from = first as isize + dz;
            if from < 0 || beyond as isize + dz > nz {
                continue;
            }
            let Some(to_j) = self.beside(j, dy) else { continue };
            let to_parity = (parity + usize::from(dx != 0)) % 2;
            let shift = (parity as isize + dx - to_parity as isize) / 2;
            let to = self.start_of(to_j, to_parity) + from * pitch as isize + shift;
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

    /// Returns the entry of a half plane for which streams read a coupling that does not exist, and whether it is a cell, not
    /// padding: west of the first entry, and east of the last one, lie other half planes.
    #[inline(always)]
    fn end(&self, parity: usize) -> (usize, bool) {
        match parity {
            0 => (0, true),
            _ => (self.layout.half_plane() - 1, 2 * self.layout.pitch() == self.grid.shape.nx),
        }
    }

    /// Returns that entry, if it is among these, and its value of [`Level27::sum_at`], 0 for padding. `own` are the values of these entries.
    ///
    /// # Safety
    /// Nobody writes the entries of `u` meanwhile.
    #[inline(always)]
    pub(super) unsafe fn sum_at_end(
        &self,
        numbers: &Numbers<T>,
        (j, parity): (usize, usize),
        entries: &Range<usize>,
        which: Which,
        values: Values<'_, T>,
        own: Option<&[T]>,
    ) -> Option<(usize, T)> {
        let (entry, is_cell) = self.end(parity);
        if !entries.contains(&entry) {
            return None;
        }
        if !is_cell {
            return Some((entry, T::ZERO));
        }
        let own = own.map(|own| own[entry - entries.start]);
        // SAFETY: promised by the caller.
        Some((entry, unsafe { self.sum_at(numbers, (j, parity), entry, which, values, own) }))
    }

    /// Returns Σ c u, or Σ c (own − u), of one entry of a half plane, with the sum of [`Level27::streams`].
    ///
    /// # Safety
    /// Nobody writes the entries of `u` meanwhile.
    unsafe fn sum_at(
        &self,
        numbers: &Numbers<T>,
        (j, parity): (usize, usize),
        entry: usize,
        which: Which,
        Values { u, ring }: Values<'_, T>,
        own: Option<T>,
    ) -> T {
        let (pitch, [nx, ny, nz]) = (self.layout.pitch(), self.grid.extents());
        let at = [2 * (entry % pitch) + parity, j, entry / pitch];
        let mut sum = T::ZERO;
        for &offset @ [dx, dy, dz] in &self.offsets {
            let (i, k) = (at[0] as isize + dx, at[2] as isize + dz);
            let is_inside = (0..nx as isize).contains(&i) && (0..nz as isize).contains(&k);
            let Some(to_j) = self.beside(j, dy).filter(|_| is_inside) else { continue };
            if !which.has(offset, [parity, j % 2]) {
                continue;
            }
            let number = number(offset);
            let to = self.position(i as usize, to_j, k as usize);
            let (c, from) = if number > UPPER {
                (&numbers.couplings[number - UPPER - 1], self.position(at[0], j as isize, at[2]))
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
                _ => unsafe { u.row(to, 1)[0] },
            };
            // SAFETY: nobody writes coefficients while they are read.
            sum += unsafe { c.share().row(from, 1)[0] } * own.map_or(value, |own| own - value);
        }
        sum
    }
}
