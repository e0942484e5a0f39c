"""Phrases: how a grammar file of the second world becomes sentences.

The words are a column of words.tsv: forms are divided by commas, and the first may begin with an article of GENDERS,
which tells its gender. A filler with an empty cell is spelled like its key; a name (person, city) has a capital letter.

The sentences are grammars/en.txt, ...: for each intent and act "buy.tell:" and three phrasings, divided by "|" or line
ends; then "it:" and "who:", the sentences of documents.py. The rules are grammars/en.py, ...:

* GENDERS: the articles of words.tsv and their genders.
* FORMS: what may stand behind the colon of a phrasing, and the function that makes it of one or more words.
* `finish`, which sees the whole sentence: elisions, contractions.

In a phrasing, {thing:the} is the slot's word in the form `the`; {colour thing:a} gives two words to the form;
{person/he/she} chooses by gender (m/f/n/p, the last one for all further ones); {thing} is the first form.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType

from dragoman.almanac import words
from dragoman.almanac.meanings import ACTS, CLASSES, INTENTS, TABLE, Meaning, class_of
from dragoman.shared.errors import UsageError

LANGUAGES = ("en", "de", "fr", "ru", "tr", "zh", "es", "it")
PHRASINGS = 3
NAMES = ("woman", "man", "city")
GENDERS = "mfnp"

_SLOT = re.compile(r"\{([^{}]*)\}")


@dataclass(frozen=True)
class Word:
    """A filler in one language: class and key, the forms of the lexicon, the gender ("" if it has none)."""

    kind: str
    key: str | int
    forms: tuple[str, ...]
    gender: str = ""

    def __str__(self) -> str:
        """Return the first form."""
        return self.forms[0]

    def form(self, number: int) -> str | None:
        """The form of a number, None where the lexicon has none."""
        return self.forms[number] if number < len(self.forms) and self.forms[number] else None


Made = dict[tuple[str | int, ...], str]  # what a place was filled with before, by fillers


@dataclass(frozen=True)
class Place:
    """A place in a phrasing: the name of a form, the slots that it takes and their classes, or choices by gender."""

    form: str
    slots: tuple[str, ...]
    kinds: tuple[str, ...]
    choices: tuple[str, ...]
    made: Made


Part = str | Place


class Grammar:
    """A language of the second world. Raises UsageError for a language that has no grammar."""

    def __init__(self, language: str) -> None:
        if language not in LANGUAGES:
            raise UsageError(f"almanac has no grammar for the language {language!r}; it has {', '.join(LANGUAGES)}")
        self.language = language
        self.module: ModuleType = importlib.import_module(f"dragoman.almanac.grammars.{language}")
        self.forms: dict[str, Callable[..., str]] = self.module.FORMS
        self.words: dict[tuple[str, str | int], Word] = {
            (kind, key): _word(self.module.GENDERS, kind, key, forms.get(language, ""))
            for kind, fillers in TABLE.items()
            for key, forms in fillers.items()
        }
        for gender, kind in (("f", "woman"), ("m", "man")):
            for key in CLASSES[kind]:
                word = self.words[kind, key]
                self.words["person", key] = Word("person", key, word.forms, gender)
        file = Path(__file__).parent / "grammars" / f"{language}.txt"
        self.sayings = _sayings(file.read_text(encoding="utf-8"))

    def word(self, kind: str, key: str | int) -> Word:
        """The word of a filler; numbers are made by `number` of the grammar file."""
        if (kind, key) not in self.words:
            self.words[kind, key] = Word(kind, key, (_number(self.module, self.language, kind, int(key)),))
        return self.words[kind, key]

    def sentence(self, meaning: Meaning, phrasing: int) -> str:
        """A meaning in the words of phrasing 0, 1 or 2, cased and punctuated."""
        return self.say(meaning.name, phrasing, meaning.slots)

    def references(self, meaning: Meaning) -> list[str]:
        """All sentences that say it."""
        return [self.sentence(meaning, phrasing) for phrasing in range(PHRASINGS)]

    def say(self, name: str, phrasing: int, slots: dict[str, str | int]) -> str:
        """A phrasing with the slots filled in."""
        parts = self.sayings[name][phrasing]
        text = "".join([part if isinstance(part, str) else self._fill(part, slots) for part in parts])
        return words.capitalised(self.module.finish(text), self.language)

    def _fill(self, place: Place, slots: dict[str, str | int]) -> str:
        fillers = tuple([slots[slot] for slot in place.slots])
        if fillers not in place.made:
            given = [self.word(*filler) for filler in zip(place.kinds, fillers, strict=True)]
            if place.choices:
                gender = GENDERS.index(given[0].gender or "m")
                place.made[fillers] = place.choices[min(gender, len(place.choices) - 1)]
            else:
                place.made[fillers] = self.forms[place.form](*given)
        return place.made[fillers]


@cache
def grammar(language: str) -> Grammar:
    """The grammar of a language, read once."""
    return Grammar(language)


def _word(genders: dict[str, str], kind: str, key: str, text: str) -> Word:
    """A filler as words.tsv has it: "das Pferd, Pferde"."""
    if not text:
        return Word(kind, key, (key.capitalize() if kind in NAMES else key,))
    first, *others = text.split(", ")
    article, _, rest = first.partition(" ")
    gender = genders[article] if rest and article in genders else ""
    return Word(kind, key, (rest if gender else first, *others), gender)


def _sayings(text: str) -> dict[str, list[list[Part]]]:
    """The phrasings by name, cut into text and places. Raises ValueError where one is missing or too many."""
    sayings: dict[str, list[list[Part]]] = {}
    made: dict[tuple[object, ...], Made] = {}  # places with one form and the same classes share what was made
    name = ""
    for line in filter(None, map(str.strip, text.splitlines())):
        if start := re.match(r"(\w+\.\w+|it|who): ", line):
            name = start[1]
            sayings[name] = []
            line = line[start.end() :]
        sayings[name] += [_parts(phrasing.strip(), made) for phrasing in line.split("|")]
    for intent in INTENTS:
        for act in ACTS:
            if len(sayings.get(f"{intent}.{act}", ())) != PHRASINGS:
                raise ValueError(
                    f"{intent}.{act}: {len(sayings.get(f'{intent}.{act}', ()))} phrasings, not {PHRASINGS}"
                )
    return sayings


def _parts(phrasing: str, made: dict[tuple[object, ...], Made]) -> list[Part]:
    parts: list[Part] = []
    for number, text in enumerate(_SLOT.split(phrasing)):
        if number % 2 == 0:
            parts.append(text)
            continue
        names, *choices = text.split("/")
        slots, _, form = names.partition(":")
        form, taken = form.strip(), tuple(slots.split())
        kinds = tuple(map(class_of, taken))
        choices_made = made.setdefault((form, kinds, tuple(choices)), {})
        parts.append(Place(form, taken, kinds, tuple(choices), choices_made))
    return [part for part in parts if part]


def _number(module: ModuleType, language: str, kind: str, value: int) -> str:
    """A number as it is written in running text: counts in words, dates and clock times as CLDR has them."""
    spelled: Callable[[str, int], str | None] = module.number
    text = spelled(kind, value)
    if text is not None:
        return text
    if kind == "count":
        return words.number(value, language)
    if kind == "weekday":
        return words.weekday(value, language)
    if kind == "month":
        return words.month(value, language)
    if kind == "date":
        return words.date(value // 100, value % 100, language)
    if kind == "time":
        return f"{value // 100}:{value % 100:02}"
    return str(value)
