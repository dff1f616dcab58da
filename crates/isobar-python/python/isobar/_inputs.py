"""Inputs of diffusion problems, as the native part takes them."""

from __future__ import annotations

import operator
from typing import Iterable, Mapping

import numpy as np

from isobar._arrays import Handle, check_unmasked, fitted, labels, readable_on_host
from isobar._gradient import SIDES
from isobar._options import number


def made(given, kept):
    """Return the inputs of a problem other than fields of cells, as numbers and NumPy arrays, and, as its form, as the native part takes them while these
    arrays are there."""
    # Arrays of sides were copied.
    arrays = {handle.parts[0]: handle.array for handle in kept if isinstance(handle, Handle)}
    of = lambda number: arrays[number[0]] if isinstance(number, tuple) else number
    sides = [[(kind, of(value), of(coefficient)) for kind, value, coefficient in pair] for pair in given["boundary"]]
    form = {**given, "kappa": [], "labels": None, "reaction": None, "active": None}
    return {"spacing": given["spacing"], "boundary": sides, "sources": given["sources"], "wells": given["wells"], "form": form}


def diffusion(kappa, spacing, boundary, active, reaction, sources=(), wells=(), coefficients=None):
    """Return the inputs of the native part, the number of dimensions, and the arrays that must stay alive until it has read them."""
    if coefficients is None:
        image = None
        fields, found = fields_of(kappa)
    elif isinstance(kappa, tuple):
        raise TypeError("kappa: several arrays; with coefficients it must be one image of labels")
    else:
        image, fields = labels(kappa, "kappa"), []
        found = image.shape
    shape = (1,) * (3 - len(found)) + tuple(found)
    kept = [*fields, image]

    def field(values, what):
        if np.ndim(values) == 0:
            values = np.broadcast_to(number(values, what), found)
        handle = readable_on_host(values, what)
        kept.append(handle)
        return fitted(handle, shape, what)

    given = {
        "kappa": [fitted(each, shape, "kappa") for each in fields],
        "labels": None if image is None else (image.ctypes.data, image.shape, image.dtype.str[1:], _table(coefficients)),
        "reaction": None if reaction is None else field(reaction, "reaction"),
        "active": None if active is None else field(active, "active"),
        "spacing": _widths(spacing, found),
        "boundary": _boundary(boundary, shape, len(found), kept),
        "sources": _points(sources, "sources", ("rate",), found),
        "wells": _points(wells, "wells", ("value", "radius"), found),
    }
    return given, len(found), kept


def fields_of(kappa):
    """Return handles of the arrays of κ, and their shape."""
    fields = [readable_on_host(field, "kappa") for field in directions(kappa)]
    found = fields[0].shape
    if 0 in found:
        raise ValueError(f"kappa has shape {tuple(found)}; at least one cell is needed")
    return fields, found


def directions(kappa):
    """Return the arrays of κ, each for some directions, as a tuple. A nested sequence of numbers is one array."""
    if isinstance(kappa, list) and any(getattr(field, "ndim", 0) > 0 for field in kappa):
        raise TypeError("kappa: a list of arrays; use a tuple of arrays for directions, or numpy.stack(kappa) as one array")
    if not isinstance(kappa, tuple) or not any(np.ndim(field) > 0 for field in kappa):
        return (kappa,)
    check_directions(len(kappa), np.ndim(kappa[0]))
    return kappa


def check_directions(count, dimensions):
    """Check the number of arrays of κ."""
    if count not in (1, 2, 3):
        raise ValueError(f"kappa: a tuple of {count}; use one array, (horizontal, vertical) or (kx, ky, kz)")
    if count > 1 and dimensions < 3:
        meaning = "two means (horizontal, vertical)" if count == 2 else "three means (kx, ky, kz)"
        raise ValueError(
            f"kappa: a tuple of {meaning}, which needs 3-D arrays, not {dimensions}-D ones; use one array, or (kx, ky, kz) with arrays of shape (1, ny, nx)"
        )


