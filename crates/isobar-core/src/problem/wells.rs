//! Sources and wells.

use std::f64::consts::PI;

use super::DiffusionProblem;
use crate::error::{Error, Result};
use crate::stencil::Axis;

/// A source of given strength in a vertical range of cells.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Source {
    /// Column in x.
    pub i: usize,
    /// Column in y.
    pub j: usize,
    /// First and last layer.
    pub k: [usize; 2],
    /// Total strength, spread over the active cells of the range in proportion to κ_h times their height; negative for a sink.
    pub rate: f64,
}

/// A well that holds u at a given value, in a vertical range of cells.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Well {
    /// Column in x.
    pub i: usize,
    /// Column in y.
    pub j: usize,
    /// First and last layer.
    pub k: [usize; 2],
    /// The value of u in the well.
    pub value: f64,
    /// Its radius.
    pub radius: f64,
}

impl DiffusionProblem {
    /// Checks the places and the numbers of sources and wells.
    pub(super) fn check_places(&self) -> Result<()> {
        for (n, source) in self.sources.iter().enumerate() {
            let key = "diffusion.sources";
            self.check_place(key, n, [source.i, source.j], source.k)?;
            if !source.rate.is_finite() {
                let Source { i, j, rate, .. } = source;
                return Err(Error::invalid(
                    key,
                    format!("entry {n} at ({i}, {j}) has the rate {rate}; use a finite number"),
                ));
            }
        }
        for (n, well) in self.wells.iter().enumerate() {
            let key = "diffusion.wells";
            self.check_place(key, n, [well.i, well.j], well.k)?;
            if !(well.radius > 0.0 && well.value.is_finite()) {
                let Well { i, j, value, radius, .. } = well;
                return Err(Error::invalid(
                    key,
                    format!(
                        "entry {n} at ({i}, {j}) has the radius {radius} and the value {value}; use a positive radius and a finite value"
                    ),
                ));
            }
        }
        Ok(())
    }

    fn check_place(&self, key: &str, n: usize, [i, j]: [usize; 2], [first, last]: [usize; 2]) -> Result<()> {
        if i < self.shape.nx && j < self.shape.ny && first <= last && last < self.shape.nz {
            return Ok(());
        }
        let where_to = format!("the grid of {} cells, counted from 0", self.shape);
        Err(Error::invalid(key, format!("entry {n} lies at ({i}, {j}), layers {first} to {last}, outside {where_to}")))
    }

    /// Fails if a source or a well lies in inactive cells only, or a well is wider than its first cell. `kappa` returns κ of x and of y in a column
    /// (i, j) from a first to a last layer, 0 in inactive cells.
    ///
    /// # Errors
    /// [`Error::Invalid`] for them, with the key and the place; the errors of `kappa`.
    pub fn check_points(&self, kappa: impl Fn([usize; 2], [usize; 2]) -> Result<[Vec<f64>; 2]>) -> Result<()> {
        let sources = self.sources.iter().map(|at| ("diffusion.sources", [at.i, at.j], at.k, 0.0)).enumerate();
        let wells = self.wells.iter().map(|at| ("diffusion.wells", [at.i, at.j], at.k, at.radius)).enumerate();
        for (n, (key, [i, j], [first, last], radius)) in sources.chain(wells) {
            let [x, y] = kappa([i, j], [first, last])?;
            if !x.iter().any(|&x| x > 0.0) {
                return Err(inactive(key, n, [i, j], [first, last]));
            }
            let reach = self.radius_for([i, j, first], y[0] / x[0]);
            if radius >= reach {
                return Err(Error::invalid(
                    key,
                    format!(
                        "entry {n} at ({i}, {j}) has the radius {radius}, but its cell only reaches {reach:.3e}; use a smaller one"
                    ),
                ));
            }
        }
        Ok(())
    }

    /// Returns κ in a column from a first to a last layer, 0 outside the mask.
    pub(super) fn open_column(&self, axis: Axis, [i, j]: [usize; 2], [first, last]: [usize; 2]) -> Vec<f64> {
        let cells = (first..=last).map(|k| self.cell([i, j, k]));
        cells.map(|n| if self.is_open(n) { self.coefficient.along(axis)[n] } else { 0.0 }).collect()
    }

    /// Returns the active cells of a vertical range.
    pub(super) fn completed(
        &self,
        key: &str,
        n: usize,
        [i, j]: [usize; 2],
        [first, last]: [usize; 2],
    ) -> Result<Vec<[usize; 3]>> {
        self.check_place(key, n, [i, j], [first, last])?;
        let cells: Vec<[usize; 3]> = (first..=last)
            .map(|k| [i, j, k])
            .filter(|&at| self.is_active(at) && self.half(Axis::X, at) > 0.0)
            .collect();
        if cells.is_empty() { Err(inactive(key, n, [i, j], [first, last])) } else { Ok(cells) }
    }

