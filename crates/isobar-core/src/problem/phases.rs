//! The phases of a sample, such as the pores and minerals of a rock.

use crate::execute::{map_pieces, rows, shared};
use crate::stencil::{Axis, Coefficients, Diffusion, Side, Spread, check_length, connected};
use crate::{AggregateMap, Error, Execute, Host, Result, Shape};

/// A `Phases` is an image of a sample with one byte for each cell, the number of its phase, and κ of each phase. It takes an eighth of the
/// memory of κ in every cell.
#[derive(Clone, Debug, PartialEq)]
pub struct Phases {
    shape: Shape,
    /// The phase of each cell, C order.
    numbers: Vec<u8>,
    kappa: Vec<f64>,
    /// The number of cells of each phase.
    cells: Vec<usize>,
}

impl Phases {
    /// The largest number of phases.
    pub const MOST: usize = 256;

    /// Takes the number of the phase of each cell, in C order, and κ of each phase, 0 for closed cells.
    ///
    /// # Errors
    /// [`Error::Shape`] for another number of cells; [`Error::Invalid`] for a κ that is negative or not finite, for more than
    /// [`Phases::MOST`] phases, and for a cell of a phase without κ.
    pub fn new(shape: Shape, numbers: Vec<u8>, kappa: Vec<f64>) -> Result<Self> {
        check_length("the image", shape, numbers.len())?;
        let wrong = |message: String| Err(Error::invalid("diffusion.coefficient", message));
        if kappa.len() > Self::MOST {
            return wrong(format!("{} phases; use at most {}", kappa.len(), Self::MOST));
        }
        if let Some((phase, kappa)) = kappa.iter().enumerate().find(|(_, kappa)| !(**kappa >= 0.0 && kappa.is_finite()))
        {
            return wrong(format!("{kappa} for phase {phase}; it must be finite and not negative (0 closes cells)"));
        }
        let mut cells = counted(&numbers);
        if let Some(phase) = cells.iter().rposition(|&count| count > 0).filter(|&phase| phase >= kappa.len()) {
            return wrong(format!("{} cells of phase {phase}, and {} phases, from 0", cells[phase], kappa.len()));
        }
        cells.truncate(kappa.len());
        Ok(Self { shape, numbers, kappa, cells })
    }

    /// Returns the shape of the grid.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Returns the number of the phase of each cell, C order.
    pub fn numbers(&self) -> &[u8] {
        &self.numbers
    }

    /// Returns κ of each phase.
    pub fn kappa(&self) -> &[f64] {
        &self.kappa
    }

    /// Returns κ of cell n in the order of arrays.
    pub fn of_cell(&self, n: usize) -> f64 {
        self.kappa[usize::from(self.numbers[n])]
    }

    /// Returns κ of each cell, C order.
    pub fn coefficients(&self) -> Vec<f64> {
        rows(&Host, self.numbers.len(), self.shape.nx, |row, values| self.write_row(row, values))
    }

    /// Returns Σ `of`(κ) over all cells.
    pub fn sum(&self, of: impl Fn(f64) -> f64) -> f64 {
        let present = self.cells.iter().zip(&self.kappa).filter(|(cells, _)| **cells > 0);
        present.map(|(&cells, &kappa)| cells as f64 * of(kappa)).sum()
    }

    /// Returns the spread of κ of all cells.
    pub fn spread(&self) -> Spread {
        let present = self.cells.iter().zip(&self.kappa).filter(|(cells, _)| **cells > 0);
        present.fold(Spread::NONE, |all, (_, &kappa)| all.and(Spread::of_one(kappa)))
    }

    /// Finds the connected components of open cells, κ > 0, numbered in the order of their first cells.
    pub fn components(&self, execute: &impl Execute) -> AggregateMap {
        if !self.spread().has_zeros() {
            return AggregateMap::whole(self.shape);
        }
        let mut is_open = [false; Self::MOST];
        self.kappa.iter().zip(&mut is_open).for_each(|(kappa, is_open)| *is_open = *kappa > 0.0);
        let Shape { nx, ny, nz } = self.shape;
        let cells = |row: usize, open: &mut [bool]| {
            let numbers = &self.numbers[row * nx..];
            open.iter_mut().zip(numbers).for_each(|(open, &number)| *open = is_open[usize::from(number)]);
        };
        // Sides are closed; faces of closed cells do not matter.
        let faces = |axis: Axis, row: usize, open: &mut [u8]| match axis {
            Axis::X => {
                open.fill(1);
                open[nx - 1] = 0;
            }
            Axis::Y => open.fill(u8::from(row % ny + 1 < ny)),
            Axis::Z => open.fill(u8::from(row / ny + 1 < nz)),
        };
        connected(execute, self.shape, cells, faces)
    }

