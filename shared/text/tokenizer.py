"""Tokenizers: text to ids and back, with specials and tags outside the pieces.

Text is only ever turned into pieces: a user who types ``<de>`` or ``</s>`` gets the pieces of those characters, never
the symbol. Here ids are laid out as ``[0, P)`` pieces of the model, then the specials, then the tags; tokenizers that
others trained (dragoman/exchange/vocabularies/vocabulary.py) keep the ids that their checkpoints know.

There is no subword regularisation: what SentencePiece samples differs from process to process, however its generator
is seeded, and a random choice here has to be a function of (seed, epoch, row id, field).
"""

from __future__ import annotations

import copy
import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from dragoman.shared.described import Described
from dragoman.shared.errors import DataError, UsageError, shortened
from dragoman.shared.text import languages
from dragoman.shared.text.piece_file import located_pieces, read_piece_file
from dragoman.shared.text.surrogates import find_surrogate

SPECIALS = ("<pad>", "<s>", "</s>", "<unk>", "<mask>", "<sep>", "<blank>")

#: How many texts are tokenised at a time when lengths are counted.
_CHUNK = 16384


class Tokenizer(Protocol):
    """The interface of a tokenizer, as the corpus, the models and the search use it.

    Attributes:
        pad: id of ``<pad>``.
        bos: id of ``<s>``.
        eos: id of ``</s>``.
        unk: id of ``<unk>``.
        mask: id of ``<mask>``.
        sep: id of ``<sep>``.
        blank: id of ``<blank>`` (of CTC).
        fingerprint: hash of all that decides which ids a text gets.
    """

    pad: int
    bos: int
    eos: int
    unk: int
    mask: int
    sep: int
    blank: int
    fingerprint: str

    @property
    def size(self) -> int:
        """Number of ids, V: pieces, specials and tags."""
        ...

    @property
    def symbols(self) -> list[str]:
        """The specials and tags, by name."""
        ...

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text: pieces and ``<unk>`` only."""
        ...

    def lengths(self, texts: Sequence[str]) -> np.ndarray:
        """Return the number of ids of each text, int64."""
        ...

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of ids; specials and tags are left out, and one outside the vocabulary is a ValueError."""
        ...

    def id(self, symbol: str) -> int:
        """Return the id of a special or tag; an unknown one is a DataError, with the known ones."""
        ...

    def symbol(self, id: int) -> str:
        """Return the piece, special or tag with this id; one outside the vocabulary is a ValueError."""
        ...


class Locating(Tokenizer, Protocol):
    """A tokenizer that says where in a text its pieces are."""

    def located(self, text: str) -> tuple[list[int], np.ndarray]:
        """Return what :meth:`encode` does, and from which to which character of the text each id stands, (L, 2) int64.

        Pieces of one character all have it; what stands for none begins where it ends. Spaces may belong to a piece.
        """
        ...


@runtime_checkable
class ByLanguage(Protocol):
    """A tokenizer that divides texts of some languages in a way of their own."""

    def for_language(self, language: str | None) -> Tokenizer:
        """Return what divides texts of a language into the same ids."""
        ...


def for_language(tokenizer: Tokenizer, language: str | None) -> Tokenizer:
    """Return what divides texts of a language, for most tokenizers the tokenizer itself."""
    choose = getattr(tokenizer, "for_language", None)  # asked for each text: isinstance takes as long as dividing it
    return tokenizer if choose is None else choose(language)


def with_inner(outer: Any, inner: Tokenizer) -> Any:
    """Return a tokenizer around another one, ``outer.tokenizer``, with one of the same ids in its place."""
    if inner is outer.tokenizer:
        return outer
    changed = copy.copy(outer)
    changed.tokenizer = inner
    return changed


class Special:
    """An attribute that is the id of a special symbol, for tokenizers that may lack it."""

    def __init__(self, symbol: str) -> None:
        self.symbol = symbol

    def __get__(self, owner: Any, kind: type | None = None) -> int:
        """Return the id.

        Raises:
            DataError: if the tokenizer has no such symbol.
        """
        return owner.id(self.symbol)


class Specials:
    """The ids of special symbols; one that a tokenizer lacks is a DataError when it is asked for."""

    pad, bos, eos, unk, mask, sep, blank = map(Special, SPECIALS)


