"""Noise on text: a model reads changed words, and learns to write them as they were, or to live with such texts.

A word is the ids of its pieces. Words are divided where the tokenizer's decoder writes a space between pieces, whatever
marks it has for that (``▁low er``, ``low@@ er``, ``low ##er``, ``Ġlow er``); in languages without spaces, each piece is
a word.
"""

from __future__ import annotations

from itertools import chain, pairwise
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from shared import languages
from shared.corpus.fields import Rows, TextField
from shared.corpus.manifest import Row
from shared.errors import DataError
from shared.tokenizer import Tokenizer

Word = list[int]

_FULL_STOPS = tuple(".!?…。！？．؟۔।॥။։።\u037e")
_CLOSING = "\"'”’“‘»›«‹)]}」』）"


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
            DataError: if the row has no text, or no language where a symbol needs it, or it has become longer.

        """
        prefix, pieces, suffix = self.field.parts(row)
        words = words_of(self.field.tokenizer).split(pieces, row.get(self.field.language_column))
        for noise in self.noise:
            words = noise(words, rng)
        noisy = list(chain.from_iterable(words))
        if len(noisy) > len(pieces):
            raise DataError(f"noise made {len(noisy)} ids of {len(pieces)}, and the batch has no room for more")
        return torch.tensor([*prefix, *noisy, *suffix], dtype=torch.int64)

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


#: What is known of a piece, as bits: it has been looked up; a space comes before it, behind a whole word; a space comes
#: behind it, before one; it is nothing but quotes and brackets that close, or spaces; it ends in a full stop, with or
#: without those; it is a part of a character.
_KNOWN, _BEGINS, _ENDS, _CLOSES, _STOPS, _BROKEN = (1 << bit for bit in range(6))


class WordFinder:
    """Where words and sentences are divided in the pieces of a tokenizer: where its own decoder writes a space.

    Args:
        tokenizer: its pieces are looked up as they are met.

    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._whole = _whole_word(tokenizer)
        self._pieces = bytearray(tokenizer.size)  # a byte of bits for each, which a text costs one look a piece

    def split(self, ids: list[int], language: str | None = None) -> list[Word]:
        """Return the words of a text's pieces.

        Args:
            ids: (L,) pieces, without symbols.
            language: its code, if it is known; in those without spaces, each piece is a word.

        """
        pieces = [self._pieces[id] or self._look_up(id) for id in ids]
        pairs = enumerate(pairwise(pieces), start=1)
        if language is not None and not languages.spaced(language):
            bounds = [n for n, (before, piece) in pairs if not before & piece & _BROKEN]
        else:
            bounds = [n for n, (before, piece) in pairs if piece & _BEGINS and before & _ENDS]
        return [ids[start:end] for start, end in zip([0, *bounds], [*bounds, len(ids)], strict=True)] if ids else []

    def sentences(self, words: list[Word]) -> list[list[Word]]:
        """Return the words of each sentence. It ends with a word that ends in a full stop, abbreviations too.

        Quotes and brackets that stand alone behind it belong to it.
        """
        found: list[list[Word]] = [[]]
        stopped = False
        for word in words:
            last = self._pieces[word[-1]] or self._look_up(word[-1])
            if last & _CLOSES:
                last = self._last(word)
            if stopped and last:
                found.append([])
            found[-1].append(word)
            if last:
                stopped = bool(last & _STOPS)
        return found if words else []

    def _last(self, word: Word) -> int:
        """Return what is known of the last piece that does not merely close something, or 0."""
        pieces = (self._pieces[id] or self._look_up(id) for id in reversed(word))
        return next((piece for piece in pieces if not piece & _CLOSES), 0)

    def _look_up(self, id: int) -> int:
        word, text = self._whole
        written = self._tokenizer.decode([*word, id, *word]).strip()
        between = written[len(text) : len(written) - len(text)]
        inside = between.strip()
        found = {
            _KNOWN: True,
            _BEGINS: not word or between[:1].isspace(),
            _ENDS: not word or between[-1:].isspace(),
            _CLOSES: not inside.strip(_CLOSING) and id != self._tokenizer.unk,
            _STOPS: inside.rstrip(_CLOSING).endswith(_FULL_STOPS),
            _BROKEN: bool(inside) and not inside.strip("\ufffd"),
        }
        self._pieces[id] = sum(bit for bit, holds in found.items() if holds)
        return self._pieces[id]


def _whole_word(tokenizer: Tokenizer) -> tuple[list[int], str]:
    """Return the ids and the text of some word that has a space on either side; nothing if there is none."""
    for id in range(tokenizer.size):
        text = tokenizer.decode([id]).strip()
        if text.isalpha():
            word = tokenizer.encode(f" {text}")
            if tokenizer.decode([*word, *word]).strip() == f"{text} {text}":
                return word, text
    return [], ""


_FINDERS: dict[str, WordFinder] = {}


def words_of(tokenizer: Tokenizer) -> WordFinder:
    """Return what finds a tokenizer's words, which is kept."""
    if tokenizer.fingerprint not in _FINDERS:
        _FINDERS[tokenizer.fingerprint] = WordFinder(tokenizer)
    return _FINDERS[tokenizer.fingerprint]
