"""The position of an element in its sequence, as a vector; and that of two to each other, as a score.

Legend: R rows, L length or queries, S keys, D model width, H heads.

Padding stands at the end of a row (see shared/padded.py), so an element's index is the number of real elements before
it: no position is ever spent on padding.
"""

from __future__ import annotations

import math
from typing import Annotated

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dragoman.shared.described import Described
from dragoman.shared.errors import TooLongError
from dragoman.shared.ranges import NonNegativeInt, PositiveInt, Range


def places(length: int, start: int | Tensor, device: torch.device) -> Tensor:
    """Return the numbers (L,) of elements from ``start`` on; of rows with starts (R,) of their own, (R, L)."""
    numbers = torch.arange(length, device=device)
    return numbers + (start[:, None] if isinstance(start, Tensor) else start)


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

    def __init__(
        self,
        *,
        width: Annotated[int, Range(least=4)],
        offset: Annotated[int, Range(least=0, below=2**31)] = 2,
        endpoint: bool = True,
    ) -> None:
        super().__init__()
        self.width = width
        self.offset = offset
        self.endpoint = endpoint

    def forward(self, length: int, start: int | Tensor = 0, *, like: Tensor) -> Tensor:
        """Return the vectors (L, D) of elements ``start`` to ``start + length - 1``, in the type and place of ``like``.

        Of rows that start at elements of their own, (R,) int64, they are (R, L, D). They are computed in float32
        whatever ``like`` is: position 1000 has no exact neighbours in bfloat16.
        """
        half = self.width // 2
        numbers = places(length, start, like.device).add(self.offset).float()
        exponents = torch.arange(half, device=like.device).float()
        angles = numbers[..., None] * torch.exp(exponents * (-math.log(10000) / (half - self.endpoint)))
        vectors = torch.cat([angles.sin(), angles.cos()], dim=-1)
        return F.pad(vectors, (0, self.width % 2)).to(like.dtype)


class LearnedPositions(Described, nn.Module):
    """A trained vector for each position (Gehring et al. 2017, section 3.1).

    Args:
        width: D.
        length: the longest sequence.
        offset: unused rows before the first position; fairseq's checkpoints have 2 of them.
    """

    def __init__(self, *, width: PositiveInt, length: PositiveInt, offset: NonNegativeInt = 0) -> None:
        super().__init__()
        self.width = width
        self.length = length
        self.offset = offset
        self.weight = nn.Parameter(torch.empty(length + offset, width))
        nn.init.normal_(self.weight, std=width**-0.5)

    def forward(self, length: int, start: int | Tensor = 0, *, like: Tensor) -> Tensor:
        """Return the vectors (L, D) of elements ``start`` to ``start + length - 1``.

        Of rows that start at elements of their own, (R,) int64, they are (R, L, D). Nobody asks a device whether these
        are too many: a search has looked at ``longest_output``.

        Raises:
            TooLongError: if the sequence is longer than the positions that were trained.
        """
        if isinstance(start, Tensor):
            return self.weight[places(length, start, like.device) + self.offset].to(like.dtype)
        if start + length > self.length:
            raise TooLongError(f"{start + length} elements are more than the {self.length} positions there are")
        first = start + self.offset
        return self.weight[first : first + length].to(like.dtype)


class RelativePositions(Described, nn.Module):
    """A trained number for each distance and head, which is added to scores of attention (Raffel et al. 2020, 2.1).

    Half of the buckets of a direction are for one distance each, the other half for ranges that grow geometrically up
    to the longest distance; the last one is for all that is further.

    Args:
        heads: H.
        buckets: how many distances are told apart, in both directions together.
        longest: the distance from which on all are alike.
        causal: only what is before is seen, and has all buckets.
    """

    def __init__(self, *, heads: PositiveInt, buckets: int = 32, longest: int = 128, causal: bool = False) -> None:
        super().__init__()
        exact = buckets // (2 if causal else 4)
        if exact < 1 or longest <= exact:
            raise ValueError(f"relative positions cannot have {buckets} buckets up to {longest}")
        self.buckets = buckets
        self.longest = longest
        self.causal = causal
        self.weight = nn.Parameter(torch.empty(buckets, heads))
        nn.init.normal_(self.weight, std=0.02)

    def forward(self, queries: int, keys: int, start: int = 0) -> Tensor:
        """Return the scores (H, L, S) of queries ``start`` to ``start + queries - 1`` with keys 0 to ``keys - 1``."""
        device = self.weight.device
        asking = torch.arange(start, start + queries, device=device)
        return self.weight[self.bucket(torch.arange(keys, device=device) - asking[:, None])].permute(2, 0, 1)

    def bucket(self, distance: Tensor) -> Tensor:
        """Return the buckets of distances, key minus query; those of what is ahead are the upper half."""
        number = self.buckets if self.causal else self.buckets // 2
        ahead = torch.zeros_like(distance) if self.causal else (distance > 0).long()
        distance = (-distance).clamp(min=0) if self.causal else distance.abs()
        exact = number // 2
        # In single precision, in which published models have learned where one range ends and the next begins.
        share = torch.log(distance.clamp(min=1).float() / exact) / math.log(self.longest / exact)
        ranged = (exact + (share * (number - exact)).long()).clamp(max=number - 1)
        return number * ahead + torch.where(distance < exact, distance, ranged)
