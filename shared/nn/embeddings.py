"""From tokens to vectors.

Legend: B batch, L length, D model width, V vocabulary.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dragoman.shared.described import Described
from dragoman.shared.errors import UsageError
from dragoman.shared.nn import int8
from dragoman.shared.nn.dropout import dropout
from dragoman.shared.nn.lookup import lookup
from dragoman.shared.padded import Padded
from dragoman.shared.ranges import PositiveFloat, PositiveInt, ShareBelowOne


class TypeVector(Described, nn.Module):
    """One trained vector that is added to every element, to tell a modality or a side from others."""

    def __init__(self, *, width: int) -> None:
        super().__init__()
        self.vector = nn.Parameter(torch.empty(width))
        nn.init.normal_(self.vector, std=width**-0.5)

    def forward(self, x: Tensor) -> Tensor:
        """Add it to x (B, L, D)."""
        return x + self.vector


class TypeVectors(Described, nn.Module):
    """A trained vector for each type of token, such as the first and the second sentence (Devlin et al. 2019, fig. 2).

    Args:
        width: D.
        types: how many there are; where none is named, all tokens are of the first.
    """

    def __init__(self, *, width: int, types: PositiveInt = 2) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(types, width))
        nn.init.normal_(self.weight, std=width**-0.5)

    def forward(self, x: Tensor, types: Tensor | None = None) -> Tensor:
        """Add to x (B, L, D) the vectors of ``types`` (B, L) int64."""
        return x + (self.weight[0] if types is None else F.embedding(types, self.weight))


class TextEmbedding(Described, nn.Module):
    """Token vectors times sqrt(D), plus positions, normalised if asked, with dropout.

    Initialised like fairseq's: normal with deviation 1 / sqrt(D); the padding symbol's vector is zero and stays zero.

    Args:
        vocabulary: V.
        width: D.
        padding: the padding symbol.
        positions: a module of shared/nn/positions.py, or None for no positions.
        type_vector: what is added to tell this text from other inputs, or its tokens apart; None for nothing.
        dropout: of the sum.
        scaled: multiply token vectors by sqrt(D) (Vaswani et al. 2017, section 3.4).
        norm: normalise the sum (layernorm_embedding of BART's family).
        norm_epsilon: added to the variance by which that divides.
        shared_with: another embedding of the same vocabulary and width whose token vectors serve here too, while
            positions, type vector and norm are this one's own. The vectors belong to the other, and stand once in a
            model's folder.
    """

    def __init__(
        self,
        *,
        vocabulary: int,
        width: PositiveInt,
        padding: int,
        positions: nn.Module | None = None,
        type_vector: nn.Module | None = None,
        dropout: ShareBelowOne = 0.1,
        scaled: bool = True,
        norm: bool = False,
        norm_epsilon: PositiveFloat = 1e-5,
        shared_with: TextEmbedding | None = None,
    ) -> None:
        super().__init__()
        if not 0 <= padding < vocabulary:
            raise ValueError(f"the padding symbol {padding} is outside the vocabulary of {vocabulary}")
        added = getattr(positions, "width", width)
        if added != width:
            raise ValueError(f"positions of width {added} cannot be added to token vectors of width {width}")
        self.vocabulary = vocabulary
        self.width = width
        self.dropout = dropout
        self.scale = math.sqrt(width) if scaled else 1.0
        self.padding = padding
        if shared_with is None:
            self.tokens = nn.Embedding(vocabulary, width, padding_idx=padding)
            nn.init.normal_(self.tokens.weight, std=width**-0.5)
            with torch.no_grad():
                self.tokens.weight[padding].zero_()
        elif (shared_with.vocabulary, shared_with.width, shared_with.padding) != (vocabulary, width, padding):
            raise ValueError(
                f"token vectors {shared_with.vocabulary} x {shared_with.width} with padding {shared_with.padding} "
                f"cannot be shared with an embedding of {vocabulary} x {width} with padding {padding}"
            )
        # Inside a tuple, so that it does not become a submodule and its parameters do not get a second name.
        self._shared_with = (shared_with,)
        self.positions = positions
        self.type_vector = type_vector
        self.norm = nn.LayerNorm(width, eps=norm_epsilon) if norm else nn.Identity()

    @property
    def weight(self) -> Tensor:
        """The token vectors (V, D), which an output projection may share."""
        owner = self._shared_with[0]
        return self.tokens.weight if owner is None else owner.weight

    @property
    def like(self) -> Tensor:
        """A tensor without elements, of the type and on the device of what is returned."""
        weight = self.weight
        return weight.new_empty(0, dtype=torch.float32 if weight.dtype == torch.int8 else weight.dtype)

    def symbol_tensors(self) -> list[str]:
        """See shared/nn/symbols.py."""
        return ["tokens.weight"] if self._shared_with[0] is None else []

    def store_for_search(self, dtype: torch.dtype | None) -> None:
        """Store the token vectors in eight bits if the products are; else they stay. See shared/nn/linear.py."""
        if dtype == torch.int8 and self._shared_with[0] is None and self.tokens.weight.dtype != torch.int8:
            self.tokens.weight = int8.parameter(int8.table(self.tokens.weight))

    def forward(self, tokens: Padded, *, start: int = 0, types: Tensor | None = None) -> Padded:
        """Embed tokens (B, L) int64, the first of which is element ``start`` of its sequence: (B, L, D).

        Args:
            tokens: to be embedded.
            start: see above.
            types: of the tokens (B, L) int64, 0 or 1; without any, all are of the first.

        Raises:
            UsageError: if there are no vectors for the types.
        """
        if types is not None and not (isinstance(self.type_vector, TypeVectors) and len(self.type_vector.weight) > 1):
            raise UsageError("the texts have types of tokens (types: True), for which the embedding has no vectors")
        return tokens.map(lambda values: self.embed(values, start, types))

    def embed(self, tokens: Tensor, start: int | Tensor = 0, types: Tensor | None = None) -> Tensor:
        """Embed tokens (B, L) without lengths; with ``types`` (B, L), if the type vector is a TypeVectors.

        Rows may start at elements of their own: ``start`` (B,).
        """
        table = self.weight
        x = int8.vectors(tokens, table) if table.dtype == torch.int8 else lookup(tokens, table, self.padding)
        if self.scale != 1.0:
            x = x * self.scale
        if self.positions is not None:
            x = x + self.positions(tokens.shape[1], start, like=x)
        if self.type_vector is not None:
            x = self.type_vector(x) if types is None else self.type_vector(x, types)
        return dropout(self.norm(x), self.dropout, self.training)
