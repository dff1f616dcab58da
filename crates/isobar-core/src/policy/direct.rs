//! A direct solve where that pays, and the nearest box as a preconditioner.

/// Cycles with multigrid take longest where cells are inactive, and where couplings of one direction are this many times another's…
const THIN: f64 = 10.0;
/// …and the nearest box suffices where this part of the cells is open…
pub(crate) const MOSTLY_OPEN: f64 = 0.6;
/// …and factors leave at most this root mean square of the logarithms of couplings.
const MOST_SPREAD: f64 = 0.3;

/// Returns whether eigenvectors of axes without a fast transform, of these numbers of cells, are computed in less time than iterating on
/// all cells would take.
pub(crate) fn pays(stretched: impl Iterator<Item = usize> + Clone, cells: usize) -> bool {
    /// Seconds to compute eigenvectors, for each cell to the third power; seconds to iterate a cell on a GPU; negligible seconds.
    const EIGENVECTORS: f64 = 3.3e-10;
    const CELL: f64 = 3e-9;
    const LITTLE: f64 = 5e-3;
    /// A product with this many eigenvectors takes as long as iterating.
    const MOST: usize = 1024;
    let seconds: f64 = stretched.clone().map(|n| EIGENVECTORS * (n as f64).powi(3)).sum();
    stretched.max().unwrap_or(0) <= MOST && seconds <= LITTLE.max(CELL * cells as f64)
}

/// Returns whether closed cells or thin ones make the nearest box worth a search: `stiffness` is the strongest direction's
/// couplings over the weakest's.
pub(crate) fn may_try_box(stiffness: f64, has_closed: bool) -> bool {
    has_closed || stiffness >= THIN
}

/// Returns why the nearest box is tried, if it is near enough: `open` is its part of open cells, `spread` the root mean square of
/// the logarithms of couplings that its factors leave.
pub(crate) fn why_try_box(stiffness: f64, open: f64, spread: f64) -> Option<String> {
    (open >= MOSTLY_OPEN && spread <= MOST_SPREAD).then(|| {
        format!(
            "{:.0} % of the cells are open and like those of a box, and couplings of one direction are {stiffness:.1} times another's",
            100.0 * open
        )
    })
}
