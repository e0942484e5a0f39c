"""Spanish in Almanac's second world. How to read this file: dragoman/almanac/phrases.py."""

from __future__ import annotations

import re

from dragoman.almanac.phrases import Word

# In words.tsv: Animals: singular; the plural is made. Qualities: masculine; the feminine is made. Food: "los" and
# "las" are plurals.
GENDERS = {"un": "m", "una": "f", "los": "m", "las": "f"}
#: Feminine nouns with a stressed a at the beginning: el águila pequeña.
STRESSED_A = ("águila",)


def number(kind: str, value: int) -> str | None:
    """Nothing of its own."""
    return None


def is_plural(noun: Word) -> bool:
    """Return True if a word is a plural: food that is counted, and mathematics."""
    return (noun.kind == "food" or noun.key == "mathematics") and str(noun).endswith("s")


def feminine(noun: Word) -> bool:
    """Return True if a noun is feminine, whatever its article."""
    return noun.gender == "f" or str(noun) in STRESSED_A


def agreeing(quality: Word, noun: Word) -> str:
    """Pesado, pesada; grande, azul."""
    name = str(quality)
    return name[:-1] + "a" if feminine(noun) and name.endswith("o") else name


def described(noun: Word, *qualities: Word) -> str:
    """A noun and its adjectives."""
    return " ".join([str(noun), *(agreeing(quality, noun) for quality in qualities)])


def definite(noun: Word, *qualities: Word) -> str:
    """El oso, la oveja, los higos."""
    many = is_plural(noun)
    article = ("las" if many else "la") if noun.gender == "f" else ("los" if many else "el")
    return f"{article} {described(noun, *qualities)}"


def plural(noun: Word) -> str:
    """Gatos, leones, peces, delfines."""
    name = str(noun)
    if name[-1] in "aeiouáé":
        return f"{name}s"
    plain = re.sub("[áéíóú](?=[ns]$)", lambda match: "aeiou"["áéíóú".index(match[0])], name)
    return plain[:-1] + "ces" if plain.endswith("z") else f"{plain}es"


FORMS = {
    "": lambda *items: described(*items) if items[0].kind == "thing" else " ".join(map(str, items)),
    "el": definite,
    "un": lambda *items: f"{'una' if items[0].gender == 'f' else 'un'} {described(*items)}",
    "acuerdo": agreeing,
    "varios": lambda count, noun: f"{count} {plural(noun)}",
    "los": lambda noun: f"{'las' if feminine(noun) else 'los'} {plural(noun)}",
    "n": lambda noun: "n" if is_plural(noun) else "",
}


def finish(text: str) -> str:
    """Al museo, del concierto; a capital letter behind the opening question mark."""
    text = re.sub(r"\b(a|de) el\b", lambda match: "al" if match[1] == "a" else "del", text)
    return re.sub(r"^¿(.)", lambda match: "¿" + match[1].upper(), text)
