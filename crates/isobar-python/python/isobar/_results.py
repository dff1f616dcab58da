"""What came of a solve."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import numpy as np

from isobar._arrays import on_host
from isobar._gradient import Gradient, describe, gradient


class NotConvergedWarning(UserWarning):
    """A solve stopped before it met the tolerance. Its result says why, and what to try."""


class NotConvergedError(RuntimeError):
    """A derivative was asked for whose solve, or adjoint solve, did not converge."""


class Batch(NamedTuple):
    """What came of the lines of a batch (``solver.jacobi.batch``), each a problem of its own."""

    worst: float
    """The relative residual of the line where that is largest."""
    iterations: np.ndarray
    """How many each line took."""


class Result:
    """What came of a solve. `converged` means that the true residual, computed from `x` in double precision, meets the tolerance."""

    __slots__ = {
        "_origin": None,
        "_outcome": None,
        "_report": None,
        "steps": "Of the heat equation, the steps that were taken; else None.",
        "tolerance": "That the residual had to meet.",
        "x": "The solution, an array of the library of b.",
    }

    def __init__(self, x, outcome, tolerance, steps=None, origin=None):
        self.x = x
        self.tolerance = tolerance
        self.steps = steps
        self._outcome = outcome
        self._report = None
        # The solver, whose memory is not to be kept, the problem, and what another such solver is made with.
        self._origin = origin

    @property
    def converged(self) -> bool:
        """Whether the true residual meets the tolerance."""
        return self._outcome.converged

    @property
    def residual(self) -> float:
        """‖b − A x‖, relative to ‖b‖ (or as ``norm`` says), in double precision."""
        return self._outcome.residual

    @property
    def iterations(self) -> int:
        """How many were taken; of time steps, the sum."""
        return self._outcome.iterations if self.steps is None else sum(step.iterations for step in self.steps)

    @property
    def history(self) -> np.ndarray:
        """The relative residual after 0, 1, 2, … iterations."""
        return np.array(self._outcome.history)

    @property
    def batch(self) -> Batch | None:
        """Of a batch of lines, what came of them; else None."""
        batch = self._outcome.batch
        return None if batch is None else Batch(batch[0], np.array(batch[1]))

    @property
    def stop(self) -> str:
        """Why it ended, one of converged, max_iterations, stagnated, breakdown, diverged and interrupted."""
        return self._outcome.stop

    @property
    def notes(self) -> list[str]:
        """What happened on the way and should be known."""
        return self._outcome.notes

    @property
    def advice(self) -> str | None:
        """What can be tried next, where it did not converge."""
        return self._outcome.advice

    @property
    def seconds(self) -> float:
        """Of the solve, without moving arrays to and from the device."""
        return self._outcome.seconds

    @property
    def report(self) -> dict:
        """All there is to say, with the keys of the command's ``--report``."""
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
        """The derivatives of a number J(x) by b, κ, c and f, from ``xbar`` = ∂J/∂x, by one more solve with the same solver.

        As A is symmetric, ∂J/∂b = λ with A λ = ∂J/∂x. By the transmissibility of the face between cells m and n the derivative is
        −(λ_m − λ_n)(x_m − x_n), by κ (`Diffusion` only) it follows from that. Of a singular problem, whose x has the mean 0, λ has it too.

        Parameters
        ----------
        xbar
            ∂J/∂x, an array of the problem's shape; on the host or on the device.
        fixed_b
            False: b is ``problem.rhs(f)``, which changes with κ where values on sides, wells or sources are given. True: it does not change.
        failure
            What to do if the solve or the adjoint solve did not converge: ``"raise"`` `NotConvergedError`, or return ``"nan"`` everywhere.

        Its errors are in proportion to the tolerance of the solver. One that is gone, or has been updated since, is made once more, which takes
        time: take gradients while the solver is what it was.

        >>> problem = isobar.Diffusion(np.ones(8), boundary={"x": 0.0})
        >>> result = isobar.Solver(problem, tolerance=1e-12).solve(problem.rhs(1.0))
        >>> gradient = result.gradient(np.full(8, 1 / 8))              # of the mean of x
        >>> round(float(gradient.kappa.sum()), 6) == round(-float(result.x.mean()), 6)    # as x is in proportion to 1/κ
        True
        """
        return gradient(self, xbar, fixed_b, failure)

    def to_xarray(self, name: str = "u") -> Any:
        """The solution as an `xarray.DataArray` with the dimensions z, y and x, and the centres of cells as coordinates where they are known.

        On the host; its attributes say how the solve ended.
        """
        try:
            from xarray import DataArray
        except ImportError:
            raise ImportError("to_xarray() needs xarray: pip install xarray") from None
        values = on_host(self.x)
        dims = ("z", "y", "x")[3 - values.ndim :]
        centres = None if self._origin is None else self._origin[1].coordinates
        coords = None if centres is None or len(centres) != values.ndim else dict(zip(dims, centres))
        attributes = {"stop": self.stop, "relative_residual": self.residual, "iterations": self.iterations}
        return DataArray(values, coords=coords, dims=dims, name=name, attrs=attributes)

    def plot(self, ax: Any = None) -> Any:
        """Draw the convergence, and a slice of the solution, with matplotlib; returns the figure."""
        try:
            import matplotlib.pyplot as plt
        except ImportError:
            raise ImportError("plot() needs matplotlib: pip install matplotlib") from None
        history = np.where(self.history > 0, self.history, np.nan)
        if ax is not None:
            _draw_history(ax, history, self.tolerance)
            return ax.figure
        values = on_host(self.x)
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
        steps = "" if self.steps is None else f", {len(self.steps)} steps"
        return f"<isobar.Result: {verdict} in {iterations}{steps}, relative residual {self.residual:.1e}, x {tuple(self.x.shape)}>"


