//! Solves with the interpreter released: Ctrl-C, other signals and progress functions.

use std::cell::Cell;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use isobar::Progress;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyBool;

use crate::interrupt::{self, Listening};

thread_local! {
    /// The solver whose progress function runs on this thread.
    static INSIDE: Cell<usize> = const { Cell::new(0) };
}

/// The interval at which Python's handlers of other signals than SIGINT run during a solve. Each run waits for the interpreter, which another thread may
/// hold for 5 ms.
const BETWEEN_SIGNALS: Duration = Duration::from_millis(100);

/// Observes a solve.
pub(crate) struct Watch {
    progress: Option<Py<PyAny>>,
    /// The number of the solver.
    owner: usize,
    /// Whether SIGINT is noted.
    is_listening: bool,
    /// The last time at which Python's handlers had a chance to run, on Python's main thread.
    handled: Option<Instant>,
    raised: Option<PyErr>,
}

impl Watch {
    /// Observes an iteration.
    pub(crate) fn observe(&mut self, seen: &Progress) -> ControlFlow<()> {
        if self.is_listening && interrupt::seen() {
            return ControlFlow::Break(());
        }
        let handles = self.handled.is_some_and(|last| last.elapsed() >= BETWEEN_SIGNALS);
        if !handles && self.progress.is_none() {
            return ControlFlow::Continue(());
        }
        let before = INSIDE.replace(self.owner);
        let goes_on = Python::attach(|py| {
            if handles {
                py.check_signals()?;
                self.handled = Some(Instant::now());
            }
            let Some(progress) = &self.progress else { return Ok(true) };
            let answer = progress.bind(py).call1((seen.iteration, seen.relative_residual))?;
            // Only False stops it: a function that returns nothing continues.
            Ok(!answer.cast::<PyBool>().is_ok_and(|answer| !answer.is_true()))
        });
        INSIDE.set(before);
        match goes_on {
            Ok(true) => ControlFlow::Continue(()),
            Ok(false) => ControlFlow::Break(()),
            Err(error) => {
                self.raised = Some(error);
                ControlFlow::Break(())
            }
        }
    }
}

/// Calls a function that solves, with the interpreter released, and raises the exception of Ctrl-C, of a signal's handler or of the progress function.
pub(crate) fn watched<R: Send>(
    py: Python<'_>,
    owner: usize,
    progress: Option<Py<PyAny>>,
    work: impl FnOnce(&mut Watch) -> R + Send,
) -> PyResult<R> {
    if INSIDE.get() == owner {
        return Err(PyRuntimeError::new_err(
            "the solver is in use; it cannot be called from its own progress function",
        ));
    }
    let is_main = is_main_thread(py)?;
    let listening = is_main.then(Listening::begin).flatten();
    let handled = is_main.then(Instant::now);
    let mut watch = Watch { progress, owner, is_listening: listening.is_some(), handled, raised: None };
    let result = py.detach(|| work(&mut watch));
    drop(listening);
    if let Some(error) = watch.raised {
        return Err(error);
    }
    py.check_signals()?;
    Ok(result)
}

/// Returns whether Python handles signals on this thread.
fn is_main_thread(py: Python<'_>) -> PyResult<bool> {
    use pyo3::sync::PyOnceLock;
    static THREADING: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let threading = THREADING.get_or_try_init(py, || py.import("threading").map(Bound::unbind))?.bind(py);
    let main = threading.call_method0("main_thread")?;
    main.getattr("ident")?.eq(threading.call_method0("get_ident")?)
}
