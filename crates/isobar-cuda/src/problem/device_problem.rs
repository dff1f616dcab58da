//! Diffusion problems with coefficients of their own on a GPU.

use std::sync::Arc;

use isobar_core::array::DeviceArray;
use isobar_core::error::Result;
use isobar_core::layout::Axis;
use isobar_core::problem::{Boundary, Coefficient, DiffusionProblem, Phases};
use isobar_core::stencil::{Coefficients, Diffusion, Spread};

use super::cells::DeviceField;
use super::{Derivatives, Form, along, source};
use crate::cuda::Cuda;

/// A diffusion problem whose κ and c are in the memory of a GPU, where its matrix, right-hand sides and derivatives are computed.
#[derive(Clone, Debug)]
pub struct DeviceProblem {
    form: Arc<Form>,
    kappa: Arc<[DeviceField]>,
    reaction: Option<Arc<DeviceField>>,
    /// The smallest and the largest κ, where they are known.
    spread: Option<Spread>,
}

impl DeviceProblem {
    /// Copies one, two or three arrays of κ, and of c, and takes everything else from a problem, whose own coefficients are not used, and may be
    /// empty. A cell with κ = 0 is inactive.
    ///
    /// # Errors
    /// See [`Form::new`] and [`Form::gradient`], whose errors for arrays of κ these are too.
    pub fn new(
        cuda: &Cuda,
        problem: DiffusionProblem,
        kappa: &[DeviceArray],
        reaction: Option<&DeviceArray>,
    ) -> Result<Self> {
        let form = Arc::new(Form::new(cuda, problem)?);
        let none = Self { form, kappa: Arc::from([]), reaction: None, spread: None };
        none.with_coefficients(kappa, reaction)
    }

    /// Makes a problem with κ of the phases of an image, which are copied as one byte per cell, and everything else from a problem. κ takes four
    /// bytes per cell if single precision represents those of all phases, else eight.
    ///
    /// # Errors
    /// See [`Form::new`]; [`Error::Shape`](isobar_core::error::Error::Shape) for an image of another shape.
    pub fn of_phases(cuda: &Cuda, problem: DiffusionProblem, phases: &Phases) -> Result<Self> {
        cuda.expect(source(), &["look_up", "rhs"]);
        let form = Arc::new(Form::new(cuda, problem)?);
        let kappa = form.of_phases(phases)?;
        Ok(Self { form, kappa: Arc::from([kappa]), reaction: None, spread: Some(phases.spread()) })
    }

    /// Makes the same problem with other sides.
    ///
    /// # Errors
    /// See [`Form::new`].
    pub fn with_sides(&self, boundary: [[Boundary; 2]; 3]) -> Result<Self> {
        let problem = DiffusionProblem { boundary, side_fields: Default::default(), ..self.form.problem.clone() };
        Ok(Self { form: Arc::new(Form::new(&self.form.cuda, problem)?), ..self.clone() })
    }

    /// Makes the same problem with other coefficients; c does not change if there is no other.
    ///
    /// # Errors
    /// See [`DeviceProblem::new`].
    pub fn with_coefficients(&self, kappa: &[DeviceArray], reaction: Option<&DeviceArray>) -> Result<Self> {
        along(kappa)?;
        let given: Vec<_> = kappa.iter().chain(reaction).collect();
        let mut copies = self.form.copied(&given)?;
        let reaction = if reaction.is_some() { copies.pop().map(Arc::new) } else { self.reaction.clone() };
        Ok(Self { kappa: copies.into(), reaction, spread: None, ..self.clone() })
    }

    /// Returns the number of the GPU.
    pub fn ordinal(&self) -> usize {
        self.form.cuda.ordinal()
    }

    /// Returns how many arrays of κ there are.
    pub fn kappa_count(&self) -> usize {
        self.kappa.len()
    }

