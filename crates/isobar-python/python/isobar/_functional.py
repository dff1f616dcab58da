"""A solve as a function of its coefficients, for automatic differentiation."""

from __future__ import annotations

import weakref
from typing import Any

from isobar import _isobar
from isobar._options import to_json
from isobar._problems import Diffusion
from isobar._solvers import check_place


class Call:
    """The function x(κ, c, f) of a problem with certain options. It does not refer to the problem, which keeps it.

    `native` computes it, and keeps solvers for its next call.
    """

    def __init__(self, problem, failure, derivative_tolerance, options):
        if failure not in ("raise", "nan"):
            raise ValueError(f"failure {failure!r}; use \"raise\" or \"nan\"")
        device = options["device"]
        threads = check_place(device, options["threads"])
        rest = {key: value for key, value in options.items() if key not in ("device", "threads")}
        self.shape, self.cells, self.residual = problem.shape, problem._cells, problem._residual
        self.reaction, self.active = problem._own_fields()
        self.native = _isobar.Solution(problem._system, to_json({"norm": "rhs", **rest}), device, threads, failure == "nan", derivative_tolerance)
        # What a framework keeps: its own constants and compiled functions.
        self.kept: dict[Any, Any] = {}


def call_of(problem, failure, derivative_tolerance, **options) -> Call:
    """Return the function of a problem with these options, made at the first call and kept with the problem."""
    if not isinstance(problem, Diffusion):
        raise TypeError(f"problem: {type(problem).__name__}; use isobar.Diffusion, which describes everything except kappa, f and reaction")
    key = failure, derivative_tolerance, repr(options)
    known = problem._calls.get(key)
    if known is None:
        known = problem._calls.setdefault(key, Call(problem, failure, derivative_tolerance, options))
        # JAX may keep what it has traced, and with it this, for ever.
        weakref.finalize(problem, known.native.release).atexit = False
    return known
