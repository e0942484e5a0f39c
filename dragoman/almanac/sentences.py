"""The sentence that a language has for a frame.

The sentences of an intent are in templates/en.txt, ...: six that mean the same, a line each. {city} is the word of what
the slot has. What stands behind a colon is done to that word, as {person:de} becomes "d'Anna" (french.py, turkish.py).
The words are in english.py, ...:

* WORDS: what makes the word of a value, by slot; numbers are spelled out, and other values are their own words.
* PARTS: by intent, what makes the words of further places, or other words, of all its slots.
* Word: the class of words, whose ``__format__`` does what stands behind a colon.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from dragoman.almanac import words
from dragoman.almanac.frames import INTENTS, Saying
from dragoman.shared.errors import UsageError

GRAMMARS = {"en": "english", "de": "german", "fr": "french", "tr": "turkish"}
#: Of the slots whose words every language finds in one way.
COMMON: dict[str, Callable[[int, str], str]] = {"weekday": words.weekday, "month": words.month, "floor": words.ordinal}


def grammar(language: str) -> ModuleType:
    """The grammar file of a language. Raises UsageError for a language that has none."""
    if language not in GRAMMARS:
        raise UsageError(f"almanac has no grammar for the language {language!r}; it has {', '.join(GRAMMARS)}")
    return importlib.import_module(f"dragoman.almanac.{GRAMMARS[language]}")


@cache
def templates(language: str) -> dict[str, list[str]]:
    """The sentences of a language by intent, with places for words."""
    text = (Path(__file__).parent / "templates" / f"{language}.txt").read_text(encoding="utf-8")
    by_intent = {part[0]: part[1].split("\n") for part in re.findall(r"^(\w+): (.*(?:\n .*)*)", text, re.MULTILINE)}
    return {intent: [line.strip() for line in lines] for intent, lines in by_intent.items()}


def places(language: str, intent: str, slots: Mapping[str, Any]) -> dict[str, str]:
    """The words that stand in the places of an intent's sentences."""
    rules = grammar(language)
    like = dict(zip(INTENTS[intent].distinct[1:], INTENTS[intent].distinct, strict=False))  # other: a second city
    made = {slot: _word(rules, language, like.get(slot, slot), value) for slot, value in slots.items()}
    made |= rules.PARTS[intent](**slots) if intent in rules.PARTS else {}
    return {place: rules.Word(word) for place, word in made.items()}


def _word(rules: ModuleType, language: str, slot: str, value: Any) -> str:
    if slot in rules.WORDS:
        return str(rules.WORDS[slot](value))
    if slot in COMMON:
        return COMMON[slot](value, language)
    if slot == "person":
        return words.name(value)
    return words.number(value, language) if isinstance(value, int) else str(value)


def sentence(saying: Saying, language: str) -> str:
    """A saying in one language, cased and punctuated."""
    intent = saying.frame.intent
    text = templates(language)[intent][saying.template].format(**places(language, intent, saying.frame.slots))
    return words.capitalised(text, language)
