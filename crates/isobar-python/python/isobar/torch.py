"""Solves that PyTorch can differentiate.

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

from isobar._arrays import on_host, readable
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
    """Solve −∇·(κ∇x) + c x = f. PyTorch can differentiate it with respect to κ, f and c, to any order.

    Parameters
    ----------
    problem
        An `isobar.Diffusion`, which gives the grid, sides, mask, sources and wells. Its κ is not used; its reaction is used if none is given here.
    kappa
        κ of every cell, or a tuple of two or three tensors, as for `Diffusion`; a number applies to all cells.
    f
        The source density of every cell, as for `Problem.rhs`.
    reaction
        c of every cell.
    tolerance, device, threads, options
        As for `Solver`. A solver is made at the first call and kept with the problem; later calls change its coefficients in place.
    failure
        If a solve, or one for a derivative, does not converge: ``"raise"`` `isobar.NotConvergedError`, or return ``"nan"``
        everywhere.

    x has the type and device of κ; the solve is in double precision. A backward pass takes one more solve. Tensors on a GPU stay there, ordered by
    torch's current stream; with ``failure="nan"``, and if a constant is free, they pass through host memory. ``torch.compile`` does not compile
    the call.
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
    own_reaction, active = call.fields()
    fields = [of_cells(field, "kappa") for field in fields]
    if active is not None:
        active = torch.as_tensor(active, device=fields[0].device)
        fields = [torch.where(active, field, torch.zeros_like(field)) for field in fields]
    reaction = own_reaction if reaction is None else reaction
    reaction = None if reaction is None else of_cells(reaction, "reaction")
    return _Solve.apply(call, True, of_cells(f, "f"), reaction, *fields)


if hasattr(torch, "compiler") and hasattr(torch.compiler, "disable"):
    solve = torch.compiler.disable(solve)


class _Solve(torch.autograd.Function):
    """The solution of A x = b with the right-hand side of f, sides, sources and wells; if not `driven`, A⁺ f."""

    @staticmethod
    def forward(ctx, call, driven, f, reaction, *kappa):
        if f.is_cuda and call.can_stay_on_device:
            x = _on_device(call, driven, f, reaction, kappa)
        else:
            solve = call.solve if driven else call.invert
            x = solve([on_host(field) for field in kappa], None if reaction is None else on_host(reaction), on_host(f))
            x = torch.from_numpy(x).to(kappa[0])
        ctx.call, ctx.driven, ctx.has_reaction = call, driven, reaction is not None
        ctx.save_for_backward(x, f, *([] if reaction is None else [reaction]), *kappa)
        return x

    @staticmethod
    def backward(ctx, xbar):
        x, f, *given = ctx.saved_tensors
        reaction, kappa = (given[0] if ctx.has_reaction else None), given[ctx.has_reaction :]
        if not (torch.is_grad_enabled() or f.is_cuda):
            # First derivatives on the host.
            of_reaction = None if reaction is None else on_host(reaction)
            found = ctx.call.pull_back([on_host(field) for field in kappa], of_reaction, on_host(x), on_host(xbar), ctx.driven)
            by_f, by_reaction, *by_kappa = (torch.from_numpy(values).to(xbar) for values in found)
            return None, None, by_f, by_reaction if ctx.has_reaction else None, *by_kappa
        adjoint = _Solve.apply(ctx.call, False, xbar, reaction, *kappa)
        needs = ctx.needs_input_grad[2:]
        if not torch.is_grad_enabled():
            return None, None, *_pulled_back(ctx, needs, x, adjoint, reaction, kappa)
        with torch.enable_grad():
            # New tensors with the same values, on which neither x nor its adjoint depends.
            inputs = [None if each is None else _follower(each) for each in (f if ctx.driven else None, reaction, *kappa)]
            tested = ctx.call.residual.tested(ctx.call.residual.operations("torch"), inputs[2:], inputs[1], inputs[0], x, adjoint, driven=ctx.driven)
        wanted = [each for each, is_needed in zip(inputs, needs) if is_needed and each is not None]
        found = iter(torch.autograd.grad(tested, wanted, create_graph=torch.is_grad_enabled()) if wanted else ())
        by_inputs = [next(found) if is_needed and each is not None else None for each, is_needed in zip(inputs, needs)]
        if not ctx.driven and needs[0]:
            by_inputs[0] = adjoint
        return None, None, *by_inputs


def _pulled_back(ctx, needs, x, adjoint, reaction, kappa):
    """Return the needed derivatives with respect to f, c and each κ, made in one pass over the grid on the GPU."""
    residual, driven = ctx.call.residual, ctx.driven
    by_kappa = [torch.empty_like(x) for _ in kappa] if any(needs[2:]) else []
    by_f = torch.empty_like(x) if driven and needs[0] else None
    by_reaction = torch.empty_like(x) if reaction is not None and needs[1] else None
    handle = lambda tensor: tensor if tensor is None else readable(tensor.reshape(residual.shape), "kappa")
    given, pair, outs, others = ([handle(each) for each in several] for several in (kappa, (x, adjoint), by_kappa, (by_reaction, by_f)))
    parts = lambda handles: [each and each.parts for each in handles]
    residual.form(x.device.index).gradient(parts(given), parts(pair), driven, parts(outs), parts(others))
    return (by_f if driven else adjoint) if needs[0] else None, by_reaction, *(by_kappa or [None] * len(kappa))


def _follower(tensor):
    """Return a tensor with the same values that can be differentiated with respect to."""
    return tensor.view_as(tensor) if tensor.requires_grad else tensor.detach().requires_grad_()


def _on_device(call, driven, f, reaction, kappa):
    """Compute x without copying anything to the host."""
    # The solver waits for torch's current stream, and is finished when it returns.
    x = torch.empty(f.shape, dtype=f.dtype, device=f.device)
    handle = lambda values, what: readable(values.reshape(call.residual.shape), what)
    of_reaction = None if reaction is None else handle(reaction, "reaction")
    call.solve_on_device([handle(field, "kappa") for field in kappa], of_reaction, [handle(f, "f")], [handle(x, "x")], driven)
    return x
