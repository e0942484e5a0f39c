"""Texts of several lines, such as the sentences of a document, as one sequence with a separator between the lines.

Legend: L tokens.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np

from dragoman.shared.batches.fields import Rows, TextField
from dragoman.shared.batches.manifest import Row
from dragoman.shared.errors import UsageError
from dragoman.shared.ranges import PositiveInt

LINE = "\n"


class SeparatedText(TextField):
    r"""A text column whose lines are read with a symbol between each two: ``[<de>, x1 .. xn, <sep>, y1 .. ym, </s>]``.

    Only ``\n`` ends a line, and the text that ids stand for has one for each separator. With ``</s>`` as the separator,
    the symbol of the text's language is the end of an output: ``[<de>, x1 .. xn, </s>, y1 .. ym, </s>, <de>]``.

    Args:
        field: a line by itself; its normalizers change each line.
        separator: the symbol between two lines.
        maximum: the most ids, symbols included, of the texts that lines are joined to; see :meth:`spans`.

    Raises:
        DataError: if the separator is unknown to the tokenizer.
    """

    def __init__(self, *, field: TextField, separator: str = "<sep>", maximum: PositiveInt = 512) -> None:
        ends = separator in field.suffix[-1:]
        suffix = [*field.suffix, "<{language}>"] if ends else field.suffix
        super().__init__(**field.arguments | {"suffix": suffix})
        self.separator = self.tokenizer.id(separator)
        self.maximum = maximum
        self.longest = 2 * maximum  # as what is read has at most that many, twice as many are not written in earnest
        self._ended = separator in suffix

    @property
    def fingerprint(self) -> str:
        """Hash of all that decides how many pieces a text has."""
        return hashlib.sha256(f"{super().fingerprint} {self.separator}".encode()).hexdigest()[:16]

    def pieces(self, row: Row, text: str | None = None) -> list[int]:
        """Return the ids of all lines, with the separators between them."""
        lines = (self.text(row) if text is None else text).split(LINE)
        first, *others = (self.encoded(line, row.get(self.language_column)) for line in lines)
        return (first + [id for ids in others for id in (self.separator, *ids)])[: self.maximum_pieces]

    def end(self, codes: Sequence[str]) -> int:
        """Return the symbol that ends outputs in a language.

        Raises:
            UsageError: if it is that of their language, and there are several.
        """
        ends = {self._symbols(self.suffix, {"language": code})[-1] for code in codes}
        if len(ends) > 1:
            raise UsageError(f"outputs in {', '.join(dict.fromkeys(codes))} end in different symbols: one at a time")
        return ends.pop()

    def decoded(self, ids: Iterable[int]) -> str:
        """Return the lines that ids stand for."""
        lines: list[list[int]] = [[]]
        for id in ids:
            if id == self.separator:
                lines.append([])
            else:
                lines[-1].append(id)
        texts = [self.tokenizer.decode(line).replace(LINE, " ") for line in lines]  # one may be spelled in bytes
        return LINE.join(texts[:-1] if self._ended and not texts[-1] else texts)

    def _normalise(self, text: str, language: str | None) -> str:
        return LINE.join(super(SeparatedText, self)._normalise(line, language) for line in text.split(LINE))

    def _count(self, texts: Sequence[str | None], languages: Sequence[str | None]) -> np.ndarray:
        lines = [[] if text is None else text.split(LINE) for text in texts]
        codes = [code for parts, code in zip(lines, languages, strict=True) for _ in parts]
        counts = super()._count([line for parts in lines for line in parts], codes)
        ends = np.cumsum([0, *map(len, lines)])
        totals = np.concatenate([[0], np.cumsum(counts + 1)])  # with a separator each
        return totals[ends[1:]] - totals[ends[:-1]] - 1  # none is behind the last line, and -1 is left of no lines


def spans(documents: Sequence[object], sides: Sequence[tuple[SeparatedText, Rows]]) -> list[range]:
    """Return which lines are joined to a text: those that follow each other in a document, as many as fit.

    No line is divided: one that is longer than the maximum is a text by itself.

    Args:
        documents: the document of each line.
        sides: the fields that read them, each with the lines as rows: texts fit if they do in all of them.

    Returns:
        The numbers of the lines of each text, in order.
    """
    lengths = [field.lengths(rows) - field.overhead for field, rows in sides]
    starts = []
    room = [0] * len(sides)
    for number, document in enumerate(documents):
        needed = [int(counts[number]) + 1 for counts in lengths]
        room = [left - more for left, more in zip(room, needed, strict=True)]
        if not number or document != documents[number - 1] or min(room) < 0:
            starts.append(number)
            whole = (field.maximum - field.overhead + 1 for field, _ in sides)
            room = [left - more for left, more in zip(whole, needed, strict=True)]
    return [range(*pair) for pair in pairwise([*starts, len(documents)])]
