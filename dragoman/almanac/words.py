"""Words that the four grammars share: spelled-out numbers (num2words), months and weekdays (CLDR through Babel)."""

from __future__ import annotations

import datetime
import re
from functools import cache
from typing import Any

from dragoman.shared.errors import DataError

ADVICE = "Almanac needs it: pip install 'dragoman[demo]'"

# num2words glues Turkish numbers as one writes them on a cheque; in running text they are separate words.
_TURKISH_PARTS = re.compile(
    "sıfır|birinci|bir|ikinci|iki|üçüncü|üç|dördüncü|dört|beşinci|beş|altmış|altıncı|altı|yedinci|yedi|yetmiş|sekizinci"
    "|sekiz|seksen|dokuzuncu|dokuz|doksan|onuncu|on|yirminci|yirmi|otuzuncu|otuz|kırk|elli|yüzüncü|yüz|bininci|bin"
)


WOMEN = ("anna", "emma", "laura", "clara", "maria", "julia")  # of frames.PEOPLE


def name(person: str) -> str:
    """A first name; it is the same in every language."""
    return person.capitalize()


@cache
def number(value: int, language: str, kind: str = "cardinal") -> str:
    """A number in words as it is counted: one, eins, un, bir."""
    try:
        from num2words import num2words
    except ImportError as error:
        raise DataError(f"the package num2words is not installed; {ADVICE}") from error
    words = str(num2words(value, lang=language, to=kind))
    return " ".join(_TURKISH_PARTS.findall(words)) if language == "tr" else words


def ordinal(value: int, language: str) -> str:
    """An ordinal number in words: third, dritte, troisième, üçüncü."""
    return number(value, language, "ordinal")


@cache
def month(value: int, language: str) -> str:
    """The name of month 1 (January) to 12, in CLDR's spelling."""
    return str(_locale(language).months["format"]["wide"][value])


@cache
def weekday(value: int, language: str) -> str:
    """The name of day 0 (Monday) to 6, in CLDR's spelling."""
    return str(_locale(language).days["format"]["wide"][value])


@cache
def date(month: int, day: int, language: str) -> str:
    """Day and month in CLDR's order: May 3, 3. Mai, 3 mai."""
    return str(_babel().dates.format_skeleton("MMMMd", datetime.date(2020, month, day), locale=language))


def _locale(language: str) -> Any:
    return _babel().Locale.parse(language)


def _babel() -> Any:
    try:
        import babel.dates
    except ImportError as error:
        raise DataError(f"the package Babel is not installed; {ADVICE}") from error
    return babel


def capitalised(text: str, language: str) -> str:
    """The text with a capital first letter, the rest untouched."""
    first = "İ" if language == "tr" and text.startswith("i") else text[:1].upper()
    return first + text[1:]
