//! isobar for Python: the part that Python cannot do. What users see is in `python/isobar/`, which hands arrays over as
//! addresses.
//!
//! * `system` what is to be solved,
//! * `solver`, `stepper` solving, once and through time,
//! * `outcome` what came of it, `effective` conductivities of samples,
//! * `array`, `dlpack`, `labels` arrays of Python's libraries,
//! * `interrupt` Ctrl-C,
//! * `error` exceptions.

mod array;
mod dlpack;
mod effective;
mod error;
mod interrupt;
mod labels;
mod observer;
mod outcome;
mod solver;
mod stepper;
mod system;

use std::ffi::OsString;

use pyo3::prelude::*;

/// The `isobar` command; returns its exit status.
#[pyfunction]
fn main(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    py.detach(|| isobar_cli::main_with(arguments))
}

/// Native part of isobar; use the package `isobar`.
#[pymodule]
fn _isobar(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<system::System>()?;
    module.add_class::<solver::Solver>()?;
    module.add_class::<stepper::Stepper>()?;
    module.add_class::<outcome::Outcome>()?;
    module.add_class::<dlpack::Borrowed>()?;
    module.add_function(wrap_pyfunction!(main, module)?)?;
    module.add_function(wrap_pyfunction!(effective::effective, module)?)?;
    Ok(())
}
