//! Linear systems for callers in other languages: from a case, or from the caller's problem or matrix.

use std::sync::OnceLock;

use isobar::internals::array::{Source, Target};
use isobar::internals::team::get_or_make;
use isobar::options::SolverOptions;
use isobar::problem::{Coefficient, DiffusionProblem, FaceGradient, FaceProblem, Flow, Heat, Weighting};
use isobar::stencil::{Axis, Stencil};
use isobar::{Description, DeviceFaces, DeviceProblem, Outcome, Shape};
use isobar_io::Mesh;

use crate::assembled::{Assembled, BoxOfCells, mesh_of};
use crate::case::Case;
use crate::report::{Checks, ProblemReport, Report, Seconds, TrafficReport};
use crate::values::fits;
use crate::{Error, Matrix, Result};

/// A linear system A u = b as data, with its origin.
#[derive(Clone, Debug)]
pub struct LinearSystem {
    /// A
    pub matrix: Matrix,
    origin: Origin,
}

#[derive(Clone, Debug)]
enum Origin {
    Case {
        case: Box<Case>,
        /// `None`: computed from the case on each call of [`LinearSystem::rhs`].
        rhs: Option<Vec<f64>>,
        mesh: Box<Mesh>,
        box_of_cells: Option<Box<BoxOfCells>>,
    },
    Diffusion(Box<DiffusionProblem>),
    Faces(Box<FaceProblem>),
    /// A problem on a GPU, with its copy on the host once something is computed there.
    OnGpu(Box<DeviceProblem>, Box<OnceLock<LinearSystem>>),
    FacesOnGpu(Box<DeviceFaces>, Box<OnceLock<LinearSystem>>),
    Matrix,
}

impl LinearSystem {
    /// Makes the system of a case, reading its files.
    ///
    /// # Errors
    /// The errors of [`Case::assemble`]; a heat equation, which is a sequence of systems.
    pub fn from_case(case: Case) -> Result<Self> {
        if case.problem.kind() == "heat" {
            return Err(Error::new(
                "problem.kind = \"heat\" is a sequence of time steps, not one linear system; use isobar_heat_from_case in C, or \
                 isobar.solve in Python",
            ));
        }
        let without_rhs = case.assemble_without_rhs()?;
        let has_rhs = without_rhs.is_none();
        let Assembled { matrix, rhs, mesh, box_of_cells, .. } = without_rhs.map_or_else(|| case.assemble(), Ok)?;
        let rhs = has_rhs.then_some(rhs);
        let (mesh, box_of_cells) = (Box::new(mesh), box_of_cells.map(Box::new));
        Ok(Self { matrix, origin: Origin::Case { case: Box::new(case), rhs, mesh, box_of_cells } })
    }

    /// Makes the system of a diffusion problem. Without a mask and with even spacing, problem and matrix share κ
    /// ([`Coefficient::into_shared`]).
    pub fn from_diffusion(mut problem: DiffusionProblem) -> Result<Self> {
        problem.coefficient = problem.coefficient.into_shared();
        Ok(Self { matrix: Matrix::Diffusion(problem.stencil()?), origin: Origin::Diffusion(Box::new(problem)) })
    }

    /// Makes the system of a diffusion problem whose coefficients are in the memory of a GPU. They are copied to the host once derivatives, fluxes or time
    /// steps are requested, which are computed there.
    pub fn from_device(problem: DeviceProblem) -> Result<Self> {
        Ok(Self {
            matrix: Matrix::Diffusion(problem.stencil()?),
            origin: Origin::OnGpu(Box::new(problem), Box::default()),
        })
    }

    /// Makes a system from conductances.
    pub fn from_faces(problem: FaceProblem) -> Self {
        Self { matrix: Matrix::Diffusion(problem.stencil().clone()), origin: Origin::Faces(Box::new(problem)) }
    }

    /// Makes a system from conductances in the memory of a GPU; nothing where [`face_problem`](crate::face_problem) on the host has a message for the size of their
    /// numbers. They are copied to the host once derivatives or fluxes are requested, which are computed there.
    ///
    /// # Errors
    /// None but for memory.
    pub fn from_device_faces(faces: DeviceFaces) -> Result<Option<Self>> {
        if faces.sizes().into_iter().all(fits) {
            let matrix = Matrix::Diffusion(faces.stencil()?);
            return Ok(Some(Self { matrix, origin: Origin::FacesOnGpu(Box::new(faces), Box::default()) }));
        }
        Ok(None)
    }

    /// Makes the heat equation with this system's κ, c, sides and grid, and a source density per cell, C order.
    ///
    /// # Errors
    /// The errors of [`Heat::in_cells`]; a system that is not from [`LinearSystem::from_diffusion`].
    pub fn heat(&self, body: Option<Vec<f64>>) -> Result<Heat> {
        match &self.on_host()?.origin {
            Origin::Diffusion(problem) => Ok(Heat::in_cells(problem, body)?),
            _ => Err(Error::new("time steps need a diffusion problem from arrays, or a case of kind \"heat\"")),
        }
    }

