//! Linear systems for callers in other languages: from a case, or from a problem or a matrix of the caller's own.

use isobar::internals::execute::{Host, for_each_row};
use isobar::options::SolverOptions;
use isobar::problem::{Coefficient, DiffusionProblem, FaceGradient, FaceProblem, Flow, Heat, SideGradient, Weighting};
use isobar::stencil::{Axis, Stencil};
use isobar::{Description, Outcome, Shape};
use isobar_io::Mesh;

use crate::assembled::{BoxOfCells, mesh_of, without_constants};
use crate::case::Case;
use crate::error::{Error, Result};
use crate::matrix::Matrix;
use crate::report::{Checks, ProblemReport, Report, Seconds, TrafficReport};

/// A linear system A u = b, as data, with what is known of where it comes from.
#[derive(Clone, Debug)]
pub struct LinearSystem {
    /// A
    pub matrix: Matrix,
    origin: Origin,
}

#[derive(Clone, Debug)]
enum Origin {
    Case { case: Box<Case>, rhs: Vec<f64>, mesh: Box<Mesh>, box_of_cells: Option<Box<BoxOfCells>> },
    Diffusion(Box<DiffusionProblem>),
    Faces(Box<FaceProblem>),
    Matrix,
}

impl LinearSystem {
    /// Of a case, its files read.
    ///
    /// # Errors
    /// Those of [`Case::assemble`]; a heat equation, which is a run of time steps.
    pub fn from_case(case: Case) -> Result<Self> {
        if case.problem.kind() == "heat" {
            return Err(Error::new(
                "problem.kind = \"heat\" is a run of time steps, not one linear system; use isobar_heat_from_case in C, or \
                 isobar.solve in Python",
            ));
        }
        let assembled = case.assemble()?;
        let box_of_cells = assembled.box_of_cells.map(Box::new);
        let origin =
            Origin::Case { case: Box::new(case), rhs: assembled.rhs, mesh: Box::new(assembled.mesh), box_of_cells };
        Ok(Self { matrix: assembled.matrix, origin })
    }

    /// Of a problem of diffusion.
    ///
    /// # Errors
    /// Those of [`DiffusionProblem::stencil`].
    pub fn from_diffusion(problem: DiffusionProblem) -> Result<Self> {
        Ok(Self { matrix: Matrix::Diffusion(problem.stencil()?), origin: Origin::Diffusion(Box::new(problem)) })
    }

    /// Makes a system of conductances.
    pub fn from_faces(problem: FaceProblem) -> Self {
        Self { matrix: Matrix::Diffusion(problem.stencil().clone()), origin: Origin::Faces(Box::new(problem)) }
    }

    /// The heat equation with its κ, c, sides and grid, and a source density of every cell, C order.
    ///
    /// # Errors
    /// Those of [`Heat::in_cells`]; a system that is not from [`LinearSystem::from_diffusion`].
    pub fn heat(&self, body: Option<Vec<f64>>) -> Result<Heat> {
        match &self.origin {
            Origin::Diffusion(problem) => Ok(Heat::in_cells(problem, body)?),
            _ => Err(Error::new(
                "time steps need a problem of diffusion from arrays; a case that is to be stepped is of kind \"heat\"",
            )),
        }
    }

    /// Returns this problem of diffusion with other coefficients, and another reaction where one is given.
    ///
    /// # Errors
    /// Those of [`DiffusionProblem::stencil`]; a system that is not from [`LinearSystem::from_diffusion`].
    pub fn with_coefficients(&self, coefficient: Coefficient, reaction: Option<Vec<f64>>) -> Result<Self> {
        let known = self.diffusion()?;
        let reaction = reaction.or_else(|| known.reaction.clone());
        // The known coefficients, which may be large, are not copied.
        Self::from_diffusion(DiffusionProblem {
            shape: known.shape,
            spacing: known.spacing.clone(),
            coefficient,
            reaction,
            active: known.active.clone(),
            boundary: known.boundary,
            side_fields: known.side_fields.clone(),
            sources: known.sources.clone(),
            wells: known.wells.clone(),
        })
    }

