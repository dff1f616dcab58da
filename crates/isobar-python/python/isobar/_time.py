"""Time steps of the heat equation."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any, NamedTuple, Sequence

import numpy as np

from isobar import _isobar
from isobar._arrays import Handle, check_real, fitted, like, on_host, readable, readable_on_host, writable
from isobar._options import number, to_json, whole
from isobar._inputs import diffusion, directions
from isobar._problems import Boundary, Problem
from isobar._results import Result, warn_not_converged
from isobar._solvers import check_place

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from isobar._adjoint import HeatGradient


class Step(NamedTuple):
    """A time step."""

    number: int
    """Number of the step, from 1."""
    time: float
    """Time at the end of the step."""
    dt: float
    """Length of the step."""
    iterations: int
    """Iterations of its solves."""
    residual: float
    """True relative residual."""
    error: float | None
    """Estimated error relative to the state, with automatic step lengths; else None."""
    notes: tuple[str, ...] = ()
    """Notes of its solve, such as a change of the preconditioner."""

    def as_dict(self) -> dict:
        """Return the step as in the report."""
        names = ("time", "dt", "iterations", "error")
        return {**{name: getattr(self, name) for name in names}, "relative_residual": self.residual}


class Heat:
    """The heat equation u_t = ∇·(κ∇u) − c u + f, by finite volumes.

    Parameters are those of `Diffusion` except `coefficients`, and `source`: f, a number or an array.

    >>> heat = isobar.Heat(np.ones(40), boundary={"x": 0.0})
    >>> x, = heat.coordinates
    >>> result = heat.solve(np.sin(np.pi * x), dt=1e-3, end_time=0.1)
    >>> float((result.x / np.sin(np.pi * x)).mean().round(3))           # exp(−π²/10) = 0.373
    0.373
    """

    def __init__(
        self,
        kappa: ArrayLike | tuple[ArrayLike, ...],
        spacing: float | Sequence[ArrayLike] | None = None,
        boundary: Boundary = None,
        active: ArrayLike | None = None,
        reaction: ArrayLike | None = None,
        source: ArrayLike | None = None,
        sources: Sequence[dict[str, Any]] = (),
        wells: Sequence[dict[str, Any]] = (),
    ):
        # Copies, because the arrays are read again when steps begin and the caller may change them.
        fields = tuple(_copy(field, "kappa") for field in directions(kappa))
        self._given, self._dimensions, self._kept = diffusion(
            fields if len(fields) > 1 else fields[0], spacing, boundary, _copy(active, "active"), _copy(reaction, "reaction"), sources, wells
        )
        self._full = self._given["kappa"][0][1]
        self._full = (1,) * (3 - len(self._full)) + tuple(self._full)
        self._source = None
        if source is not None:
            if np.ndim(source) == 0:
                source = np.full(self.shape, number(source, "source"))
            self._source = readable_on_host(_copy(source, "source"), "source")
            fitted(self._source, self._full, "source")
        # Invalid input raises here.
        self._system = _isobar.System.diffusion(self._given)
        self._check_source()

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of its arrays."""
        return self._full[3 - self._dimensions :]

    @property
    def coordinates(self) -> tuple[np.ndarray, ...]:
        """Cell centres, in the order of `shape`."""
        return tuple(np.array(axis) for axis in reversed(self._system.coordinates[: self._dimensions]))

    def steps(
        self,
        initial: Any = 0.0,
        *,
        dt: float,
        end_time: float,
        scheme: str = "crank-nicolson",
        step_tolerance: float | None = None,
        first_guess: str = "previous",
        tolerance: float = 1e-8,
        device: str = "auto",
        threads: int | None = None,
        **options: Any,
    ) -> Steps:
        """Return an iterator over time steps.

        Parameters
        ----------
        initial
            The initial state, an array or a number.
        dt, end_time
            Length of a step, and the end time; the last step is shortened if necessary.
        scheme
            ``"crank-nicolson"``, of second order, or ``"backward-euler"``, of first order, for rough states and long steps.
        step_tolerance
            If given, step lengths are chosen so that the estimated error of each step, relative to the state, stays below it; ``dt`` is
            the length of the first step.
        first_guess
            The first guess of each step's solve: the ``"previous"`` state, or one ``"extrapolated"`` from the previous two.
        tolerance, device, threads, options
            As for `Solver`; the tolerance is relative to the first residual of a step, or to ‖b‖ where that is smaller. By default a step is solved directly for constant κ, or
            κ that varies along one axis, else by conjugate gradients without a preconditioner, or with lines in thin cells, and with multigrid once that is slow.

        >>> heat = isobar.Heat(np.ones((8, 8)), boundary=0.0)
        >>> run = heat.steps(1.0, dt=0.01, end_time=0.03)
        >>> [step.number for step in run]
        [1, 2, 3]
        >>> run.u.shape
        (8, 8)
        """
        if first_guess not in ("previous", "extrapolated"):
            raise ValueError(f"first_guess {first_guess!r}; use \"previous\" or \"extrapolated\"")
        threads = check_place(device, threads)
        dt, end_time, scheme, step_tolerance = _checked(dt, end_time, scheme, step_tolerance)
        text = to_json({"tolerance": tolerance, **options})
        stepper = _isobar.Stepper(
            self._given,
            self._body(),
            (dt, end_time, step_tolerance, scheme, first_guess == "extrapolated"),
            text,
            device,
            threads,
        )
        run = Steps(stepper, self._dimensions, tolerance, self._system)
        run._replace(np.full(self.shape, number(initial, "initial")) if np.ndim(initial) == 0 else initial, "initial")
        return run

    def _check_source(self):
        """Check that f is finite in active cells."""
        if self._source is None or np.isfinite(self._source.array).all():
            return
        values = self._source.array.reshape(self.shape)
        wrong = np.argwhere(~np.isfinite(values) & Problem(self._system, self._dimensions)._is_active().reshape(self.shape))
        if len(wrong):
            at = tuple(wrong[0].tolist())
            raise ValueError(f"source: {values[at]} at {at}; it must be finite in every active cell")

    def _body(self):
        return None if self._source is None else fitted(self._source, self._full, "source")

    def solve(self, initial: Any = 0.0, *, progress: Any = None, **options: Any) -> Result:
        """Take all steps, with the arguments of `steps`, and return the last state; the result has ``steps``.

        `progress` is as for `Solver.solve`, with the step's number and time.
        """
        return self.steps(initial, **options).run(progress)

    def gradient(
        self,
        ubar: Any,
        initial: Any = 0.0,
        *,
        dt: float,
        end_time: float,
        scheme: str = "crank-nicolson",
        step_tolerance: float | None = None,
        checkpoints: int | None = None,
        tolerance: float = 1e-10,
        device: str = "auto",
        threads: int | None = None,
        **options: Any,
    ) -> HeatGradient:
        """Compute derivatives of a number J(u) of the last state with respect to the initial state, κ, c, the source and sides.

        It takes one more solve per step.

        Parameters
        ----------
        ubar
            ∂J/∂u of the last state: an array, or a function that returns it for the last state.
        initial, dt, end_time, scheme, step_tolerance
            As for `steps`. With `step_tolerance`, the run is made once more to find its step lengths, which the derivatives hold constant.
        checkpoints
            Number of evenly spaced states that are kept; the others are recomputed from them, one segment at a time. For N steps the
            memory is `checkpoints` + N / `checkpoints` states, by default about 2 √N, and most steps are computed twice. With N, all states are kept
            and no step is recomputed.
        tolerance, device, threads, options
            As for `Solver`, the tolerance 1e-10 by default.

        A solve that does not converge raises `NotConvergedError`.

        >>> heat = isobar.Heat(np.ones(40), boundary={"x": 0.0})
        >>> x, = heat.coordinates
        >>> found = heat.gradient(np.full(40, 1 / 40), np.sin(np.pi * x), dt=1e-3, end_time=0.1)     # of the mean of the last state
        >>> float(found.kappa.sum().round(3))                              # d/dκ (2/π) exp(−π² κ t)
        -0.234
        """
        from isobar._adjoint import gradient

        steps = _checked(dt, end_time, scheme, step_tolerance)
        checkpoints = None if checkpoints is None else whole(checkpoints, "checkpoints")
        made_with = {"tolerance": tolerance, "device": device, "threads": check_place(device, threads), **options}
        return gradient(self, ubar, initial, steps, checkpoints, made_with)

    def __repr__(self) -> str:
        size = math.prod(self.shape)
        return f"<isobar.Heat {tuple(self.shape)}, {size} cell{'' if size == 1 else 's'}>"

    def __reduce__(self):
        raise TypeError("isobar.Heat cannot be pickled: make a new one from its arrays")


