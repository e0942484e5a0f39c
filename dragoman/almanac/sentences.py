"""The sentence that a language has for a frame; the one door to the grammar files."""

from __future__ import annotations

import importlib
from types import ModuleType

from dragoman.almanac import words
from dragoman.almanac.frames import Saying
from dragoman.shared.errors import UsageError

GRAMMARS = {"en": "english", "de": "german", "fr": "french", "tr": "turkish"}


def grammar(language: str) -> ModuleType:
    """The grammar file of a language. Raises UsageError for a language that has none."""
    if language not in GRAMMARS:
        raise UsageError(f"almanac has no grammar for the language {language!r}; it has {', '.join(GRAMMARS)}")
    return importlib.import_module(f"dragoman.almanac.{GRAMMARS[language]}")


def sentence(saying: Saying, language: str) -> str:
    """A saying in one language, cased and punctuated."""
    text = getattr(grammar(language), saying.frame.intent)(**saying.frame.slots)[saying.template]
    return words.capitalised(text, language)
