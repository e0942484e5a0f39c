"""The two worlds of Almanac: what is drawn for a split, and how a language says it.

World 1 (frames.py, templates/) has small even classes and six templates with one translation each. World 2
(meanings.py, grammars/) has skewed and correlated meanings and three phrasings of each, drawn for every language apart.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from dragoman.almanac import frames, sentences
from dragoman.almanac.frames import fraction
from dragoman.almanac.meanings import Meaning, draw_meaning
from dragoman.almanac.phrases import LANGUAGES, PHRASINGS, grammar
from dragoman.shared.errors import DataError

MOST_REJECTIONS = 20_000
SEEN_PHRASINGS = (0, 1)
NEW_PHRASINGS = (2,)
ALL_PHRASINGS = tuple(range(PHRASINGS))


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


@dataclass(frozen=True)
class World:
    """A world, as the writers of speech use it.

    Attributes:
        number: its number.
        languages: that have a grammar.
        splits: of speech.
        draw: returns sayings of a split, as many as asked for; the first do not depend on that.
        sentence: the sentence by which a saying is said in a language.
        references: further sentences of that language that say the same.
    """

    number: int
    languages: tuple[str, ...]
    splits: tuple[str, ...]
    draw: Callable[[str, int, random.Random], Sequence[Any]]
    sentence: Callable[[Any, str], str]
    references: Callable[[Any, str], list[str]]


#: The first has small even classes and one translation of each template; the second three phrasings of each meaning.
WORLDS = {
    1: World(1, tuple(sentences.GRAMMARS), frames.SPLITS, frames.draw, sentences.sentence, lambda saying, language: []),
    2: World(
        2,
        LANGUAGES,
        ("train", "dev", "tst-COMMON", "tst-HE", "tst-voices", "tst-phrases"),
        lambda split, size, generator: draw(KINDS[split], size, generator),
        Saying.sentence,
        Saying.references,
    ),
}
