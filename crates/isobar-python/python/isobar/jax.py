"""Solves that JAX differentiates.

>>> import isobar.jax, jax, jax.numpy as jnp                                            # doctest: +SKIP
>>> problem = isobar.Diffusion(np.ones((64, 64)), boundary={"x": 0.0})                  # doctest: +SKIP
>>> mean = lambda kappa: isobar.jax.solve(problem, kappa, 1.0).mean()                   # doctest: +SKIP
>>> jax.jit(jax.grad(mean))(jnp.ones((64, 64))).shape                                   # doctest: +SKIP
(64, 64)
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from isobar._functional import Call

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
    """Solve −∇·(κ∇x) + c x = f, as a function that JAX compiles, and differentiates in reverse mode by κ, f and c.

    Parameters
    ----------
    problem
        An `isobar.Diffusion`: its grid, sides, mask, sources and wells. Its own κ is not used; its reaction is where none is given here.
    kappa
        κ of every cell, or a tuple of two or three, as of `Diffusion`; a number is that of all cells.
    f
        The source density of every cell, as of `Problem.rhs`.
    reaction
        c of every cell.
    tolerance, device, threads, options
        As of `Solver`. A solver is made at the first call and kept with the problem; later calls change its coefficients in place.
    failure
        What to do where a solve or an adjoint solve does not converge: ``"raise"``, as an error of JAX that quotes `isobar.NotConvergedError`,
        or return ``"nan"`` everywhere.

    It works under ``jit``, ``grad`` and ``vmap``, which solves one after another; ``jvp`` and derivatives of derivatives are not there.
    x has the type of κ, float32 unless JAX's 64-bit mode is on; it is solved for in double precision. For now arrays pass through the host,
    by ``jax.pure_callback``, those on a GPU too.
    """
    call = Call(problem, failure, {"tolerance": tolerance, "device": device, "threads": threads, **options})
    fields = kappa if isinstance(kappa, tuple) else (kappa,)
    dtype = jnp.result_type(float, fields[0])

    def of_cells(values, what):
        values = jnp.asarray(values, dtype)
        if values.ndim and values.shape != problem.shape:
            raise ValueError(f"{what} has shape {values.shape}; the problem's is {problem.shape}")
        return jnp.broadcast_to(values, problem.shape)

    fields = tuple(of_cells(field, "kappa") for field in fields)
    reaction = None if reaction is None else of_cells(reaction, "reaction")
    return _solve(call, fields, reaction, of_cells(f, "f"))


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _solve(call, kappa, reaction, f):
    def forward(kappa, reaction, f):
        return call.forward(*_on_host(kappa, reaction), np.asarray(f)).astype(f.dtype)

    return jax.pure_callback(forward, _like(f), kappa, reaction, f, vmap_method="sequential")


def _forward(call, kappa, reaction, f):
    x = _solve(call, kappa, reaction, f)
    return x, (kappa, reaction, x)


def _backward(call, kept, xbar):
    def backward(kappa, reaction, x, xbar):
        by_kappa, by_reaction, by_f = call.backward(*_on_host(kappa, reaction), np.asarray(x), np.asarray(xbar))
        found = tuple(by_kappa), None if reaction is None else by_reaction, by_f
        return jax.tree.map(lambda values: values.astype(xbar.dtype), found)

    kappa, reaction, x = kept
    wanted = jax.tree.map(_like, (kappa, reaction, x))
    return jax.pure_callback(backward, wanted, kappa, reaction, x, xbar, vmap_method="sequential")


_solve.defvjp(_forward, _backward)


def _like(array):
    return jax.ShapeDtypeStruct(array.shape, array.dtype)


def _on_host(kappa, reaction):
    return [np.asarray(field) for field in kappa], None if reaction is None else np.asarray(reaction)
