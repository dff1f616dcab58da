//! Lines that are divided among ranks.

use super::separate::EXACT;
use super::{AxisMatrix, Lines, Separable};
use crate::layout::Slab;

/// Numbers within this relative distance are proportional.
const TOLERANCE: f64 = 1e-11;
/// A remainder of a shift, without its part along another axis, is rounding if it is below this fraction of the shift.
const ROUNDING: f64 = 1e-13;

/// The consecutive cells of a line that one of several ranks has. Its last cell remains when those before it are eliminated, which couple to it and to
/// the previous rank's last cell.
#[derive(Clone, Debug, PartialEq)]
pub struct Piece {
    /// The cells before the last; the last coupling is that to the last cell.
    pub inner: Lines,
    /// The coupling of the first cell to the previous rank's last one, 0 if there is none.
    pub before: f64,
    /// The shift of the last cell, and its weights D_a and D_b.
    pub last: [f64; 3],
}

impl Piece {
    /// Returns the systems of the cells before the last, given the cells beside them: couplings to these are shifts.
    pub fn closed(&self) -> Lines {
        let mut lines = self.inner.clone();
        if let Some(first) = lines.shift.first_mut() {
            *first += self.before;
        }
        if let (Some(shift), Some(coupling)) = (lines.shift.last_mut(), lines.couplings.last_mut()) {
            *shift += std::mem::take(coupling);
        }
        lines
    }
}

impl Separable {
    /// Returns a matrix with lines along y as a rank solves it that has these rows: the factors of its rows, whose systems are those of the cells before
    /// the last, and the division of its lines.
    pub fn rows(&self, rows: Slab) -> (Self, Piece) {
        let Lines { shift, couplings, weights, least_pivot } = &self.lines;
        let (inner, last) = (rows.first..rows.beyond - 1, rows.beyond - 1);
        let of = |values: &[f64]| values[inner.clone()].to_vec();
        let lines = Lines {
            shift: of(shift),
            couplings: of(couplings),
            weights: weights.each_ref().map(|weights| of(weights)),
            least_pivot: *least_pivot,
        };
        let before = couplings[rows.first.checked_sub(1).unwrap_or(couplings.len() - 1)];
        let piece = Piece { inner: lines, before, last: [shift[last], weights[0][last], weights[1][last]] };
        (Self { shape: rows.shape(self.shape), lines: piece.closed(), ..self.clone() }, piece)
    }

