//! Directions that cross: the strongest couplings are along one in some cells, along another in others, as on grids whose widths grow in both.
//!
//! Multigrid halves a direction everywhere or nowhere, and relaxes lines along z alone, so that it does not reduce an error that is smooth
//! along one direction in some places and along the other elsewhere. If z crosses x or y, lines in z on all grids, and the other direction
//! halved, reduce it (Schaffer, SIAM J. Sci. Comput. 20, 1998). If x and y of a plane cross, it is solved upright, so that y is z.

use super::turns::Turns;
use super::{Coefficients, Diffusion, Stencil};
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

impl Diffusion {
    /// Returns the directions that cross: from a few thousand cells of coefficients on the host, those at the corners among them; for
    /// coefficients on a GPU the known ones. Couplings of single cells do not make directions cross, so geometric means of some cells near each
    /// other count.
    pub fn crossing(&self) -> Crossing {
        const NEAR: usize = 8;
        if self.is_on_device() {
            return self.by_widths.as_deref().map(|(crossing, _)| *crossing).unwrap_or_default();
        }
        let shape = Stencil::shape(self);
        let (extents, is_space) = (shape.extents(), shape.extents().iter().all(|&n| n > 1));
        let [places_x, places_y, places_z] = extents.map(|n| sampled(n, if is_space { 9 } else { 17 }));
        let near = |at: [usize; 3], step: usize| {
            shape.number([0, 1, 2].map(|d| {
                let part = (extents[d] / 12).clamp(1, NEAR);
                at[d].min(extents[d] - part) + step % part
            }))
        };
        let of_cells = |ratio: &dyn Fn(usize) -> f64| {
            let (mut least, mut most) = (f64::INFINITY, 0.0_f64);
            for (&k, &j) in places_z.iter().flat_map(|k| places_y.iter().map(move |j| (k, j))) {
                for &i in &places_x {
                    let ratios = (0..NEAR).map(|step| ratio(near([i, j, k], step)));
                    let there = ratios.filter(|&ratio| ratio > 0.0 && ratio.is_finite());
                    let (product, count) =
                        there.fold((1.0, 0), |(product, count), ratio| (product * ratio.clamp(1e-35, 1e35), count + 1));
                    if count > 0 {
                        let mean = product.powf(1.0 / f64::from(count));
                        (least, most) = (least.min(mean), most.max(mean));
                    }
                }
            }
            Crossing::factor(least, most)
        };
        let factors = Crossing::PAIRS.map(|[d, e]| match self.coefficients() {
            Coefficients::Cells { fields, axes } if axes[d].0 != axes[e].0 => {
                let [(one, a), (other, b)] = [axes[d], axes[e]];
                of_cells(&|n| a * fields[one][n] / (b * fields[other][n]))
            }
            Coefficients::Faces(faces) => of_cells(&|n| faces[d][n] / faces[e][n]),
            _ => 0.0,
        });
        Crossing::of(factors, shape)
    }
}

/// Returns some places of a direction at most, evenly spread, its ends among them.
fn sampled(n: usize, most: usize) -> Vec<usize> {
    if n <= most {
        return (0..n).collect();
    }
    (0..most).map(|place| place * (n - 1) / (most - 1)).collect()
}
