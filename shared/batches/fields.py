"""Fields turn a row of a manifest into a tensor; those of text, into ids (those of recordings: speech_field.py).

Legend: L tokens.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from dragoman.shared.batches.lengths import kept_counts
from dragoman.shared.batches.manifest import Manifest, Row
from dragoman.shared.described import Described, describe
from dragoman.shared.errors import DataError, UsageError
from dragoman.shared.ranges import PositiveInt
from dragoman.shared.text.normalise import Normalizer, apply
from dragoman.shared.text.tokenizer import ByLanguage, Tokenizer, for_language

#: What batching and evaluation read from: a manifest, or rows made on the spot.
Rows = Manifest | Sequence[Row]


class Field(Protocol):
    """Turns rows into tensors, and says beforehand how long they can become.

    Attributes:
        unit: what its lengths count and which budget they fall under: "tokens", "samples", or "elements", which none
            counts: what annotates another field, and grows with it.
        padding: the value behind the end of shorter rows.
        overhead: the length of a row without content (the symbols around a text).
    """

    unit: str
    padding: float
    overhead: int

    def __call__(self, row: Row, rng: np.random.Generator) -> Tensor | dict[str, Tensor]:
        """Return the row's tensor (length, ...); all randomness comes from ``rng``.

        A field that makes several tensors of one draw returns them by key, none that a model reads longer than
        ``length`` says, and the same keys for every row: key "" becomes the batch field ``<name>``, another key
        ``<name>.<key>``.
        """
        ...

    def length(self, row: Row) -> int:
        """Return the greatest length that the row's tensor can have."""
        ...

    def lengths(self, rows: Rows, folder: Path | None = None) -> np.ndarray:
        """Return the lengths of all rows, integers, -1 where one lacks what is needed; ``folder`` may keep counts."""
        ...

    def evaluating(self) -> Field:
        """Return the field without noise."""
        ...


