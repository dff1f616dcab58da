"""Derivatives of functions of a solution."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

from isobar._arrays import fitted, library_of, like_library, on_host, readable
from isobar._libraries import operations
from isobar._options import number


SIDES = ("west", "east", "south", "north", "bottom", "top")


class SideGradient(NamedTuple):
    """Derivatives with respect to the boundary values on each face of a side. Their sum is the derivative with respect to a common value."""

    value: Any
    """With respect to the value, or the flux of a Neumann side; 0 on periodic sides."""
    coefficient: Any
    """With respect to the coefficient of a Robin side; 0 on others."""


class FaceGradient(NamedTuple):
    """Derivatives with respect to the inputs of `Faces`; None for directions that the problem does not have."""

    tx: np.ndarray
    """With respect to the conductances between neighbours in x."""
    ty: np.ndarray | None
    """With respect to the conductances between neighbours in y."""
    tz: np.ndarray | None
    """With respect to the conductances between neighbours in z."""
    shift: np.ndarray
    """With respect to the shift of every cell."""


class Gradient:
    """Derivatives of a number J(x) with respect to the inputs of a solve, as `Result.gradient` returns them.

    `b` is computed immediately, the others on demand, in one pass over the grid. They are arrays of NumPy; but if κ, x and ∂J/∂x are on one GPU, the
    derivatives with respect to κ, c, f and sides are computed there, and are arrays of the same library as ∂J/∂x. Those that need x raise if it has
    changed since the solve.
    """

    __slots__ = {
        "_fixed_b": None,
        "_parts": None,
        "_problem": None,
        "_result": None,
        "adjoint": "The `Result` of the adjoint solve A λ = ∂J/∂x; None if the solve itself did not converge.",
        "b": "∂J/∂b = A⁻¹ ∂J/∂x, an array of the same library as ∂J/∂x.",
    }

    def __init__(self, problem, result, b, adjoint, fixed_b):
        self._problem, self._result, self._fixed_b, self._parts = problem, result, fixed_b, None
        self.b, self.adjoint = _read_only(b), adjoint

    @property
    def _x(self):
        return unchanged(self._result)

    @property
    def kappa(self) -> Any:
        """∂J/∂κ of every cell, an array, or a tuple if κ was given as a tuple. 0 in closed cells and through faces between closed cells, which stay closed.

        Read-only arrays of NumPy, like `b`: other derivatives are computed from it.
        """
        if self._parts is None:
            there = self._on_gpu()
            if there is None:
                self._parts = [_read_only(each) for each in pulled_back(self._problem, on_host(self._x), on_host(self.b), self._fixed_b)]
            else:
                self._parts = there.pulled_back(self._x, self.b, self._fixed_b, self._problem.shape)
        return self._parts[0] if len(self._parts) == 1 else tuple(self._parts)

    @property
    def reaction(self) -> Any:
        """∂J/∂c of every cell."""
        there = self._on_gpu()
        if there is not None:
            return there.by_density(self._x, self.b, self._problem.shape, of_reaction=True)
        return -self._problem._volumes() * on_host(self.b) * on_host(self._x)

    @property
    def f(self) -> Any:
        """∂J/∂f of every cell, for b = ``problem.rhs(f)``."""
        there = self._on_gpu()
        if there is not None:
            return there.by_density(self._x, self.b, self._problem.shape, of_reaction=False)
        return self._problem._volumes() * on_host(self.b)

    def _on_gpu(self):
        """Return the problem's coefficients if they, x and b are on one GPU, where derivatives are then computed."""
        there = self._problem._on_gpu
        return there if there is not None and there.takes(self._result.x, self.b) else None

    def side(self, name: str) -> SideGradient:
        """Return derivatives with respect to the boundary values of a side (`Diffusion` only).

        Sides are ``"west"``, ``"east"``, ``"south"``, ``"north"``, ``"bottom"`` and ``"top"``.

        >>> problem = isobar.Diffusion(np.ones((3, 8)), boundary={"west": 2.0, "east": {"robin": {"coefficient": 1.0, "value": 5.0}}})
        >>> result = isobar.Solver(problem, tolerance=1e-12).solve(problem.rhs())
        >>> gradient = result.gradient(np.full((3, 8), 1 / 24))                     # of the mean of x
        >>> round(float(sum(gradient.side(name).value.sum() for name in ("west", "east"))), 9)    # of both values together
        1.0
        """
        there = self._on_gpu()
        if there is None:
            return side_gradient(self._problem, on_host(self._x), on_host(self.b), name, self._fixed_b)
        d, upper, faces = _place(self._problem, name)
        return SideGradient(*there.by_side(self._x, self.b, d, upper, self._fixed_b, faces))

    def spacing(self, f: Any = 0.0) -> tuple[np.ndarray, ...]:
        """Return derivatives with respect to the widths of cells (`Diffusion` only): an array per direction, in the order of the problem's shape.

        `f` is the source density of b. The sum of an array is the derivative with respect to a common width.
        """
        problem = self._problem
        density = readable(on_host(f) if np.ndim(f) else np.full(problem.shape, number(f, "f")), "f")
        body = fitted(density, problem._cells, "f")
        axes = reversed(range(len(problem.shape)))
        given, pair = self._pair()
        found = [problem._system.width_gradient(pair, d, body, not self._fixed_b) for d in axes]
        return tuple(np.frombuffer(values, np.float64) for values in found)

    @property
    def faces(self) -> FaceGradient:
        """Derivatives with respect to conductances and shifts (`Faces` only), for a fixed b. 0 at inactive cells.

        >>> chain = isobar.Faces(np.array([2.0]), shift=np.array([1.0, 1.0]))
        >>> result = isobar.Solver(chain, tolerance=1e-12).solve(np.array([1.0, 0.0]))
        >>> result.gradient(np.array([1.0, 0.0])).faces.tx.round(3).tolist()
        [-0.04]
        """
        problem = self._problem
        given, pair = self._pair()
        found = problem._system.face_gradient(*pair)
        shapes = []
        for axis in reversed(range(3)):
            short = axis - 3 + len(problem.shape)
            less = "zyx"[axis] not in problem._periodic
            shapes.append([n - (less and e == short) for e, n in enumerate(problem.shape)] if short >= 0 else None)
        fields = zip(found, [*shapes, problem.shape])
        return FaceGradient(*(None if shape is None else np.frombuffer(values, np.float64).reshape(shape) for values, shape in fields))

    def _pair(self):
        """Return handles of x and its adjoint on the host, which must stay alive, and their descriptions."""
        given = [readable(on_host(values), what) for values, what in ((self._x, "x"), (self.b, "b"))]
        return given, [fitted(handle, self._problem._cells, "x") for handle in given]

    def __repr__(self) -> str:
        return f"<isobar.Gradient {tuple(self.b.shape)}: b, kappa, reaction, f, side, spacing, faces>"


