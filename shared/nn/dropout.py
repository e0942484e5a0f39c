"""Dropout (Srivastava et al. 2014) whose random numbers are drawn quickly on a CPU.

torch draws a number for each element, on many processors in a single thread, and can take longer for that than for the
product that made the elements. Sixteen bits are enough to tell what is dropped, and a 64-bit number has four times as
many.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

BITS = 16
ALL = 2**BITS


def dropout(x: Tensor, probability: float, training: bool) -> Tensor:
    """Set elements to zero with a probability, in training, and scale up the others.

    On a CPU the probability is rounded to a multiple of 2^-16, for the scale as well: the expectation stays.

    Args:
        x: of any shape.
        probability: at least 0 and below 1.
        training: without it, x comes back as it is.

    """
    if not training or probability == 0.0:
        return x
    if x.device.type != "cpu" or torch.compiler.is_compiling():
        return F.dropout(x, probability, training)
    return x * _scales(x, round(probability * ALL))


def _scales(x: Tensor, dropped: int) -> Tensor:
    """Return the factor of each element of x: 0 for ``dropped`` of 2^16 on average, the same for all others."""
    words = torch.empty(-(-x.numel() * BITS // 64), dtype=torch.int64).random_(-(2**63), None)
    drawn = words.view(torch.int16)[: x.numel()].view(x.shape)
    factors = torch.empty(x.shape, dtype=x.dtype)
    torch.ge(drawn, dropped - ALL // 2, out=factors)
    return factors.mul_(ALL / (ALL - dropped) if dropped < ALL else 0.0)
