"""Linear maps, by the quickest product that torch has for them (shared/nn/cpu.py), and their storage for searches."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dragoman.shared.nn import cpu, int8


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return ``x weight^T + bias``, (..., out), as ``F.linear`` does, of x (..., in) and weight (out, in)."""
    if x.device.type == "cpu":
        return cpu.linear(x, weight, bias)
    plain = bias is None or x.dim() == 2 or not x.is_contiguous()
    if plain or torch.compiler.is_compiling() or not torch.is_grad_enabled():
        return F.linear(x, weight, bias)
    # torch's own result is a view here: where something writes over it, as ReLU does, its gradient is copied thrice.
    return torch.ops.aten._unsafe_view(F.linear(x.flatten(0, -2), weight, bias), [*x.shape[:-1], len(weight)])


def write_product(out: Tensor, a: Tensor, b: Tensor, *, add: bool = False) -> None:
    """Write the product of a (n, k) and b (k, m) into ``out`` (n, m), or add it to what is there; without gradients.

    What it is added to may be of another type than a and b.
    """
    if cpu.asks_onednn(a, b.T):
        cpu.write_product(out, a, b, add=add)
    elif add and out.dtype == a.dtype:
        torch.addmm(out, a, b, out=out)
    elif add and out.device.type == "cuda" and out.dtype == torch.float32:
        # Sums of products in half precision are in single precision anyway: they are added before they are rounded.
        torch.addmm(out, a, b, out_dtype=out.dtype, out=out)
    elif add:
        out += a @ b
    else:
        torch.mm(a, b, out=out)


class Linear(nn.Linear):
    """torch's linear map, computed by :func:`linear`.

    Attributes:
        cast: matrix and bias in another type, which multiply in place of its own; see shared/nn/casting.py.
    """

    cast: tuple[Tensor | None, Tensor | None] | None = None

    def forward(self, x: Tensor) -> Tensor:
        """Map x (..., in) to (..., out)."""
        weight, bias = (self.weight, self.bias) if self.cast is None else self.cast
        assert weight is not None
        return linear(x, weight, bias)

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
        dtype: that of the autocast under which the search will run, None without; or int8, for products in eight bits
            on a CPU, where tables of token vectors are stored in eight bits too. See :func:`stored_for_search`.
    """
    for part in module.modules():
        if isinstance(part, Stored):
            part.store_for_search(dtype)


def stored_for_search(weight: Tensor, dtype: torch.dtype | None) -> Tensor:
    """Return a matrix in float32 as the products of a search read it best, one in another type as it is.

    Autocast casts a matrix at every step of a search: it is cast here, once, to the same values. In eight bits, only
    :func:`linear` reads it (shared/nn/int8.py).
    """
    if dtype == torch.int8:
        return int8.matrix(weight)
    if weight.dtype != torch.float32:
        return weight
    cast = weight if dtype is None else weight.to(dtype)
    return cpu.in_order_of_search(cast) if cast.device.type == "cpu" else cast


def stored_parameter(weight: Tensor, dtype: torch.dtype | None) -> nn.Parameter:
    """Return what :func:`stored_for_search` does as a parameter; in a type of its own it learns nothing any more."""
    if dtype == torch.int8:
        return int8.parameter(int8.matrix(weight))
    learns = weight.requires_grad and dtype is None
    return nn.Parameter(stored_for_search(weight.detach(), dtype), requires_grad=learns)
