"""Frames: what an Almanac sentence means, before any language says it.

A frame is an intent with a value for each of its slots; a language (templates/en.txt, ...) has six templates that say
it. The same template number is used in every language, so that a translation is a function of the frame and that
number.

Which split a frame belongs to is a property of the frame and not of a seed, a size or a run:

* a fifth of all combinations of an intent's two `key` values is held out: those frames occur in tst-HE only;
* of the other frames a tenth is for dev and a tenth for tst-COMMON, by a hash; the rest is for train;
* templates 0 to 3 belong to train, dev and tst-COMMON, templates 4 and 5 to tst-HE only.
"""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from dragoman.shared.errors import DataError

SEEN_TEMPLATES = (0, 1, 2, 3)
UNSEEN_TEMPLATES = (4, 5)
SPLITS = ("train", "dev", "tst-COMMON", "tst-HE")
HELD_OUT_SHARE = 0.2
DEV_SHARE = 0.1
TEST_SHARE = 0.1
MOST_REJECTIONS = 2000

PEOPLE = ("anna", "emma", "laura", "clara", "maria", "julia", "peter", "paul", "martin", "david", "robert", "oscar")
CITIES = (
    "berlin paris london rome vienna istanbul munich cologne geneva hamburg prague athens".split()  # fmt: skip
)
THINGS = "umbrella bag suitcase coat hat key watch phone book shirt lamp scarf".split()
COLOURS = "red blue green black white yellow brown grey".split()
ANIMALS = "horse dog cat cow sheep bird duck goat pig rabbit hen donkey".split()
QUALITIES = "big small fast slow heavy old young strong".split()
PLACES = "garden park forest field meadow barn yard street".split()
SHOPS = "bakery pharmacy library museum bank market restaurant cinema school hotel".split()
FOODS = "coffee tea beer soup salad pizza sandwich cake".split()
DISHES = "cake soup salad sauce dough pudding".split()
INGREDIENTS = "flour sugar butter rice cheese chocolate potatoes tomatoes onions".split()
VEHICLES = "train bus car plane ship bicycle".split()
RELATIVES = "brother sister mother father uncle aunt grandmother grandfather".split()
SKIES = "rain snow sun wind fog clouds cold warmth".split()
DAY_PARTS = "morning noon afternoon evening night".split()
WEEKDAYS = tuple(range(7))  # 0 is Monday
MONTHS = tuple(range(1, 13))
DAYS = tuple(range(1, 29))
TIMES = tuple((hour, minute) for hour in range(1, 13) for minute in (0, 15, 30, 45))
DIGITS = tuple(range(10))


@dataclass(frozen=True)
class Intent:
    """One kind of meaning.

    `slots` maps a slot to its possible values; the combinations of the two slots in `key` are what tst-HE holds out;
    the slots in `distinct` never have the same value in one frame.
    """

    name: str
    slots: dict[str, tuple[Any, ...]]
    key: tuple[str, str]
    distinct: tuple[str, ...] = ()


def _intent(name: str, key: str, distinct: str = "", **slots: Any) -> Intent:
    first, second = key.split()
    values = {slot: tuple(fillers) for slot, fillers in slots.items()}
    return Intent(name, values, (first, second), tuple(distinct.split()))