class TextField(Described):
    """A text column as ids: prefix symbols, pieces, suffix symbols.

    A decoder's field is ``[<de>, w1 .. wn, </s>]``: its input is all but the last, its labels all but the first.

    Args:
        column: "source_text", "target_text", or a free column that ends in ``_text``.
        tokenizer: see shared/text/tokenizer.py.
        prefix: symbols before the pieces; ``{language}`` stands for the code of the column's own language,
            ``{source_language}`` and ``{target_language}`` for those of the row. Default: ``["<{language}>"]``.
        suffix: symbols behind the pieces, likewise. Default: ``["</s>"]``.
        normalizers: changes to the text before it is tokenised, in this order (see shared/text/normalise.py).
        language_column: the column with the text's language. Default: ``source_language`` for ``source_text``, ...
        maximum_pieces: how many pieces of a text are read, the first ones, as of articles that are to be summarised.
            Default: all.

    Raises:
        DataError: if a symbol is unknown to the tokenizer.
        UsageError: if the language column does not follow from the column, or a symbol has another placeholder.

    Attributes:
        in_language: whether the text is in its language, so that an output can be in a wrong one; labels are not.
        of_pieces: whether an output is made of the tokenizer's pieces, so that it lacks what these lack.
        longest: tokens that an output may have in any case, where they are more than a search allows; else 0.
    """

    unit = "tokens"
    in_language: ClassVar[bool] = True
    of_pieces: ClassVar[bool] = True
    longest: int = 0

    def __init__(
        self,
        *,
        column: str = "target_text",
        tokenizer: Tokenizer,
        prefix: list[str] | None = None,
        suffix: list[str] | None = None,
        normalizers: list[Normalizer] | None = None,
        language_column: str | None = None,
        maximum_pieces: PositiveInt | None = None,
    ) -> None:
        if language_column is None:
            if not column.endswith("_text"):
                raise UsageError(f"column {column!r} does not end in '_text': give its language_column")
            language_column = column.removesuffix("_text") + "_language"
        self.column = column
        self.tokenizer = tokenizer
        self.language_column = language_column
        self.maximum_pieces = maximum_pieces
        self.normalizers = list(normalizers or [])
        self.prefix = ["<{language}>"] if prefix is None else list(prefix)
        self.suffix = ["</s>"] if suffix is None else list(suffix)
        for symbol in (*self.prefix, *self.suffix):
            if "{" not in symbol:
                tokenizer.id(symbol)
            elif symbol.count("{") != 1 or not any(f"{{{name}}}" in symbol for name in _PLACEHOLDERS):
                raise UsageError(f"symbol {symbol!r}: known placeholders are {{{'}, {'.join(_PLACEHOLDERS)}}}")
        self.padding = float(tokenizer.pad)
        self.overhead = len(self.prefix) + len(self.suffix)

    @property
    def side(self) -> str:
        """The side whose language the text is in: "source" or "target"."""
        return self.language_column.removesuffix("_language")

    def first_text(self) -> tuple[TextField, int]:
        """Return the text that an output begins with, and the symbol that ends it."""
        return self, self.tokenizer.eos

    def end(self, codes: Sequence[str]) -> int:
        """Return the symbol that ends outputs in languages."""
        return self.tokenizer.eos

    def decoded(self, ids: Iterable[int]) -> str:
        """Return the text that an output's ids stand for."""
        return self.tokenizer.decode(ids)

    @property
    def fingerprint(self) -> str:
        """Hash of all that decides how many pieces a text has."""
        if not self.normalizers:
            return self.tokenizer.fingerprint
        parts = json.dumps([self.tokenizer.fingerprint, describe(self.normalizers)])
        return hashlib.sha256(parts.encode()).hexdigest()[:16]

    def reads_like(self, other: TextField) -> bool:
        """Tell whether both put the same symbols around the same pieces, so that a model may read one as the other."""
        forms = [(type(one), one.tokenizer.fingerprint, one.prefix, one.suffix) for one in (self, other)]
        return forms[0] == forms[1]

    def prefix_ids(self, language: str, source: str | None = None) -> list[int]:
        """Return the ids before the text, for output in ``language``; search is started with them.

        Where they depend on the language of a translation's source, that is ``source``, and a DataError if it is None.
        """
        names = {"source_language": source, "language": language, self.language_column: language}
        return self._symbols(self.prefix, names)

    def framed(self, pieces: list[int], language: str) -> list[int]:
        """Return the ids of a text in ``language`` whose pieces are known: with the symbols before and behind them.

        Raises:
            DataError: if a symbol needs the language of a row's other side.
        """
        names: dict[str, str | None] = {"language": language, self.language_column: language}
        return [*self._symbols(self.prefix, names), *pieces, *self._symbols(self.suffix, names)]

    def __call__(self, row: Row, rng: np.random.Generator) -> Tensor:
        """Return (L,) int64.

        Raises:
            DataError: if the row has no text, or no language where a symbol needs it.
        """
        prefix, pieces, suffix = self.parts(row)
        return torch.tensor(prefix + pieces + suffix, dtype=torch.int64)

    def parts(self, row: Row, text: str | None = None) -> tuple[list[int], list[int], list[int]]:
        """Return the ids of the symbols before the text, of its pieces, and of the symbols behind it.

        Args:
            row: of a manifest.
            text: what :meth:`text` returned, if it is known.

        Raises:
            DataError: if the row has no text, or no language where a symbol needs it.
        """
        names = {"language": row.get(self.language_column)}
        names |= {name: row.get(name) for name in ("source_language", "target_language")}
        return self._symbols(self.prefix, names), self.pieces(row, text), self._symbols(self.suffix, names)

    def pieces(self, row: Row, text: str | None = None) -> list[int]:
        """Return the ids of the text's pieces, without symbols; see :meth:`parts`."""
        text = self.text(row) if text is None else text
        return self.encoded(text, row.get(self.language_column))[: self.maximum_pieces]

    def encoded(self, text: str, language: str | None) -> list[int]:
        """Return the ids of all pieces of a text in a language."""
        return for_language(self.tokenizer, language).encode(text)

    def inner(self, ids: list[int]) -> list[int]:
        """Return the ids of the pieces of a whole row's ids: without the symbols before and behind them."""
        return ids[len(self.prefix) : len(ids) - len(self.suffix)]

    def text(self, row: Row) -> str:
        """Return the row's text as it is tokenised.

        Raises:
            DataError: if the row has none.
        """
        text = row.get(self.column)
        if text is None:
            raise DataError(f"row {row.get('id')!r} has no {self.column}")
        return self._normalise(text, row.get(self.language_column))

    def length(self, row: Row) -> int:
        """Return the number of ids, L."""
        return int(self._framed(np.array(len(self.pieces(row)))))

    def lengths(self, rows: Rows, folder: Path | None = None) -> np.ndarray:
        """Return the numbers of ids, -1 where there is no text; those of large manifests are kept in a sidecar.

        Raises:
            DataError: naming the manifest, if a text cannot be tokenised.
        """
        if not isinstance(rows, Manifest):
            return self._framed(self._count(self.texts(rows), [row.get(self.language_column) for row in rows]))

        def count() -> np.ndarray:
            differ = self.normalizers or isinstance(self.tokenizer, ByLanguage)
            languages = _strings(rows, self.language_column) if differ else [None] * len(rows)
            try:
                return self._count(self.texts(rows), languages)
            except DataError as error:
                raise DataError(f"{rows.path}: column {self.column!r}: {error}") from error

        return self._framed(kept_counts(rows, key=self.fingerprint, column=self.column, count=count, folder=folder))

    def texts(self, rows: Rows) -> list[str | None]:
        """Return the texts of all rows as they were given, None where there is none.

        Raises:
            DataError: if a manifest's column holds no text.
        """
        return _strings(rows, self.column) if isinstance(rows, Manifest) else [row.get(self.column) for row in rows]

    def evaluating(self) -> TextField:
        """Return the field itself: it has no noise."""
        return self

    def _normalise(self, text: str, language: str | None) -> str:
        return apply(self.normalizers, text, language)

    def _framed(self, counts: np.ndarray) -> np.ndarray:
        """Return the numbers of ids of texts with so many pieces, -1 where there is no text."""
        most = self.maximum_pieces
        read = counts if most is None else np.minimum(counts, min(most, np.iinfo(counts.dtype).max))
        return np.where(counts < 0, -1, read + self.overhead)

    def _count(self, texts: Sequence[str | None], languages: Sequence[str | None]) -> np.ndarray:
        if self.normalizers:
            pairs = zip(texts, languages, strict=True)
            texts = [None if text is None else self._normalise(text, language) for text, language in pairs]
        differ = isinstance(self.tokenizer, ByLanguage)
        places: dict[str | None, list[int]] = {}
        for place, language in enumerate(languages):
            places.setdefault(language if differ else None, []).append(place)
        counts = np.empty(len(texts), dtype=np.int64)
        for language, chosen in places.items():
            counts[chosen] = for_language(self.tokenizer, language).lengths([texts[place] or "" for place in chosen])
        counts[np.array([text is None for text in texts], dtype=bool)] = -1
        return counts

    def _symbols(self, symbols: list[str], names: dict[str, str | None]) -> list[int]:
        ids = []
        for symbol in symbols:
            for name, code in names.items():
                if f"{{{name}}}" in symbol and code:
                    symbol = symbol.replace(f"{{{name}}}", code)
            if "{" in symbol:
                raise DataError(f"symbol {symbol!r} needs a language, which the row lacks")
            ids.append(self.tokenizer.id(symbol))
        return ids