    /// Allocates an array of the grid's shape in double precision.
    ///
    /// # Errors
    /// See [`Form::new_field`].
    pub fn new_field(&self) -> Result<DeviceField> {
        self.form.new_field::<f64>()
    }

    /// Copies an array of the grid's shape to another one.
    ///
    /// # Errors
    /// See [`Form::gradient`].
    pub fn copy(&self, from: &DeviceArray, to: &DeviceArray) -> Result<()> {
        self.form.with_arrays(&[from], &[to], || self.form.scale(from, [0; 3], to))
    }

    /// Returns the arrays of κ.
    fn kappa(&self) -> Vec<DeviceArray> {
        self.kappa.iter().map(|field| field.array).collect()
    }

    /// Makes the matrix, for a solver on this GPU. It keeps the coefficients that it needs.
    ///
    /// # Errors
    /// See [`Form::check_points`], [`Form::stencil`] and [`Form::examined`], which names the first cell whose κ is negative or not finite.
    pub fn stencil(&self) -> Result<Diffusion> {
        self.form.check_points(&self.kappa())?;
        let reaction = self.reaction.as_ref().map(|reaction| &reaction.array);
        let matrix = self.form.stencil(&self.kappa(), reaction)?;
        let matrix = match (self.spread, matrix.coefficients()) {
            // One field is κ.
            (Some(spread), Coefficients::DeviceCells { fields, .. }) if fields.len() == 1 => {
                matrix.with_spreads(vec![spread])?
            }
            _ => self.form.examined(matrix)?,
        };
        Ok(matrix.owned_by(Arc::new(Arc::clone(&self.kappa))))
    }

    /// Writes the right-hand side of [`DiffusionProblem::rhs_from`] for the source density `body` (0 if absent) times volumes.
    ///
    /// # Errors
    /// See [`Form::gradient`].
    pub fn write_rhs(&self, body: Option<&DeviceArray>, to: &DeviceArray) -> Result<()> {
        self.form.write_rhs(&self.kappa(), body, to)
    }

    /// Makes the right-hand side without a source density in a new array of double precision, or of single.
    pub fn new_rhs(&self, is_single: bool) -> Result<DeviceField> {
        let rhs = if is_single { self.form.new_field::<f32>()? } else { self.form.new_field::<f64>()? };
        self.write_rhs(None, &rhs.array)?;
        Ok(rhs)
    }

    /// Computes the derivatives of [`Form::gradient`].
    ///
    /// # Errors
    /// See [`Form::gradient`].
    pub fn gradient(&self, pair: [&DeviceArray; 2], moves_rhs: bool, wanted: Derivatives<'_>) -> Result<()> {
        self.form.gradient(&self.kappa(), pair, moves_rhs, wanted)
    }

    /// Computes the derivatives of [`Form::side_gradient`].
    ///
    /// # Errors
    /// See [`Form::side_gradient`].
    pub fn side_gradient(
        &self,
        pair: [&DeviceArray; 2],
        side: (Axis, bool),
        moves_rhs: bool,
        wanted: [&DeviceArray; 2],
    ) -> Result<()> {
        self.form.side_gradient(&self.kappa(), pair, side, moves_rhs, wanted)
    }

    /// Copies the coefficients to the host, for computations there.
    pub fn on_host(&self) -> Result<DiffusionProblem> {
        let read = |field: &DeviceField| self.form.cuda.read_array(&field.array);
        let mut kappa: Vec<_> = self.kappa.iter().map(read).collect::<Result<_>>()?;
        let last = kappa.pop().unwrap_or_default();
        let coefficient = match (kappa.pop(), kappa.pop()) {
            (None, _) => Coefficient::Isotropic(last),
            (Some(horizontal), None) => Coefficient::Layered { horizontal, vertical: last },
            (Some(y), Some(x)) => Coefficient::Diagonal([x, y, last]),
        };
        let reaction = self.reaction.as_deref().map(read).transpose()?;
        Ok(DiffusionProblem { coefficient, reaction, ..self.form.problem.clone() })
    }
}