INTENTS: dict[str, Intent] = {
    intent.name: intent
    for intent in (
        _intent("clock", "city time", city=CITIES, time=TIMES),
        _intent("calendar", "day month", weekday=WEEKDAYS, day=DAYS, month=MONTHS),
        _intent("price", "thing colour", thing=THINGS, colour=COLOURS, euros=range(2, 61)),
        _intent("weather", "city sky", city=CITIES, weekday=WEEKDAYS, sky=SKIES),
        _intent("departure", "city platform", city=CITIES, time=TIMES, platform=range(1, 13)),
        _intent("distance", "city other", "city other", city=CITIES, other=CITIES, kilometres=range(100, 1000, 50)),
        _intent("duration", "city vehicle", city=CITIES, vehicle=VEHICLES, hours=range(2, 13)),
        _intent("opening", "shop weekday", shop=SHOPS, weekday=WEEKDAYS, time=TIMES),
        _intent("meeting", "person weekday", person=PEOPLE, weekday=WEEKDAYS, time=TIMES),
        _intent("age", "person month", person=PEOPLE, month=MONTHS, years=range(5, 61)),
        _intent("birthday", "person month", person=PEOPLE, day=DAYS, month=MONTHS),
        _intent("telephone", "person first", person=PEOPLE, first=DIGITS, second=DIGITS, third=DIGITS),
        _intent("temperature", "city part", city=CITIES, part=DAY_PARTS, degrees=range(2, 37)),
        _intent("recipe", "dish ingredient", dish=DISHES, ingredient=INGREDIENTS, grams=range(50, 1000, 50)),
        _intent("floor", "person city", person=PEOPLE, city=CITIES, floor=range(2, 13)),
        _intent("animals", "animal place", animal=ANIMALS, place=PLACES, number=range(2, 21)),
        _intent("comparison", "animal quality", "animal other", animal=ANIMALS, other=ANIMALS, quality=QUALITIES),
        _intent("lost", "thing shop", thing=THINGS, colour=COLOURS, shop=SHOPS),
        _intent("gift", "relative thing", person=PEOPLE, relative=RELATIVES, thing=THINGS, colour=COLOURS),
        _intent("order", "food other", "food other", food=FOODS, number=range(1, 11), other=FOODS, more=range(1, 11)),
    )
}  # fmt: skip


def fraction(*parts: object) -> float:
    """A number in [0, 1) that depends on the parts only: the same on every machine and in every run."""
    digest = hashlib.sha256("|".join(map(str, parts)).encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


@dataclass(frozen=True)
class Frame:
    """An intent with a value for each slot, in the order of the intent's slots."""

    intent: str
    values: tuple[Any, ...]

    @property
    def slots(self) -> dict[str, Any]:
        """Slot -> value."""
        return dict(zip(INTENTS[self.intent].slots, self.values, strict=True))

    @cached_property
    def split(self) -> str:
        """The one split that this frame may stand in."""
        slots = self.slots
        if fraction("key", self.intent, *(slots[slot] for slot in INTENTS[self.intent].key)) < HELD_OUT_SHARE:
            return "tst-HE"
        place = fraction("frame", self.intent, *self.values)
        if place < DEV_SHARE:
            return "dev"
        return "tst-COMMON" if place < DEV_SHARE + TEST_SHARE else "train"


@dataclass(frozen=True)
class Saying:
    """A frame and the number of the template that says it."""

    frame: Frame
    template: int


def randomness(*parts: object) -> random.Random:
    """A generator that depends on the parts only (a seed, a split, an utterance id, ...)."""
    return random.Random("|".join(map(str, parts)))


def _pick(generator: random.Random, values: tuple[Any, ...]) -> Any:
    return values[math.floor(generator.random() * len(values))]


def _frame(generator: random.Random) -> Frame:
    intent = _pick(generator, tuple(INTENTS.values()))
    while True:
        slots = {slot: _pick(generator, fillers) for slot, fillers in intent.slots.items()}
        if len({slots[slot] for slot in intent.distinct}) == len(intent.distinct):
            return Frame(intent.name, tuple(slots.values()))


def draw(split: str, size: int, generator: random.Random) -> list[Saying]:
    """`size` different sayings of a split, the first `n` of which do not depend on `size`.

    Raises DataError when the frames of the split give fewer.
    """
    return distinct(split, size, generator, lambda saying: saying)


def distinct(split: str, size: int, generator: random.Random, key: Callable[[Saying], object]) -> list[Saying]:
    """As `draw`, with no two sayings that `key` makes equal (their sentences, for instance)."""
    templates = UNSEEN_TEMPLATES if split == "tst-HE" else SEEN_TEMPLATES
    sayings: list[Saying] = []
    seen: set[object] = set()
    rejected = 0
    while len(sayings) < size:
        saying = Saying(_frame(generator), _pick(generator, templates))
        if saying.frame.split == split and (name := key(saying)) not in seen:
            seen.add(name)
            sayings.append(saying)
            rejected = 0
        elif (rejected := rejected + 1) > MOST_REJECTIONS:
            raise DataError(f"almanac: {split}={size} sentences are asked for; its frames give about {len(sayings)}")
    return sayings
