//! The rows of a grid for which one of several ranks makes matrices.
//!
//! A rank's window is its own rows and a [`MARGIN`] of its neighbours' rows at either end. It is a grid by itself, on which all passes of the setup run unchanged:
//! what they compute near its ends is wrong where the window ends and the grid does not, but never reaches the rank's own rows. After each halved
//! direction the neighbours send the rows of the margins, so own rows have the same bits as on one rank.

use std::ops::Range;
use std::sync::Arc;

use super::{Couplings, Execute, Grid, Serial};
use crate::layout::Axis;
use crate::real::{Real, bytes_of, bytes_of_mut};
use crate::{Result, Shape};

/// The rows beyond its own that a rank needs to halve a direction: weights depend on four rows to either side, one for each half sweep, products on one
/// more, cells without couplings ([`COLLAPSED`](super::product::COLLAPSED)) on another, and a coupling is stored in one of two rows. An even number keeps the
/// parity of rows.
pub const MARGIN: usize = 8;

/// The ranks that make matrices together; the defaults are those of one rank alone. All ranks make the same calls in the same order.
pub trait Ranked: Execute {
    /// Returns how several ranks divide the rows of a grid, in pairs: the first row of each rank and one past the last, and the number of this rank.
    ///
    /// # Errors
    /// [`Error::Unsupported`](crate::Error::Unsupported) if a pair of rows is divided.
    fn division(&self, _grid: Shape) -> Result<Option<(Vec<usize>, usize)>> {
        Ok(None)
    }

    /// Sends bytes to the ranks with the rows before and after, perhaps across the period, and receives as many from each; nothing where there are none.
    ///
    /// # Errors
    /// The errors of the transport.
    fn exchange(&self, _send: [&[u8]; 2], _receive: [&mut [u8]; 2]) -> Result<()> {
        Ok(())
    }

    /// Collects the bytes of all ranks, in their order, on every rank: `counts[rank]` of each.
    ///
    /// # Errors
    /// The errors of the transport.
    fn collect(&self, own: &[u8], _counts: &[usize], all: &mut [u8]) -> Result<()> {
        all.copy_from_slice(own);
        Ok(())
    }
}

impl Ranked for Serial {}

/// Collects the numbers of all ranks, in their order, equally many of each.
///
/// # Errors
/// The errors of the transport.
pub(super) fn collect_equal(on: &impl Ranked, ranks: usize, own: &[f64]) -> Result<Vec<f64>> {
    let mut all = vec![0.0; ranks * own.len()];
    on.collect(bytes_of(own), &vec![size_of_val(own); ranks], bytes_of_mut(&mut all))?;
    Ok(all)
}

/// Collects the numbers of all ranks, in their order.
///
/// # Errors
/// The errors of the transport.
pub(super) fn collect_any(on: &impl Ranked, ranks: usize, own: &[f64]) -> Result<Vec<f64>> {
    let counts = collect_equal(on, ranks, &[own.len() as f64])?;
    let bytes: Vec<usize> = counts.iter().map(|&count| count as usize * size_of::<f64>()).collect();
    let mut all = vec![0.0; bytes.iter().sum::<usize>() / size_of::<f64>()];
    on.collect(bytes_of(own), &bytes, bytes_of_mut(&mut all))?;
    Ok(all)
}

/// A rank's own rows of a grid, and those around them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// The first row of each rank, and one past the last: even numbers but for the last.
    starts: Vec<usize>,
    rank: usize,
    /// Whether y is periodic.
    is_periodic: bool,
    /// The margins before and after the own rows: none at a closed side.
    margins: [usize; 2],
}

