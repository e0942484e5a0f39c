"""French in Almanac's second world. How to read this file: dragoman/almanac/phrases.py."""

from __future__ import annotations

import re

from dragoman.almanac.phrases import Word

# In words.tsv: Animals: singular, and a plural that is not -s. Qualities: masculine, and a feminine that is not -e.
GENDERS = {"un": "m", "une": "f", "les": "p"}
VOWEL = "[aeiouyhâàéèêîôœ]"  # and most h; two words with an aspirated one are named in `finish`


def number(kind: str, value: int) -> str | None:
    """Clock times as 7 h 45."""
    return f"{value // 100} h {value % 100:02}" if kind == "time" else None


def agreeing(quality: Word, noun: Word) -> str:
    """An adjective with the gender of its noun: lourd, lourde, sèche."""
    if noun.gender != "f":
        return str(quality)
    return quality.form(1) or str(quality).removesuffix("e") + "e"


def phrase(articles: tuple[str, str, str], noun: Word, *qualities: Word) -> str:
    """Article, noun, adjectives; before a vowel `le` becomes l', `mon` stands for `ma`."""
    article = articles["mfp".index(noun.gender)]
    return " ".join([article, str(noun), *(agreeing(quality, noun) for quality in qualities)])


def plural(noun: Word) -> str:
    """Chiens, chevaux, souris."""
    return noun.form(1) or f"{noun}s"


FORMS = {
    "": lambda *items: " ".join(map(str, items)),
    "le": lambda *items: phrase(("le", "la", "les"), *items),
    "un": lambda *items: phrase(("un", "une", "des"), *items),
    "mon": lambda *items: phrase(("mon", "ma", "mes"), *items),
    "du": lambda *items: phrase(("du", "de la", "des"), *items),
    "accord": agreeing,
    "plusieurs": lambda count, noun: f"{count} {plural(noun)}",
    "pl": plural,
}
CONTRACTIONS = {"de le": "du", "de les": "des", "à le": "au", "à les": "aux"}


def finish(text: str) -> str:
    """L'école, qu'Anna, d'ail, mon écharpe, du musée; a space before the question mark."""
    text = re.sub(
        rf"\b(le|la|de|que) (?={VOWEL})(?!Hambourg|hongrois)", lambda match: match[1][:-1] + "'", text, flags=re.I
    )
    text = re.sub(rf"\bdu (?={VOWEL})", "de l'", text)
    text = re.sub(rf"\bma (?={VOWEL})", "mon ", text)
    text = re.sub(r"\b(de|à) (le|les)\b(?!-)", lambda match: CONTRACTIONS[match[0]], text)
    return text.replace("?", " ?")
