"""Italian in Almanac's second world. How to read this file: dragoman/almanac/phrases.py."""

from __future__ import annotations

import re

from dragoman.almanac.phrases import Word

# In words.tsv: An article tells the gender, and is not elided here (una ape). Food: "i", "gli" and "le" are plurals.
GENDERS = {"un": "m", "uno": "m", "una": "f", "i": "m", "gli": "m", "le": "f"}
IMPURE = re.compile("s[^aeiou]|z|gn|ps|x|y")  # before these il is lo, un is uno, i is gli


def number(kind: str, value: int) -> str | None:
    """Nothing of its own."""
    return None


def is_plural(noun: Word) -> bool:
    """Return True if the food is a plural."""
    return noun.kind == "food" and str(noun)[-1] in "ie" and str(noun) not in SINGULAR_FOOD


SINGULAR_FOOD = ("pane", "sale", "pepe", "carne", "miele", "pesce")


def agreeing(quality: Word, noun: Word) -> str:
    """Lungo, lunga; grande."""
    name = str(quality)
    return name[:-1] + "a" if noun.gender == "f" and name.endswith("o") else name


def described(noun: Word, *qualities: Word) -> str:
    """A noun and its adjectives."""
    return " ".join([str(noun), *(agreeing(quality, noun) for quality in qualities)])


def article(name: str, gender: str, many: bool) -> str:
    """Il, lo, l', la; i, gli, le; with the space behind it."""
    vowel = name[0] in "aeiouè"
    if many:
        return "le " if gender == "f" else "gli " if vowel or IMPURE.match(name) else "i "
    if vowel:
        return "l'"
    return "la " if gender == "f" else "lo " if IMPURE.match(name) else "il "


def definite(noun: Word, *qualities: Word) -> str:
    """Il cane nero, lo studente, l'ape, gli spinaci."""
    return article(str(noun), noun.gender, is_plural(noun)) + described(noun, *qualities)


def indefinite(noun: Word, *qualities: Word) -> str:
    """Un cane, uno studente, una papera, un'ape."""
    name = str(noun)
    if noun.gender == "f":
        return ("un'" if name[0] in "aeiou" else "una ") + described(noun, *qualities)
    return ("uno " if IMPURE.match(name) else "un ") + described(noun, *qualities)


def plural(noun: Word) -> str:
    """Cani, oche, ricci, mucche; formiche."""
    name = str(noun)
    if name.endswith("a") and noun.gender == "f":
        return name[:-1] + ("he" if name[-2] in "cg" else "e")
    return name[:-1] + ("" if name.endswith("io") else "i")


FORMS = {
    "": lambda *items: " ".join(map(str, items)),
    "il": definite,
    "un": indefinite,
    "mio": lambda *items: f"{'la mia' if items[0].gender == 'f' else 'il mio'} {described(*items)}",
    "accordo": agreeing,
    "molti": lambda count, noun: f"{count} {plural(noun)}",
    "i": lambda noun: article(plural(noun), noun.gender, many=True) + plural(noun),
    "e": lambda noun: "ciono" if is_plural(noun) else "e",
    "è": lambda noun: "i sono" if is_plural(noun) else "'è",
}
JOINED = {"in": "ne", "a": "a", "di": "de", "da": "da"}
DOUBLED = {"il ": "l ", "lo ": "llo ", "la ": "lla ", "l'": "ll'", "i ": "i ", "gli ": "gli ", "le ": "lle "}


def finish(text: str) -> str:
    """Nel parco, nello studio, all'opera, dei gatti, degli orsi; ad Atene."""
    text = re.sub(r"\b(in|a|di|da) (il |lo |la |l'|i |gli |le )", lambda m: JOINED[m[1]] + DOUBLED[m[2]], text)
    return re.sub(r"\ba (?=[aA])", "ad ", text)
