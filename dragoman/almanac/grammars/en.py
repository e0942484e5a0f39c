"""English in Almanac's second world. How to read this file: dragoman/almanac/phrases.py."""

from __future__ import annotations

import re

from dragoman.almanac.phrases import Word

GENDERS: dict[str, str] = {}
PLURALS = {"sheep": "sheep", "mouse": "mice", "fish": "fish", "goose": "geese", "wolf": "wolves"}
LANGUAGES = (
    "english german french russian turkish chinese spanish italian greek latin arabic japanese portuguese polish dutch "
    "swedish hungarian czech finnish danish norwegian hebrew"
).split()
# comparatives that are not -er
COMPARATIVES = {
    "big": "bigger", "thin": "thinner", "hot": "hotter", "wet": "wetter", "sweet": "sweeter", "dry": "drier",
    "heavy": "heavier", "dirty": "dirtier", "ugly": "uglier", "funny": "funnier", "beautiful": "more beautiful",
    "expensive": "more expensive", "dangerous": "more dangerous", "useful": "more useful", "famous": "more famous",
    "simple": "simpler", "wide": "wider", "strange": "stranger",
}  # fmt: skip
# what follows "it will"
WEATHER = {
    "rain": "rain", "snow": "snow", "wind": "be windy", "fog": "be foggy", "sun": "be sunny", "storm": "be stormy",
}  # fmt: skip


def number(kind: str, value: int) -> str | None:
    """Nothing of its own."""
    return None


def word(item: Word) -> str:
    """A word as it is spelled; languages have a capital letter."""
    return str(item).capitalize() if item.key in LANGUAGES else str(item)


def plural(item: Word) -> str:
    """Dogs, foxes, butterflies, mice."""
    noun = str(item)
    if noun in PLURALS:
        return PLURALS[noun]
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return noun[:-1] + "ies"
    return noun + ("es" if re.search("(s|x|sh|ch)$", noun) else "s")


def comparative(item: Word) -> str:
    """Smaller, bigger, more useful."""
    adjective = str(item)
    return COMPARATIVES.get(adjective, adjective + ("r" if adjective.endswith("e") else "er"))


FORMS = {
    "": lambda *items: " ".join(map(word, items)),
    "a": lambda item: f"a {item}",
    "s": plural,
    "many": lambda count, item: f"{count} {plural(item)}",
    "more": comparative,
    "is": lambda item: "are" if str(item).endswith("s") else "is",  # food
    "be": lambda item: WEATHER[str(item)],
}


def finish(text: str) -> str:
    """An before a vowel."""
    return re.sub(r"\ba (?=[aeiou](?!niv|seful))", "an ", text)
