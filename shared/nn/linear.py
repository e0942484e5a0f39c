"""Linear maps, by the quickest product that torch has for them.

torch hands products in float32 on a CPU to MKL, which knows Intel's processors best. On AMD's, oneDNN, which comes with
torch as well, is quicker where the result is wider than what is summed over, as in feed-forward nets and above all
before a vocabulary: 1.1 to 2 times (``python -m benchmarks.products``). The operator that calls it is the one that
torch.compile uses; it knows no gradients, so that in training only the loss asks for it, which makes its own.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from shared.processor import processor

#: The fewest elements of a matrix for which that holds.
LARGE = 2**18


@cache
def prefers_onednn() -> bool:
    """Tell whether this processor is one on which oneDNN is the quicker one."""
    return "AMD" in processor() and hasattr(torch.ops.mkldnn, "_linear_pointwise")


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return ``x weight^T + bias``, (..., out), as ``F.linear`` does, of x (..., in) and weight (out, in)."""
    outputs, inputs = weight.shape
    quicker = (
        x.device.type == "cpu"
        and not torch.is_grad_enabled()
        and not torch.compiler.is_compiling()  # the compiler chooses by itself
        and x.dtype == weight.dtype == torch.float32
        and outputs > inputs
        and outputs * inputs >= LARGE
        and not torch.is_autocast_enabled("cpu")
        and prefers_onednn()
    )
    if quicker:
        return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
    return F.linear(x, weight, bias)


class Linear(nn.Linear):
    """torch's linear map, computed by :func:`linear`."""

    def forward(self, x: Tensor) -> Tensor:
        """Map x (..., in) to (..., out)."""
        return linear(x, self.weight, self.bias)
