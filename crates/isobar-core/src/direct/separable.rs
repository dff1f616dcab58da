//! The factors of a separable matrix.

use super::axis::AxisMatrix;
use super::basis::{Basis, Trig};
use super::lines::Lines;
use crate::policy::direct::pays;
use crate::{Result, Shape};

/// The factors of a separable matrix on a box: T, D_a and D_b of the axis along which lines are solved, K and M of the other two.
#[derive(Clone, Debug, PartialEq)]
pub struct Separable {
    /// The grid.
    pub shape: Shape,
    /// The axis of the lines: 0, 1 or 2 for x, y or z.
    pub line: usize,
    /// The other axes, in the order of x, y and z.
    pub across: [usize; 2],
    /// The matrices of the two other axes.
    pub factors: [AxisMatrix; 2],
    /// The tridiagonal systems of T, D_a and D_b.
    pub lines: Lines,
    /// Whether the matrix has these products up to the last digits, so that residuals of either are the other's.
    pub is_exact: bool,
}

impl Separable {
    /// Returns whether its eigenvectors are computed in less time than iterating would take.
    pub fn pays(&self) -> bool {
        self.pays_where_longer(1.0)
    }

    /// Returns [`Separable::pays`] for a matrix on which iterating takes `longer` times as long as usual.
    pub(crate) fn pays_where_longer(&self, longer: f64) -> bool {
        pays(self.stretched(), self.shape.cells(), longer)
    }

    /// Returns the numbers of eigenvectors of axes without a fast transform.
    pub(crate) fn stretched(&self) -> impl Iterator<Item = usize> + Clone {
        self.factors.iter().filter(|factor| !Basis::is_fast(factor)).map(AxisMatrix::len)
    }

    /// Returns whether only tridiagonal systems differ, as with a time step, a reaction or layers: both have the same transforms, and both or
    /// neither are singular.
    pub fn has_transforms_of(&self, other: &Self) -> bool {
        (self.line, &self.factors, self.is_singular()) == (other.line, &other.factors, other.is_singular())
    }

    /// Returns whether the constant is in the null space: no cell has a shift.
    pub fn is_singular(&self) -> bool {
        let is_zero = |values: &[f64]| values.iter().all(|&value| value == 0.0);
        is_zero(&self.lines.shift) && self.factors.iter().all(|factor| is_zero(&factor.shift))
    }

    /// Returns whether it is singular and cells of different masses make modes other than the constant have sums.
    pub fn has_uneven_sums(&self) -> bool {
        let is_even = |mass: &[f64]| mass.iter().all(|m| (m - mass[0]).abs() <= 1e-13 * mass[0]);
        self.is_singular() && !self.factors.iter().all(|axis| is_even(&axis.mass))
    }

    /// Computes the eigenvectors of both transformed axes.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) if an eigenproblem cannot be solved or the matrix has a negative pivot.
    pub fn bases(&self) -> Result<[Basis; 2]> {
        let [a, b] = &self.factors;
        let bases = [Basis::new(a)?, Basis::new(b)?];
        self.check(bases.each_ref().map(Basis::values))?;
        Ok(bases)
    }

    /// Fails if the matrix is not positive definite (up to a constant) though no shift is negative, or where it has a zero eigenvalue.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) naming the pivot.
    pub fn check(&self, eigenvalues: [&[f64]; 2]) -> Result<()> {
        if self.lines.least_pivot > 0.0 {
            return self.lines.check_indefinite(eigenvalues);
        }
        let least = eigenvalues.map(|values| values.iter().copied().fold(f64::INFINITY, f64::min));
        self.lines.check(least, self.is_singular())
    }

    /// Describes how each axis is treated; `by` names the multiplication by eigenvectors without a fast transform.
    pub fn describe(&self, bases: &[Basis; 2], by: impl Fn(&Basis) -> &'static str) -> String {
        let name = |axis: usize| ["x", "y", "z"][axis];
        let across = self.across.iter().zip(bases).filter(|(_, basis)| basis.len() > 1).map(|(&axis, basis)| {
            let how = basis.trig().map_or_else(|| by(basis), Trig::name);
            format!("{how} along {}", name(axis))
        });
        let lines = (self.lines.len() > 1).then(|| format!("tridiagonal systems along {}", name(self.line)));
        format!("direct: {}", across.chain(lines).collect::<Vec<_>>().join(", "))
    }

    /// Returns the factors of a box of this shape, which this one holds several times along periodic axes.
    pub(crate) fn once(self, shape: Shape) -> Self {
        if shape == self.shape {
            return self;
        }
        let Self { line, across, factors, mut lines, is_exact, .. } = self;
        let [n, a, b] = [line, across[0], across[1]].map(|axis| shape.extents()[axis]);
        let [mut first, mut second] = factors;
        for (factor, n) in [(&mut first, a), (&mut second, b)] {
            [&mut factor.mass, &mut factor.shift, &mut factor.couplings]
                .into_iter()
                .for_each(|values| values.truncate(n));
        }
        let Lines { shift, couplings, weights: [weight, other], .. } = &mut lines;
        [shift, couplings, weight, other].into_iter().for_each(|values| values.truncate(n));
        Self { shape, line, across, factors: [first, second], lines, is_exact }
    }

    /// Returns what a cell couples by along x, y and z: couplings and shifts by its number on the axis, and the weights by those on the
    /// two other axes, in their order.
    ///
    /// ```text
    /// (A u)_ijk = Σ_axis w_first w_second (σ u + Σ t (u − u_neighbour))
    /// ```
    pub fn terms(&self) -> [[&[f64]; 4]; 3] {
        let Self { across, factors, lines, .. } = self;
        let which = |axis: usize| across.iter().position(|&other| other == axis);
        [0, 1, 2].map(|axis| {
            let own: [&[f64]; 2] = match which(axis) {
                Some(which) => [&factors[which].couplings, &factors[which].shift],
                None => [&lines.couplings, &lines.shift],
            };
            // Along the lines the axes' masses weigh; across them D of the line, and the mass of the axis that remains.
            let weight = |other: usize| -> &[f64] {
                match which(other) {
                    Some(other) => &factors[other].mass,
                    None => &lines.weights[which(axis).unwrap_or_default()],
                }
            };
            let [first, second] = [[1, 2], [0, 2], [0, 1]][axis].map(weight);
            [own[0], own[1], first, second]
        })
    }

    /// Returns the number of cells of an axis.
    pub fn extent(&self, axis: usize) -> usize {
        self.shape.extents()[axis]
    }

    /// Returns the distance in an array of shape (nz, ny, nx), C order, between neighbours along an axis.
    pub fn stride(&self, axis: usize) -> usize {
        [1, self.shape.nx, self.shape.nx * self.shape.ny][axis]
    }
}
