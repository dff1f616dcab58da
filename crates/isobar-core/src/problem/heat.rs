//! The heat equation, discretised in space.

use std::f64::consts::PI;

use super::{Boundary, Coefficient, DiffusionProblem, PointProblem, Spacing, Weighting};
use crate::execute::rows;
use crate::stencil::{Diffusion, Stencil};
use crate::{Error, Host, Result, Shape};

/// The system M u_t = −K u + s: u_t = ∇·(κ∇u) − c u + f in space, by finite volumes (K the matrix of −∇·(κ∇u) + c u, M
/// the volumes of cells), or at points inside a box with given values on its sides.
#[derive(Clone, Debug, PartialEq)]
pub struct Heat {
    /// K
    pub stiffness: Diffusion,
    /// The diagonal of M, 0 in inactive cells.
    pub mass: Mass,
    /// The sources s, C order, if not zero: sources, wells and boundary values.
    pub source: Option<Vec<f64>>,
    /// Positions of the unknowns in x, y and z.
    pub coordinates: [Vec<f64>; 3],
}

/// The volumes of cells.
#[derive(Clone, Debug, PartialEq)]
pub enum Mass {
    /// One volume for all cells.
    Uniform(f64),
    /// A volume for each cell, C order.
    Given(Vec<f64>),
}

impl Heat {
    /// Discretises by finite volumes, with unknowns in the middle of cells and boundary values on faces. `body` is f of
    /// every cell, C order.
    ///
    /// # Errors
    /// See [`DiffusionProblem::stencil`] and [`DiffusionProblem::rhs_from`]; [`Error::Invalid`] for a negative reaction.
    pub fn in_cells(problem: &DiffusionProblem, body: Option<Vec<f64>>) -> Result<Self> {
        let checked = problem.checked()?;
        let (stiffness, own) = (checked.stencil()?, 0..problem.shape.ny);
        if !stiffness.is_definite() {
            let message = "a negative reaction is not supported by these time steps, which need a matrix without negative eigenvalues; use 0 or more";
            return Err(Error::invalid("diffusion.reaction", message));
        }
        let source = match body {
            Some(body) => checked.rhs_from_in(&own, body, Weighting::Volume)?,
            None => checked.rhs_in(&own, None, 0, Weighting::Volume)?,
        };
        let mass = match problem.spacing.each_ref().map(Spacing::uniform) {
            [Some(dx), Some(dy), Some(dz)] => Mass::Uniform(dx * dy * dz),
            _ => Mass::Given(problem.volumes()),
        };
        let source = source.iter().any(|&s| s != 0.0).then_some(source);
        Ok(Self { stiffness, mass, source, coordinates: problem.coordinates() })
    }

    /// Discretises at the n points a direction inside a box of this size, L/(n + 1) apart, with values given on its
    /// sides, a whole distance from the first points (paper E). A direction with one point is left out. κ is that of the
    /// points, with the harmonic mean between two of them.
    ///
    /// # Errors
    /// See [`PointProblem::new`] and [`Heat::in_cells`].
    pub fn at_points(problem: &DiffusionProblem, size: [f64; 3], body: Option<Vec<f64>>) -> Result<Self> {
        let points = PointProblem::new(problem.clone(), size)?;
        let mut heat = Self::in_cells(&points.inner, body)?;
        let mut source = heat.source.take().unwrap_or_default();
        source.resize(problem.shape.cells(), 0.0);
        points.add_sides_in(&(0..problem.shape.ny), &mut source);
        heat.stiffness = points.with_ties(&heat.stiffness)?;
        heat.source = source.iter().any(|&s| s != 0.0).then_some(source);
        heat.coordinates = points.coordinates;
        Ok(heat)
    }

    /// Makes paper E's problem on the unit box, κ = 1 and u = 0 on its sides: nx × ny × nz points inside.
    ///
    /// # Errors
    /// None but for memory.
    pub fn unit_box(shape: Shape) -> Result<Self> {
        let mut problem = DiffusionProblem::new(shape, Coefficient::Isotropic(vec![1.0; shape.cells()]));
        problem.boundary = [[Boundary::Dirichlet(0.0); 2]; 3];
        Self::at_points(&problem, [1.0; 3], None)
    }

    /// Returns the shape of the grid.
    pub fn shape(&self) -> Shape {
        crate::stencil::Stencil::shape(&self.stiffness)
    }

    /// Returns the mask of inactive cells, if there are any.
    pub fn inactive(&self) -> Option<Vec<bool>> {
        let stiffness = &self.stiffness;
        if stiffness.is_one_piece() {
            return None;
        }
        let Shape { nx, .. } = self.shape();
        let inactive: Vec<bool> = rows(&Host, self.shape().cells(), nx, |row, inactive| {
            stiffness.find_active(row, inactive);
            inactive.iter_mut().for_each(|cell| *cell = !*cell);
        });
        inactive.contains(&true).then_some(inactive)
    }

    /// Makes K + c M.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::error::Error::Invalid) if c M overflows.
    pub fn shifted(&self, c: f64) -> Result<Diffusion> {
        let stiffness = &self.stiffness;
        let uniform = |volume: f64| {
            let Shape { nx, ny, .. } = self.shape();
            rows(&Host, self.shape().cells(), nx, |row, masses| {
                let mass = |i| if stiffness.is_active([i, row % ny, row / ny]) { volume } else { 0.0 };
                masses.iter_mut().enumerate().for_each(|(i, of_cell)| *of_cell = mass(i));
            })
        };
        match &self.mass {
            Mass::Uniform(volume) => stiffness.with_more_shift(c, &uniform(*volume)),
            Mass::Given(volumes) => stiffness.with_more_shift(c, volumes),
        }
    }

    /// Makes c M as a separate matrix.
    pub(crate) fn only_mass(&self, volumes: &[f64], c: f64) -> Result<Diffusion> {
        let shape = self.shape();
        let shift = volumes.iter().map(|volume| c * volume).collect();
        Diffusion::of_field(shape, vec![0.0; shape.cells()], [1.0; 3], Some(shift), Default::default())
    }

    /// Computes 3 sin πx sin πy sin πz of the relative position in a box of this size, over the directions with more
    /// than one cell: paper E's first state.
    pub fn sine(&self, size: [f64; 3]) -> Vec<f64> {
        let Shape { nx, ny, nz } = self.shape();
        let factors = [nx, ny, nz].into_iter().enumerate().map(|(d, n)| -> Vec<f64> {
            self.coordinates[d].iter().map(|x| if n == 1 { 1.0 } else { (PI * x / size[d]).sin() }).collect()
        });
        let factors: Vec<Vec<f64>> = factors.collect();
        rows(&Host, self.shape().cells(), nx, |row, values| {
            let [y, z] = [factors[1][row % ny], factors[2][row / ny]];
            values.iter_mut().zip(&factors[0]).for_each(|(value, x)| *value = 3.0 * x * y * z);
        })
    }
}
