"""Divergence of a decoder's distributions from a teacher's, without ever holding the logits of a whole batch.

Legend: N rows, D width, V vocabulary.

With p the decoder's distribution and q the teacher's, a row's divergence is KL(q || p) = sum_v q_v (log q_v - log p_v)
(Hinton et al. 2015, arXiv 1503.02531, section 2, less the entropy of q, which does not learn): it is 0 where both
agree. Its gradient with respect to the decoder's logits is p - q.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from dragoman.shared.nn.linear import linear
from dragoman.shared.nn.lookup import announce_gradient
from dragoman.shared.objectives.cross_entropy import Linear, add_gradients

CHUNK = 2**24  # logits at a time: of these there are some copies


def divergence(
    states: Tensor,
    projection: Linear,
    wanted: Callable[[slice], Tensor],
    counted: Tensor,
    *,
    chunk: int = CHUNK,
) -> Tensor:
    """Project states onto the vocabulary and sum KL(q || p), in nats.

    As with cross entropy, gradients are made at once: only one backward pass can be done, and no second derivative.

    Args:
        states: (N, D).
        projection: onto the vocabulary.
        wanted: returns the teacher's logits (n, V) of some of the N rows.
        counted: (N,) bool, True where a row counts.
        chunk: logits (rows x V) at a time, at least those of one row.

    Returns:
        A scalar in at least single precision.

    Raises:
        ValueError: if shapes or numbers do not fit.
    """
    if states.dim() != 2 or counted.shape != states.shape[:1]:
        raise ValueError(f"states {tuple(states.shape)} and counted {tuple(counted.shape)} are not (N, D) and (N,)")
    if chunk < 1:
        raise ValueError(f"chunk must be at least 1, not {chunk}")
    rows = max(1, chunk // len(projection.weight))
    learning = torch.is_grad_enabled()  # inside of what follows it never is
    return _Divergence.apply(states, projection.weight, projection.bias, wanted, counted, rows, learning)


class _Divergence(torch.autograd.Function):
    """The sum of the divergences of all rows; logits are projected as autocast would."""

    @staticmethod
    def forward(
        ctx: Any,
        states: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        wanted: Callable[[slice], Tensor],
        counted: Tensor,
        rows: int,
        learning: bool,
    ) -> Tensor:
        """Return a scalar."""
        device = states.device.type
        cast = torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)
        dtype = torch.get_autocast_dtype(device) if cast else weight.dtype
        precision = torch.promote_types(dtype, torch.float32)
        total = states.new_zeros((), dtype=precision)
        needed = [learning and need for need in ctx.needs_input_grad[:3]]
        gradients = [
            torch.zeros_like(x) if x is not None and need else None
            for x, need in zip((states, weight, bias), needed, strict=True)
        ]
        matrix = weight.to(dtype)
        for start in range(0, len(states), rows):
            part = slice(start, start + rows)
            x = states[part].to(dtype)
            real = counted[part, None]
            logits = linear(x, matrix, None if bias is None else bias.to(dtype))
            log_p = logits.to(precision).log_softmax(-1)
            log_q = wanted(part).to(precision).log_softmax(-1)
            if log_q.shape != log_p.shape:
                raise ValueError(
                    f"the teacher's logits are {tuple(log_q.shape)}, but the decoder's {tuple(log_p.shape)}"
                )
            q = log_q.exp()
            total += (q * (log_q - log_p)).sum(-1, keepdim=True).masked_fill(~real, 0).sum()
            if any(needed):
                add_gradients(gradients, (log_p.exp_() - q).to(dtype), part, x, matrix, real)
        ctx.gradients, ctx.weight = gradients, weight
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, scale: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients, scaled in place."""
        if ctx.gradients is None:
            raise RuntimeError("divergence keeps its gradients for one backward pass")
        gradients, ctx.gradients = ctx.gradients, None
        if gradients[1] is not None:
            announce_gradient(ctx.weight)
        return (*(None if x is None else x.mul_(scale) for x in gradients), None, None, None, None)
