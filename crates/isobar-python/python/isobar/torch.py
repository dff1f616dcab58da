"""Solves that PyTorch differentiates.

>>> import isobar.torch, torch                                                  # doctest: +SKIP
>>> problem = isobar.Diffusion(np.ones((64, 64)), boundary={"x": 0.0})          # doctest: +SKIP
>>> kappa = torch.ones(64, 64, dtype=torch.float64, requires_grad=True)         # doctest: +SKIP
>>> isobar.torch.solve(problem, kappa, 1.0).mean().backward()                   # doctest: +SKIP
>>> kappa.grad.shape                                                            # doctest: +SKIP
torch.Size([64, 64])
"""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd.function import once_differentiable

from isobar._arrays import on_host
from isobar._functional import Call

__all__ = ["solve"]


def solve(
    problem: Any,
    kappa: torch.Tensor | tuple[torch.Tensor, ...],
    f: torch.Tensor | float = 0.0,
    reaction: torch.Tensor | float | None = None,
    *,
    tolerance: float = 1e-10,
    failure: str = "raise",
    device: str = "auto",
    threads: int | None = None,
    **options: Any,
) -> torch.Tensor:
    """Solve −∇·(κ∇x) + c x = f, as a function that PyTorch differentiates once by κ, f and c.

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
        What to do where a solve or an adjoint solve does not converge: ``"raise"`` `isobar.NotConvergedError`, or return ``"nan"`` everywhere.

    x has the type and the device of κ; it is solved for in double precision. Tensors on a GPU pass through host memory on their way.
    Derivatives of derivatives are not there: an error says so.
    """
    call = Call(problem, failure, {"tolerance": tolerance, "device": device, "threads": threads, **options})
    fields = kappa if isinstance(kappa, tuple) else (kappa,)
    fields = [torch.as_tensor(field) for field in fields]

    def of_cells(values, what):
        values = torch.as_tensor(values, dtype=fields[0].dtype, device=fields[0].device)
        if values.dim() and tuple(values.shape) != problem.shape:
            raise ValueError(f"{what} has shape {tuple(values.shape)}; the problem's is {problem.shape}")
        return values.expand(problem.shape)

    if not fields[0].is_floating_point():
        raise TypeError(f"kappa: dtype {fields[0].dtype}; use torch.float64 or torch.float32")
    fields = [of_cells(field, "kappa") for field in fields]
    reaction = None if reaction is None else of_cells(reaction, "reaction")
    return _Solve.apply(call, of_cells(f, "f"), reaction, *fields)


class _Solve(torch.autograd.Function):
    @staticmethod
    def forward(ctx, call, f, reaction, *kappa):
        on = [on_host(field) for field in kappa]
        x = call.forward(on, None if reaction is None else on_host(reaction), on_host(f))
        x = torch.from_numpy(x).to(kappa[0])
        ctx.call, ctx.has_reaction = call, reaction is not None
        ctx.save_for_backward(x, *([] if reaction is None else [reaction]), *kappa)
        return x

    @staticmethod
    @once_differentiable
    def backward(ctx, xbar):
        x, *rest = ctx.saved_tensors
        reaction = rest.pop(0) if ctx.has_reaction else None
        host = [on_host(field) for field in rest]
        of_reaction = None if reaction is None else on_host(reaction)
        by_kappa, by_reaction, by_f = ctx.call.backward(host, of_reaction, on_host(x), on_host(xbar))
        by_f, by_reaction, *by_kappa = (torch.from_numpy(values).to(xbar) for values in (by_f, by_reaction, *by_kappa))
        return None, by_f, by_reaction if ctx.has_reaction else None, *by_kappa
