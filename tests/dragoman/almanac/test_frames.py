import hashlib
import random
import re
from collections import Counter

import pytest

from dragoman.almanac.frames import (
    INTENTS,
    SEEN_TEMPLATES,
    SPLITS,
    UNSEEN_TEMPLATES,
    Frame,
    Saying,
    distinct,
    draw,
    fraction,
    randomness,
)  # fmt: skip
from dragoman.almanac.sentences import GRAMMARS, sentence
from dragoman.shared.errors import DataError

SIZES = {"train": 4000, "dev": 400, "tst-COMMON": 600, "tst-HE": 600}


@pytest.fixture(scope="module")
def drawn():
    return {split: draw(split, SIZES[split], randomness(1, split)) for split in SPLITS}


def key_of(saying):
    slots, (first, second) = saying.frame.slots, INTENTS[saying.frame.intent].key
    return saying.frame.intent, slots[first], slots[second]


def test_splits_share_no_sentence_in_any_language(drawn):
    for language in GRAMMARS:
        texts = {split: [sentence(saying, language) for saying in sayings] for split, sayings in drawn.items()}
        for split in SPLITS:
            assert len(set(texts[split])) == SIZES[split]
            for other in SPLITS:
                assert split == other or not set(texts[split]) & set(texts[other]), (language, split, other)


def test_splits_share_no_frame_even_in_other_words(drawn):
    frames = {split: {saying.frame for saying in sayings} for split, sayings in drawn.items()}
    assert not any(frames[a] & frames[b] for a in SPLITS for b in SPLITS if a != b)


def test_tst_he_has_templates_and_combinations_that_the_others_never_have(drawn):
    he = drawn["tst-HE"]
    assert {saying.template for saying in he} == set(UNSEEN_TEMPLATES)
    for split in ("train", "dev", "tst-COMMON"):
        assert {saying.template for saying in drawn[split]} == set(SEEN_TEMPLATES)
        assert not {key_of(saying) for saying in he} & {key_of(saying) for saying in drawn[split]}


def test_tst_he_is_made_of_words_that_train_has(drawn):
    def tokens(sayings):
        return Counter(word for saying in sayings for word in re.findall(r"[\w'-]+", sentence(saying, "en").lower()))

    train, he = tokens(drawn["train"][:2000]), tokens(drawn["tst-HE"])
    assert sum(count for word, count in he.items() if word not in train) / sum(he.values()) < 0.01


def test_dev_and_tst_common_are_drawn_like_train(drawn):
    for split in ("train", "dev", "tst-COMMON", "tst-HE"):
        share = Counter(saying.frame.intent for saying in drawn[split])
        assert set(share) == set(INTENTS), split
        assert max(share.values()) < 2.5 * SIZES[split] / len(INTENTS), split


def test_every_filler_stands_in_train(drawn):
    frames = [saying.frame for saying in drawn["train"]]
    seen = {(frame.intent, slot, value) for frame in frames for slot, value in frame.slots.items()}
    for intent in INTENTS.values():
        for slot, fillers in intent.slots.items():
            missing = [filler for filler in fillers if (intent.name, slot, filler) not in seen]
            assert len(missing) <= 0.1 * len(fillers), (intent.name, slot, missing)


def test_translation_is_a_function_of_the_source_sentence(drawn):
    for source in GRAMMARS:
        for target in GRAMMARS:
            translations: dict[str, str] = {}
            for sayings in drawn.values():
                for saying in sayings:
                    text = sentence(saying, target)
                    assert translations.setdefault(sentence(saying, source), text) == text


def test_a_smaller_size_is_the_beginning_of_a_larger_one(drawn):
    assert draw("train", 100, randomness(1, "train")) == drawn["train"][:100]


def test_another_seed_draws_others_from_the_same_frames(drawn):
    other = draw("tst-COMMON", 300, randomness(2, "tst-COMMON"))
    assert other != drawn["tst-COMMON"][:300]
    assert all(saying.frame.split == "tst-COMMON" for saying in other)
    assert not {saying.frame for saying in other} & {saying.frame for saying in drawn["train"]}