def _read_only(array):
    """Return a view of an array of NumPy that cannot be written, and other arrays as they are."""
    if not isinstance(array, np.ndarray):
        return array
    view = array.view()
    view.flags.writeable = False
    return view


def pulled_back(problem, x, adjoint, fixed_b=False):
    """Return derivatives with respect to each κ from a solution and its adjoint on the host."""
    shape = problem._cells
    u, adjoint = readable(x, "x"), readable(adjoint, "b")
    found = problem._system.gradient(fitted(u, shape, "x"), fitted(adjoint, shape, "b"), not fixed_b)
    return [np.frombuffer(values, np.float64).reshape(problem.shape) for values in found]


def side_gradient(problem, x, adjoint, name, fixed_b=False):
    """Return derivatives with respect to a side from a solution and its adjoint on the host."""
    d, upper, faces = _place(problem, name)
    given = [readable(values, what) for values, what in ((x, "x"), (adjoint, "b"))]
    pair = [fitted(handle, problem._cells, "x") for handle in given]
    found = problem._system.side_gradient(pair, (d, upper), not fixed_b)
    return SideGradient(*(np.frombuffer(values, np.float64).reshape(faces) for values in found))


def _place(problem, name):
    """Return the axis of a side (0 is x), whether it is the upper one, and the shape of its faces."""
    dimensions = len(problem.shape)
    known = SIDES[: 2 * dimensions]
    if name not in known:
        raise ValueError(f"side: {name!r}; use {', '.join(known)}")
    d, upper = divmod(SIDES.index(name), 2)
    return d, upper == 1, [n for axis, n in enumerate(problem.shape) if axis != dimensions - 1 - d]


