//! Diffusion on a grid of half as many cells: coefficients of coarse cells.

use std::sync::Arc;

use super::halving::{End, Halving};
use super::{Axis, Coefficients, Diffusion, Side};
use crate::real::harmonic;
use crate::{Error, Result, Shape};

/// Returns the ends of directions with these sides.
pub fn ends_of(sides: [[Side; 2]; 3]) -> [[End; 2]; 3] {
    sides.map(|sides| {
        sides.map(|side| match side {
            Side::Closed => End::Closed,
            Side::Fixed => End::Fixed,
            Side::Periodic => End::Ring,
        })
    })
}

impl Diffusion {
    /// Returns the ends of each direction.
    pub fn ends(&self) -> [[End; 2]; 3] {
        ends_of(self.sides())
    }

    /// Returns the field and factor of each direction, where coefficients are those of cells.
    pub fn factors(&self) -> Option<[(usize, f64); 3]> {
        match self.coefficients() {
            Coefficients::Cells { axes, .. } | Coefficients::DeviceCells { axes, .. } => Some(*axes),
            Coefficients::Faces(_) | Coefficients::DeviceFaces { .. } => None,
        }
    }

    /// Makes the equation on a coarse grid: coefficients of cells are means by volume, h_c = Σ (d/d_c)² h over the cells of a
    /// coarse one, d their width in the direction of h; s_c = Σ s.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for stored faces, and coefficients on a GPU.
    pub fn halved(&self, by: &Halving) -> Result<Self> {
        let Coefficients::Cells { fields, axes } = self.coefficients() else { return Err(no_cells()) };
        let ones = by.along.each_ref().map(|along| vec![1.0; along.near.len()]);
        let weighted = |field: usize, axis: Axis| {
            let mut weights = ones.clone();
            weights[axis as usize].clone_from(&by.along[axis as usize].share);
            sum_of_parts(&fields[field], by, &weights)
        };
        let (fields, axes) = if by.is_regular {
            let halves =
                by.along.each_ref().map(|along| vec![if along.is_halved { 0.5 } else { 1.0 }; along.near.len()]);
            (fields.iter().map(|field| sum_of_parts(field, by, &halves)).collect(), by.factors(*axes))
        } else {
            let fields = Axis::ALL.map(|axis| weighted(axes[axis as usize].0, axis));
            let separate = Axis::ALL.map(|axis| (axis as usize, axes[axis as usize].1));
            (fields.to_vec(), separate)
        };
        let shift = self.stored_shift().map(|shift| sum_of_parts(shift, by, &ones).to_vec());
        Self::new(by.coarse, Coefficients::Cells { fields, axes }, shift, self.sides())
    }

    /// Makes the equation on a coarse grid by faces: T_c = Σ T d/d_c over the faces between two coarse cells, d and d_c the
    /// distances of the centres on either side; likewise for Dirichlet sides; s_c = Σ s. All cells of this grid have one width.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for stored faces, and coefficients on a GPU.
    pub fn halved_by_faces(&self, by: &Halving) -> Result<Self> {
        let Coefficients::Cells { fields, axes } = self.coefficients() else { return Err(no_cells()) };
        let mut shift = match self.stored_shift() {
            Some(shift) => {
                sum_of_parts(shift, by, &by.along.each_ref().map(|along| vec![1.0; along.near.len()])).to_vec()
            }
            None => vec![0.0; by.coarse.cells()],
        };
        let faces = Axis::ALL.map(|axis| {
            let (field, factor) = axes[axis as usize];
            self.add_sides(axis, by, &mut shift);
            let mut sums = self.faces_between(axis, by, &fields[field]);
            sums.iter_mut().for_each(|sum| *sum *= factor);
            Arc::from(sums)
        });
        Self::new(by.coarse, Coefficients::Faces(faces), Some(shift), self.sides())
    }

