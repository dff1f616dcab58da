"""What came of a solve."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import numpy as np

from isobar._arrays import on_host


class NotConvergedWarning(UserWarning):
    """A solve stopped before it met the tolerance. Its result says why, and what to try."""


class Batch(NamedTuple):
    """What came of the lines of a batch (``solver.jacobi.batch``), each a problem of its own."""

    worst: float
    """The relative residual of the line where that is largest."""
    iterations: np.ndarray
    """How many each line took."""


class Result:
    """What came of a solve. `converged` means that the true residual, computed from `x` in double precision, meets the tolerance."""

    __slots__ = {
        "_outcome": None,
        "_report": None,
        "steps": "Of the heat equation, the steps that were taken; else None.",
        "tolerance": "That the residual had to meet.",
        "x": "The solution, an array of the library of b.",
    }

    def __init__(self, x, outcome, tolerance, steps=None):
        self.x = x
        self.tolerance = tolerance
        self.steps = steps
        self._outcome = outcome
        self._report = None

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
        shape = "×".join(str(n) for n in reversed(tuple(self.x.shape)))
        steps = "" if self.steps is None else f", {len(self.steps)} steps"
        return f"<isobar.Result: {verdict} in {iterations}{steps}, relative residual {self.residual:.1e}, x on {shape}>"


def _draw_history(ax, history, tolerance):
    ax.semilogy(history, marker="o", markersize=3)
    ax.axhline(tolerance, linestyle="--", linewidth=1, color="grey")
    ax.set(xlabel="iteration", ylabel="relative residual")
