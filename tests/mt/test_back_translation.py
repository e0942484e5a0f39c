"""The noise of back-translation, against counts of all draws; and what a translator reads of sources that were made."""

from collections import Counter
from itertools import combinations, permutations

import numpy as np
import pytest
import torch

from dragoman import Manifest, Recipe, UsageError
from dragoman.mt.back_translation import BlankWords, DropWords, MoveWords
from dragoman.shared.batches.loader import Loader
from tests import small

TEXT = "a dog barks at the old man"


@pytest.fixture(scope="module")
def tokenizer():
    return small.tokenizer([TEXT] * 3, ["de", "en", "<bt>"])


def words(count):
    return [[number, number] for number in range(count)]


def test_each_word_is_dropped_with_the_same_probability():
    rng, drop = np.random.default_rng(0), DropWords(share=0.1)
    stayed = Counter()
    for _ in range(10_000):
        kept = drop(words(8), rng)
        assert kept == sorted(kept)
        stayed.update(word[0] for word in kept)
    assert all(0.89 < stayed[number] / 10_000 < 0.91 for number in range(8))


def test_a_text_does_not_become_empty():
    rng, drop = np.random.default_rng(0), DropWords(share=1.0)
    left = Counter(tuple(map(tuple, drop(words(3), rng))) for _ in range(3000))
    assert {*left} == {((0, 0),), ((1, 1),), ((2, 2),)} and min(left.values()) > 900
    assert drop([], rng) == []


def test_a_blank_stands_for_a_whole_word(tokenizer):
    rng, blank = np.random.default_rng(0), BlankWords(tokenizer=tokenizer, share=0.1)
    blanks = Counter()
    for _ in range(10_000):
        found = blank(words(8), rng)
        assert len(found) == 8
        blanks.update(place for place, word in enumerate(found) if word == [tokenizer.mask])
        assert all(word in ([tokenizer.mask], [place, place]) for place, word in enumerate(found))
    assert all(0.09 < blanks[place] / 10_000 < 0.11 for place in range(8))


@pytest.mark.parametrize("distance", [0, 1, 2, 3])
def test_words_pass_those_within_the_distance_and_no_others(distance):
    rng, move = np.random.default_rng(0), MoveWords(distance=distance)
    found = {tuple(word[0] for word in move(words(4), rng)) for _ in range(20_000)}
    orders = permutations(range(4))
    allowed = {order for order in orders if all(b - a <= distance for b, a in combinations(order, 2) if b > a)}
    assert found == allowed
    assert all(abs(place - word) <= distance for order in allowed for place, word in enumerate(order))
    assert move([], rng) == []


@pytest.mark.parametrize("wrong", [-0.1, 1.5, float("nan")])
def test_other_shares_are_refused(wrong, tokenizer):
    for noise, given in ((DropWords, {}), (BlankWords, {"tokenizer": tokenizer})):
        small.refuses(UsageError, "share must be (a finite number )?between 0 and 1", noise, share=wrong, **given)
    small.refuses(UsageError, "MoveWords: distance must be at least 0, not -1", MoveWords, distance=-1)


# -- the recipe ------------------------------------------------------------------------------------------------------


@pytest.fixture
def batches(tokenizer, tmp_path):
    """Return what is read of a pair and of a text with a source that was made, by stream, with keys of the recipe."""
    pair = {"id": "p", "source_text": "der hund", "target_text": "the <bt> dog"}
    made = {"id": "m", "source_text": "a dog barks", "target_text": "ein hund bellt laut"}
    languages = {"source_language": "de", "target_language": "en"}
    turned = {"source_language": "en", "target_language": "de"}
    Manifest.write(tmp_path / "m" / "de-en" / "train.arrow", [pair | languages])
    Manifest.write(tmp_path / "r" / "back_translation" / "1" / "generate" / "en" / "train.arrow", [made | turned])

    def read(**keys):
        given = languages | {"data_folder": str(tmp_path), "manifest_folder": str(tmp_path / "m")}
        given |= {"results_folder": str(tmp_path / "r"), "made_weight": 1.0}
        given |= {"tokenizer.model": tokenizer.arguments["model"]}
        recipe = Recipe.load("text/back_translation", given | keys)
        with torch.device("meta"):
            streams = recipe.plan["fit"].build().streams
        return {batch.stream: batch for batch in Loader(streams=streams, seed=1).epoch(0)}

    return read


def shown(tokenizer, batch, field):
    ids = batch[field].values[0].tolist()
    symbols = [tokenizer.symbol(id) for id in ids if id >= tokenizer.pieces]
    return symbols, tokenizer.decode([id for id in ids if id < tokenizer.pieces])


def test_only_sources_that_were_made_have_the_symbol_and_people_wrote_the_targets(batches, tokenizer):
    found = batches()
    assert shown(tokenizer, found["made"], "source") == (["<bt>", "<de>", "</s>"], "ein hund bellt laut")
    assert shown(tokenizer, found["made"], "target") == (["<en>", "</s>"], "a dog barks")
    assert shown(tokenizer, found["text"], "source") == (["<de>", "</s>"], "der hund")
    assert shown(tokenizer, found["text"], "target") == (["<en>", "</s>"], "the <bt> dog")  # typed: no symbol


def test_noise_changes_sources_that_were_made_alone(batches, tokenizer):
    found = batches(made_noise="!ref <noise_of_words>", made_prefix=["<{language}>"], **{"noise_of_words.1.share": 1.0})
    symbols, text = shown(tokenizer, found["made"], "source")
    assert symbols[0] == "<de>" and {*symbols[1:-1]} == {"<mask>"} and not text
    assert shown(tokenizer, found["text"], "source") == (["<de>", "</s>"], "der hund")
    assert shown(tokenizer, found["made"], "target")[1] == "a dog barks"
