"""Linear maps, by the quickest product that torch has for them.

torch hands products in float32 on a CPU to MKL, which makes full use of Intel's processors only: on AMD's it knows AVX2
at best. oneDNN, which comes with torch as well, knows what they can do. Where they have AVX-512 it is twice as fast at
all but small products, and trains with them too; where they have AVX2 it gains where the result is wider than what is
summed over, above all before a vocabulary, and is asked in searches and by the loss (``python -m benchmarks.products``
measures both). The operator that calls it is the one that torch.compile uses; its gradients are made here.
"""

from __future__ import annotations

from enum import Enum
from functools import cache
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from shared.processor import processor

#: From how many multiplications on oneDNN pays with AVX-512: it needs some microseconds to find the kernel of a shape.
WORTH = 2**20
#: The fewest elements of a matrix for which it pays with AVX2.
LARGE = 2**18
#: Elements of what :func:`write_product` computes at a time, so that a cache holds them.
BLOCK = 2**21


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


def _asks_onednn(x: Tensor, weight: Tensor) -> bool:
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
    # Whether rows, or columns, stand one after the other: oneDNN has but loops for anything else, and takes a thousand
    # times as long. Gaps between lines are allowed in what is multiplied, not in a weight.
    (rows, columns), (down, along) = matrices.shape[-2:], matrices.stride()[-2:]
    if along == 1:
        return down == columns or (gaps and down > columns)
    return down == 1 and (along == rows or (gaps and along > rows))


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return ``x weight^T + bias``, (..., out), as ``F.linear`` does, of x (..., in) and weight (out, in)."""
    if weight.is_mkldnn:
        return _by_onednn(x.to(weight.dtype), weight, None if bias is None else bias.to(weight.dtype))
    if not _asks_onednn(x, weight):
        return F.linear(x, weight, bias)
    return _ByOneDNN.apply(x, weight, bias) if torch.is_grad_enabled() else _by_onednn(x, weight, bias)


def write_product(out: Tensor, a: Tensor, b: Tensor, *, add: bool = False) -> None:
    """Write the product of a (n, k) and b (k, m) into ``out`` (n, m), or add it to what is there; without gradients.

    oneDNN is given no place to write to: it computes a few rows or columns at a time, which are copied while a cache
    holds them.
    """
    if not _asks_onednn(a, b.T):
        torch.addmm(out, a, b, out=out) if add else torch.mm(a, b, out=out)
        return
    rows, columns = out.shape
    longer = 0 if rows > columns else 1
    size = max(1, BLOCK // min(rows, columns))
    parts = zip(out.split(size, longer), (b if longer else a).split(size, longer), strict=True)
    for some, part in parts:
        block = linear(a, part.T) if longer else linear(part, b.T)
        some.add_(block) if add else some.copy_(block)


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
        """Return the gradients of x, weight and bias, None where nobody wants one."""
        x, weight = ctx.saved_tensors
        gradient = gradients[0].flatten(0, -2)
        of_x, of_weight, of_bias = ctx.needs_input_grad
        return (
            linear(gradient, weight.T).view_as(x) if of_x else None,
            linear(gradient.T, x.flatten(0, -2).T) if of_weight else None,
            gradient.sum(0) if of_bias else None,
        )


class Linear(nn.Linear):
    """torch's linear map, computed by :func:`linear`."""

    def forward(self, x: Tensor) -> Tensor:
        """Map x (..., in) to (..., out)."""
        return linear(x, self.weight, self.bias)

    def store_for_search(self, dtype: torch.dtype | None) -> None:
        """See :func:`store_for_search`."""
        self.weight = stored_parameter(self.weight, dtype)


@runtime_checkable
class Stored(Protocol):
    """A module that can store a matrix as a search reads it best."""

    def store_for_search(self, dtype: torch.dtype | None) -> None:
        """See :func:`store_for_search`."""


def store_for_search(module: nn.Module, dtype: torch.dtype | None = None) -> None:
    """Store the matrices that a module multiplies by as the products of a search read them best; not for training.

    Args:
        module: whose linear maps and output projections are meant. Shapes stay as they are; what is looked up, as in
            an embedding, stays as it is.
        dtype: that of the autocast under which the search will run, None without: see :func:`stored_for_search`.

    """
    for part in module.modules():
        if isinstance(part, Stored):
            part.store_for_search(dtype)


def stored_for_search(weight: Tensor, dtype: torch.dtype | None) -> Tensor:
    """Return a matrix in float32 as the products of a search read it best, one in another type as it is.

    Autocast casts a matrix at every step of a search: it is cast here, once, to the same values. Before a product,
    oneDNN copies a matrix that stands row by row into an order of its own, which takes longer than the product if this
    has 16 to 100 rows, as those of a search do. In bfloat16, for which all processors that multiply in it ask oneDNN,
    the matrix is stored in that order, which only :func:`linear` reads; in float32 columns do, where it is asked.
    """
    if weight.dtype != torch.float32:
        return weight
    if dtype is not None:
        weight = weight.to(dtype)
        return torch.ops.mkldnn._reorder_linear_weight(weight, None) if _packs(weight) else weight
    return weight.T.contiguous().T if weight.device.type == "cpu" and onednn() is OneDNN.MOST else weight


def stored_parameter(weight: Tensor, dtype: torch.dtype | None) -> nn.Parameter:
    """Return what :func:`stored_for_search` does as a parameter; in a type of its own it learns nothing any more."""
    learns = weight.requires_grad and dtype is None
    return nn.Parameter(stored_for_search(weight.detach(), dtype), requires_grad=learns)


def _packs(weight: Tensor) -> bool:
    return (
        weight.device.type == "cpu"
        and weight.dtype == torch.bfloat16
        and hasattr(torch.ops.mkldnn, "_reorder_linear_weight")
        and torch.ops.mkldnn._is_mkldnn_bf16_supported()
    )
