"""Units of display: what a reader sees as one character, where a line may end, and how two texts become one.

ICU tells where a line may end (UAX 14): behind a space; between words of Chinese, Japanese, Thai, Khmer, Lao and
Burmese, which it finds by dictionaries, if no sign would begin or end a line that must not (kinsoku). Latin words,
numbers and emoji stay whole. A character is a grapheme cluster (UAX 29).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from itertools import accumulate, pairwise

from icu4py.breakers import BaseBreaker, CharacterBreaker, LineBreaker, SentenceBreaker

from dragoman.shared.text import languages

#: Scripts that divide no words by spaces, but sentences and phrases.
_SPACED_SENTENCES = {"Thai", "Laoo", "Khmr", "Mymr", "Tibt"}
#: Strict kinsoku, wherever a text is from: no line begins with a small kana.
_STRICT = "ja@lb=strict"
#: This lets lines of Chinese and Japanese end between words and phrases alone, but forgets kinsoku at times.
_PHRASES = "ja@lb=strict;lw=phrase"
#: Code points of the longest character that is looked for: families of emoji have some ten.
_LONGEST = 40
_SURROGATE = re.compile("[\ud800-\udfff]")


def characters(text: str) -> list[str]:
    """Return the characters of a text as a reader sees them, signs with all their marks; joined, they are the text."""
    return list(text) if text.isascii() else list(_segments(CharacterBreaker, text))


def sentences(text: str) -> list[str]:
    """Return the sentences of a text, with the spaces behind them; joined, they are the text (UAX 29)."""
    return list(_segments(SentenceBreaker, text))


def breakable(text: str) -> list[str]:
    """Return the parts of a text behind which a line may end, spaces at their ends; joined, they are the text."""
    allowed = {*accumulate(map(len, _segments(LineBreaker, text)))}
    ends = (end for end in accumulate(map(len, _segments(LineBreaker, text, _PHRASES))) if end in allowed)
    return [text[start:end] for start, end in pairwise([0, *ends])]


def display_words(text: str, *, spaced: bool) -> list[str]:
    """Return what a line may end behind, with one space at its end where there is white space.

    Args:
        text: of any length; white space at its ends is left out.
        spaced: whether its words are divided by spaces. If so, these are its words; if not, see :func:`breakable`.
    """
    words = [f"{word} " for word in text.split()]
    parts = words if spaced else breakable("".join(words))
    return [*parts[:-1], parts[-1].rstrip()] if parts else []


def fitting(word: str, length: int) -> list[str]:
    """Cut a word into parts of at most ``length`` characters: where a line may end, if there are such places in it.

    A character is never cut, however many code points it has.
    """

    def fits(text: str) -> bool:
        return len(text) <= length or len(characters(text.rstrip())) <= length

    if fits(word):
        return [word]
    parts = [""]
    for part in _segments(LineBreaker, word):
        for unit in [part] if fits(part) else characters(part):
            if parts[-1] and not fits(parts[-1] + unit):
                parts.append("")
            parts[-1] += unit
    return parts


def is_inside(text: str, place: int) -> bool:
    """Tell whether a place between two code points of a text is inside of what nobody would cut.

    That is a character, or a run of letters and digits of scripts whose words are divided by spaces.
    """
    if not 0 < place < len(text):
        return False
    if in_run(text[place - 1]) and in_run(text[place]):
        return True
    begin = max(0, place - _LONGEST)
    return place - begin not in accumulate(map(len, characters(text[begin : place + 1])))


def joined(texts: Iterable[str], language: str, *, words: bool = False) -> str:
    """Return texts that follow one another, such as the segments of a talk, as one; empty ones are left out.

    Between two texts there is a space, but for Chinese and Japanese, where there is one only between a word or number
    in another script and the next: "New" and "York" are not "NewYork". Thai, Lao, Khmer, Burmese and Tibetan have no
    spaces between words, but between sentences.

    Args:
        texts: in their order.
        language: the code of theirs.
        words: whether they are words, and not sentences.

    Raises:
        DataError: for an unknown language code.
    """
    tight = not languages.spaced(language) and (words or languages.script(language) not in _SPACED_SENTENCES)
    whole = ""
    for text in filter(None, map(str.strip, texts)):
        seam = not tight or (bool(whole) and in_run(whole[-1]) and in_run(text[0]))
        whole += f" {text}" if whole and seam else text
    return whole


def in_run(sign: str) -> bool:
    """Tell whether a sign is a digit or a letter of a script whose words are divided by spaces: Latin, Greek, ..."""
    kind = unicodedata.category(sign)
    if kind == "Nd":
        return True
    return kind[0] in "LM" and not any(name in unicodedata.name(sign, "") for name in _UNSPACED_LETTERS)


#: In the Unicode names of letters whose words are not divided by spaces.
_UNSPACED_LETTERS = (
    "CJK",
    "HIRAGANA",
    "KATAKANA",
    "BOPOMOFO",
    "THAI",
    "LAO",
    "KHMER",
    "MYANMAR",
    "TIBETAN",
    "IDEOGRAPHIC",
)


def _segments(breaker: type[BaseBreaker], text: str, locale: str = _STRICT) -> Iterator[str]:
    """Yield the segments of a text. ICU counts in UTF-16, where a sign outside the basic plane is two units."""
    valid = _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text)
    spans = breaker(valid, locale).segments()
    if valid.isascii() or max(valid) <= "\uffff":
        yield from (text[start:end] for start, end in spans)
        return
    encoded = text.encode("utf-16-le", "surrogatepass")
    yield from (encoded[2 * start : 2 * end].decode("utf-16-le", "surrogatepass") for start, end in spans)