class Steps:
    """An iterator over time steps."""

    def __init__(self, stepper, dimensions, tolerance, system=None):
        self._stepper, self._dimensions, self._tolerance, self._system = stepper, dimensions, tolerance, system
        self._last = None
        self._taken: list[Step] = []

    @property
    def u(self) -> Any:
        """The current state. It may be set between two steps; step number and time continue."""
        shape = self._stepper.shape
        target = like(Handle(np.empty(0), (0, (), None, "f8", None, None)), shape[3 - self._dimensions :])
        self._stepper.state(fitted(target, shape, "u"))
        return target.array

    @u.setter
    def u(self, state: Any) -> None:
        self._replace(state, "u")

    def _replace(self, state, what):
        """Replace the state by an array, which may hold NaN in inactive cells, as in files of the command."""
        given = readable(state, what)
        if isinstance(given.array, np.ndarray) and self._system is not None and np.isnan(given.array).any():
            active = Problem(self._system, self._dimensions)._is_active()
            if given.array.size == active.size:
                values = np.where(active.reshape(given.array.shape), given.array, 0.0)
                given = readable(values.astype(given.array.dtype), what)
        try:
            self._stepper.replace(fitted(given, self._stepper.shape, what))
        except ValueError as error:
            message = str(error)
            raise ValueError(what + message.removeprefix("the state") if message.startswith("the state") else message) from None

    def read(self, out: Any) -> Any:
        """Write the current state to an array, which may be on the device."""
        self._stepper.state(fitted(writable(out, "out"), self._stepper.shape, "out"))
        return out

    def update(self, heat: Heat) -> None:
        """Change coefficients, boundary values and source to those of another `Heat` on the same grid, from the next step on.

        >>> run = isobar.Heat(np.ones(40), boundary={"x": 0.0}).steps(1.0, dt=1e-3, end_time=2e-3)
        >>> first = next(run)
        >>> run.update(isobar.Heat(np.full(40, 2.0), boundary={"x": 0.0}))
        >>> next(run).number
        2
        """
        if not isinstance(heat, Heat):
            raise TypeError(f"update takes an isobar.Heat, not {type(heat).__name__}")
        self._stepper.update(heat._given, heat._body())
        self._system = heat._system

    @property
    def time(self) -> float:
        """The current time."""
        return self._stepper.moment()[1]

    @property
    def finished(self) -> bool:
        """Whether the end time is reached."""
        return self._stepper.moment()[2]

    @property
    def energy(self) -> float:
        """The energy ½ ∫ κ|∇u|² of the current state plus the terms of reaction and sources."""
        return self._stepper.energy()

    def __iter__(self) -> Steps:
        return self

    def __repr__(self) -> str:
        taken = self._taken[-1].number if self._taken else 0
        end = ", the end" if self.finished else ""
        return f"<isobar.Steps: after step {taken}, time {self.time:g}{end}>"

    def __next__(self) -> Step:
        if self.finished:
            raise StopIteration
        number, time, dt, error, iterations, is_taken, outcome = self._stepper.step(None)
        self._last = outcome
        step = Step(number, time, dt, iterations, outcome.residual, error, tuple(outcome.notes))
        if not is_taken:
            advice = f"; {outcome.advice}" if outcome.advice else ""
            text = f"step {number} not converged: {outcome.stop.replace('_', ' ')}; the state is unchanged{advice}"
            warn_not_converged(text)
            raise StopIteration
        self._taken.append(step)
        return step

    def run(self, progress: Any = None) -> Result:
        """Take all remaining steps and return the result."""
        from isobar._solvers import _Progress

        shown = _Progress(progress, "step", "time")
        try:
            for step in self:
                if shown.function is not None and shown.function(step.number, step.time) is False:
                    break
        finally:
            shown.close()
        if self._last is None:
            raise ValueError("the run is complete; begin a new one with steps()")
        origin = None if self._system is None else (None, Problem(self._system, self._dimensions), None, None)
        centres = tuple(np.array(axis) for axis in reversed(self._stepper.coordinates[: self._dimensions]))
        return Result(self.u, self._last, self._tolerance, steps=list(self._taken), origin=origin, centres=centres)


