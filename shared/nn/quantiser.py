"""A product quantiser with trained codes, and the head that compares encoder states with quantised frames.

Legend: B batch, M elements, C channels, G groups, E entries of a group, W width of a code, D model width, P width in
which states and codes are compared.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dragoman.shared.described import Described
from dragoman.shared.nn.dropout import dropout
from dragoman.shared.nn.linear import Linear
from dragoman.shared.padded import Padded
from dragoman.shared.ranges import PositiveInt, ShareBelowOne


@dataclass(frozen=True)
class Quantised:
    """The output of a quantiser.

    Attributes:
        vectors: (B, M, W) the chosen codes of all groups, joined; gradients pass straight through the choice.
        entries: (B, M, G) int64, the number of the chosen entry of each group.
        probabilities: (G, E) the mean probability of each entry over all real elements, with gradient.
        usage: (G, E) the share of real elements whose most probable entry it is.
    """

    vectors: Tensor
    entries: Tensor
    probabilities: Tensor
    usage: Tensor


def perplexity(shares: Tensor) -> Tensor:
    """Return the sum over groups of exp(entropy) of shares (G, E): G if one entry has all, GE if all have as much."""
    tiny = torch.finfo(shares.dtype).tiny  # the logarithm of a share of 0 would have no finite gradient
    return (-(shares * shares.clamp_min(tiny).log()).sum(-1)).exp().sum()


class ProductQuantiser(Described, nn.Module):
    """Vectors to one trained code of each group (Jegou et al. 2011; Baevski et al. 2020, section 2).

    In training an entry is drawn by Gumbel noise on the logits, and gradients are those of the softmax at a temperature
    (Jang et al. 2016, straight-through); in evaluation the most probable entry is taken.

    Args:
        inputs: C.
        width: W, of the joined codes.
        groups: G.
        entries: E.
        dropout: of the inputs.

    Raises:
        ValueError: if the width cannot be divided into the groups.
    """

    def __init__(
        self,
        *,
        inputs: PositiveInt,
        width: PositiveInt = 256,
        groups: PositiveInt = 2,
        entries: PositiveInt = 320,
        dropout: ShareBelowOne = 0.0,
    ) -> None:
        super().__init__()
        if width % groups:
            raise ValueError(f"the width {width} cannot be divided into {groups} groups")
        self.width = width
        self.groups = groups
        self.entries = entries
        self.dropout = dropout
        self.logits = Linear(inputs, groups * entries)
        nn.init.normal_(self.logits.weight)
        nn.init.zeros_(self.logits.bias)
        self.codes = nn.Parameter(torch.empty(groups, entries, width // groups).uniform_())

    def forward(self, x: Padded, temperature: float = 1.0) -> Quantised:
        """Quantise x (B, M, C), in training at a temperature of the softmax; no mean has padding in it."""
        logits = self.logits(dropout(x.values, self.dropout, self.training)).float()
        logits = logits.unflatten(-1, (self.groups, self.entries))  # (B, M, G, E)
        best = logits.argmax(-1)
        if self.training:
            chosen = F.gumbel_softmax(logits, tau=temperature, hard=True)
            entries = chosen.argmax(-1)
        else:
            chosen = F.one_hot(best, self.entries)
            entries = best
        vectors = torch.einsum("bmge,gew->bmgw", chosen.to(self.codes.dtype), self.codes).flatten(2)
        probabilities = logits.softmax(-1)[x.mask].mean(0)
        usage = F.one_hot(best[x.mask], self.entries).float().mean(0)
        return Quantised(vectors, entries, probabilities, usage)


class ContrastiveHead(Described, nn.Module):
    """Encoder states and quantised frames, projected so that they can be compared.

    Args:
        quantiser: of frames.
        width: D, of the states.
        compared: P.
    """

    def __init__(self, *, quantiser: ProductQuantiser, width: PositiveInt, compared: PositiveInt = 256) -> None:
        super().__init__()
        self.quantiser = quantiser
        self.states = Linear(width, compared)
        self.targets = Linear(quantiser.width, compared)
