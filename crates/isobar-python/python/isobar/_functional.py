"""A solve as a function of its coefficients, for automatic differentiation."""

from __future__ import annotations

import threading

import numpy as np

from isobar._gradient import adjoint_rhs, describe, pulled_back
from isobar._problems import Diffusion, Problem
from isobar._residual import Residual
from isobar._results import NotConvergedError, Result
from isobar._solvers import Solver


class Call:
    """The function x(κ, c, f) of a problem, on NumPy arrays. Its solver is kept with the problem for the next call."""

    def __init__(self, problem, failure, options):
        if not isinstance(problem, Diffusion):
            raise TypeError(f"problem: {type(problem).__name__}; use isobar.Diffusion, which describes everything except kappa, f and reaction")
        if failure not in ("raise", "nan"):
            raise ValueError(f"failure {failure!r}; use \"raise\" or \"nan\"")
        self.problem, self._failure, self._options = problem, failure, options
        self.key = failure, repr(sorted(options.items()))

    @property
    def residual(self) -> Residual:
        """b − A x, from which derivatives are computed."""
        return self.problem._residual

    def fields(self):
        """Return the problem's reaction (None if it has none) and its mask of active cells (None if all are active)."""
        kept = self.problem._kept
        if "fields" not in kept:
            kept["fields"] = self.problem._own_fields()
        return kept["fields"]

    def solve(self, kappa, reaction, f) -> np.ndarray:
        """Solve A x = b with the right-hand side of f, or of each of several f stacked along an additional first axis."""
        kept = self._kept(kappa, reaction)
        with kept.lock:
            problem = kept.take(kappa, reaction)
            return self._solve(kept.solver, self._each(problem.rhs, f), "the solve")

    def invert(self, kappa, reaction, r) -> np.ndarray:
        """Return A⁺ r, of one or several r: 0 in inactive cells, and with mean 0 wherever a constant is free."""
        kept = self._kept(kappa, reaction)
        with kept.lock:
            problem = kept.take(kappa, reaction)
            r = np.asarray(r, np.float64)
            if self._failure == "nan" and not np.isfinite(r).all():
                return np.full(r.shape, np.nan)
            return self._solve(kept.solver, self._each(lambda one: adjoint_rhs(problem, one), r), "the solve of a derivative")

    def pull_back(self, kappa, reaction, x, xbar, driven):
        """Return derivatives of `solve` with respect to f, c and each κ, or, if not `driven`, those of `invert` with respect to r, c and each κ."""
        adjoint = self.invert(kappa, reaction, xbar)
        kept = self._kept(kappa, reaction)
        with kept.lock:
            problem = kept.take(kappa, reaction)
        x, by_f = np.asarray(x, np.float64), self.residual.volumes.reshape(self.problem.shape) * adjoint
        return by_f if driven else adjoint, -by_f * x, *pulled_back(problem, x, adjoint, not driven)

    @property
    def can_stay_on_device(self) -> bool:
        """Whether `solve_on_device` can be used: removing free constants, filling with NaN, and x or y that are periodic with an odd number of
        cells need the host."""
        suits = self._failure == "raise" and self._options["device"] != "cpu" and not self.residual.has_odd_period
        return suits and self.problem._is_regular()

    def solve_on_device(self, kappa, reaction, values, out, driven) -> None:
        """Write the solutions of A x = b for source densities, or, if not `driven`, for b themselves. The arrays are handles of the problem's
        three-dimensional shape, all on the host or all on one device; a solver on a GPU finds out by itself whether its coefficients have changed.
        """
        number, device = out[0].parts[4], self._options["device"]
        if device == "auto" and number is not None:
            device = f"cuda:{number}"
        key = (self.key, "on device", device, len(kappa), reaction is None)
        # As on the host, where the solution is rounded to the type of the arrays afterwards.
        options = {"judge": "internal", **self._options, "device": device}
        kept = self.problem._solvers.setdefault(key, _Kept(self.problem, options))
        form, of_kappa = self.residual.form(number), [field.parts for field in kappa]
        with kept.lock:
            kept.take_system(form.system(of_kappa, reaction and reaction.parts, False))
            if driven:
                for one, into in zip(values, out):
                    form.rhs(of_kappa, one.parts, into.parts)
            rhs, solver = out if driven else values, kept.solver
            outcomes = solver._solver.solve_many([one.parts for one in rhs], [one.parts for one in out], False, None)
            for into, outcome in zip(out, outcomes):
                self._judged(Result(into.array, outcome, solver._tolerance), "the solve")

    def _each(self, function, values):
        """Apply a function to one array of the problem's shape, or to several."""
        values = np.asarray(values, np.float64)
        return np.stack([function(one) for one in values]) if values.ndim > len(self.problem.shape) else function(values)

    def _solve(self, solver, b, what):
        found = solver._solve(b)
        results = getattr(found, "results", (found,))
        sound = [self._judged(result, what) for result in results]
        return found.x if all(sound) else np.stack([result.x if good else np.full(self.problem.shape, np.nan) for result, good in zip(results, sound)]).reshape(b.shape)

    def _judged(self, result, what):
        if not result.converged and self._failure == "raise":
            raise NotConvergedError(f"{what} was {describe(result)}; use failure=\"nan\" to continue with NaN")
        return result.converged

    def _kept(self, kappa, reaction):
        # A solver cannot change the number of coefficient arrays.
        key = (self.key, len(kappa), reaction is None)
        return self.problem._solvers.setdefault(key, _Kept(self.problem, self._options))


class _Kept:
    """A solver with its current coefficients."""

    def __init__(self, template, options):
        self.lock = threading.Lock()
        self.solver = None
        self._template, self._options, self._problem, self._has = template, options, None, None

    def take(self, kappa, reaction):
        """Give the solver these coefficients; return their problem."""
        wanted = [*kappa] if reaction is None else [*kappa, reaction]
        if self._has is None or not all((a == b).all() for a, b in zip(self._has, wanted)):
            self._make(self._template.replace(tuple(kappa), reaction))
            self._has = [np.array(values, np.float64) for values in wanted]
        return self._problem

    def take_system(self, system):
        """Give the solver the coefficients of a native system."""
        self._make(Problem(system, len(self._template.shape)))

    def _make(self, problem):
        # A solver is discarded if its update fails.
        solver, self.solver, self._has = self.solver, None, None
        if solver is not None:
            try:
                solver.update(problem)
            except ValueError:
                # The problems differ in more than their coefficients.
                solver = None
        self.solver = Solver(problem, **self._options) if solver is None else solver
        self._problem = problem
