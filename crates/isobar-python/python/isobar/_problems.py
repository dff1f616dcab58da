"""Problems."""

from __future__ import annotations

import operator
import os
from typing import TYPE_CHECKING, Any, Mapping, Sequence, Union

import numpy as np

from isobar import _isobar
from isobar._arrays import Handle, fitted, labels, like, like_library, readable, readable_on_host, writable
from isobar._gradient import SIDES as _SIDES
from isobar._options import overrides

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


Side = Union[float, str, "ArrayLike", Mapping[str, Any]]
Boundary = Union[Side, Mapping[str, Side], None]


class Problem:
    """A linear system A u = b without b. Instances are made by its subclasses and do not change."""

    def __init__(self, system, dimensions: int = 3):
        if not isinstance(system, _isobar.System):
            raise TypeError("a problem is made by Diffusion, Faces, Helmholtz.panel, Helmholtz.box, TensorProduct or Case")
        self._system = system
        self._dimensions = dimensions
        self._regular = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of its arrays: (nz, ny, nx), (ny, nx) or (nx,)."""
        return self._system.shape[3 - self._dimensions :]

    @property
    def size(self) -> int:
        """Number of unknowns."""
        nz, ny, nx = self._system.shape
        return nz * ny * nx

    @property
    def coordinates(self) -> tuple[np.ndarray, ...] | None:
        """Cell centres in z, y and x (in the order of `shape`), if known.

        >>> isobar.Diffusion(np.ones((2, 4)), spacing=0.5).coordinates[1].tolist()
        [0.25, 0.75, 1.25, 1.75]
        """
        centres = self._system.coordinates
        if centres is None:
            return None
        return tuple(np.array(axis) for axis in reversed(centres[: self._dimensions]))

    def rhs(self, f: ArrayLike | None = None, out: Any = None) -> Any:
        """Return the right-hand side b for the source density `f`, an array or a number.

        It is f times the volume of every cell (f itself for `Faces`, which has no volumes), plus boundary values, sources and wells.
        Without f it is the right-hand side of the case, or that of f = 0.

        >>> problem = isobar.Diffusion(np.ones(4), spacing=0.25, boundary={"x": 0.0})
        >>> problem.rhs(8.0).tolist()
        [2.0, 2.0, 2.0, 2.0]
        """
        body, is_on_gpu = None, False
        if f is not None:
            if isinstance(f, (int, float)) or getattr(f, "ndim", 1) == 0:
                f = np.broadcast_to(f, self.shape)
            body = readable(f, "f")
            is_on_gpu = body.parts[4] is not None
            body = readable_on_host(f, "f") if is_on_gpu else body
            body = fitted(body, self._system.shape, "f"), body
        if out is None:
            target = Handle(np.empty(0), (0, (), None, "f8", None, None))
            target = like(target, self.shape)
        else:
            target = writable(out, "out")
        self._system.rhs(body and body[0], fitted(target, self._system.shape, "out"))
        return like_library(target.array, f) if is_on_gpu and out is None else target.array

    def _is_regular(self) -> bool:
        """Return whether all cells are active and no constant is free."""
        if self._regular is None:
            self._regular = self._system.is_regular
        return self._regular

    def _volumes(self) -> np.ndarray:
        """Return the volumes of cells, 0 for inactive cells."""
        return np.frombuffer(self._system.volumes(), np.float64).reshape(self.shape)

    def to_scipy(self) -> Any:
        """Return A as a `scipy.sparse.csr_array` with rows and columns in the order of the arrays: ``A @ x.ravel()``. Rows and columns of
        inactive cells are empty.

        >>> problem = isobar.Diffusion(np.ones(3), spacing=1.0, boundary={"west": 0.0})
        >>> problem.to_scipy().toarray().tolist()
        [[3.0, -1.0, 0.0], [-1.0, 2.0, -1.0], [0.0, -1.0, 1.0]]
        """
        try:
            from scipy.sparse import csr_array
        except ImportError:
            raise ImportError("to_scipy() needs SciPy: pip install scipy") from None
        starts, columns, values = self._system.entries()
        starts, columns = np.frombuffer(starts, np.int64), np.frombuffer(columns, np.uint32)
        index = np.int32 if max(len(columns), self.size) < 2**31 else np.int64
        A = csr_array((np.frombuffer(values, np.float64), columns.astype(index), starts.astype(index)), shape=(self.size,) * 2)
        nz, ny, nx = self._system.shape
        if ny > 1 and nz > 1:
            # In the native part, z runs before y.
            order = np.arange(self.size, dtype=index).reshape(ny, nz, nx).transpose(1, 0, 2).reshape(-1)
            A = A[order][:, order]
            A.sort_indices()
        return A

    def __repr__(self) -> str:
        return f"<isobar.{type(self).__name__} {self.shape}, {self.size} cell{'' if self.size == 1 else 's'}>"

    def __reduce__(self):
        raise TypeError(f"isobar.{type(self).__name__} cannot be pickled: make a new one from its arrays or its case")


class Case(Problem):
    """The problem of a case file, with overrides: ``Case("norne.toml", solver={"tolerance": 1e-8})``.

    `Solver` uses the solver options of the case unless others are given.
    """

    def __init__(self, path: str | os.PathLike[str], **changes: Any):
        self._path, self._changes = os.fspath(path), overrides(changes)
        super().__init__(_load(_isobar.System.from_case, self._path, self._changes))

    def __repr__(self) -> str:
        return f"<isobar.Case {self._path!r}, {self._system.kind} {self.shape}, {self.size} cell{'' if self.size == 1 else 's'}>"

    def _options(self, asked: dict) -> str:
        """Return the case's solver options with overrides, as JSON."""
        return _isobar.System.options_of_case(self._path, self._changes + overrides({"solver": asked}))


