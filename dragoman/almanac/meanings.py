"""Meanings: what a sentence of the second world says, before any language says it.

A meaning is an intent (`buy`), one of its two acts (`tell`: somebody bought something; `ask`: did somebody buy it?)
and a filler for each slot. A language has three phrasings of each intent and act (grammars/). Only the phrasing is
drawn when a meaning is said, for source and target independently: a translation is not a function of its source.

Meanings are skewed and correlated, equally in all languages, so that text alone tells which words mean the same:

    P(filler | slot, intent, fillers before) ~ rank^-0.6 exp(1.5 (2u - 1)) prod over fillers before of exp(4 (2v - 1))

where u in [0, 1) is a hash of intent, slot and filler, and v one of the two fillers; numbers have no affinities. What a
meaning may stand in is a property of the meaning and not of a seed, a size or a run:

* a fifth of all combinations of an intent's first two fillers is held out: they occur in tst-HE only;
* of the other meanings a tenth is for dev and a tenth for tests, by a hash; the rest is for training;
* a language pair has words of its own that its parallel text never shows (`withheld`): a tenth of the fillers.
"""

from __future__ import annotations

import bisect
import csv
import math
import random
from array import array
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import accumulate
from operator import mul
from pathlib import Path

from dragoman.almanac.frames import fraction

RANK_EXPONENT = 0.6
INTENT_EXPONENT = 0.4  # of the rank of an intent
PREFERENCE = 1.5  # of an intent for fillers
AFFINITY = 4.0  # of two fillers for each other
TELL_SHARE = 0.6  # of meanings; the others ask
HELD_OUT_SHARE = 0.2
DEV_SHARE = 0.1
TEST_SHARE = 0.1
WITHHELD_SHARE = 0.1
MOST_KEPT = 1 << 14  # tables of weights, half a kilobyte each: most sentences need those of others

#: The fillers of each class of words in each language (words.tsv): by class and key, the forms by language.
TABLE: dict[str, dict[str, dict[str, str]]] = {}
with (Path(__file__).parent / "words.tsv").open(encoding="utf-8", newline="") as _file:
    for _row in csv.DictReader(_file, delimiter="\t", quoting=csv.QUOTE_NONE):
        TABLE.setdefault(_row.pop("class"), {})[_row.pop("key")] = _row
#: Classes that are small and the same for all language pairs; the other classes of the table are open.
CLOSED = ("colour", "weather")
OPEN = tuple(kind for kind in TABLE if kind not in CLOSED)
#: Classes of numbers.
NUMBERS: dict[str, tuple[int, ...]] = {
    "count": tuple(range(2, 13)),
    "price": tuple(range(2, 400)),
    "year": tuple(range(1900, 2025)),
    "kilometres": tuple(range(100, 3000, 10)),
    "degrees": tuple(range(2, 37)),
    "room": tuple(range(100, 500)),
    "platform": tuple(range(2, 21)),
    "weekday": tuple(range(7)),  # 0 is Monday
    "month": tuple(range(1, 13)),
    "date": tuple(100 * month + day for month in range(1, 13) for day in range(2, 29)),
    "time": tuple(100 * hour + minute for hour in range(7, 21) for minute in range(0, 60, 5)),
}
CLASSES: dict[str, tuple[str | int, ...]] = {
    **{kind: tuple(fillers) for kind, fillers in TABLE.items()},
    **NUMBERS,
}
_WOMEN, _MEN = CLASSES["woman"], CLASSES["man"]
CLASSES["person"] = tuple(name for pair in zip(_WOMEN, _MEN, strict=True) for name in pair)
#: Classes whose fillers carry meaning from one sentence to the next, and may be withheld from a pair.
WORDS = ("city", "thing", "animal", "food", "place", "job", "activity", "subject", "event", "quality")
ACTS = ("tell", "ask")

#: Intent -> slots. A slot is named after its class; a second one of the same class ends in 2, and differs.
INTENTS: dict[str, tuple[str, ...]] = {
    name: tuple(slots.split())
    for name, slots in {
        "buy": "person thing colour price",
        "lose": "thing place colour",
        "cost": "thing quality colour price",
        "lie": "thing place",
        "travel": "person city month",
        "live": "job city",
        "know": "person job city",
        "can": "person activity",
        "want": "job activity weekday",
        "learn": "person activity city",
        "study": "person subject city",
        "timetable": "subject weekday time",
        "when": "event date",
        "where": "event city year",
        "invite": "person event weekday",
        "see": "animal place count",
        "keep": "person animal",
        "compare": "animal animal2 quality",
        "describe": "thing quality",
        "eat": "job food weekday",
        "like": "person food",
        "weigh": "food count price",
        "stock": "food place",
        "work": "job place city",
        "meet": "person place time",
        "open": "place weekday time",
        "train": "city time platform",
        "distance": "city city2 kilometres",
        "born": "person city year",
        "forecast": "city weather weekday",
        "temperature": "city degrees month",
        "give": "person thing person2",
        "room": "person room",
        "bring": "thing quality place",
        "fear": "job animal",
        "explain": "job subject",
    }.items()
}


@cache
def class_of(slot: str) -> str:
    """The class of a slot: thing of thing and thing2."""
    return slot.removesuffix("2")


