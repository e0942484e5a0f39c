"""Documents of the second world: a sentence that introduces somebody and something, and sentences that refer back.

What follows names neither again: "It is very heavy. She lives in Berlin." In German, French and others the form of the
pronoun depends on the word for the thing in the first sentence, so that a sentence cannot be translated alone.

A sentence that follows says so little that it comes again. So that no sentence of a test is in a training text, its one
word or number decides about its split: if "It is very heavy." is said in training, it is not said in dev and tests.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cache

from dragoman.almanac.frames import fraction
from dragoman.almanac.meanings import CLASSES, DEV_SHARE, TEST_SHARE, Meaning, class_of, draw_meaning
from dragoman.almanac.phrases import grammar
from dragoman.almanac.worlds import ALL_PHRASINGS, MOST_REJECTIONS, Saying
from dragoman.shared.errors import DataError

OPENINGS = ("buy.tell", "give.tell")
#: A follow-up (a section of the grammar, its line), the meaning that lends it a filler, and the slot of that.
FOLLOW_UPS = {
    ("it", 0): ("describe.tell", "quality"),
    ("it", 1): ("cost.tell", "price"),
    ("it", 2): ("lie.tell", "place"),
    ("who", 0): ("live.tell", "city"),
    ("who", 1): ("work.tell", "place"),
    ("who", 2): ("can.tell", "activity"),
}
SENTENCES = (3, 6)  # after the first


@dataclass(frozen=True)
class Document:
    """The first saying, and for each later sentence its section, its line and its slots."""

    opening: Saying
    following: tuple[tuple[str, int, Meaning], ...]

    def lines(self, language: str) -> list[str]:
        """The sentences in one language."""
        first = self.opening.meaning.slots
        return [
            self.opening.sentence(language),
            *(
                grammar(language).say(section, line, lent.slots | {"thing": first["thing"], "person": first["person"]})
                for section, line, lent in self.following
            ),
        ]


def draw_documents(split: str, size: int, generator: random.Random) -> list[Document]:
    """`size` documents whose first meanings are of a split. Raises DataError when there are fewer."""
    documents: list[Document] = []
    seen: set[Meaning] = set()
    rejected = 0
    while len(documents) < size:
        opening = draw_meaning(generator, generator.choice(OPENINGS))
        if opening.split != split or (split != "train" and opening in seen):
            if (rejected := rejected + 1) > MOST_REJECTIONS:
                raise DataError(
                    f"almanac: {size} documents are asked for; the meanings of {split} give {len(documents)}"
                )
            continue
        rejected = 0
        seen.add(opening)
        number = SENTENCES[0] + int(generator.random() * (SENTENCES[1] - SENTENCES[0] + 1))
        chosen = generator.sample(list(FOLLOW_UPS), number)
        following = tuple((*key, _lender(key, split, generator)) for key in chosen)
        documents.append(Document(Saying(opening, generator.getrandbits(32), ALL_PHRASINGS), following))
    return documents


def _lender(key: tuple[str, int], split: str, generator: random.Random) -> Meaning:
    """A meaning whose filler a follow-up may show in a split."""
    name, slot = FOLLOW_UPS[key]
    while True:
        meaning = draw_meaning(generator, name)
        if split_of(key, meaning.slots[slot]) == split:
            return meaning


def split_of(key: tuple[str, int], filler: str | int) -> str:
    """Return the one of train, dev and test in which a follow-up shows a filler."""
    order = _order(key)
    place = order[filler] / len(order)
    if place < DEV_SHARE:
        return "dev"
    return "test" if place < DEV_SHARE + TEST_SHARE else "train"


@cache
def _order(key: tuple[str, int]) -> dict[str | int, int]:
    """The places of a follow-up's fillers in an order by a hash; by chance alone, dev may get one city of 45."""
    _, slot = FOLLOW_UPS[key]
    fillers = sorted(CLASSES[class_of(slot)], key=lambda filler: fraction("follow-up", *key, filler))
    return {filler: place for place, filler in enumerate(fillers)}
