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

from isobar._arrays import check_real
from isobar._functional import call_of
from isobar._geometry import packed, unpacked
from isobar._inputs import check_directions

__all__ = ["solve"]

_KINDS = {torch.float64: "f8", torch.float32: "f4"}
# CUDA's legacy default stream, which torch calls 0.
_DEFAULT_STREAM = 1


def solve(
    problem: Any,
    kappa: torch.Tensor | tuple[torch.Tensor, ...],
    f: torch.Tensor | float = 0.0,
    reaction: torch.Tensor | float | None = None,
    *,
    boundary: Any = None,
    spacing: Any = None,
    tolerance: float = 1e-10,
    derivative_tolerance: float | None = None,
    failure: str = "raise",
    device: str = "auto",
    threads: int | None = None,
    **options: Any,
) -> torch.Tensor:
    """Solve −∇·(κ∇x) + c x = f. PyTorch can differentiate it with respect to κ, f, c, numbers on sides and widths, to any order.

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
        If a solve, or one for a derivative, does not converge: ``"raise"`` `isobar.NotConvergedError`, or return ``"nan"``
        everywhere.

    x has the type and device of κ; the solve is in double precision. A backward pass takes one more solve. Tensors on a GPU stay there, ordered by
    torch's current stream; with ``failure="nan"`` they pass through host memory.
    ``torch.compile`` does not compile the call; ``torch.func`` and forward-mode derivatives are not supported (`isobar.jax` has both).
    """
    call = call_of(problem, failure, derivative_tolerance, tolerance=tolerance, device=device, threads=threads, **options)
    fields = kappa if isinstance(kappa, tuple) else (kappa,)
    check_directions(len(fields), len(call.shape))
    first = fields[0] if isinstance(fields[0], torch.Tensor) else torch.as_tensor(fields[0])
    dtype, there = first.dtype, first.device
    if not dtype.is_floating_point:
        raise TypeError(f"kappa: dtype {dtype}; use torch.float64 or torch.float32")
    own = dtype if dtype in _KINDS else torch.float32
    place = there if there.type in ("cpu", "cuda") else torch.device("cpu")

    def of_cells(values, what):
        if not isinstance(values, torch.Tensor):
            values = torch.full((), values, dtype=own, device=place) if isinstance(values, (int, float)) else torch.as_tensor(values)
        check_real(values, what)
        # PyTorch negates parts of conjugates lazily, which memory does not show.
        values = values.resolve_neg()
        if values.dtype != own or values.device != place:
            values = values.to(place, own)
        if values.shape == call.shape:
            return values
        if values.dim():
            raise ValueError(f"{what} has shape {tuple(values.shape)}; the problem's is {call.shape}")
        return values.expand(call.shape)

    fields = [of_cells(field, "kappa") for field in fields]
    if call.active is not None:
        active = _kept(call, call.active, "active", torch.bool, place)
        fields = [field.where(active, 0.0) for field in fields]
    if reaction is not None:
        reaction = of_cells(reaction, "reaction")
    elif call.reaction is not None:
        reaction = _kept(call, call.reaction, "reaction", own, place)
    geometry = None
    if not (boundary is None and spacing is None):
        geometry = packed(call.residual, call.residual.operations("torch"), spacing, boundary, len(call.shape), fields[0])
    x = _Solve.apply(call, True, of_cells(f, "f"), reaction, geometry, *fields)
    return x if own == dtype and place == there else x.to(there, dtype)


if hasattr(torch, "compiler") and hasattr(torch.compiler, "disable"):
    solve = torch.compiler.disable(solve)


def _kept(call, values, *key):
    """Return a constant of the problem as a tensor, copied to its device once."""
    if key not in call.kept:
        _, dtype, device = key
        call.kept[key] = torch.tensor(values, dtype=dtype, device=device)
    return call.kept[key]


def _describe(device):
    """Return a function that describes tensors on a device for the native part, and None as None."""
    number = stream = None
    if device.type == "cuda":
        # The solver waits for torch's current stream, whose later work waits for it.
        number = device.index
        stream = torch.cuda.current_stream(number).cuda_stream or _DEFAULT_STREAM

    def described(tensor):
        if tensor is None:
            return None
        strides = None if tensor.is_contiguous() else tuple(stride * tensor.element_size() for stride in tensor.stride())
        return tensor.data_ptr(), tensor.shape, strides, _KINDS[tensor.dtype], number, stream

    return described