    /// Returns the active cells of a source with their weights, κ_h times their height, and the sum of these.
    pub(super) fn weighted_cells(&self, source: &Source) -> Result<(Vec<([usize; 3], f64)>, f64)> {
        let cells = self.completed("diffusion.sources", 0, [source.i, source.j], source.k)?;
        let weight = |at: [usize; 3]| self.coefficient.along(Axis::X)[self.cell(at)] * self.widths(at)[2];
        let cells: Vec<_> = cells.into_iter().map(|at| (at, weight(at))).collect();
        let total = cells.iter().map(|(_, weight)| weight).sum();
        Ok((cells, total))
    }

    /// Returns the distance at which the pressure of a well's cell holds (Peaceman, 1983), for κ_x ≠ κ_y too.
    pub(super) fn equivalent_radius(&self, at: [usize; 3]) -> f64 {
        let n = self.cell(at);
        self.radius_for(at, self.coefficient.along(Axis::Y)[n] / self.coefficient.along(Axis::X)[n])
    }

    /// Returns that distance for κ_y/κ_x.
    fn radius_for(&self, at: [usize; 3], ratio: f64) -> f64 {
        let ratio = ratio.sqrt();
        let ratio = if ratio.is_finite() && ratio > 0.0 { ratio } else { 1.0 };
        let [dx, dy, _] = self.widths(at);
        0.28 * (ratio * dx * dx + dy * dy / ratio).sqrt() / (ratio.sqrt() + ratio.sqrt().recip())
    }

    /// Returns the ties of the wells: the number of a cell, the well index and the value of the well. What flows into a well from a cell is the index times the
    /// difference of u and that value.
    pub fn well_ties(&self) -> Vec<(usize, f64, f64)> {
        let of_well = |well: &Well| {
            let cells = self.completed("diffusion.wells", 0, [well.i, well.j], well.k).unwrap_or_default();
            cells.into_iter().map(|at| (self.cell(at), self.well_index(well, at), well.value)).collect::<Vec<_>>()
        };
        self.wells.iter().flat_map(of_well).collect()
    }

    /// Returns the well index of a cell, 2π √(κ_x κ_y) d_z / ln(r_e / r).
    pub(super) fn well_index(&self, well: &Well, at: [usize; 3]) -> f64 {
        let n = self.cell(at);
        let kappa = (self.coefficient.along(Axis::X)[n] * self.coefficient.along(Axis::Y)[n]).sqrt();
        2.0 * PI * kappa * self.widths(at)[2] / (self.equivalent_radius(at) / well.radius).ln()
    }
}

fn inactive(key: &str, n: usize, [i, j]: [usize; 2], [first, last]: [usize; 2]) -> Error {
    let message = format!("entry {n} at ({i}, {j}), layers {first} to {last}, lies in inactive cells only; move it");
    Error::invalid(key, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Shape;
    use crate::problem::Coefficient;

    fn problem(sources: Vec<Source>, wells: Vec<Well>) -> DiffusionProblem {
        let none = DiffusionProblem::new(Shape::new(4, 3, 2), Coefficient::Isotropic(Vec::new()));
        DiffusionProblem { sources, wells, ..none }
    }

    fn says<R>(found: Result<R>, words: &str) {
        let message = found.err().map(|error| error.to_string());
        assert!(message.as_ref().is_some_and(|message| message.contains(words)), "{message:?}, {words}");
    }

    #[test]
    fn sources_and_wells_are_checked_without_coefficients_and_with_those_of_their_columns() {
        let source = Source { i: 3, j: 2, k: [0, 1], rate: 1.0 };
        let well = Well { i: 1, j: 0, k: [1, 1], value: 2.0, radius: 1e-3 };
        let both = problem(vec![source], vec![well]);
        both.check_form().unwrap();
        says(problem(vec![Source { i: 4, ..source }], vec![]).check_form(), "outside the grid");
        says(problem(vec![Source { rate: f64::NAN, ..source }], vec![]).check_form(), "diffusion.sources");
        says(problem(vec![], vec![Well { radius: 0.0, ..well }]).check_form(), "positive radius");
        // κ by the column, and by its first layer.
        let of =
            |x: f64, y: f64| move |_, [first, last]: [usize; 2]| Ok([x, y].map(|kappa| vec![kappa; last - first + 1]));
        both.check_points(of(1.0, 2.0)).unwrap();
        says(both.check_points(of(0.0, 0.0)), "inactive cells only");
        says(both.check_points(|_, _| Err(Error::invalid("kappa", "lost"))), "lost");
        // The cell of a well reaches further if κ of one direction is much smaller.
        let wide = problem(vec![], vec![Well { radius: 0.065, ..well }]);
        wide.check_points(of(1.0, 1e-40)).unwrap();
        says(wide.check_points(of(1.0, 1.0)), "only reaches");
    }
}
