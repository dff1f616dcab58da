//! The solution as a function, for Python.

use std::sync::Arc;

use isobar::RawArray;
use pyo3::prelude::*;

use crate::array::{Array, Batch};
use crate::error::{Failure, raise};
use crate::function::{Coefficients, Function, Has, Values};
use crate::observer::{Watch, watched};
use crate::system::System;

/// The function x(κ, c, f) of a problem, for `isobar.torch` and `isobar.jax`.
#[pyclass(frozen)]
pub(crate) struct Solution {
    function: Arc<Function>,
}

fn raw(arrays: &[Array]) -> Vec<RawArray> {
    arrays.iter().map(|array| array.0).collect()
}

fn kind(driven: bool) -> Values {
    if driven { Values::Densities } else { Values::Projected }
}

#[pymethods]
impl Solution {
    /// Makes the function of a problem, whose coefficients are not used. `options` is the text of a case's [solver].
    #[new]
    #[pyo3(signature = (system, options, device, threads, fills, derivative_tolerance))]
    fn new(
        py: Python<'_>,
        system: &System,
        options: &str,
        device: &str,
        threads: Option<usize>,
        fills: bool,
        derivative_tolerance: Option<f64>,
    ) -> PyResult<Self> {
        let function = Function::new(system.inner.clone(), options, device, threads, fills, derivative_tolerance);
        Ok(Self { function: function.map_err(|failure| failure.raise(py))? })
    }

    /// The number by which XLA finds it.
    #[getter]
    fn number(&self) -> i64 {
        self.function.number
    }

    /// Frees the solvers; another call makes new ones.
    fn release(&self, py: Python<'_>) {
        py.detach(|| self.function.release());
    }

    /// The numbers of solvers that were made, and of changes of coefficients in place, of those that are kept.
    #[getter]
    fn counts(&self, py: Python<'_>) -> PyResult<[usize; 2]> {
        py.detach(|| self.function.counts()).map_err(|failure| failure.raise(py))
    }

    /// Returns whether arrays on a GPU need not pass through the host.
    #[getter]
    fn stays_on_gpu(&self) -> bool {
        self.function.stays_on_gpu()
    }

    /// Writes the solution of A x = b to `out`. `fields` are the κ's, then c and the geometry's numbers if there are any.
    #[expect(clippy::too_many_arguments, reason = "Python's")]
    fn solve(
        &self,
        py: Python<'_>,
        fields: Vec<Array>,
        has_reaction: bool,
        has_geometry: bool,
        values: Array,
        driven: bool,
        out: Array,
    ) -> PyResult<()> {
        let one = |array: RawArray| Batch::new(array, Vec::new());
        let fields: Vec<_> = raw(&fields).into_iter().map(one).collect();
        let has = Has { reaction: has_reaction, geometry: has_geometry };
        self.watch(py, |function, watch| {
            let (values, out) = (one(values.0), one(out.0));
            // SAFETY: the Python part keeps the arrays alive during the call, and `out` is new.
            unsafe { function.solve(&fields, has, (&values, kind(driven)), &out, &mut |seen| watch.observe(seen)) }
        })
    }

    /// Writes derivatives of x with respect to f (or, if not `driven`, b), c and each κ to `outs`, where they are wanted; all arrays are on the host.
    fn pull_back(
        &self,
        py: Python<'_>,
        fields: Vec<Array>,
        has_reaction: bool,
        pair: [Array; 2],
        driven: bool,
        outs: Vec<Option<Array>>,
    ) -> PyResult<()> {
        let mut kappa = raw(&fields);
        let reaction = if has_reaction { kappa.pop() } else { None };
        let coefficients = Coefficients { kappa, reaction, geometry: None };
        let outs: Vec<_> = outs.iter().map(|out| out.as_ref().map(|out| out.0)).collect();
        if outs.len() != coefficients.kappa.len() + 2 {
            return Err(raise(isobar::Error::invalid("outs", "one for each of f, c and the κ's is needed")));
        }
        self.watch(py, |function, watch| {
            let pair = [&pair[0].0, &pair[1].0];
            // SAFETY: the Python part keeps the arrays alive during the call, and `outs` are new.
            unsafe { function.pull_back(&coefficients, pair, kind(driven), &outs, &mut |seen| watch.observe(seen)) }
        })
    }
}

impl Solution {
    /// Solves with the interpreter released.
    fn watch(
        &self,
        py: Python<'_>,
        solve: impl FnOnce(&Function, &mut Watch) -> Result<(), Failure> + Send,
    ) -> PyResult<()> {
        let owner = Arc::as_ptr(&self.function).addr();
        watched(py, owner, None, |watch| solve(&self.function, watch))?.map_err(|failure| failure.raise(py))
    }
}