class Symbols:
    """The ids behind the pieces: specials and tags. A tokenizer inherits it and calls ``_lay_out``.

    A tag is given as a language code (``de`` becomes ``<de>``) or as it is to be written (``<bt>``).
    """

    _pieces: int
    _symbols: list[str]
    _ids: dict[str, int]

    def _lay_out(self, pieces: int, tags: Sequence[str]) -> None:
        if isinstance(tags, str):
            raise UsageError(f"tags must be a list of language codes or symbols, not {tags!r}")
        symbols = [*SPECIALS, *(t if re.fullmatch(r"<\S+>", t) else languages.tag(t) for t in tags)]
        twice = sorted(symbol for symbol, count in Counter(symbols).items() if count > 1)
        if twice:
            raise UsageError(f"tags must be given once and must not be specials: {shortened(', '.join(twice), 200)}")
        self._pieces = pieces
        self._symbols = symbols
        self._ids = {symbol: pieces + number for number, symbol in enumerate(symbols)}
        self.pad, self.bos, self.eos, self.unk, self.mask, self.sep, self.blank = (self._ids[s] for s in SPECIALS)

    @property
    def size(self) -> int:
        """Number of ids: pieces, specials and tags."""
        return self._pieces + len(self._symbols)

    @property
    def pieces(self) -> int:
        """Number of pieces, P."""
        return self._pieces

    @property
    def symbols(self) -> list[str]:
        """The specials and tags, by name."""
        return list(self._symbols)

    def id(self, symbol: str) -> int:
        """Return the id of a special or tag; an unknown one is a DataError."""
        if symbol not in self._ids:
            raise DataError(f"the tokenizer has no symbol {symbol!r}, only {' '.join(self._symbols)}")
        return self._ids[symbol]


class SentencePieceTokenizer(Described, Symbols):
    """A SentencePiece model with specials and tags behind its pieces.

    The model's own control symbols and its unknown piece have no id here (``[0, P)`` holds what text can become, in the
    model's order), so that models trained elsewhere, with ``<s>`` and ``</s>`` among their pieces, serve as well.

    Args:
        model: path of the ``.model`` file.
        tags: language codes, or other symbols in angle brackets, in the order of their ids.

    Raises:
        DataError: if the file is missing or not a SentencePiece model, or a code is unknown.
        UsageError: if a tag is given twice or is a special.
    """

    asset_arguments = ("model",)

    def __init__(self, *, model: str, tags: list[str]) -> None:
        content, self._processor, self._prepared = read_piece_file(Path(model))
        inner = range(self._processor.get_piece_size())
        p = self._processor
        live = [i for i in inner if not (p.is_control(i) or p.is_unknown(i) or p.is_unused(i))]
        self._lay_out(len(live), tags)
        self._to_inner = live
        self._to_outer = [self.unk] * len(inner)
        for outer, i in enumerate(live):
            self._to_outer[i] = outer
        parts = (content, *(symbol.encode() for symbol in self._symbols))
        self.fingerprint = hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text: pieces, and ``<unk>`` where the model has neither piece nor bytes.

        Raises:
            DataError: for text that is not valid Unicode (lone surrogates).
        """
        try:
            return [self._to_outer[i] for i in self._processor.encode(self._prepared(text))]
        except RuntimeError as error:
            raise refusal(text) from error

    def located(self, text: str) -> tuple[list[int], np.ndarray]:
        """Return the ids of a text, and where in it they stand; see :class:`Locating`.

        Raises:
            DataError: for text that is not valid Unicode.
        """
        if find_surrogate(text):
            raise refusal(text)
        pieces, places = located_pieces(self._processor, self._prepared, text)
        return [self._to_outer[piece.id] for piece in pieces], places

    def lengths(self, texts: Sequence[str]) -> np.ndarray:
        """Return the number of ids of each text, (texts,) int64; uses all processor cores.

        Raises:
            DataError: for text that is not valid Unicode.
        """
        result = np.empty(len(texts), dtype=np.int64)
        for start in range(0, len(texts), _CHUNK):
            part = list(texts[start : start + _CHUNK])
            try:
                encoded = self._processor.encode([*map(self._prepared, part)])
            except (RuntimeError, TypeError) as error:
                raise next(map(refusal, filter(find_surrogate, part)), error) from error
            result[start : start + len(part)] = [len(ids) for ids in encoded]
        return result

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of ids; specials and tags are left out, bytes that are not UTF-8 become U+FFFD."""
        inner = []
        for id in ids:
            id = int(id)
            if not 0 <= id < self.size:
                raise ValueError(f"id {id} is outside the vocabulary of {self.size}")
            if id < self._pieces:
                inner.append(self._to_inner[id])
        return self._processor.decode(inner)

    def symbol(self, id: int) -> str:
        """Return the piece (``▁`` stands for a space), special or tag with this id."""
        if not 0 <= id < self.size:
            raise ValueError(f"id {id} is outside the vocabulary of {self.size}")
        return (
            self._processor.id_to_piece(self._to_inner[id]) if id < self._pieces else self._symbols[id - self._pieces]
        )


def refusal(text: str) -> DataError:
    """Return the error for a text that SentencePiece does not accept."""
    return DataError(f"{'not valid Unicode' if find_surrogate(text) else 'cannot be tokenised'}: {text!r}")