def _load(load, path, *rest):
    """Read a case; raise `FileNotFoundError` if the file does not exist."""
    try:
        return load(path, *rest)
    except ValueError as error:
        if not os.path.exists(path):
            raise FileNotFoundError(str(error)) from None
        raise


class Diffusion(Problem):
    """The equation −∇·(κ∇u) + c u = f on a box of cells, by finite volumes, in one, two or three dimensions.

    Parameters
    ----------
    kappa
        κ of every cell, shape ``(nz, ny, nx)``, ``(ny, nx)`` or ``(nx,)``. A tuple of two arrays gives the horizontal and the vertical κ, a tuple
        of three gives κ in x, y and z. A cell with κ = 0 is inactive. With `coefficients` it is an image of labels. Arrays on a GPU, here
        and below, are copied to the host when the problem is made.
    spacing
        Width of cells: a number, or one per direction in the order of `kappa`'s shape, ``(dz, dy, dx)``; each may be an array with the
        widths of all cells in that direction. By default the box has sides of length 1.
    boundary
        Boundary conditions on the sides ``west``, ``east`` (x), ``south``, ``north`` (y), ``bottom``, ``top`` (z), on both sides of ``x``, ``y`` or
        ``z``, or on ``all``. A number is the value of u; ``"neumann"`` is no flow (the default); ``"periodic"`` connects opposite sides;
        ``{"neumann": flux}`` is a flux into the domain per area; ``{"robin": {"coefficient": h, "value": v}}`` is a flux h (u − v) out of it,
        h ≥ 0. Each number may be an array with one value per face of the side: shape ``(nz, ny)`` for west and east, ``(nz, nx)`` for south and
        north, ``(ny, nx)`` for bottom and top; ``(ny,)`` and ``(nx,)`` in two dimensions.
    active
        Which cells are active; all by default.
    reaction
        c, a number or an array. If it is negative (−∇·(κ∇u) − k² u = f, waves of one frequency), the matrix may be indefinite, and only
        ``method="direct"`` solves it; ``"auto"`` uses that if the matrix is separable.
    sources
        ``{"i": 3, "j": 4, "rate": 1.0}``, or with ``"k": [first, last]``: sources of a total rate in columns of cells, counted from 0.
    wells
        ``{"i": 3, "j": 4, "value": 0.0, "radius": 0.1}``: wells with a given value of u.
    coefficients
        κ of each label of an image: ``{0: 0.0, 1: 1.0, 2: 30.0}``; 0 makes the cells of a label inactive. `kappa` is then the image, of any
        integer type or bool. A label without an entry is an error.

    >>> rock = isobar.Diffusion(np.array([[0, 255, 255], [0, 0, 255]], np.uint8), coefficients={0: 0.0, 255: 1.0})
    >>> box = isobar.Diffusion(np.ones((8, 16)), spacing=(0.5, 0.25), boundary={"x": "periodic", "south": 0.0})
    >>> box.shape
    (8, 16)

    A wall that exchanges heat with air at 20 through a film of h = 5 in the west, and has a given temperature profile in the east:

    >>> film = {"robin": {"coefficient": 5.0, "value": 20.0}}
    >>> wall = isobar.Diffusion(np.ones((3, 40)), boundary={"west": film, "east": np.array([0.0, 0.0, 0.0])})
    >>> x = isobar.Solver(wall, tolerance=1e-10).solve(wall.rhs()).x
    >>> print(np.round(x[0, -1] * 2 * 40, 3))                           # the flux 20 / (1/5 + 1)
    16.667
    """

    def __init__(
        self,
        kappa: ArrayLike | tuple[ArrayLike, ...],
        spacing: float | Sequence[ArrayLike] | None = None,
        boundary: Boundary = None,
        active: ArrayLike | None = None,
        reaction: ArrayLike | None = None,
        sources: Sequence[dict[str, Any]] = (),
        wells: Sequence[dict[str, Any]] = (),
        coefficients: Mapping[int, float] | None = None,
    ):
        given, dimensions, kept = diffusion(kappa, spacing, boundary, active, reaction, sources, wells, coefficients)
        super().__init__(_isobar.System.diffusion(given), dimensions)
        self._made = made(given, kept)
        self._solvers, self._kept = {}, {}

    def replace(self, kappa: ArrayLike | tuple[ArrayLike, ...], reaction: ArrayLike | None = None) -> Diffusion:
        """Return a copy of the problem with other coefficients, and another reaction if given, for `Solver.update`.

        >>> problem = isobar.Diffusion(np.ones(4), spacing=1.0, boundary={"x": 0.0})
        >>> problem.replace(np.full(4, 3.0)).rhs(1.0).tolist()
        [1.0, 1.0, 1.0, 1.0]
        """
        fields, found = _fields(kappa)
        if tuple(found) != self.shape:
            raise ValueError(f"kappa has shape {tuple(found)}; the problem's is {self.shape}")
        shape = self._system.shape
        given = None if reaction is None else readable_on_host(np.broadcast_to(np.float64(reaction), found) if np.ndim(reaction) == 0 else reaction, "reaction")
        other = object.__new__(type(self))
        parts = [fitted(field, shape, "kappa") for field in fields]
        Problem.__init__(other, self._system.with_coefficients(parts, given and fitted(given, shape, "reaction")), self._dimensions)
        other._made = self._made
        other._solvers, other._kept = {}, {}
        return other

    def _own_fields(self):
        """Return its reaction (None if it has none) and its mask of active cells (None if all are active)."""
        reaction, active = self._system.fields()
        shaped = lambda values, kind: None if values is None else np.frombuffer(values, kind).reshape(self.shape)
        return shaped(reaction, np.float64), shaped(active, np.bool_)


