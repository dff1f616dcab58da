"""The residual b − A x of a diffusion problem, written with the operations of JAX or PyTorch, which can differentiate it."""

from __future__ import annotations

import numpy as np

# The axes of x, y and z in an array of shape (nz, ny, nx).
_AXES = (2, 1, 0)
# Which of one, two or three fields of κ belong to x, y and z.
_ALONG = {1: (0, 0, 0), 2: (0, 0, 1), 3: (0, 1, 2)}


class Residual:
    """The parts of a `Diffusion` that do not depend on κ, c and f: widths, sides, sources and wells.

    Its functions take arrays on any device; the library computes their derivatives.
    """

    def __init__(self, shape, made):
        self.shape = shape
        self._widths = [self._along(d, made["spacing"][d]) for d in range(3)]
        self.volumes = np.broadcast_to(self._widths[0] * self._widths[1] * self._widths[2], shape)
        self._sides = [[self._side(d, side) for side in pair] for d, pair in enumerate(made["boundary"])]
        self._sources, self._wells = made["sources"], made["wells"]

    @property
    def sides(self) -> list:
        """The kinds of the sides in x, y and z."""
        return [[kind for kind, *_ in pair] for pair in self._sides]

    def has_shift(self, reaction) -> bool:
        """Return whether the matrix has a shift besides that of Dirichlet sides."""
        return reaction is not None or bool(self._wells) or any(kind == "robin" for pair in self._sides for kind, *_ in pair)

    def cells(self, xp, kappa):
        """Return fields proportional to conductances, and for each direction the number of its field and the factor."""
        fields = [field.reshape(self.shape) for field in kappa]
        along = _ALONG[len(fields)]
        if all((width == width.flat[0]).all() for width in self._widths):
            widths = [width.flat[0] for width in self._widths]
            return fields, [(along[d], 2 * float(np.prod(widths) / widths[d] ** 2)) for d in range(3)]
        widths = [xp.like(width, fields[0]) for width in self._widths]
        volume = widths[0] * widths[1] * widths[2]
        return [fields[along[d]] * (volume / widths[d] ** 2) for d in range(3)], [(d, 2.0) for d in range(3)]

    def tested(self, xp, kappa, reaction, f, x, weights, *, driven=True, fixed=True):
        """Return the sum of weights · (b − A x), which is linear in the weights. b is from f and, if `driven`, from sides, sources and wells.

        `kappa` is a tuple of one to three arrays, 0 in inactive cells; `reaction` and `f` may be None. Arrays have the problem's shape.
        Without `fixed`, Dirichlet sides are omitted.
        """
        full = lambda values: None if values is None else values.reshape(self.shape)
        fields, x, w = [full(field) for field in kappa], full(x), full(weights)
        constant = lambda values: xp.like(values, fields[0])
        widths = [constant(width) for width in self._widths]
        volume = widths[0] * widths[1] * widths[2]
        along = _ALONG[len(fields)]
        part = fields[0] > 0
        for field in fields[1:]:
            part = part | (field > 0)
        total = (0 * w).sum()
        if f is not None:
            total = total + (w * full(f) * xp.where(part, volume, 0 * volume)).sum()
        if reaction is not None:
            total = total - (w * x * full(reaction) * xp.where(part, volume, 0 * volume)).sum()
        for d, axis in enumerate(_AXES):
            # The conductance 2κA/Δ between the centre of a cell and its face.
            half = 2 * fields[along[d]] * volume / widths[d] ** 2
            is_periodic = self._sides[d][0][0] == "periodic"
            pairs = [(slice(None, -1), slice(1, None))] + [(slice(-1, None), slice(0, 1))] * is_periodic
            for pair in pairs if self.shape[axis] > 1 else []:
                at = [(slice(None),) * axis + (each,) for each in pair]
                face = _in_series(xp, *(half[each] for each in at))
                total = total - (face * (w[at[0]] - w[at[1]]) * (x[at[0]] - x[at[1]])).sum()
            for is_upper, (kind, value, coefficient) in enumerate(self._sides[d]):
                if kind == "periodic" or (kind == "dirichlet" and not fixed):
                    continue
                end = (slice(None),) * axis + (slice(-1, None) if is_upper else slice(0, 1),)
                value = constant(value)
                area = (volume / widths[d])[end]
                if kind == "neumann":
                    if driven:
                        total = total + (w[end] * xp.where(part[end], value * area, 0 * area)).sum()
                    continue
                tie = half[end] if kind == "dirichlet" else _in_series(xp, half[end], constant(coefficient) * area)
                total = total + (w[end] * tie * ((value if driven else 0.0) - x[end])).sum()
        return total + self._points(xp, [fields[n] for n in along], x, w, widths, driven)

    def _points(self, xp, kappa, x, w, widths, driven):
        """Return the terms of sources and wells."""
        total = 0.0
        height = lambda k: widths[2][k, 0, 0]
        for i, j, (first, last), rate in self._sources if driven else ():
            k = slice(first, last + 1)
            share = kappa[0][k, j, i] * height(k)
            total = total + rate * (share * w[k, j, i]).sum() / share.sum()
        for i, j, (first, last), value, radius in self._wells:
            k = slice(first, last + 1)
            along, across = kappa[0][k, j, i], kappa[1][k, j, i]
            is_open = (along > 0) & (across > 0)
            ratio = (xp.where(is_open, across, 1 + 0 * across) / xp.where(is_open, along, 1 + 0 * along)) ** 0.5
            dx, dy = widths[0][0, 0, i], widths[1][0, j, 0]
            # Peaceman's radius, as in the matrix.
            reach = 0.28 * (ratio * dx**2 + dy**2 / ratio) ** 0.5 / (ratio**0.5 + ratio**-0.5)
            mean = xp.where(is_open, along * across, 1 + 0 * along) ** 0.5
            index = 2 * np.pi * mean * height(k) / xp.log(reach / radius)
            index = xp.where(is_open, index, 0 * index)
            total = total + (w[k, j, i] * index * ((value if driven else 0.0) - x[k, j, i])).sum()
        return total

    def _along(self, d, widths):
        """Return the widths along an axis, shaped for broadcasting."""
        n = self.shape[_AXES[d]]
        given = np.asarray(widths, np.float64) if len(widths) else np.full(1, 1.0 / n)
        shape = [1, 1, 1]
        shape[_AXES[d]] = n
        return np.array(np.broadcast_to(given, n)).reshape(shape)

    def _side(self, d, side):
        """Return kind, value and coefficient of a side: numbers, or arrays with one number per face."""
        kind, *numbers = side
        shape = list(self.shape)
        shape[_AXES[d]] = 1
        return kind, *(np.reshape(n, shape) if np.ndim(n) else np.float64(n) for n in numbers)


def _in_series(xp, a, b):
    """Return two conductances in series, 0 where one of them is 0."""
    is_open = (a > 0) & (b > 0)
    return xp.where(is_open, a / (1 + a / xp.where(is_open, b, 1 + 0 * b)), 0 * a)
