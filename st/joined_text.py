"""Several texts of a row as one: what a decoder writes one after the other.

Legend: L tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from dragoman.shared.batches.fields import Rows, TextField
from dragoman.shared.batches.manifest import Row
from dragoman.shared.errors import UsageError


class JoinedText(TextField):
    """Texts with a separator between each two, such as ``[<de>, z1 .. zm, <sep>, y1 .. yn, </s>]``.

    Column and language are those of the last text. What a user types as "<sep>" is text, not the symbol.

    Args:
        fields: the texts by name, in their order; of each, only its pieces are taken.
        separator: the symbol between them.
        prefix: symbols before the first text, as in ``TextField``. Default: ``["<{language}>"]``, of the last text.
        suffix: symbols behind the last one, likewise. Default: ``["</s>"]``.

    Raises:
        DataError: if a symbol is unknown to the tokenizer.
        UsageError: if there are not two texts or more, or they differ in their tokenizers.
    """

    def __init__(
        self,
        *,
        fields: dict[str, TextField],
        separator: str = "<sep>",
        prefix: list[str] | None = None,
        suffix: list[str] | None = None,
    ) -> None:
        if len(fields) < 2:
            raise UsageError(f"a joined text needs two texts or more, not {len(fields)}")
        *_, last = fields.values()
        for name, field in fields.items():
            if field.tokenizer.fingerprint != last.tokenizer.fingerprint:
                raise UsageError(f"a joined text has one tokenizer, but that of {name!r} is another")
        super().__init__(
            column=last.column,
            tokenizer=last.tokenizer,
            prefix=prefix,
            suffix=suffix,
            language_column=last.language_column,
        )
        self.fields = dict(fields)
        self.separator = last.tokenizer.id(separator)
        self._gaps = len(fields) - 1
        self.overhead += self._gaps

    def pieces(self, row: Row, text: str | None = None) -> list[int]:
        """Return the ids of all texts, with separators.

        Raises:
            DataError: if the row lacks one of the texts.
            UsageError: if a text is given instead of the row's: there are several.
        """
        if text is not None:
            raise UsageError("joined texts cannot be rewritten as one: rewrite the texts of the rows")
        first, *others = (field.pieces(row) for field in self.fields.values())
        return first + [id for ids in others for id in (self.separator, *ids)]

    def length(self, row: Row) -> int:
        """Return the number of ids, L."""
        return self.overhead - self._gaps + len(self.pieces(row))

    def lengths(self, rows: Rows, folder: Path | None = None) -> np.ndarray:
        """Return the numbers of ids, -1 where a text is missing."""
        lengths = [field.lengths(rows, folder) for field in self.fields.values()]
        overheads = [field.overhead for field in self.fields.values()]
        total = np.sum(lengths, axis=0) - sum(overheads) + self.overhead
        return np.where(np.min(lengths, axis=0) < 0, -1, total)

    def first_text(self) -> tuple[TextField, int]:
        """Return the text that an output begins with, and the symbol that ends it."""
        return next(iter(self.fields.values())), self.separator

    def split(self, tokens: Sequence[int]) -> dict[str, list[int]]:
        """Return the ids of each text; those that no separator has begun are empty, and the last has what is left."""
        texts: list[list[int]] = [[]]
        for token in tokens:
            if token == self.separator and len(texts) <= self._gaps:
                texts.append([])
            else:
                texts[-1].append(int(token))
        texts += [[] for _ in range(len(self.fields) - len(texts))]
        return dict(zip(self.fields, texts, strict=True))