def made(given, kept):
    """Return the inputs of a problem other than fields of cells, as numbers and NumPy arrays."""
    # Arrays of sides were copied.
    arrays = {handle.parts[0]: handle.array for handle in kept if isinstance(handle, Handle)}
    of = lambda number: arrays[number[0]] if isinstance(number, tuple) else number
    sides = [[(kind, of(value), of(coefficient)) for kind, value, coefficient in pair] for pair in given["boundary"]]
    return {"spacing": given["spacing"], "boundary": sides, "sources": given["sources"], "wells": given["wells"]}


def diffusion(kappa, spacing, boundary, active, reaction, sources=(), wells=(), coefficients=None):
    """Return the inputs of the native part, the number of dimensions, and the arrays that must stay alive until it has read them."""
    if coefficients is None:
        image = None
        fields, found = _fields(kappa)
    elif isinstance(kappa, tuple):
        raise TypeError("kappa: several arrays; with coefficients it must be one image of labels")
    else:
        image, fields = labels(kappa, "kappa"), []
        found = image.shape
    shape = (1,) * (3 - len(found)) + tuple(found)
    kept = [*fields, image]

    def field(values, what):
        if np.ndim(values) == 0:
            values = np.broadcast_to(np.float64(values), found)
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
        "sources": [_point(entry, n, "sources", ("rate",), shape[0]) for n, entry in enumerate(sources)],
        "wells": [_point(entry, n, "wells", ("value", "radius"), shape[0]) for n, entry in enumerate(wells)],
    }
    return given, len(found), kept


