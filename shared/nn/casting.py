"""Casts of all matrices and biases of a model together, where autocast would cast each by a kernel of its own.

A small model on a GPU waits for its host, which launches one kernel after the other. Of the kernels of an update, one
in five is such a cast: to half precision before a product, or of a gradient back to single precision. Numbers are the
same.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from dragoman.shared.nn.linear import Linear

#: As many tensors as one of torch's kernels copies. The gradients of a group come back as soon as all are there: were
#: there one group only, all would wait in both types, and other processes for them.
GROUP = 64


@contextmanager
def cast_together(module: nn.Module, dtype: torch.dtype | None) -> Iterator[None]:
    """Let the linear maps of a module multiply by copies of their parameters; forward and backward pass belong inside.

    Args:
        module: whose parameters in float32 are cast; what is multiplied is left to autocast.
        dtype: that of autocast; None for nothing.
    """
    if dtype is None:
        yield
        return
    layers = [part for part in module.modules() if isinstance(part, Linear) and isinstance(part.weight, nn.Parameter)]
    layers = [layer for layer in layers if layer.weight.dtype == torch.float32]
    wanted = iter(dict.fromkeys(x for layer in layers for x in (layer.weight, layer.bias) if x is not None))
    copies: dict[Tensor | None, Tensor | None] = {None: None}
    while group := list(islice(wanted, GROUP)):
        copies |= zip(group, _Cast.apply(dtype, *group), strict=True)
    try:
        for layer in layers:
            layer.cast = copies[layer.weight], copies[layer.bias]
        yield
    finally:
        for layer in layers:
            layer.cast = None


class _Cast(torch.autograd.Function):
    """Copies of tensors in another type; gradients in the type of what was copied."""

    @staticmethod
    def forward(ctx: Any, dtype: torch.dtype, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Return the copies."""
        ctx.set_materialize_grads(False)  # what was not used has no gradient
        copies = [torch.empty_like(tensor, dtype=dtype) for tensor in tensors]
        torch._foreach_copy_(copies, tensors)
        ctx.mark_non_differentiable(
            *(x for x, needed in zip(copies, ctx.needs_input_grad[1:], strict=True) if not needed)
        )
        ctx.dtype = tensors[0].dtype
        return tuple(copies)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        """Return the gradients."""
        there = [gradient for gradient in gradients if gradient is not None]
        exact = [torch.empty_like(gradient, dtype=ctx.dtype) for gradient in there]
        if there:
            torch._foreach_copy_(exact, there)
        found = iter(exact)
        return None, *(None if gradient is None else next(found) for gradient in gradients)
