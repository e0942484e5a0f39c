"""Linear maps, by the quickest product that torch has for them (shared/nn/cpu.py), and their storage for searches."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dragoman.shared.nn import cpu, int8


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return ``x weight^T + bias``, (..., out), as ``F.linear`` does, of x (..., in) and weight (out, in)."""
    return cpu.linear(x, weight, bias) if x.device.type == "cpu" else F.linear(x, weight, bias)


def write_product(out: Tensor, a: Tensor, b: Tensor, *, add: bool = False) -> None:
    """Write the product of a (n, k) and b (k, m) into ``out`` (n, m), or add it to what is there; without gradients."""
    if cpu.asks_onednn(a, b.T):
        cpu.write_product(out, a, b, add=add)
    elif add:
        torch.addmm(out, a, b, out=out)
    else:
        torch.mm(a, b, out=out)


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
