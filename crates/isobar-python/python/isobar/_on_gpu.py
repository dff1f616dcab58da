"""Coefficients of diffusion problems in the memory of a GPU."""

from __future__ import annotations

import numpy as np

from isobar import _isobar
from isobar._arrays import library_of, like_library, on_host, readable
from isobar._libraries import operations
from isobar._residual import Residual


def on_gpu(value) -> bool:
    """Return whether a value is an array on a GPU of a library whose operations are known."""
    if not hasattr(value, "__dlpack__") or np.ndim(value) == 0 or operations(library_of(value)) is None:
        return False
    return int(value.__dlpack_device__()[0]) == 2


class Coefficients:
    """Copies of κ and c on a GPU, and everything else of the problem that they belong to."""

    def __init__(self, kappa, reaction, active, residual: Residual):
        self.library = library_of(kappa[0])
        self.xp = residual.operations(self.library)
        self.residual, self._active, self._system = residual, None, None
        with self.xp.on(kappa[0]):
            self.kappa = [self.xp.copy(field).reshape(residual.shape) for field in kappa]
            # Callers may change their arrays later.
            self.reaction = None if reaction is None else self.xp.copy(self._field(reaction))
            if active is not None:
                self._active = self._field(active) != 0
                self.kappa = [self.xp.where(self._active, field, 0.0) for field in self.kappa]
            self.device = int(self.kappa[0].__dlpack_device__()[1])
            # Of κ with one value and a shift, the direct solver needs rows on the host.
            has_shift = residual.has_shift(reaction)
            self.suits_gpu = active is None and not residual.has_odd_period and not (has_shift and (self._is_even() or self._is_negative()))

    def replaced(self, kappa, reaction=None) -> Coefficients:
        """Return other coefficients of the same problem."""
        return Coefficients(kappa, self.reaction if reaction is None else reaction, self._active, self.residual)

    def on_host(self):
        """Return handles of κ, 0 in inactive cells, and of c on the host."""
        handle = lambda field, what: readable(on_host(field), what)
        return [handle(field, "kappa") for field in self.kappa], self.reaction if self.reaction is None else handle(self.reaction, "reaction")

    def system(self):
        """Return the native system, which reads the arrays when a solver is made or updated."""
        if self._system is None:
            with self.xp.on(self.kappa[0]):
                fields, axes = self.residual.cells(self.xp, self.kappa)
                shift = self.residual.shift(self.xp, self.kappa, self.reaction) if self.residual.has_shift(self.reaction) else None
                handles = [readable(field, "kappa") for field in fields], None if shift is None else readable(shift, "reaction")
            parts = [handle.parts for handle in handles[0]]
            system = _isobar.System.cells(parts, axes, handles[1] and handles[1].parts, self.residual.sides, _spreads(fields))
            self._system = system, handles
        return self._system[0]

    def rhs(self, f, shape):
        """Return the right-hand side of a number or an array of the same library on the GPU, or of f = 0 if it is None."""
        with self.xp.on(self.kappa[0]):
            f = None if f is None else self._field(f)
            return self.residual.rhs(self.xp, self.kappa, f).reshape(shape)

    def _field(self, values):
        """Return a number or an array as an array on the GPU."""
        if np.ndim(values) == 0:
            return 0 * self.kappa[0] + float(values)
        if not on_gpu(values):
            values = like_library(np.asarray(values, np.float64), self.kappa[0])
        return (values.detach() if hasattr(values, "detach") else values).reshape(self.residual.shape)

    def _is_even(self):
        """Return whether each κ has one value."""
        return all(bool(field.min() == field.max()) for field in self.kappa)

    def _is_negative(self):
        """Return whether c is negative somewhere, so that the matrix may be indefinite."""
        return self.reaction is not None and bool(self.reaction.min() < 0)


def _spreads(fields):
    """Return the smallest and the largest value of each array, or None if a number is wrong, which the solver will name."""
    spreads = [(float(field.min()), float(field.max())) for field in fields]
    return spreads if all(0 <= least and most < float("inf") for least, most in spreads) else None


class Affine:
    """The right-hand side b = D f + b₀ of any problem, for arrays f on a GPU."""

    def __init__(self, problem):
        # A power of two so large that b₀ takes no digits of D.
        scale = 2.0**400
        zero, large = (problem._rhs_on_host(number) for number in (0.0, scale))
        volumes = (large - zero) / scale
        self._volumes = float(volumes.flat[0]) if volumes.size and (volumes == volumes.flat[0]).all() else volumes
        self._rest = zero if zero.any() else None
        self._xp = {}

    def rhs(self, f):
        """Return b, of f's library, type and device."""
        xp = self._xp.setdefault(library_of(f), operations(library_of(f)))
        f = f.detach() if hasattr(f, "detach") else f
        with xp.on(f):
            if isinstance(self._volumes, float):
                b = f * self._volumes
            else:
                volumes = xp.like(self._volumes, f)
                b = xp.where(volumes != 0, f * volumes, 0.0)
            return b if self._rest is None else b + xp.like(self._rest, f)