class _Solve(torch.autograd.Function):
    """The solution of A x = b with the right-hand side of f, sides, sources and wells; if not `driven`, A⁺ f."""

    @staticmethod
    def forward(ctx, call, driven, f, reaction, geometry, *kappa):
        x = torch.empty(call.shape, dtype=f.dtype, device=f.device)
        optional = [each for each in (reaction, geometry) if each is not None]
        described = _describe(f.device)
        fields = [described(field) for field in (*kappa, *optional)]
        call.native.solve(fields, reaction is not None, geometry is not None, described(f), driven, described(x))
        ctx.call, ctx.driven, ctx.has = call, driven, (reaction is not None, geometry is not None)
        ctx.save_for_backward(x, f, *optional, *kappa)
        return x

    @staticmethod
    def backward(ctx, xbar):
        x, f, *rest = ctx.saved_tensors
        xbar = xbar.resolve_neg()
        reaction, geometry = (rest.pop(0) if is_given else None for is_given in ctx.has)
        kappa, needs = rest, ctx.needs_input_grad[2:]
        # First derivatives are the native part's.
        is_native = not torch.is_grad_enabled() and geometry is None
        if is_native and not f.is_cuda:
            found = [torch.empty(x.shape, dtype=x.dtype) if is_needed else None for is_needed in needs]
            described = _describe(x.device)
            by_f, by_reaction, _, *by_kappa = [described(values) for values in found]
            given = [described(field) for field in (*kappa, *([] if reaction is None else [reaction]))]
            outs = [by_f, by_reaction, *by_kappa]
            ctx.call.native.pull_back(given, reaction is not None, [described(x), described(xbar)], ctx.driven, outs)
            return None, None, *found
        adjoint = _Solve.apply(ctx.call, False, xbar, reaction, geometry, *kappa)
        if is_native:
            return None, None, *_pulled_back(ctx, needs, x, adjoint, reaction, kappa)
        with torch.enable_grad():
            # New tensors with the same values, on which neither x nor its adjoint depends.
            inputs = [None if each is None else _follower(each) for each in (f if ctx.driven else None, reaction, geometry, *kappa)]
            residual = unpacked(ctx.call.residual, inputs[2])
            tested = residual.tested(residual.operations("torch"), inputs[3:], inputs[1], inputs[0], x, adjoint, driven=ctx.driven)
        wanted = [each for each, is_needed in zip(inputs, needs) if is_needed and each is not None]
        # κ of a direction with one cell may have no effect.
        how = {"create_graph": torch.is_grad_enabled(), "allow_unused": True, "materialize_grads": True}
        found = iter(torch.autograd.grad(tested, wanted, **how) if wanted else ())
        by_inputs = [next(found) if is_needed and each is not None else None for each, is_needed in zip(inputs, needs)]
        if not ctx.driven and needs[0]:
            by_inputs[0] = adjoint
        return None, None, *by_inputs


def _pulled_back(ctx, needs, x, adjoint, reaction, kappa):
    """Return the needed derivatives with respect to f, c, nothing and each κ, made in one pass over the grid on the GPU."""
    residual, driven = ctx.call.residual, ctx.driven
    by_kappa = [torch.empty_like(x) for _ in kappa] if any(needs[3:]) else []
    by_f = torch.empty_like(x) if driven and needs[0] else None
    by_reaction = torch.empty_like(x) if reaction is not None and needs[1] else None
    described = _describe(x.device)
    of = lambda several: [described(each) for each in several]
    residual.form(x.device.index).gradient(of(kappa), of((x, adjoint)), driven, of(by_kappa), of((by_reaction, by_f)))
    return (by_f if driven else adjoint) if needs[0] else None, by_reaction, None, *(by_kappa or [None] * len(kappa))


def _follower(tensor):
    """Return a tensor with the same values that can be differentiated with respect to."""
    return tensor.view_as(tensor) if tensor.requires_grad else tensor.detach().requires_grad_()
