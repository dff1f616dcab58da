//! A grid with half as many cells in some directions: the cells of a coarse cell, and the interpolation from it.
//!
//! All cells of a direction have one width, except the last, which is narrower where a number of cells was odd on a finer grid.

use super::Axis;
use crate::layout::Shape;

/// The interpolation and restriction in one direction, by the number of a fine cell.
#[derive(Clone, Debug, PartialEq)]
pub struct Along {
    /// Whether a coarse cell consists of two fine ones.
    pub is_halved: bool,
    /// The weight of the coarse cell that contains a cell…
    pub near: Vec<f64>,
    /// …and of its neighbour on the cell's side: linear between centres; 0 if there is none.
    pub far: Vec<f64>,
    /// (d / d_c)², d the width of a cell and d_c that of the coarse one.
    pub share: Vec<f64>,
    /// Cells of the coarse grid.
    count: usize,
    is_ring: bool,
}

impl Along {
    /// Returns the coarse cell that contains cell n.
    #[inline(always)]
    pub fn part_of(&self, n: usize) -> usize {
        if self.is_halved { n / 2 } else { n }
    }

    /// Returns the neighbour of that coarse cell on cell n's side; the containing cell if there is none.
    #[inline(always)]
    pub fn beside(&self, n: usize) -> usize {
        let own = self.part_of(n);
        match (self.is_halved, n.is_multiple_of(2)) {
            (false, _) => own,
            (true, true) if own > 0 => own - 1,
            (true, false) if own + 1 < self.count => own + 1,
            (true, is_lower) if self.is_ring => {
                if is_lower {
                    self.count - 1
                } else {
                    0
                }
            }
            _ => own,
        }
    }

    /// Returns the fine cells of coarse cell n.
    #[inline(always)]
    pub fn parts(&self, n: usize) -> std::ops::Range<usize> {
        if self.is_halved { 2 * n..(2 * n + 2).min(self.near.len()) } else { n..n + 1 }
    }

    fn unchanged(count: usize) -> Self {
        let of = |value: f64| vec![value; count];
        Self { is_halved: false, near: of(1.0), far: of(0.0), share: of(1.0), count, is_ring: false }
    }

    /// Halves `count` cells, the last of which is `last` times as wide as the others.
    fn halved(count: usize, last: f64, [lower, upper]: [End; 2]) -> Self {
        let coarse = count.div_ceil(2);
        let width = |n: usize| if n + 1 == count { last } else { 1.0 };
        let of_parent = |n: usize| width(2 * n) + if 2 * n + 1 < count { width(2 * n + 1) } else { 0.0 };
        let is_ring = lower == End::Ring && coarse > 1;
        let mut this =
            Self { is_halved: true, near: Vec::new(), far: Vec::new(), share: Vec::new(), count: coarse, is_ring };
        for n in 0..count {
            let parent = of_parent(n / 2);
            this.share.push((width(n) / parent).powi(2));
            let is_alone = n % 2 == 0 && n + 1 == count;
            // The distance from the parent's centre to the cell's, outwards.
            let off = if is_alone { 0.0 } else { (parent - width(n)) / 2.0 };
            let beside = this.beside(n);
            let end = if n % 2 == 0 { lower } else { upper };
            let [near, far] = if beside != n / 2 {
                let far = off / (0.5 * (parent + of_parent(beside)));
                [1.0 - far, far]
            } else if end == End::Fixed {
                // The value is mirrored at the side with the opposite sign.
                [1.0 - 2.0 * off / parent, 0.0]
            } else {
                [1.0, 0.0]
            };
            this.near.push(near);
            this.far.push(far);
        }
        this
    }
}

/// The condition at an end of a direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// A side without flow.
    Closed,
    /// A value of zero on the side.
    Fixed,
    /// A periodic end, whose neighbour is the other end.
    Ring,
}

/// A pair of grids, the coarse one made from the fine one.
#[derive(Clone, Debug, PartialEq)]
pub struct Halving {
    /// The fine grid.
    pub fine: Shape,
    /// The coarse grid.
    pub coarse: Shape,
    /// Transfers by direction.
    pub along: [Along; 3],
    /// Whether all cells of both grids have the same size.
    pub is_regular: bool,
}

impl Halving {
    /// Returns the fine cells of a coarse one.
    pub fn parts(&self, [i, j, k]: [usize; 3]) -> impl Iterator<Item = [usize; 3]> + use<> {
        let [x, y, z] = &self.along;
        let (x, y) = (x.parts(i), y.parts(j));
        z.parts(k).flat_map(move |k| {
            let x = x.clone();
            y.clone().flat_map(move |j| x.clone().map(move |i| [i, j, k]))
        })
    }

    /// Returns which directions are halved.
    pub fn halved(&self) -> [bool; 3] {
        [0, 1, 2].map(|d: usize| self.along[d].is_halved)
    }
}

/// Directions with couplings below this fraction of the strongest direction's are not halved.
const STRONG: f64 = 0.5;