def _fields(kappa):
    """Return handles of the arrays of κ, and their shape."""
    several = isinstance(kappa, tuple) and len(kappa) in (1, 2, 3) and all(np.ndim(field) > 0 for field in kappa)
    fields = [readable_on_host(field, "kappa") for field in (kappa if several else (kappa,))]
    return fields, fields[0].shape


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
        raise ValueError(f"spacing has {len(spacing)} entries; give a number, or one entry for each of the {len(shape)} directions")
    widths = []
    for n, each in zip(shape, spacing):
        try:
            values = np.asarray(each, dtype=np.float64)
        except (TypeError, ValueError):
            raise TypeError(f"spacing: {each!r} is not a width; use a number, or an array of the widths of all cells") from None
        if values.ndim > 1 or (values.ndim == 1 and len(values) not in (1, n)):
            raise ValueError(f"spacing: widths of shape {values.shape} for {n} cells")
        widths.append(values.reshape(-1).tolist())
    # A missing direction has one cell of width 1.
    return [*reversed(widths)] + [[1.0]] * (3 - len(shape))


def _boundary(boundary, shape, dimensions, kept):
    sides = dict.fromkeys(_SIDES, ("neumann", 0.0, 0.0))
    if boundary is None:
        boundary = {}
    elif not isinstance(boundary, dict) or set(boundary) <= {"neumann", "dirichlet", "robin"}:
        # One condition for all sides, 0 included.
        boundary = {} if isinstance(boundary, dict) and not boundary else {"all": boundary}
    # Only directions of kappa have sides.
    known = _SIDES[: 2 * dimensions]
    groups = {"all": known, "x": _SIDES[:2], "y": _SIDES[2:4], "z": _SIDES[4:]}
    # More specific keys override more general ones.
    rank = {"all": 0, "x": 1, "y": 1, "z": 1}
    for key in boundary:
        if key not in sides and key not in groups:
            raise ValueError(f"boundary: unknown side {key!r}; use {', '.join(_SIDES)}, x, y, z or all")
        if not set(groups.get(key, (key,))) <= set(known):
            raise ValueError(f"boundary: {key!r} does not exist in {dimensions} dimension{'s' if dimensions > 1 else ''}; "
                             f"use {', '.join(known)}")
    for key in sorted(boundary, key=lambda key: rank.get(key, 2)):
        for side in groups.get(key, (key,)):
            # Shape of a side: (nz, ny) in x, (nz, nx) in y, (ny, nx) in z.
            axis = 2 - _SIDES.index(side) // 2
            faces = shape[:axis] + shape[axis + 1 :]
            kind, *numbers = _side(key, boundary[key])
            sides[side] = (kind, *(_number(number, f"boundary: {side}", faces, kept) for number in numbers))
    return [[sides[_SIDES[2 * d]], sides[_SIDES[2 * d + 1]]] for d in range(3)]