    /// Computes derivatives as [`DiffusionProblem::gradient`].
    ///
    /// # Errors
    /// Those of it; a system that is not from [`LinearSystem::from_diffusion`].
    pub fn gradient(&self, u: &[f64], adjoint: &[f64], moves_rhs: bool) -> Result<Vec<Vec<f64>>> {
        Ok(self.diffusion()?.gradient(u, adjoint, moves_rhs)?)
    }

    /// Computes derivatives by the sides of cells as [`DiffusionProblem::side_gradient`].
    ///
    /// # Errors
    /// As [`LinearSystem::gradient`].
    pub fn side_gradient(
        &self,
        [u, adjoint]: [&[f64]; 2],
        axis: Axis,
        is_upper: bool,
        moves_rhs: bool,
    ) -> Result<SideGradient> {
        Ok(self.diffusion()?.side_gradient(u, adjoint, axis, is_upper, moves_rhs)?)
    }

    /// Computes derivatives by the widths of cells as [`DiffusionProblem::width_gradient`].
    ///
    /// # Errors
    /// As [`LinearSystem::gradient`].
    pub fn width_gradient(
        &self,
        [u, adjoint]: [&[f64]; 2],
        axis: Axis,
        body: Option<&[f64]>,
        moves_rhs: bool,
    ) -> Result<Vec<f64>> {
        Ok(self.diffusion()?.width_gradient(u, adjoint, axis, body, moves_rhs)?)
    }

    /// Computes derivatives by conductances and shifts as [`FaceProblem::gradient`].
    ///
    /// # Errors
    /// Those of it; a system that is not from [`LinearSystem::from_faces`].
    pub fn face_gradient(&self, u: &[f64], adjoint: &[f64]) -> Result<FaceGradient> {
        match &self.origin {
            Origin::Faces(problem) => Ok(problem.gradient(u, adjoint)?),
            _ => Err(Error::new("conductances belong to isobar.Faces; make the problem by that")),
        }
    }

    /// Returns c of every cell and which cells take part, where they were given.
    ///
    /// # Errors
    /// A system that is not from [`LinearSystem::from_diffusion`].
    pub fn fields(&self) -> Result<(Option<&[f64]>, Option<&[bool]>)> {
        let problem = self.diffusion()?;
        Ok((problem.reaction.as_deref(), problem.active.as_deref()))
    }

    /// Volumes of cells, C order, 0 of those that take no part.
    ///
    /// # Errors
    /// A system that is not from [`LinearSystem::from_diffusion`].
    pub fn volumes(&self) -> Result<Vec<f64>> {
        Ok(self.diffusion()?.volumes())
    }

    fn diffusion(&self) -> Result<&DiffusionProblem> {
        match &self.origin {
            Origin::Diffusion(problem) => Ok(problem),
            _ => Err(Error::new(
                "coefficients by cell belong to isobar.Diffusion; make the problem by that, from arrays",
            )),
        }
    }

    /// Whether A = Aᵀ.
    pub fn is_symmetric(&self) -> bool {
        match &self.matrix {
            Matrix::TensorProduct(matrix) => matrix.is_symmetric(),
            Matrix::Diffusion(_) => true,
        }
    }

    /// Whether all cells take part, hang together and are tied to something fixed, so that A is regular.
    pub fn is_regular(&self) -> bool {
        match &self.matrix {
            Matrix::TensorProduct(_) => true,
            Matrix::Diffusion(matrix) => matrix.components(&Host).is_none(),
        }
    }

    /// Projects values of all cells onto the range of A: 0 in cells that take no part, and the mean taken out wherever a constant is free.
    pub fn project(&self, mut values: Vec<f64>) -> Vec<f64> {
        let Matrix::Diffusion(matrix) = &self.matrix else { return values };
        let Shape { nx, ny, .. } = self.shape();
        for_each_row(&Host, &mut values, nx, |row, values| {
            let mut is_active = vec![true; nx];
            matrix.find_active(row, &mut is_active);
            values.iter_mut().zip(is_active).filter(|(_, is_active)| !is_active).for_each(|(value, _)| *value = 0.0);
        });
        without_constants(values, matrix, &(0..ny))
    }

