//! Problems.

use std::path::{Path, PathBuf};

use isobar::grid::{HorizontalField, VerticalProfile};
use isobar::internals::cuda::Cuda;
use isobar::problem::{Boundary, Coefficient, DiffusionProblem, Field, SideFields, Source, Spacing, Well};
use isobar::stencil::{Axis, TensorProduct};
use isobar::{DeviceArray, DeviceFaces, RawArray, Sample, Shape};
use isobar_case::report::to_json;
use isobar_case::{Case, LinearSystem, Matrix, Override, face_problem};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyByteArray;

use crate::array::{Array, bytes, bytes_of};
use crate::error::{raise, raise_case, raise_problem, raise_text};
use crate::labels::Labels;

/// A linear system.
#[pyclass(frozen)]
pub(crate) struct System {
    pub(crate) inner: LinearSystem,
}

/// Converts overrides; messages show their keys as given.
pub(crate) fn overrides(given: &[(String, String)]) -> Vec<Override> {
    given.iter().map(|(key, value)| Override::new(format!("{key}={value}"), format!("{key}={value}"))).collect()
}

/// A number for a side, or one per face.
#[derive(FromPyObject)]
enum Amount {
    Number(f64),
    Faces(Array),
}

impl Amount {
    /// Returns the number, and the field that replaces it.
    fn read(&self) -> PyResult<(f64, Option<Vec<f64>>)> {
        match self {
            Self::Number(number) => Ok((*number, None)),
            Self::Faces(array) => Ok((0.0, Some(array.values()?))),
        }
    }
}

/// (kind, value, coefficient) of the lower and the upper side in x, y and z.
type Sides = [[(String, Amount, Amount); 2]; 3];
/// (i, j, first and last layer, rate)
type GivenSource = (usize, usize, [usize; 2], f64);
/// (i, j, first and last layer, value, radius)
type GivenWell = (usize, usize, [usize; 2], f64, f64);

/// A diffusion problem as given by Python.
#[derive(FromPyObject)]
pub(crate) struct Given {
    /// The coefficient κ: one array, two (horizontal and vertical), or three; none with labels.
    #[pyo3(item)]
    kappa: Vec<Array>,
    /// An image instead of κ.
    #[pyo3(item)]
    labels: Option<Labels>,
    #[pyo3(item)]
    reaction: Option<Array>,
    #[pyo3(item)]
    active: Option<Array>,
    /// Widths in x, y and z: none, one, or one per cell.
    #[pyo3(item)]
    spacing: [Vec<f64>; 3],
    #[pyo3(item)]
    boundary: Sides,
    #[pyo3(item)]
    sources: Vec<GivenSource>,
    #[pyo3(item)]
    wells: Vec<GivenWell>,
}

impl Given {
    /// Returns the problem without its fields.
    pub(crate) fn form(&self) -> PyResult<DiffusionProblem> {
        let shape = match (&self.labels, self.kappa.first()) {
            (Some(labels), _) => labels.shape()?,
            (None, Some(first)) => first.0.shape(),
            (None, None) => return Err(PyValueError::new_err("kappa: at least one array is needed")),
        };
        if shape.cells() == 0 {
            return Err(PyValueError::new_err(format!("kappa has shape {shape}; at least one cell is needed")));
        }
        let mut problem = DiffusionProblem::new(shape, Coefficient::Isotropic(Vec::new()));
        for (d, widths) in self.spacing.iter().enumerate() {
            match widths[..] {
                [] => {}
                [width] => problem.spacing[d] = Spacing::Uniform(width),
                _ => problem.spacing[d] = Spacing::Given(widths.clone()),
            }
            for (side, (kind, value, coefficient)) in self.boundary[d].iter().enumerate() {
                let ((value, values), (coefficient, coefficients)) = (value.read()?, coefficient.read()?);
                problem.side_fields[d][side] = SideFields { value: values, coefficient: coefficients };
                problem.boundary[d][side] = match kind.as_str() {
                    "dirichlet" => Boundary::Dirichlet(value),
                    "robin" => Boundary::Robin { coefficient, value },
                    "periodic" => Boundary::Periodic,
                    _ => Boundary::Neumann(value),
                };
            }
        }
        problem.sources = self.sources.iter().map(|&(i, j, k, rate)| Source { i, j, k, rate }).collect();
        problem.wells = self.wells.iter().map(|&(i, j, k, value, radius)| Well { i, j, k, value, radius }).collect();
        Ok(problem)
    }

