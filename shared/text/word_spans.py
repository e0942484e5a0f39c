"""Words of a text, for lexicons and for links between words: where each begins and ends.

For links, words are what spaces divide, with the signs at their ends (:func:`linked_words`).

For lexicons (:func:`words`), in scripts with spaces, a word is a run of letters, with apostrophes and hyphens between
two of them; digits, stops and quotes belong to none. If the words of a lexicon are known, a run that is not one of them
is divided at its apostrophes and hyphens: French "l'homme" is found as "homme". In scripts without spaces, a word is
the longest known one that begins at a character, else that character.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Container
from functools import lru_cache

from dragoman.shared.text import languages
from dragoman.shared.text.case import lower

Span = tuple[int, int]

FULL_STOPS = ".!?…。！？．؟۔।॥။։።\u037e"
CLOSING = "\"'”’“‘»›«‹)]}」』）"
_OPENING = "\"'“‘”’„‚«‹»›([{「『（¿¡-–—"


def words(text: str, language: str, lexicon: Container[str] | None = None, longest: int = 1) -> list[Span]:
    """Return where the words of a text begin and end, in order; none overlap.

    Args:
        text: of one row.
        language: its code.
        lexicon: words of a lexicon, which are compared in the text's case and in lower case.
        longest: characters of the longest known word; read in scripts without spaces.

    Raises:
        DataError: for an unknown language code.
    """
    pattern, joiners = (_ASCII_RUN, _ASCII_JOINER) if text.isascii() else _patterns()
    runs = [match.span() for match in pattern.finditer(text)]
    if languages.spaced(language):
        if lexicon is None or not joiners.search(text):
            return runs
        return [span for run in runs for span in _parts(text, run, language, lexicon, joiners)]
    return [span for run in runs for span in _longest_known(text, run, language, lexicon or (), longest)]


def has_capital_of_sentence(text: str, start: int) -> bool:
    """Tell whether the word at ``start`` begins a sentence, the text or what follows a full stop, with a capital."""
    before = text[:start].rstrip(f"{_OPENING} \t\u00a0\u202f")
    begins = not before or before.rstrip(CLOSING).endswith(tuple(FULL_STOPS))
    return begins and text[start : start + 1].isupper()


def _parts(text: str, run: Span, language: str, lexicon: Container[str], joiners: re.Pattern[str]) -> list[Span]:
    """Divide a run at its apostrophes and hyphens, unless it is known as a whole or has none."""
    start, end = run
    marks = [match.span() for match in joiners.finditer(text, start, end)]
    if not marks or is_known(text[start:end], language, lexicon):
        return [run]
    begins = [start, *(mark[1] for mark in marks)]
    ends = [*(mark[0] for mark in marks), end]
    return list(zip(begins, ends, strict=True))


def _longest_known(text: str, run: Span, language: str, lexicon: Container[str], longest: int) -> list[Span]:
    """Go through a run; letters of scripts that have spaces, such as a Latin name, stay together."""
    spans: list[Span] = []
    start, stop = run
    while start < stop:
        foreign = _SPACED.match(text, start, stop)
        if foreign:
            end = foreign.end()
        else:
            lengths = range(min(longest, stop - start), 1, -1)
            end = start + next((n for n in lengths if is_known(text[start : start + n], language, lexicon)), 1)
        spans.append((start, end))
        start = end
    return spans


def linked_words(text: str, language: str) -> list[Span]:
    """Return where the words begin and end that links count: what spaces divide, else single characters.

    Raises:
        DataError: for an unknown language code.
    """
    return [match.span() for match in (_BETWEEN_SPACES if languages.spaced(language) else _NO_SPACE).finditer(text)]


def bare_span(text: str, span: Span) -> Span:
    """Return a span without the signs at its ends; one that is all signs as it is."""
    start, end = span
    first = next((place for place in range(start, end) if text[place].isalnum()), None)
    if first is None:
        return span
    last = next(place for place in range(end, start, -1) if text[place - 1].isalnum())
    return first, last


def is_known(word: str, language: str, lexicon: Container[str]) -> bool:
    """Tell whether a lexicon has a word, in this case or in lower case."""
    return word in lexicon or lower(word, language) in lexicon


_BETWEEN_SPACES, _NO_SPACE = re.compile(r"\S+"), re.compile(r"\S")

#: Latin, Greek and Cyrillic letters.
_SPACED = re.compile("[A-Za-z\u00c0-\u024f\u0370-\u052f]+")


#: What :func:`_patterns` finds in a text of ASCII alone, in a quarter of the time.
_ASCII_RUN, _ASCII_JOINER = re.compile("[A-Za-z]+(?:['-][A-Za-z]+)*"), re.compile("['-]")


@lru_cache(maxsize=1)
def _patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return what finds runs of letters, and the apostrophes and hyphens inside of them."""
    # Python's \w leaves out vowel signs and other marks, without which Hindi and Thai words would fall apart.
    marks = "".join(re.escape(chr(n)) for n in range(0x300, 0x20000) if unicodedata.category(chr(n))[0] == "M")
    letters = rf"[^\W\d_]+(?:[{marks}]+[^\W\d_]*)*"
    joiner = "['’‑-]"
    return re.compile(rf"{letters}(?:{joiner}{letters})*"), re.compile(joiner)
