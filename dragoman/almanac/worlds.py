"""The two worlds of Almanac: what is drawn for a split, and how a language says it.

World 1 (frames.py, templates/) has small even classes and six templates with one translation each. World 2
(meanings.py, grammars/) has skewed and correlated meanings and three phrasings of each, drawn for every language apart.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from dragoman.almanac import frames, sentences
from dragoman.almanac.frames import fraction
from dragoman.almanac.meanings import Meaning, draw_meaning
from dragoman.almanac.phrases import LANGUAGES, PHRASINGS, grammar
from dragoman.shared.errors import DataError

MOST_REJECTIONS = 20_000
SEEN_PHRASINGS = (0, 1)
NEW_PHRASINGS = (2,)
ALL_PHRASINGS = tuple(range(PHRASINGS))


class World(Protocol):
    """The interface of a world, as the writers of speech use it."""

    number: int
    languages: tuple[str, ...]
    splits: tuple[str, ...]

    def draw(self, split: str, size: int, generator: random.Random) -> list[Any]:
        """Sayings of a split, all different; the first do not depend on `size`."""

    def sentence(self, saying: Any, language: str) -> str:
        """Return the sentence that is said in a language."""

    def references(self, saying: Any, language: str) -> list[str]:
        """Further sentences that say the same."""


class FirstWorld:
    """Even classes, six templates, one translation."""

    number: int = 1
    languages: tuple[str, ...] = tuple(sentences.GRAMMARS)
    splits: tuple[str, ...] = frames.SPLITS

    def draw(self, split: str, size: int, generator: random.Random) -> list[frames.Saying]:
        """Sayings of a split, all different; the first do not depend on `size`."""
        return frames.draw(split, size, generator)

    def sentence(self, saying: frames.Saying, language: str) -> str:
        """Return the sentence that is said in a language."""
        return sentences.sentence(saying, language)

    def references(self, saying: frames.Saying, language: str) -> list[str]:
        """None: a translation is a function of its source."""
        return []


@dataclass(frozen=True)
class Saying:
    """A meaning, and the number from which each language takes one of `phrasings`, independently of the others."""

    meaning: Meaning
    number: int
    phrasings: tuple[int, ...]

    def phrasing(self, language: str) -> int:
        """The phrasing of a language."""
        return self.phrasings[int(fraction("phrasing", self.number, language) * len(self.phrasings))]

    def sentence(self, language: str) -> str:
        """The sentence of a language."""
        return grammar(language).sentence(self.meaning, self.phrasing(language))

    def references(self, language: str) -> list[str]:
        """The other sentences of the language that say the same, in the order of its grammar."""
        said = self.phrasing(language)
        texts = grammar(language).references(self.meaning)
        return [text for number, text in enumerate(texts) if number != said]


@dataclass(frozen=True)
class Kind:
    """A kind of test or training data: the split of its meanings, and how they are said."""

    split: str
    phrasings: tuple[int, ...]
    distinct: bool = True  # no meaning twice; training data repeat, as the world is skewed


KINDS = {
    "train": Kind("train", SEEN_PHRASINGS, distinct=False),
    "wide": Kind("train", ALL_PHRASINGS, distinct=False),
    "dev": Kind("dev", SEEN_PHRASINGS),
    "test": Kind("test", SEEN_PHRASINGS),
    "test-new": Kind("test", NEW_PHRASINGS),
    "tst-COMMON": Kind("test", SEEN_PHRASINGS),
    "tst-voices": Kind("test", SEEN_PHRASINGS),
    "tst-phrases": Kind("test", NEW_PHRASINGS),
    "tst-HE": Kind("tst-HE", NEW_PHRASINGS),
}


def draw(
    kind: Kind, size: int, generator: random.Random, keep: Callable[[Meaning], bool] | None = None
) -> list[Saying]:
    """`size` sayings of a kind, the first `n` of which do not depend on `size`.

    Raises DataError when its meanings give fewer.
    """
    sayings: list[Saying] = []
    seen: set[Meaning] = set()
    rejected = 0
    while len(sayings) < size:
        meaning = draw_meaning(generator)
        fits = meaning.split == kind.split and not (kind.distinct and meaning in seen)
        fits = fits and (keep is None or keep(meaning))
        if fits:
            sayings.append(Saying(meaning, generator.getrandbits(32), kind.phrasings))
            rejected = 0
            if kind.distinct:
                seen.add(meaning)
        elif (rejected := rejected + 1) > MOST_REJECTIONS:
            raise DataError(f"almanac: {size} sentences are asked for; the meanings of the split give {len(sayings)}")
    return sayings


class SecondWorld:
    """Skewed and correlated meanings, three phrasings of each."""

    number: int = 2
    languages: tuple[str, ...] = LANGUAGES
    splits: tuple[str, ...] = ("train", "dev", "tst-COMMON", "tst-HE", "tst-voices", "tst-phrases")

    def draw(self, split: str, size: int, generator: random.Random) -> list[Saying]:
        """Sayings of a spoken split; the first do not depend on `size`."""
        return draw(KINDS[split], size, generator)

    def sentence(self, saying: Saying, language: str) -> str:
        """Return the sentence that is said in a language."""
        return saying.sentence(language)

    def references(self, saying: Saying, language: str) -> list[str]:
        """All other phrasings."""
        return saying.references(language)


WORLDS: dict[int, World] = {1: FirstWorld(), 2: SecondWorld()}