    /// Returns the same matrix with lines along another axis, if it has that form too:
    ///
    /// ```text
    /// M_n M_o T_l + K_n M_o D_n + M_n K_o D_o,  D_o = ρ D_n   →   M_o M_l T_n + K_o M_l D_o + M_o K_l D_l
    /// with M_l = D_n,  K_l = T_l − s D_n,  T_n = K_n + s M_n,  D_o = ρ M_n,  D_l = M_n
    /// ```
    ///
    /// with l the axis of the lines, n the other one, and s such that the smallest shift of K_l is 0.
    pub fn with_lines(&self, axis: usize) -> Option<Self> {
        let Self { shape, line, across, factors, lines, .. } = self;
        let Some(which) = across.iter().position(|&other| other == axis) else { return Some(self.clone()) };
        let (own, other, mass) = (&factors[which], &factors[1 - which], &lines.weights[which]);
        let is_decoupled = other.couplings.iter().chain(&other.shift).all(|&value| value == 0.0);
        let ratio = if is_decoupled { 0.0 } else { lines.weights[1 - which][0] / mass[0] };
        let pairs = || mass.iter().zip(&lines.weights[1 - which]);
        let are_proportional =
            |within: f64| is_decoupled || pairs().all(|(m, w)| (w - ratio * m).abs() <= within * w.abs());
        if !(are_proportional(TOLERANCE) && mass.iter().all(|&m| m > 0.0)) {
            return None;
        }
        let common = lines.shift.iter().zip(mass).map(|(shift, m)| shift / m).fold(f64::INFINITY, f64::min);
        let rest = |(shift, m): (&f64, &f64)| {
            let rest = shift - common * m;
            if rest <= ROUNDING * shift.abs() { 0.0 } else { rest }
        };
        let along = AxisMatrix {
            mass: mass.clone(),
            shift: lines.shift.iter().zip(mass).map(rest).collect(),
            couplings: lines.couplings.clone(),
        };
        let shift: Vec<f64> = own.shift.iter().zip(&own.mass).map(|(shift, m)| shift + common * m).collect();
        let sizes = own.couplings.iter().zip(&shift).map(|(coupling, shift)| coupling + shift.abs());
        let least_pivot = match shift.iter().any(|&shift| shift < 0.0) {
            true => f64::EPSILON.sqrt() * sizes.fold(0.0, f64::max),
            false => 0.0,
        };
        let scaled = own.mass.iter().map(|m| ratio * m).collect();
        let mut parts = [(*line, along, own.mass.clone()), (across[1 - which], other.clone(), scaled)];
        parts.sort_by_key(|&(axis, ..)| axis);
        let [(a, first, of_first), (b, second, of_second)] = parts;
        let lines = Lines { shift, couplings: own.couplings.clone(), weights: [of_first, of_second], least_pivot };
        let is_exact = self.is_exact && are_proportional(EXACT);
        Some(Self { shape: *shape, line: axis, across: [a, b], factors: [first, second], lines, is_exact })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Shape;

    /// Returns A u, in C order.
    fn product(matrix: &Separable, u: &[f64]) -> Vec<f64> {
        let (shape, terms) = (matrix.shape, matrix.terms());
        let row = |at: [usize; 3]| {
            let of_axis = |axis: usize| {
                let ([couplings, shift, first, second], n) = (terms[axis], shape.extents()[axis]);
                let [a, b] = [[1, 2], [0, 2], [0, 1]][axis];
                let near = |to: usize| {
                    let mut there = at;
                    there[axis] = to;
                    u[shape.number(at)] - u[shape.number(there)]
                };
                let (k, before) = (at[axis], (at[axis] + n - 1) % n);
                let sum = shift[k] * u[shape.number(at)] + couplings[k] * near((k + 1) % n);
                first[at[a]] * second[at[b]] * (sum + couplings[before] * near(before))
            };
            (0..3).map(of_axis).sum()
        };
        shape.places().map(row).collect()
    }

    #[test]
    fn other_lines_are_the_same_matrix() {
        let values =
            |n: usize, seed: f64| -> Vec<f64> { (0..n).map(|i| 1.0 + ((i as f64 + 1.0) * seed).sin().abs()).collect() };
        let open = |mut couplings: Vec<f64>| {
            couplings.pop();
            couplings.push(0.0);
            couplings
        };
        let shape = Shape::new(4, 6, 5);
        for (line, across) in [(2, [0, 1]), (0, [1, 2])] {
            for reaction in [0.0, 0.3, -0.2] {
                let n = |axis: usize| shape.extents()[axis];
                let factors = across.map(|axis| AxisMatrix {
                    mass: values(n(axis), 0.7 + axis as f64),
                    shift: vec![0.0; n(axis)],
                    couplings: if axis == 1 { values(n(1), 3.0) } else { open(values(n(axis), 2.0)) },
                });
                let weights = values(n(line), 1.3);
                let shift = weights.iter().map(|w| reaction * w).collect();
                let couplings = open(values(n(line), 1.9));
                let weights = [weights.clone(), weights.iter().map(|w| 2.5 * w).collect()];
                let lines = Lines { shift, couplings, weights, least_pivot: 0.0 };
                let matrix = Separable { shape, line, across, factors, lines, is_exact: true };
                let turned = matrix.with_lines(1).unwrap();
                assert_eq!((turned.line, turned.across), (1, [0, 2]));
                assert!(turned.factors.iter().all(|axis| axis.shift.iter().all(|&shift| shift == 0.0)));
                assert_eq!((turned.is_singular(), turned.lines.least_pivot > 0.0), (reaction == 0.0, reaction < 0.0));
                let u = values(shape.cells(), 0.1);
                for (found, wanted) in product(&turned, &u).iter().zip(product(&matrix, &u)) {
                    assert!((found - wanted).abs() <= 1e-12 * (1.0 + wanted.abs()), "{found} {wanted}");
                }
                let mut uneven = matrix;
                uneven.lines.weights[0][1] *= 1.1;
                assert!(uneven.with_lines(1).is_none());
            }
        }
    }
}
