//! Directions that cross: the strongest couplings are along one in some cells, along another in others, as on grids whose widths grow in both.
//!
//! Multigrid halves a direction everywhere or nowhere, and relaxes lines along z alone, so that it does not reduce an error that is smooth
//! along one direction in some places and along the other elsewhere. If z crosses x or y, lines in z on all grids, and the other direction
//! halved, reduce it (Schaffer, SIAM J. Sci. Comput. 20, 1998). If x and y of a plane cross, it is solved upright, so that y is z.

use super::turns::Turns;
use crate::layout::Shape;
use crate::policy::direct::CROSSING;

/// The factors by which couplings of one direction exceed those of another in some cells, and are exceeded in others, where they are large;
/// otherwise 0.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Crossing {
    /// The factor by which x and y cross.
    pub xy: f64,
    /// The factor by which x and z cross.
    pub xz: f64,
    /// The factor by which y and z cross.
    pub yz: f64,
}

impl Crossing {
    /// The pairs, in the order of the fields.
    pub(super) const PAIRS: [[usize; 2]; 3] = [[0, 1], [0, 2], [1, 2]];

    /// Returns the factor of a pair, whose couplings have ratios from `least` to `most`: the geometric mean of the factors by which one exceeds
    /// the other and is exceeded, if both are large. Widths that grow in one direction alone make one of them much larger than the other.
    pub(crate) fn factor(least: f64, most: f64) -> f64 {
        /// The smallest factor that counts: grids without crossing reach smaller ones in places.
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

    /// Returns the largest factor of directions that lines in z do not solve exactly: of x and y, or, if z is periodic, of all. Where layers
    /// alternate or widths grow in z and one other direction, multigrid takes 7 to 12 iterations, whether z is halved or not
    /// (docs/notes/direct.md, "Nearest box").
    pub(crate) fn beside_lines(self, periodic: [bool; 3]) -> f64 {
        if periodic[2] { self.most() } else { self.xy }
    }

    /// Returns whether a smoother of points, or of lines along one direction on grids halved in all, is slow.
    pub fn is_strong(self) -> bool {
        self.most() >= CROSSING
    }

    /// Returns whether coarser grids halve z in addition to other directions: unless z crosses one of them by far, and by much more than these
    /// cross each other, which lines in z do not solve. If z is periodic, coarse grids do not solve lines exactly.
    pub(crate) fn halves_lines(self, shape: Shape, periodic: [bool; 3]) -> bool {
        /// The factor above which lines are kept whole; in space this makes an iteration a third to two thirds longer.
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