impl Window {
    /// Returns the window of a rank; nothing if the grid is better made whole by every rank: if a rank has fewer rows than its neighbours need, or
    /// if its window would not be smaller than the grid.
    pub fn new(starts: Vec<usize>, rank: usize, is_periodic: bool) -> Option<Self> {
        let (last, rows) = (starts.len() - 1, starts[starts.len() - 1]);
        let is_even = starts[..last].iter().all(|start| start.is_multiple_of(2)) && !(is_periodic && rows % 2 == 1);
        let margins = |rank: usize| [rank > 0, rank + 1 < last].map(|has| if has || is_periodic { MARGIN } else { 0 });
        let is_smaller = |rank: usize| {
            let own = starts[rank + 1] - starts[rank];
            own >= MARGIN && own + margins(rank).iter().sum::<usize>() < rows
        };
        let is_divided = last > 1 && is_even && (0..last).all(is_smaller);
        is_divided.then(|| Self { margins: margins(rank), starts, rank, is_periodic })
    }

    /// Returns the window of the grid that is half as fine along an axis; nothing as [`Window::new`].
    pub fn halved(&self, axis: Axis) -> Option<Self> {
        let starts = self.starts.iter().map(|start| start.div_ceil(divisor(axis)));
        Self::new(starts.collect(), self.rank, self.is_periodic)
    }

    /// Returns the place here of the first row that a finer window, halved along an axis, determines.
    pub(super) fn first_of_half(&self, finer: &Self, axis: Axis) -> usize {
        self.margins[0] - finer.margins[0] / divisor(axis)
    }

    /// Returns the first row of each rank, and one past the last.
    pub fn starts(&self) -> &[usize] {
        &self.starts
    }

    /// Returns how many ranks there are.
    pub fn ranks(&self) -> usize {
        self.starts.len() - 1
    }

    /// Returns the rows of the whole grid.
    pub fn whole(&self) -> usize {
        self.starts[self.ranks()]
    }

    /// Returns the rows of the window.
    pub fn rows(&self) -> usize {
        self.margins[0] + self.own_count() + self.margins[1]
    }

    fn own_count(&self) -> usize {
        self.starts[self.rank + 1] - self.starts[self.rank]
    }

    /// Returns the rank's own rows, counted in the window.
    pub fn own(&self) -> Range<usize> {
        self.margins[0]..self.margins[0] + self.own_count()
    }

    /// Returns the number in the window of a row of the whole grid that lies in it.
    #[inline(always)]
    pub fn here(&self, row: usize) -> usize {
        let from_first = row + self.whole() + self.margins[0] - self.starts[self.rank];
        if self.is_periodic { from_first % self.whole() } else { from_first - self.whole() }
    }

    /// Returns the number in the whole grid of row j of the window.
    #[inline(always)]
    pub fn there(&self, j: usize) -> usize {
        let row = self.starts[self.rank] + self.whole() + j - self.margins[0];
        if self.is_periodic { row % self.whole() } else { row - self.whole() }
    }

    /// Returns whether the row in direction `dy` of row j lies across the period.
    #[inline(always)]
    pub fn crosses(&self, j: usize, dy: isize) -> bool {
        match dy {
            -1 => self.there(j) == 0,
            1 => self.there(j) + 1 == self.whole(),
            _ => false,
        }
    }

    /// Returns the whole grid of which a grid is this window.
    pub fn whole_grid(&self, Grid { shape, periodic: [x, _, z] }: Grid) -> Grid {
        Grid { shape: Shape { ny: self.whole(), ..shape }, periodic: [x, self.is_periodic, z] }
    }

    /// Returns the window's part of a whole grid.
    pub fn of_grid(&self, Grid { shape, periodic: [x, _, z] }: Grid) -> Grid {
        Grid { shape: Shape { ny: self.rows(), ..shape }, periodic: [x, false, z] }
    }
}

impl<N: Real> Couplings<N> {
    /// Receives the margins of a matrix with room for this window, whose own rows are right.
    pub(super) fn renewed(mut self, on: &impl Ranked, window: Window) -> Result<Self> {
        let plane = self.plane_len();
        let ends = window.margins.map(|rows| rows * plane);
        let (first, rest) = self.numbers.split_at_mut(ends[0]);
        let (own, last) = rest.split_at_mut(window.own_count() * plane);
        let send = [&own[..ends[0]], &own[own.len() - ends[1]..]].map(bytes_of);
        on.exchange(send, [first, last].map(bytes_of_mut))?;
        self.window = Some(Arc::new(window));
        Ok(self)
    }

