"""Placeholders of programs, which a translation keeps: ``%s``, ``%1$s``, ``{0}``, ``{name}``, ``$(ARG1)``, ``<b>``."""

from __future__ import annotations

import re
from collections import Counter

#: Names of elements that mark up a text; other words in angle brackets, as <none>, are translated.
_ELEMENTS = "a|b|br|code|div|em|font|g|h[1-6]|i|img|kbd|li|ol|p|pre|ph|small|span|strong|sub|sup|table|td|tr|tt|u|ul|x"
_PLACEHOLDER = re.compile(
    r"(?P<doubled>%%)"
    r"|(?<![\d%])%(?P<place>\d+\$)?(?P<printf>(?:\(\w+\))?[-+#0]*\d*(?:\.\d+)?(?:hh?|ll?|z)?[diufgxsc@])(?![0-9A-F])"
    r"|\$\([A-Za-z_]\w*\)|\$\{\w+\}"
    r"|(?<!\{)\{(?:\d+|[A-Za-z_][\w.]*)(?:![rsa])?(?::[^{}\s]*)?\}"
    rf"|<(?P<tag>/?(?:{_ELEMENTS})\b)(?:\s[^<>]*)?/?>"
)


def placeholders(text: str) -> Counter[str]:
    """Return the placeholders of a text and how often it has each.

    Those with a place are the same as those without (``%2$s`` as ``%s``), and tags go by their name.
    """
    found: Counter[str] = Counter()
    for match in _PLACEHOLDER.finditer(text):
        if match["printf"]:
            found["%" + match["printf"]] += 1
        elif match["tag"]:
            found[f"<{match['tag']}>"] += 1
        elif not match["doubled"]:
            found[match[0]] += 1
    return found


def differing(source: str, target: str) -> str:
    """Return what a translation has too few or too many of, in words; "" if it has what the source has."""
    own, other = placeholders(source), placeholders(target)
    parts = (("source alone has", own - other), ("target alone has", other - own))
    return ", ".join(f"{who} {' '.join(sorted(more.elements()))}" for who, more in parts if more)
