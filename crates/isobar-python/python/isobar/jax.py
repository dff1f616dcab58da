"""Solves that JAX can differentiate.

>>> import isobar.jax, jax, jax.numpy as jnp                                            # doctest: +SKIP
>>> problem = isobar.Diffusion(np.ones((64, 64)), boundary={"x": 0.0})                  # doctest: +SKIP
>>> mean = lambda kappa: isobar.jax.solve(problem, kappa, 1.0).mean()                   # doctest: +SKIP
>>> jax.jit(jax.grad(mean))(jnp.ones((64, 64))).shape                                   # doctest: +SKIP
(64, 64)
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from isobar import _isobar
from isobar._arrays import check_real
from isobar._functional import call_of
from isobar._geometry import packed, unpacked
from isobar._inputs import check_directions

try:
    from jax.ffi import ffi_call, register_ffi_target
except ImportError:
    raise ImportError(f"isobar.jax needs JAX 0.5 or newer, and this is {jax.__version__}: pip install --upgrade jax") from None

__all__ = ["solve"]

for _platform, _handler in zip(("cpu", "CUDA"), _isobar.xla_handlers()):
    register_ffi_target("isobar_solve", _handler, platform=_platform)


def solve(
    problem: Any,
    kappa: Any,
    f: Any = 0.0,
    reaction: Any = None,
    *,
    boundary: Any = None,
    spacing: Any = None,
    tolerance: float = 1e-10,
    derivative_tolerance: float | None = None,
    failure: str = "raise",
    device: str = "auto",
    threads: int | None = None,
    **options: Any,
) -> jax.Array:
    """Solve −∇·(κ∇x) + c x = f. JAX can compile it and differentiate it with respect to κ, f, c, numbers on sides and widths in both modes, to any order.

    Parameters
    ----------
    problem
        An `isobar.Diffusion`, which gives the grid, sides, mask, sources and wells. Its κ is not used; its reaction is used if none is given here.
    kappa
        κ of every cell, or a tuple of two or three arrays, as for `Diffusion`; a number applies to all cells.
    f
        The source density of every cell, as for `Problem.rhs`.
    reaction
        c of every cell.
    boundary
        Numbers on sides that replace the problem's, in the words of `Diffusion`: values, fluxes, and coefficients and values of Robin sides, as numbers or with
        one per face. The kinds of the sides must be the problem's.
    spacing
        Widths of cells that replace the problem's, as for `Diffusion`.
    tolerance, device, threads, options
        As for `Solver`, the tolerance 1e-10 by default. A solver is made at the first call and kept with the problem; later calls change its coefficients in place.
    derivative_tolerance
        The tolerance of solves for derivatives, if it is another one: derivatives often need fewer digits than the solution.
    failure
        If a solve, or one for a derivative, does not converge: ``"raise"`` an error of JAX that quotes
        `isobar.NotConvergedError`, or return ``"nan"`` everywhere.

    It works under ``jit``, ``grad``, ``jvp``, ``hessian`` and ``vmap``, where systems with the same κ and c are solved together, as by `Solver.solve`. A directional
    derivative, or a gradient in reverse mode, takes one more solve. XLA calls isobar's native part itself, without Python, on processors and NVIDIA GPUs.
    x has the type of κ, float32 unless JAX's 64-bit mode is on; the solve is in double precision. Arrays on a GPU stay there; with ``failure="nan"``,
    and if `device` is ``"cpu"``, they pass through the host.
    """
    call = call_of(problem, failure, derivative_tolerance, tolerance=tolerance, device=device, threads=threads, **options)
    fields = kappa if isinstance(kappa, tuple) else (kappa,)
    check_directions(len(fields), len(call.shape))
    dtype = jnp.result_type(float, fields[0])

    def of_cells(values, what):
        check_real(values, what)
        values = jnp.asarray(values, dtype)
        if values.ndim and values.shape != call.shape:
            raise ValueError(f"{what} has shape {values.shape}; the problem's is {call.shape}")
        return jnp.broadcast_to(values, call.shape)

    reaction = call.reaction if reaction is None else reaction
    fields = tuple(of_cells(field, "kappa") for field in fields)
    if call.active is not None:
        fields = tuple(jnp.where(call.active, field, 0) for field in fields)
    reaction = None if reaction is None else of_cells(reaction, "reaction")
    geometry = None
    if not (boundary is None and spacing is None):
        geometry = packed(call.residual, call.residual.operations("jax"), spacing, boundary, len(call.shape), fields[0])
    return _compiled(call)(fields, reaction, of_cells(f, "f"), geometry)


def _compiled(call):
    """Return the compiled function of κ, c, f, and of widths and numbers on sides if they are not the problem's."""
    if "jax" not in call.kept:
        call.kept["jax"] = jax.jit(_differentiable(call))
    return call.kept["jax"]


def _differentiable(call):
    @jax.custom_jvp
    def solved(kappa, reaction, f, geometry):
        return _called(call, kappa, reaction, f, geometry, driven=True)

    @solved.defjvp
    def _(primals, tangents):
        # A ẋ = ḃ − Ȧ x, which JAX transposes and can differentiate again.
        x = solved(*primals)
        _, rhs = jax.jvp(lambda *given: _residual(call, *given, x), primals, tangents)
        kappa, reaction, _, geometry = primals
        return x, _inverse(call, kappa, reaction, geometry, rhs)

    return solved


def _inverse(call, kappa, reaction, geometry, r):
    """Return A⁺ r."""
    solve = lambda _, r: _called(call, kappa, reaction, r, geometry, driven=False)
    product = lambda x: -_residual(call, kappa, reaction, None, geometry, x, driven=False)
    return jax.lax.custom_linear_solve(product, r, solve, symmetric=True)


def _residual(call, kappa, reaction, f, geometry, x, **options):
    """Return b − A x, the derivative of `Residual.tested` with respect to the weights, in which it is linear."""
    residual = unpacked(call.residual, geometry)
    tested = lambda weights: residual.tested(residual.operations("jax"), kappa, reaction, f, x, weights, **options)
    return jax.grad(tested)(jnp.zeros_like(x))


class _Number(np.int64):
    """The number by which XLA finds the function of a call, which lives as long as what JAX has traced refers to this."""

    def __new__(cls, call):
        number = super().__new__(cls, call.native.number)
        number.call = call
        return number


def _called(call, kappa, reaction, values, geometry, driven):
    """Let XLA call the native part."""
    kind = values.dtype if values.dtype in ("float32", "float64") else np.float32
    call_by_xla = ffi_call("isobar_solve", jax.ShapeDtypeStruct(call.cells, kind), vmap_method="expand_dims")
    given = [each.astype(kind).reshape(call.cells) for each in (*kappa, *([] if reaction is None else [reaction]))]
    if geometry is not None:
        given.append(geometry.astype(kind).reshape(1, 1, -1))
    flags = {"has_reaction": np.int64(reaction is not None), "has_geometry": np.int64(geometry is not None), "driven": np.int64(driven)}
    x = call_by_xla(*given, values.astype(kind).reshape(call.cells), function=_Number(call), **flags)
    return x.reshape(call.shape).astype(values.dtype)