    /// Returns the rows of this rank.
    pub(super) fn own_rows(&self) -> Range<usize> {
        self.window.as_ref().map_or(0..self.grid.shape.ny, |window| window.own())
    }

    /// Returns whether something is true on any of the ranks that make this matrix together.
    pub(super) fn on_any(&self, on: &impl Ranked, is_here: bool) -> Result<bool> {
        let Some(window) = &self.window else { return Ok(is_here) };
        Ok(collect_equal(on, window.ranks(), &[f64::from(is_here)])?.contains(&1.0))
    }

    /// Makes a matrix whole on every rank.
    pub(super) fn whole(self, on: &impl Ranked) -> Result<Self> {
        let Some(window) = self.window.clone() else { return Ok(self) };
        self.collected_rows(on, window.own(), &window.starts, window.is_periodic)
    }

    /// Makes a product whole on every rank, for which a window of the finer matrix was halved along an axis.
    pub(super) fn collected(self, on: &impl Ranked, finer: &Window, axis: Axis) -> Result<Self> {
        let divisor = divisor(axis);
        let starts: Vec<usize> = finer.starts.iter().map(|start| start.div_ceil(divisor)).collect();
        let own = finer.own();
        self.collected_rows(on, own.start / divisor..own.end.div_ceil(divisor), &starts, finer.is_periodic)
    }

    /// Collects the rows of all ranks; `own` are this rank's.
    fn collected_rows(self, on: &impl Ranked, own: Range<usize>, starts: &[usize], is_periodic: bool) -> Result<Self> {
        let (plane, rows) = (self.plane_len(), starts[starts.len() - 1]);
        let Grid { shape, periodic: [x, _, z] } = self.grid;
        let grid = Grid { shape: Shape { ny: rows, ..shape }, periodic: [x, is_periodic && rows > 1, z] };
        let mut all = Self::of_any(grid, self.present, &self.spare);
        let counts: Vec<usize> = starts.windows(2).map(|ends| (ends[1] - ends[0]) * plane * size_of::<N>()).collect();
        let own = bytes_of(&self.numbers[own.start * plane..own.end * plane]);
        on.collect(own, &counts, bytes_of_mut(&mut all.numbers))?;
        all.inherit(self);
        Ok(all)
    }
}

/// Returns the rows that become one where an axis is halved.
pub fn divisor(axis: Axis) -> usize {
    if axis == Axis::Y { 2 } else { 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_found_from_either_grid() {
        for (starts, is_periodic) in [(vec![0, 16, 40, 57], false), (vec![0, 16, 40, 64], true)] {
            for rank in 0..3 {
                let window = Window::new(starts.clone(), rank, is_periodic).unwrap();
                let own: Vec<usize> = window.own().map(|j| window.there(j)).collect();
                assert_eq!(own, (starts[rank]..starts[rank + 1]).collect::<Vec<_>>());
                for j in 0..window.rows() {
                    assert_eq!(window.here(window.there(j)), j);
                    let is_next =
                        j + 1 == window.rows() || (window.there(j) + 1) % window.whole() == window.there(j + 1);
                    assert!(is_next, "{window:?} {j}");
                }
                assert_eq!(window.there(0) % 2, 0);
            }
        }
    }

    #[test]
    fn thin_subdomains_have_no_windows() {
        assert!(Window::new(vec![0, 16, 22], 0, false).is_none(), "6 rows are fewer than a margin");
        assert!(Window::new(vec![0, 8, 16], 0, false).is_none(), "the window is the grid");
        assert!(Window::new(vec![0, 9, 40], 0, false).is_none(), "a pair of rows is divided");
        assert!(Window::new(vec![0, 40], 0, false).is_none(), "there is one rank");
        assert!(Window::new(vec![0, 20, 41], 0, true).is_none(), "the period is odd");
        assert!(Window::new(vec![0, 20, 41], 0, false).is_some());
    }
}
