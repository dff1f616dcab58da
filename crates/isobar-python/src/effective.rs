//! Effective conductivities.

use isobar::stencil::Axis;
use isobar::{Device, Sample};
use isobar_case::memory;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyByteArray;

use crate::array::bytes_of;
use crate::error::{raise, raise_case};
use crate::observer::watched;
use crate::system::Given;

/// Axis, conductivity, tortuosity, porosity, connected fraction, bounds, imbalance, for a solve whether it converged, its iterations
/// and its advice, and u if it is wanted.
type Found<U> = (usize, f64, f64, f64, f64, [f64; 2], f64, Option<(bool, usize, Option<String>)>, Option<U>);

/// A number that no solver has.
const NO_SOLVER: usize = usize::MAX;

/// Computes the effective conductivities of a sample along axes 0 (x), 1 and 2.
#[pyfunction]
pub(crate) fn effective<'py>(
    py: Python<'py>,
    given: Given,
    axes: Vec<usize>,
    tolerance: f64,
    device: &str,
    threads: Option<usize>,
    wants_potential: bool,
) -> PyResult<Vec<Found<Bound<'py, PyByteArray>>>> {
    let options = Sample::options(tolerance);
    options
        .validate()
        .map_err(|error| PyValueError::new_err(error.to_string().replacen("solver.tolerance", "tolerance", 1)))?;
    let axes = axes.into_iter().filter_map(|axis| Axis::ALL.get(axis).copied());
    let found = watched(py, NO_SOLVER, None, |watch| {
        let is_first = threads.is_some() || device == "cpu";
        let opened = Device::open_while(is_first, || Device::parse(device, threads), || given.sample());
        let (device, sample) = opened.map_err(raise)?;
        let mut sample = sample?;
        axes.map(|axis| {
            let room = || memory::fill("the potential", sample.shape().cells(), |_, _: &mut [f64]| {});
            let mut u = wants_potential.then(room).transpose().map_err(raise_case)?;
            let solution = u.as_deref_mut();
            let found =
                sample.along(axis, &device, &options, solution, &mut |seen| watch.observe(seen)).map_err(raise)?;
            let outcome = found.outcome.map(|outcome| (outcome.converged(), outcome.iterations, outcome.advice));
            let isobar::Effective { conductivity, tortuosity, porosity, connected, bounds, imbalance, .. } = found;
            Ok((axis as usize, conductivity, tortuosity, porosity, connected, bounds, imbalance, outcome, u))
        })
        .collect::<PyResult<Vec<Found<Vec<f64>>>>>()
    })??;
    let with_bytes = |(a, b, c, d, e, f, g, h, u): Found<Vec<f64>>| {
        Ok((a, b, c, d, e, f, g, h, u.map(|u| bytes_of(py, &u)).transpose()?))
    };
    found.into_iter().map(with_bytes).collect()
}