    /// Computes Σ T d/d_c between coarse cells along an axis, of a field of h.
    fn faces_between(&self, axis: Axis, by: &Halving, field: &[f64]) -> Vec<f64> {
        let Shape { nx, ny, .. } = by.fine;
        let d = axis as usize;
        let along = &by.along[d];
        // The width of the coarse cell around a cell; the distance of cell centres over that of coarse ones.
        let width = |n: usize| 1.0 / along.share[n].sqrt();
        let closer = |[a, b]: [usize; 2]| 2.0 / (width(a) + width(b));
        let upper = |n: usize| match n + 1 {
            next if next < along.near.len() => Some(next),
            _ => (self.is_periodic(axis) && along.near.len() > 1).then_some(0),
        };
        let last = |n: usize| along.parts(n).end - 1;
        let [x, y, z] = &by.along;
        let mut sums = vec![0.0; by.coarse.cells()];
        for (row, sums) in sums.chunks_mut(by.coarse.nx).enumerate() {
            let [j, k] = [row % by.coarse.ny, row / by.coarse.ny];
            let is_single = by.coarse_extent(axis) == 1;
            let rows = z.parts(k).flat_map(|k| y.parts(j).map(move |j| [j, k]));
            for [j, k] in rows.filter(|_| !is_single) {
                let values = &field[nx * (j + ny * k)..][..nx];
                if axis == Axis::X {
                    for (i, sum) in sums.iter_mut().enumerate() {
                        let lower = last(i);
                        let Some(upper) = upper(lower) else { continue };
                        *sum += closer([lower, upper]) * harmonic(values[lower], values[upper]);
                    }
                    continue;
                }
                let here = if axis == Axis::Y { j } else { k };
                let Some(there) = upper(here).filter(|_| here == last(along.part_of(here))) else { continue };
                let [j, k] = if axis == Axis::Y { [there, k] } else { [j, there] };
                let others = &field[nx * (j + ny * k)..][..nx];
                let closer = closer([here, there]);
                let step = if x.is_halved { 2 } else { 1 };
                for ((sum, values), others) in sums.iter_mut().zip(values.chunks(step)).zip(others.chunks(step)) {
                    *sum += closer * values.iter().zip(others).map(|(&a, &b)| harmonic(a, b)).sum::<f64>();
                }
            }
        }
        sums
    }

    /// Adds the contribution of Dirichlet sides to the shift of coarse cells.
    fn add_sides(&self, axis: Axis, by: &Halving, shift: &mut [f64]) {
        let d = axis as usize;
        let share = &by.along[d].share;
        for (side, at_end) in self.sides()[d].into_iter().zip([0, share.len() - 1]) {
            if side != Side::Fixed {
                continue;
            }
            let closer = share[at_end].sqrt();
            let mut ranges = by.fine.extents().map(|n| 0..n);
            ranges[d] = at_end..at_end + 1;
            let [x, y, z] = ranges;
            for (j, k) in z.flat_map(|k| y.clone().map(move |j| (j, k))) {
                let row = by.coarse.nx * (by.along[1].part_of(j) + by.coarse.ny * by.along[2].part_of(k));
                for i in x.clone() {
                    shift[row + by.along[0].part_of(i)] += closer * self.half(axis, [i, j, k]);
                }
            }
        }
    }

    /// Returns [`Diffusion::halved`] without the coefficients, for a back end that computes them on its device.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for stored faces.
    pub fn halved_form(&self, by: &Halving) -> Result<Self> {
        let axes = self.factors().ok_or_else(no_cells)?;
        let axes = if by.is_regular { by.factors(axes) } else { [0, 1, 2].map(|d: usize| (d, axes[d].1)) };
        Ok(self.without_coefficients(by.coarse, axes))
    }
}

impl Halving {
    fn coarse_extent(&self, axis: Axis) -> usize {
        self.coarse.extents()[axis as usize]
    }

    /// Returns the ratio of h to the mean coefficient of a coarse cell, given that of a fine one, where all cells are equal.
    pub fn factors(&self, axes: [(usize, f64); 3]) -> [(usize, f64); 3] {
        let halved = self.halved();
        let cells: f64 = halved.iter().map(|&is_halved| if is_halved { 2.0 } else { 1.0 }).product();
        let mut coarse = axes;
        for ((_, factor), is_halved) in coarse.iter_mut().zip(halved) {
            *factor *= cells * if is_halved { 0.25 } else { 1.0 };
        }
        coarse
    }
}

fn no_cells() -> Error {
    Error::Unsupported(
        "solver.multigrid.smoother: relaxation of points, \"point-red-black\" or \"point-line\", needs coefficients of cells, and here \
         conductances of faces are given; use \"line-red-black\""
            .into(),
    )
}

/// Returns Σ w_x w_y w_z of the cells of each coarse one.
fn sum_of_parts(values: &[f64], by: &Halving, weights: &[Vec<f64>; 3]) -> Arc<[f64]> {
    let Shape { nx, ny, .. } = by.fine;
    let mut sums = vec![0.0; by.coarse.cells()];
    for (row, sums) in sums.chunks_mut(by.coarse.nx).enumerate() {
        let (j, k) = (row % by.coarse.ny, row / by.coarse.ny);
        for (j, k) in by.along[2].parts(k).flat_map(|k| by.along[1].parts(j).map(move |j| (j, k))) {
            let weight = weights[1][j] * weights[2][k];
            let values = &values[nx * (j + ny * k)..][..nx];
            if by.along[0].is_halved {
                let parts = values.chunks(2).zip(weights[0].chunks(2));
                for (sum, (values, weights)) in sums.iter_mut().zip(parts) {
                    *sum += weight * values.iter().zip(weights).map(|(value, weight)| weight * value).sum::<f64>();
                }
            } else {
                sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += weight * value);
            }
        }
    }
    Arc::from(sums)
}

