"""Upper and lower case by language: in Turkish and Azerbaijani, I is the capital of ı, and İ that of i."""

from __future__ import annotations

#: Languages with a dotted and a dotless i.
DOTTED = frozenset({"tr", "az"})


def lower(text: str, language: str | None) -> str:
    """Return a text in lower case.

    Args:
        text: of any length.
        language: its code, if it is known.

    """
    if language in DOTTED:
        text = text.replace("İ", "i").replace("I", "ı")
    return text.lower()


def upper(text: str, language: str | None) -> str:
    """Return a text in capitals; see :func:`lower`."""
    if language in DOTTED:
        text = text.replace("i", "İ")
    return text.upper()


def capitalised(text: str, language: str | None) -> str:
    """Return a text with a capital first letter, the others as they are; see :func:`lower`.

    Georgian has no capitals at the beginning of words, and so none here.
    """
    first = text[:1]
    return ("İ" if first == "i" and language in DOTTED else first.title()) + text[1:]
