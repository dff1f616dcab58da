"""Problems."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Mapping, Sequence, Union

import numpy as np

from isobar import _isobar
from isobar._arrays import Handle, fitted, library_of, like, like_library, readable, readable_on_host, writable
from isobar._gradient import SIDES as _SIDES
from isobar._inputs import diffusion, directions, fields_of, made
from isobar._options import number, overrides
from isobar._on_gpu import Affine, Coefficients, FacesOnGpu, on_gpu, readable_on_gpu
from isobar._residual import Residual

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


Side = Union[float, str, "ArrayLike", Mapping[str, Any]]
Boundary = Union[Side, Mapping[str, Side], None]


class Problem:
    """A linear system A u = b without b. Instances are made by its subclasses and do not change."""

    # Coefficients on a GPU, if the problem was made of them, and the right-hand side as a function of arrays on a GPU.
    _on_gpu = _affine = None

    def __init__(self, system, dimensions: int = 3):
        if not isinstance(system, _isobar.System):
            raise TypeError("a problem is made by Diffusion, Faces, Helmholtz.panel, Helmholtz.box, TensorProduct or Case")
        self._system = system
        self._dimensions = dimensions
        # The shape with three directions.
        self._cells = system.shape

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of its arrays, (nz, ny, nx), (ny, nx) or (nx,)."""
        return self._cells[3 - self._dimensions :]

    @property
    def size(self) -> int:
        """Number of unknowns."""
        nz, ny, nx = self._cells
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
        Without f it is the right-hand side of the case, or that of f = 0. It has the library and device of f, in double precision from
        host arrays; of a number, those of κ if that is on a GPU.

        >>> problem = isobar.Diffusion(np.ones(4), spacing=0.25, boundary={"x": 0.0})
        >>> problem.rhs(8.0).tolist()
        [2.0, 2.0, 2.0, 2.0]
        """
        if out is None and self._takes_on_gpu(f):
            return self._on_gpu.rhs(f, self.shape)
        if out is None and on_gpu(f):
            fitted(readable(f, "f"), self._cells, "f")
            self._affine = self._affine or Affine(self)
            return self._affine.rhs(f)
        return self._rhs_on_host(f, out)

    def _takes_on_gpu(self, f) -> bool:
        """Return whether the coefficients are on a GPU, and the source density can be taken there."""
        if self._on_gpu is None:
            return False
        if f is None or _is_number(f):
            return True
        if not on_gpu(f):
            return False
        given = readable(f, "f")
        fitted(given, self._cells, "f")
        return given.parts[4] == self._on_gpu.device and library_of(f) == self._on_gpu.library

    def _rhs_on_host(self, f, out=None):
        """Return the right-hand side, made in host memory."""
        body, is_on_gpu = None, False
        if f is not None:
            f = np.broadcast_to(f, self.shape) if _is_number(f) else f
            body = readable(f, "f")
            is_on_gpu = body.parts[4] is not None
            body = readable_on_host(f, "f") if is_on_gpu else body
            body = fitted(body, self._cells, "f"), body
        if out is None:
            target = Handle(np.empty(0), (0, (), None, "f8", None, None))
            target = like(target, self.shape)
        else:
            target = writable(out, "out")
        self._system.rhs(body and body[0], fitted(target, self._cells, "out"))
        return like_library(target.array, f) if is_on_gpu and out is None else target.array

    def _native(self, device: str):
        """Return the native system for a solver on a device, and the device."""
        on_gpu = self._on_gpu
        if on_gpu is None:
            return self._system, device
        own = f"cuda:{on_gpu.device}"
        if device not in ("auto", own) and not (device == "cuda" and on_gpu.device == 0):
            return self._system, device
        return on_gpu.system(), own

    def __getattr__(self, name):
        if name != "_system" or self._on_gpu is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        # The problem on the host, made when it is first needed.
        self._system = self._made_on_host()
        return self._system

    def _volumes(self) -> np.ndarray:
        """Return the volumes of cells, 0 for inactive cells."""
        return np.frombuffer(self._system.volumes(), np.float64).reshape(self.shape)

    def _is_active(self) -> np.ndarray:
        """Return which cells are active: those with a right-hand side for an f so large that no boundary value cancels it."""
        return self._rhs_on_host(2.0**400) != 0

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
        entries = zip(self._system.entries(), (np.int64, np.uint32, np.float64))
        starts, columns, values = (np.frombuffer(part, kind) for part, kind in entries)
        index = np.int32 if max(len(columns), self.size) < 2**31 else np.int64
        A = csr_array((values, columns.astype(index), starts.astype(index)), shape=(self.size,) * 2)
        nz, ny, nx = self._cells
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

    `Solver` uses the solver options of the case unless others are given. Arrays have shape ``(nz, ny, nx)``, with nz = 1 in two dimensions.
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
    """Read a case; raise `FileNotFoundError` if the file does not exist, and speak of Python only."""
    try:
        return load(path, *rest)
    except ValueError as error:
        if not os.path.exists(path):
            raise FileNotFoundError(str(error)) from None
        if "sequence of time steps" in str(error):
            raise ValueError(f"{str(error).partition('; use ')[0]}; use isobar.solve({path!r})") from None
        raise


class Diffusion(Problem):
    """The equation −∇·(κ∇u) + c u = f on a box of cells, by finite volumes, in one, two or three dimensions.

    Parameters
    ----------
    kappa
        κ of every cell, shape ``(nz, ny, nx)``, ``(ny, nx)`` or ``(nx,)``. In three dimensions a tuple of two arrays gives the horizontal and the
        vertical κ, a tuple of three gives κ in x, y and z. Arrays ``(ny, nx)`` have no vertical direction, and a tuple of them is an error: for κ
        in x and y, pass three arrays of shape ``(1, ny, nx)`` and sides of x and y. A cell with κ = 0 is inactive; NaN is an error, even where `active` is False. With `coefficients` it is an image of labels. Arrays of
        CuPy, PyTorch or JAX on a GPU stay there: the problem has a copy, which a solver on that GPU reads and checks when it is made or updated. They
        are copied to the host only when something there needs them: another device, an image, fluxes, and a direct solve of κ that varies.
    spacing
        Width of cells: a number, or one per direction in the order of `kappa`'s shape, ``(dz, dy, dx)``; each may be an array with the
        widths of all cells in that direction. By default the box has sides of length 1.
    boundary
        Boundary conditions on the sides ``west``, ``east`` (x), ``south``, ``north`` (y), ``bottom``, ``top`` (z), on both sides of ``x``, ``y`` or
        ``z``, or on ``all``, those of every direction that `kappa`'s shape has, also of one cell (case files leave such directions out). A number is the value of u, as is ``{"dirichlet": value}``, and ``"dirichlet"`` is u = 0; ``"neumann"`` is no flow (the default);
        ``"periodic"`` connects opposite sides; ``{"neumann": flux}`` is a flux into the domain per area;
        ``{"robin": {"coefficient": h, "value": v}}`` is a flux h (u − v) out of it, h ≥ 0. Each number may be an array with one value per face of the side: shape ``(nz, ny)`` for west and east, ``(nz, nx)`` for south and
        north, ``(ny, nx)`` for bottom and top; ``(ny,)`` and ``(nx,)`` in two dimensions.
    active
        Which cells are active; all by default.
    reaction
        c, a number or an array; 0 by default. If it is negative (−∇·(κ∇u) − k² u = f, waves of one frequency), the matrix may be indefinite, and only
        ``method="direct"`` solves it; ``"auto"`` uses that if the matrix is separable, as for κ that is constant or varies along one axis.
    sources
        ``{"i": 3, "j": 4, "rate": 1.0}``, or with ``"k": [first, last]``: sources of a total rate in columns of cells, counted from 0.
    wells
        ``{"i": 3, "j": 4, "value": 0.0, "radius": 0.1}``: wells with a given value of u, their radius in the unit of `spacing`; `k` as for sources.
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
        fields = () if coefficients else directions(kappa)
        if fields and all(on_gpu(field) for field in fields):
            self._make_on_gpu(fields, spacing, boundary, active, reaction, sources, wells)
            return
        given, dimensions, kept = diffusion(kappa, spacing, boundary, active, reaction, sources, wells, coefficients)
        super().__init__(_isobar.System.diffusion(given), dimensions)
        self._keep(Residual(self._cells, made(given, kept)))

    def _keep(self, residual):
        """Keep what does not depend on coefficients, and begin without functions for automatic differentiation."""
        self._residual, self._calls = residual, {}

    def _make_on_gpu(self, kappa, spacing, boundary, active, reaction, sources=(), wells=()):
        found = tuple(kappa[0].shape)
        # One array of zeros, without memory, instead of all of κ.
        none = np.broadcast_to(np.float64(0.0), found)
        given, dimensions, kept = diffusion(none, spacing, boundary, None, None, sources, wells)
        shape = (1,) * (3 - dimensions) + found
        _check_shapes(shape, kappa=kappa, active=[active], reaction=[reaction])
        _isobar.System.check_form(given)
        residual = Residual(shape, made(given, kept))
        self._take_on_gpu((given, kept), dimensions, Coefficients(kappa, reaction, active, residual))

    def _take_on_gpu(self, form, dimensions, coefficients):
        # The form has copies of the arrays of sides.
        self._form, self._dimensions, self._on_gpu = form, dimensions, coefficients
        self._cells = coefficients.residual.shape
        self._keep(coefficients.residual)

    def _made_on_host(self):
        others, kappa = self._on_gpu.on_host()
        given, _ = self._form
        fields = {what: field and field.parts for what, field in others.items()}
        return _isobar.System.diffusion({**given, **fields, "kappa": [field.parts for field in kappa]})

    def replace(self, kappa: ArrayLike | tuple[ArrayLike, ...], reaction: ArrayLike | None = None) -> Diffusion:
        """Return a copy of the problem with other coefficients, and another reaction if given, for `Solver.update`.

        >>> problem = isobar.Diffusion(np.ones(4), spacing=1.0, boundary={"x": 0.0})
        >>> problem.replace(np.full(4, 3.0)).rhs(1.0).tolist()
        [1.0, 1.0, 1.0, 1.0]
        """
        all_of_kappa = directions(kappa)
        if self._on_gpu is not None and all(on_gpu(field) for field in all_of_kappa):
            return self._replaced_on_gpu(all_of_kappa, reaction)
        fields, found = fields_of(kappa)
        if tuple(found) != self.shape:
            raise ValueError(f"kappa has shape {tuple(found)}; the problem's is {self.shape}")
        shape = self._cells
        if reaction is not None and np.ndim(reaction) == 0:
            reaction = np.broadcast_to(number(reaction, "reaction"), found)
        given = None if reaction is None else fitted(readable_on_host(reaction, "reaction"), shape, "reaction")
        other = object.__new__(type(self))
        parts = [fitted(field, shape, "kappa") for field in fields]
        Problem.__init__(other, self._system.with_coefficients(parts, given), self._dimensions)
        other._keep(self._residual)
        return other

    def _replaced_on_gpu(self, kappa, reaction):
        _check_shapes(self._cells, kappa=kappa, reaction=[reaction])
        other = object.__new__(type(self))
        other._take_on_gpu(self._form, self._dimensions, self._on_gpu.replaced(kappa, reaction))
        return other

    def _own_fields(self):
        """Return its reaction (None if it has none) and its mask of active cells (None if all are active)."""
        reaction, active = self._system.fields()
        shaped = lambda values, kind: None if values is None else np.frombuffer(values, kind).reshape(self.shape)
        return shaped(reaction, np.float64), shaped(active, np.bool_)


