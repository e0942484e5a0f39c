"""Knowledge of processors: which kernel is the quickest for a product, for attention, for dropout.

torch hands products in float32 on a CPU to MKL, which makes full use of Intel's processors only: on AMD's it knows AVX2
at best. oneDNN, which comes with torch as well, knows what they can do. Where they have AVX-512 it is twice as fast at
all but small products, and trains with them too; where they have AVX2 it gains where the result is wider than what is
summed over, above all before a vocabulary, and is asked in searches and by the loss (``python -m benchmarks.products``
measures both). The operator that calls it is the one that torch.compile uses; its gradients are made here.
"""

from __future__ import annotations

from enum import Enum
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from dragoman.shared.machine.processor import processor
from dragoman.shared.nn import int8

#: From how many multiplications on oneDNN pays with AVX-512: it needs some microseconds to find the kernel of a shape.
WORTH = 2**20
#: The fewest elements of a matrix for which it pays with AVX2.
LARGE = 2**18
#: Elements of what :func:`write_product` computes at a time, so that a cache holds them.
BLOCK = 2**21

#: The most queries of a head that are attended by products of matrices, and the fewest heads of a batch for which that
#: pays. A single query is attended so in bfloat16 only.
FEW_QUERIES = 8
MANY_HEADS = 128
#: The most keys from which torch's kernel learns in float32 at least as fast as in bfloat16.
SHORT = 256

#: Bits of a random number that decide whether an element is dropped, and how many numbers they can hold.
BITS = 16
ALL = 2**BITS


# -- products -------------------------------------------------------------------------------------------------------


class OneDNN(Enum):
    """For which products oneDNN is asked."""

    NONE = "none"
    WIDE = "results wider than what is summed over, without gradients"
    MOST = "all but small ones"


@cache
def onednn() -> OneDNN:
    """Tell for which products oneDNN is the quicker one on this processor."""
    if "AMD" not in processor() or not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        return OneDNN.NONE
    return OneDNN.MOST if torch.backends.cpu.get_cpu_capability() == "AVX512" else OneDNN.WIDE


def asks_onednn(x: Tensor, weight: Tensor) -> bool:
    """Tell whether oneDNN is the quicker one for ``x weight^T``; never for tensors on another device."""
    # Compilers choose by themselves, and autocast by precision.
    if x.device.type != "cpu" or torch.compiler.is_compiling() or torch.is_autocast_enabled("cpu"):
        return False
    if not x.dtype == weight.dtype == torch.float32 or x.dim() < 2:
        return False
    if not (_in_lines(x, gaps=True) and _in_lines(weight, gaps=False)):
        return False
    outputs, inputs = weight.shape
    if onednn() is OneDNN.MOST:
        return x.numel() * outputs >= WORTH
    if onednn() is OneDNN.WIDE:
        return outputs > inputs and outputs * inputs >= LARGE and not torch.is_grad_enabled()
    return False