    /// Of a matrix, about which nothing else is known.
    pub fn from_matrix(matrix: Matrix) -> Self {
        Self { matrix, origin: Origin::Matrix }
    }

    /// The grid.
    pub fn shape(&self) -> Shape {
        self.matrix.shape()
    }

    /// What reports say of it.
    pub fn label(&self) -> Label {
        let (case, kind) = match &self.origin {
            Origin::Case { case, .. } => (case.name(), case.problem.kind()),
            _ => ("arrays".to_owned(), self.matrix.kind()),
        };
        Label { case, kind, shape: self.shape() }
    }

    /// One line about it.
    pub fn describe(&self) -> String {
        match &self.origin {
            Origin::Case { case, .. } => case.problem.describe(),
            _ => format!("{} on {} = {} cells", self.matrix.kind(), self.shape(), self.shape().cells()),
        }
    }

    /// The solver options that come with it.
    pub fn options(&self) -> SolverOptions {
        match &self.origin {
            Origin::Case { case, .. } => case.solver.clone(),
            _ => SolverOptions::default(),
        }
    }

    /// Centres of cells in x, y and z, where they are known.
    pub fn coordinates(&self) -> Option<[Vec<f64>; 3]> {
        match &self.origin {
            Origin::Case { mesh, .. } => Some(mesh.centres.clone()),
            Origin::Diffusion(problem) => Some(mesh_of(problem.shape, &problem.spacing).centres),
            Origin::Faces(_) | Origin::Matrix => None,
        }
    }

    /// The flow through the faces of its cells.
    ///
    /// # Errors
    /// A system that is not one of diffusion in cells.
    pub fn flow(&self) -> Result<Flow<'_>> {
        let flow = match (&self.origin, &self.matrix) {
            (Origin::Case { box_of_cells, .. }, matrix) => box_of_cells.as_ref().and_then(|cells| cells.flow(matrix)),
            (Origin::Diffusion(problem), Matrix::Diffusion(stencil)) => Some(problem.flow(stencil)),
            _ => None,
        };
        flow.ok_or_else(|| Error::new("fluxes are those of diffusion in cells; this system is another one"))
    }

    /// The right-hand side, C order, of a source density of every cell: times volumes (as a case says; conductances have none), with
    /// boundary values, sources and wells. Without one it is that of the case, or of f = 0.
    ///
    /// # Errors
    /// Another number of cells; a matrix without a problem.
    pub fn rhs(&self, body: Option<Vec<f64>>) -> Result<Vec<f64>> {
        match (&self.origin, body) {
            (Origin::Case { rhs, .. }, None) => Ok(rhs.clone()),
            (Origin::Case { case, .. }, Some(body)) => case.rhs_from(body),
            (Origin::Diffusion(problem), body) => {
                let body = body.unwrap_or_else(|| vec![0.0; self.shape().cells()]);
                Ok(problem.rhs_from(body, Weighting::Volume)?)
            }
            (Origin::Faces(problem), body) => {
                let shape = self.shape();
                let body = body.unwrap_or_else(|| vec![0.0; shape.cells()]);
                Ok(problem.rhs_from_in(&(0..shape.ny), body)?)
            }
            (Origin::Matrix, _) => {
                Err(Error::new("a matrix from profiles has no right-hand side of its own; give b as it is"))
            }
        }
    }
}

/// What reports say of a system.
#[derive(Clone, Debug)]
pub struct Label {
    /// Its case, or "arrays".
    pub case: String,
    /// As in a case file.
    pub kind: &'static str,
    /// The grid.
    pub shape: Shape,
}

impl Label {
    /// The report of a solve. No copy was measured for it.
    pub fn report(&self, description: &Description, outcome: &Outcome, checks: Checks, seconds: Seconds) -> Report {
        let problem = ProblemReport::new(self.kind, self.shape);
        let traffic = TrafficReport::of_solve(description, outcome, f64::NAN);
        Report::of_solve(self.case.clone(), problem, description, outcome, checks, seconds, traffic)
    }
}
