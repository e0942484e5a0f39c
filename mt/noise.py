"""Noise on text: a model reads changed words, and learns to write them as they were, or to live with such texts.

A ``Rewriting`` (rewriting.py) changes the text itself, before it is tokenised; a ``Noise`` changes the ids.

A word is the ids of its pieces. Words are divided where the tokenizer's decoder writes a space between pieces, whatever
marks it has for that (``▁low er``, ``low@@ er``, ``low ##er``, ``Ġlow er``); in languages without spaces, each piece is
a word.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain, pairwise
from typing import Annotated, Protocol

import numpy as np
import torch
from torch import Tensor

from dragoman.shared.annotations import Checked
from dragoman.shared.batches.fields import TextField
from dragoman.shared.batches.growing_text import GrowingText
from dragoman.shared.batches.manifest import Row
from dragoman.shared.batches.rewriting import Rewriting, growth_of, rewritten
from dragoman.shared.errors import DataError
from dragoman.shared.ranges import Range, Share
from dragoman.shared.text import languages
from dragoman.shared.text.tokenizer import Tokenizer
from dragoman.shared.text.word_spans import CLOSING, FULL_STOPS

Word = list[int]


class Noise(Protocol):
    """A change to the words of a text. None makes a text longer, in ids: budgets are for the text without noise."""

    def __call__(self, words: list[Word], rng: np.random.Generator) -> list[Word]:
        """Return the changed words; all randomness comes from ``rng``."""
        ...


class NoisyText(GrowingText):
    """A text that is changed each time that it is read; the symbols around it stay.

    Args:
        field: the text as it is.
        noise: changes to its words, in this order.
        rewriting: a change to the text itself, before that; None leaves it as it is.
        unchanged_only: change the words of those texts alone that the rewriting has left as they are.
    """

    def __init__(
        self,
        *,
        field: TextField,
        noise: list[Noise] | None = None,
        rewriting: Rewriting | None = None,
        unchanged_only: bool = False,
    ) -> None:
        super().__init__(field=field, growth=growth_of(rewriting))
        self.noise = list(noise or [])
        self.rewriting = rewriting
        self.unchanged_only = unchanged_only

    def __call__(self, row: Row, rng: np.random.Generator) -> Tensor:
        """Return (L,) int64.

        Raises:
            DataError: if the row has no text, or no language where a symbol needs it, or noise has made it longer.
        """
        prefix, pieces, suffix = rewritten(self.field, self.rewriting, row, rng)
        if not self.noise or (self.unchanged_only and pieces != self.field.pieces(row)):
            return _tensor(prefix, pieces, suffix)
        words = words_of(self.field.tokenizer).split(pieces, row.get(self.field.language_column))
        for noise in self.noise:
            words = [word for word in noise(words, rng) if word]
        noisy = list(chain.from_iterable(words))
        if len(noisy) > len(pieces):
            raise DataError(f"noise made {len(noisy)} ids of {len(pieces)}, and the batch has no room for more")
        return _tensor(prefix, noisy, suffix)

    def load(self) -> None:
        """Read what the rewriting needs."""
        if self.rewriting is not None:
            self.rewriting.load()


def _tensor(*parts: list[int]) -> Tensor:
    """Return the ids of parts, one after another, (L,) int64; torch reads a list more slowly than numpy does."""
    return torch.from_numpy(np.array([*chain.from_iterable(parts)], dtype=np.int64))


def share_of(count: int, share: float) -> int:
    """Return how many of ``count`` things are a share of them, rounded up."""
    return math.ceil(share * count - 1e-9)  # 0.07 * 100 is a little more than 7


class SpanDraw(Checked):
    """Draws spans that cover a share of a text's words, as in BART's infilling (Lewis et al. 2020, section 2.2).

    Lengths are drawn from a Poisson distribution until they cover the share; the last one is cut to fit. Spans do not
    overlap, and every way to place them is equally likely. Some have no words.

    Args:
        share: of the words in spans, rounded up.
        mean_length: of spans, in words, before the last is cut.
    """

    def __init__(self, *, share: Share, mean_length: Annotated[float, Range(least=0.1)]) -> None:
        self.share = share
        self.mean_length = mean_length

    def __call__(self, count: int, rng: np.random.Generator) -> list[tuple[int, int]]:
        """Return where spans begin and end among ``count`` words, in order; all randomness comes from ``rng``."""
        wanted = share_of(count, self.share)
        if not wanted:
            return []
        lengths = _span_lengths(wanted, mean=self.mean_length, rng=rng)
        begins = _place_spans(lengths, count, rng)
        return [(begin, begin + length) for begin, length in zip(begins, lengths, strict=True)]


def _span_lengths(wanted: int, *, mean: float, rng: np.random.Generator) -> list[int]:
    """Draw the lengths of spans, which add up to ``wanted``, from a Poisson distribution, in a random order.

    The last that is drawn is cut to fit. Spans of no words are left out as far as there would be more spans than words.
    """
    lengths = rng.poisson(mean, wanted)
    while lengths.sum() < wanted:
        lengths = np.concatenate([lengths, rng.poisson(mean, wanted)])
    covered = np.cumsum(lengths)
    last = int(np.searchsorted(covered, wanted))
    spans = lengths[: last + 1].tolist()
    spans[-1] -= int(covered[last]) - wanted
    surplus = len(spans) - wanted
    for _ in range(surplus):
        spans.remove(0)
    return rng.permutation(spans).tolist()  # or the one that was cut would always be the last


def _place_spans(spans: Sequence[int], count: int, rng: np.random.Generator) -> list[int]:
    """Draw where spans begin among ``count`` words, in order; none overlap, and all ways are equally likely."""
    # In a row of kept words and spans, a span is one place: spans at different places cannot overlap.
    places = rng.choice(count - sum(spans) + len(spans), len(spans), replace=False, shuffle=False)
    begins, before = [], 0
    for number, (place, span) in enumerate(zip(np.sort(places).tolist(), spans, strict=True)):
        begins.append(place - number + before)
        before += span
    return begins


#: What is known of a piece, as bits: it has been looked up; a space comes before it, behind a whole word; a space comes
#: behind it, before one; it is nothing but full stops, and quotes and brackets that close; it ends in a full stop, with
#: or without those; it is a part of a character; it is a space and nothing else.
_KNOWN, _SPACE_BEFORE, _SPACE_BEHIND, _TRAILS, _STOPS, _BROKEN, _BLANK = (1 << bit for bit in range(7))


class WordFinder:
    """The divisions between words and sentences in the pieces of a tokenizer: where its own decoder writes a space.

    An unknown piece is a word. If the decoder writes no spaces between pieces at all, each piece is one.

    Args:
        tokenizer: its pieces are looked up as they are met.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._whole = _whole_word(tokenizer)
        self._symbols = {tokenizer.id(symbol) for symbol in tokenizer.symbols}
        self._pieces = bytearray(tokenizer.size)  # the bits of each, so that a text costs one look a piece

    def split(self, ids: list[int], language: str | None = None) -> list[Word]:
        """Return the words of pieces (L,) without symbols; each piece is one in a language without spaces."""
        if not ids:
            return []
        pieces = [self._pieces[id] or self._look_up(id) for id in ids]
        if language is None or languages.spaced(language):
            pairs = enumerate(pairwise(pieces), start=1)
            bounds = [n for n, (before, piece) in pairs if piece & _SPACE_BEFORE and before & _SPACE_BEHIND]
        else:
            bounds = self._bounds_without_spaces(ids, pieces)
        return [ids[start:end] for start, end in pairwise([0, *bounds, len(ids)])]

    def _bounds_without_spaces(self, ids: list[int], pieces: list[int]) -> list[int]:
        """Return where a piece begins a word: not inside of a character, nor behind the space that begins a text."""
        bounds: list[int] = []
        for n, (before, piece) in enumerate(pairwise(pieces), start=1):
            start = bounds[-1] if bounds else 0
            if before & piece & _BROKEN and "\ufffd" in self._tokenizer.decode(ids[start:n]):
                continue
            if not before & _BLANK:
                bounds.append(n)
        return bounds

    def sentences(self, words: list[Word]) -> list[list[Word]]:
        """Return the words of each sentence. It ends with a word that ends in a full stop, abbreviations too.

        Further full stops, quotes and brackets that stand alone behind it belong to it (opening ones as well, if there
        are languages that close with them).
        """
        divided: list[list[Word]] = [[]]
        stopped = False
        for word in words:
            trails, stops = self._tail(word)
            if stopped and not trails:
                divided.append([])
            divided[-1].append(word)
            stopped = stops or (stopped and trails)
        return divided if words else []

    def _tail(self, word: Word) -> tuple[bool, bool]:
        """Tell whether a word is nothing but full stops and what closes, and whether there is one at its end."""
        stops = 0
        for id in reversed(word):
            piece = self._pieces[id] or self._look_up(id)
            if piece & _BROKEN:  # a sign that is spelled in bytes
                return _tail_of(self._tokenizer.decode(word).strip())
            stops |= piece & _STOPS
            if not piece & (_TRAILS | _BLANK):
                return False, bool(stops)
        return True, bool(stops)

    def _look_up(self, id: int) -> int:
        word, text = self._whole
        written = self._tokenizer.decode([*word, id, *word]).strip()
        between = written[len(text) : len(written) - len(text)]
        inside = between.strip()
        trails, stops = _tail_of(inside)
        looks = {
            _KNOWN: True,
            _SPACE_BEFORE: not word or between[:1].isspace(),
            _SPACE_BEHIND: not word or between[-1:].isspace(),
            _TRAILS: trails,
            _STOPS: stops,
            _BROKEN: bool(inside) and not inside.strip("\ufffd"),
            _BLANK: not inside and id not in self._symbols,
        }
        self._pieces[id] = sum(bit for bit, holds in looks.items() if holds)
        return self._pieces[id]


def _tail_of(text: str) -> tuple[bool, bool]:
    """Tell whether a text is nothing but full stops and what closes, and whether there is one at its end."""
    trails = bool(text) and not text.strip(CLOSING + FULL_STOPS)
    return trails, text.rstrip(CLOSING).endswith(tuple(FULL_STOPS))


def _whole_word(tokenizer: Tokenizer) -> tuple[list[int], str]:
    """Return the ids and the text of some word that has a space on either side; nothing if there is none."""
    for id in range(tokenizer.size):
        text = tokenizer.decode([id]).strip()
        if text.isalnum():
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