def test_there_are_at_least_fifteen_intents_with_slots_of_moderate_size():
    assert len(INTENTS) >= 15
    assert all(5 <= len(fillers) <= 60 for intent in INTENTS.values() for fillers in intent.slots.values())


def test_distinct_slots_differ(drawn):
    for sayings in drawn.values():
        for saying in sayings:
            slots = saying.frame.slots
            assert slots.get("city") is None or slots.get("city") != slots.get("other")


def test_more_than_the_frames_give_is_refused(monkeypatch):
    only = {"temperature": INTENTS["temperature"]}
    monkeypatch.setattr("dragoman.almanac.frames.INTENTS", only)
    with pytest.raises(DataError, match="dev=5000"):
        draw("dev", 5000, randomness(1))


#: Numbers of slots: how many, the first two and the last.
RANGES = {
    "price.euros": (59, 2, 3, 60), "departure.platform": (12, 1, 2, 12), "distance.kilometres": (18, 100, 150, 950),
    "duration.hours": (11, 2, 3, 12), "age.years": (56, 5, 6, 60), "temperature.degrees": (35, 2, 3, 36),
    "recipe.grams": (19, 50, 100, 950), "floor.floor": (11, 2, 3, 12), "animals.number": (19, 2, 3, 20),
    "order.number": (10, 1, 2, 10), "order.more": (10, 1, 2, 10), "calendar.weekday": (7, 0, 1, 6),
    "birthday.day": (28, 1, 2, 28), "birthday.month": (12, 1, 2, 12), "telephone.first": (10, 0, 1, 9),
}  # fmt: skip


def test_numbers_are_those_of_calendars_clocks_and_prices():
    for name, wanted in RANGES.items():
        intent, slot = name.split(".")
        own = INTENTS[intent].slots[slot]
        assert (len(own), *own[:2], own[-1]) == wanted, name
    times = INTENTS["clock"].slots["time"]
    assert len(times) == 48 and times[:5] == ((1, 0), (1, 15), (1, 30), (1, 45), (2, 0)) and times[-1] == (12, 45)
    distinct = {name: intent.distinct for name, intent in INTENTS.items() if intent.distinct}
    assert distinct == {"distance": ("city", "other"), "comparison": ("animal", "other"), "order": ("food", "other")}


def test_a_fraction_is_a_hash_of_its_parts():
    number = int(hashlib.sha256(b"key|clock|1|(2, 3)").hexdigest()[:16], 16)
    assert fraction("key", "clock", 1, (2, 3)) == number / 2**64
    assert randomness(1, "train").random() == random.Random("1|train").random()


def test_splits_are_hashes_below_their_shares(drawn):
    for sayings in drawn.values():
        for saying in sayings[:300]:
            frame = saying.frame
            slots = dict(zip(INTENTS[frame.intent].slots, frame.values, strict=True))
            if fraction("key", frame.intent, *(slots[slot] for slot in INTENTS[frame.intent].key)) < 0.2:
                expected = "tst-HE"
            else:
                place = fraction("frame", frame.intent, *frame.values)
                expected = "dev" if place < 0.1 else "tst-COMMON" if place < 0.2 else "train"
            assert frame.split == expected


def test_no_two_sayings_have_one_key():
    found = distinct("train", 30, randomness(3), lambda saying: (saying.frame.intent, saying.template))
    assert len({(saying.frame.intent, saying.template) for saying in found}) == 30
    assert draw("train", 0, randomness(3)) == []
    with pytest.raises(DataError) as error:
        distinct("train", 30, randomness(3), lambda saying: saying.frame.intent)
    assert str(error.value) == "almanac: train=30 sentences are asked for; its frames give about 20"


def test_so_many_rejections_in_a_row_are_too_many(monkeypatch):
    monkeypatch.setattr("dragoman.almanac.frames.MOST_REJECTIONS", 3)
    drawn, first = [], Saying(Frame("clock", ("berlin", (1, 0))), 0)
    monkeypatch.setattr("dragoman.almanac.frames._frame", lambda generator: drawn.append(1) or first.frame)
    with pytest.raises(DataError):
        distinct(first.frame.split, 2, randomness(1), lambda saying: "the same")
    assert len(drawn) == 5  # one, and then four that are like it