def run_case(path, changes, device, threads, progress, load) -> Result:
    """Take the steps of a case."""
    for key, _ in changes:
        if key in ("heat.checkpoint", "heat.checkpoint_every", "heat.output_every"):
            raise ValueError(
                f"{key}: isobar.solve writes no files; remove it, and use the command isobar solve for frames and checkpoints, or save "
                "the states u of isobar.Heat(...).steps(...)"
            )
    stepper = load(_isobar.Stepper.from_case, path, changes, device, threads)
    tolerance = json.loads(_isobar.System.options_of_case(path, changes))["tolerance"]
    return Steps(stepper, 3, tolerance).run(progress)


def _checked(dt, end_time, scheme, step_tolerance):
    """Check the types of the steps' arguments, and return them with numbers as floats."""
    if isinstance(dt, str):
        raise TypeError(f"dt: {dt!r}; use a number, and step_tolerance for lengths chosen by the estimated error")
    if not isinstance(scheme, str) or scheme not in ("crank-nicolson", "backward-euler"):
        raise ValueError(f"scheme: {scheme!r}; use \"crank-nicolson\" or \"backward-euler\"")
    step_tolerance = None if step_tolerance is None else number(step_tolerance, "step_tolerance")
    return number(dt, "dt"), number(end_time, "end_time"), scheme, step_tolerance


def _copy(values, what):
    if values is None:
        return None
    check_real(values, what)
    array = on_host(values)
    check_real(array, what)
    return np.array(array, dtype=np.float64)