#[cfg(test)]
mod tests {
    use super::super::halving::halvings;
    use super::*;

    fn constant(shape: Shape, factors: [f64; 3]) -> Diffusion {
        Diffusion::of_field(shape, vec![2.0; shape.cells()], factors, None, [[Side::Fixed; 2]; 3]).unwrap()
    }

    /// Checks that constant κ gives the coarse couplings of the wider cells, 2κA/d.
    #[test]
    fn constant_coefficients_stay_constant() {
        let widths = [0.5, 1.0, 0.7];
        let factors = |[x, y, z]: [f64; 3]| [2.0 * y * z / x, 2.0 * x * z / y, 2.0 * x * y / z];
        for (nx, ny, nz) in [(8, 4, 4), (9, 7, 6), (5, 1, 3)] {
            let shape = Shape::new(nx, ny, nz);
            let fine = constant(shape, factors(widths));
            let by = &halvings(shape, fine.ends(), [1.0; 3], Some(2))[0];
            let coarse = fine.halved(by).unwrap();
            for at in coarse.cells() {
                let own: [f64; 3] = [0, 1, 2].map(|d: usize| widths[d] * by.along[d].parts(at[d]).len() as f64);
                for axis in Axis::ALL {
                    let expected = 2.0 * factors(own)[axis as usize];
                    let found = coarse.half(axis, at);
                    assert!((found - expected).abs() < 1e-12 * expected, "{shape} {at:?} {axis:?}: {found} {expected}");
                }
            }
        }
    }

    /// Checks that constant κ gives the coarse faces of the wider cells, at sides too, and that the shift keeps its sum.
    #[test]
    fn faces_of_constant_coefficients_stay_constant() {
        let sides = [[Side::Fixed; 2], [Side::Fixed, Side::Closed], [Side::Periodic; 2]];
        for (shape, factors) in [
            (Shape::new(8, 6, 4), [1.0; 3]),
            (Shape::new(9, 7, 2), [1.0, 1.5, 0.9]),
            (Shape::new(5, 1, 8), [1.0, 1.0, 9.0]),
        ] {
            let [field, shift] = [2.0, 0.5].map(|value| vec![value; shape.cells()]);
            let fine = Diffusion::of_field(shape, field, factors, Some(shift), sides).unwrap();
            let by = &halvings(shape, fine.ends(), fine.strengths(), Some(2))[0];
            let (by_cells, by_faces) = (fine.halved(by).unwrap(), fine.halved_by_faces(by).unwrap());
            for at in by_cells.cells() {
                let close = |a: f64, b: f64| (a - b).abs() < 1e-12 * (1.0 + b.abs());
                for axis in Axis::ALL {
                    let (found, expected) = (by_faces.face(axis, at), by_cells.face(axis, at));
                    assert!(close(found, expected), "{shape} {at:?} {axis:?}: {found} {expected}");
                }
                assert!(close(by_faces.shift(at), by_cells.shift(at)), "{shape} {at:?}");
            }
        }
    }

    /// Checks that the fine faces between two coarse cells add up, whatever lies inside.
    #[test]
    fn faces_add_up() {
        let shape = Shape::new(4, 2, 2);
        let field: Vec<f64> = (0..16).map(|n| 1.0 + ((7 * n) % 5) as f64).collect();
        let fine =
            Diffusion::of_field(shape, field, [3.0; 3], None, [[Side::Fixed; 2], [Side::Closed; 2], [Side::Closed; 2]])
                .unwrap();
        let coarse = fine.halved_by_faces(&halvings(shape, fine.ends(), [1.0; 3], Some(2))[0]).unwrap();
        let places = [[0, 0], [1, 0], [0, 1], [1, 1]];
        let faces: f64 = places.iter().map(|&[j, k]| fine.face(Axis::X, [1, j, k])).sum();
        let side: f64 = places.iter().map(|&[j, k]| fine.half(Axis::X, [3, j, k])).sum();
        assert!((coarse.face(Axis::X, [0, 0, 0]) - 0.5 * faces).abs() < 1e-12);
        assert!((coarse.shift([1, 0, 0]) - 0.5 * side).abs() < 1e-12);
    }
}
