"""Vocabularies with the ids of somebody else's checkpoint, in whatever order they stand there.

A :class:`VocabularyTokenizer` is a segmenter (text to pieces, see segmenters.py) and a list of symbols.
Specials and tags are rows of that list, too, but text never becomes one of them: what a user types is pieces.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dragoman.exchange.vocabularies.segmenters import Segmenter, SentencePieces
from dragoman.shared.described import Described
from dragoman.shared.errors import DataError, UsageError, shortened
from dragoman.shared.machine.nesting import from_json
from dragoman.shared.text.tokenizer import Specials

#: The first rows of fairseq's dictionaries, which ``dict.txt`` leaves out.
FIRST = ("<s>", "<pad>", "</s>", "<unk>")
OVERWRITE = " #fairseq:overwrite"  # behind a line of dict.txt whose symbol stood there before


class ForeignSymbols(Specials):
    """Rows of a foreign vocabulary, some of which are known by a name of ours. A tokenizer calls ``_name``."""

    _rows: list[str]
    _ids: dict[str, int]

    def _name(self, rows: list[str], symbols: Mapping[str, str], source: str) -> None:
        """Take rows, and names for some of them: ``symbols`` holds ours, with theirs as values.

        Raises:
            DataError: if a row occurs twice or a symbol has no row.
        """
        numbers: dict[str, int] = {}
        for number, row in enumerate(rows):
            if numbers.setdefault(row, number) != number:
                raise DataError(f"{source}: {row!r} is both symbol {numbers[row]} and symbol {number}")
        for ours, theirs in symbols.items():
            if theirs not in numbers:
                raise DataError(f"{source}: has no symbol {theirs!r} (which would be {ours})")
        self._rows = rows
        self._ids = {ours: numbers[theirs] for ours, theirs in symbols.items()}
        for needed in ("<pad>", "</s>", "<unk>"):
            if needed not in self._ids:
                raise UsageError(f"{source}: the symbols {dict(symbols)} do not say which one is {needed}")

    @property
    def size(self) -> int:
        """Number of ids, V: those of the checkpoint."""
        return len(self._rows)

    @property
    def symbols(self) -> list[str]:
        """The specials and tags, by our name."""
        return list(self._ids)

    def id(self, symbol: str) -> int:
        """Return the id of a special or tag.

        Raises:
            DataError: for an unknown symbol, with the known ones.
        """
        if symbol not in self._ids:
            symbols = shortened(" ".join(self._ids), 1000)
            raise DataError(f"the tokenizer has no symbol {shortened(repr(symbol))}, only {symbols}")
        return self._ids[symbol]

    def symbol(self, id: int) -> str:
        """Return what stands at this id in the foreign vocabulary.

        Raises:
            ValueError: for an id outside the vocabulary.
        """
        if not 0 <= id < self.size:
            raise ValueError(f"id {id} is outside the vocabulary of {self.size}")
        return self._rows[id]

    def _checked(self, ids: Iterable[int]) -> list[int]:
        """Return ids as integers, all of which are inside the vocabulary."""
        numbers = [int(id) for id in ids]
        for number in numbers:
            self.symbol(number)
        return numbers


class VocabularyTokenizer(Described, ForeignSymbols):
    """Pieces of a segmenter, numbered by a vocabulary file.

    Args:
        segmenter: from text to pieces and back, see segmenters.py.
        vocabulary: path of fairseq's ``dict.txt`` (its four first symbols are added), or of a JSON file with all
            symbols in order, or with the number of each (``vocab.json``). None for fairseq's first four and behind them
            the pieces of a SentencePiece model as they stand there (XLM-R, mBART).
        added: further rows behind those of the file: ``["[ar_AR]", ..., "<mask>"]``. Text never becomes one of them.
        symbols: the specials and tags, by our name: ``{"</s>": "</s>", "<de>": "[de_DE]", ...}``; at least ``<pad>``,
            ``</s>`` and ``<unk>``. Default: fairseq's first four under the names that they have.
        pieces: those of the symbols, by our name, that are also ordinary pieces, which stand for text.

    Raises:
        DataError: if the file is missing or not a vocabulary, or a symbol is not in it.
        UsageError: if a needed symbol is not named.
    """

    asset_arguments = ("vocabulary",)

    def __init__(
        self,
        *,
        segmenter: Segmenter,
        vocabulary: str | None = None,
        added: list[str] | None = None,
        symbols: dict[str, str] | None = None,
        pieces: list[str] | None = None,
    ) -> None:
        added = list(added or [])
        symbols = {name: name for name in FIRST} if symbols is None else dict(symbols)
        if vocabulary is not None:
            rows, source = read_vocabulary(Path(vocabulary)), vocabulary
        elif isinstance(segmenter, SentencePieces):
            rows, source = [*FIRST, *segmenter.pieces()], segmenter.arguments["model"]
        else:
            raise UsageError("a vocabulary file must be given, except for the pieces of a SentencePiece model")
        self._name([*rows, *added], symbols, source)
        self.segmenter = segmenter
        special = (id for name, id in self._ids.items() if name not in (pieces or []))
        self._outside = {*special, *range(self.size - len(added), self.size)}
        self._numbers = {row: number for number, row in enumerate(self._rows) if number not in self._outside}
        parts = json.dumps([segmenter.fingerprint, self._rows, symbols, added, *([pieces] if pieces else [])])
        self.fingerprint = hashlib.sha256(parts.encode()).hexdigest()[:16]

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text: pieces, and ``<unk>`` for those that the vocabulary lacks.

        Raises:
            DataError: for text that is not valid Unicode.
        """
        return self._ids_of(self.segmenter.split(text))

    def located(self, text: str) -> tuple[list[int], np.ndarray]:
        """Return the ids of a text, and where in it they stand; see ``Locating`` in shared/text/tokenizer.py.

        Raises:
            DataError: for text that is not valid Unicode.
            UsageError: if the segmenter does not say where its pieces are.
        """
        if not isinstance(self.segmenter, SentencePieces):
            raise UsageError(f"{type(self.segmenter).__name__} does not say where in a text its pieces are")
        pieces, places = self.segmenter.located(text)
        return self._ids_of(pieces), places

    def lengths(self, texts: Sequence[str]) -> np.ndarray:
        """Return the number of ids of each text, (texts,) int64.

        Raises:
            DataError: for text that is not valid Unicode.
        """
        return np.fromiter((len(self.segmenter.split(text)) for text in texts), dtype=np.int64, count=len(texts))

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of ids; specials and tags are left out.

        Raises:
            ValueError: for an id outside the vocabulary.
        """
        return self.segmenter.join([self._rows[id] for id in self._checked(ids) if id not in self._outside])

    def _ids_of(self, pieces: list[str]) -> list[int]:
        unknown = self.unk
        return [self._numbers.get(piece, unknown) for piece in pieces]


def read_vocabulary(path: Path) -> list[str]:
    """Return the symbols of a vocabulary file in the order of their ids.

    Raises:
        DataError: naming the file, and the line if there are any.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise DataError(f"{path}: no such vocabulary") from error
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read ({error})") from error
    if path.suffix != ".json":
        return [*FIRST, *_dictionary(text, path)]
    try:
        content = from_json(text)
    except json.JSONDecodeError as error:
        raise DataError(f"{path}: line {error.lineno} is not JSON") from error
    except ValueError as error:
        raise DataError(f"{path}: cannot be read ({error})") from error
    if isinstance(content, list) and all(isinstance(row, str) for row in content):
        return content
    if not isinstance(content, dict) or sorted(map(_number, content.values())) != list(range(len(content))):
        raise DataError(f"{path}: must be a list of symbols, or number its {len(content)} symbols from 0 without a gap")
    return sorted(content, key=lambda row: content[row])


def _number(value: Any) -> int:
    return value if type(value) is int else -1


def _dictionary(text: str, path: Path) -> list[str]:
    """Read fairseq's ``symbol count`` lines, the symbol being all before the last space."""
    rows: list[str] = []
    places: dict[str, int] = {}
    for number, line in enumerate(text.removesuffix("\n").split("\n"), start=1):
        plain = line.rstrip().removesuffix(OVERWRITE)
        symbol, space, count = plain.rpartition(" ")
        if not space or not count.lstrip("-").isdigit():
            raise DataError(f"{path}: line {number} is not 'symbol count': {line[:60]!r}")
        if plain != line.rstrip() and symbol in places:
            rows[places[symbol]] += " (overwritten)"  # nothing becomes it any more: pieces have no spaces
        places[symbol] = len(rows)
        rows.append(symbol)
    return rows