def _side(key, given):
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


def _point(entry, n, what, keys, nz):
    known = ("i", "j", "k", *keys)
    if not isinstance(entry, dict) or set(entry) - set(known) or not {"i", *keys} <= set(entry):
        raise ValueError(f"{what}: entry {n} is {entry!r}; use a dictionary with the keys {', '.join(known)}")
    k = entry.get("k", (0, nz - 1))
    k = (k, k) if np.ndim(k) == 0 else tuple(k)
    try:
        return (int(entry["i"]), int(entry.get("j", 0)), [int(k[0]), int(k[1])], *(float(entry[key]) for key in keys))
    except (TypeError, IndexError) as error:
        raise TypeError(f"{what}: entry {n}: {error}") from None


class Faces(Problem):
    """A matrix of conductances between neighbours, such as those of finite volumes on unequal cells, of cut cells and of networks:

    (A u)_n = s_n u_n + Σ T_nm (u_n − u_m)

    Parameters
    ----------
    tx
        T between neighbours in x, shape ``(nz, ny, nx - 1)``, ``(ny, nx - 1)`` or ``(nx - 1,)``; 0 if omitted.
    ty
        T between neighbours in y, shape ``(nz, ny - 1, nx)`` or ``(ny - 1, nx)``.
    tz
        T between neighbours in z, shape ``(nz - 1, ny, nx)``.
    shift
        s, a number or an array of the grid's shape, such as the conductance to a side with a given value. The right-hand side must then contain
        s times that value.
    active
        Which cells are active; the faces of all others are closed. By default all cells with a conductance or a shift.

    Two resistances in series between 1 and 0:

    >>> chain = isobar.Faces(np.array([2.0]), shift=np.array([1.0, 1.0]))
    >>> isobar.Solver(chain, tolerance=1e-12).solve(np.array([1.0, 0.0])).x.round(3).tolist()
    [0.6, 0.4]
    """

    def __init__(
        self,
        tx: ArrayLike | None = None,
        ty: ArrayLike | None = None,
        tz: ArrayLike | None = None,
        shift: ArrayLike | None = None,
        active: ArrayLike | None = None,
    ):
        given = [(axis, name, readable_on_host(t, name)) for axis, name, t in ((1, "tx", tx), (2, "ty", ty), (3, "tz", tz)) if t is not None]
        if not given:
            raise ValueError("no conductances; pass tx, those between neighbours in x, and ty and tz in two and three dimensions")
        axis, first, handle = given[0]
        dimensions = len(handle.shape)
        if dimensions < given[-1][0]:
            raise ValueError(f"{first} has {dimensions} dimension{'s' * (dimensions > 1)}, but {given[-1][1]} is given, which needs {given[-1][0]}")
        shape = [*handle.shape]
        shape[-axis] += 1
        faces = [None] * 3
        for axis, name, handle in given:
            wanted = [*shape]
            wanted[-axis] -= 1
            if list(handle.shape) != wanted:
                raise ValueError(f"{name} has shape {tuple(handle.shape)}; on the grid {tuple(shape)} of {first} it must be {tuple(wanted)}")
            if 0 not in wanted:
                faces[axis - 1] = handle
        if 0 in shape:
            raise ValueError(f"{first} has shape {tuple(given[0][2].shape)}; one cell or more is needed")
        full = (1,) * (3 - dimensions) + tuple(shape)

        def of_cells(values, what):
            if values is None:
                return None
            return readable_on_host(np.broadcast_to(np.float64(values), shape) if np.ndim(values) == 0 else values, what)

        shift, active = of_cells(shift, "shift"), of_cells(active, "active")
        system = _isobar.System.faces(
            full,
            [face and face.parts for face in faces],
            shift and fitted(shift, full, "shift"),
            active and fitted(active, full, "active"),
        )
        super().__init__(system, dimensions)
