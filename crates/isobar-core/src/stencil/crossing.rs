//! Directions that cross: the strongest couplings are along one in some cells, along another in others, as where widths grow in both.
//!
//! Multigrid halves a direction everywhere or nowhere, and relaxes lines along z alone, so that an error that is smooth along one direction
//! here and along the other there is reduced by neither. Where z crosses x or y, lines in z on all grids, and the other direction halved,
//! reduce it (Schaffer, SIAM J. Sci. Comput. 20, 1998). Where x and y of a plane cross, it is solved upright, so that y is z.

use super::turns::Turns;
use crate::layout::Shape;
use crate::policy::direct::CROSSING;

/// The factors by which couplings of one direction exceed those of another in some cells, and are exceeded in others, where they are large;
/// otherwise 0.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Crossing {
    /// Of x and y.
    pub xy: f64,
    /// Of x and z.
    pub xz: f64,
    /// Of y and z.
    pub yz: f64,
}

impl Crossing {
    /// The pairs, in the order of the fields.
    pub(super) const PAIRS: [[usize; 2]; 3] = [[0, 1], [0, 2], [1, 2]];

    /// Returns the factor of a pair, whose couplings have ratios from `least` to `most`: the geometric mean of the factors by which one exceeds
    /// the other and is exceeded, if both are large. Widths that grow in one direction alone make one of them much larger than the other.
    pub(crate) fn factor(least: f64, most: f64) -> f64 {
        /// Smaller ones are those of a grid whose couplings are alike in places.
        const LEAST: f64 = 4.0;
        if most.min(1.0 / least) < LEAST { 0.0 } else { (most / least).sqrt() }
    }

    /// Takes the factors of pairs on a grid; small ones, and those of single cells, are left out.
    pub(crate) fn of(factors: [f64; 3], shape: Shape) -> Self {
        let [x, y, z] = shape.extents().map(|n| n > 1);
        let [xy, xz, yz] = factors;
        let only = |factor: f64, is_plane: bool| if is_plane && factor >= CROSSING { factor } else { 0.0 };
        Self { xy: only(xy, x && y), xz: only(xz, x && z), yz: only(yz, y && z) }
    }

    /// Returns the largest factor.
    pub(crate) fn most(self) -> f64 {
        self.xy.max(self.xz).max(self.yz)
    }

    /// Returns whether a smoother of points, or of lines along one direction on grids halved in all, is slow.
    pub fn is_strong(self) -> bool {
        self.most() >= CROSSING
    }

    /// Returns whether coarser grids halve z beside other directions: unless it crosses one of them by far, and by much more than these cross
    /// each other, which lines in z do not help. Where z is periodic, coarse grids do not solve lines exactly.
    pub(crate) fn halves_lines(self, shape: Shape, periodic: [bool; 3]) -> bool {
        /// In space an iteration takes a third to two thirds longer with lines kept whole.
        const FAR: f64 = 1e3;
        const MUCH_MORE: f64 = 100.0;
        let most = self.xz.max(self.yz);
        let far = if shape.extents().contains(&1) { CROSSING } else { FAR };
        periodic[2] || most < far || self.xy * MUCH_MORE > most
    }

    /// Returns the factors of the directions of a solver's grid.
    pub(crate) fn around(self, turns: Turns) -> Self {
        let [xy, xz, yz] = turns.of_pairs([self.xy, self.xz, self.yz]);
        Self { xy, xz, yz }
    }
}
