"""Manifests by name and by pattern."""

import pytest

from dragoman.shared.batches.find import (
    directions,
    find_manifests,
    joined,
    pair_manifests,
    readers,
    text_manifests,
    text_readers,
    written_below,
)
from dragoman.shared.errors import DataError, UsageError
from tests.small import refuses


def test_a_name_may_hold_what_is_special_in_patterns_and_comes_once(tmp_path):
    names = ["train[1].arrow", "train1.arrow", "dev.arrow"]
    for name in names:
        (tmp_path / name).touch()
    assert find_manifests([tmp_path / name for name in names]) == [tmp_path / name for name in names]
    for patterns in (["d*.arrow", "*[1].arrow"], ["dev.arrow", "d*", "train1.arrow"]):  # each comes once
        assert find_manifests([tmp_path / one for one in patterns]) == [tmp_path / names[2], tmp_path / names[1]]
    assert find_manifests([]) == []


@pytest.mark.parametrize("name", ["none.arrow", "none[1].arrow", "*.arrow", "x" * 5000, "\0"])
def test_a_pattern_that_matches_nothing_is_named(tmp_path, name):
    refuses(DataError, "there is no such manifest", find_manifests, [tmp_path / name])


def test_what_is_made_of_manifests_has_places_of_its_own(tmp_path):
    names = [tmp_path / name for name in ("a/en-de/train.arrow", "b/en-de/train.arrow", "b/en-de/dev.arrow")]
    for name in names:
        name.parent.mkdir(parents=True, exist_ok=True)
        name.touch()
    out = tmp_path / "out"
    places = [out / "en-de" / "train.arrow", out / "en-de" / "dev.arrow"]
    assert written_below(out, [names[0], names[2]]) == [(names[0], places[0]), (names[2], places[1])]
    refuses(DataError, f"{places[0]}: two manifests would be written there; .* {names[1]}", written_below, out, names)
    refuses(DataError, "what is read would be written over", written_below, tmp_path / "b", names[::2])
    refuses(DataError, "what is read would be written over", written_below, tmp_path / "b", [names[0], names[1]])


def test_directions_are_all_those_of_a_pivot_or_a_list_of_pairs():
    codes = ["de", "en", "fr"]
    assert len(directions(codes, codes)) == 6
    around = [("de", "en"), ("en", "de"), ("en", "fr"), ("fr", "en")]
    assert directions(codes, codes, pivot="en") == around
    assert directions(codes, codes, pairs=[["fr", "de"], ["en", "de"], ["fr", "de"]]) == [("fr", "de"), ("en", "de")]
    assert directions(["en"], ["en"]) == []  # a monolingual corpus
    assert directions(codes, codes, pairs=[["en", "en"], ["en", "de"]]) == [("en", "en"), ("en", "de")]  # of summaries
    assert directions(codes, codes, without=[["en", "de"]]) == [
        pair for pair in directions(codes, codes) if pair != ("en", "de")
    ]
    folder = {"folder": "m", "sources": codes, "targets": codes, "splits": ["dev"]}
    assert pair_manifests(**folder, pivot="en") == [f"m/{source}-{target}/dev.arrow" for source, target in around]
    made = readers(reader=lambda **given: given, sources=codes, targets=codes, pairs=[["fr", "de"]])
    assert made == [{"source_language": "fr", "target_language": "de"}]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"pivot": "it"}, "pivot must be one of the languages de, en, de, fr, not 'it'"),
        ({"pairs": [["fr", "de"]]}, r"a pair must be of a source language \(de, en\) and a target language"),
        ({"pairs": [["en"]]}, r"not \['en'\]"),
        ({"pairs": ["de-fr"]}, "not 'de-fr'"),
        ({"pairs": [["en", "fr"]], "pivot": "de"}, "there is no direction between"),
    ],
)
def test_directions_that_there_are_not_are_refused(given, message):
    refuses(UsageError, message, directions, ["de", "en"], ["de", "fr"], **given)


def test_directions_end_where_there_are_none():
    assert directions(["de"], ["en"], pivot="de", pairs=[["de", "en"]]) == [("de", "en")]
    assert directions(["de", "fr"], ["en"], pivot="fr") == [("fr", "en")]
    assert directions(["de"], ["en"], without=[["de", "en"]]) == []
    said = "^there is no direction between the source and target languages that were"
    refuses(UsageError, said, directions, ["de"], ["de"], pivot="de")
    refuses(UsageError, r"not \['en', 'de'\]$", directions, ["de"], ["en"], without=[["en", "de"]])


def test_lists_of_recipes():
    codes = ["de", "en"]
    assert text_readers(reader=lambda **given: given, languages=codes) == [{"language": code} for code in codes]
    wanted = ["m/de/train.arrow", "m/de/dev.arrow", "m/en/train.arrow", "m/en/dev.arrow"]
    assert text_manifests(folder="m", languages=codes, splits=["train", "dev"]) == wanted
    assert joined([1], [], [2, 3]) == [1, 2, 3] and joined() == []
    made = readers(reader=lambda **given: given, sources=["de", "fr"], targets=["en", "de"], pivot="fr")
    assert made == [{"source_language": "fr", "target_language": code} for code in ("en", "de")]
    paths = pair_manifests(folder="m", sources=["de"], targets=["en", "fr"], splits=["b", "a"], pairs=[["de", "fr"]])
    assert paths == ["m/de-fr/b.arrow", "m/de-fr/a.arrow"]
