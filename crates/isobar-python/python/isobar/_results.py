"""Results of a solve."""

from __future__ import annotations

import json
import os
import sys
import warnings
from typing import TYPE_CHECKING, Any, Iterator, NamedTuple

import numpy as np

from isobar._arrays import on_host
from isobar._gradient import Gradient, describe, gradient


class NotConvergedWarning(UserWarning):
    """A solve stopped before it met the tolerance. Its result says why, and what to try."""


class NotConvergedError(RuntimeError):
    """A solve, or the adjoint solve, did not converge, so that derivatives cannot be computed."""


def warn_not_converged(text: str) -> None:
    """Issue a `NotConvergedWarning` at the line that called the package."""
    package, frame, level = os.path.dirname(__file__) + os.sep, sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(package):
        frame, level = frame.f_back, level + 1
    warnings.warn(text, NotConvergedWarning, stacklevel=level)


class Batch(NamedTuple):
    """Results of the independent lines of a batch (``solver.jacobi.batch``)."""

    worst: float
    """The largest relative residual of a line."""
    iterations: np.ndarray
    """Iterations of each line."""


class Result:
    """The result of a solve. `converged` means that the true residual, computed from `x` in double precision, meets the tolerance."""

    __slots__ = {
        "_centres": None,
        "_origin": None,
        "_outcome": None,
        "_report": None,
        "steps": "The time steps of a heat equation; else None.",
        "tolerance": "The tolerance of the relative residual.",
        "x": "The solution, an array of the same library as b.",
    }

    def __init__(self, x, outcome, tolerance, steps=None, origin=None, centres=None):
        self.x = x
        self.tolerance = tolerance
        self.steps = steps
        self._outcome = outcome
        self._report = None
        # A weak reference to the solver, the problem, the arguments for making an equal solver, and a sample of x; of time steps the problem only.
        self._origin = origin
        # Those of a case's time steps, which have no problem.
        self._centres = centres

    @property
    def converged(self) -> bool:
        """Whether the true residual meets the tolerance."""
        return self._outcome.converged

    @property
    def residual(self) -> float:
        """‖b − A x‖ relative to ‖b‖ (or as selected by ``norm``), in double precision."""
        return self._outcome.residual

    @property
    def error_estimate(self) -> float | None:
        """An estimate of ‖x − A⁻¹b‖ / ‖x‖, if conjugate gradients give one; else None. It can be far larger than the residual.

        A body that is held at 1 by a large reaction makes ‖b‖ large, and the residual elsewhere small in comparison. A method that isobar chose
        continues from a gross error; one that was asked for says so in ``notes``:

        >>> held = np.zeros((24, 24))
        >>> held[8:12, 8:12] = 1e8
        >>> problem = isobar.Diffusion(np.ones((24, 24)), spacing=1.0, boundary=0.0, reaction=held)
        >>> for tolerance in (1e-8, 1e-14):
        ...     result = isobar.Solver(problem, "cg", tolerance=tolerance).solve(problem.rhs(held))
        ...     print(result.converged, result.error_estimate > 0.1)
        True True
        True False
        """
        return self._outcome.error_estimate

    @property
    def iterations(self) -> int:
        """Number of iterations; for time steps, their sum and those of a last step that failed."""
        if self.steps is None:
            return self._outcome.iterations
        return sum(step.iterations for step in self.steps) + (0 if self.converged else self._outcome.iterations)

    @property
    def history(self) -> np.ndarray:
        """The relative residual after 0, 1, 2, … iterations."""
        return np.array(self._outcome.history)

    @property
    def batch(self) -> Batch | None:
        """The results of a batch of lines; else None."""
        batch = self._outcome.batch
        return None if batch is None else Batch(batch[0], np.array(batch[1]))

    @property
    def stop(self) -> str:
        """Why the solve ended, one of converged, max_iterations, stagnated, breakdown, diverged and interrupted."""
        return self._outcome.stop

    @property
    def notes(self) -> list[str]:
        """Events of the solve, such as a fallback to another preconditioner."""
        return self._outcome.notes

    @property
    def advice(self) -> str | None:
        """What to try next, if the solve did not converge."""
        return self._outcome.advice

    @property
    def seconds(self) -> float:
        """Seconds of the solve, without copying arrays to and from the device."""
        return self._outcome.seconds

    @property
    def report(self) -> dict:
        """The full report, with the keys of the command's ``--report``."""
        if self._report is None:
            checks = None
            if isinstance(self.x, np.ndarray):
                values = np.asarray(self.x, dtype=np.float64)
                checks = float(values.sum()), float(np.sqrt((values * values).sum()))
            self._report = json.loads(self._outcome.report(checks))
            if self.steps is not None:
                self._report["outcome"]["iterations"] = self.iterations
                self._report["steps"] = [step.as_dict() for step in self.steps]
        return self._report

    def gradient(self, xbar: Any, *, fixed_b: bool = False, failure: str = "raise") -> Gradient:
        """Compute the derivatives of a number J(x) with respect to b, κ, c and f from ``xbar`` = ∂J/∂x, by one more solve with the same solver.

        Since A is symmetric, ∂J/∂b = λ with A λ = ∂J/∂x. The derivative with respect to the transmissibility of the face between cells m and n is
        −(λ_m − λ_n)(x_m − x_n); derivatives with respect to κ (`Diffusion` only) follow by the chain rule. If the matrix is singular, λ has mean 0,
        as x does.

        Parameters
        ----------
        xbar
            ∂J/∂x, an array of the problem's shape, on the host or on the device.
        fixed_b
            False: b is ``problem.rhs(f)``, which changes with κ if there are boundary values, wells or sources. True: b does not change.
        failure
            If the solve or the adjoint solve did not converge: ``"raise"`` `NotConvergedError`, or return ``"nan"`` everywhere.

        Errors of the derivatives are proportional to the tolerance of the solver. If the solver was deleted or updated since the solve, an equal one
        is made, which takes time; so compute gradients first.

        Do not modify `x` between the solve and its derivatives, neither in place nor as the `out` of another solve: pass ``result.x - data``, which is a
        new array, not ``result.x`` after ``result.x -= data``. A sample of some 1000 elements is compared, and a change there is a `ValueError`.

        >>> problem = isobar.Diffusion(np.ones(8), boundary={"x": 0.0})
        >>> result = isobar.Solver(problem, tolerance=1e-12).solve(problem.rhs(1.0))
        >>> gradient = result.gradient(np.full(8, 1 / 8))              # of the mean of x
        >>> bool(np.isclose(gradient.kappa.sum(), -result.x.mean()))       # as x is in proportion to 1/κ
        True
        """
        return gradient(self, xbar, fixed_b, failure)

    def to_xarray(self, name: str = "u") -> Any:
        """Return the solution as an `xarray.DataArray` with the dimensions z, y and x, and the cell centres as coordinates if known.

        It is on the host; its attributes give the stop, the residual and the iterations.
        """
        try:
            from xarray import DataArray
        except ImportError:
            raise ImportError("to_xarray() needs xarray: pip install xarray") from None
        values = on_host(self.x)
        dims = ("z", "y", "x")[3 - values.ndim :]
        centres = self._centres if self._origin is None else self._origin[1].coordinates
        coords = None if centres is None or len(centres) != values.ndim else dict(zip(dims, centres))
        attributes = {"stop": self.stop, "relative_residual": self.residual, "iterations": self.iterations}
        return DataArray(values, coords=coords, dims=dims, name=name, attrs=attributes)

    def plot(self, ax: Any = None) -> Any:
        """Draw the convergence and a slice of the solution with matplotlib; return the figure. Inactive cells are blank."""
        try:
            import matplotlib.pyplot as plt
        except ImportError:
            raise ImportError("plot() needs matplotlib: pip install matplotlib") from None
        history = np.where(self.history > 0, self.history, np.nan)
        if ax is not None:
            _draw_history(ax, history, self.tolerance)
            return ax.figure
        values = on_host(self.x)
        if self._origin is not None:
            active = self._origin[1]._is_active().reshape(values.shape)
            values = np.where(active, values, np.nan)
        figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
        _draw_history(left, history, self.tolerance)
        if values.ndim == 1:
            right.plot(values)
            right.set_xlabel("i")
        else:
            layer = values if values.ndim == 2 else values[values.shape[0] // 2]
            figure.colorbar(right.imshow(layer, origin="lower", aspect="auto"), ax=right)
            right.set(xlabel="i", ylabel="j", title="u" if values.ndim == 2 else f"u, layer {values.shape[0] // 2}")
        return figure

    def __repr__(self) -> str:
        verdict = "converged" if self.converged else f"NOT converged ({self.stop.replace('_', ' ')})"
        count = self.iterations
        iterations = f"{count} iteration{'' if count == 1 else 's'}"
        steps = "" if self.steps is None else f", {len(self.steps)} step{'s' * (len(self.steps) != 1)}"
        estimate = self.error_estimate if self.steps is None else None
        error = f", estimated error {estimate:.0e}" if estimate is not None and estimate > max(1e-3, self.residual) else ""
        return f"<isobar.Result: {verdict} in {iterations}{steps}, relative residual {self.residual:.1e}{error}, x {tuple(self.x.shape)}>"

    def __reduce__(self):
        raise TypeError("isobar.Result cannot be pickled or copied: it refers to its problem; keep result.x and result.report")


class Results:
    """The results of several right-hand sides, each solved separately: `results` has the `Result` of each, and so has the object itself, as a sequence.

    >>> solver = isobar.Solver(isobar.Diffusion(np.ones((3, 4)), boundary=0.0), tolerance=1e-10)
    >>> several = solver.solve(np.ones((5, 3, 4)))
    >>> len(several.results), several.results[4].x.shape, bool((several.residual <= 1e-10).all())
    (5, (3, 4), True)
    >>> [result.converged for result in several] == [True] * len(several), several[-1] is several.results[4]
    (True, True)
    """

    __slots__ = {
        "results": "The `Result` of each system, in order; its x is a view of this x. Systems not solved after an interruption are missing.",
        "x": "The solutions, an array of the same shape and library as b.",
    }

    def __init__(self, x, results):
        self.x = x
        self.results = tuple(results)

    def __len__(self) -> int:
        return len(self.results)

    def __getitem__(self, n):
        return self.results[n]

    if TYPE_CHECKING:
        # Python iterates by __getitem__; type checkers ask for this.
        def __iter__(self) -> Iterator[Result]: ...

    @property
    def converged(self) -> bool:
        """Whether all systems converged."""
        return len(self.results) == len(self.x) and all(result.converged for result in self.results)

    @property
    def residual(self) -> np.ndarray:
        """The relative residual of each system, as `Result.residual`."""
        return np.array([result.residual for result in self.results])

    @property
    def iterations(self) -> np.ndarray:
        """The iterations of each system."""
        return np.array([result.iterations for result in self.results])

    @property
    def seconds(self) -> float:
        """Seconds of all solves added up, without copying arrays to and from the device; some run at the same time."""
        return sum(result.seconds for result in self.results)

    def _describe(self) -> str:
        """Return which systems did not converge, and why the first of them did not."""
        wrong = [n for n, result in enumerate(self.results) if not result.converged]
        shown = ", ".join(map(str, wrong[:8])) + (", …" if len(wrong) > 8 else "")
        missing = len(self.x) - len(self.results)
        left = f", {missing} not started" if missing else ""
        s = "" if len(self.x) == 1 else "s"
        text = f"{len(wrong)} of {len(self.x)} system{s} not converged ({shown}){left}"
        return f"{text}; system {wrong[0]}: {describe(self.results[wrong[0]])}" if wrong else text

    def __repr__(self) -> str:
        count, done = len(self.x), sum(result.converged for result in self.results)
        verdict = "all converged" if self.converged else f"{count - done} NOT converged"
        s = "" if count == 1 else "s"
        return f"<isobar.Results: {count} system{s}, {verdict}, largest relative residual {self.residual.max():.1e}, x {tuple(self.x.shape)}>"

    def __reduce__(self):
        raise TypeError("isobar.Results cannot be pickled or copied: they refer to their problem; keep their x, and the report of each of results")


def _draw_history(ax, history, tolerance):
    ax.semilogy(history, marker="o", markersize=3)
    ax.axhline(tolerance, linestyle="--", linewidth=1, color="grey")
    ax.set(xlabel="iteration", ylabel="relative residual")
