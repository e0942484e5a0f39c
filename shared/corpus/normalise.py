"""Changes to text before it is tokenised: case, punctuation, noted events."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Protocol

from shared.described import Described
from shared.errors import UsageError
from shared.text.case import lower


class Normalizer(Protocol):
    """Text to text; a described object, so that a model folder can say which ones its tokenizer needs."""

    def __call__(self, text: str, language: str | None) -> str:
        """Return the changed text.

        Args:
            text: of one row.
            language: its code, or None if the row does not say.

        """
        ...


def apply(normalizers: Sequence[Normalizer], text: str, language: str | None) -> str:
    """Return the text after all changes, in their order."""
    for normalizer in normalizers:
        text = normalizer(text, language)
    return text


def effective(normalizers: Sequence[Normalizer]) -> list[Normalizer]:
    """Return the changes that are made, in their order: a policy that leaves text as it is has none."""
    return [
        change
        for normalizer in normalizers
        for change in (normalizer.changes if isinstance(normalizer, Policy) else [normalizer])
    ]


class Lowercase(Described):
    """Lower case, with the dotted and dotless i of Turkish and Azerbaijani."""

    def __call__(self, text: str, language: str | None) -> str:
        """Return the text in lower case."""
        return lower(text, language)


class RemovePunctuation(Described):
    """Put a space for each punctuation mark (Unicode category P), and one space for several.

    Args:
        keep: marks that stay between two letters or digits, and only there: "it's" keeps its apostrophe, "'tis" does
            not. The typographic apostrophe ’ becomes a plain one if that is kept.

    Raises:
        UsageError: if ``keep`` holds something that is not punctuation.

    """

    def __init__(self, *, keep: str = "'") -> None:
        wrong = [mark for mark in keep if not unicodedata.category(mark).startswith("P")]
        if wrong:
            raise UsageError(f"keep must hold punctuation marks only, not {''.join(wrong)!r}")
        self.keep = keep

    def __call__(self, text: str, language: str | None) -> str:
        """Return the text without punctuation."""
        if "'" in self.keep:
            text = text.replace("’", "'")
        padded = f" {text} "
        kept = [
            character
            if not unicodedata.category(character).startswith("P")
            or (character in self.keep and before.isalnum() and after.isalnum())
            else " "
            for before, character, after in zip(padded, padded[1:], padded[2:], strict=False)
        ]
        return " ".join("".join(kept).split())


class RemoveEvents(Described):
    """Remove what a transcriber noted and nobody said: "(Applause)", "(Laughter)", "[Music]".

    An event is something in round or square brackets of at most ``words`` words that does not begin with a small
    letter or a digit; other brackets are text. Spaces around it become one.

    Args:
        words: the most words that an event has.

    Raises:
        UsageError: if ``words`` is not positive.

    """

    _BRACKETS = re.compile(r"\s*(?:\(([^()]*)\)|\[([^\[\]]*)\])\s*")

    def __init__(self, *, words: int = 3) -> None:
        if words < 1:
            raise UsageError(f"words must be positive, not {words}")
        self.words = words

    def __call__(self, text: str, language: str | None) -> str:
        """Return the text without events."""
        return self._BRACKETS.sub(self._replace, text).strip()

    def _replace(self, match: re.Match[str]) -> str:
        inside = (match[1] or match[2] or "").strip()
        event = inside and not (inside[0].islower() or inside[0].isdigit()) and len(inside.split()) <= self.words
        return " " if event else match[0]


class Policy(Described):
    """The form of a corpus's texts when they are tokenised: every property is given, none has a default.

    Changes are made in the order that they need: events are known by their capital letters and brackets.

    Args:
        events: False takes "(Applause)" and the like out (:class:`RemoveEvents`).
        punctuation: False takes punctuation out (:class:`RemovePunctuation`).
        lowercase: True makes it lower case (:class:`Lowercase`).

    Attributes:
        changes: what it does to a text, in this order.

    """

    def __init__(self, *, events: bool, punctuation: bool, lowercase: bool) -> None:
        self.changes: list[Normalizer] = []
        if not events:
            self.changes.append(RemoveEvents())
        if not punctuation:
            self.changes.append(RemovePunctuation())
        if lowercase:
            self.changes.append(Lowercase())

    def __call__(self, text: str, language: str | None) -> str:
        """Return the changed text."""
        return apply(self.changes, text, language)
