"""German in Almanac's second world. How to read this file: dragoman/almanac/phrases.py."""

from __future__ import annotations

import re

from dragoman.almanac.phrases import Word

# In words.tsv: Things, places, jobs, events: singular. Animals: singular, plural; the dative plural takes -n.
GENDERS = {"der": "m", "die": "f", "das": "n"}
# determiner: endings by gender in nominative, accusative, dative; and of the adjective behind it
DER = {"m": ("der", "den", "dem"), "f": ("die", "die", "der"), "n": ("das", "das", "dem")}
EIN = {"m": ("ein", "einen", "einem"), "f": ("eine", "eine", "einer"), "n": ("ein", "ein", "einem")}
AFTER_DER = {"m": ("e", "en", "en"), "f": ("e", "e", "en"), "n": ("e", "e", "en")}
AFTER_EIN = {"m": ("er", "en", "en"), "f": ("e", "e", "en"), "n": ("es", "es", "en")}
# nouns that take -n or -en in all cases but the nominative
WEAK_N = "Löwe Affe Matrose Bauer".split()
WEAK_EN = "Elefant Bär Architekt Pilot Soldat Polizist Journalist Fotograf Student".split()
STEMS = {"teuer": "teur", "dunkel": "dunkl", "leise": "leis"}


def number(kind: str, value: int) -> str | None:
    """Nothing of its own."""
    return None


def noun(item: Word, case: int) -> str:
    """A noun in the singular, nominative 0, accusative 1, dative 2."""
    name = str(item)
    weak = "n" if name in WEAK_N else "en" if name in WEAK_EN else ""
    return name + weak if case else name


def adjective(item: Word, ending: str) -> str:
    """An adjective before its noun: großer, teures, dunkle."""
    return STEMS.get(str(item), str(item)) + ending


def phrase(determiner: str, case: int, *items: Word) -> str:
    """Determiner, adjectives, noun."""
    *adjectives, thing = items
    definite = determiner == "der"
    endings = AFTER_DER if definite else AFTER_EIN
    first = DER[thing.gender][case] if definite else EIN[thing.gender][case].replace("ein", determiner, 1)
    described = [adjective(item, endings[thing.gender][case]) for item in adjectives]
    return " ".join([first, *described, noun(thing, case)])


def very(quality: Word, thing: Word) -> str:
    """Ein sehr schöner Hut."""
    return f"{EIN[thing.gender][0]} sehr {adjective(quality, AFTER_EIN[thing.gender][0])} {thing}"


def comparative(item: Word) -> str:
    """Kleiner, größer, teurer."""
    return item.form(1) or f"{STEMS.get(str(item), item)}er"


def dative_plural(item: Word) -> str:
    """Hunden, Katzen, Kängurus."""
    name = item.forms[1]
    return name if name[-1] in "ns" else name + "n"


FORMS = {
    "": lambda *items: " ".join(map(str, items)),
    "der": lambda *items: phrase("der", 0, *items),
    "den": lambda *items: phrase("der", 1, *items),
    "dem": lambda *items: phrase("der", 2, *items),
    "einen": lambda *items: phrase("ein", 1, *items),
    "mein": lambda *items: phrase("mein", 0, *items),
    "meinen": lambda *items: phrase("mein", 1, *items),
    "in dem": lambda item: f"in {phrase('der', 2, item)}",
    "in den": lambda item: f"in {phrase('der', 1, item)}",
    "in einem": lambda item: f"in {phrase('ein', 2, item)}",
    "zu dem": lambda item: f"zu {phrase('der', 2, item)}",
    "ein sehr": very,
    "mehr": comparative,
    "viele": lambda count, item: f"{count} {item.forms[1]}",
    "pl": lambda item: item.forms[1],
    "n": dative_plural,
}  # fmt: skip
CONTRACTIONS = {"in dem": "im", "in das": "ins", "zu dem": "zum", "zu der": "zur"}


def finish(text: str) -> str:
    """Im Park, ins Museum, zur Hochzeit."""
    return re.sub(r"\b(in dem|in das|zu dem|zu der)\b", lambda match: CONTRACTIONS[match[0]], text)
