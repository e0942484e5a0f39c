from collections import Counter
from itertools import combinations

import pytest

from shared.almanac.frames import randomness
from shared.almanac.meanings import CLASSES, INTENTS, OPEN, WORDS, Meaning, class_of, draw_meaning, is_withheld
from shared.almanac.worlds import KINDS, draw

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
