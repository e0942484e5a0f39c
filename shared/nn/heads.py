"""From states to scores over a vocabulary.

Legend: B batch, L length, D model width, V vocabulary.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from dragoman.shared.described import Described
from dragoman.shared.generator import Encoding
from dragoman.shared.nn.dropout import dropout
from dragoman.shared.nn.embeddings import TextEmbedding
from dragoman.shared.nn.layer import activation_module, layer_norm
from dragoman.shared.nn.linear import Linear, linear, stored_for_search, stored_parameter
from dragoman.shared.nn.symbols import CTC, tensors_below
from dragoman.shared.padded import Padded
from dragoman.shared.ranges import PositiveInt, ShareBelowOne


class OutputProjection(Described, nn.Module):
    """States to logits by a matrix of its own.

    Args:
        width: D.
        vocabulary: V.
        bias: add a trained number to each logit; fairseq's translators have none.
    """

    def __init__(self, *, width: PositiveInt, vocabulary: PositiveInt, bias: bool = False) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocabulary, width))
        nn.init.normal_(self.weight, std=width**-0.5)
        self.bias = nn.Parameter(torch.zeros(vocabulary)) if bias else None

    def symbol_tensors(self) -> list[str]:
        """See shared/nn/symbols.py."""
        return ["weight"] if self.bias is None else ["weight", "bias"]

    def forward(self, states: Tensor) -> Tensor:
        """Project states (..., D) to logits (..., V)."""
        return linear(states, self.weight, self.bias)

    def store_for_search(self, dtype: torch.dtype | None) -> None:
        """See shared/nn/linear.py."""
        self.weight = stored_parameter(self.weight, dtype)


class TiedProjection(Described, nn.Module):
    """States to logits by the matrix of an embedding (Press and Wolf 2017).

    It does not own the matrix, which belongs to the embedding and stands once in a model's folder.

    Args:
        embedding: the embedding, usually of the target tokens.
        bias: add a trained number, its own, to each logit (as Marian and masked language models do).
    """

    def __init__(self, *, embedding: TextEmbedding, bias: bool = False) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(embedding.vocabulary)) if bias else None
        # Inside a tuple, so that it does not become a submodule and its parameters do not get a second name.
        self._embedding = (embedding,)
        self.register_buffer("_stored", None, persistent=False)

    @property
    def weight(self) -> Tensor:
        """The matrix (V, D)."""
        return self._embedding[0].weight

    def symbol_tensors(self) -> list[str]:
        """See shared/nn/symbols.py."""
        return [] if self.bias is None else ["bias"]

    def forward(self, states: Tensor) -> Tensor:
        """Project states (..., D) to logits (..., V)."""
        return linear(states, self.weight if self._stored is None else self._stored, self.bias)

    def store_for_search(self, dtype: torch.dtype | None) -> None:
        """Keep a copy in ``dtype``: rows of the embedding are looked up in its own type and order."""
        weight = self.weight if dtype == torch.int8 else self.weight.detach()  # which would lose its scales
        self._stored = None if dtype is None else stored_for_search(weight, dtype)


class MaskedTokenHead(Described, nn.Module):
    """Scores of the token that a mask stands for: a dense layer, its norm, a projection (Devlin et al. 2019).

    Args:
        width: D.
        projection: to the vocabulary, usually tied to the embedding of the encoder's input and with a bias.
        activation: of the dense layer, as in shared/nn/transformer.py.
        norm_epsilon: added to the variance by which the norm divides.
        field: the input whose tokens it scores.
    """

    def __init__(
        self,
        *,
        width: int,
        projection: nn.Module,
        activation: str = "gelu",
        norm_epsilon: float = 1e-5,
        field: str = "source",
    ) -> None:
        super().__init__()
        self.symbols_of = field
        self.dense = Linear(width, width)
        nn.init.xavier_uniform_(self.dense.weight)
        nn.init.zeros_(self.dense.bias)
        self.activation = activation_module(activation)
        self.norm = layer_norm(width, norm_epsilon)
        self.projection = projection

    def symbol_tensors(self) -> list[str]:
        """See shared/nn/symbols.py."""
        return tensors_below(self, "projection")

    def forward(self, states: Tensor) -> Tensor:
        """Return logits (..., V) of states (..., D)."""
        return self.projection(self.transform(states))

    def transform(self, states: Tensor) -> Tensor:
        """Return what is projected (..., D)."""
        return self.norm(self.activation(self.dense(states)))


class CtcHead(Described, nn.Module):
    """Scores over a vocabulary with a blank, for connectionist temporal classification (Graves et al. 2006).

    Args:
        tap: the states that it reads, one of the model's ``taps``: the number of an encoder layer, or a name.
        width: D.
        vocabulary: V, the blank included.
        blank: the blank symbol.
        dropout: of the states.
        projection: from states to logits, such as a TiedProjection; by default one of the head's own, with a bias.

    Raises:
        ValueError: if the blank or the projection's shape does not fit.
    """

    symbols_of = CTC

    def __init__(
        self,
        *,
        tap: int | str,
        width: int,
        vocabulary: int,
        blank: int,
        dropout: ShareBelowOne = 0.0,
        projection: OutputProjection | TiedProjection | None = None,
    ) -> None:
        super().__init__()
        if not 0 <= blank < vocabulary:
            raise ValueError(f"the blank symbol {blank} is outside the vocabulary of {vocabulary}")
        self.tap = tap
        self.vocabulary = vocabulary
        self.blank = blank
        self.dropout = dropout
        self.own = projection is None
        self.projection = self._own_projection(width, vocabulary) if projection is None else projection
        shape = tuple(self.projection.weight.shape)
        if shape != (vocabulary, width):
            raise ValueError(f"a projection of {shape} makes no logits of {vocabulary} symbols from width {width}")

    def symbol_tensors(self) -> list[str]:
        """See shared/nn/symbols.py."""
        return ["projection.weight", "projection.bias"] if self.own else tensors_below(self, "projection")

    def forward(self, states: Tensor) -> Tensor:
        """Return logits (B, L, V), not normalised, so that a loss may take logarithm and normalisation in one."""
        return self.projection(dropout(states, self.dropout, self.training))

    @staticmethod
    def _own_projection(width: int, vocabulary: int) -> Linear:
        projection = Linear(width, vocabulary)
        nn.init.xavier_uniform_(projection.weight)
        nn.init.zeros_(projection.bias)
        return projection


def head_logits(model: Any, encoding: Encoding, name: str) -> Padded:
    """Return what a head of a model makes of an encoding: logits (B, L, V) with the lengths of its tap.

    A model that needs them to encode, for example to shorten its states, has left them in the extra "logits.<name>":
    they are not computed twice, and a loss has the gradient of what the model has used.

    Args:
        model: with ``heads``, and ``tap(encoding, name)``.
        encoding: what the model has returned.
        name: of the head in ``model.heads``; it knows its tap.
    """
    logits = encoding.extras.get(f"logits.{name}")
    if isinstance(logits, Padded):
        return logits
    head = model.heads[name]
    return model.tap(encoding, head.tap).map(head)


def head_log_probabilities(model: Any, encoding: Encoding, name: str) -> Padded:
    """Return log-probabilities (B, L, V) of a head in float32, as losses and searches want them."""
    return head_logits(model, encoding, name).map(lambda logits: logits.float().log_softmax(-1))