def _table(coefficients):
    """Return a list of labels with their coefficients."""
    if not isinstance(coefficients, Mapping):
        raise TypeError(f"coefficients: {type(coefficients).__name__}; use a dictionary of labels, such as {{0: 0.0, 1: 1.0}}")
    entries = []
    for key, value in coefficients.items():
        try:
            label, number = operator.index(key), float(value)
        except (TypeError, ValueError):
            raise TypeError(f"coefficients: {key!r}: {value!r}; use integers as labels, and a number for each") from None
        if not -(2**63) <= label < 2**63:
            raise ValueError(f"coefficients: label {label} is beyond 64 bits")
        entries.append((label, number))
    return entries


def _widths(spacing, shape):
    """Return the widths in x, y and z: none, one, or one per cell."""
    if spacing is None:
        return [[], [], []]
    if not isinstance(spacing, (tuple, list)) and np.size(spacing) == 1:
        spacing = (np.ravel(spacing)[0],) * len(shape)
    elif len(shape) == 1 and len(spacing) > 1:
        # The widths of all cells.
        spacing = (spacing,)
    if len(spacing) != len(shape):
        entries = "1 entry" if len(spacing) == 1 else f"{len(spacing)} entries"
        raise ValueError(f"spacing has {entries}; give a number, or one entry for each of the {len(shape)} directions")
    axes = "zyx"[3 - len(shape) :]
    widths = []
    for n, axis, each in zip(shape, axes, spacing):
        check_unmasked(each, "spacing")
        try:
            values = np.asarray(each)
            if values.dtype.kind in "Uc":
                raise TypeError
            values = values.astype(np.float64)
        except (TypeError, ValueError):
            raise TypeError(f"spacing: {each!r} is not a width; use a number, or an array of the widths of all cells") from None
        if values.ndim > 1 or (values.ndim == 1 and len(values) not in (1, n)):
            order = f"; the order is ({', '.join('d' + axis for axis in axes)})" if len(axes) > 1 else ""
            raise ValueError(f"spacing: widths of shape {values.shape} for {n} cell{'' if n == 1 else 's'} in {axis}{order}")
        widths.append(values.reshape(-1).tolist())
    # A missing direction has one cell of width 1.
    return [*reversed(widths)] + [[1.0]] * (3 - len(shape))


def _boundary(boundary, shape, dimensions, kept):
    sides = dict.fromkeys(SIDES, ("neumann", 0.0, 0.0))
    for side, key, given in each_side(boundary, dimensions):
        # Shape of a side: (nz, ny) in x, (nz, nx) in y, (ny, nx) in z.
        axis = 2 - SIDES.index(side) // 2
        faces = shape[:axis] + shape[axis + 1 :]
        kind, *numbers = side_of(key, given)
        sides[side] = (kind, *(_number(value, f"boundary: {side}", faces, kept) for value in numbers))
    return [[sides[SIDES[2 * d]], sides[SIDES[2 * d + 1]]] for d in range(3)]


def each_side(boundary, dimensions):
    """Yield the names of sides, their keys in boundary conditions, and what is given there; later ones override earlier ones."""
    if boundary is None:
        boundary = {}
    elif not isinstance(boundary, dict) or set(boundary) <= {"neumann", "dirichlet", "robin"}:
        # One condition for all sides, 0 included.
        boundary = {} if isinstance(boundary, dict) and not boundary else {"all": boundary}
    # Only directions of kappa have sides.
    known = SIDES[: 2 * dimensions]
    groups = {"all": known, "x": SIDES[:2], "y": SIDES[2:4], "z": SIDES[4:]}
    # More specific keys override more general ones.
    rank = {"all": 0, "x": 1, "y": 1, "z": 1}
    for key in boundary:
        if key not in SIDES and key not in groups:
            raise ValueError(f"boundary: unknown side {key!r}; use {', '.join(SIDES)}, x, y, z or all")
        if not set(groups.get(key, (key,))) <= set(known):
            raise ValueError(f"boundary: {key!r} does not exist in {dimensions} dimension{'s' if dimensions > 1 else ''}; "
                             f"use {', '.join(known)}")
    for key in sorted(boundary, key=lambda key: rank.get(key, 2)):
        for side in groups.get(key, (key,)):
            yield side, key, boundary[key]


