"""Text some tokens of which are hidden, and what they were: the input and the labels of a masked language model.

Devlin et al. 2019, arXiv 1810.04805, section 3.1. The parts that learn from it are in shared/objectives/masked.py, and
may learn as well from :class:`NextTokens`, the labels of an encoder that reads from left to right.

Legend: L tokens, M masked tokens.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import cast

import numpy as np
import torch
from torch import Tensor

from dragoman.shared.batches.fields import TextField
from dragoman.shared.batches.growing_text import GrowingText
from dragoman.shared.batches.manifest import Row
from dragoman.shared.batches.rewriting import Rewriting, growth_of, rewritten
from dragoman.shared.errors import UsageError
from dragoman.shared.ranges import NonNegativeFloat, Share
from dragoman.shared.text.piece_counts import read_counts
from dragoman.shared.text.tokenizer import Tokenizer


def drawable(tokenizer: Tokenizer) -> np.ndarray:
    """Return the ids that may take the place of a piece, int64: all but the tokenizer's symbols."""
    symbols = {tokenizer.id(symbol) for symbol in tokenizer.symbols}
    return np.array([id for id in range(tokenizer.size) if id not in symbols], dtype=np.int64)


class MaskedText(GrowingText):
    """A text with masked tokens; the batch gets ``<name>``, ``<name>.places`` and ``<name>.labels``.

    Of a text's pieces, ``share`` are chosen, at least one; the symbols around them are not. A chosen piece becomes the
    mask, or a piece drawn evenly, or stays as it is. In validation each text has the same masks every time. They are
    chosen evenly, or, if counts are given, in proportion to the inverse of a power of their frequency, so that rare
    pieces are restored more often (Conneau and Lample 2019, section 3.3).

    Args:
        field: the text as it is, whose tokenizer has a mask.
        share: of the pieces that are chosen, rounded to the nearest number.
        masked: share of the chosen ones that become the mask.
        replaced: share of the chosen ones that become another piece; the rest stays.
        rewriting: a change to the text itself, before that, each time that it is read; None leaves it as it is.
        counts: a table of how often each piece comes, which the phase ``CountPieces`` writes; None: chosen evenly.
        exponent: the power; pieces without a count are weighed as those that come once.

    Raises:
        UsageError: if two shares of one whole add up to more than 1.
    """

    def __init__(
        self,
        *,
        field: TextField,
        share: Share = 0.15,
        masked: Share = 0.8,
        replaced: Share = 0.1,
        rewriting: Rewriting | None = None,
        counts: str | None = None,
        exponent: NonNegativeFloat = 0.5,
    ) -> None:
        if masked + replaced > 1:
            raise UsageError(f"masked and replaced are shares of one whole, not {masked} and {replaced}")
        super().__init__(field=field, growth=growth_of(rewriting))
        self.counts = None if counts is None else Path(counts)
        self.exponent = exponent
        self.share = share
        self.masked = masked
        self.replaced = replaced
        self.rewriting = rewriting
        self.mask = field.tokenizer.mask
        self._pieces = drawable(field.tokenizer)

    def __call__(self, row: Row, rng: np.random.Generator) -> dict[str, Tensor]:
        """Return the tokens (L,), the places (M,) of the chosen ones in order, and what stood there (M,), int64.

        Raises:
            DataError: if the row has no text, or no language where a symbol needs it.
        """
        prefix, pieces, suffix = rewritten(self.field, self.rewriting, row, rng)
        tokens = np.array([*prefix, *pieces, *suffix], dtype=np.int64)
        places = len(prefix) + self.choose(np.array(pieces, dtype=np.int64), rng)
        labels = tokens[places]
        kind = rng.random(len(places))
        drawn = self._pieces[rng.integers(len(self._pieces), size=len(places))]
        hidden = np.where(kind < self.masked + self.replaced, drawn, labels)
        tokens[places] = np.where(kind < self.masked, self.mask, hidden)
        return {key: torch.from_numpy(ids) for key, ids in (("", tokens), ("places", places), ("labels", labels))}

    def choose(self, pieces: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return which of a text's pieces (N,) are chosen, in order, (M,) int64."""
        count = max(1, round(self.share * len(pieces))) if len(pieces) and self.share else 0
        if self.counts is None or not count:
            return np.sort(rng.choice(len(pieces), count, replace=False, shuffle=False))
        weights = self._weights[pieces]
        return np.sort(rng.choice(len(pieces), count, replace=False, p=weights / weights.sum()))

    @cached_property
    def _weights(self) -> np.ndarray:
        """The weights of all pieces, (V,); read when they are first asked for."""
        counts = read_counts(cast(Path, self.counts), self.field.tokenizer)
        return np.maximum(counts, 1.0) ** -self.exponent

    def load(self) -> None:
        """Read the table of counts, and what the rewriting needs."""
        if self.counts is not None:
            _ = self._weights
        if self.rewriting is not None:
            self.rewriting.load()


class NextTokens(GrowingText):
    """A text as it is, with the token that follows each: ``<name>``, ``<name>.places`` and ``<name>.labels``.

    Causal language modelling (Radford et al. 2018; Conneau and Lample 2019, section 3.2) by an encoder that sees what
    is before a token only (``CausalEncoder``), with the parts that restore masked tokens.

    Args:
        field: the text.
    """

    def __init__(self, *, field: TextField) -> None:
        super().__init__(field=field, growth=1.0)

    def __call__(self, row: Row, rng: np.random.Generator) -> dict[str, Tensor]:
        """Return the tokens (L,), the places of all but the last (L - 1,), and what follows each (L - 1,), int64.

        Raises:
            DataError: if the row has no text, or no language where a symbol needs it.
        """
        tokens = self.field(row, rng)
        return {"": tokens, "places": torch.arange(len(tokens) - 1), "labels": tokens[1:]}
