"""A solve as a function of its coefficients, for libraries that differentiate: arrays of NumPy in, arrays of NumPy out."""

from __future__ import annotations

import threading

import numpy as np

from isobar._gradient import adjoint_rhs, describe, pulled_back
from isobar._options import to_json
from isobar._problems import Diffusion
from isobar._results import NotConvergedError
from isobar._solvers import Solver


class Call:
    """x(κ, c, f) of a problem, and its derivatives, by a solver that is kept with the problem for the next call."""

    def __init__(self, problem, failure, options):
        if not isinstance(problem, Diffusion):
            raise TypeError(f"problem: {type(problem).__name__}; use isobar.Diffusion, which says all but kappa, f and reaction")
        if failure not in ("raise", "nan"):
            raise ValueError(f"failure {failure!r}; use \"raise\" or \"nan\"")
        self.problem, self._failure, self._options = problem, failure, options
        self._key = (id(problem), failure, to_json(options))

    # Libraries that keep what they have compiled compare calls.
    def __eq__(self, other):
        return isinstance(other, Call) and self._key == other._key

    def __hash__(self):
        return hash(self._key)

    def forward(self, kappa, reaction, f) -> np.ndarray:
        """x"""
        kept = self._kept(kappa, reaction)
        with kept.lock:
            problem = kept.take(kappa, reaction)
            return self._solve(kept.solver, problem.rhs(np.asarray(f, np.float64)), "the solve")

    def backward(self, kappa, reaction, x, xbar):
        """Derivatives by each κ, by c and by f."""
        kept = self._kept(kappa, reaction)
        with kept.lock:
            problem = kept.take(kappa, reaction)
            adjoint = self._solve(kept.solver, adjoint_rhs(problem, np.asarray(xbar, np.float64)), "the adjoint solve")
        volumes = problem._volumes()
        return pulled_back(problem, x, adjoint), -volumes * adjoint * np.asarray(x, np.float64), volumes * adjoint

    def _solve(self, solver, b, what):
        result = solver._solve(b)
        if result.converged:
            return result.x
        if self._failure == "raise":
            raise NotConvergedError(f"{what} was {describe(result)}; use failure=\"nan\" to go on with NaN")
        return np.full(self.problem.shape, np.nan)

    def _kept(self, kappa, reaction):
        # Numbers of arrays are what a solver cannot change.
        key = (self._key, len(kappa), reaction is None)
        return self.problem._solvers.setdefault(key, _Kept(self.problem, self._options))


class _Kept:
    """A solver and the coefficients that it has."""

    def __init__(self, template, options):
        self.lock = threading.Lock()
        self.solver = None
        self._template, self._options, self._problem, self._has = template, options, None, None

    def take(self, kappa, reaction):
        """The problem of these coefficients, which are the solver's from now on."""
        wanted = [*kappa] if reaction is None else [*kappa, reaction]
        if self._has is not None and all(np.array_equal(a, b) for a, b in zip(self._has, wanted)):
            return self._problem
        problem = self._template.replace(tuple(kappa), reaction)
        # Nothing is known of a solver whose update failed.
        solver, self.solver, self._has = self.solver, None, None
        if solver is not None:
            try:
                solver.update(problem)
            except ValueError:
                # It differs in more than its numbers.
                solver = None
        self.solver = Solver(problem, **self._options) if solver is None else solver
        self._problem, self._has = problem, [np.array(values, np.float64) for values in wanted]
        return problem