def side_of(key, given):
    """Return kind, value and coefficient of a side; the last two are numbers or arrays."""
    if isinstance(given, str) and given in ("neumann", "dirichlet", "periodic"):
        return given, 0.0, 0.0
    if isinstance(given, dict) and len(given) == 1:
        (kind, value), *_ = given.items()
        if kind in ("neumann", "dirichlet"):
            return kind, value, 0.0
        if kind == "robin" and isinstance(value, dict) and set(value) == {"coefficient", "value"}:
            return kind, value["value"], value["coefficient"]
    if not isinstance(given, (str, dict, bool)) and given is not None:
        return "dirichlet", given, 0.0
    raise ValueError(
        f"boundary: {key} = {given!r}; use a number or an array (the value of u), \"neumann\" (no flow), \"periodic\", {{\"neumann\": flux}} or "
        "{\"robin\": {\"coefficient\": h, \"value\": v}}"
    )


def _number(value, what, faces, kept):
    """Return a number, or the description of an array with one number per face."""
    if np.ndim(value) == 0:
        try:
            return float(value)
        except (TypeError, ValueError):
            raise ValueError(f"{what}: {value!r} is neither a number nor an array of shape {faces}") from None
    handle = readable_on_host(value, what)
    array = handle.array
    # A copy, because time steps read it again when they begin.
    copied = readable_on_host(np.array(array.detach() if hasattr(array, "detach") else array, dtype=np.float64), what)
    kept.append(copied)
    found = tuple(copied.shape)
    if found not in (faces, faces[1:]) or (found != faces and faces[0] != 1):
        wanted = faces[1:] if faces[0] == 1 else faces
        raise ValueError(f"{what}: an array of shape {found}, but the side has faces of shape {wanted}")
    return copied.parts


def _points(entries, what, keys, shape):
    """Return sources or wells on a grid of one to three dimensions."""
    if isinstance(entries, (str, bytes)) or not isinstance(entries, Iterable):
        raise TypeError(f"{what}: {entries!r}; use a list of dictionaries with the keys {', '.join(('i', 'j', 'k', *keys))}")
    return [_point(entry, n, what, keys, shape) for n, entry in enumerate(entries)]


def _point(entry, n, what, keys, shape):
    known = ("i", "j", "k", *keys)
    nz = shape[0] if len(shape) == 3 else 1
    needed = ("i", "j") if len(shape) > 1 else ("i",)
    if not isinstance(entry, dict):
        raise ValueError(f"{what}: entry {n} is {entry!r}; use a list of dictionaries with the keys {', '.join(known)}")
    if missing := [key for key in (*needed, *keys) if key not in entry]:
        raise ValueError(f"{what}: entry {n} is {entry!r}, without {' and '.join(missing)}; its keys are {', '.join(known)}")
    if unknown := [key for key in entry if key not in known]:
        raise ValueError(f"{what}: entry {n} has the unknown key {unknown[0]!r}; its keys are {', '.join(known)}")
    k = entry.get("k", (0, nz - 1))
    try:
        k = (k, k) if np.ndim(k) == 0 else tuple(k)
        if len(k) != 2:
            raise ValueError(f"k = {entry['k']!r}; use a layer, or [first, last]")
        i, j, first, last = (operator.index(index) for index in (entry["i"], entry.get("j", 0), *k))
        numbers = [float(entry[key]) for key in keys]
    except (TypeError, ValueError) as error:
        raise TypeError(f"{what}: entry {n}: {error}") from None
    if min(i, j, first, last) < 0:
        raise ValueError(f"{what}: entry {n} is {entry!r}; cells are counted from 0, and not from the end")
    if first > last:
        raise ValueError(f"{what}: entry {n} has the layers k = ({first}, {last}), which are reversed; use ({last}, {first})")
    return i, j, [first, last], *numbers
