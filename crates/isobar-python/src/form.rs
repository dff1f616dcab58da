//! Diffusion problems without coefficients, which are the arguments of calls: arrays on one GPU, or on the host.

use isobar::internals::cuda::{Cuda, problem};
use isobar::problem::DiffusionProblem;
use isobar::{Derivatives, DeviceArray};
use isobar_case::{LinearSystem, Matrix};
use pyo3::prelude::*;

use crate::array::Array;
use crate::error::{raise, raise_case, raise_problem};
use crate::system::{Given, System, axis, coefficient};

/// The grid, widths, sides, sources and wells of a problem. The Python part keeps all arrays alive during a call.
#[pyclass(frozen)]
pub(crate) struct Form {
    problem: DiffusionProblem,
    gpu: Option<problem::Form>,
}

fn on_device(arrays: &[Array]) -> PyResult<Vec<DeviceArray>> {
    arrays.iter().map(Array::on_device).collect()
}

fn optional(array: Option<&Array>) -> PyResult<Option<DeviceArray>> {
    array.map(Array::on_device).transpose()
}

/// Writes values on the host, if there is an array for them.
fn write(values: &[f64], to: Option<&Array>) -> PyResult<()> {
    // SAFETY: the Python part keeps the array alive.
    to.map_or(Ok(()), |to| unsafe { to.0.write(values) }.map_err(raise))
}

impl Form {
    /// Makes the problem of coefficients on the host.
    fn on_host(&self, kappa: &[Array], reaction: Option<&Array>) -> PyResult<LinearSystem> {
        let mut problem = self.problem.clone();
        problem.coefficient = coefficient(problem.shape, kappa)?;
        problem.reaction = reaction.map(Array::values).transpose()?;
        LinearSystem::from_diffusion(problem).map_err(raise_problem)
    }
}

#[pymethods]
impl Form {
    /// Copies the widths and sides of a problem, to a GPU if there is a number.
    #[new]
    fn new(py: Python<'_>, given: Given, device: Option<usize>) -> PyResult<Self> {
        let problem = given.form()?;
        let on_gpu = |device| problem::Form::new(&Cuda::shared(device)?, problem.clone());
        let gpu = py.detach(|| device.map(on_gpu).transpose()).map_err(raise)?;
        Ok(Self { problem, gpu })
    }

    /// Makes the system of these coefficients, and checks sources and wells. Coefficients on a GPU must stay alive until a solver is made or updated; they are
    /// examined there.
    fn system(&self, py: Python<'_>, kappa: Vec<Array>, reaction: Option<Array>) -> PyResult<System> {
        let Some(gpu) = &self.gpu else {
            return py.detach(|| self.on_host(&kappa, reaction.as_ref())).map(|inner| System { inner });
        };
        let (kappa, reaction) = (on_device(&kappa)?, optional(reaction.as_ref())?);
        let matrix = py.detach(|| {
            gpu.check_points(&kappa)?;
            gpu.examined(gpu.stencil(&kappa, reaction.as_ref())?)
        });
        Ok(System { inner: LinearSystem::from_matrix(Matrix::Diffusion(matrix.map_err(raise)?)) })
    }

    /// Writes the right-hand side for a source density.
    fn rhs(&self, py: Python<'_>, kappa: Vec<Array>, body: Option<Array>, out: Array) -> PyResult<()> {
        let Some(gpu) = &self.gpu else {
            return py.detach(|| System { inner: self.on_host(&kappa, None)? }.write_rhs(body.as_ref(), &out));
        };
        let (kappa, body, out) = (on_device(&kappa)?, optional(body.as_ref())?, out.on_device()?);
        py.detach(|| gpu.write_rhs(&kappa, body.as_ref(), &out)).map_err(raise)
    }

    /// Writes derivatives with respect to each κ, and to c and f, if there are arrays for them.
    fn gradient(
        &self,
        py: Python<'_>,
        kappa: Vec<Array>,
        pair: [Array; 2],
        moves_rhs: bool,
        by_kappa: Vec<Array>,
        others: [Option<Array>; 2],
    ) -> PyResult<()> {
        let Some(gpu) = &self.gpu else {
            let (system, [u, adjoint]) = (self.on_host(&kappa, None)?, [pair[0].values()?, pair[1].values()?]);
            let problem = system.diffusion().map_err(raise_case)?;
            let found = problem.gradient(&u, &adjoint, moves_rhs).map_err(raise)?;
            by_kappa.iter().zip(&found).try_for_each(|(to, values)| write(values, Some(to)))?;
            let [by_f, by_reaction] = problem.density_gradient(&u, &adjoint);
            write(&by_reaction, others[0].as_ref())?;
            return write(&by_f, others[1].as_ref());
        };
        let (kappa, by_kappa) = (on_device(&kappa)?, on_device(&by_kappa)?);
        let [u, adjoint] = [pair[0].on_device()?, pair[1].on_device()?];
        let [reaction, body] = [optional(others[0].as_ref())?, optional(others[1].as_ref())?];
        let wanted = Derivatives { kappa: &by_kappa, reaction, body };
        py.detach(|| gpu.gradient(&kappa, [&u, &adjoint], moves_rhs, wanted)).map_err(raise)
    }

    /// Writes derivatives with respect to the value and the coefficient of every face of a side; axis 0 is x. The outputs have one cell across the side.
    fn side_gradient(
        &self,
        py: Python<'_>,
        kappa: Vec<Array>,
        pair: [Array; 2],
        side: (usize, bool),
        moves_rhs: bool,
        out: [Array; 2],
    ) -> PyResult<()> {
        let side = (axis(side.0)?, side.1);
        let Some(gpu) = &self.gpu else {
            let (system, [u, adjoint]) = (self.on_host(&kappa, None)?, [pair[0].values()?, pair[1].values()?]);
            let problem = system.diffusion().map_err(raise_case)?;
            let found = problem.side_gradient(&u, &adjoint, side.0, side.1, moves_rhs).map_err(raise)?;
            write(&found.value, Some(&out[0]))?;
            return write(&found.coefficient, Some(&out[1]));
        };
        let kappa = on_device(&kappa)?;
        let [u, adjoint] = [pair[0].on_device()?, pair[1].on_device()?];
        let out = [out[0].on_device()?, out[1].on_device()?];
        let wanted = [&out[0], &out[1]];
        py.detach(|| gpu.side_gradient(&kappa, [&u, &adjoint], side, moves_rhs, wanted)).map_err(raise)
    }
}
