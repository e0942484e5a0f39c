"""Changes to text before it is tokenised: case, punctuation, noted events."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Protocol

from dragoman.shared.described import Described
from dragoman.shared.errors import UsageError
from dragoman.shared.ranges import PositiveInt
from dragoman.shared.text import languages
from dragoman.shared.text.case import base, lower
from dragoman.shared.text.piece_file import composed


class Normalizer(Protocol):
    """Text to text; a described object, so that a model folder can say which ones its tokenizer needs."""

    def __call__(self, text: str, language: str | None) -> str:
        """Return the changed text; the language is None if the row does not say it."""
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
    """Lower case by the rules of the language, in normal form C."""

    def __call__(self, text: str, language: str | None) -> str:
        """Return the text in lower case."""
        return composed(lower(text, language))


class RemovePunctuation(Described):
    """Put a space for each punctuation mark (Unicode category P), and one space for several; in normal form C.

    Args:
        keep: marks that stay between two letters or digits, and only there: "it's" keeps its apostrophe, "'tis" does
            not; if any does, so do a language's own: the middle dot of Catalan and Occitan, geresh and gershayim of
            Hebrew and Yiddish. However an apostrophe, a geresh or a gershayim is typed there (’, ʼ, ״), it becomes the
            plain one. Armenian's marks of tone stand inside words, which they do not divide.

    Raises:
        UsageError: if ``keep`` holds something that is not punctuation.
    """

    def __init__(self, *, keep: str = "'") -> None:
        wrong = [mark for mark in keep if not _is_punctuation(mark)]
        if wrong:
            raise UsageError(f"keep must hold punctuation marks only, not {''.join(wrong)!r}")
        self.keep = keep

    def __call__(self, text: str, language: str | None) -> str:
        """Return the text without punctuation."""
        code = base(language)
        kept = self.keep + _KEPT.get(code, "") if self.keep else ""
        padded = f" {composed(text)} "
        if code == "hy":
            padded = padded.translate(_WITHIN_ARMENIAN)
        changed = []
        for before, character, after in zip(padded, padded[1:], padded[2:], strict=False):
            plain = _PLAIN.get(character, character)
            if plain in kept and _is_word(before) and _is_word(after):
                changed.append(plain)
            else:
                changed.append(character if character.isalnum() or not _is_punctuation(character) else " ")
        return " ".join("".join(changed).split())


#: Marks inside words, beside those that are kept in all languages.
_KEPT = {"ca": "·", "oc": "·", "he": '"', "yi": '"'}
#: The plain form of marks that are typed in several ways; ʻ and ʼ are letters to Unicode.
_PLAIN = dict.fromkeys("’‘‛ʻʼ＇׳", "'") | dict.fromkeys("״”“„", '"')
_WITHIN_ARMENIAN = dict.fromkeys(map(ord, "՛՜՞"), "")
_JOINERS = "\u200c\u200d"


def _is_punctuation(character: str) -> bool:
    return unicodedata.category(character).startswith("P")


def _is_word(character: str) -> bool:
    """Tell whether a character is part of a word: a letter, a digit, a mark on one, or what joins two."""
    return character.isalnum() or character in _JOINERS or unicodedata.category(character).startswith("M")


class RemoveEvents(Described):
    """Remove what a transcriber noted and nobody said: "(Applause)", "[Music]", "（笑声）".

    An event is a short text in brackets (round, square, 【】 or 〔〕, of either width) that, behind quotes and signs of
    money and numbers,

    - begins with a capital letter or a sign such as ♪, or is nothing but marks; or
    - is, or stands in a language, in a script without capitals, as Chinese, Arabic or Hindi, and names laughter,
      applause, cheers or music: other brackets there are text, as "我（不）知道" and "世卫组织（WHO）".

    Between words that spaces divide, one space stays in its place.

    Args:
        words: the most words that an event has; in scripts that do not divide words by spaces, four characters are
            counted as a word, and marks on them not at all.
    """

    def __init__(self, *, words: PositiveInt = 3) -> None:
        self.words = words

    def __call__(self, text: str, language: str | None) -> str:
        """Return the text without events."""
        code = base(language)
        spaced = code not in languages.LANGUAGES or languages.spaced(code)
        parts, end = [], 0
        for match in _BRACKETS.finditer(text):
            inside = next(filter(None, match.groups()), "").strip()
            if inside and self._is_event(inside, capitals=code not in languages.LANGUAGES or languages.cased(code)):
                parts.append(text[end : match.start()])
                end = match.end()
        whole = ""
        for part in filter(str.strip, [*parts, text[end:]]):
            gap = " " if spaced or whole[-1:].isspace() or part[:1].isspace() else ""
            whole = whole.rstrip() + gap + part.lstrip()
        return whole.strip()

    def _is_event(self, inside: str, *, capitals: bool) -> bool:
        first = next((sign for sign in inside if unicodedata.category(sign) not in _BEFORE), "")
        if first.isalpha() and not (capitals and first.lower() != first.upper()):
            event = _SOUNDS.search(inside) is not None
        else:
            event = not (first.islower() or first.isnumeric())
        characters = sum(not unicodedata.category(sign).startswith("M") for sign in _UNSPACED.findall(inside))
        return event and len(_UNSPACED.sub(" ", inside).split()) + characters / 4 <= self.words


_PAIRS = ("(（", ")）"), ("\\[［", "\\]］"), ("【", "】"), ("〔", "〕")
#: Brackets around what has none of its kind, two of them at once where both are doubled.
_BRACKETS = re.compile("|".join(f"[{a}]{{{n}}}([^{a}{b}]*)[{b}]{{{n}}}" for a, b in _PAIRS for n in (2, 1)))
#: What may stand before the first letter or digit: marks, currencies, signs of numbers, spaces.
_BEFORE = {"Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Sc", "Sm", "Zs"}
#: Thai, Lao, Tibetan, Burmese, Khmer, Japanese and Chinese.
_UNSPACED = re.compile("[\u0e00-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
#: Laughter, applause, cheers and music, by what their names have in common in the scripts without capitals, or English.
_SOUNDS = re.compile(
    "笑|掌[声聲]|鼓掌|拍手|[欢歡]呼|歓声|喝[彩采]|音[乐樂楽]|웃음|박수|환호|음악|ضحك|تصفيق|هتاف|موسيقى|"
    "خنده|تشویق|کف زدن|موسیقی|צחוק|מחיאות|תשואות|מו[זס]יקה|หัวเราะ|ปรบมือ|ดนตรี|हँसी|हंसी|तालिय|संगीत|"
    "სიცილ|აპლოდისმენტ|ტაში|მუსიკა|laugh|applau|cheer|music",
    re.IGNORECASE,
)


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
