import itertools
import math
from collections import Counter
from itertools import combinations

import pytest

from dragoman.almanac import meanings
from dragoman.almanac.frames import fraction, randomness
from dragoman.almanac.meanings import (
    CLASSES,
    INTENTS,
    NUMBERS,
    OPEN,
    WORDS,
    Meaning,
    class_of,
    draw_meaning,
    is_withheld,
)  # fmt: skip
from dragoman.almanac.worlds import KINDS, draw

DRAWN = [draw_meaning(generator) for generator in [randomness("meanings")] for _ in range(20_000)]


def test_the_world_is_wide():
    assert len(INTENTS) >= 30
    assert all(40 <= len(CLASSES[kind]) <= 60 for kind in OPEN if kind not in ("woman", "man"))
    users = Counter(class_of(slot) for slots in INTENTS.values() for slot in slots)
    assert all(users[kind] >= 3 for kind in ("person", *WORDS)), "no class belongs to one intent alone"
    assert all(len(set(values)) == len(values) for values in CLASSES.values())


def test_every_intent_act_and_filler_is_drawn():
    assert {meaning.name for meaning in DRAWN} == {f"{intent}.{act}" for intent in INTENTS for act in ("tell", "ask")}
    seen = {(class_of(slot), filler) for meaning in DRAWN for slot, filler in meaning.slots.items()}
    assert all((kind, filler) in seen for kind in WORDS for filler in CLASSES[kind])


def test_fillers_are_skewed():
    counts = Counter(meaning.slots["thing"] for meaning in DRAWN if "thing" in meaning.slots).most_common()
    assert counts[0][1] > 6 * counts[-1][1]


def test_fillers_are_correlated_and_the_same_affinity_holds_in_two_intents():
    """`work` and `know` both pair jobs with cities: their most frequent pairs agree beyond chance."""
    pairs = {name: Counter() for name in ("work", "know")}
    for meaning in DRAWN:
        if meaning.intent in pairs:
            pairs[meaning.intent][meaning.slots["job"], meaning.slots["city"]] += 1
    common = {pair for pair, _ in pairs["work"].most_common(100)} & {pair for pair, _ in pairs["know"].most_common(100)}
    assert len(common) > 3 * 100 * 100 / (len(CLASSES["job"]) * len(CLASSES["city"]))


def test_two_slots_of_a_class_never_have_the_same_filler():
    for meaning in DRAWN:
        for one, other in combinations(meaning.slots, 2):
            assert class_of(one) != class_of(other) or meaning.slots[one] != meaning.slots[other]


def test_a_split_is_a_property_of_the_fillers():
    shares = Counter(meaning.split for meaning in DRAWN)
    assert 0.15 < shares["tst-HE"] / len(DRAWN) < 0.25
    assert 0.05 < shares["dev"] / len(DRAWN) < 0.11 and 0.05 < shares["test"] / len(DRAWN) < 0.11
    held_out = {(m.intent, *m.fillers[:2]) for m in DRAWN if m.split == "tst-HE"}
    assert not held_out & {(m.intent, *m.fillers[:2]) for m in DRAWN if m.split != "tst-HE"}
    for meaning in DRAWN[:200]:
        other = "ask" if meaning.act == "tell" else "tell"
        assert Meaning(meaning.intent, other, meaning.fillers).split == meaning.split


def test_withheld_words_belong_to_a_pair_without_direction():
    def withheld(*pair):
        return {(kind, filler) for kind in WORDS for filler in CLASSES[kind] if is_withheld(kind, filler, pair)}

    german, french = withheld("en", "de"), withheld("en", "fr")
    assert german == withheld("de", "en") != french
    assert 0.05 < len(german) / sum(len(CLASSES[kind]) for kind in WORDS) < 0.15


def test_a_smaller_draw_is_the_beginning_of_a_larger_one():
    small, large = (draw(KINDS["test"], size, randomness(1)) for size in (50, 200))
    assert small == large[:50] and len({saying.meaning for saying in large}) == 200


@pytest.mark.parametrize("intent", INTENTS)
def test_an_intent_can_be_asked_for(intent):
    meaning = draw_meaning(randomness(1), f"{intent}.ask")
    assert (meaning.intent, meaning.act) == (intent, "ask") and len(meaning.fillers) == len(INTENTS[intent])


