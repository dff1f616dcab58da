"""Solvers."""

from __future__ import annotations

import json
import os
import sys
import weakref
from typing import Any, Callable, Union

import numpy as np

from isobar import _isobar
from isobar._arrays import copied, fitted, like, like_library, native, overlap, readable, readable_on_host, systems, writable
from isobar._gradient import describe, sample
from isobar._options import overrides, to_json, whole
from isobar._problems import _SIDES, Case, Problem, _load
from isobar._results import Result, Results, warn_not_converged


Progress = Union[bool, Callable[[int, float], object], None]
# A `Result`, or `Results` of several right-hand sides: the shape of b decides, which type checkers do not know.
Solved = Any


def check_place(device: Any, threads: Any) -> int | None:
    """Check the types of a device and of a number of threads, and return the latter."""
    if not isinstance(device, str):
        raise TypeError(f"device: {device!r}; use \"auto\", \"cpu\", \"cuda\" or \"cuda:N\"")
    return None if threads is None else whole(threads, "threads")


class Solver:
    """A solver of A x = b: a problem, a method and a device, with all memory that solving needs.

    It is made once and used for any number of right-hand sides, from any thread; concurrent calls wait for each other.
    Threads do not survive a fork, so its calls raise in a forked process: make a new solver there, or start workers with
    :mod:`multiprocessing`'s ``"spawn"``.

    Parameters
    ----------
    problem
        The problem.
    method
        ``"auto"``, ``"direct"``, ``"modes"``, ``"multigrid"``, ``"cg"``, ``"jacobi"``, ``"deflated-cg"``, ``"bicgstab"``.
    device
        ``"auto"`` (the first GPU that works, else the CPU), ``"cpu"``, ``"cuda"``, ``"cuda:1"``, or several as ``"cuda:0,1"``.
    tolerance
        Stop at ‖b − A x‖ ≤ tolerance · ‖b‖; 1e-8 by default. For an x of float32 this is below the rounding of x, about 5e-9 n² for Poisson's equation
        on n cells across: use ``out=`` in float64 or ``judge="internal"``, and ``precision="mixed"`` instead of ``"f32"``.
    threads
        Number of CPU threads; by default one per core.
    options
        The other keys of a case file's ``[solver]``: ``preconditioner={"kind": "line"}``, ``precision="mixed"``, ``max_iterations=100``,
        ``norm="initial"`` (the tolerance is then relative to the residual of x0), …

    For a `Case`, options that are not given here are those of the case.

    >>> solver = isobar.Solver(isobar.Helmholtz.panel(16, 16, 8), tolerance=1e-6, device="cpu")
    >>> solver.solve(np.ones((8, 16, 16)))  # doctest: +ELLIPSIS
    <isobar.Result: converged in ... x (8, 16, 16)>
    """

    def __init__(
        self,
        problem: Problem,
        method: str | None = None,
        device: str = "auto",
        tolerance: float | None = None,
        *,
        threads: int | None = None,
        norm: str | None = None,
        **options: Any,
    ):
        if not isinstance(problem, Problem):
            what = type(problem).__name__
            hint = "; use its method steps() or solve()" if what == "Heat" else "; use Diffusion, Faces, Helmholtz, TensorProduct or Case"
            raise TypeError(f"problem: {what} is not a linear system{hint}")
        threads = check_place(device, threads)
        self._problem = problem
        # How many updates have begun and ended, for solves of other threads.
        self._updates = 0
        self._made_with = {"method": method, "device": device, "tolerance": tolerance, "threads": threads, "norm": norm, **options}
        asked = {"method": method, "tolerance": tolerance, "norm": norm, **options}
        asked = {key: value for key, value in asked.items() if value is not None}
        if not isinstance(problem, Case):
            asked = {"tolerance": 1e-8, "norm": "rhs", **asked}
        text = problem._options(asked) if isinstance(problem, Case) else to_json(asked)
        self._tolerance = json.loads(text)["tolerance"]
        system, self._device = problem._native(device)
        self._solver = _isobar.Solver(system, text, self._device, threads)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of its arrays."""
        return self._problem.shape

    @property
    def method(self) -> str:
        """The method, after all automatic choices."""
        return self._solver.method

    @property
    def preconditioner(self) -> str | None:
        """The preconditioner, after all automatic choices; None if the method uses none."""
        name = self._solver.preconditioner
        return None if name == "none" else name

    @property
    def device(self) -> str:
        """``"cpu"`` or ``"cuda"``, with its name."""
        return ": ".join(self._solver.device)

    @property
    def notes(self) -> list[str]:
        """Remarks on the automatic choices, and on options that are not used."""
        method, deflation = self._made_with["method"], self._made_with.get("deflation")
        is_used = deflation is None or method in (None, "auto", "deflated-cg")
        return self._solver.notes + ([] if is_used else [f'deflation is not used by the method "{method}"; use "deflated-cg" with it'])

    def solve(self, b: Any, x0: Any = None, out: Any = None, *, progress: Progress = None) -> Solved:
        """Solve A x = b, or several such systems. Return a `Result`, or `Results`.

        Parameters
        ----------
        b
            An array of the problem's shape, of NumPy with any strides, or of CuPy, PyTorch or JAX. `Problem.rhs` makes one from a source density.
            Several right-hand sides are stacked along an additional first axis: ``(k, nz, ny, nx)``, or ``(k, ny, nx)`` in two dimensions.
            Each is solved separately, and a `Results` is returned.
        x0
            The first guess, a number or an array of b's shape; by default 0. It is not changed, unless it is `out`. Where the method is chosen
            automatically, one with a larger residual than b is left out.
        out
            An array for x, which may be `b` or `x0`. By default x is a new array with the library, device and type of b.
        progress
            True shows a progress bar (of tqdm, if installed). A function is called with the iteration and the relative residual; if it returns
            False, the solve stops. Several systems are solved some at a time; those not started then have x = x0.

        If it does not converge, a `NotConvergedWarning` is issued, and the result says so. Ctrl-C stops a solve, and so does any
        exception of a signal's handler, such as a time limit set with ``signal.alarm``.

        >>> problem = isobar.Diffusion(np.ones(50), boundary={"x": 0.0})
        >>> solver = isobar.Solver(problem)
        >>> result = solver.solve(problem.rhs(1.0))
        >>> float(result.x.max().round(4))
        0.125
        >>> several = solver.solve(np.stack([problem.rhs(1.0), problem.rhs(2.0), problem.rhs(3.0)]))
        >>> several.converged, several.x.shape, several.x.max(axis=1).round(4).tolist()
        (True, (3, 50), [0.125, 0.25, 0.375])
        """
        result = self._solve(b, x0, out, progress)
        if not result.converged:
            text = result._describe() if isinstance(result, Results) else describe(result)
            warn_not_converged(text)
        return result

    def _solve(self, b, x0=None, out=None, progress=None, projects=False) -> Result | Results:
        """Solve without issuing a warning. If it `projects`, the part of one b that A cannot produce is removed."""
        updates, problem, most = self._updates, self._problem, len(self.shape) + 1
        given = readable(b, "b", max(most, 3))
        several = len(given.shape) == most
        fit: Any
        fit, shape = (systems, problem.shape) if several else (fitted, problem._cells)
        rhs = fit(given, shape, "b")
        target = like(given, self._shape_of(given)) if out is None else writable(out, "out", max(most, 3))

        def require_shape_of_b(what, array):
            if several and tuple(array.shape) != tuple(given.shape):
                raise ValueError(f"{what} has shape {tuple(array.shape)}, but b has shape {tuple(given.shape)}; {what} needs the shape of b")

        require_shape_of_b("out", target)
        x = fit(target, shape, "out")
        first = None
        if x0 is not None and x0 is not target.array:
            is_number = np.isscalar(x0) and not isinstance(x0, str)
            first = readable(np.full(given.shape, float(x0)) if is_number else x0, "x0", max(most, 3))
            require_shape_of_b("x0", first)
            fit(first, shape, "x0")
        is_in_place = given.parts[:4] == target.parts[:4]
        if overlap(given, target) and (first is not None or (several and not is_in_place)):
            # x0, or the x of another system, overwrites b.
            kept = like(given, self._shape_of(given))
            copied(given, kept)
            given, rhs = kept, fit(kept, shape, "b")
        if first is not None:
            copied(first, target)
        shown = _Progress(progress)
        outcome: Any
        try:
            given_first = x0 is not None
            if several:
                outcome = self._solver.solve_many(rhs, x, given_first, shown.function)
            else:
                outcome = self._solver.solve(rhs, x, given_first, shown.function, projects)
        finally:
            shown.close()
        if several and x0 is None and len(outcome) < len(x):
            target.array[len(outcome) :] = 0
        found = native(target, given) if out is None else out
        sampled = sample(found, several)
        made_with = self._made_with if updates == self._updates and updates % 2 == 0 else None
        origin = lambda of_x: (weakref.ref(self), problem, made_with, of_x)
        if not several:
            return Result(found, outcome, self._tolerance, origin=origin(sampled))
        samples = [None] * len(outcome) if sampled is None else sampled
        return Results(found, [Result(found[n], each, self._tolerance, origin=origin(samples[n])) for n, each in enumerate(outcome)])

    def apply(self, x: Any, out: Any = None) -> Any:
        """Return A x.

        >>> problem = isobar.Diffusion(np.ones(4), spacing=1.0, boundary={"x": 0.0})
        >>> isobar.Solver(problem).apply([1.0, 1.0, 1.0, 1.0]).tolist()
        [2.0, 0.0, 0.0, 2.0]
        """
        shape = self._problem._cells
        given = readable(x, "x")
        source = fitted(given, shape, "x")
        target = like(given, self._shape_of(given)) if out is None else writable(out, "out")
        self._solver.apply(source, fitted(target, shape, "out"))
        return native(target, given) if out is None else out

    def fluxes(self, x: Any) -> tuple[Any, ...]:
        """Return the flow through all faces for a solution x: arrays for the faces across x, y and z, in this order (in fewer dimensions, fewer).

        The entries are flows through whole faces, not per area, positive towards larger x, y and z: −κ ∂x/∂n times the area, as discretised by the
        matrix. For a problem of shape ``(nz, ny, nx)`` the arrays have the shapes ``(nz, ny, nx + 1)``, ``(nz, ny + 1, nx)`` and
        ``(nz + 1, ny, nx)``; the first and the last face along the axis are on the sides. Faces of inactive cells have no flow. The net outflow of a
        cell equals its sources, less what a reaction takes; in the cells of a well it is that plus the well's rate. The arrays have the library,
        type and device of x; an x on a GPU is copied to the host, where fluxes are computed.

        >>> problem = isobar.Diffusion(np.ones((2, 4)), spacing=1.0, boundary={"west": 8.0, "east": 0.0})
        >>> solver = isobar.Solver(problem, tolerance=1e-12)
        >>> qx, qy = solver.fluxes(solver.solve(problem.rhs()).x)
        >>> qx.shape, qy.shape
        ((2, 5), (3, 4))
        >>> np.round(qx, 9).tolist()
        [[2.0, 2.0, 2.0, 2.0, 2.0], [2.0, 2.0, 2.0, 2.0, 2.0]]
        """
        given = readable_on_host(x, "x")
        shape = self.shape
        arrays = []
        for axis in range(len(shape)):
            faces = list(shape)
            faces[len(shape) - 1 - axis] += 1
            arrays.append(np.empty(faces, dtype=np.float32 if given.parts[3] == "f4" else np.float64))
        outs = [readable(array, "fluxes").parts for array in arrays]
        self._problem._system.fluxes(fitted(given, self._problem._cells, "x"), outs)
        return tuple(like_library(array, x) for array in arrays)

    def flux(self, x: Any, side: str) -> float:
        """Return the total flow out of the domain through a side, ``"west"``, ``"east"``, ``"south"``, ``"north"``, ``"bottom"`` or ``"top"``.

        Inflow is negative. Without a reaction and wells the sum over all sides equals the sum of the sources. An x on a GPU is copied to the host.

        >>> problem = isobar.Diffusion(np.ones((2, 4)), spacing=1.0, boundary={"west": 8.0, "east": 0.0})
        >>> solver = isobar.Solver(problem, tolerance=1e-12)
        >>> x = solver.solve(problem.rhs()).x
        >>> round(solver.flux(x, "west"), 9), round(solver.flux(x, "east"), 9)
        (-4.0, 4.0)
        """
        known = _SIDES[: 2 * len(self.shape)]
        if side not in known:
            raise ValueError(f"side: {side!r}; use {', '.join(known)}")
        given = fitted(readable_on_host(x, "x"), self._problem._cells, "x")
        return self._problem._system.flux(given, _SIDES.index(side) // 2, _SIDES.index(side) % 2 == 1)

    def energy(self, x: Any) -> float:
        """Return the energy ½ ∫ κ |∇x|², discretised as half the sum over faces of the flow times the difference of x.

        Faces on sides with given values and the films of Robin sides are included; a reaction and wells are not. Between sides with u = 1 and u = 0 it is half the flow, and
        its error is the square of the error of x. An x on a GPU is copied to the host.

        >>> problem = isobar.Diffusion(np.ones(4), spacing=1.0, boundary={"west": 8.0, "east": 0.0})
        >>> solver = isobar.Solver(problem, tolerance=1e-12)
        >>> round(solver.energy(solver.solve(problem.rhs()).x), 9)
        8.0
        """
        return self._problem._system.energy(fitted(readable_on_host(x, "x"), self._problem._cells, "x"))

    def update(self, problem: Problem) -> None:
        """Change the coefficients in place to those of another problem, which must not differ otherwise; for time steps and nonlinear iterations.

        A solver on a GPU makes nothing anew if no coefficient has changed.
        """
        if not isinstance(problem, Problem):
            what = type(problem).__name__
            raise TypeError(f"problem: {what} is not a linear system; pass a problem, such as problem.replace(kappa) of the first one")
        if problem._cells != self._problem._cells:
            raise ValueError(f"problem has shape {problem.shape}, and the solver's is {self.shape}; make a new solver")
        system, _ = problem._native(self._device)
        self._updates += 1
        try:
            try:
                self._solver.update(system)
            except ValueError:
                if system is problem.__dict__.get("_system"):
                    raise
                # The solver was made from coefficients on the host, or needs them there.
                self._solver.update(problem._system)
            self._problem = problem
        finally:
            self._updates += 1

    def as_linear_operator(self) -> Any:
        """Return A as a `scipy.sparse.linalg.LinearOperator` on flat vectors.

        >>> import scipy.sparse.linalg as sla
        >>> problem = isobar.Diffusion(np.ones((8, 8)), boundary={"x": 0.0})
        >>> solver = isobar.Solver(problem)
        >>> A, M = solver.as_linear_operator(), solver.as_preconditioner()
        >>> x, status = sla.cg(A, problem.rhs(1.0).ravel(), M=M)
        >>> status
        0
        """
        return self._operator(self.apply, "as_linear_operator")

    def as_preconditioner(self, iterations: int = 1) -> Any:
        """Return a preconditioner B ≈ A⁻¹ as a `scipy.sparse.linalg.LinearOperator` on flat vectors.

        B is a fixed linear map: `iterations` steps z += M⁻¹ (r − A z) from z = 0, where M⁻¹ is this solver's preconditioner, one cycle of
        multigrid or of vertical modes, or division by the diagonal (Jacobi's method). Where this solver's cycle relaxes points, which is not symmetric, it is
        one by lines, made by the first call.

        `scipy.sparse.linalg.cg` requires a symmetric and positive definite B. For diffusion problems B is symmetric, and positive definite for
        ``iterations=1`` and other odd numbers. For even numbers it is indefinite if M⁻¹A has an eigenvalue above 2, as with ``"mic"`` and the nearest
        box. For `Helmholtz` and `TensorProduct` B is symmetric to about six digits with vertical modes, which use single precision, and to a few per
        cent with multigrid, because restriction is not the transpose of prolongation; cg still works. With
        ``method="cg", preconditioner={"kind": "line"}`` B is symmetric. If the matrix is singular, the means of r and z are removed.
        """
        iterations = whole(iterations, "iterations")
        shape = self._problem._cells

        def precondition(r):
            given = readable(r, "r")
            target = like(given, self._shape_of(given))
            self._solver.precondition(fitted(given, shape, "r"), fitted(target, shape, "z"), iterations)
            return target.array

        return self._operator(precondition, "as_preconditioner")

    def _operator(self, function, name):
        try:
            from scipy.sparse.linalg import LinearOperator
        except ImportError:
            raise ImportError(f"{name}() needs SciPy: pip install scipy") from None
        size, shape = self._problem.size, self.shape

        def matvec(x):
            if np.iscomplexobj(x):  # of a real operator
                return matvec(np.real(x)) + 1j * matvec(np.imag(x))
            return np.asarray(function(np.asarray(x, dtype=np.float64).reshape(shape))).reshape(-1)

        # Without a transpose SciPy raises NotImplementedError for one.
        problem = self._problem
        is_symmetric = problem._on_gpu is not None or problem._system.is_symmetric
        transposed = matvec if is_symmetric else None
        return LinearOperator((size, size), matvec=matvec, rmatvec=transposed, dtype=np.dtype(np.float64))

    @staticmethod
    def _shape_of(given):
        return tuple(given.shape)

    def __repr__(self) -> str:
        with_ = f" with {self.preconditioner}" if self.preconditioner else ""
        return f"<isobar.Solver: {self.method}{with_} in {self._solver.precision} on {self.shape}, {self.device}>"

    def __reduce__(self):
        raise TypeError("isobar.Solver cannot be pickled: it owns threads and device memory; make one in every process")


def solve(
    case: str | os.PathLike[str],
    *,
    device: str = "auto",
    threads: int | None = None,
    progress: Progress = None,
    **changes: Any,
) -> Result:
    """Solve the problem of a case file, with overrides.

    ``isobar.solve("panel.toml", grid={"nx": 256, "ny": 256}, solver={"tolerance": 1e-8})``. A heat equation runs to its end time; its
    result has ``steps``. Other solves begin from 0: ``solver.guess`` of a case is for the command. x has shape ``(nz, ny, nx)``.

    Parameters
    ----------
    case
        The path of a case file.
    device, threads
        As for `Solver`.
    progress
        As for `Solver.solve`; for a heat equation it is called with the step's number and time.
    changes
        Overrides of the case: sections as dictionaries, or dotted keys, ``**{"solver.tolerance": 1e-8}``. No files are written: those that the
        case names are for the command, and it is an error to set ``heat.checkpoint`` or ``heat.output_every`` here.
    """
    from isobar._time import run_case

    if isinstance(case, Problem):
        raise TypeError(f"case: {type(case).__name__}; use the path of a case file, or Solver(problem).solve(b)")
    threads, path = check_place(device, threads), os.fspath(case)
    system = None
    try:
        system = Case(path, **changes)
    except ValueError as error:
        if "sequence of time steps" not in str(error):
            raise
    if system is None:
        return run_case(path, overrides(changes), device, threads, progress, _load)
    return Solver(system, device=device, threads=threads).solve(system.rhs(), progress=progress)


class _Progress:
    """The display or function selected by `progress`: of iterations and residuals, or of other pairs of a count and a number."""

    def __init__(self, wanted, count="iteration", number="residual"):
        self._bar, self._is_line, self.function = None, False, None
        self._count, self._number = count, number
        if wanted is None or wanted is False:
            return
        if wanted is not True:
            if not callable(wanted):
                raise TypeError(f"progress: {type(wanted).__name__}; use True, or a function of the {count} and the {number}")
            self.function = wanted
            return
        try:
            from tqdm.auto import tqdm
        except ImportError:
            self.function = self._line
        else:
            self._bar = tqdm(unit="it" if count == "iteration" else count)
            self.function = self._advance

    def _advance(self, count, number):
        self._bar.n = count
        self._bar.set_postfix_str(f"{self._number} {number:.1e}")

    def _line(self, count, number):
        self._is_line = True
        print(f"\r{self._count} {count:>4}   {self._number} {number:.3e}", end="", file=sys.stderr, flush=True)

    def close(self):
        if self._bar is not None:
            self._bar.close()
        if self._is_line:
            print(file=sys.stderr)
