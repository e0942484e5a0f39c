"""From states to scores over a vocabulary.

Legend: B batch, L length, D model width, V vocabulary.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from shared.described import Described
from shared.nn.embeddings import TextEmbedding
from shared.padded import Padded


class OutputProjection(Described, nn.Module):
    """States to logits by a matrix of its own, without bias (as in fairseq).

    Args:
        width: D.
        vocabulary: V.

    """

    def __init__(self, *, width: int, vocabulary: int) -> None:
        super().__init__()
        if width < 1 or vocabulary < 1:
            raise ValueError(f"an output projection cannot have width {width} and vocabulary {vocabulary}")
        self.weight = nn.Parameter(torch.empty(vocabulary, width))
        nn.init.normal_(self.weight, std=width**-0.5)

    def forward(self, states: Tensor) -> Tensor:
        """Project states (..., D) to logits (..., V)."""
        return F.linear(states, self.weight)


class TiedProjection(Described, nn.Module):
    """States to logits by the matrix of an embedding (Press and Wolf 2017).

    It owns no parameters: the matrix belongs to the embedding, and stands once in a model's folder.

    Args:
        embedding: the embedding, usually of the target tokens.

    """

    def __init__(self, *, embedding: TextEmbedding) -> None:
        super().__init__()
        # Inside a tuple, so that it does not become a submodule and its parameters do not get a second name.
        self._embedding = (embedding,)

    @property
    def weight(self) -> Tensor:
        """The matrix (V, D)."""
        return self._embedding[0].weight

    def forward(self, states: Tensor) -> Tensor:
        """Project states (..., D) to logits (..., V)."""
        return F.linear(states, self.weight)


class CtcHead(Described, nn.Module):
    """Scores over a vocabulary with a blank, for connectionist temporal classification (Graves et al. 2006).

    Args:
        tap: the encoder layer whose states it reads, one of the encoder's ``taps``.
        width: D.
        vocabulary: V, the blank included.
        blank: the blank symbol.
        dropout: of the states.

    """

    def __init__(self, *, tap: int, width: int, vocabulary: int, blank: int, dropout: float = 0.0) -> None:
        super().__init__()
        if not 0 <= blank < vocabulary:
            raise ValueError(f"the blank symbol {blank} is outside the vocabulary of {vocabulary}")
        if not 0 <= dropout < 1:
            raise ValueError(f"dropout must be at least 0 and below 1, not {dropout}")
        self.tap, self.vocabulary, self.blank, self.dropout = tap, vocabulary, blank, dropout
        self.projection = nn.Linear(width, vocabulary)
        nn.init.xavier_uniform_(self.projection.weight)
        nn.init.zeros_(self.projection.bias)

    def forward(self, states: Tensor) -> Tensor:
        """Return logits (B, L, V), not normalised, so that a loss may take logarithm and normalisation in one."""
        return self.projection(F.dropout(states, self.dropout, self.training))

    def log_probabilities(self, states: Padded) -> Padded:
        """Return log-probabilities (B, L, V) in float32, as the searches want them."""
        return states.map(lambda values: torch.log_softmax(self(values).float(), dim=-1))
