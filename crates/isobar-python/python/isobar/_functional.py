"""A solve as a function of its coefficients, for libraries that differentiate."""

from __future__ import annotations

import threading

import numpy as np

from isobar import _isobar
from isobar._gradient import adjoint_rhs, describe, pulled_back
from isobar._problems import Diffusion, Problem
from isobar._residual import Residual
from isobar._results import NotConvergedError, Result
from isobar._solvers import Solver


class Call:
    """x(κ, c, f) of a problem, by a solver that is kept with the problem for the next call; arrays of NumPy in and out."""

    def __init__(self, problem, failure, options):
        if not isinstance(problem, Diffusion):
            raise TypeError(f"problem: {type(problem).__name__}; use isobar.Diffusion, which says all but kappa, f and reaction")
        if failure not in ("raise", "nan"):
            raise ValueError(f"failure {failure!r}; use \"raise\" or \"nan\"")
        self.problem, self._failure, self._options = problem, failure, options
        self.key = failure, repr(sorted(options.items()))

    @property
    def residual(self) -> Residual:
        """b − A x, of which derivatives follow."""
        kept = self.problem._kept
        if "residual" not in kept:
            kept["residual"] = Residual(self.problem._system.shape, self.problem._made)
        return kept["residual"]

    def fields(self):
        """The reaction that the problem was made with, and which cells take part; None where there is none, and where all do."""
        kept = self.problem._kept
        if "fields" not in kept:
            kept["fields"] = self.problem._own_fields()
        return kept["fields"]

    def solve(self, kappa, reaction, f) -> np.ndarray:
        """x of A x = b, b that of f."""
        kept = self._kept(kappa, reaction)
        with kept.lock:
            problem = kept.take(kappa, reaction)
            return self._solve(kept.solver, problem.rhs(np.asarray(f, np.float64)), "the solve")

    def invert(self, kappa, reaction, r) -> np.ndarray:
        """A⁺ r: 0 in cells that take no part, and without its mean wherever a constant is free."""
        kept = self._kept(kappa, reaction)
        with kept.lock:
            problem = kept.take(kappa, reaction)
            r = np.asarray(r, np.float64)
            if self._failure == "nan" and not np.isfinite(r).all():
                return np.full(problem.shape, np.nan)
            return self._solve(kept.solver, adjoint_rhs(problem, r), "the solve of a derivative")

    def pull_back(self, kappa, reaction, x, xbar, driven):
        """Derivatives by f, c and each κ of what `solve` returned, or, where it is not driven, by r, c and each κ of what `invert` did."""
        adjoint = self.invert(kappa, reaction, xbar)
        kept = self._kept(kappa, reaction)
        with kept.lock:
            problem = kept.take(kappa, reaction)
        x, by_f = np.asarray(x, np.float64), self.residual.volumes.reshape(self.problem.shape) * adjoint
        return by_f if driven else adjoint, -by_f * x, *pulled_back(problem, x, adjoint, not driven)

    @property
    def can_stay_on_device(self) -> bool:
        """Whether `solve_cells` is for this call: what a constant that is free needs is done on the host, and so is filling with NaN."""
        return self._failure == "raise" and self._options["device"] != "cpu" and self.problem._is_regular()

    def solve_cells(self, fields, axes, shift, b, out, known=None) -> None:
        """Writes x of A x = b, where A is given as `Residual.cells` says; `Handle`'s of arrays that are all on the host or on one device.

        `known` is what the coefficients follow from, and a function that says whether two of them are equal; without it they are new.
        """
        device = self._options["device"]
        if device == "auto" and b.parts[4] is not None:
            device = f"cuda:{b.parts[4]}"
        key = (self.key, "cells", device, len(fields), shift is None)
        kept = self.problem._solvers.setdefault(key, _Kept(self.problem, {**self._options, "device": device}))
        with kept.lock:
            kept.take_cells([field.parts for field in fields], axes, shift and shift.parts, self.residual.sides, known)
            solver = kept.solver
            outcome = solver._solver.solve(b.parts, out.parts, False, None)
            self._judged(Result(out.array, outcome, solver._tolerance), "the solve")

    def _solve(self, solver, b, what):
        result = solver._solve(b)
        return result.x if self._judged(result, what) else np.full(self.problem.shape, np.nan)

    def _judged(self, result, what):
        if not result.converged and self._failure == "raise":
            raise NotConvergedError(f"{what} was {describe(result)}; use failure=\"nan\" to go on with NaN")
        return result.converged

    def _kept(self, kappa, reaction):
        # Numbers of arrays are what a solver cannot change.
        key = (self.key, len(kappa), reaction is None)
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
        if self._has is None or not all((a == b).all() for a, b in zip(self._has, wanted)):
            self._make(self._template.replace(tuple(kappa), reaction))
            self._has = [np.array(values, np.float64) for values in wanted]
        return self._problem

    def take_cells(self, fields, axes, shift, sides, known):
        """Gives the solver these coefficients, unless it has them."""
        if not (self._has and known and all(map(known[1], self._has, known[0]))):
            self._make(Problem(_isobar.System.cells(fields, axes, shift, sides), len(self._template.shape)))
            self._has = known and [values.clone() for values in known[0]]

    def _make(self, problem):
        # Nothing is known of a solver whose update failed.
        solver, self.solver, self._has = self.solver, None, None
        if solver is not None:
            try:
                solver.update(problem)
            except ValueError:
                # It differs in more than its numbers.
                solver = None
        self.solver = Solver(problem, **self._options) if solver is None else solver
        self._problem = problem
