"""Labels as what a model writes, and the inputs that are labelled: texts, pairs of texts, words.

Legend: L tokens, W words, C labels.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from dragoman.shared.batches.fields import Rows, TextField
from dragoman.shared.batches.manifest import Manifest, Row
from dragoman.shared.described import Described
from dragoman.shared.errors import DataError, UsageError, shortened
from dragoman.shared.text.normalise import Normalizer
from dragoman.shared.text.tokenizer import Specials, Tokenizer


class LabelTokenizer(Described, Specials):
    """Labels with spaces between them as numbers, from 0 in the order of the list.

    Args:
        labels: all that there are, C of them.

    Raises:
        UsageError: if there are fewer than two, or one comes twice, is empty or has white space in it.
    """

    pad = 0  # behind shorter rows, where nobody looks

    def __init__(self, *, labels: list[str]) -> None:
        if len(labels) < 2 or len({*labels}) < len(labels):
            raise UsageError(f"labels must be two or more different ones, not {shortened(', '.join(labels), 200)!r}")
        for label in labels:
            if label.split() != [label]:
                raise UsageError(f"label {label!r} is empty or has white space in it")
        self.labels = list(labels)
        self.fingerprint = hashlib.sha256("\n".join(labels).encode()).hexdigest()[:16]
        self._ids = {label: number for number, label in enumerate(labels)}

    @property
    def size(self) -> int:
        """The number of labels, C."""
        return len(self.labels)

    @property
    def symbols(self) -> list[str]:
        """None: labels are what is written."""
        return []

    def encode(self, text: str) -> list[int]:
        """Return the numbers of labels.

        Raises:
            DataError: for one that is not in the list.
        """
        if unknown := [label for label in text.split() if label not in self._ids]:
            raise DataError(f"{unknown[0]!r} is not one of the labels {shortened(', '.join(self.labels), 300)}")
        return [self._ids[label] for label in text.split()]

    def lengths(self, texts: Sequence[str]) -> np.ndarray:
        """Return how many labels each text has, int64; errors are those of :meth:`encode`."""
        return np.array([len(self.encode(text)) for text in texts], dtype=np.int64)

    def decode(self, ids: Iterable[int]) -> str:
        """Return labels with spaces between them."""
        return " ".join(map(self.symbol, ids))

    def id(self, symbol: str) -> int:
        """Raise DataError: there are no symbols beside the labels."""
        raise DataError(f"labels have no symbol {symbol!r}")

    def symbol(self, id: int) -> str:
        """Return the label with this number; one that there is not is a ValueError."""
        if not 0 <= id < self.size:
            raise ValueError(f"label {id} is outside the {self.size} labels")
        return self.labels[id]


class LabelField(TextField):
    """The label of a row, or the labels of its words: (1,) or (W,).

    Args:
        tokenizer: of the labels.
        column: with the label, or with labels and spaces between them.
        language_column: of the text that is labelled.
    """

    unit = "elements"  # which no budget counts
    in_language: ClassVar[bool] = False

    def __init__(
        self, *, tokenizer: LabelTokenizer, column: str = "label", language_column: str = "source_language"
    ) -> None:
        super().__init__(column=column, tokenizer=tokenizer, prefix=[], suffix=[], language_column=language_column)


class PairField(TextField):
    """Two texts as one sequence: ``<s> a </s> b </s>`` by default (Devlin et al. 2019, section 3).

    Args:
        tokenizer: of both texts.
        column: of the first.
        second_column: of the second.
        second_language_column: its language; by default that of the first.
        language_column: that of the first; see :class:`TextField`.
        prefix: symbols before the first text; see :class:`TextField`.
        between: symbols between the texts: ``["</s>", "</s>"]`` for XLM-R, ``["</s>"]`` (its [SEP]) for BERT.
        suffix: symbols behind the second.
        types: tell the second text from the first, as BERT does: the batch gets ``<name>.types``, 0 up to what is
            between the texts, and 1 behind it.
        alone: rows may lack the second text; then the first is read by itself.
        normalizers: of both.
    """

    def __init__(
        self,
        *,
        tokenizer: Tokenizer,
        column: str = "source_text",
        second_column: str = "second_text",
        second_language_column: str | None = None,
        language_column: str | None = None,
        prefix: list[str] | None = None,
        between: list[str] | None = None,
        suffix: list[str] | None = None,
        types: bool = False,
        alone: bool = False,
        normalizers: list[Normalizer] | None = None,
    ) -> None:
        super().__init__(
            column=column,
            tokenizer=tokenizer,
            prefix=prefix,
            suffix=suffix,
            normalizers=normalizers,
            language_column=language_column,
        )
        self.types = types
        self.alone = alone
        self._second = TextField(
            column=second_column,
            tokenizer=tokenizer,
            prefix=["</s>"] if between is None else between,
            suffix=[],
            normalizers=normalizers,
            language_column=second_language_column or self.language_column,
        )

    @property
    def columns(self) -> list[str]:
        """The columns of the texts, in the order in which users give them."""
        return [self.column, self._second.column]

    @property
    def between(self) -> list[str]:
        """The symbols between the texts."""
        return self._second.prefix

    def __call__(self, row: Row, rng: np.random.Generator) -> Tensor | dict[str, Tensor]:  # type: ignore[override]
        """Return ids (L,) int64, or with types these and the types (L,) int64.

        Raises:
            DataError: if the row lacks one of the texts.
        """
        first, second = self._halves(row)
        ids = torch.tensor([*first, *second], dtype=torch.int64)
        return {"": ids, "types": type_ids(len(first), len(second))} if self.types else ids

    def parts(self, row: Row, text: str | None = None) -> tuple[list[int], list[int], list[int]]:
        """Return the ids of the symbols before the texts, of both with what is between them, and of those behind."""
        prefix, pieces, suffix = super().parts(row, text)
        if self._lacks_second(row):
            return prefix, pieces, suffix
        between, second, _ = self._second.parts(row)
        return prefix, [*pieces, *between, *second], suffix

    def length(self, row: Row) -> int:
        """Return the number of ids, L."""
        second = -1 if self._lacks_second(row) else self._second.length(row)
        return int(self._both(np.array(super().length(row)), np.array(second)))

    def lengths(self, rows: Rows, folder: Path | None = None) -> np.ndarray:
        """Return the numbers of ids, -1 where one of the texts is missing that must not be."""
        if self.alone and isinstance(rows, Manifest) and self._second.column not in rows.columns:
            return super().lengths(rows, folder)
        return self._both(super().lengths(rows, folder), self._second.lengths(rows, folder))

    def _both(self, one: np.ndarray, other: np.ndarray) -> np.ndarray:
        """Return the numbers of ids of pairs by those of their texts, -1 for a text that is missing."""
        both = np.where((one < 0) | (other < 0), -1, self._together(one, other))
        return np.where(other < 0, one, both) if self.alone else both

    def _lacks_second(self, row: Row) -> bool:
        return self.alone and row.get(self._second.column) is None

    def _together(self, one: np.ndarray, other: np.ndarray) -> np.ndarray:
        """Return the number of ids of two texts, each with its symbols."""
        return one + other

    def _halves(self, row: Row, second: list[int] | None = None) -> tuple[list[int], list[int]]:
        """Return the ids up to what is between the texts, and those behind it.

        Args:
            row: with the texts.
            second: the pieces of the second, if they are known.
        """
        prefix, first, suffix = TextField.parts(self, row)
        if self._lacks_second(row):
            return [*prefix, *first, *suffix], []
        between, pieces, _ = self._second.parts(row, None if second is None else "")
        return [*prefix, *first, *between], [*(pieces if second is None else second), *suffix]


def type_ids(first: int, second: int) -> Tensor:
    """Return the types of the tokens of two texts, of which there are so many."""
    return torch.tensor([0] * first + [1] * second, dtype=torch.int64)


class WordsField(TextField):
    """A text whose words are labelled; the batch gets ``<name>`` and ``<name>.places``, the first piece of each word.

    Words are what stands between spaces, each tokenised by itself, as tasks of labelling words have them (Devlin et al.
    2019, section 5.3): texts of Chinese or Thai must have been divided into words.
    """

    def __call__(self, row: Row, rng: np.random.Generator) -> dict[str, Tensor]:  # type: ignore[override]
        """Return ids (L,) int64, and the places (W,) int64 of the words' first pieces."""
        words = self._words(row)
        prefix, suffix = super().parts({**row, self.column: ""})[::2]
        starts = np.cumsum([len(prefix), *map(len, words[:-1])])[: len(words)]
        ids = [*prefix, *(id for word in words for id in word), *suffix]
        return {"": torch.tensor(ids, dtype=torch.int64), "places": torch.from_numpy(starts)}

    def length(self, row: Row) -> int:
        """Return the number of ids, L."""
        return self.overhead + sum(map(len, self._words(row)))

    @property
    def fingerprint(self) -> str:
        """Hash of all that decides how many pieces a text has: other ones than in one piece."""
        return f"words-{super().fingerprint}"

    def _count(self, texts: Sequence[str | None], languages: Sequence[str | None]) -> np.ndarray:
        """Return how many pieces the words of each text have, -1 for no text."""
        pairs = zip(texts, languages, strict=True)
        words = [None if text is None else self._normalise(text, language).split() for text, language in pairs]
        counts = iter(self.tokenizer.lengths([word for text in words for word in text or ()]).tolist())
        return np.array([-1 if text is None else sum(islice(counts, len(text))) for text in words], dtype=np.int64)

    def _words(self, row: Row) -> list[list[int]]:
        """Return the pieces of each word.

        Raises:
            DataError: for a word without pieces, such as a control character.
        """
        words = self.text(row).split()
        pieces = [self.tokenizer.encode(word) for word in words]
        if empty := [word for word, ids in zip(words, pieces, strict=True) if not ids]:
            raise DataError(f"row {row.get('id')!r}: word {empty[0]!r} has no pieces to label")
        return pieces
