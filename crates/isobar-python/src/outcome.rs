//! Outcomes of a solve.

use std::sync::Arc;

use isobar::Description;
use isobar_case::Label;
use isobar_case::report::{Checks, Seconds, has_solution, to_json};
use pyo3::prelude::*;

use crate::error::of_arguments;

/// The outcome of a solve.
#[pyclass(frozen)]
pub(crate) struct Outcome {
    pub(crate) inner: isobar::Outcome,
    pub(crate) label: Arc<Label>,
    pub(crate) description: Arc<Description>,
    pub(crate) seconds: Seconds,
}

#[pymethods]
impl Outcome {
    #[getter]
    fn converged(&self) -> bool {
        self.inner.converged()
    }

    #[getter]
    fn stop(&self) -> String {
        self.inner.stop.to_string()
    }

    #[getter]
    fn iterations(&self) -> usize {
        self.inner.iterations
    }

    #[getter]
    fn residual(&self) -> f64 {
        self.inner.relative_residual
    }

    #[getter]
    fn history(&self) -> Vec<f64> {
        self.inner.history.clone()
    }

    /// The largest relative residual and the iterations of each line of a batch.
    #[getter]
    fn batch(&self) -> Option<(f64, Vec<usize>)> {
        self.inner.batch.as_ref().map(|batch| (batch.worst, batch.iterations.clone()))
    }

    #[getter]
    fn notes(&self) -> Vec<String> {
        self.inner.notes.iter().cloned().map(of_arguments).collect()
    }

    #[getter]
    fn advice(&self) -> Option<String> {
        self.inner.advice.clone().map(of_arguments)
    }

    /// An estimate of the relative error of the solution, if the method gives one.
    #[getter]
    fn error_estimate(&self) -> Option<f64> {
        self.inner.error_estimate
    }

    #[getter]
    fn has_solution(&self) -> bool {
        has_solution(&self.inner)
    }

    #[getter]
    fn seconds(&self) -> f64 {
        self.inner.timing.solve
    }

    /// Returns the report as JSON, with the sum and the 2-norm of the solution if given.
    #[pyo3(signature = (checks=None))]
    fn report(&self, checks: Option<(f64, f64)>) -> String {
        let checks = checks.map_or(Checks::NONE, |(sum, norm2)| Checks { sum, norm2 });
        to_json(&self.label.report(&self.description, &self.inner, checks, self.seconds))
    }
}
