//! Ranks that are neighbours.

use isobar_core::layout::Layout;

/// The rank that has the rows beyond an end of a subdomain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Neighbour {
    pub(crate) rank: usize,
    /// Whether the neighbour is beyond the end of a periodic direction.
    pub(crate) is_around: bool,
}

impl Neighbour {
    /// Returns the rank before the first row of this rank's subdomain, or after the last, if there is one.
    pub(crate) fn of(layout: &Layout, is_last: bool, [rank, size]: [usize; 2]) -> Option<Self> {
        let (end, step) = if is_last { (1, 1) } else { (0, size - 1) };
        let rank = (rank + step) % size;
        (layout.halo()[end] > 0).then(|| Self { rank, is_around: layout.goes_around_in_y()[end] })
    }
}