class Results:
    """What came of several right-hand sides, solved and judged one by one: `results` has the `Result` of each.

    >>> solver = isobar.Solver(isobar.Diffusion(np.ones((3, 4)), boundary=0.0), tolerance=1e-10)
    >>> several = solver.solve(np.ones((5, 3, 4)))
    >>> len(several.results), several.results[4].x.shape, bool((several.residual <= 1e-10).all())
    (5, (3, 4), True)
    """

    __slots__ = {
        "results": "The `Result` of each system, in order; its x is a part of this x. Without those that an interrupted solve left out.",
        "x": "The solutions, an array of the shape and the library of b.",
    }

    def __init__(self, x, results):
        self.x = x
        self.results = tuple(results)

    @property
    def converged(self) -> bool:
        """Whether all of them converged."""
        return len(self.results) == len(self.x) and all(result.converged for result in self.results)

    @property
    def residual(self) -> np.ndarray:
        """The relative residual of each, as `Result.residual`."""
        return np.array([result.residual for result in self.results])

    @property
    def iterations(self) -> np.ndarray:
        """How many iterations each took."""
        return np.array([result.iterations for result in self.results])

    @property
    def seconds(self) -> float:
        """The sum of those of all, without moving arrays to and from the device."""
        return sum(result.seconds for result in self.results)

    def _describe(self) -> str:
        """Which did not converge, and why the first of them did not."""
        wrong = [n for n, result in enumerate(self.results) if not result.converged]
        shown = ", ".join(map(str, wrong[:8])) + (", …" if len(wrong) > 8 else "")
        missing = len(self.x) - len(self.results)
        left = f", {missing} not begun" if missing else ""
        s = "" if len(self.x) == 1 else "s"
        text = f"{len(wrong)} of {len(self.x)} system{s} not converged ({shown}){left}"
        return f"{text}; system {wrong[0]}: {describe(self.results[wrong[0]])}" if wrong else text

    def __repr__(self) -> str:
        count, done = len(self.x), sum(result.converged for result in self.results)
        verdict = "all converged" if self.converged else f"{count - done} NOT converged"
        s = "" if count == 1 else "s"
        return f"<isobar.Results: {count} system{s}, {verdict}, largest relative residual {self.residual.max():.1e}, x {tuple(self.x.shape)}>"


def _draw_history(ax, history, tolerance):
    ax.semilogy(history, marker="o", markersize=3)
    ax.axhline(tolerance, linestyle="--", linewidth=1, color="grey")
    ax.set(xlabel="iteration", ylabel="relative residual")
