"""The part of derivatives that PyTorch and JAX share: solutions as functions of coefficients, on arrays of NumPy."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import oracle
import pytest

import isobar
from isobar._arrays import readable
from isobar._functional import call_of


class Function:
    """x(κ, c, f) of a problem, on arrays of NumPy, as the frameworks call it."""

    def __init__(self, problem, threads=None):
        self.native = call_of(problem, "raise", None, tolerance=1e-12, device="cpu", threads=threads).native
        self.shape = problem.shape

    def _described(self, *arrays):
        return [None if array is None else readable(array, "array").parts for array in arrays]

    def solve(self, kappa, reaction, f):
        fields = kappa if reaction is None else (*kappa, reaction)
        x, f = np.empty(self.shape), np.broadcast_to(f, self.shape)
        self.native.solve(self._described(*fields), reaction is not None, False, *self._described(f), True, *self._described(x))
        return x

    def pull_back(self, kappa, reaction, x, xbar, wanted):
        """Return derivatives with respect to f, c and each κ; None for those that are not wanted."""
        found = [np.empty(self.shape) if is_wanted else None for is_wanted in wanted]
        self.native.pull_back(self._described(*kappa, reaction), True, self._described(x, xbar), True, self._described(*found))
        return found


def test_functions_of_coefficients(rng):
    problem = isobar.Diffusion(np.ones((4, 5)), boundary={"x": 1.0, "south": {"neumann": 0.5}})
    given = rng.uniform(0.5, 2.0, (4, 4, 5))
    xbar = rng.standard_normal((4, 5))
    function = Function(problem)

    def value(across, along, reaction, f):
        return np.vdot(xbar, function.solve((across, along), reaction, f))

    x = function.solve(given[:2], given[2], given[3])
    by_f, by_reaction, *by_kappa = function.pull_back(given[:2], given[2], x, xbar, [True] * 4)
    for n, found in enumerate((*by_kappa, by_reaction, by_f)):
        expected = oracle.differences(lambda other: value(*given[:n], other, *given[n + 1 :]), given[n], 1e-4)
        np.testing.assert_allclose(found, expected, atol=1e-6 * abs(expected).max())
    some = function.pull_back(given[:2], given[2], x, xbar, [False, True, False, True])
    assert some[0] is None and some[2] is None
    np.testing.assert_allclose(some[1], by_reaction, rtol=1e-12)
    np.testing.assert_allclose(some[3], by_kappa[1], rtol=1e-12)
    with pytest.raises(ValueError, match="outs"):
        function.pull_back(given[:2], given[2], x, xbar, [True] * 3)
    with pytest.raises(ValueError, match="array"):
        function.solve((given[0].T,), None, 1.0)


def test_kept_solvers_take_whatever_coefficients_come(rng):
    problem = isobar.Diffusion(np.ones((6, 7, 8)), boundary={"all": 1.0})
    function = Function(problem)
    f = rng.standard_normal((6, 7, 8))
    # Constant, rough, with some inactive cells, and constant again.
    fields = [np.ones(f.shape), *(np.exp(2 * rng.standard_normal(f.shape)) * (rng.random(f.shape) > part) for part in (0.0, 0.05, 0.1)), 2 * np.ones(f.shape)]
    for kappa in fields:
        kappa[1:5, 2:5, 2:6] += 0.1
        new = problem.replace(kappa)
        expected = isobar.Solver(new, tolerance=1e-12, device="cpu").solve(new.rhs(f)).x
        for _ in range(2):
            np.testing.assert_allclose(function.solve((kappa,), None, f), expected, atol=1e-9 * abs(expected).max())
    assert len(problem._calls) == 1 and sum(function.native.counts) == len(fields)


def test_functions_of_several_threads(rng):
    problem = isobar.Diffusion(np.ones((6, 7)), boundary=0.0)
    fields = rng.uniform(0.5, 2.0, (12, 6, 7))
    function = Function(problem, threads=1)
    expected = [function.solve((kappa,), None, 1.0) for kappa in fields]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda kappa: function.solve((kappa,), None, 1.0), fields))
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    assert function.native.counts[0] == 1


def test_optional_libraries_are_not_imported():
    code = "import isobar, sys; print([name for name in ('torch', 'jax') if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
    with pytest.raises(AttributeError, match="no attribute 'tensorflow'"):
        isobar.tensorflow