    /// Closes the cells of all but some of the connected components, which are those of [`Phases::components`].
    #[must_use]
    pub fn restricted(&self, components: &AggregateMap, kept: &[bool], execute: &impl Execute) -> Self {
        let closed = self.kappa.iter().position(|kappa| *kappa <= 0.0);
        // Only closed cells separate components.
        let (Some(closed), Some((runs, ids))) = (closed, components.runs()) else { return self.clone() };
        let nx = self.shape.nx;
        let numbers = rows(execute, self.numbers.len(), nx, |row, numbers| {
            numbers.copy_from_slice(&self.numbers[row * nx..][..nx]);
            runs.for_each_of_row(row, |run, cells| {
                if !kept[ids[run] as usize] {
                    numbers[cells].fill(closed as u8);
                }
            });
        });
        let mut cells = counted(&numbers);
        cells.truncate(self.kappa.len());
        Self { shape: self.shape, numbers, kappa: self.kappa.clone(), cells }
    }

    /// Makes the matrix of κ with closed sides; h is a factor for each direction times κ.
    ///
    /// # Errors
    /// See [`Diffusion::new`].
    pub fn matrix(&self, factors: [f64; 3], execute: &impl Execute) -> Result<Diffusion> {
        let field = shared(execute, self.numbers.len(), self.shape.nx, |row, values| self.write_row(row, values));
        let cells = Coefficients::Cells { fields: vec![field], axes: factors.map(|factor| (0, factor)) };
        Diffusion::of_known(self.shape, cells, Some(vec![self.spread()]), None, [[Side::Closed; 2]; 3])
    }

    /// Sets κ of the cells of row j + ny k.
    fn write_row(&self, row: usize, values: &mut [f64]) {
        let numbers = &self.numbers[row * self.shape.nx..];
        values.iter_mut().zip(numbers).for_each(|(value, &number)| *value = self.kappa[usize::from(number)]);
    }
}