    /// Returns this diffusion problem with other coefficients, and another reaction if given.
    ///
    /// # Errors
    /// The errors of [`DiffusionProblem::stencil`]; a system that is not from [`LinearSystem::from_diffusion`].
    pub fn with_coefficients(&self, coefficient: Coefficient, reaction: Option<Vec<f64>>) -> Result<Self> {
        self.changed(coefficient, reaction, |_| Ok(()))
    }

    /// Returns this diffusion problem with other coefficients, another reaction if given, and the changes that a function makes.
    ///
    /// # Errors
    /// See [`LinearSystem::with_coefficients`]; the errors of the function.
    pub fn changed(
        &self,
        coefficient: Coefficient,
        reaction: Option<Vec<f64>>,
        change: impl FnOnce(&mut DiffusionProblem) -> isobar::Result<()>,
    ) -> Result<Self> {
        let known = self.diffusion()?;
        let reaction = reaction.or_else(|| known.reaction.clone());
        // The known coefficients, which may be large, are not copied.
        let mut problem = DiffusionProblem {
            shape: known.shape,
            spacing: known.spacing.clone(),
            coefficient,
            reaction,
            active: known.active.clone(),
            boundary: known.boundary,
            side_fields: known.side_fields.clone(),
            sources: known.sources.clone(),
            wells: known.wells.clone(),
        };
        change(&mut problem)?;
        Self::from_diffusion(problem)
    }

    /// Computes the derivatives of [`FaceProblem::gradient`], with respect to conductances and shifts.
    ///
    /// # Errors
    /// The errors of that function; a system that is not from [`LinearSystem::from_faces`].
    pub fn face_gradient(&self, u: &[f64], adjoint: &[f64]) -> Result<FaceGradient> {
        match &self.on_host()?.origin {
            Origin::Faces(problem) => Ok(problem.gradient(u, adjoint)?),
            _ => Err(Error::new(
                "this needs a problem of conductances: isobar.Faces in Python, isobar_problem_faces in C, problem%faces in Fortran",
            )),
        }
    }

    /// Returns the diffusion problem that it was made from.
    ///
    /// # Errors
    /// A system that is not from [`LinearSystem::from_diffusion`].
    pub fn diffusion(&self) -> Result<&DiffusionProblem> {
        match &self.on_host()?.origin {
            Origin::Diffusion(problem) => Ok(problem),
            _ => Err(Error::new(
                "derivatives with respect to coefficients, sides and widths exist only for diffusion problems made from arrays",
            )),
        }
    }

    /// Returns whether A = Aᵀ.
    pub fn is_symmetric(&self) -> bool {
        match &self.matrix {
            Matrix::TensorProduct(matrix) => matrix.is_symmetric(),
            Matrix::Diffusion(_) => true,
        }
    }

    /// Returns the diffusion problem whose coefficients are on a GPU.
    pub fn on_gpu(&self) -> Option<&DeviceProblem> {
        match &self.origin {
            Origin::OnGpu(problem, _) => Some(problem),
            _ => None,
        }
    }

    /// Returns this system with coefficients on the host.
    ///
    /// # Errors
    /// Those of the GPU where they are.
    pub fn on_host(&self) -> Result<&Self> {
        match &self.origin {
            Origin::OnGpu(problem, on_host) => get_or_make(on_host, || Self::from_diffusion(problem.on_host()?)),
            Origin::FacesOnGpu(faces, on_host) => get_or_make(on_host, || Ok(Self::from_faces(faces.on_host()?))),
            _ => Ok(self),
        }
    }

    /// Makes a system from a matrix alone.
    pub fn from_matrix(matrix: Matrix) -> Self {
        Self { matrix, origin: Origin::Matrix }
    }

    /// Returns the grid's shape.
    pub fn shape(&self) -> Shape {
        self.matrix.shape()
    }

    /// Returns its name in reports.
    pub fn label(&self) -> Label {
        let (case, kind) = match &self.origin {
            Origin::Case { case, .. } => (case.name(), case.problem.kind()),
            _ => ("arrays".to_owned(), self.matrix.kind()),
        };
        Label { case, kind, shape: self.shape() }
    }

    /// Describes the system in one line.
    pub fn describe(&self) -> String {
        match &self.origin {
            Origin::Case { case, .. } => case.problem.describe(),
            _ => format!("{} on {} = {} cells", self.matrix.kind(), self.shape(), self.shape().cells()),
        }
    }

    /// Returns its solver options.
    pub fn options(&self) -> SolverOptions {
        match &self.origin {
            Origin::Case { case, .. } => case.solver.clone(),
            _ => SolverOptions::default(),
        }
    }

    /// Returns the cell centres in x, y and z, if known.
    pub fn coordinates(&self) -> Option<[Vec<f64>; 3]> {
        match &self.origin {
            Origin::Case { mesh, .. } => Some(mesh.centres.clone()),
            Origin::Diffusion(problem) => Some(mesh_of(problem.shape, &problem.spacing).centres),
            Origin::Faces(_) | Origin::OnGpu(..) | Origin::FacesOnGpu(..) | Origin::Matrix => None,
        }
    }

