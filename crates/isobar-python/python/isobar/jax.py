"""Solves that JAX can differentiate.

>>> import isobar.jax, jax, jax.numpy as jnp                                            # doctest: +SKIP
>>> problem = isobar.Diffusion(np.ones((64, 64)), boundary={"x": 0.0})                  # doctest: +SKIP
>>> mean = lambda kappa: isobar.jax.solve(problem, kappa, 1.0).mean()                   # doctest: +SKIP
>>> jax.jit(jax.grad(mean))(jnp.ones((64, 64))).shape                                   # doctest: +SKIP
(64, 64)
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from isobar._arrays import Handle
from isobar._functional import Call

try:
    from jax.experimental.buffer_callback import buffer_callback
except ImportError:
    buffer_callback = None

__all__ = ["solve"]


def solve(
    problem: Any,
    kappa: Any,
    f: Any = 0.0,
    reaction: Any = None,
    *,
    tolerance: float = 1e-10,
    failure: str = "raise",
    device: str = "auto",
    threads: int | None = None,
    **options: Any,
) -> jax.Array:
    """Solve −∇·(κ∇x) + c x = f. JAX can compile it and differentiate it with respect to κ, f and c in both modes, to any order.

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
    tolerance, device, threads, options
        As for `Solver`. A solver is made at the first call and kept with the problem; later calls change its coefficients in place.
    failure
        If a solve, or one for a derivative, does not converge: ``"raise"`` an error of JAX that quotes
        `isobar.NotConvergedError`, or return ``"nan"`` everywhere.

    It works under ``jit``, ``grad``, ``jvp``, ``hessian`` and ``vmap``; systems of one κ and c are solved together, as by `Solver.solve`. A directional
    derivative, or a gradient in reverse mode, takes one more solve.
    x has the type of κ, float32 unless JAX's 64-bit mode is on; the solve is in double precision. Arrays on a GPU stay there if JAX has
    ``jax.experimental.buffer_callback``; without it, with ``failure="nan"``, and if a constant is free they pass through the host.
    """
    call = Call(problem, failure, {"tolerance": tolerance, "device": device, "threads": threads, **options})
    fields = kappa if isinstance(kappa, tuple) else (kappa,)
    dtype = jnp.result_type(float, fields[0])

    def of_cells(values, what):
        values = jnp.asarray(values, dtype)
        if values.ndim and values.shape != problem.shape:
            raise ValueError(f"{what} has shape {values.shape}; the problem's is {problem.shape}")
        return jnp.broadcast_to(values, problem.shape)

    own_reaction, active = call.fields()
    reaction = own_reaction if reaction is None else reaction
    fields = tuple(of_cells(field, "kappa") for field in fields)
    if active is not None:
        fields = tuple(jnp.where(active, field, 0) for field in fields)
    reaction = None if reaction is None else of_cells(reaction, "reaction")
    return _compiled(call)(fields, reaction, of_cells(f, "f"))


def _compiled(call):
    """Return the compiled function x(κ, c, f), which is kept with the problem."""
    kept = call.problem._kept.setdefault("jax", {})
    if call.key not in kept:
        kept[call.key] = jax.jit(_differentiable(call))
    return kept[call.key]


def _differentiable(call):
    @jax.custom_jvp
    def solved(kappa, reaction, f):
        if _stays_on_device(call):
            return _called_on_device(call, kappa, reaction, f, driven=True)
        return _called(call, call.solve, kappa, reaction, f)

    @solved.defjvp
    def _(primals, tangents):
        # A ẋ = ḃ − Ȧ x, which JAX transposes and can differentiate again.
        x = solved(*primals)
        _, rhs = jax.jvp(lambda *given: _residual(call, *given, x), primals, tangents)
        kappa, reaction, _ = primals
        return x, _inverse(call, kappa, reaction, rhs)

    return solved


def _inverse(call, kappa, reaction, r):
    """Return A⁺ r."""

    def solve(_, r):
        return _called_on_device(call, kappa, reaction, r, driven=False) if _stays_on_device(call) else _called(call, call.invert, kappa, reaction, r)

    product = lambda x: -_residual(call, kappa, reaction, None, x, driven=False)
    return jax.lax.custom_linear_solve(product, r, solve, symmetric=True)


def _residual(call, kappa, reaction, f, x, **options):
    """Return b − A x, the derivative of `Residual.tested` with respect to the weights, in which it is linear."""
    tested = lambda weights: call.residual.tested(call.residual.operations("jax"), kappa, reaction, f, x, weights, **options)
    return jax.grad(tested)(jnp.zeros_like(x))


def _called(call, function, kappa, reaction, values):
    """Call a function of arrays in host memory."""

    def on_host(kappa, reaction, values):
        fields, values = [np.asarray(field) for field in (*kappa, *([] if reaction is None else [reaction]))], np.asarray(values)
        groups, lead = _groups([*fields, values], len(call.problem.shape))
        out = np.empty((*lead, *call.problem.shape), values.dtype)
        for of_fields, systems in groups.items():
            own = [field[index] for field, index in zip(fields, of_fields)]
            found = function(own[: len(kappa)], None if reaction is None else own[-1], np.stack([values[index] for index, _ in systems]))
            for (_, index), x in zip(systems, found):
                out[index] = x
        return out

    def in_place(_, out, *given):
        np.asarray(out)[...] = on_host(*given)

    if buffer_callback is not None and jax.default_backend() == "cpu":
        return buffer_callback(in_place, _like(values), vmap_method="expand_dims")(kappa, reaction, values)
    return jax.pure_callback(on_host, _like(values), kappa, reaction, values, vmap_method="expand_dims")


def _groups(arrays, dimensions):
    """Return the systems of arrays with axes of `vmap` in front, by the indices of their coefficients, and the lengths of these axes.

    The last array has the right-hand sides; a system is the index of its right-hand side and that of its solution.
    """
    leads = [array.shape[: len(array.shape) - dimensions] for array in arrays]
    lead, groups = np.broadcast_shapes(*leads), {}
    for index in np.ndindex(*lead):
        *of_fields, of_values = (tuple(min(n, length - 1) for n, length in zip(index, own)) for own in leads)
        groups.setdefault(tuple(of_fields), []).append((of_values, index))
    return groups, lead


def _stays_on_device(call):
    return buffer_callback is not None and jax.default_backend() == "gpu" and call.can_stay_on_device


def _called_on_device(call, kappa, reaction, values, driven):
    """Solve A x = b with XLA's buffers, ordered by its stream."""

    def solve(context, out, kappa, reaction, values):
        fields, shape = [*kappa, *([] if reaction is None else [reaction])], call.residual.shape
        handle = lambda buffer, index: _handle(context, buffer, index, shape)
        groups, _ = _groups([*fields, values], len(call.problem.shape))
        for of_fields, systems in groups.items():
            own = [handle(field, index) for field, index in zip(fields, of_fields)]
            given, solutions = zip(*((handle(values, of_values), handle(out, index)) for of_values, index in systems))
            call.solve_on_device(own[: len(kappa)], None if reaction is None else own[-1], given, solutions, driven)

    return buffer_callback(solve, _like(values), vmap_method="expand_dims")(kappa, reaction, values)


def _handle(context, buffer, index, shape):
    """Return a handle of one field in a buffer of XLA, which is contiguous."""
    kind = {"float64": "f8", "float32": "f4"}[str(buffer.dtype)]
    lead = tuple(buffer.shape)[: len(index)]
    offset = int(np.ravel_multi_index(index, lead)) * math.prod(shape) * int(kind[1]) if index else 0
    if int(buffer.__dlpack_device__()[0]) == 1:
        return Handle(buffer, (np.asarray(buffer).ctypes.data + offset, shape, None, kind, None, None))
    pointer = buffer.__cuda_array_interface__["data"][0] + offset
    return Handle(buffer, (pointer, shape, None, kind, int(buffer.__dlpack_device__()[1]), int(context.stream)))


def _like(array):
    return jax.ShapeDtypeStruct(array.shape, array.dtype)
