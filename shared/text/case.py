"""Upper and lower case by language: in Turkish, Azerbaijani and Crimean Tatar, I is the capital of ı, and İ that of i.

A code may have a region or a script behind it: "tr-TR", "az_Latn".
"""

from __future__ import annotations

import re
import unicodedata

#: Languages with a dotted and a dotless i.
DOTTED = frozenset({"tr", "az", "crh"})


def base(language: str | None) -> str:
    """Return a language's code without script and region; "" if it is not known."""
    return re.split("[-_]", language or "")[0].lower()


def lower(text: str, language: str | None) -> str:
    """Return a text in lower case."""
    if base(language) in DOTTED:  # a decomposed İ is an I with a mark behind it
        text = unicodedata.normalize("NFC", text).replace("İ", "i").replace("I", "ı")
    return text.lower()


def upper(text: str, language: str | None) -> str:
    """Return a text in capitals; see :func:`lower`."""
    if base(language) in DOTTED:
        text = text.replace("i", "İ")
    return text.upper()


def capitalised(text: str, language: str | None) -> str:
    """Return a text with a capital first letter, the others as they are; see :func:`lower`.

    Georgian has no capitals at the beginning of words, and so none here.
    """
    first = text[:1]
    return ("İ" if first == "i" and base(language) in DOTTED else first.title()) + text[1:]