def _is_number(f) -> bool:
    return isinstance(f, (int, float)) or getattr(f, "ndim", 1) == 0


def _check_shapes(shape, **arrays):
    """Check the shapes of arrays on any device; numbers and None have none."""
    for what, several in arrays.items():
        for array in several:
            if array is not None and np.ndim(array) > 0:
                fitted(Handle(array, (0, tuple(np.shape(array)), None, None, None, None)), shape, what)


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
        Which cells are active; the faces of all others are closed. By default all cells with a conductance or a shift; what b has in others is left
        out. With a mask, b must be 0 in active cells that have neither.
    periodic
        The periodic directions, ``"x"`` or ``"xy"``. Their T have one more number along the direction: the last is between the last cell and the
        first one.

    Arrays of CuPy, PyTorch or JAX on a GPU stay there: the problem has a copy, from which a solver on that GPU is made or updated.

    Two resistances in series between 1 and 0, and a ring of three cells:

    >>> chain = isobar.Faces(np.array([2.0]), shift=np.array([1.0, 1.0]))
    >>> isobar.Solver(chain, tolerance=1e-12).solve(np.array([1.0, 0.0])).x.round(3).tolist()
    [0.6, 0.4]
    >>> isobar.Faces(np.array([1.0, 2.0, 3.0]), periodic="x").to_scipy().toarray().tolist()
    [[4.0, -1.0, -3.0], [-1.0, 3.0, -2.0], [-3.0, -2.0, 5.0]]
    """

    def __init__(
        self,
        tx: ArrayLike | None = None,
        ty: ArrayLike | None = None,
        tz: ArrayLike | None = None,
        shift: ArrayLike | None = None,
        active: ArrayLike | None = None,
        periodic: str | Sequence[str] = (),
    ):
        self._periodic = rings = [*(periodic or ())]
        for name in rings:
            if name not in ("x", "y", "z"):
                raise ValueError(f'periodic: {name!r}; use "x", "y" or "z", or several of them, as in "xy"')
        given = [(axis, name, t) for axis, name, t in ((1, "tx", tx), (2, "ty", ty), (3, "tz", tz)) if t is not None]
        if not given:
            raise ValueError("no conductances; pass tx, those between neighbours in x, and ty and tz in two and three dimensions")
        is_there = all(on_gpu(t) and library_of(t) == library_of(given[0][2]) for _, _, t in given)
        place = readable_on_gpu if is_there else readable_on_host
        handles = [(axis, name, place(t, name)) for axis, name, t in given]
        axis, first, handle = handles[0]
        self._dimensions = dimensions = len(handle.shape)
        if dimensions < given[-1][0]:
            raise ValueError(f"{first} has {dimensions} dimension{'s' * (dimensions > 1)}, but {given[-1][1]} is given, which needs {given[-1][0]}")
        for name in rings:
            if "xyz".index(name) >= dimensions:
                raise ValueError(f"periodic: {name!r}, but {first} has {dimensions} dimension{'s' * (dimensions > 1)}")
        shape = [*handle.shape]
        shape[-axis] += first[1] not in rings
        faces: list[Handle | None] = [None] * 3
        for axis, name, handle in handles:
            wanted = [*shape]
            wanted[-axis] -= name[1] not in rings
            if list(handle.shape) != wanted:
                rings_here = f" ({first} has a face for each cell in {first[1]}, which is periodic)" if first[1] in rings else ""
                raise ValueError(
                    f"{name} has shape {tuple(handle.shape)}; {first} implies a grid of {tuple(shape)} cells{rings_here}, so {name} must have shape {tuple(wanted)}"
                )
            if 0 not in wanted:
                faces[axis - 1] = handle
        if 0 in shape:
            raise ValueError(f"{first} has shape {tuple(handles[0][2].shape)}; one cell or more is needed")
        self._cells = full = (1,) * (3 - dimensions) + tuple(shape)
        parts = [None if face is None else face.parts for face in faces]
        is_periodic = [name in rings for name in "xyz"]
        if is_there and any(parts):
            self._on_gpu = FacesOnGpu.of(full, handles[0][2].array, parts, is_periodic, shift, active)
            if self._on_gpu is not None:
                return
            parts = [None if face is None else readable_on_host(face.array, "conductances").parts for face in faces]

        def of_cells(values, what):
            if values is None:
                return None
            values = np.broadcast_to(number(values, what), shape) if np.ndim(values) == 0 else values
            return fitted(readable_on_host(values, what), full, what)

        super().__init__(_isobar.System.faces(full, parts, is_periodic, of_cells(shift, "shift"), of_cells(active, "active")), dimensions)

    def _made_on_host(self):
        return self._on_gpu.system().on_host()
