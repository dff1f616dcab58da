"""Derivatives of what follows from a solution."""

from __future__ import annotations

from typing import Any

import numpy as np

from isobar._arrays import fitted, is_numpy, like_library, on_host, readable


class Gradient:
    """Derivatives of a number J by what a solve was given, as `Result.gradient` returns them.

    `b` is there at once; what follows from it is computed when it is asked for, in one pass over the grid.
    """

    __slots__ = {
        "_fixed_b": None,
        "_parts": None,
        "_problem": None,
        "_x": None,
        "adjoint": "The `Result` of the adjoint solve A λ = ∂J/∂x; None where the solve itself did not converge.",
        "b": "∂J/∂b = A⁻¹ ∂J/∂x, an array of the library of ∂J/∂x.",
    }

    def __init__(self, problem, x, b, adjoint, fixed_b):
        self._problem, self._x, self._fixed_b, self._parts = problem, x, fixed_b, None
        self.b, self.adjoint = b, adjoint

    @property
    def kappa(self) -> np.ndarray | tuple[np.ndarray, ...]:
        """∂J/∂κ of every cell, an array, or a tuple of as many as the problem was given. 0 where κ = 0, as what is closed stays closed."""
        if self._parts is None:
            self._parts = pulled_back(self._problem, on_host(self._x), on_host(self.b), self._fixed_b)
        return self._parts[0] if len(self._parts) == 1 else tuple(self._parts)

    @property
    def reaction(self) -> np.ndarray:
        """∂J/∂c of every cell."""
        return -self._problem._volumes() * on_host(self.b) * on_host(self._x)

    @property
    def f(self) -> np.ndarray:
        """∂J/∂f of every cell, where b is ``problem.rhs(f)``."""
        return self._problem._volumes() * on_host(self.b)

    def __repr__(self) -> str:
        return f"<isobar.Gradient {tuple(self.b.shape)}: b, kappa, reaction, f>"


def pulled_back(problem, x, adjoint, fixed_b=False):
    """Derivatives by each κ from a solution and its adjoint on the host."""
    shape = problem._system.shape
    u, adjoint = readable(x, "x"), readable(adjoint, "b")
    found = problem._system.gradient(fitted(u, shape, "x"), fitted(adjoint, shape, "b"), not fixed_b)
    return [np.frombuffer(values, np.float64).reshape(problem.shape) for values in found]


def adjoint_rhs(problem, xbar):
    """∂J/∂x as A can produce it: 0 in cells that take no part, and without its mean wherever a constant is free."""
    given = readable(xbar, "xbar")
    shape = problem._system.shape
    fitted(given, shape, "xbar")
    if problem._is_regular():
        return xbar if hasattr(xbar, "shape") else given.array
    values = readable(on_host(given.array), "xbar")
    wrong = np.argwhere(~np.isfinite(values.array))
    if len(wrong):
        # Taking out a mean would spread it.
        raise ValueError(f"xbar: {values.array[tuple(wrong[0])]} at {tuple(wrong[0].tolist())}; every entry must be finite")
    projected = np.frombuffer(problem._system.project(fitted(values, shape, "xbar")), np.float64).reshape(values.shape)
    return projected if is_numpy(given.array) else like_library(projected, given.array)


def gradient(result, xbar: Any, fixed_b: bool, failure: str) -> Gradient:
    """As `Result.gradient`."""
    from isobar._results import NotConvergedError
    from isobar._solvers import Solver

    if failure not in ("raise", "nan"):
        raise ValueError(f"failure {failure!r}; use \"raise\" or \"nan\"")
    if result._origin is None:
        raise TypeError("gradient() needs the result of one solve; a run of time steps has none yet")
    reference, problem, made_with = result._origin
    if not problem._system.is_symmetric:
        raise ValueError("gradient() needs a symmetric matrix, and this one is not: c of a layer differs from b of the layer below it")
    rhs = adjoint_rhs(problem, xbar)
    adjoint = None
    if result.converged:
        solver = reference()
        if solver is None or solver._problem is not problem:
            solver = Solver(problem, **made_with)
        adjoint = solver._solve(rhs)
        if adjoint.converged:
            return Gradient(problem, result.x, adjoint.x, adjoint, fixed_b)
    if failure == "raise":
        which = "the solve" if adjoint is None else "the adjoint solve"
        raise NotConvergedError(f"no gradient: {which} was {describe(adjoint or result)}; use failure=\"nan\" to go on with NaN")
    nothing = like_library(np.full(problem.shape, np.nan), rhs)
    return Gradient(problem, result.x, nothing, adjoint, fixed_b)


def describe(result) -> str:
    """Why a solve did not converge, and what to try."""
    advice = f"; {result.advice}" if result.advice else ""
    stop = result.stop.replace("_", " ")
    return f"not converged: {stop} after {result.iterations} iterations, relative residual {result.residual:.1e}{advice}"
