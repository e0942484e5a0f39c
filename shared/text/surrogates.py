"""Lone surrogates: bytes that are not UTF-8, as Python reads them ("surrogateescape"); no encoding can write them."""

from __future__ import annotations

import re

_SURROGATE = re.compile("[\ud800-\udfff]")


def find_surrogate(text: str) -> re.Match[str] | None:
    """Return the first lone surrogate of a text, None if it is valid Unicode."""
    return _SURROGATE.search(text)


def printable(text: str) -> str:
    r"""Return a text that can be written: lone surrogates as ``\udcff`` and the like, all else as it is."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
