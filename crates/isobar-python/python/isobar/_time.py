"""The heat equation through time."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, NamedTuple, Sequence

import numpy as np

from isobar import _isobar
from isobar._arrays import Handle, fitted, host_values, like, readable, writable
from isobar._options import to_json
from isobar._problems import Boundary, diffusion
from isobar._results import NotConvergedWarning, Result

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from isobar._adjoint import HeatGradient


class Step(NamedTuple):
    """A step through time."""

    number: int
    """From 1."""
    time: float
    """That it led to."""
    dt: float
    """Its length."""
    iterations: int
    """Of its solves."""
    residual: float
    """The true one, relative."""
    error: float | None
    """The estimate of its error relative to the state, where steps choose their length."""

    def as_dict(self) -> dict:
        """As in the report."""
        names = ("time", "dt", "iterations", "error")
        return {**{name: getattr(self, name) for name in names}, "relative_residual": self.residual}


class Heat:
    """u_t = ∇·(κ∇u) − c u + f, by finite volumes. Parameters are those of `Diffusion`, and f: `source`, a number or an array.

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
        # The arrays are read again when steps begin: these are not the caller's, which may change.
        kappa = tuple(_copy(field) for field in kappa) if isinstance(kappa, tuple) else _copy(kappa)
        self._given, self._dimensions, self._kept = diffusion(
            kappa, spacing, boundary, _copy(active), _copy(reaction), sources, wells
        )
        self._full = self._given["kappa"][0][1]
        self._full = (1,) * (3 - len(self._full)) + tuple(self._full)
        self._source = None
        if source is not None:
            if np.ndim(source) == 0:
                source = np.full(self.shape, float(source))
            self._source = host_values(_copy(source), "source")
            fitted(self._source, self._full, "source")
        # What is wrong with it is said now.
        self._system = _isobar.System.diffusion(self._given)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of its arrays."""
        return self._full[3 - self._dimensions :]

    @property
    def coordinates(self) -> tuple[np.ndarray, ...]:
        """Centres of cells in the order of `shape`."""
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
        """Steps to be iterated over.

        Parameters
        ----------
        initial
            The first state, an array or a number.
        dt, end_time
            Length of a step, and the end; the last step is shortened where need be.
        scheme
            ``"crank-nicolson"`` or ``"backward-euler"``.
        step_tolerance
            Where it is given, steps choose their length so that the estimated error of each, relative to the state, stays below it; ``dt`` is
            that of the first.
        first_guess
            ``"previous"`` or ``"extrapolated"``: what the solve of a step begins with.
        tolerance, device, threads, options
            As of `Solver`; the tolerance is relative to the first residual of a step.

        >>> heat = isobar.Heat(np.ones((8, 8)), boundary=0.0)
        >>> run = heat.steps(1.0, dt=0.01, end_time=0.03)
        >>> [step.number for step in run]
        [1, 2, 3]
        >>> run.u.shape
        (8, 8)
        """
        if first_guess not in ("previous", "extrapolated"):
            raise ValueError(f"first_guess {first_guess!r}; use \"previous\" or \"extrapolated\"")
        text = to_json({"tolerance": tolerance, **options})
        stepper = _isobar.Stepper(
            self._given,
            self._body(),
            (float(dt), float(end_time), step_tolerance),
            scheme,
            first_guess == "extrapolated",
            text,
            device,
            threads,
        )
        run = Steps(stepper, self._dimensions, tolerance)
        if np.ndim(initial) == 0:
            initial = np.full(self.shape, float(initial))
        run.u = initial
        return run

    def _body(self):
        return None if self._source is None else fitted(self._source, self._full, "source")

    def solve(self, initial: Any = 0.0, *, progress: Any = None, **options: Any) -> Result:
        """Takes all steps, as `steps`, and returns the last state; the result has ``steps``."""
        return self.steps(initial, **options).run(progress)

    def gradient(
        self,
        ubar: Any,
        initial: Any = 0.0,
        *,
        dt: float,
        end_time: float,
        scheme: str = "crank-nicolson",
        checkpoints: int | None = None,
        tolerance: float = 1e-10,
        device: str = "auto",
        threads: int | None = None,
        **options: Any,
    ) -> HeatGradient:
        """The derivatives of a number J of the last state by the first state, κ, c, the source and sides: one more solve for each step.

        Parameters
        ----------
        ubar
            ∂J/∂u of the last state: an array, or a function that returns it for the last state.
        initial, dt, end_time, scheme
            As of `steps`.
        checkpoints
            How many states are kept on the way, evenly spaced, from which the others are computed once more, one stretch at a time. Of N steps the
            memory is `checkpoints` + N / `checkpoints` states, by default about 2 √N, and most steps are taken twice. N keeps all, and no step is
            taken twice.
        tolerance, device, threads, options
            As of `Solver`.

        A solve that does not converge raises `NotConvergedError`.

        >>> heat = isobar.Heat(np.ones(40), boundary={"x": 0.0})
        >>> x, = heat.coordinates
        >>> found = heat.gradient(np.full(40, 1 / 40), np.sin(np.pi * x), dt=1e-3, end_time=0.1)     # of the mean of the last state
        >>> float(found.kappa.sum().round(3))                              # d/dκ (2/π) exp(−π² κ t)
        -0.234
        """
        from isobar._adjoint import gradient

        made_with = {"tolerance": tolerance, "device": device, "threads": threads, **options}
        return gradient(self, ubar, initial, dt, end_time, scheme, checkpoints, made_with)

    def __repr__(self) -> str:
        size = int(np.prod(self.shape))
        return f"<isobar.Heat {tuple(self.shape)}, {size} cell{'' if size == 1 else 's'}>"

    def __reduce__(self):
        raise TypeError("isobar.Heat cannot be pickled: make it anew where it is needed, from its arrays")


class Steps:
    """Steps through time, one after another."""

    def __init__(self, stepper, dimensions, tolerance):
        self._stepper, self._dimensions, self._tolerance = stepper, dimensions, tolerance
        self._last = None
        self._taken: list[Step] = []

    @property
    def u(self) -> Any:
        """The present state. Where it is set between two steps, number and time of steps go on."""
        shape = self._stepper.shape
        target = like(Handle(np.empty(0), (0, (), None, "f8", None, None)), shape[3 - self._dimensions :])
        self._stepper.state(fitted(target, shape, "u"))
        return target.array

    @u.setter
    def u(self, state: Any) -> None:
        given = readable(state, "initial")
        self._stepper.replace(fitted(given, self._stepper.shape, "initial"))

    def read(self, out: Any) -> Any:
        """Write the present state to an array, which may be on the device."""
        self._stepper.state(fitted(writable(out, "out"), self._stepper.shape, "out"))
        return out

    def update(self, heat: Heat) -> None:
        """Go on with the coefficients, boundary values and source of another `Heat` on the same grid, from the next step on.

        >>> run = isobar.Heat(np.ones(40), boundary={"x": 0.0}).steps(1.0, dt=1e-3, end_time=2e-3)
        >>> first = next(run)
        >>> run.update(isobar.Heat(np.full(40, 2.0), boundary={"x": 0.0}))
        >>> next(run).number
        2
        """
        if not isinstance(heat, Heat):
            raise TypeError(f"update takes an isobar.Heat, not {type(heat).__name__}")
        self._stepper.update(heat._given, heat._body())

    @property
    def time(self) -> float:
        """The present one."""
        return self._stepper.moment()[1]

    @property
    def finished(self) -> bool:
        """Whether the end is reached."""
        return self._stepper.moment()[2]

    @property
    def energy(self) -> float:
        """½ ∫ κ|∇u|² of the present state, and what reaction and sources add."""
        return self._stepper.energy()

    def __iter__(self) -> Steps:
        return self

    def __next__(self) -> Step:
        if self.finished:
            raise StopIteration
        number, time, dt, error, iterations, is_taken, outcome = self._stepper.step(None)
        self._last = outcome
        step = Step(number, time, dt, iterations, outcome.residual, error)
        if not is_taken:
            advice = f"; {outcome.advice}" if outcome.advice else ""
            text = f"step {number} not converged: {outcome.stop.replace('_', ' ')}; the state is the one before it{advice}"
            warnings.warn(text, NotConvergedWarning, stacklevel=2)
            raise StopIteration
        self._taken.append(step)
        return step

    def run(self, progress: Any = None) -> Result:
        """Take all that are left."""
        from isobar._solvers import _Progress

        shown = _Progress(progress)
        try:
            for step in self:
                if shown.function is not None and shown.function(step.number, step.time) is False:
                    break
        finally:
            shown.close()
        if self._last is None:
            raise ValueError("no step left to take; make new ones by steps()")
        return Result(self.u, self._last, self._tolerance, steps=list(self._taken))


def run_case(path, changes, device, threads, progress, load) -> Result:
    """Takes the steps of a case."""
    stepper = load(_isobar.Stepper.from_case, path, changes, device, threads)
    return Steps(stepper, 3, 1e-5).run(progress)


def _copy(values):
    return None if values is None else np.array(values, dtype=np.float64)
