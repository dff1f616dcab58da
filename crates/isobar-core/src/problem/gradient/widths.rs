//! Derivatives by the widths of cells.

use std::f64::consts::PI;

use super::Pair;
use crate::error::{Error, Result};
use crate::problem::{Boundary, DiffusionProblem};
use crate::stencil::Axis;

impl DiffusionProblem {
    /// Computes the derivatives of a number J(u) by the width of each layer of cells along an axis, from u and λ of [`DiffusionProblem::gradient`].
    /// Their sum is the derivative by a width common to all cells.
    ///
    /// With `moves_rhs`, b is that of [`DiffusionProblem::rhs_from`] with the source density `body` (0 if absent) times volumes. κ, c, f and the
    /// values on sides of every cell stay fixed while widths change.
    ///
    /// # Errors
    /// See [`DiffusionProblem::gradient`]; for `body` too.
    pub fn width_gradient(
        &self,
        u: &[f64],
        adjoint: &[f64],
        axis: Axis,
        body: Option<&[f64]>,
        moves_rhs: bool,
    ) -> Result<Vec<f64>> {
        let pair = Pair::new(self.shape, u, adjoint, moves_rhs)?;
        let (cells, d) = (self.shape.cells(), axis as usize);
        if let Some(body) = body {
            Error::unless_equal("the source density", body.len(), cells)?;
        }
        let body = body.filter(|_| moves_rhs);
        let mut found = vec![0.0; self.shape.extents()[d]];
        // Conductances across the axis are proportional to 1/Δ, those across the others, volumes and areas to Δ.
        let mut values = vec![0.0; self.shape.nx];
        for row in 0..cells / self.shape.nx {
            let first = row * self.shape.nx;
            let mut along_row = vec![0.0; self.shape.nx];
            for other in Axis::ALL {
                values.fill(0.0);
                self.add_row(other, row, &mut values, pair);
                let sign = if other == axis { -1.0 } else { 1.0 };
                let kappa = &self.coefficient.along(other)[first..];
                along_row.iter_mut().zip(&values).zip(kappa).for_each(|((sum, by), kappa)| *sum += sign * by * kappa);
            }
            for (i, sum) in along_row.into_iter().enumerate() {
                let at = [i, row % self.shape.ny, row / self.shape.ny];
                let n = first + i;
                let reaction = self.reaction.as_ref().map_or(0.0, |reaction| reaction[n]);
                let density = body.map_or(0.0, |body| body[n]) - reaction * u[n];
                let by_volume = if self.takes_part(n) { adjoint[n] * density * self.volume(at) } else { 0.0 };
                found[at[d]] += (sum + by_volume) / self.spacing[d].width(at[d]);
            }
        }
        for across in Axis::ALL.into_iter().filter(|&across| across != axis) {
            for is_upper in [false, true] {
                for at in self.end(across as usize, is_upper).filter(|&at| self.is_active(at)) {
                    found[at[d]] += self.by_area(across, is_upper, at, pair) / self.spacing[d].width(at[d]);
                }
            }
        }
        self.add_widths_of_points(axis, &mut found, pair)?;
        Ok(found)
    }

    /// Returns A ∂J/∂A for the area A of a cell's face on a side, without its half cell.
    fn by_area(&self, axis: Axis, is_upper: bool, at: [usize; 3], pair: Pair<'_>) -> f64 {
        let (n, area) = (self.cell(at), self.area(axis, at));
        match self.side_at(axis, is_upper, at) {
            Boundary::Neumann(flux) if pair.moves_rhs => pair.adjoint[n] * flux * area,
            Boundary::Robin { coefficient, value } => {
                let (half, film) = (self.half(axis, at), coefficient * area);
                let share = if half > 0.0 { half / (half + film) } else { 0.0 };
                pair.by_tie(n, value) * share * share * film
            }
            Boundary::Neumann(_) | Boundary::Dirichlet(_) | Boundary::Periodic => 0.0,
        }
    }

    /// Adds the derivatives through wells and sources, which depend on height and on the equivalent radius.
    fn add_widths_of_points(&self, axis: Axis, found: &mut [f64], pair: Pair<'_>) -> Result<()> {
        if axis == Axis::Z {
            for (at, by_weight) in self.by_source_weights(pair)? {
                found[at[2]] += by_weight * self.coefficient.along(Axis::X)[self.cell(at)];
            }
        }
        for well in &self.wells {
            for at in self.completed("diffusion.wells", 0, [well.i, well.j], well.k)? {
                let n = self.cell(at);
                let index = self.well_index(well, at);
                if index == 0.0 {
                    continue;
                }
                let [dx, dy, dz] = self.widths(at);
                let [x, y] = [Axis::X, Axis::Y].map(|axis| self.coefficient.along(axis)[n]);
                let ratio = (y / x).sqrt();
                let squared = ratio * dx * dx + dy * dy / ratio;
                // d ln r_e / dΔ, by which ln(r_e / r) = 2π √(κ_x κ_y) d_z / index changes.
                let steepness = index / (2.0 * PI * (x * y).sqrt() * dz);
                let slope = match axis {
                    Axis::X => -index * steepness * ratio * dx / squared,
                    Axis::Y => -index * steepness * dy / ratio / squared,
                    Axis::Z => index / dz,
                };
                found[at[axis as usize]] += pair.by_tie(n, well.value) * slope;
            }
        }
        Ok(())
    }
}
