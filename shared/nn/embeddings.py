"""From tokens to vectors.

Legend: B batch, L length, D model width, V vocabulary.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from shared.described import Described
from shared.padded import Padded


class TypeVector(Described, nn.Module):
    """One trained vector that is added to every element, to tell a modality or a side from others.

    Args:
        width: D.

    """

    def __init__(self, *, width: int) -> None:
        super().__init__()
        self.vector = nn.Parameter(torch.empty(width))
        nn.init.normal_(self.vector, std=width**-0.5)

    def forward(self, x: Tensor) -> Tensor:
        """Add it to x (B, L, D)."""
        return x + self.vector


class TextEmbedding(Described, nn.Module):
    """Token vectors times sqrt(D), plus positions, normalised if asked, with dropout.

    Initialised like fairseq's: normal with deviation 1 / sqrt(D); the padding symbol's vector is zero and stays zero.

    Args:
        vocabulary: V.
        width: D.
        padding: the padding symbol.
        positions: a module of shared/nn/positions.py, or None for no positions.
        type_vector: what is added to tell this text from other inputs, or None.
        dropout: of the sum.
        scaled: multiply token vectors by sqrt(D) (Vaswani et al. 2017, section 3.4).
        norm: normalise the sum (layernorm_embedding of BART's family).

    """

    def __init__(
        self,
        *,
        vocabulary: int,
        width: int,
        padding: int,
        positions: nn.Module | None = None,
        type_vector: nn.Module | None = None,
        dropout: float = 0.1,
        scaled: bool = True,
        norm: bool = False,
    ) -> None:
        super().__init__()
        if not 0 <= padding < vocabulary:
            raise ValueError(f"the padding symbol {padding} is outside the vocabulary of {vocabulary}")
        if width < 1:
            raise ValueError(f"width must be at least 1, not {width}")
        if not 0 <= dropout < 1:
            raise ValueError(f"dropout must be at least 0 and below 1, not {dropout}")
        self.vocabulary, self.width, self.dropout = vocabulary, width, dropout
        self.scale = math.sqrt(width) if scaled else 1.0
        self.tokens = nn.Embedding(vocabulary, width, padding_idx=padding)
        nn.init.normal_(self.tokens.weight, std=width**-0.5)
        with torch.no_grad():
            self.tokens.weight[padding].zero_()
        self.positions, self.type_vector = positions, type_vector
        self.norm = nn.LayerNorm(width) if norm else nn.Identity()

    @property
    def weight(self) -> Tensor:
        """The token vectors (V, D), which an output projection may share."""
        return self.tokens.weight

    def forward(self, tokens: Padded, *, start: int = 0) -> Padded:
        """Embed tokens (B, L) int64, the first of which is element ``start`` of its sequence: (B, L, D)."""
        return tokens.map(lambda values: self.embed(values, start))

    def embed(self, tokens: Tensor, start: int = 0) -> Tensor:
        """Embed tokens (B, L) without lengths."""
        x = self.tokens(tokens)
        if self.scale != 1.0:
            x = x * self.scale
        if self.positions is not None:
            x = x + self.positions(tokens.shape[1], start, like=x)
        if self.type_vector is not None:
            x = self.type_vector(x)
        return F.dropout(self.norm(x), self.dropout, self.training)
