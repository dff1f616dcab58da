"""What a diffusion problem is besides its coefficients, and its residual in the operations of an array library, on any device."""

from __future__ import annotations

import numpy as np

from isobar import _isobar
from isobar._arrays import readable
from isobar._libraries import Operations, operations

# The axes of x, y and z in an array of shape (nz, ny, nx).
_AXES = (2, 1, 0)
# Which of one, two or three fields of κ belong to x, y and z.
_ALONG = {1: (0, 0, 0), 2: (0, 0, 1), 3: (0, 1, 2)}


class Residual:
    """The parts of a `Diffusion` that do not depend on κ, c and f: widths, sides, sources and wells; and b − A x, which the library can differentiate.

    Its functions take arrays on any device, and `xp`, the operations of their library (see `_libraries`). `kappa` is a tuple of one to three
    arrays, 0 in inactive cells; `reaction` and `f` may be None. Arrays have the problem's shape.
    """

    def __init__(self, shape, made):
        self.shape = shape
        # Widths along the axes, and kind, value and coefficient of each side, shaped for broadcasting.
        self.widths = [self._along(d, made["spacing"][d]) for d in range(3)]
        self.numbers = [[self._side(d, side) for side in pair] for d, pair in enumerate(made["boundary"])]
        self._is_uniform = all((width == width.flat[0]).all() for width in self.widths)
        self._sources, self._wells = made["sources"], made["wells"]
        self._operations, self._forms = {}, {}
        # An array of zeros without memory, for the shape.
        self._zeros = readable(np.broadcast_to(np.float64(0.0), shape), "kappa")
        self._form = {**made["form"], "kappa": [self._zeros.parts]}

    def set(self, widths, numbers) -> None:
        """Replace the widths, which may be arrays of any library, and the numbers of the sides."""
        self.widths, self.numbers, self._is_uniform = widths, numbers, False

    def faces(self, d) -> list:
        """Return the shape of the faces of a side of x, y or z, shaped for broadcasting."""
        return [1 if axis == _AXES[d] else n for axis, n in enumerate(self.shape)]

    def operations(self, library) -> Operations:
        """Return the operations of a library, which keep the widths and sides on its devices."""
        return self._operations.setdefault(library, operations(library))

    def form(self, device: int | None):
        """Return the native form on a GPU, or, for None, on the host; it is kept."""
        if device not in self._forms:
            self._forms[device] = _isobar.Form(self._form, device)
        return self._forms[device]

    @property
    def volumes(self) -> np.ndarray:
        """The volumes of all cells."""
        return np.broadcast_to(self.widths[0] * self.widths[1] * self.widths[2], self.shape)

    def tested(self, xp, kappa, reaction, f, x, weights, *, driven=True):
        """Return the sum of weights · (b − A x), which the library can differentiate. b is from f and, if `driven`, from sides, sources and wells."""
        fields, x, w = self._full(kappa), x.reshape(self.shape), weights.reshape(self.shape)
        geometry = widths, volume = self._geometry(xp, fields[0])
        along, part = _ALONG[len(fields)], _part(fields)
        total = (0 * w).sum()
        if f is not None:
            total = total + (w * xp.where(part, f.reshape(self.shape) * volume, 0.0)).sum()
        if reaction is not None:
            total = total - (w * x * xp.where(part, reaction.reshape(self.shape) * volume, 0.0)).sum()
        for d, axis in enumerate(_AXES):
            # The conductance 2κA/Δ between the centre of a cell and its face.
            half = 2 * fields[along[d]] * volume / widths[d] ** 2
            is_periodic = self.numbers[d][0][0] == "periodic"
            pairs = [(slice(None, -1), slice(1, None))] + [(slice(-1, None), slice(0, 1))] * is_periodic
            for pair in pairs if self.shape[axis] > 1 else []:
                at = [(slice(None),) * axis + (each,) for each in pair]
                face = _in_series(xp, *(half[each] for each in at))
                total = total - (face * (w[at[0]] - w[at[1]]) * (x[at[0]] - x[at[1]])).sum()
        for index, tie, value, rate in self._terms(xp, fields, geometry, part):
            if rate is not None:
                total = total + (w[index] * rate).sum() if driven else total
            else:
                total = total + (w[index] * tie * ((value if driven else 0.0) - x[index])).sum()
        return total

    def _full(self, kappa):
        return [field.reshape(self.shape) for field in kappa]

    def _geometry(self, xp, beside):
        """Return the widths along the axes, shaped for broadcasting, and the volumes; numbers if all cells are alike."""
        if self._is_uniform:
            widths = [float(width.flat[0]) for width in self.widths]
        else:
            widths = [xp.like(width, beside) for width in self.widths]
        return widths, widths[0] * widths[1] * widths[2]

    def _terms(self, xp, fields, geometry, part):
        """Yield the terms of sides, sources and wells: index, tie, value and rate. One adds tie · (value − x) to b − A x at its index, or, if rate is not
        None, that."""
        widths, volume = geometry
        constant = lambda number: xp.like(number, fields[0]) if np.ndim(number) else float(number)
        for d, axis in enumerate(_AXES):
            for is_upper, (kind, value, coefficient) in enumerate(self.numbers[d]):
                if kind == "periodic":
                    continue
                end = (slice(None),) * axis + (slice(-1, None) if is_upper else slice(0, 1),)
                of_end = lambda values: values if self._is_uniform else values[end]
                across, value = of_end(widths[d]), constant(value)
                area = of_end(volume) / across
                if kind == "neumann":
                    if np.ndim(value) or value != 0:
                        yield end, None, None, xp.where(part[end], (0 * fields[0][end] + value) * area, 0.0)
                    continue
                tie = 2 * fields[_ALONG[len(fields)][d]][end] * area / across
                if kind == "robin":
                    # Unlike that of two cells, it has a derivative with respect to a coefficient of 0.
                    film = 0 * tie + constant(coefficient) * area
                    tie = tie * film / xp.where(tie + film > 0, tie + film, 1.0)
                yield end, tie, value, None
        yield from self._points(xp, [fields[n] for n in _ALONG[len(fields)]], widths)

    def _points(self, xp, kappa, widths):
        """Yield the terms of sources and wells."""
        at = lambda d, *index: widths[d] if self._is_uniform else widths[d][index]
        for i, j, (first, last), rate in self._sources:
            k = slice(first, last + 1)
            share = kappa[0][k, j, i] * at(2, k, 0, 0)
            yield (k, j, i), None, None, rate * share / share.sum()
        for i, j, (first, last), value, radius in self._wells:
            k = slice(first, last + 1)
            along, across = kappa[0][k, j, i], kappa[1][k, j, i]
            is_open = (along > 0) & (across > 0)
            ratio = (xp.where(is_open, across, 1.0) / xp.where(is_open, along, 1.0)) ** 0.5
            dx, dy = at(0, 0, 0, i), at(1, 0, j, 0)
            # Peaceman's radius, as in the matrix.
            reach = 0.28 * (ratio * dx**2 + dy**2 / ratio) ** 0.5 / (ratio**0.5 + ratio**-0.5)
            mean = xp.where(is_open, along * across, 1.0) ** 0.5
            index = 2 * np.pi * mean * at(2, k, 0, 0) / xp.log(reach / radius)
            yield (k, j, i), xp.where(is_open, index, 0.0), float(value), None

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
        return kind, *(np.reshape(n, self.faces(d)) if np.ndim(n) else np.float64(n) for n in numbers)


def _part(fields):
    """Return which cells are active."""
    part = fields[0] > 0
    for field in fields[1:]:
        part = part | (field > 0)
    return part


def _in_series(xp, a, b):
    """Return two conductances in series, 0 where one of them is 0."""
    is_open = (a > 0) & (b > 0)
    return xp.where(is_open, a / (1 + a / xp.where(is_open, b, 1.0)), 0.0)