    /// Returns the fluxes through the faces of its cells.
    ///
    /// # Errors
    /// A system other than diffusion in cells and conductances.
    pub fn flow(&self) -> Result<Flow<'_>> {
        let Self { matrix, origin } = self.on_host()?;
        let flow = match (origin, matrix) {
            (Origin::Case { box_of_cells, .. }, matrix) => box_of_cells.as_ref().and_then(|cells| cells.flow(matrix)),
            (Origin::Diffusion(problem), Matrix::Diffusion(stencil)) => Some(problem.flow(stencil)),
            (Origin::Faces(problem), _) => Some(problem.flow()),
            _ => None,
        };
        flow.ok_or_else(|| {
            Error::new(
                "fluxes are computed for diffusion in cells and for conductances, and this system is another one",
            )
        })
    }

    /// Returns the total that flows out of the domain through a side, for a solution in C order.
    ///
    /// # Errors
    /// Those of [`LinearSystem::flow`]; conductances, which have no sides; another number of cells.
    pub fn flux(&self, u: &[f64], axis: Axis, is_upper: bool) -> Result<f64> {
        if matches!(&self.matrix, Matrix::Diffusion(matrix) if matrix.factors().is_none()) {
            return Err(Error::new(
                "conductances have no sides to flow through: what flows out of a cell to a value g, which its shift ties it to, is shift · (u − g)",
            ));
        }
        Ok(self.flow()?.through(u, axis, is_upper)?)
    }

    /// Writes the right-hand side of [`LinearSystem::rhs`] for a source density in any order, in one pass over both arrays if the one to write is in C
    /// order and in double precision, or if everything is on a GPU.
    ///
    /// # Errors
    /// The errors of [`LinearSystem::rhs`]; an array on a device where the coefficients are not, or not there where they are; one to write of another
    /// shape.
    pub fn write_rhs(&self, body: Option<Source<'_>>, mut to: Target<'_>) -> Result<()> {
        if let Origin::OnGpu(..) | Origin::FacesOnGpu(..) = &self.origin {
            let (body, to) = match (body, to) {
                (None, Target::Device(to)) => (None, to),
                (Some(Source::Device(body)), Target::Device(to)) => (Some(body), to),
                _ => return Err(on_gpu("b, and f if there is one")),
            };
            match &self.origin {
                Origin::OnGpu(problem, _) => problem.write_rhs(body.as_ref(), &to)?,
                Origin::FacesOnGpu(faces, _) => faces.write_rhs(body.as_ref(), &to)?,
                _ => {}
            }
            return Ok(());
        }
        if let (Target::F64(to), shape) = (&mut to, self.shape())
            && to.shape() == shape
            && let Some(values) = to.as_c_order_mut()
        {
            match &self.origin {
                Origin::Diffusion(problem) => {
                    return Ok(problem.checked()?.write_rhs(body, Weighting::Volume, values)?);
                }
                Origin::Faces(problem) => return Ok(problem.write_rhs(body, values)?),
                _ => {}
            }
        }
        let values = self.rhs(body.map(Source::to_vec).transpose()?)?;
        Ok(to.write(&values)?)
    }

    /// Returns the right-hand side in C order for a source density per cell: the density times cell volumes (as a case prescribes; conductances
    /// have no volumes), plus boundary values, sources and wells. Without a density it is that of the case, or of f = 0.
    ///
    /// # Errors
    /// A wrong number of cells; a matrix without a problem; the errors of [`Case::assemble`] for a case, such as too little memory.
    pub fn rhs(&self, body: Option<Vec<f64>>) -> Result<Vec<f64>> {
        match (&self.origin, body) {
            (Origin::Case { rhs: Some(rhs), .. }, None) => Ok(rhs.clone()),
            (Origin::Case { case, rhs: None, .. }, None) => case.rhs(),
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
            (Origin::OnGpu(..) | Origin::FacesOnGpu(..), _) => Err(on_gpu("b, and f if there is one")),
            (Origin::Matrix, _) => {
                Err(Error::new("a matrix from profiles has no sources or boundary values; give the vector b itself"))
            }
        }
    }
}

fn on_gpu(what: &str) -> Error {
    Error::new(format!("the coefficients are in the memory of a GPU; {what} must be there too"))
}

/// The name of a system in reports.
#[derive(Clone, Debug)]
pub struct Label {
    /// The case, or "arrays".
    pub case: String,
    /// The kind, as in a case file.
    pub kind: &'static str,
    /// The grid.
    pub shape: Shape,
}

impl Label {
    /// Makes the report of a solve, without a bandwidth measurement.
    pub fn report(&self, description: &Description, outcome: &Outcome, checks: Checks, seconds: Seconds) -> Report {
        let problem = ProblemReport::new(self.kind, self.shape);
        let traffic = TrafficReport::of_solve(description, outcome, f64::NAN);
        Report::of_solve(self.case.clone(), problem, description, outcome, checks, seconds, traffic)
    }
}
