"""Matrices in eight bits, which a CPU multiplies by several times as fast and which take a quarter of the memory.

A matrix (O, I) has a scale for each row, as a table has for each vector; what is multiplied gets one for each of its
rows when it comes, so that a sentence's output does not depend on the others of its batch. Both scales are the largest
absolute value by 127, zero stays zero, and the sums are exact, in 32 bits (Wu et al. 2020, arXiv 2004.09602, sections
3.2 and 4.1). oneDNN computes the products, by VNNI and AMX where they are. Without them it adds two products in 16
bits, which overflow; there, matrices have seven bits.

Tensors in eight bits carry their scales as an attribute, which neither copies nor files keep: they are for searches.
"""

from __future__ import annotations

from functools import cache
from typing import cast

import torch
from torch import Tensor, nn

LARGEST = 127
#: Below this, a row counts as zero: its inverse would not be a number.
SMALLEST = 1e-30
#: Elements that are rounded at a time, so that a cache holds them.
BLOCK = 2**17


def has_int8() -> bool:
    """Tell whether this build of torch multiplies in eight bits."""
    return torch.backends.mkldnn.is_available() and hasattr(torch.ops.onednn, "qlinear_pointwise")


@cache
def largest_of_matrices() -> int:
    """Return up to which absolute value this processor's products are exact: 127, or 63 if two of them overflow."""
    extreme = torch.full((1, 8), LARGEST, dtype=torch.int8, device="cpu")
    matrix = _with_scales(torch.ops.onednn.qlinear_prepack(extreme, None), torch.ones(1, 1, device="cpu"))
    return LARGEST if _sums(extreme, matrix).item() == extreme.shape[1] * LARGEST**2 else LARGEST // 2


@torch.no_grad()
def rounded(rows: Tensor, most: int = LARGEST) -> tuple[Tensor, Tensor]:
    """Round rows (R, I) to eight bits, or fewer.

    Args:
        rows: (R, I).
        most: the largest absolute value of what comes out.

    Returns:
        (R, I) int8, and scales (R, 1) float32, which they are to be multiplied by.
    """
    result = torch.empty(rows.shape, dtype=torch.int8, device=rows.device)
    scales = torch.empty(len(rows), 1, device=rows.device)
    size = max(1, BLOCK // max(1, rows.shape[1]))
    for some, place, scale in zip(rows.split(size), result.split(size), scales.split(size), strict=True):
        largest = some.abs().amax(1, keepdim=True).float().clamp_(min=SMALLEST)
        scale.copy_(largest.div_(most))
        place.copy_((some / scale).round_())
    return result, scales


def table(weight: Tensor) -> Tensor:
    """Return a table (V, D) in eight bits, of which :func:`vectors` looks up rows."""
    values, scales = rounded(weight.detach(), largest_of_matrices())
    return _with_scales(values, scales)


def vectors(tokens: Tensor, weight: Tensor) -> Tensor:
    """Return rows (..., D) float32 of a :func:`table` for tokens (...) int64."""
    return weight[tokens] * scales_of(weight)[tokens]


def matrix(weight: Tensor) -> Tensor:
    """Return a matrix (O, I), or a :func:`table`, in eight bits, in the order in which :func:`product` reads it."""
    if weight.is_mkldnn:
        return weight
    values, scales = (
        (weight, scales_of(weight)) if weight.dtype == torch.int8 else rounded(weight.detach(), largest_of_matrices())
    )
    return _with_scales(torch.ops.onednn.qlinear_prepack(values.detach(), None), scales)


def parameter(stored: Tensor) -> nn.Parameter:
    """Return a tensor in eight bits as a parameter, which does not learn."""
    return cast(nn.Parameter, _with_scales(nn.Parameter(stored, requires_grad=False), scales_of(stored)))


@torch.no_grad()
def product(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Return ``x weight^T + bias`` (..., O), in the type of x, of x (..., I) and a :func:`matrix`; no gradients."""
    scales = scales_of(weight)
    values, factors = rounded(x.reshape(-1, x.shape[-1]))
    if len(values):
        result = _sums(values, weight)
    else:
        result = x.new_empty(0, len(scales))
    result = result.mul_(factors) if bias is None else torch.addcmul(bias.float(), result, factors)
    return result.to(x.dtype).unflatten(0, x.shape[:-1]) if x.dim() > 1 else result[0].to(x.dtype)


def _sums(values: Tensor, weight: Tensor) -> Tensor:
    """Return (R, O) float32 of values (R, I) int8 and a :func:`matrix`, whose scales they are multiplied by."""
    scales = scales_of(weight)[:, 0]
    nothing = torch.zeros(len(scales), dtype=torch.int32)
    # Without a sign, 128 stands for zero: that is what all processors with VNNI multiply. For signed values oneDNN has
    # but a loop where AMX is missing, which takes a thousand times as long.
    unsigned = values.bitwise_xor(-128).view(torch.uint8)
    return cast(
        Tensor,
        torch.ops.onednn.qlinear_pointwise(
            unsigned, 1.0, 128, weight, scales, nothing, None, 1.0, 0, torch.float32, "none", [], ""
        ),
    )


def scales_of(weight: Tensor) -> Tensor:
    """Return the scales (V, 1) or (O, 1) of a tensor in eight bits."""
    scales: Tensor = weight.scales  # type: ignore[attr-defined]
    return scales


def _with_scales(values: Tensor, scales: Tensor) -> Tensor:
    values.scales = scales  # type: ignore[attr-defined]
    return values