    /// Returns the sample of all open cells.
    pub(crate) fn sample(&self) -> PyResult<Sample> {
        let phases = self.labels.as_ref().filter(|_| self.active.is_none()).map(Labels::phases).transpose()?.flatten();
        match phases {
            Some(phases) => Sample::of_phases(phases, self.form()?.spacing).map_err(raise),
            None => Sample::new(self.problem()?).map_err(raise),
        }
    }

    pub(crate) fn problem(&self) -> PyResult<DiffusionProblem> {
        let mut problem = self.form()?;
        let shape = problem.shape;
        problem.coefficient = match &self.labels {
            Some(labels) => Coefficient::Isotropic(labels.coefficients()?).into_shared(),
            None => coefficient(shape, &self.kappa)?,
        };
        problem.reaction =
            self.reaction.as_ref().map(|array| read(shape, "reaction", array, Array::values)).transpose()?;
        problem.active = self.active.as_ref().map(|array| read(shape, "active", array, Array::mask)).transpose()?;
        Ok(problem)
    }
}

/// Reads an array of this shape.
fn read<R>(shape: Shape, name: &str, array: &Array, read: impl Fn(&Array) -> PyResult<R>) -> PyResult<R> {
    isobar::Error::unless_equal(name, array.0.shape(), shape).map_err(raise)?;
    read(array)
}

/// Returns the axis with this number.
pub(crate) fn axis(number: usize) -> PyResult<Axis> {
    Axis::ALL.get(number).copied().ok_or_else(|| PyValueError::new_err(format!("axis {number}; use 0, 1 or 2")))
}

/// Reads one κ, two or three.
pub(crate) fn coefficient(shape: Shape, kappa: &[Array]) -> PyResult<Coefficient> {
    let fields = kappa.iter().map(|array| read(shape, "kappa", array, Array::field)).collect::<PyResult<Vec<_>>>()?;
    of_fields(&fields).map_err(raise)
}

/// Makes a coefficient of one κ, two or three.
pub(crate) fn of_fields(fields: &[Field]) -> isobar::Result<Coefficient> {
    let along = |fields: [&Field; 3]| Ok(Coefficient::Shared(fields.map(Field::clone)));
    match fields {
        [all] => along([all; 3]),
        [horizontal, vertical] => along([horizontal, horizontal, vertical]),
        [x, y, z] => along([x, y, z]),
        _ => Err(isobar::Error::invalid("kappa", format!("{} arrays; pass one, two or three", fields.len()))),
    }
}

/// The row starts, columns and values of a matrix: 64-bit and 32-bit integers, and doubles.
type Entries<'py> = [Bound<'py, PyByteArray>; 3];

#[pymethods]
impl System {
    /// Makes the system of a case file.
    #[staticmethod]
    fn from_case(py: Python<'_>, path: PathBuf, changes: Vec<(String, String)>) -> PyResult<Self> {
        py.detach(|| LinearSystem::from_case(Case::load(path, &overrides(&changes))?))
            .map(|inner| Self { inner })
            .map_err(raise_case)
    }

    /// Makes the system of a case file's text.
    #[staticmethod]
    fn from_text(py: Python<'_>, name: PathBuf, text: &str) -> PyResult<Self> {
        py.detach(|| LinearSystem::from_case(Case::parse(Path::new(&name), text, &[])?))
            .map(|inner| Self { inner })
            .map_err(raise_text)
    }