@dataclass(frozen=True)
class Meaning:
    """An intent, an act, and fillers in the order of the intent's slots."""

    intent: str
    act: str
    fillers: tuple[str | int, ...]

    @property
    def name(self) -> str:
        """Intent and act, as grammars name them: buy.tell."""
        return f"{self.intent}.{self.act}"

    @property
    def slots(self) -> dict[str, str | int]:
        """Slot -> filler."""
        return dict(zip(INTENTS[self.intent], self.fillers, strict=True))

    @property
    def split(self) -> str:
        """The one of train, dev, test and tst-HE that this meaning may stand in; both acts have the same."""
        if _held_out(self.intent, self.fillers[:2]):
            return "tst-HE"
        place = fraction("meaning", self.intent, *self.fillers)
        if place < DEV_SHARE:
            return "dev"
        return "test" if place < DEV_SHARE + TEST_SHARE else "train"

    def withheld(self, pair: tuple[str, str]) -> bool:
        """Return True if the pair's parallel text never shows one of the fillers; the pair has no direction."""
        return any(
            is_withheld(class_of(slot), filler, pair) for slot, filler in self.slots.items() if class_of(slot) in WORDS
        )


@lru_cache(maxsize=MOST_KEPT)
def _held_out(intent: str, fillers: tuple[str | int, ...]) -> bool:
    return fraction("held out", intent, *fillers) < HELD_OUT_SHARE


@cache
def is_withheld(kind: str, filler: str | int, pair: tuple[str, str]) -> bool:
    """Return True if a pair's parallel text never shows a filler."""
    return fraction("withheld", *sorted(pair), kind, filler) < WITHHELD_SHARE


def draw_meaning(generator: random.Random, name: str = "") -> Meaning:
    """A meaning of any split; `name`, as buy.tell, decides about intent and act."""
    intent, _, act = name.partition(".")
    if not name:
        names, weights = _intents()
        intent = names[bisect.bisect(weights, generator.random() * weights[-1])]
        act = ACTS[0] if generator.random() < TELL_SHARE else ACTS[1]
    fillers: list[str | int] = []
    for slot, candidates, preferring in _steps(intent):
        cumulated = _cumulated(intent, slot, tuple([fillers[number] for number in preferring]))
        place = bisect.bisect(cumulated, generator.random() * cumulated[-1])
        fillers.append(candidates[place])
    return Meaning(intent, act, tuple(fillers))


@cache
def _steps(intent: str) -> tuple[tuple[str, tuple[str | int, ...], tuple[int, ...]], ...]:
    """For each slot of an intent: its name, its fillers, and the numbers of the slots before that prefer some of them.

    Numbers prefer nothing and are not preferred.
    """
    slots = INTENTS[intent]
    words = [number for number, slot in enumerate(slots) if class_of(slot) not in NUMBERS]
    return tuple(
        (slot, CLASSES[class_of(slot)], tuple(n for n in words if n < number) if number in words else ())
        for number, slot in enumerate(slots)
    )


@lru_cache(maxsize=MOST_KEPT)
def _cumulated(intent: str, slot: str, words: tuple[str | int, ...]) -> array[float]:
    """Cumulated weights of a slot's fillers, when the words before it are known."""
    return array("d", accumulate(_weights(intent, slot, words)))


@lru_cache(maxsize=MOST_KEPT)
def _weights(intent: str, slot: str, words: tuple[str | int, ...]) -> array[float]:
    """Weights of a slot's fillers; the factors of words are multiplied in their order."""
    if not words:
        return array("d", _preferences(intent, slot))
    kind, other = class_of(slot), _classes_of_words(intent)[len(words) - 1]
    weights = array("d", map(mul, _weights(intent, slot, words[:-1]), _affinities(kind, other, words[-1])))
    if other == kind:
        weights[CLASSES[kind].index(words[-1])] = 0.0
    return weights


@cache
def _classes_of_words(intent: str) -> tuple[str, ...]:
    return tuple(kind for kind in map(class_of, INTENTS[intent]) if kind not in NUMBERS)


@cache
def _intents() -> tuple[tuple[str, ...], list[float]]:
    return tuple(INTENTS), list(accumulate((rank + 1) ** -INTENT_EXPONENT for rank in range(len(INTENTS))))


@cache
def _preferences(intent: str, slot: str) -> tuple[float, ...]:
    """Weights of a slot's fillers in an intent, before other fillers are known."""
    kind = class_of(slot)
    order = sorted(CLASSES[kind], key=lambda filler: fraction("rank", kind, filler))
    ranks = {filler: rank for rank, filler in enumerate(order, start=1)}
    return tuple(
        math.exp(PREFERENCE * (2 * fraction("preference", intent, slot, filler) - 1)) * ranks[filler] ** -RANK_EXPONENT
        for filler in CLASSES[kind]
    )


@cache
def _affinities(kind: str, other: str, filler: str | int) -> tuple[float, ...]:
    """Factors that a filler of class `other` gives to those of class `kind`; symmetric."""

    def pair(candidate: str | int) -> list[str]:
        return sorted((f"{kind}:{candidate}", f"{other}:{filler}"))

    return tuple(math.exp(AFFINITY * (2 * fraction("affinity", *pair(candidate)) - 1)) for candidate in CLASSES[kind])
