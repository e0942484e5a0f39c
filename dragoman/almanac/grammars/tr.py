"""Turkish in Almanac's second world. How to read this file: dragoman/almanac/phrases.py.

A form is a suffix: {place:DA} is müzede or okulda. A and I stand for the vowels of harmony, D for d or t, and what is
in parentheses is there after a vowel, or after a consonant (see `suffixed`).
"""

from __future__ import annotations

import re
from functools import partial

from dragoman.almanac import words
from dragoman.almanac.phrases import Word

# In words.tsv: The second form is the stem before a vowel, where the final consonant is softened or a vowel is lost.
GENDERS: dict[str, str] = {}
FRONT, BACK, HARD = "eiöü", "aıou", "fstkçşhp"
FRONT_ANYWAY = ("festival", "katedral")
#: A compound that ends in a possessive, and takes n before its suffix.
COMPOUNDS = ("tereyağı",)
SUFFIXES = (
    "DA", "DAn", "(y)A", "(y)I", "(n)In", "(s)I", "(I)m", "(I)mI", "lAr", "lArI", "lArDAn", " mI", "DA mI",
    "mAk", "mAyI", "(y)AcAk", "(y)AcAk mI",
)  # fmt: skip


def number(kind: str, value: int) -> str | None:
    """Clock times as 7.45; months and days in lower case, as without a date."""
    if kind == "time":
        return f"{value // 100}.{value % 100:02}"
    if kind in ("month", "weekday"):
        return (words.month if kind == "month" else words.weekday)(value, "tr").lower()
    return None


def harmony(text: str) -> tuple[str, str]:
    """A and I after the last vowel of a text."""
    last = next(letter for letter in reversed(text.replace("I", "ı").lower()) if letter in FRONT + BACK)
    front = last in FRONT or text.endswith(FRONT_ANYWAY)
    return "e" if front else "a", ("ü" if front else "u") if last in "oöuü" else ("i" if front else "ı")


def suffixed(suffix: str, *items: Word) -> str:
    """Words with a suffix behind the last one: kitap and (y)I give kitabı; Paris and DA give Paris'te."""
    before, last = [str(item) for item in items[:-1]], items[-1]
    name, sound = str(last), str(last)
    if last.kind == "time":  # 7.45 is spoken: yedi kırk beş
        hour, minute = divmod(int(last.key), 100)
        sound = words.number(minute or hour, "tr")
    if name in COMPOUNDS and suffix != " mI":
        sound = name = f"{name}n"
    buffer, rest = re.match(r"(?:\((.)\))?(.*)", suffix).groups()  # type: ignore[union-attr]
    softened = last.form(1) or name
    if buffer and (buffer in "AI") != (softened[-1] in FRONT + BACK):
        rest = buffer + rest
    if rest[0] in "AI" or (buffer and softened[-1] in FRONT + BACK):
        sound = name = softened if last.form(1) else name
    tail = ""
    for letter in rest:
        a, i = harmony(tail if set(tail) & set(FRONT + BACK) else sound)
        tail += {"A": a, "I": i, "D": "t" if (sound + tail)[-1] in HARD else "d"}.get(letter, letter)
    apostrophe = "'" if last.kind in ("person", "woman", "man", "city", "time") and suffix != " mI" else ""
    return " ".join([*before, f"{name}{apostrophe}{tail}"])


def with_article(*items: Word, suffix: str = "") -> str:
    """Kırmızı bir çanta."""
    last = suffixed(suffix, items[-1]) if suffix else str(items[-1])
    return " ".join([*map(str, items[:-1]), "bir", last])


FORMS = {
    "": lambda *items: " ".join(map(str, items)),
    **{suffix.strip(): partial(suffixed, suffix) for suffix in SUFFIXES},
    "(y)A": partial(suffixed, "(y)A"),
    "bir": with_article,
    "bir mI": partial(with_article, suffix=" mI"),
}


def finish(text: str) -> str:
    """Nothing to be done."""
    return text