def _in_lines(matrices: Tensor, *, gaps: bool) -> bool:
    # Whether rows, or columns, follow each other: oneDNN has but loops for anything else, and takes a thousand times as
    # long. Gaps between lines are allowed in what is multiplied, not in a weight.
    (rows, columns), (down, along) = matrices.shape[-2:], matrices.stride()[-2:]
    if along == 1:
        return down == columns or (gaps and down > columns)
    return down == 1 and (along == rows or (gaps and along > rows))


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return ``x weight^T + bias``, (..., out), of x (..., in) and weight (out, in), by the quicker library."""
    if weight.dtype == torch.int8:
        return int8.product(x, weight, bias)
    if weight.is_mkldnn:
        return _by_onednn(x.to(weight.dtype), weight, None if bias is None else bias.to(weight.dtype))
    if not asks_onednn(x, weight):
        return F.linear(x, weight, bias)
    return _ByOneDNN.apply(x, weight, bias) if torch.is_grad_enabled() else _by_onednn(x, weight, bias)


def write_product(out: Tensor, a: Tensor, b: Tensor, *, add: bool) -> None:
    """Write the product of a (n, k) and b (k, m), by oneDNN, into ``out`` (n, m), or add it to what is there.

    oneDNN is given no place to write to: it computes a few rows or columns at a time, which are copied while a cache
    holds them.
    """
    rows, columns = out.shape
    longer = 0 if rows > columns else 1
    size = max(1, BLOCK // min(rows, columns))
    parts = zip(out.split(size, longer), (b if longer else a).split(size, longer), strict=True)
    for place, part in parts:
        block = linear(a, part.T) if longer else linear(part, b.T)
        place.add_(block) if add else place.copy_(block)


def _by_onednn(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")


class _ByOneDNN(torch.autograd.Function):
    """oneDNN's linear map with the gradients of one, which are linear maps again and so have gradients themselves."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """Return (..., out)."""
        ctx.save_for_backward(x, weight)
        result = _by_onednn(x.flatten(0, -2), weight, bias)
        # Not a view for autograd, like the result of torch's own: what follows may write over it.
        return torch.ops.aten._unsafe_view(result, [*x.shape[:-1], len(weight)])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of x, weight and bias, None for what needs no gradient."""
        x, weight = ctx.saved_tensors
        gradient = gradients[0].flatten(0, -2)
        of_x, of_weight, of_bias = ctx.needs_input_grad
        return (
            linear(gradient, weight.T).view_as(x) if of_x else None,
            linear(gradient.T, x.flatten(0, -2).T) if of_weight else None,
            gradient.sum(0) if of_bias else None,
        )


def in_order_of_search(weight: Tensor) -> Tensor:
    """Return a matrix in the order in which the products of a search read it best.

    Before a product, oneDNN copies a matrix whose rows follow each other into an order of its own, which takes longer
    than the product if this has 16 to 100 rows, as those of a search do. In bfloat16, for which all processors that
    multiply in it ask oneDNN, the matrix is stored in that order, which only :func:`linear` reads; in float32 columns
    follow each other, where oneDNN is asked.
    """
    if weight.dtype == torch.float32:
        return weight.T.contiguous().T if onednn() is OneDNN.MOST else weight
    return torch.ops.mkldnn._reorder_linear_weight(weight, None) if _packs(weight) else weight


def _packs(weight: Tensor) -> bool:
    return (
        weight.dtype == torch.bfloat16
        and hasattr(torch.ops.mkldnn, "_reorder_linear_weight")
        and torch.ops.mkldnn._is_mkldnn_bf16_supported()
    )


# -- attention ------------------------------------------------------------------------------------------------------


def attends_in_float32(queries: Tensor, keys: Tensor) -> bool:
    """Tell whether torch's kernel learns in float32 as fast as in bfloat16, for queries and keys (B, H, L or S, d)."""
    return torch.is_grad_enabled() and queries.dtype == torch.bfloat16 and keys.shape[2] <= SHORT


def attends_by_products(queries: Tensor, *, causal: bool) -> bool:
    """Tell whether products of matrices are quicker than torch's kernel for queries (B, H, L, d).

    The kernel prepares each head's product for long sequences; one call does those of all heads in half the time where
    there are few beams of many sentences (``python -m benchmarks.products``).
    """
    sentences, heads, length, _ = queries.shape
    if torch.is_grad_enabled() or causal or length > FEW_QUERIES or sentences * heads < MANY_HEADS:
        return False
    return length > 1 or queries.dtype == torch.bfloat16


# -- dropout --------------------------------------------------------------------------------------------------------


def dropout(x: Tensor, probability: float) -> Tensor:
    """Set elements of x to zero with a probability, rounded to a multiple of 2^-16, and scale up the others.

    torch draws a number for each element, on many processors in a single thread, and can take longer for that than for
    the product that made the elements. Sixteen bits are enough to tell what is dropped, and a 64-bit number has four
    times as many.
    """
    return x * _scales(x, round(probability * ALL))


def _scales(x: Tensor, dropped: int) -> Tensor:
    """Return the factor of each element of x: 0 for ``dropped`` of 2^16 on average, the same for all others."""
    words = torch.empty(-(-x.numel() * BITS // 64), dtype=torch.int64).random_(-(2**63), None)
    drawn = words.view(torch.int16)[: x.numel()].view(x.shape)
    factors = torch.empty(x.shape, dtype=x.dtype)
    torch.ge(drawn, dropped - ALL // 2, out=factors)
    return factors.mul_(ALL / (ALL - dropped) if dropped < ALL else 0.0)
