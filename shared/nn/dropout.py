"""Dropout (Srivastava et al. 2014)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from dragoman.shared.nn import cpu


def dropout(x: Tensor, probability: float, training: bool) -> Tensor:
    """Set elements to zero with a probability, in training, and scale up the others.

    On a CPU the probability is rounded to a multiple of 2^-16, for the scale as well: the expectation stays.
    """
    if not training or probability == 0.0:
        return x
    if x.device.type == "cpu" and not torch.compiler.is_compiling():
        return cpu.dropout(x, probability)
    return F.dropout(x, probability, training)
