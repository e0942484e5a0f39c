"""The position of an element in its sequence, as a vector.

Legend: L length, D model width.

Padding stands at the end of a row (see shared/padded.py), so an element's index is the number of real elements before
it: no position is ever spent on padding.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from shared.described import Described
from shared.errors import TooLongError


class SinusoidalPositions(Described, nn.Module):
    """Sines and cosines of D/2 wavelengths from 2 pi to 20000 pi (Vaswani et al. 2017, section 3.5).

    The layout is fairseq's (all sines, then all cosines; an odd width has a zero at its end), so that its checkpoints
    mean the same here. Nothing is stored, so there is no longest sequence.

    Args:
        width: D, at least 4.
        offset: the number given to the first element; fairseq counts from its padding index + 1, which is 2.
        endpoint: the longest wavelength is 20000 pi itself (D/2 - 1 equal ratios, fairseq's reading), not one ratio
            below it (D/2 ratios: the paper's formula, which Marian follows).

    """

    def __init__(self, *, width: int, offset: int = 2, endpoint: bool = True) -> None:
        super().__init__()
        if width < 4:
            raise ValueError(f"sinusoidal positions need a width of at least 4, not {width}")
        if not 0 <= offset < 2**31:
            raise ValueError(f"offset must be at least 0 and below 2^31, not {offset}")
        self.width = width
        self.offset = offset
        self.endpoint = endpoint

    def forward(self, length: int, start: int = 0, *, like: Tensor) -> Tensor:
        """Return the vectors (L, D) of elements ``start`` to ``start + length - 1``, in the type and place of ``like``.

        They are computed in float32 whatever ``like`` is: position 1000 has no exact neighbours in bfloat16.
        """
        half = self.width // 2
        numbers = torch.arange(start + self.offset, start + self.offset + length, device=like.device).float()
        exponents = torch.arange(half, device=like.device).float()
        angles = numbers[:, None] * torch.exp(exponents * (-math.log(10000) / (half - self.endpoint)))
        vectors = torch.cat([angles.sin(), angles.cos()], dim=1)
        return F.pad(vectors, (0, self.width % 2)).to(like.dtype)


class LearnedPositions(Described, nn.Module):
    """A trained vector for each position (Gehring et al. 2017, section 3.1).

    Args:
        width: D.
        length: the longest sequence.
        offset: unused rows before the first position; fairseq's checkpoints have 2 of them.

    """

    def __init__(self, *, width: int, length: int, offset: int = 0) -> None:
        super().__init__()
        if width < 1 or length < 1 or offset < 0:
            raise ValueError(f"learned positions cannot have width {width}, length {length} and offset {offset}")
        self.width = width
        self.length = length
        self.offset = offset
        self.weight = nn.Parameter(torch.empty(length + offset, width))
        nn.init.normal_(self.weight, std=width**-0.5)

    def forward(self, length: int, start: int = 0, *, like: Tensor) -> Tensor:
        """Return the vectors (L, D) of elements ``start`` to ``start + length - 1``.

        Raises:
            TooLongError: if the sequence is longer than the positions that were trained.

        """
        if start + length > self.length:
            raise TooLongError(f"{start + length} elements are more than the {self.length} positions there are")
        first = start + self.offset
        return self.weight[first : first + length].to(like.dtype)