#: Numbers of each class: how many, the first and the last two.
RANGES = {
    "count": (11, 2, 11, 12), "price": (398, 2, 398, 399), "year": (125, 1900, 2023, 2024),
    "kilometres": (290, 100, 2980, 2990), "degrees": (35, 2, 35, 36), "room": (400, 100, 498, 499),
    "platform": (19, 2, 19, 20), "weekday": (7, 0, 5, 6), "month": (12, 1, 11, 12),
    "date": (324, 102, 1227, 1228), "time": (168, 700, 2050, 2055),
}  # fmt: skip


def test_numbers_are_those_of_calendars_clocks_and_prices():
    assert {kind: (len(own), own[0], *own[-2:]) for kind, own in NUMBERS.items()} == RANGES
    assert CLASSES["date"][26:28] == (128, 202) and CLASSES["time"][10:14] == (750, 755, 800, 805)
    assert set(OPEN) | {"colour", "weather"} == {*CLASSES} - {*NUMBERS, "person"}
    women, men = CLASSES["woman"], CLASSES["man"]
    assert CLASSES["person"] == tuple(sum(zip(women, men, strict=True), ()))


def weights(intent, slot, before):
    """By the formula at the top of the module, in loops; fillers before, by slot."""
    kind = class_of(slot)
    ranked = sorted(CLASSES[kind], key=lambda filler: fraction("rank", kind, filler))
    found = []
    for filler in CLASSES[kind]:
        u = fraction("preference", intent, slot, filler)
        weight = (ranked.index(filler) + 1) ** -0.6 * math.exp(1.5 * (2 * u - 1))
        for other, value in before.items():
            names = sorted((f"{kind}:{filler}", f"{class_of(other)}:{value}"))
            weight *= math.exp(4.0 * (2 * fraction("affinity", *names) - 1))
            weight *= class_of(other) != kind or value != filler
        found.append(weight)
    return found


@pytest.mark.parametrize(
    ("intent", "slot", "before"),
    [
        ("travel", "person", {}),
        ("travel", "city", {"person": "anna"}),
        ("travel", "month", {}),  # numbers have no affinities
        ("weigh", "price", {}),
        ("compare", "animal2", {"animal": "horse"}),
        ("compare", "quality", {"animal": "horse", "animal2": "dog"}),
    ],
)
def test_weights_are_those_of_the_formula(intent, slot, before):
    fillers = {other: value if value in CLASSES[class_of(other)] else CLASSES[class_of(other)][0]
               for other, value in before.items()}  # fmt: skip
    if len({*fillers.values()}) < len(fillers):
        fillers["animal2"] = CLASSES["animal"][1]
    found = meanings._cumulated(intent, slot, tuple(fillers.values()))
    assert [*found] == pytest.approx([*itertools.accumulate(weights(intent, slot, fillers))])


def test_numbers_neither_prefer_nor_are_preferred():
    steps = {slot: numbers for slot, _, numbers in meanings._steps("weigh")}
    assert steps == {"food": (), "count": (), "price": ()}
    assert [numbers for *_, numbers in meanings._steps("buy")] == [(), (0,), (0, 1), ()]
    assert [numbers for *_, numbers in meanings._steps("timetable")] == [(), (), ()]


def test_intents_and_acts_are_drawn_with_their_shares():
    total = sum((rank + 1) ** -0.4 for rank in range(len(INTENTS)))
    counts = Counter(meaning.intent for meaning in DRAWN)
    for rank, intent in enumerate(INTENTS):
        expected = len(DRAWN) * (rank + 1) ** -0.4 / total
        assert abs(counts[intent] - expected) < 5 * expected**0.5, intent
    told = sum(meaning.act == "tell" for meaning in DRAWN)
    assert abs(told - 0.6 * len(DRAWN)) < 5 * (0.24 * len(DRAWN)) ** 0.5


def test_splits_and_withheld_words_are_hashes_below_their_shares():
    for meaning in DRAWN[:2000]:
        if fraction("held out", meaning.intent, *meaning.fillers[:2]) < 0.2:
            expected = "tst-HE"
        else:
            place = fraction("meaning", meaning.intent, *meaning.fillers)
            expected = "dev" if place < 0.1 else "test" if place < 0.2 else "train"
        assert meaning.split == expected
        open_slots = [(class_of(slot), filler) for slot, filler in meaning.slots.items() if class_of(slot) in WORDS]
        hidden = [fraction("withheld", "de", "en", *slot) < 0.1 for slot in open_slots]
        assert meaning.withheld(("en", "de")) is any(hidden)
