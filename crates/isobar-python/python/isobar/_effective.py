"""Effective conductivities."""

from __future__ import annotations

from typing import TYPE_CHECKING, Iterable, Mapping, Sequence

import numpy as np

from isobar import _isobar
from isobar._inputs import diffusion
from isobar._options import number
from isobar._results import warn_not_converged
from isobar._solvers import check_place

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

_AXES = "xyz"


class Effective:
    """The effective conductivity of a sample along one axis, with related quantities. Made by `effective`."""

    __slots__ = {
        "axis": "``\"x\"``, ``\"y\"`` or ``\"z\"``.",
        "bounds": "Lower and upper bound for any arrangement of the cells, those of all in series and of all in parallel.",
        "conductivity": "Q L / A for a difference of 1, with the flow Q, the length L and the cross-section A. 0 if no path leads across.",
        "connected": "The fraction of the open volume that is connected to both sides.",
        "_advice": "What to do where it did not converge.",
        "converged": "Whether the residual met the tolerance, and the estimated error of the conductivity too; True if nothing had to be solved.",
        "imbalance": "The difference between inflow and outflow relative to the larger one; usually far larger than the error of the conductivity.",
        "iterations": "Iterations of the solve; 0 if nothing had to be solved.",
        "porosity": "The fraction of the volume that is open, κ > 0.",
        "potential": "u in every cell, from 1 on the lower side to 0 on the upper one, NaN where nothing flows; None unless it was asked for.",
        "tortuosity": "The tortuosity factor, the mean of κ divided by `conductivity`, which is porosity · D / D_eff for pores with one D. Infinite if nothing flows.",
    }

    def __init__(self, found, shape):
        axis, self.conductivity, self.tortuosity, self.porosity, self.connected, bounds, self.imbalance, solved, u = found
        self.axis, self.bounds = _AXES[axis], tuple(bounds)
        self.converged, self.iterations, self._advice = solved or (True, 0, None)
        self.potential = None if u is None else np.frombuffer(u).reshape(shape)
        if self.potential is not None:
            # u is exactly 0 where nothing flows.
            self.potential[self.potential == 0] = np.nan

    def __repr__(self) -> str:
        verdict = "" if self.converged else ", NOT converged"
        return f"<isobar.Effective: conductivity {self.conductivity:.6g} along {self.axis}, tortuosity factor {self.tortuosity:.6g}{verdict}>"


def effective(
    image_or_kappa: ArrayLike,
    coefficients: Mapping[int, float] | None = None,
    axis: str | Iterable[str] = "all",
    tolerance: float = 1e-5,
    *,
    spacing: float | Sequence[ArrayLike] = 1.0,
    active: ArrayLike | None = None,
    device: str = "auto",
    threads: int | None = None,
    potential: bool = False,
) -> dict[str, Effective]:
    """Compute the effective conductivity and the tortuosity factor of a sample, such as an image of a porous rock; return an `Effective` for each axis.

    Along each axis, −∇·(κ∇u) = 0 is solved with u = 1 on one side, u = 0 on the opposite side and no flow through the others, for the cells that are
    connected to both. The conductivity is computed from the energy of u, whose error is about the square of the error of u.

    Parameters
    ----------
    image_or_kappa
        κ of every cell, shape ``(nz, ny, nx)``, ``(ny, nx)`` or ``(nx,)``; or an image of labels. x runs along rows, the last index.
    coefficients
        κ of each label of an image, as for `Diffusion`: ``{0: 0.0, 255: 1.0}``.
    axis
        ``"x"``, ``"y"``, ``"z"``, several of them, or ``"all"``: all axes with more than one cell.
    tolerance
        Stop at ‖b − A u‖ ≤ tolerance · ‖b‖; and if the estimated relative error of the conductivity is above the tolerance, solve again with a
        smaller one.
    spacing
        Width of cells, as for `Diffusion`; cubes by default.
    active
        Which cells are active; all by default.
    device, threads
        As for `Solver`.
    potential
        Whether to keep u of every axis, as `Effective.potential`, a NumPy array with 8 bytes a cell.

    >>> rock = np.array([[0, 0, 0, 0], [1, 1, 1, 1], [0, 0, 0, 0], [0, 0, 0, 1]], np.uint8)      # a channel along x, and a pore by itself
    >>> found = isobar.effective(rock, {0: 0.0, 1: 3.0}, tolerance=1e-10)
    >>> round(found["x"].conductivity, 6), round(found["x"].tortuosity, 6), round(found["x"].connected, 6)
    (0.75, 1.25, 0.8)
    >>> found["y"].conductivity, found["y"].tortuosity, round(found["x"].porosity, 6)
    (0.0, inf, 0.3125)
    """
    threads, tolerance = check_place(device, threads), number(tolerance, "tolerance")
    kind = getattr(getattr(image_or_kappa, "dtype", None), "kind", "f")
    if coefficients is None and kind in "iu":
        raise ValueError("an image of integers holds labels; pass their κ as coefficients={0: 0.0, 255: 1.0}, or κ itself as image.astype(float)")
    try:
        given, dimensions, _kept = diffusion(image_or_kappa, spacing, None, active, None, coefficients=coefficients)
    except (TypeError, ValueError) as error:
        message = str(error)
        raise type(error)("image_or_" + message if message.startswith("kappa") else message) from None
    shape = (given["kappa"] or [given["labels"]])[0][1]
    if isinstance(axis, str) and axis == "all":
        axis = [each for each, n in zip(_AXES, reversed(shape)) if n > 1] or "x"
    axes = list(axis) if isinstance(axis, Iterable) and not isinstance(axis, str) else [axis]
    for each in axes:
        if each not in tuple(_AXES[:dimensions]):
            raise ValueError(f"axis: {each!r}; use {', '.join(_AXES[:dimensions])} or all")
    found = _isobar.effective(given, [_AXES.index(each) for each in axes], tolerance, device, threads, bool(potential))
    result = {each: Effective(numbers, shape) for each, numbers in zip(axes, found)}
    missed = [each for each in result.values() if not each.converged]
    if missed:
        warn_not_converged("; ".join(f"not converged along {each.axis}: {each._advice or 'see imbalance'}" for each in missed))
    return result
