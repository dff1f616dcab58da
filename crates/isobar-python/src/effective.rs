//! Effective conductivities.

use isobar::stencil::Axis;
use isobar::{Device, Sample};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::error::raise;
use crate::observer::watched;
use crate::system::Given;

/// Axis, conductivity, tortuosity, porosity, connected fraction, bounds, imbalance, and for a solve whether it converged, its iterations
/// and its advice.
type Found = (usize, f64, f64, f64, f64, [f64; 2], f64, Option<(bool, usize, Option<String>)>);

/// A number that no solver has.
const NO_SOLVER: usize = usize::MAX;

/// Computes the effective conductivities of a sample along axes 0 (x), 1 and 2.
#[pyfunction]
pub(crate) fn effective(
    py: Python<'_>,
    given: Given,
    axes: Vec<usize>,
    tolerance: f64,
    device: &str,
    threads: Option<usize>,
) -> PyResult<Vec<Found>> {
    let options = Sample::options(tolerance);
    options
        .validate()
        .map_err(|error| PyValueError::new_err(error.to_string().replacen("solver.tolerance", "tolerance", 1)))?;
    let axes = axes.into_iter().filter_map(|axis| Axis::ALL.get(axis).copied());
    watched(py, NO_SOLVER, None, |watch| {
        let is_first = threads.is_some() || device == "cpu";
        let opened = Device::open_while(is_first, || Device::parse(device, threads), || given.sample());
        let (device, sample) = opened.map_err(raise)?;
        let mut sample = sample?;
        axes.map(|axis| {
            let found = sample.along(axis, &device, &options, None, &mut |seen| watch.observe(seen)).map_err(raise)?;
            let outcome = found.outcome.map(|outcome| (outcome.converged(), outcome.iterations, outcome.advice));
            let isobar::Effective { conductivity, tortuosity, porosity, connected, bounds, imbalance, .. } = found;
            Ok((axis as usize, conductivity, tortuosity, porosity, connected, bounds, imbalance, outcome))
        })
        .collect()
    })?
}