def reading(*, field: TextField, column: str) -> TextField:
    """Return a field that reads "source_text" or "target_text", and is else the same.

    The symbols around a text of the other side change sides with it: ``{source_language}`` and ``{target_language}``
    stand for each other, so that a text that was to begin with its own language's symbol still does. Of a field that
    is made of another, such as a ``SeparatedText``, that other one reads the column.

    Raises:
        UsageError: for a field that names no column.
    """
    known = inspect.signature(type(field).__init__).parameters
    if "column" not in known:
        inner = field.arguments.get("field")
        if not isinstance(inner, TextField):
            raise UsageError(f"a {type(field).__name__} reads {field.column} and cannot read {column} instead")
        return type(field)(**field.arguments | {"field": reading(field=inner, column=column)})
    changed: dict[str, Any] = {"column": column, "language_column": None}
    if column != f"{field.side}_text":
        around = {name: field.arguments.get(name) for name in ("prefix", "suffix")}
        changed |= {name: [*map(_on_the_other_side, symbols)] for name, symbols in around.items() if symbols}
    return type(field)(**field.arguments | {name: value for name, value in changed.items() if name in known})


def _on_the_other_side(symbol: str) -> str:
    one, other = "{source_language}", "{target_language}"
    return symbol.replace(one, other) if one in symbol else symbol.replace(other, one)


def blank_rows(fields: Mapping[str, Field], rows: Rows) -> np.ndarray:
    """Return (rows,) bool: which rows have an input without content: no token, no sample, nothing to be seen.

    A model that is shown one makes something up.
    """
    blank = np.zeros(len(rows), dtype=bool)
    for field in fields.values():
        lengths = field.lengths(rows)
        blank |= (lengths >= 0) & (lengths <= field.overhead)
        if isinstance(field, TextField):
            blank |= np.array(
                [text is not None and not any(map(_is_seen, text)) for text in field.texts(rows)], dtype=bool
            )
    return blank


def _is_seen(sign: str) -> bool:
    return not sign.isspace() and unicodedata.category(sign) not in ("Cc", "Cf")


_PLACEHOLDERS = ("language", "source_language", "target_language")


def _strings(manifest: Manifest, column: str) -> list[str | None]:
    values = manifest.column(column)
    if not isinstance(values, pa.ChunkedArray):
        raise DataError(f"{manifest.path}: column {column!r} holds numbers, not text")
    return values.to_pylist()