/// Returns how a grid is halved until one cell is left, or `wanted` grids are made, the first included. Directions with weak
/// couplings, by their strengths, wait until the others have caught up.
///
/// Periodic directions are halved while cells of both colours alternate in them.
pub fn halvings(shape: Shape, ends: [[End; 2]; 3], mut strengths: [f64; 3], wanted: Option<usize>) -> Vec<Halving> {
    let mut all = Vec::new();
    let (mut n, mut last) = (shape.extents(), [1.0; 3]);
    while wanted.is_none_or(|wanted| all.len() + 1 < wanted) {
        let can = |d: usize| {
            let stays_even = n[d] % 4 == 0 || n[d] == 2;
            n[d] > 1 && (ends[d][0] != End::Ring || stays_even)
        };
        let strongest = (0..3).filter(|&d| n[d] > 1).map(|d| strengths[d]).fold(0.0, f64::max);
        let halved = [0, 1, 2].map(|d| n[d] > 1 && strengths[d] >= STRONG * strongest);
        if !halved.contains(&true) || (0..3).any(|d| halved[d] && !can(d)) {
            break;
        }
        let before = (n, last);
        let along = [0, 1, 2].map(|d| {
            if !halved[d] {
                return Along::unchanged(n[d]);
            }
            let along = Along::halved(n[d], last[d], ends[d]);
            let is_even = n[d].is_multiple_of(2);
            n[d] = n[d].div_ceil(2);
            last[d] = match n[d] {
                1 => 1.0,
                _ if is_even => (1.0 + last[d]) / 2.0,
                _ => last[d] / 2.0,
            };
            strengths[d] /= 4.0;
            along
        });
        let shape = |[nx, ny, nz]: [usize; 3]| Shape::new(nx, ny, nz);
        let is_even = |d: usize| !halved[d] || (before.0[d].is_multiple_of(2) && before.1[d] == 1.0);
        all.push(Halving {
            fine: shape(before.0),
            coarse: shape(n),
            along,
            is_regular: Axis::ALL.iter().all(|&d| is_even(d as usize)),
        });
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLOSED: [End; 2] = [End::Closed; 2];

    #[test]
    fn linear_functions_are_interpolated_exactly() {
        for (count, last) in [(2, 1.0), (3, 1.0), (8, 0.5), (9, 0.25), (12, 1.0), (13, 0.75)] {
            let along = Along::halved(count, last, CLOSED);
            let width = |n: usize| if n + 1 == count { last } else { 1.0 };
            let centre = |n: usize| (0..n).map(width).sum::<f64>() + width(n) / 2.0;
            let coarse = |n: usize| {
                let parts = along.parts(n);
                let start: f64 = (0..parts.start).map(width).sum();
                start + parts.map(width).sum::<f64>() / 2.0
            };
            for n in 0..count {
                assert_eq!(along.parts(along.part_of(n)).filter(|&m| m == n).count(), 1);
                if along.beside(n) != along.part_of(n) {
                    let value = along.near[n] * coarse(along.part_of(n)) + along.far[n] * coarse(along.beside(n));
                    assert!((value - centre(n)).abs() < 1e-12, "{count} {last} {n}: {value} for {}", centre(n));
                }
            }
        }
    }

    #[test]
    fn weights_at_the_ends() {
        let fixed = Along::halved(6, 1.0, [End::Fixed, End::Closed]);
        assert_eq!((fixed.near[0], fixed.far[0], fixed.near[1], fixed.far[1]), (0.5, 0.0, 0.75, 0.25));
        assert_eq!((fixed.near[5], fixed.far[5]), (1.0, 0.0));
        assert_eq!(fixed.share, [0.25; 6]);
        let ring = Along::halved(8, 1.0, [End::Ring; 2]);
        assert_eq!((ring.beside(0), ring.beside(7), ring.near[0], ring.far[0]), (3, 0, 0.75, 0.25));
        // The last of an odd number of cells is a coarse cell of its own.
        let odd = Along::halved(5, 1.0, [End::Fixed; 2]);
        assert_eq!((odd.near[4], odd.far[4], odd.share[4], odd.beside(3)), (1.0, 0.0, 1.0, 2));
    }

    #[test]
    fn grids_are_halved_to_one_cell_and_weak_directions_wait() {
        let shapes = |all: &[Halving]| all.iter().map(|h| (h.coarse.nx, h.coarse.ny, h.coarse.nz)).collect::<Vec<_>>();
        let open = [CLOSED; 3];
        let all = halvings(Shape::new(7, 4, 1), open, [1.0; 3], None);
        assert_eq!(shapes(&all), [(4, 2, 1), (2, 1, 1), (1, 1, 1)]);
        assert!(!all[0].is_regular && !all[1].is_regular);
        let all = halvings(Shape::new(8, 8, 8), open, [1.0, 1.0, 0.1], None);
        assert_eq!(shapes(&all), [(4, 4, 8), (2, 2, 8), (1, 1, 4), (1, 1, 2), (1, 1, 1)]);
        assert!(all[0].is_regular);
        assert_eq!(halvings(Shape::new(8, 8, 8), open, [1.0; 3], Some(2)).len(), 1);
        // Six periodic cells would become three.
        let ring = [[End::Ring; 2], CLOSED, CLOSED];
        assert_eq!(shapes(&halvings(Shape::new(24, 8, 1), ring, [1.0; 3], None)), [(12, 4, 1), (6, 2, 1)]);
    }
}
