//! Solvers.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use isobar::internals::OfProcess;
use isobar::{Description, Device, Guess, Progress, RawArray};
use isobar_case::report::Seconds;
use isobar_case::{Label, solver_options};
use pyo3::prelude::*;

use crate::array::Array;
use crate::error::{of_arguments, raise, raise_problem, raise_solve};
use crate::observer::{Watch, watched};
use crate::outcome::Outcome;
use crate::system::System;

/// A solver; concurrent calls wait for each other.
#[pyclass(frozen)]
pub(crate) struct Solver {
    // Outside the lock, which another thread may have held when the process was forked.
    inner: OfProcess<Mutex<isobar::Solver>>,
    label: Arc<Label>,
    description: Mutex<Arc<Description>>,
    setup: f64,
}

#[pymethods]
impl Solver {
    /// Makes a solver. `options` is the text of a case's [solver]; `None` means the system's options.
    #[new]
    fn new(
        py: Python<'_>,
        system: &System,
        options: Option<&str>,
        device: &str,
        threads: Option<usize>,
    ) -> PyResult<Self> {
        let clock = Instant::now();
        let system = &system.inner;
        let options = match options {
            Some(text) => solver_options(text).map_err(raise_problem)?,
            None => system.options(),
        };
        let solver = py.detach(|| system.matrix.solver(&Device::parse(device, threads)?, &options)).map_err(raise)?;
        let (label, description) = (Arc::new(system.label()), Mutex::new(Arc::new(described(&solver))));
        let inner = OfProcess::new("the solver", Mutex::new(solver));
        Ok(Self { inner, label, description, setup: clock.elapsed().as_secs_f64() })
    }

    /// Solves A u = b; the first guess is the content of `u`, or 0. If it `projects`, the part of b that A cannot produce is removed.
    fn solve(
        &self,
        py: Python<'_>,
        b: Array,
        u: Array,
        from_u: bool,
        progress: Option<Py<PyAny>>,
        projects: bool,
    ) -> PyResult<Outcome> {
        let clock = Instant::now();
        let inner = self.watch(py, progress, |solver, watch| {
            // SAFETY: the Python part keeps both arrays alive during the call.
            let mut solve = |solver: &mut isobar::Solver| unsafe {
                let observe = &mut |seen: &Progress| watch.observe(seen);
                RawArray::with(&b.0, &u.0, |b, u| solver.solve_observed(b, u, guess(from_u), observe))
            };
            if projects { solver.projecting(solve) } else { solve(solver) }
        })?;
        Ok(self.outcome(inner, clock.elapsed().as_secs_f64()))
    }

    /// Solves several systems, until one is interrupted.
    fn solve_many(
        &self,
        py: Python<'_>,
        b: Vec<Array>,
        u: Vec<Array>,
        from_u: bool,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Vec<Outcome>> {
        let clock = Instant::now();
        let systems = b.into_iter().zip(u).map(|(b, u)| (b.0, u.0));
        let outcomes = self.watch(py, progress, |solver, watch| {
            // SAFETY: the Python part keeps the arrays alive during the call; no u overlaps the b of another system.
            unsafe { solver.solve_many_raw(systems, guess(from_u), &mut |seen| watch.observe(seen)) }
        })?;
        // Time of the call outside the solves is divided equally.
        let seconds = clock.elapsed().as_secs_f64() / outcomes.len() as f64;
        Ok(outcomes.into_iter().map(|inner| self.outcome(inner, seconds)).collect())
    }

    /// Computes v = A u.
    fn apply(&self, py: Python<'_>, u: Array, v: Array) -> PyResult<()> {
        // SAFETY: the Python part keeps both arrays alive during the call.
        self.watch(py, None, |solver, _| unsafe { RawArray::with(&u.0, &v.0, |u, v| solver.apply(u, v)) })
    }

    /// Computes z ≈ A⁻¹ r by a fixed linear map.
    fn precondition(&self, py: Python<'_>, r: Array, z: Array, iterations: usize) -> PyResult<()> {
        // SAFETY: the Python part keeps both arrays alive during the call.
        self.watch(py, None, |solver, _| unsafe {
            RawArray::with(&r.0, &z.0, |r, z| solver.precondition(r, z, iterations))
        })
    }

    /// Changes the coefficients.
    fn update(&self, py: Python<'_>, system: &System) -> PyResult<()> {
        self.watch(py, None, |solver, _| system.inner.matrix.update(solver))
    }

    #[getter]
    fn method(&self) -> String {
        self.description().method.clone()
    }

    #[getter]
    fn preconditioner(&self) -> String {
        self.description().preconditioner.clone()
    }

    #[getter]
    fn precision(&self) -> String {
        self.description().precision.to_string()
    }

    /// Returns ("cpu" or "cuda", its name).
    #[getter]
    fn device(&self) -> (String, String) {
        let description = self.description();
        (description.device.kind.to_owned(), description.device.name.clone())
    }

    #[getter]
    fn notes(&self) -> Vec<String> {
        self.description().notes.iter().cloned().map(of_arguments).collect()
    }
}

/// Returns the solver's description, with notes about options that it does not use.
fn described(solver: &isobar::Solver) -> Description {
    let mut description = solver.description().clone();
    description.notes.extend_from_slice(solver.unused_options());
    description
}

/// Returns the first guess.
fn guess(from_u: bool) -> Guess {
    if from_u { Guess::Given } else { Guess::Zero }
}

impl Solver {
    /// Calls the solver with the interpreter released, and keeps its description afterwards.
    fn watch<R: Send>(
        &self,
        py: Python<'_>,
        progress: Option<Py<PyAny>>,
        call: impl FnOnce(&mut isobar::Solver, &mut Watch) -> isobar::Result<R> + Send,
    ) -> PyResult<R> {
        let found = watched(py, std::ptr::from_ref(self).addr(), progress, |watch| {
            let solver = self.inner.get()?;
            let mut solver = solver.lock().unwrap_or_else(PoisonError::into_inner);
            let found = call(&mut solver, watch);
            self.describe(&solver);
            found
        })?;
        found.map_err(raise_solve)
    }

    /// Makes the outcome for Python; `seconds` are those of the call.
    fn outcome(&self, inner: isobar::Outcome, seconds: f64) -> Outcome {
        let seconds = Seconds::of_solve(self.setup, &inner, seconds);
        Outcome { inner, label: Arc::clone(&self.label), description: self.description(), seconds }
    }

    fn description(&self) -> Arc<Description> {
        Arc::clone(&self.description.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Keeps the solver's description: a solve or an update may have replaced the method by a fallback.
    fn describe(&self, solver: &isobar::Solver) {
        let (now, mut known) = (solver.description(), self.description.lock().unwrap_or_else(PoisonError::into_inner));
        let named = |of: &Description| (of.method.clone(), of.preconditioner.clone(), of.precision);
        let notes = now.notes.len() + solver.unused_options().len();
        if (named(now), notes) != (named(&known), known.notes.len()) {
            *known = Arc::new(described(solver));
        }
    }
}