/// Counts the cells of each number.
fn counted(numbers: &[u8]) -> Vec<usize> {
    let of_piece = |_, piece: &[u8]| {
        // Several counters of each number, so that equal neighbours do not wait for each other.
        let mut counts = [[0u32; Phases::MOST]; 4];
        let (fours, rest) = piece.as_chunks::<4>();
        for four in fours {
            counts.iter_mut().zip(four).for_each(|(counts, &number)| counts[usize::from(number)] += 1);
        }
        rest.iter().for_each(|&number| counts[0][usize::from(number)] += 1);
        counts
    };
    let pieces = map_pieces(&Host, numbers, of_piece);
    let count = |number: usize| pieces.iter().flatten().map(|counts| counts[number] as usize).sum();
    (0..Phases::MOST).map(count).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::execute::Serial;
    use crate::problem::{LabelTable, random};

    /// Makes random phases, of which the first and the last are closed.
    fn sample(shape: Shape, seed: u64, open: f64) -> Phases {
        let of_cell = |n: usize| {
            let number = 0.5 * (random(seed, n) + 1.0);
            if number < open { 1 + (number < 0.5 * open) as u8 } else { 3 * (n % 2) as u8 }
        };
        Phases::new(shape, (0..shape.cells()).map(of_cell).collect(), vec![0.0, 2.0, 0.5, 0.0]).unwrap()
    }

    fn samples() -> impl Iterator<Item = Phases> {
        let shapes = [[7, 5, 6], [1, 9, 4], [130, 1, 1], [12, 70, 1], [3, 2, 90], [1, 1, 1]];
        let shapes = shapes.into_iter().map(|[nx, ny, nz]| Shape::new(nx, ny, nz));
        shapes.enumerate().flat_map(|(n, shape)| [0.0, 0.3, 0.6, 0.9, 1.1].map(|open| sample(shape, n as u64, open)))
    }

    #[test]
    fn components_and_parts_are_those_of_the_matrix() {
        let factors = [2.0, 3.0, 0.5];
        for phases in samples() {
            let matrix = phases.matrix(factors, &Serial).unwrap();
            let field = phases.coefficients();
            assert_eq!(
                matrix,
                Diffusion::of_field(phases.shape, field.clone(), factors, None, [[Side::Closed; 2]; 3]).unwrap()
            );
            let found = phases.components(&Host);
            let expected = matrix.components(&Serial).map_or_else(|| AggregateMap::whole(phases.shape), |all| all.all);
            let by_cell: Vec<_> = (0..phases.shape.cells()).map(|n| found.aggregate(n)).collect();
            let sizes = found.sizes();
            assert_eq!((found.count(), found.has_all_cells()), (expected.count(), expected.has_all_cells()));
            assert_eq!((sizes, found.cells()), (expected.sizes(), expected.cells()));
            assert_eq!(found, expected, "{}", phases.shape);
            assert!((0..phases.shape.cells()).all(|n| by_cell[n] == expected.aggregate(n)));
            assert!((0..phases.shape.cells()).all(|n| phases.of_cell(n) == field[n]));
            assert_eq!(phases.sum(|kappa| f64::from(u8::from(kappa > 0.0))), expected.cells() as f64);
            if expected.cells() == 0 {
                continue;
            }
            let kept: Vec<bool> = (0..found.count()).map(|component| component % 3 == 0).collect();
            let part = phases.restricted(&phases.components(&Host), &kept, &Host).matrix(factors, &Serial).unwrap();
            let expected = matrix.restricted(&expected, &kept, &Serial);
            assert_eq!((part.coefficients(), part.spreads()), (expected.coefficients(), expected.spreads()));
            let known = part.with_components(&phases.components(&Serial).of_kept(&kept, &Serial));
            assert_eq!(known.components(&Serial), expected.components(&Serial));
        }
    }

    #[test]
    fn labels_have_few_coefficients() {
        let shape = Shape::new(3, 2, 1);
        let table = LabelTable::new(BTreeMap::from([(0, 0.0), (7, 1.5), (1 << 40, 1.5), (9, 3.0)]), None).unwrap();
        let labels = [0i64, 7, 1 << 40, 9, 7, 0];
        let phases = table.phases(shape, &labels).unwrap().unwrap();
        assert_eq!(phases.kappa().len(), 3);
        assert_eq!(phases.coefficients(), table.coefficients(shape, &labels).unwrap());
        let open = LabelTable::new(BTreeMap::from([(1, 2.0), (5, 2.0)]), Some(0.0)).unwrap();
        let labels = [0u8, 1, 2, 3, 5, 255];
        assert_eq!(open.phases(shape, &labels).unwrap().unwrap().coefficients(), [0.0, 2.0, 0.0, 0.0, 2.0, 0.0]);
        let [found, expected] = [table.phases(shape, &labels).map(drop), table.coefficients(shape, &labels).map(drop)];
        assert_eq!(found.unwrap_err().to_string(), expected.unwrap_err().to_string());
        let many = LabelTable::new((0..300).map(|label| (label, label as f64)).collect(), None).unwrap();
        assert_eq!(many.phases(shape, &labels).unwrap(), None);
    }

    #[test]
    fn wrong_phases_are_refused() {
        let shape = Shape::new(2, 2, 1);
        let refused = |numbers: &[u8], kappa: &[f64], why: &str| {
            let message = Phases::new(shape, numbers.to_vec(), kappa.to_vec()).unwrap_err().to_string();
            assert!(message.contains(why), "{message}");
        };
        refused(&[0; 3], &[1.0], "3 cells, but 4 = 2×2×1");
        refused(&[0, 1, 2, 2], &[1.0, 0.0], "2 cells of phase 2, and 2 phases");
        refused(&[0; 4], &[1.0, f64::NAN], "NaN for phase 1");
        refused(&[0; 4], &[-1.0], "-1 for phase 0");
        refused(&[0; 4], &[1.0; 257], "257 phases; use at most 256");
    }
}
