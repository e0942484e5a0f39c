"""Noise on text: a model reads changed words, and learns to write them as they were, or to live with such texts.

A word is the ids of its pieces. What a word is follows from how the tokenizer marks them (``▁low er``, ``low@@ er``,
``low ##er``, ``Ġlow er``); in languages that are written without spaces, each piece is a word.
"""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from shared import languages
from shared.corpus.fields import Rows, TextField
from shared.corpus.manifest import Row
from shared.tokenizer import Tokenizer

Word = list[int]

#: How tokenizers mark the first piece of a word, and pieces that a word goes on after, or with.
_BEGINS = ("▁", "Ġ")
_GOES_ON_AFTER, _GOES_ON_WITH = "@@", "##"

_FULL_STOPS = tuple(".!?…。！？．؟۔।")
_CLOSING = "\"'”’»›)]}」』）"


class Noise(Protocol):
    """A change to the words of a text. None makes a text longer, in ids: budgets are for the text without noise."""

    def __call__(self, words: list[Word], rng: np.random.Generator) -> list[Word]:
        """Return the changed words; all randomness comes from ``rng``."""
        ...


class NoisyText:
    """A text whose words are changed each time that it is read; the symbols around them stay.

    Args:
        field: the text as it is.
        noise: changes to its words, in this order.

    """

    unit = "tokens"

    def __init__(self, *, field: TextField, noise: list[Noise]) -> None:
        self.field, self.noise = field, list(noise)
        self.padding, self.overhead = field.padding, field.overhead

    def __call__(self, row: Row, rng: np.random.Generator) -> Tensor:
        """Return (L,) int64.

        Raises:
            DataError: if the row has no text, or no language where a symbol needs it.

        """
        prefix, pieces, suffix = self.field.parts(row)
        words = words_of(self.field.tokenizer).split(pieces, row.get(self.field.language_column))
        for noise in self.noise:
            words = noise(words, rng)
        return torch.tensor([*prefix, *chain.from_iterable(words), *suffix], dtype=torch.int64)

    def length(self, row: Row) -> int:
        """Return the number of ids, L, that the text has without noise: with it, there are no more."""
        return self.field.length(row)

    def lengths(self, rows: Rows, folder: Path | None = None) -> np.ndarray:
        """Return those numbers for all rows, -1 where there is no text.

        Raises:
            DataError: naming the manifest, if a text cannot be tokenised.

        """
        return self.field.lengths(rows, folder)

    def evaluating(self) -> TextField:
        """Return the text as it is."""
        return self.field


class Words:
    """Where words and sentences end in the pieces of a tokenizer.

    Args:
        tokenizer: its pieces are looked through once.

    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        pieces = [tokenizer.symbol(id) for id in range(tokenizer.size)]
        marked = any(piece.startswith(_BEGINS) for piece in pieces)
        going_on = any(piece.endswith(_GOES_ON_AFTER) for piece in pieces)
        # A table each, of bytes: one lookup a piece is all that a text costs.
        self._begins = bytes(
            piece.startswith(_BEGINS) if marked else not piece.startswith(_GOES_ON_WITH) and not going_on
            for piece in pieces
        )
        self._ends = bytes(not marked and going_on and not piece.endswith(_GOES_ON_AFTER) for piece in pieces)
        self._closes = bytes(not piece.strip(_CLOSING + "".join(_BEGINS)) for piece in pieces)
        self._stops = bytes(piece.rstrip(_CLOSING).endswith(_FULL_STOPS) for piece in pieces)

    def split(self, ids: list[int], language: str | None = None) -> list[Word]:
        """Return the words of a text's pieces.

        Args:
            ids: (L,) pieces, without symbols.
            language: its code, if it is known; in those without spaces, each piece is a word.

        """
        if language is not None and not languages.spaced(language):
            return [[id] for id in ids]
        begins, ends = self._begins, self._ends
        bounds = [n for n in range(1, len(ids)) if begins[ids[n]] or ends[ids[n - 1]]]
        return [ids[start:end] for start, end in zip([0, *bounds], [*bounds, len(ids)], strict=True)] if ids else []

    def sentences(self, words: list[Word]) -> list[list[Word]]:
        """Return the words of each sentence: it ends at a full stop, with the quotes and brackets behind it."""
        closes, found, stopped = self._closes, list[list[Word]](), True
        for word in words:
            last: int | None = word[-1]
            if closes[word[-1]]:
                last = next((id for id in reversed(word) if not closes[id]), None)
            if stopped and (last is not None or not found):
                found.append([])
            found[-1].append(word)
            if last is not None:
                stopped = bool(self._stops[last])
        return found


_KNOWN: dict[str, Words] = {}


def words_of(tokenizer: Tokenizer) -> Words:
    """Return the words of a tokenizer; its pieces are looked through at the first call in a process."""
    if tokenizer.fingerprint not in _KNOWN:
        _KNOWN[tokenizer.fingerprint] = Words(tokenizer)
    return _KNOWN[tokenizer.fingerprint]
