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

A *problem* describes the linear system: :class:`Diffusion`, :class:`Faces`, :class:`Helmholtz`, :class:`TensorProduct`, or a case file through
:class:`Case`. A :class:`Solver` is made once and used for any number of right-hand sides. :meth:`Solver.solve` returns a
:class:`Result`, or :class:`Results` for several right-hand sides at once. :class:`Heat` solves the heat equation by time steps.
:func:`effective` computes the effective conductivity of a sample.

:meth:`Result.gradient` differentiates a solve. ``isobar.torch.solve`` and ``isobar.jax.solve`` are solves that PyTorch and JAX can differentiate.

Arrays have shape ``(nz, ny, nx)``, ``(ny, nx)`` or ``(nx,)``. They are NumPy arrays with any strides, or arrays of CuPy, PyTorch or JAX.
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
from isobar._time import Heat, Step, Steps


def __getattr__(name):
    # Imported on demand, because these libraries are optional.
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
    "Steps",
    "TensorProduct",
    "__version__",
    "devices",
    "effective",
    "solve",
]
