//! The native part of isobar for Python. The public interface is in `python/isobar/`, which passes arrays as addresses.
//!
//! * `system`: problems; `form`: those whose coefficients are on a GPU,
//! * `solver`, `stepper`: linear solves and time steps,
//! * `function`: solutions as functions of coefficients and of a `geometry`, with solvers that are `kept`; `solution`: those for Python; `handler`: for XLA, which calls it
//!   by the interface in `xla`,
//! * `outcome`: results; `effective`: conductivities of samples,
//! * `array`, `dlpack`, `labels`: arrays of Python's libraries,
//! * `interrupt`: Ctrl-C,
//! * `error`: exceptions.

mod array;
mod dlpack;
mod effective;
mod error;
mod form;
mod function;
mod geometry;
mod handler;
mod interrupt;
mod kept;
mod labels;
mod observer;
mod outcome;
mod solution;
mod solver;
mod stepper;
mod system;
mod xla;

#[global_allocator]
static ALLOCATOR: isobar::LargePages = isobar::LargePages;

use std::ffi::OsString;

use pyo3::prelude::*;

/// Runs the `isobar` command; returns its exit status.
#[pyfunction]
fn main(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    py.detach(|| isobar_cli::main_with(arguments))
}

/// A device: its name in options, its model, bytes of memory, threads, compute capability, measured copy bandwidth in bytes per second,
/// and why it cannot be used.
type GivenDevice = (String, String, Option<f64>, Option<usize>, Option<(i32, i32)>, Option<f64>, Option<String>);

/// Lists the devices of this machine.
#[pyfunction]
fn devices(py: Python<'_>, measure: bool) -> PyResult<Vec<GivenDevice>> {
    let (found, _) = py.detach(|| isobar_case::devices::find(None, measure)).map_err(error::raise)?;
    let given = found.into_iter().map(|found| {
        let (bandwidth, problem) = match found.bandwidth {
            Ok(bandwidth) => (bandwidth, None),
            Err(error) => (None, Some(error.to_string())),
        };
        (found.device, found.name, found.memory, found.threads, found.capability, bandwidth, problem)
    });
    Ok(given.collect())
}

/// The native part of isobar; use the package `isobar`.
#[pymodule]
fn _isobar(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<system::System>()?;
    module.add_class::<form::Form>()?;
    module.add_class::<solver::Solver>()?;
    module.add_class::<stepper::Stepper>()?;
    module.add_class::<solution::Solution>()?;
    module.add_class::<outcome::Outcome>()?;
    module.add_class::<dlpack::Borrowed>()?;
    module.add_function(wrap_pyfunction!(main, module)?)?;
    module.add_function(wrap_pyfunction!(devices, module)?)?;
    module.add_function(wrap_pyfunction!(handler::xla_handlers, module)?)?;
    module.add_function(wrap_pyfunction!(effective::effective, module)?)?;
    Ok(())
}