    /// Returns the solver options of a case as JSON.
    #[staticmethod]
    fn options_of_case(path: PathBuf, changes: Vec<(String, String)>) -> PyResult<String> {
        Case::load(path, &overrides(&changes)).map(|case| to_json(&case.solver)).map_err(raise_case)
    }

    /// Makes a diffusion system.
    #[staticmethod]
    fn diffusion(py: Python<'_>, given: Given) -> PyResult<Self> {
        py.detach(|| LinearSystem::from_diffusion(given.problem()?).map_err(raise_problem)).map(|inner| Self { inner })
    }

    /// Checks everything of a diffusion problem except its fields.
    #[staticmethod]
    fn check_form(given: Given) -> PyResult<()> {
        given.form()?.check_form().map_err(raise)
    }

    /// Makes a system from conductances of a grid (nz, ny, nx); directions without conductances are closed.
    #[staticmethod]
    fn faces(
        shape: [usize; 3],
        faces: [Option<Array>; 3],
        is_periodic: [bool; 3],
        shift: Option<Array>,
        active: Option<Array>,
    ) -> PyResult<Self> {
        let [nz, ny, nx] = shape;
        let shape = Shape { nx, ny, nz };
        let mut all = [Vec::new(), Vec::new(), Vec::new()];
        for ((values, array), axis) in all.iter_mut().zip(&faces).zip(Axis::ALL) {
            let there = shape.faces_between(axis, is_periodic[axis as usize]);
            *values = array.as_ref().map_or_else(|| Ok(vec![0.0; there.cells()]), Array::values)?;
        }
        let shift = shift.map(|array| array.values()).transpose()?;
        let active = active.map(|array| array.mask()).transpose()?;
        let problem = face_problem(shape, all, is_periodic, shift, active.as_deref()).map_err(raise_problem)?;
        Ok(Self { inner: LinearSystem::from_faces(problem) })
    }

    /// Makes a system from arrays on one GPU, as [`System::faces`] does from arrays on the host; nothing if it must be made there.
    #[staticmethod]
    fn faces_on_gpu(
        py: Python<'_>,
        shape: [usize; 3],
        faces: [Option<Array>; 3],
        is_periodic: [bool; 3],
        shift: Option<Array>,
        active: Option<Array>,
    ) -> PyResult<Option<Self>> {
        let [nz, ny, nx] = shape;
        let on_device = |array: &Option<Array>| array.as_ref().map(Array::on_device).transpose();
        let [x, y, z] = &faces;
        let faces = [on_device(x)?, on_device(y)?, on_device(z)?];
        let (shift, active) = (on_device(&shift)?, on_device(&active)?);
        let Some(device) = faces.iter().flatten().map(DeviceArray::device).next() else { return Ok(None) };
        let shape = Shape { nx, ny, nz };
        let make =
            || DeviceFaces::new(&Cuda::shared(device)?, shape, &faces, is_periodic, shift.as_ref(), active.as_ref());
        let Some(faces) = py.detach(make).map_err(raise)? else { return Ok(None) };
        Ok(LinearSystem::from_device_faces(faces).map_err(raise_problem)?.map(|inner| Self { inner }))
    }

    /// Returns this system of arrays on a GPU with copies of them on the host.
    fn on_host(&self, py: Python<'_>) -> PyResult<Self> {
        py.detach(|| self.inner.on_host().cloned()).map(|inner| Self { inner }).map_err(raise_case)
    }

    /// Makes a system from profiles a, b, c and d, the horizontal shape (ny, nx), areas, and couplings through faces.
    #[staticmethod]
    fn tensor_product(
        vertical: [Vec<f64>; 4],
        shape: [usize; 2],
        area: &Bound<'_, PyAny>,
        x_faces: &Bound<'_, PyAny>,
        y_faces: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        let [a, b, c, d] = vertical;
        let [area, x_faces, y_faces] = [area, x_faces, y_faces].map(|array| array.extract::<Array>()?.values());
        let [ny, nx] = shape;
        let matrix = (|| {
            let vertical = VerticalProfile::new(a, b, c, d).map_err(raise)?;
            let horizontal = HorizontalField::from_faces(nx, ny, area?, &x_faces?, &y_faces?).map_err(raise)?;
            TensorProduct::new(vertical, horizontal).map_err(raise)
        })();
        Ok(Self { inner: LinearSystem::from_matrix(Matrix::TensorProduct(matrix?)) })
    }

