"""A tokenizer with further pieces, into which texts of some languages are divided, and texts of all others are not."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

import numpy as np

from dragoman.shared.described import Described
from dragoman.shared.errors import UsageError
from dragoman.shared.text import languages as codes
from dragoman.shared.text.tokenizer import Specials, Tokenizer, for_language, with_inner


class ExtendedTokenizer(Described, Specials):
    """A tokenizer, and another one with its ids and more, which texts of some languages are divided by.

    So a text of any other language has the ids that it always had, whatever pieces were added: none of the new ones is
    ever tried on it. Where no language is known (``encode``), a text is divided as before.

    Args:
        tokenizer: what divides texts of all other languages.
        extended: what divides texts of those languages; its symbols have the ids that they have in the other.
        languages: their codes.

    Raises:
        DataError: for an unknown language code.
        UsageError: if there is no language, or the second is not the first with more symbols.
    """

    def __init__(self, *, tokenizer: Tokenizer, extended: Tokenizer, languages: list[str]) -> None:
        if isinstance(languages, str) or not languages:
            raise UsageError(f"languages must be a list of language codes, not {languages!r}")
        self.languages = [codes.check(code) for code in languages]
        known = {*extended.symbols}
        moved = [name for name in tokenizer.symbols if name not in known or extended.id(name) != tokenizer.id(name)]
        if extended.size < tokenizer.size or moved:
            said = f"not those of {' '.join(moved)}" if moved else f"{extended.size} are fewer than {tokenizer.size}"
            raise UsageError(f"a tokenizer can only be extended by one that keeps its ids: {said}")
        self.tokenizer = tokenizer
        self.extended = extended
        old = tokenizer.size
        self._new = {id for id in range(extended.size) if id >= old or tokenizer.symbol(id) != extended.symbol(id)}
        parts = (tokenizer.fingerprint, extended.fingerprint, *languages)
        self.fingerprint = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]

    @property
    def symbols(self) -> list[str]:
        """The specials and tags, by name."""
        return self.extended.symbols

    @property
    def size(self) -> int:
        """Number of ids."""
        return self.extended.size

    def for_language(self, language: str | None) -> Tokenizer:
        """See :class:`~dragoman.shared.text.tokenizer.ByLanguage`."""
        if language in self.languages:
            return self.extended
        return with_inner(self, for_language(self.tokenizer, language))

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text in one of the other languages."""
        return self.tokenizer.encode(text)

    def lengths(self, texts: Sequence[str]) -> np.ndarray:
        """Return the number of ids of each text in one of the other languages, (texts,) int64."""
        return self.tokenizer.lengths(texts)

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of ids, in any language; specials and tags are left out."""
        numbers = [int(id) for id in ids]
        return (self.tokenizer if self._new.isdisjoint(numbers) else self.extended).decode(numbers)

    def id(self, symbol: str) -> int:
        """Return the id of a special or tag."""
        return self.extended.id(symbol)

    def symbol(self, id: int) -> str:
        """Return the piece, special or tag with this id."""
        return self.extended.symbol(id)
