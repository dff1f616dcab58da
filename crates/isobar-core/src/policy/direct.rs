//! A direct solve where that pays, and the nearest box as a preconditioner.

use crate::error::Number;

/// Cycles with multigrid take longest in space where cells are inactive, and more so if couplings of one direction are this many times another's…
const THIN: f64 = 10.0;
/// …and where in some cells one direction's couplings are this many times another's, and the reverse in others…
pub(crate) const CROSSING: f64 = 20.0;
/// The reason in words.
pub(crate) const CROSSES: &str = "the direction of the strongest couplings changes over the grid";
/// …and the nearest box suffices where this part of the cells is open…
const MOSTLY_OPEN: f64 = 0.6;
/// …and factors leave at most this root mean square of the logarithms of couplings…
const MOST_SPREAD: f64 = 0.3;
/// …or nothing but rounding, where no direction is stiff, and on a processor: others' factors have no fast transforms, so that an iteration takes as long as
/// one with multigrid…
pub(crate) const EXACT: f64 = 1e-6;
/// …or this, where directions cross, as multigrid then takes hundreds of iterations.
const MOST_SPREAD_CROSSING: f64 = 1.1;
/// The largest contrast of coefficients with which the box is tried if cells are closed. In the box these are open, so that it couples regions that
/// the matrix with a larger contrast hardly couples. Errors that differ between such regions leave small residuals, and conjugate gradients converge
/// before they find these eigenvalues: with a contrast of 10⁶ errors were up to 3000 times as large as estimated, in one of twelve random problems of
/// 20 % closed cells.
const MOST_CONTRAST_CLOSED: f64 = 1e3;

/// The most iterations with the nearest box that are worth their time: with fast transforms one takes a third to a fifth of the time of one with
/// multigrid, which needs ten where cells are thin, on a GPU…
const MOST_ITERATIONS: f64 = 36.0;
/// …or two thirds, where multigrid needs five to eight and its setup takes as long again, on a processor…
const MOST_ITERATIONS_MEASURED: f64 = 20.0;
/// …where an iteration takes at most this many times as long as one with fast transforms…
const MOST_SLOWER: f64 = 1.25;
/// …and where directions of a plane cross, some 5 times the root of [`Hardness::crossing`], of which two fifths are worth it, within these bounds…
const MOST_ITERATIONS_CROSSING: [f64; 2] = [60.0, 250.0];
/// …or in space some 5 times the fourth root, of which four times as many are worth it, up to the same bound.
const MOST_ITERATIONS_IN_SPACE: f64 = 20.0;
/// The fewest iterations that a trial is for: fewer suffice only where factors leave next to nothing.
const FEWEST_ITERATIONS: f64 = 12.0;
/// The factor by which multigrid may then take longer than elsewhere, and the computation of eigenvectors too.
const LONGER_CROSSING: f64 = 200.0;

/// The nearest box, as a preconditioner to be tried.
#[derive(Clone, Debug)]
pub struct Trial<F> {
    /// The factors of the box.
    pub factors: F,
    /// The reason for the trial.
    pub why: String,
    /// The most iterations that the tolerance may take with it.
    pub most_iterations: f64,
}

/// The properties of a problem that make multigrid slow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hardness {
    /// The strongest direction's mean couplings over the weakest's.
    pub(crate) stiffness: f64,
    /// Whether there are closed cells.
    pub(crate) has_closed: bool,
    /// The largest coefficient of open cells over the smallest, of one direction.
    pub(crate) contrast: f64,
    /// The factor by which one direction's couplings exceed another's in some cells, and are exceeded in others.
    pub(crate) crossing: f64,
}

/// Returns whether eigenvectors of axes without a fast transform, of these numbers of cells, are computed in less time than iterating on
/// all cells would take, which is `longer` times as long as usual.
pub(crate) fn pays(stretched: impl Iterator<Item = usize> + Clone, cells: usize, longer: f64) -> bool {
    /// Seconds to compute eigenvectors, for each cell to the third power; seconds to iterate a cell on a GPU; negligible seconds.
    const EIGENVECTORS: f64 = 1.5e-10;
    const CELL: f64 = 3e-9;
    const LITTLE: f64 = 5e-3;
    /// A product with this many eigenvectors takes as long as iterating.
    const MOST: usize = 1024;
    let seconds: f64 = stretched.clone().map(|n| EIGENVECTORS * (n as f64).powi(3)).sum();
    stretched.max().unwrap_or(0) <= MOST && seconds <= longer * LITTLE.max(CELL * cells as f64)
}

impl Hardness {
    /// Returns whether closed cells, of a grid in space, or directions that cross make the nearest box worth a search.
    pub(crate) fn may_try_box(self, is_space: bool) -> bool {
        self.crosses() || (is_space && self.has_closed && self.contrast <= MOST_CONTRAST_CLOSED)
    }

