"""Fast solvers for the linear systems of structured-grid PDEs, on CPUs and on NVIDIA GPUs.

>>> import isobar, numpy as np
>>> kappa = np.ones((12, 20, 30))                                # (nz, ny, nx)
>>> problem = isobar.Diffusion(kappa, spacing=0.1, boundary={"west": 1.0, "east": 0.0})
>>> solver = isobar.Solver(problem, tolerance=1e-10)
>>> result = solver.solve(problem.rhs())
>>> result.converged
True
>>> print(np.round(result.x[0, 0, :3], 4).tolist())
[0.9833, 0.95, 0.9167]

A *problem* says what is to be solved: :class:`Diffusion`, :class:`Faces`, :class:`Helmholtz`, :class:`TensorProduct`, or a case file through
:class:`Case`. A :class:`Solver` is made once and used for any number of right-hand sides; :meth:`Solver.solve` returns a
:class:`Result`, and of several right-hand sides at once :class:`Results`. The heat equation is :class:`Heat`, and steps through time. :func:`effective` is the conductivity of a sample as a whole.

:meth:`Result.gradient` differentiates a solve; ``isobar.torch.solve`` and ``isobar.jax.solve`` are solves that PyTorch and JAX differentiate.

Arrays are of shape ``(nz, ny, nx)``, or ``(ny, nx)``, or ``(nx,)``: NumPy's with any strides, and those of CuPy, PyTorch and JAX.
"""

from isobar._adjoint import HeatGradient
from isobar._devices import Device, devices
from isobar._effective import Effective, effective
from isobar._gradient import Gradient
from isobar._isobar import __version__
from isobar._pressure import Helmholtz, TensorProduct
from isobar._problems import Case, Diffusion, Faces, Problem
from isobar._results import NotConvergedError, NotConvergedWarning, Result, Results
from isobar._solvers import Solver, solve
from isobar._time import Heat, Step


def __getattr__(name):
    # Only whoever uses them needs these libraries.
    if name in ("jax", "torch"):
        import importlib

        return importlib.import_module(f"isobar.{name}")
    raise AttributeError(f"module 'isobar' has no attribute {name!r}")


__all__ = [
    "Case",
    "Device",
    "Diffusion",
    "Effective",
    "Faces",
    "Gradient",
    "Heat",
    "HeatGradient",
    "Helmholtz",
    "NotConvergedError",
    "NotConvergedWarning",
    "Problem",
    "Result",
    "Results",
    "Solver",
    "Step",
    "TensorProduct",
    "__version__",
    "devices",
    "effective",
    "solve",
]
