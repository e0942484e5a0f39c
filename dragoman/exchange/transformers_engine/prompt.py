"""A text inside a prompt: what a language model that translates is told."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dragoman.shared.batches.fields import Rows, TextField
from dragoman.shared.batches.manifest import Row
from dragoman.shared.errors import UsageError
from dragoman.shared.systems.system import System
from dragoman.shared.text import languages
from dragoman.shared.text.tokenizer import Tokenizer

TEXT = "{text}"
#: The place of what stands before the text.
CONTEXT = "{context}"


class InContext(str):
    """A sentence to translate, and what stands before it, for a prompt with the place for it.

    Attributes:
        context: the text before, "" if there is none.
    """

    context: str

    def __new__(cls, text: str, context: str) -> InContext:
        """Return the sentence, which is text as any other."""
        made = super().__new__(cls, text)
        made.context = context
        return made


_PLACES = re.compile(f"{re.escape(TEXT)}|{re.escape(CONTEXT)}")


class PromptField(TextField):
    """A text as the ids of a prompt that holds it, but for the last id, with which the output begins.

    Text of a user never becomes a symbol, whatever it says.

    Args:
        prompt: its parts in order: symbols of the tokenizer, and texts in which ``{text}`` stands for the row's text,
            ``{context}``, if it is there, for its column "context", ``{source_language}`` and ``{target_language}`` for
            the English names of its languages.
        tokenizer: see shared/text/tokenizer.py; each text between symbols is tokenised as a whole.
        column: of the text.

    Raises:
        UsageError: if the text has no place in the prompt, or two.
    """

    def __init__(self, *, prompt: list[str], tokenizer: Tokenizer, column: str = "source_text") -> None:
        super().__init__(column=column, tokenizer=tokenizer, prefix=[], suffix=[])
        if "".join(prompt).count(TEXT) != 1:
            raise UsageError(f"a prompt has the text, {TEXT}, once: {''.join(prompt)!r}")
        self.prompt = list(prompt)

    @property
    def takes_context(self) -> bool:
        """Return whether the prompt has a place for what stands before the text."""
        return CONTEXT in "".join(self.prompt)

    @property
    def fingerprint(self) -> str:
        """Hash of all that decides how many ids a text has."""
        parts = json.dumps([self.tokenizer.fingerprint, self.prompt])
        return hashlib.sha256(parts.encode()).hexdigest()[:16]

    def pieces(self, row: Row, text: str | None = None) -> list[int]:
        """Return the ids of the prompt but the last; see :meth:`whole`."""
        return self.whole(row, text)[:-1]

    def whole(self, row: Row, text: str | None = None) -> list[int]:
        """Return the ids of the prompt.

        Raises:
            DataError: if the row has no text, or lacks a language that the prompt names.
        """
        said = {TEXT: self.text(row) if text is None else text, CONTEXT: row.get("context") or ""}
        ids: list[int] = []
        for part in self.prompt:
            if part in self.tokenizer.symbols:
                ids.append(self.tokenizer.id(part))
            else:
                named = languages.with_languages(part, row)
                ids += self.tokenizer.encode(_PLACES.sub(lambda place: said[place[0]], named))
        return ids

    def length(self, row: Row) -> int:
        """Return the number of ids, L."""
        return len(self.pieces(row))

    def lengths(self, rows: Rows, folder: Path | None = None) -> np.ndarray:
        """Return the numbers of ids, -1 where there is no text."""
        counts = (-1 if row.get(self.column) is None else self.length(row) for row in rows)
        return np.fromiter(counts, dtype=np.int64, count=len(rows))


class PromptedSystem(System):
    """A language model that translates because its prompt says so; the text is what it writes, without outer spaces."""

    def text_row(self, item: str | Path) -> dict[str, Any]:
        """Return the row of a sentence, with what stands before it, if it is given as :class:`InContext`."""
        return super().text_row(item) | ({"context": item.context} if isinstance(item, InContext) else {})

    def texts_of(self, tokens: Sequence[int]) -> dict[str, str]:
        """Return the texts that the decoder's tokens stand for, by name."""
        return {name: text.strip() for name, text in super().texts_of(tokens).items()}


def divided(text: str, symbols: Sequence[str]) -> list[str]:
    """Divide a prompt into symbols and the texts between them; of symbols that begin alike the longest is found."""
    parts: list[str] = []
    rest, ordered = text, sorted(symbols, key=len, reverse=True)
    while rest:
        found = [(rest.index(symbol), -len(symbol), symbol) for symbol in ordered if symbol in rest]
        if not found:
            return [*parts, rest]
        place, _, symbol = min(found)
        parts += [*([rest[:place]] if place else []), symbol]
        rest = rest[place + len(symbol) :]
    return parts
