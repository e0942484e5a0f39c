"""Questions whose answers are spans of a text, and the windows in which a model reads a text that is long for it.

The task is SQuAD's (Rajpurkar et al. 2016, EMNLP); a question and a text are one sequence (Devlin et al. 2019, section
4.2). Answers are what stands in the text as it was written, whatever the tokenizer makes of it.

Legend: B rows, W windows, L tokens, C characters of a text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from dragoman.mt.understanding.labels import PairField, type_ids
from dragoman.shared.batch import Batch
from dragoman.shared.batches.fields import Rows, TextField
from dragoman.shared.batches.manifest import Row
from dragoman.shared.errors import DataError, UsageError, shortened
from dragoman.shared.padded import Padded
from dragoman.shared.ranges import PositiveInt
from dragoman.shared.text.tokenizer import Locating


class Divided(NamedTuple):
    """A question and a text in windows.

    Attributes:
        question: the ids with which each window begins.
        suffix: those with which it ends.
        pieces: the ids of the text.
        places: from which to which of its characters they stand, (L, 2).
        starts: the numbers of the pieces with which windows begin.
        room: the most pieces that a window has.
    """

    question: list[int]
    suffix: list[int]
    pieces: list[int]
    places: np.ndarray
    starts: range
    room: int

    def windows(self) -> Iterator[slice]:
        """Yield which pieces each window has."""
        return (slice(start, start + self.room) for start in self.starts)


class WindowsField(PairField):
    """A question and a text, in windows of the text with the question before each, one behind the other.

    The batch gets ``<name>`` with all ids; ``<name>.windows``, the length of each window (W,); ``<name>.places``, from
    which to which character of the text each id stands, but for spaces (L, 2), two equal ones for what stands for none;
    and ``<name>.characters``, the code points of the text (C,), of which answers are made.

    Args:
        tokenizer: of both; it has to say where its pieces are.
        column: of the question.
        second_column: of the text, whose language is that of the row's source.
        prefix: symbols before the question; see :class:`PairField`, also for what follows.
        between: symbols between both.
        suffix: symbols behind the text.
        types: tell the text from the question.
        maximum: the most tokens of a window, symbols included.
        stride: how many pieces after a window the next one begins; the last ends with the text.
        longest_question: of a question with more pieces, only the first of them are read.

    Raises:
        UsageError: if the tokenizer does not say where its pieces are, or windows would leave out pieces between them.
    """

    def __init__(
        self,
        *,
        tokenizer: Locating,
        column: str = "question_text",
        second_column: str = "source_text",
        prefix: list[str] | None = None,
        between: list[str] | None = None,
        suffix: list[str] | None = None,
        types: bool = False,
        maximum: PositiveInt = 384,
        stride: PositiveInt = 128,
        longest_question: PositiveInt = 64,
    ) -> None:
        super().__init__(
            column=column,
            tokenizer=tokenizer,
            second_column=second_column,
            language_column="source_language",
            prefix=prefix,
            between=between,
            suffix=suffix,
            types=types,
        )
        if not hasattr(tokenizer, "located"):
            raise UsageError(f"a {type(tokenizer).__name__} does not say where in a text its pieces are")
        tokenizer.located("")  # some only learn now that they cannot
        around = self.overhead + self._second.overhead + longest_question
        if maximum - around < stride:
            raise UsageError(
                f"windows of {maximum} tokens, {around} of which may be a question and symbols, {stride} pieces after "
                "one another leave out pieces between them"
            )
        self.locating = tokenizer
        self.maximum = maximum
        self.stride = stride
        self.longest_question = longest_question

    def __call__(self, row: Row, rng: np.random.Generator) -> dict[str, Tensor]:  # type: ignore[override]
        """Return ids, windows, places and characters, and with types these.

        Raises:
            DataError: if the row lacks the question or the text.
        """
        divided = self.divided(row)
        before, behind = len(divided.question), len(divided.suffix)
        ids: list[int] = []
        places: list[np.ndarray] = []
        sizes: list[int] = []
        for window in divided.windows():
            inside = divided.places[window]
            ids += [*divided.question, *divided.pieces[window], *divided.suffix]
            places.append(np.pad(inside, ((before, behind), (0, 0))))
            sizes.append(before + len(inside) + behind)
        text = np.frombuffer(self._second.text(row).encode("utf-32-le"), dtype=np.uint32).astype(np.int64)
        found = {
            "": torch.tensor(ids),
            "windows": torch.tensor(sizes),
            "places": torch.from_numpy(np.concatenate(places)),
        }
        found["characters"] = torch.from_numpy(text)
        if self.types:
            found["types"] = torch.cat([type_ids(before, size - before) for size in sizes])
        return found

    def divided(self, row: Row) -> Divided:
        """Return the pieces of a row, and where its windows begin.

        Raises:
            DataError: if the row lacks the question or the text.
        """
        question, suffix = self._halves(row, [])
        text = self._second.text(row)
        pieces, places = self.locating.located(text)
        room = self.maximum - len(question) - len(suffix)
        starts = range(0, max(len(pieces) - room, 0) + self.stride, self.stride)
        return Divided(question, suffix, pieces, _without_spaces(places, text), starts, room)

    def pieces(self, row: Row, text: str | None = None) -> list[int]:
        """Return the ids of the question's pieces that are read."""
        return super().pieces(row, text)[: self.longest_question]

    def _together(self, one: np.ndarray, other: np.ndarray) -> np.ndarray:
        """Return the number of ids of all windows of a question and a text, each with its symbols."""
        question = np.minimum(one, self.overhead + self.longest_question) + self._second.overhead
        text = other - self._second.overhead
        room = self.maximum - question
        more = -(-np.maximum(text - room, 0) // self.stride)
        return (1 + more) * question + text + more * (room - self.stride)


def _without_spaces(places: np.ndarray, text: str) -> np.ndarray:
    """Return places (L, 2) without the white space at their ends; of what is nothing else, the end twice."""
    seen = np.flatnonzero([not sign.isspace() for sign in text])
    first, behind = np.searchsorted(seen, places).T
    some = first < behind
    places = np.repeat(places[:, 1:], 2, axis=1)
    places[some] = np.stack([seen[first[some]], seen[behind[some] - 1] + 1], axis=1)
    return places


def windows_of(batch: Batch, field: str) -> Batch:
    """Return a batch with a row for each window of a batch of texts that a :class:`WindowsField` has read: W rows.

    It has ``<field>`` (W, L), ``<field>.places`` (W, L, 2) and the types, if there are any.
    """
    windows = batch[f"{field}.windows"]
    counts, lengths = windows.lengths.tolist(), windows.values[windows.mask].tolist()
    names = [name for name in (field, f"{field}.places", f"{field}.types") if name in batch]
    fields = {name: _divided(batch[name], lengths) for name in names}

    def repeated(each: list[str]) -> list[str]:
        return [one for one, count in zip(each, counts, strict=True) for _ in range(count)]

    codes = {side: repeated(each) for side, each in batch.languages.items()}
    return replace(batch, fields=fields, languages=codes, ids=repeated(batch.ids) if batch.ids else [])


def _divided(rows: Padded, lengths: list[int]) -> Padded:
    """Divide what stands in rows, one behind the other, into sequences of these lengths."""
    return Padded.from_sequences(rows.values[rows.mask].split(lengths)).to(rows.device)


class AnswerField(TextField):
    """The answer to a row's question; in a batch, the places of its first and last token in each window (W, 2).

    In a window that does not have all of it, both are 0, those of the first symbol (Devlin et al. 2019, section 4.3).

    Args:
        source: what is read.
        column: with the answer; ``<column>_1``, ... are further ones, by which outputs are scored.
        start_column: with the number of its first character in the text, from 0.
    """

    unit = "elements"  # which no budget counts
    in_language: ClassVar[bool] = False
    of_pieces: ClassVar[bool] = False

    def __init__(
        self, *, source: WindowsField, column: str = "answer_text", start_column: str = "answer_start"
    ) -> None:
        super().__init__(
            column=column, tokenizer=source.tokenizer, prefix=[], suffix=[], language_column=source.language_column
        )
        self.source = source
        self.start_column = start_column

    def __call__(self, row: Row, rng: np.random.Generator) -> Tensor:
        """Return the places (W, 2) int64.

        Raises:
            DataError: if the row has no answer, or it is not where it should be.
        """
        divided = self.source.divided(row)
        begin, end = self._span(row)
        inside = np.flatnonzero((divided.places[:, 0] < end) & (divided.places[:, 1] > begin))
        if not len(inside):
            raise DataError(f"row {row.get('id')!r}: answer {shortened(self.text(row))!r} has no pieces")
        first, last = int(inside[0]), int(inside[-1])
        spans = []
        for window in divided.windows():
            moved = len(divided.question) - window.start
            whole = window.start <= first and last < window.stop
            spans.append((first + moved, last + moved) if whole else (0, 0))
        return torch.tensor(spans, dtype=torch.int64)

    def length(self, row: Row) -> int:
        """Return the most windows that there can be."""
        return self.source.length(row)

    def lengths(self, rows: Rows, folder: Path | None = None) -> np.ndarray:
        """Return the most windows that there can be, -1 where there is no answer."""
        given = np.array([text is not None for text in self.texts(rows)], dtype=bool)
        return np.where(given, self.source.lengths(rows, folder), -1)

    def _span(self, row: Row) -> tuple[int, int]:
        """Return from which to which character of the text the answer stands."""
        answer, begin = self.text(row), row.get(self.start_column)
        text = row[self.source.columns[-1]]
        if not answer or begin is None or begin < 0 or text[begin : begin + len(answer)] != answer:
            shown = "" if begin is None else f", where {shortened(text[max(begin, 0) :][: len(answer) or 20])!r} stands"
            raise DataError(f"row {row.get('id')!r}: answer {shortened(answer)!r} is not at character {begin}{shown}")
        return begin, begin + len(answer)
