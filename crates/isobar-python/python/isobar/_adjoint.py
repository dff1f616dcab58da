"""Derivatives of time-dependent runs."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from isobar._arrays import fitted, on_host, readable, readable_on_host
from isobar._gradient import SIDES, SideGradient, describe, pulled_back, side_gradient
from isobar._options import number
from isobar._problems import Problem
from isobar._results import NotConvergedError, NotConvergedWarning
from isobar._solvers import Solver

_THETA = {"crank-nicolson": 0.5, "backward-euler": 1.0}


class HeatGradient:
    """Derivatives of a number J(u) of a run's last state with respect to the run's inputs, as `Heat.gradient` returns them."""

    __slots__ = {
        "initial": "∂J/∂u of the initial state, an array.",
        "kappa": "∂J/∂κ of every cell, an array, or a tuple if κ was given as a tuple. 0 in closed cells.",
        "reaction": "∂J/∂c of every cell.",
        "source": "∂J/∂f of every cell.",
        "u": "The last state.",
        "_sides": None,
    }

    def __init__(self, u, initial, kappa, reaction, source, sides):
        self.u, self.initial, self.reaction, self.source, self._sides = u, initial, reaction, source, sides
        self.kappa = kappa[0] if len(kappa) == 1 else tuple(kappa)

    def side(self, name: str) -> SideGradient:
        """Return derivatives with respect to the boundary values of a side, as `Gradient.side` does."""
        if name not in self._sides:
            raise ValueError(f"side: {name!r}; use {', '.join(self._sides)}")
        return self._sides[name]

    def __repr__(self) -> str:
        return f"<isobar.HeatGradient {self.u.shape}: u, initial, kappa, reaction, source, side>"


def gradient(heat, ubar, initial, steps, checkpoints, options) -> HeatGradient:
    """Implement `Heat.gradient`."""
    dt, end_time, scheme, step_tolerance = steps
    if not (dt > 0 and end_time > 0 and math.isfinite(end_time / dt)):
        raise ValueError(f"dt = {dt}, end_time = {end_time}; use positive, finite numbers")
    lengths = _lengths(dt, end_time) if step_tolerance is None else _adapted(heat, initial, steps, options)
    count = len(lengths)
    segments = math.isqrt(count - 1) + 1 if checkpoints is None else checkpoints
    every = -(-count // segments)
    run = _Run(heat, _THETA[scheme], options)
    u = run.state(initial)
    kept = []
    for n, length in enumerate(lengths):
        if n % every == 0:
            kept.append(u)
        u = run.step(u, length)
    last = u
    bar = run.derivative(ubar(last.copy()) if callable(ubar) else ubar)
    for segment in reversed(range(len(kept))):
        own = lengths[segment * every : (segment + 1) * every]
        states = [kept.pop()]
        for length in own[:-1]:
            states.append(run.step(states[-1], length))
        for length in reversed(own):
            before = states.pop()
            bar = run.step_back(before, u, bar, length)
            u = before
    return HeatGradient(last, bar, *run.found())


def _lengths(dt, end):
    """Return the step lengths of `Heat.steps`: the last step is shortened, unless only rounding makes it shorter."""
    nearest = round(end / dt)
    if nearest >= 1 and abs(end / dt - nearest) <= 1e-6:
        return [float(dt)] * nearest
    whole = math.floor(end / dt)
    return [float(dt)] * whole + [float(end - whole * dt)]


def _adapted(heat, initial, steps, options):
    """Return the step lengths of `Heat.steps` with a step tolerance, whose steps are those of the θ scheme too."""
    dt, end_time, scheme, step_tolerance = steps
    run = heat.steps(initial, dt=dt, end_time=end_time, scheme=scheme, step_tolerance=step_tolerance, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("error", NotConvergedWarning)
        try:
            return [step.dt for step in run]
        except NotConvergedWarning as warning:
            raise NotConvergedError(f"no gradient: {warning}") from None


class _Run:
    """Steps of the θ scheme, forwards and backwards: A w = c M u + s and u' = u + (w − u)/θ, where A = K + c M and c = 1/(θ Δt)."""

    def __init__(self, heat, theta, options):
        self._heat, self._theta, self._options, self._solver, self._dt = heat, theta, options, None, None
        plain = Problem(heat._system, heat._dimensions)
        self._shape = plain.shape
        reaction, _ = heat._system.fields()
        self._reaction = np.zeros(self._shape) if reaction is None else np.frombuffer(reaction, np.float64).reshape(self._shape)
        self._volumes = plain._volumes()
        if ((self._reaction < 0) & (self._volumes > 0)).any():
            # As the steps of `Heat.steps`.
            raise ValueError(
                "reaction: a negative reaction is not supported by these time steps, which need a matrix without negative eigenvalues; use 0 or more"
            )
        self._s = np.empty(self._shape)
        self._given = lambda values, what: fitted(readable_on_host(values, what), heat._full, what)
        heat._system.rhs(heat._body(), self._given(self._s, "s"))
        self._kappa, self._source = None, np.zeros(self._shape)
        self._by_reaction = np.zeros(self._shape)
        self._sides = {}

    def state(self, values):
        """Return the first state, 0 in inactive cells."""
        if np.ndim(values) == 0:
            values = np.full(self._shape, number(values, "initial"))
        return self._cleared(values, "initial")

    def derivative(self, values):
        """Return ∂J/∂u of the last state, 0 in inactive cells."""
        return self._cleared(values, "ubar")

    def _cleared(self, values, what):
        """Return an array of the problem's shape, 0 in inactive cells, where it may hold anything."""
        values = np.asarray(on_host(readable(values, what).array), np.float64)
        if values.shape != self._shape:
            raise ValueError(f"{what} has shape {values.shape}; the problem's is {self._shape}")
        values = np.where(self._volumes > 0, values, 0.0)
        wrong = np.argwhere(~np.isfinite(values))
        if len(wrong):
            raise ValueError(f"{what}: {values[tuple(wrong[0])]} at {tuple(wrong[0].tolist())}; every entry must be finite")
        return values

    def step(self, u, dt):
        """Return the next state u'."""
        problem, c = self._problem(dt)
        w = self._solved(c * self._volumes * u + self._s, "a step", x0=u)
        return u + (w - u) / self._theta

    def step_back(self, before, after, bar, dt):
        """Return ∂J/∂u from ∂J/∂u', and add the step's contributions to all other derivatives."""
        problem, c = self._problem(dt)
        w = before + self._theta * (after - before)
        adjoint = self._solved(bar / self._theta, "the adjoint solve of a step")
        found = pulled_back(problem, w, adjoint)
        self._kappa = found if self._kappa is None else [sum_ + each for sum_, each in zip(self._kappa, found)]
        self._source += self._volumes * adjoint
        self._by_reaction -= self._volumes * adjoint * w
        for name in SIDES[: 2 * len(self._shape)]:
            found = side_gradient(problem, w, adjoint, name)
            known = self._sides.get(name)
            self._sides[name] = found if known is None else SideGradient(*(a + b for a, b in zip(known, found)))
        return (1 - 1 / self._theta) * bar + c * self._volumes * adjoint

    def found(self):
        """Return the accumulated derivatives."""
        return self._kappa, self._by_reaction, self._source, self._sides

    def _problem(self, dt):
        """Return the problem of A, and c."""
        c = 1 / (self._theta * dt)
        if dt != self._dt:
            # Must stay alive while the native part reads it.
            reaction = self._reaction + c
            system = self._heat._system.with_coefficients(self._heat._given["kappa"], self._given(reaction, "reaction"))
            problem = Problem(system, self._heat._dimensions)
            if self._solver is None:
                self._solver = Solver(problem, **self._options)
            else:
                self._solver.update(problem)
            self._dt = dt
        return self._solver._problem, c

    def _solved(self, b, what, x0=None):
        result = self._solver._solve(b, x0)
        if not result.converged:
            raise NotConvergedError(f"no gradient: {what} was {describe(result)}")
        return result.x
