"""A tokenizer with further symbols, for models that others trained without any for languages."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from dragoman.shared.described import Described
from dragoman.shared.errors import DataError, UsageError, shortened
from dragoman.shared.text import languages
from dragoman.shared.text.tokenizer import Specials, Tokenizer, for_language, with_inner


class TaggedTokenizer(Described, Specials):
    """A tokenizer with symbols behind all ids of another one, whose own ids stay as they are.

    So vectors of the other's ids are the first rows of a table here; :func:`extends` tells whether that is so.

    Args:
        tokenizer: the other.
        tags: language codes (``de`` becomes ``<de>``) or symbols in angle brackets, in the order of their ids.

    Raises:
        DataError: for an unknown language code.
        UsageError: if there is no tag, one is given twice, or the other has it.
    """

    def __init__(self, *, tokenizer: Tokenizer, tags: list[str]) -> None:
        if isinstance(tags, str) or not tags:
            raise UsageError(f"tags must be a list of language codes or symbols, not {tags!r}")
        symbols = [tag if re.fullmatch(r"<\S+>", tag) else languages.tag(tag) for tag in tags]
        counts = Counter([*{*tokenizer.symbols}, *symbols])
        twice = sorted({symbol for symbol in symbols if counts[symbol] > 1})
        if twice:
            given = shortened(", ".join(twice), 200)
            raise UsageError(f"tags must be given once, and be new to the tokenizer: {given}")
        self.tokenizer = tokenizer
        self._tags = symbols
        self._numbers = {symbol: tokenizer.size + number for number, symbol in enumerate(symbols)}
        parts = (tokenizer.fingerprint, *symbols)
        self.fingerprint = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]

    @property
    def symbols(self) -> list[str]:
        """The specials and tags, by name."""
        return [*self.tokenizer.symbols, *self._tags]

    @property
    def size(self) -> int:
        """Number of ids."""
        return self.tokenizer.size + len(self._tags)

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text, none of which is a tag's."""
        return self.tokenizer.encode(text)

    def for_language(self, language: str | None) -> Tokenizer:
        """See :class:`~dragoman.shared.text.tokenizer.ByLanguage`."""
        return with_inner(self, for_language(self.tokenizer, language))

    def lengths(self, texts: Sequence[str]) -> np.ndarray:
        """Return the number of ids of each text, (texts,) int64."""
        return self.tokenizer.lengths(texts)

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of ids; specials and tags are left out."""
        behind = {*self._numbers.values()}
        return self.tokenizer.decode([id for id in map(int, ids) if id not in behind])

    def id(self, symbol: str) -> int:
        """Return the id of a special or tag."""
        if symbol in self._numbers:
            return self._numbers[symbol]
        if symbol not in self.tokenizer.symbols:
            raise DataError(f"the tokenizer has no symbol {symbol!r}, only {' '.join(self.symbols)}")
        return self.tokenizer.id(symbol)

    def symbol(self, id: int) -> str:
        """Return the piece, special or tag with this id."""
        if not 0 <= id < self.size:
            raise ValueError(f"id {id} is outside the vocabulary of {self.size}")
        return self.tokenizer.symbol(id) if id < self.tokenizer.size else self._tags[id - self.tokenizer.size]


def extends(longer: Tokenizer, shorter: Tokenizer) -> bool:
    """Tell whether a tokenizer is another one with symbols behind its ids."""
    return isinstance(longer, TaggedTokenizer) and longer.tokenizer.fingerprint == shorter.fingerprint