def gradient(result, xbar: Any, fixed_b: bool, failure: str) -> Gradient:
    """Implement `Result.gradient`."""
    from isobar._results import NotConvergedError
    from isobar._solvers import Solver

    if failure not in ("raise", "nan"):
        raise ValueError(f"failure {failure!r}; use \"raise\" or \"nan\"")
    if result.steps is not None:
        raise TypeError("gradient() needs the result of one linear solve; for time steps use Heat.gradient")
    reference, problem, made_with, _ = result._origin
    if made_with is None:
        raise ValueError("gradient(): another thread has updated the solver during this solve, so that its problem is not known; give each thread a solver")
    # Coefficients on a GPU are those of diffusion, whose matrix is symmetric: the host needs no copy to find that out.
    if problem._on_gpu is None and not problem._system.is_symmetric:
        raise ValueError("gradient() needs a symmetric matrix, and this one is not: c of a layer differs from b of the layer below it")
    rhs = readable(xbar, "xbar")
    fitted(rhs, problem._cells, "xbar")
    is_single = isinstance(rhs.array, np.ndarray) and rhs.array.dtype == np.float32
    if is_single and getattr(result.x, "dtype", None) == np.float64:
        # λ would be rounded to single precision, and miss the tolerance of x.
        rhs = readable(rhs.array.astype(np.float64), "xbar")
    unchanged(result)
    adjoint = None
    if result.converged:
        solver = reference()
        if solver is None or solver._problem is not problem:
            solver = Solver(problem, **made_with)
        # A constant that is free has no derivative.
        try:
            adjoint = solver._solve(rhs.array, projects=True)
            if adjoint._origin[1:3] != (problem, made_with):
                # Another thread has updated it meanwhile.
                adjoint = Solver(problem, **made_with)._solve(rhs.array, projects=True)
        except ValueError as error:
            what, rest = str(error)[:1], str(error)[1:]
            raise ValueError(f"xbar{rest}" if what == "b" and not rest[:1].isalnum() else str(error)) from None
        if adjoint.converged:
            return Gradient(problem, result, adjoint.x, adjoint, fixed_b)
    if failure == "raise":
        which = "the solve" if adjoint is None else "the adjoint solve"
        raise NotConvergedError(f"no gradient: {which} was {describe(adjoint or result)}; use failure=\"nan\" to continue with NaN")
    nothing = like_library(np.full(problem.shape, np.nan), rhs.array)
    return Gradient(problem, result, nothing, adjoint, fixed_b)


def sample(x, several: bool = False):
    """Return a copy of some 1000 elements of x, or of each x of a stack, where x is; None for arrays of JAX, which do not change."""
    places = (slice(None),) * several + _sparse(tuple(x.shape[several:]))
    if isinstance(x, np.ndarray):
        return x[places].copy()
    library = library_of(x)
    xp = None if library == "jax" else operations(library)
    if xp is None:
        return None
    with xp.on(x):
        return xp.copy(x[places])


@functools.lru_cache
def _sparse(shape):
    """Return slices that take some 1000 evenly spaced elements of an array, or all of a smaller one."""
    slices, room = [slice(None)] * len(shape), 1000.0
    # Short axes first, because they leave more to the others.
    for done, axis in enumerate(sorted(range(len(shape)), key=shape.__getitem__)):
        step = max(1, round(shape[axis] / room ** (1 / (len(shape) - done))))
        slices[axis] = slice(step // 2, None, step)
        room = max(1.0, room * step / shape[axis])
    return tuple(slices)


def unchanged(result):
    """Return x of a result. Raise if a sample of it differs from that at the end of the solve."""
    sampled = result._origin[3]
    if sampled is not None and on_host(sample(result.x)).tobytes() != on_host(sampled).tobytes():
        raise ValueError(
            "x has changed since the solve, in place or as the `out` of another solve, and its derivatives need it: leave result.x as it is, write "
            "result.x - data instead of changing it, and do not reuse `out` before the derivatives have been computed"
        )
    return result.x


def describe(result) -> str:
    """Return why a solve did not converge, and what to try."""
    advice = f"; {result.advice}" if result.advice else ""
    stop = result.stop.replace("_", " ")
    s = "" if result.iterations == 1 else "s"
    return f"not converged: {stop} after {result.iterations} iteration{s}, relative residual {result.residual:.1e}{advice}"