    /// Returns (nz, ny, nx).
    #[getter]
    fn shape(&self) -> (usize, usize, usize) {
        let Shape { nx, ny, nz } = self.inner.shape();
        (nz, ny, nx)
    }

    #[getter]
    fn kind(&self) -> &'static str {
        self.inner.label().kind
    }

    #[getter]
    fn description(&self) -> String {
        self.inner.describe()
    }

    /// Returns the cell centres in x, y and z.
    #[getter]
    fn coordinates(&self) -> Option<[Vec<f64>; 3]> {
        self.inner.coordinates()
    }

    /// Returns whether A = Aᵀ.
    #[getter]
    fn is_symmetric(&self) -> bool {
        self.inner.is_symmetric()
    }

    /// Returns this system with other coefficients.
    fn with_coefficients(&self, py: Python<'_>, kappa: Vec<Array>, reaction: Option<Array>) -> PyResult<Self> {
        let shape = self.inner.shape();
        py.detach(|| {
            let coefficient = coefficient(shape, &kappa)?;
            let reaction = reaction.map(|array| read(shape, "reaction", &array, Array::values)).transpose()?;
            let inner = self.inner.with_coefficients(coefficient, reaction).map_err(raise_problem)?;
            Ok(Self { inner })
        })
    }

    /// Returns the volumes of cells, 0 for inactive cells.
    fn volumes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyByteArray>> {
        bytes_of(py, &py.detach(|| Ok(self.inner.diffusion()?.volumes())).map_err(raise_case)?)
    }

    /// Computes derivatives with respect to each κ.
    fn gradient<'py>(
        &self,
        py: Python<'py>,
        u: Array,
        adjoint: Array,
        moves_rhs: bool,
    ) -> PyResult<Vec<Bound<'py, PyByteArray>>> {
        let (u, adjoint) = (u.values()?, adjoint.values()?);
        let found = py.detach(|| Ok(self.inner.diffusion()?.gradient(&u, &adjoint, moves_rhs)?));
        found.map_err(raise_case)?.iter().map(|values| bytes_of(py, values)).collect()
    }

    /// Computes derivatives with respect to the value and the coefficient of every face of a side; axis 0 is x.
    fn side_gradient<'py>(
        &self,
        py: Python<'py>,
        pair: [Array; 2],
        side: (usize, bool),
        moves_rhs: bool,
    ) -> PyResult<[Bound<'py, PyByteArray>; 2]> {
        let (axis, [u, adjoint]) = (axis(side.0)?, [pair[0].values()?, pair[1].values()?]);
        let found = py.detach(|| Ok(self.inner.diffusion()?.side_gradient(&u, &adjoint, axis, side.1, moves_rhs)?));
        let found = found.map_err(raise_case)?;
        Ok([bytes_of(py, &found.value)?, bytes_of(py, &found.coefficient)?])
    }

    /// Computes derivatives with respect to the widths of cells along an axis (0 is x); f is the source density.
    fn width_gradient<'py>(
        &self,
        py: Python<'py>,
        pair: [Array; 2],
        along: usize,
        body: Option<Array>,
        moves_rhs: bool,
    ) -> PyResult<Bound<'py, PyByteArray>> {
        let (axis, [u, adjoint]) = (axis(along)?, [pair[0].values()?, pair[1].values()?]);
        let body = body.map(|body| body.values()).transpose()?;
        let by = |problem: &DiffusionProblem| problem.width_gradient(&u, &adjoint, axis, body.as_deref(), moves_rhs);
        let found = py.detach(|| Ok(by(self.inner.diffusion()?)?));
        bytes_of(py, &found.map_err(raise_case)?)
    }

    /// Computes derivatives with respect to conductances of faces across x, y and z, and to shifts.
    fn face_gradient<'py>(&self, py: Python<'py>, u: Array, adjoint: Array) -> PyResult<[Bound<'py, PyByteArray>; 4]> {
        let (u, adjoint) = (u.values()?, adjoint.values()?);
        let found = py.detach(|| self.inner.face_gradient(&u, &adjoint)).map_err(raise_case)?;
        let [x, y, z] = &found.faces;
        Ok([bytes_of(py, x)?, bytes_of(py, y)?, bytes_of(py, z)?, bytes_of(py, &found.shift)?])
    }

    /// Returns c of every cell, and the mask of active cells as bytes, if given.
    fn fields<'py>(&self, py: Python<'py>) -> PyResult<[Option<Bound<'py, PyByteArray>>; 2]> {
        let DiffusionProblem { reaction, active, .. } = self.inner.diffusion().map_err(raise_case)?;
        let reaction = reaction.as_deref().map(|reaction| bytes_of(py, reaction)).transpose()?;
        let active = active
            .as_deref()
            .map(|active| bytes(py, active.iter().map(|&is_active| [u8::from(is_active)])))
            .transpose()?;
        Ok([reaction, active])
    }

    /// Returns all entries of A, with rows and columns in the order of the matrix: i + nx (k + nz j).
    fn entries<'py>(&self, py: Python<'py>) -> PyResult<Entries<'py>> {
        let matrix = py.detach(|| self.inner.matrix.to_csr()).map_err(raise)?;
        Ok([
            bytes(py, matrix.row_starts().iter().map(|&start| (start as u64).to_ne_bytes()))?,
            bytes(py, matrix.column_indices().iter().map(|column| column.to_ne_bytes()))?,
            bytes_of(py, matrix.values())?,
        ])
    }

    /// Writes the fluxes through the faces across x, and across y and z if arrays are given for them.
    fn fluxes(&self, py: Python<'_>, u: Array, out: Vec<Array>) -> PyResult<()> {
        let u = u.values()?;
        let faces = py.detach(|| Ok(self.inner.flow()?.faces(&u)?)).map_err(raise_case)?;
        for (out, values) in out.iter().zip(&faces) {
            // SAFETY: the Python part keeps the arrays alive during the call.
            unsafe { out.0.write(values) }.map_err(raise)?;
        }
        Ok(())
    }

    /// Returns the total flow out through the lower or the upper side of an axis; 0 is x.
    fn flux(&self, py: Python<'_>, u: Array, axis: usize, is_upper: bool) -> PyResult<f64> {
        let u = u.values()?;
        let axis = self::axis(axis)?;
        py.detach(|| self.inner.flux(&u, axis, is_upper)).map_err(raise_case)
    }

    /// Computes the energy ½ Σ T (Δu)².
    fn energy(&self, py: Python<'_>, u: Array) -> PyResult<f64> {
        let u = u.values()?;
        py.detach(|| Ok(self.inner.flow()?.energy(&u)?)).map_err(raise_case)
    }

    /// Writes the right-hand side for a source density.
    fn rhs(&self, py: Python<'_>, body: Option<Array>, out: Array) -> PyResult<()> {
        py.detach(|| self.write_rhs(body.as_ref(), &out))
    }
}

impl System {
    pub(crate) fn write_rhs(&self, body: Option<&Array>, out: &Array) -> PyResult<()> {
        // SAFETY: the Python part keeps the arrays alive during the call.
        let written = unsafe {
            match body {
                Some(body) => RawArray::with(&body.0, &out.0, |body, to| self.inner.write_rhs(Some(body), to)),
                None => out.0.target().map_err(isobar_case::Error::from).and_then(|to| self.inner.write_rhs(None, to)),
            }
        };
        written.map_err(raise_case)
    }
}
