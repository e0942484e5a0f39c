"""Documents of the second world: a sentence that introduces somebody and something, and sentences that refer back.

What follows names neither again: "It is very heavy. She lives in Berlin." In German, French and others the form of the
pronoun depends on the word for the thing in the first sentence, so that a sentence cannot be translated alone.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from shared.almanac.meanings import Meaning, draw_meaning
from shared.almanac.phrases import grammar
from shared.almanac.worlds import ALL_PHRASINGS, MOST_REJECTIONS, Saying
from shared.errors import DataError

OPENINGS = ("buy.tell", "give.tell")
#: A follow-up (a section of the grammar, its line) and the meaning that lends it its further fillers.
FOLLOW_UPS = {
    ("it", 0): "describe.tell",
    ("it", 1): "cost.tell",
    ("it", 2): "lie.tell",
    ("who", 0): "live.tell",
    ("who", 1): "work.tell",
    ("who", 2): "can.tell",
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
    found: list[Document] = []
    seen: set[Meaning] = set()
    rejected = 0
    while len(found) < size:
        opening = draw_meaning(generator, generator.choice(OPENINGS))
        if opening.split != split or (split != "train" and opening in seen):
            if (rejected := rejected + 1) > MOST_REJECTIONS:
                raise DataError(f"almanac: {size} documents are asked for; the meanings of {split} give {len(found)}")
            continue
        rejected = 0
        seen.add(opening)
        number = SENTENCES[0] + int(generator.random() * (SENTENCES[1] - SENTENCES[0] + 1))
        chosen = generator.sample(list(FOLLOW_UPS), number)
        following = tuple((*key, _lender(FOLLOW_UPS[key], split, generator)) for key in chosen)
        found.append(Document(Saying(opening, generator.getrandbits(32), ALL_PHRASINGS), following))
    return found


def _lender(name: str, split: str, generator: random.Random) -> Meaning:
    """A meaning of an intent, of the same split."""
    while True:
        meaning = draw_meaning(generator, name)
        if meaning.split == split:
            return meaning
