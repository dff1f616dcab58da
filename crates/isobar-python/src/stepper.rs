//! Time steps of the heat equation.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use isobar::internals::OfProcess;
use isobar::options::{Scheme, StepGuess, Steps};
use isobar::problem::Heat;
use isobar::{Description, Device, HeatOptions, Shape, TimeStepper};
use isobar_case::heat::Parts;
use isobar_case::report::Seconds;
use isobar_case::{Case, Label, Problem, solver_options};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::array::Array;
use crate::error::{raise, raise_case, raise_problem};
use crate::observer::watched;
use crate::outcome::Outcome;
use crate::system::{Given, overrides};

/// A run of the heat equation.
#[pyclass(frozen)]
pub(crate) struct Stepper {
    // Outside the lock, which another thread may have held when the process was forked.
    inner: OfProcess<Mutex<TimeStepper>>,
    label: Arc<Label>,
    description: Arc<Description>,
    coordinates: [Vec<f64>; 3],
    shape: Shape,
}

/// (number, time, length, estimated error, iterations, whether it was accepted, the outcome of its solve)
type Step = (usize, f64, f64, Option<f64>, usize, bool, Outcome);

impl Stepper {
    fn start(
        case: String,
        heat: Heat,
        initial: Option<Vec<f64>>,
        options: HeatOptions,
        solver: &isobar::options::SolverOptions,
        device: &Device,
    ) -> isobar::Result<Self> {
        let (shape, coordinates) = (heat.shape(), heat.coordinates.clone());
        let mut inner = TimeStepper::new(device, heat, options, solver)?;
        if let Some(initial) = initial {
            inner.set(&initial)?;
        }
        let description = Arc::new(inner.description().clone());
        let label = Arc::new(Label { case, kind: "heat", shape });
        let inner = OfProcess::new("the time stepper", Mutex::new(inner));
        Ok(Self { inner, label, description, coordinates, shape })
    }

    /// Returns the description of the solver, which a slow step may have changed.
    fn described(&self, stepper: &TimeStepper) -> Arc<Description> {
        let now = stepper.description();
        let of = |description: &Description| (description.method.clone(), description.preconditioner.clone());
        if of(now) == of(&self.description) { Arc::clone(&self.description) } else { Arc::new(now.clone()) }
    }

    fn lock(&self) -> isobar::Result<MutexGuard<'_, TimeStepper>> {
        self.inner.get().map(|stepper| stepper.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[pymethods]
impl Stepper {
    /// Begins a run from arrays; the state is 0.
    #[new]
    fn new(
        py: Python<'_>,
        given: Given,
        source: Option<Array>,
        steps: (f64, f64, Option<f64>, String, bool),
        options: &str,
        device: &str,
        threads: Option<usize>,
    ) -> PyResult<Self> {
        let (dt, end, error, scheme, extrapolates) = steps;
        let (problem, body) =
            py.detach(|| PyResult::Ok((given.problem()?, source.map(|f| f.values()).transpose()?)))?;
        let solver = solver_options(options).map_err(raise_problem)?;
        let scheme = match scheme.as_str() {
            "crank-nicolson" => Scheme::CrankNicolson,
            "backward-euler" => Scheme::BackwardEuler,
            other => {
                let message = format!("scheme {other:?}; use \"crank-nicolson\" or \"backward-euler\"");
                return Err(PyValueError::new_err(message));
            }
        };
        let guess = if extrapolates { StepGuess::Extrapolated } else { StepGuess::Previous };
        py.detach(|| {
            let options = HeatOptions { steps: Steps::new(dt, end)?, error, scheme, guess };
            let heat = Heat::in_cells(&problem, body)?;
            Self::start("arrays".into(), heat, None, options, &solver, &Device::parse(device, threads)?)
        })
        .map_err(raise)
    }

    /// Begins the run of a case of kind "heat", with its initial state.
    #[staticmethod]
    fn from_case(
        py: Python<'_>,
        path: PathBuf,
        changes: Vec<(String, String)>,
        device: &str,
        threads: Option<usize>,
    ) -> PyResult<Self> {
        py.detach(|| {
            let case = Case::load(path, &overrides(&changes)).map_err(raise_case)?;
            let Problem::Heat(heat) = &case.problem else {
                return Err(PyValueError::new_err(format!("{}: problem.kind must be \"heat\"", case.name())));
            };
            let Parts { heat: problem, initial, .. } = heat.parts().map_err(raise_case)?;
            let device = Device::parse(device, threads).map_err(raise)?;
            Self::start(case.name(), problem, Some(initial), heat.options(), &case.solver, &device).map_err(raise)
        })
    }

    /// Replaces the state; step number and time continue.
    fn replace(&self, py: Python<'_>, state: Array) -> PyResult<()> {
        // SAFETY: the Python part keeps the array alive during the call.
        let source = unsafe { state.0.source() }.map_err(raise)?;
        py.detach(|| self.lock()?.replace(source)).map_err(raise)
    }

    /// Changes coefficients, sides and sources from the next step on.
    fn update(&self, py: Python<'_>, given: Given, source: Option<Array>) -> PyResult<()> {
        let (problem, body) =
            py.detach(|| PyResult::Ok((given.problem()?, source.map(|f| f.values()).transpose()?)))?;
        py.detach(|| {
            let heat = Heat::in_cells(&problem, body)?;
            self.lock()?.update(heat)
        })
        .map_err(raise)
    }

    /// Takes the next step.
    fn step(&self, py: Python<'_>, progress: Option<Py<PyAny>>) -> PyResult<Step> {
        let stepped = watched(py, std::ptr::from_ref(self).addr(), progress, |watch| {
            let mut stepper = self.lock()?;
            let step = stepper.step_observed(&mut |seen| watch.observe(seen))?;
            Ok((step, self.described(&stepper)))
        })?;
        let (step, description) = stepped.map_err(raise)?;
        let seconds = Seconds::of_solve(0.0, &step.outcome, step.outcome.timing.solve);
        let label = Arc::clone(&self.label);
        let outcome = Outcome { inner: step.outcome, label, description, seconds };
        Ok((step.number, step.time, step.dt, step.error, step.iterations, step.is_taken, outcome))
    }

    /// Writes the state to an array.
    fn state(&self, py: Python<'_>, out: Array) -> PyResult<()> {
        // SAFETY: the Python part keeps the array alive during the call.
        let target = unsafe { out.0.target() }.map_err(raise)?;
        py.detach(|| self.lock()?.state(target)).map_err(raise)
    }

    /// Computes the energy ½ uᵀKu − sᵀu.
    fn energy(&self, py: Python<'_>) -> PyResult<f64> {
        py.detach(|| self.lock()?.energy()).map_err(raise)
    }

    /// Returns (steps taken, time, whether the end time is reached).
    fn moment(&self, py: Python<'_>) -> PyResult<(usize, f64, bool)> {
        // A step in another thread holds the lock and may need the interpreter.
        py.detach(|| {
            let stepper = self.lock()?;
            let moment = stepper.moment();
            Ok((moment.steps, moment.time, stepper.is_finished()))
        })
        .map_err(raise)
    }

    /// Returns (nz, ny, nx).
    #[getter]
    fn shape(&self) -> (usize, usize, usize) {
        (self.shape.nz, self.shape.ny, self.shape.nx)
    }

    /// Returns the cell centres in x, y and z.
    #[getter]
    fn coordinates(&self) -> [Vec<f64>; 3] {
        self.coordinates.clone()
    }
}