    /// Returns the largest factor by which multigrid takes longer than usual.
    pub(crate) fn longer(self) -> f64 {
        if self.crosses() { LONGER_CROSSING } else { 1.0 }
    }

    fn crosses(self) -> bool {
        self.crossing >= CROSSING
    }

    /// Returns the largest root mean square of the logarithms of couplings that factors may leave.
    fn most_spread(self, is_processor: bool) -> f64 {
        match (self.crosses(), is_processor || self.stiffness < THIN) {
            (true, _) => MOST_SPREAD_CROSSING,
            (false, true) => EXACT,
            (false, false) => MOST_SPREAD,
        }
    }

    /// Returns the most iterations that the tolerance may take with the nearest box, if these are enough for a trial. One takes `slower` times as
    /// long as with fast transforms, where that is known.
    pub(crate) fn most_iterations(self, slower: Option<f64>, is_space: bool) -> Option<f64> {
        let [least, most] = MOST_ITERATIONS_CROSSING;
        let iterations = match slower {
            Some(slower) if self.crosses() && is_space => {
                (MOST_ITERATIONS_IN_SPACE * self.crossing.powf(0.25)).min(most) / slower
            }
            _ if self.crosses() => (2.0 * self.crossing.sqrt()).clamp(least, most),
            Some(slower) if slower > MOST_SLOWER => return None,
            Some(slower) => MOST_ITERATIONS_MEASURED / slower,
            None => MOST_ITERATIONS,
        };
        (iterations >= FEWEST_ITERATIONS).then_some(iterations)
    }

    /// Returns the trial of the nearest box, if it is near enough: `open` is its fraction of open cells, `spread` the root mean square of the
    /// logarithms of couplings that its factors leave.
    pub(crate) fn trial<F>(
        self,
        factors: F,
        [open, spread]: [f64; 2],
        most_iterations: f64,
        is_processor: bool,
    ) -> Option<Trial<F>> {
        let couplings = if self.crosses() {
            CROSSES.into()
        } else if self.stiffness < THIN {
            "multigrid takes longest where cells are closed".into()
        } else {
            format!("couplings of one direction are {:.1} times another's", Number(self.stiffness))
        };
        let why = format!("{:.0} % of the cells are open and like those of a box, and {couplings}", 100.0 * open);
        (open >= MOSTLY_OPEN && spread <= self.most_spread(is_processor)).then_some(Trial {
            factors,
            why,
            most_iterations,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_box_is_tried_where_multigrid_is_slow() {
        let plain = Hardness { stiffness: 2.0, has_closed: false, contrast: 1.0, crossing: 1.0 };
        let (crossing, closed) = (Hardness { crossing: 100.0, ..plain }, Hardness { has_closed: true, ..plain });
        let thin = Hardness { stiffness: 10.0, ..closed };
        let tried = [crossing, closed, thin].map(|hardness| hardness.may_try_box(true));
        assert_eq!([crossing, thin].map(|hardness| hardness.may_try_box(false)), [true, false]);
        let others = [plain, Hardness { stiffness: 10.0, ..plain }, Hardness { contrast: 1e4, ..thin }];
        assert_eq!((tried, others.map(|hardness| hardness.may_try_box(true))), ([true; 3], [false; 3]));
        let trial = |hardness: Hardness, open, spread, is_processor| {
            hardness.trial((), [open, spread], 36.0, is_processor).map(|trial| trial.why)
        };
        assert!(trial(crossing, 1.0, 0.7, true).is_some_and(|why| why.contains("changes over the grid")));
        assert!(trial(crossing, 1.0, 1.2, false).is_none() && trial(crossing, 0.5, 0.1, true).is_none());
        assert!(trial(thin, 1.0, 0.1, false).is_some() && trial(thin, 1.0, 0.7, false).is_none());
        assert!(trial(closed, 1.0, 0.0, false).is_some() && trial(closed, 1.0, 0.1, false).is_none());
        assert!(trial(thin, 1.0, 0.0, true).is_some() && trial(thin, 1.0, 0.1, true).is_none());
    }

    #[test]
    fn products_with_eigenvectors_leave_a_box_fewer_iterations() {
        let thin = Hardness { stiffness: 20.0, has_closed: true, contrast: 1.0, crossing: 0.0 };
        let most = |slower| thin.most_iterations(slower, true);
        assert_eq!([most(None), most(Some(1.0)), most(Some(1.4))], [Some(36.0), Some(20.0), None]);
        let crossing = Hardness { crossing: 1e4, ..thin };
        assert_eq!(crossing.most_iterations(Some(2.0), true), Some(100.0));
        assert_eq!(Hardness { crossing: 1e16, ..thin }.most_iterations(Some(2.0), true), Some(125.0));
        assert_eq!([None, Some(2.0)].map(|slower| crossing.most_iterations(slower, false)), [Some(200.0); 2]);
    }
}
