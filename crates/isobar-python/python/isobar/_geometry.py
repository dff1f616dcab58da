"""Widths of cells and numbers on sides, as one array with respect to which a library can differentiate.

The array has the widths in x, y and z, one per cell, and then, side by side, a number per face: the value or the flux, and after it the coefficient of a Robin
side. Periodic sides have none.
"""

from __future__ import annotations

import copy
import math

import numpy as np

from isobar._gradient import SIDES
from isobar._inputs import each_side, side_of

# The axes of x, y and z in an array of shape (nz, ny, nx).
_AXES = (2, 1, 0)


def packed(residual, xp, spacing, boundary, dimensions, beside):
    """Return that array for these widths and boundary conditions, in the words of `Diffusion`; what is None or missing is as in the problem. It is of the
    library, the type and the device of another one."""
    widths = [width.reshape(-1) for width in residual.widths]
    for d, width in enumerate(_given_widths(spacing, residual.shape, dimensions)):
        widths[d] = width
    sides = [[*pair] for pair in residual.numbers]
    for side, key, given in each_side(boundary, dimensions):
        d, is_upper = divmod(SIDES.index(side), 2)
        kind, value, coefficient = side_of(key, given)
        own = sides[d][is_upper][0]
        if kind != own:
            raise ValueError(f"boundary: {side} is of kind \"{kind}\" here and \"{own}\" in the problem; only its numbers may differ")
        sides[d][is_upper] = kind, value, coefficient
    parts = [xp.spread(width, (residual.shape[_AXES[d]],), beside) for d, width in enumerate(widths)]
    for d, is_upper, count in _places(residual):
        faces = residual.faces(d)
        for number in sides[d][is_upper][1 : 1 + count]:
            parts.append(xp.spread(_of_faces(number, faces, SIDES[2 * d + is_upper]), faces, beside).reshape(-1))
    return xp.concatenate(parts)


def unpacked(residual, array):
    """Return the residual of the problem with the widths and numbers of such an array, or itself for None."""
    if array is None:
        return residual
    changed, array, first = copy.copy(residual), array.reshape(-1), 0

    def taken(shape):
        nonlocal first
        first += math.prod(shape)
        return array[first - math.prod(shape) : first].reshape(shape)

    widths = [taken([residual.shape[axis] if axis == _AXES[d] else 1 for axis in range(3)]) for d in range(3)]
    sides = [[*pair] for pair in residual.numbers]
    for d, is_upper, count in _places(residual):
        kind, *numbers = sides[d][is_upper]
        sides[d][is_upper] = kind, *(taken(residual.faces(d)) for _ in range(count)), *numbers[count:]
    changed.set(widths, sides)
    return changed


def _places(residual):
    """Yield the axis, which side, and how many numbers a face has, of all sides in order."""
    for d in range(3):
        for is_upper, (kind, *_) in enumerate(residual.numbers[d]):
            yield d, is_upper, {"periodic": 0, "robin": 2}.get(kind, 1)


def _given_widths(spacing, shape, dimensions):
    """Return the given widths in x, y and z, as many as there are dimensions; nothing if none are given."""
    if spacing is None:
        return []
    if not isinstance(spacing, (tuple, list)):
        is_all = np.ndim(spacing) == 0 or dimensions > 1
        spacing = (spacing,) * dimensions if is_all else (spacing,)
    if len(spacing) != dimensions:
        raise ValueError(f"spacing has {len(spacing)} entries; give a number, or one entry for each of the {dimensions} directions")
    for width, n in zip(spacing, shape[3 - dimensions :]):
        if tuple(np.shape(width)) not in ((), (1,), (n,)):
            raise ValueError(f"spacing: widths of shape {tuple(np.shape(width))} for {n} cells")
    return spacing[::-1]


def _of_faces(number, faces, side):
    """Return a number, or an array with one number per face, in the shape of the faces."""
    found, wanted = tuple(np.shape(number)), tuple(n for n in faces if n > 1) or (1,)
    if found in ((), tuple(faces)):
        return number
    if math.prod(found) != math.prod(faces) or tuple(n for n in found if n > 1) != tuple(n for n in faces if n > 1):
        raise ValueError(f"boundary: {side}: an array of shape {found}, but the side has faces of shape {wanted}")
    return number.reshape(faces) if hasattr(number, "reshape") else np.reshape(number, faces)
