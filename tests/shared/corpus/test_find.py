"""Manifests by name and by pattern."""

import pytest

from shared.corpus.find import directions, find_manifests, pair_manifests, readers
from shared.errors import DataError, UsageError


def test_a_name_may_hold_what_is_special_in_patterns(tmp_path):
    """Each manifest once, in the order of the patterns."""
    names = ["train[1].arrow", "train1.arrow", "dev.arrow"]
    for name in names:
        (tmp_path / name).touch()
    assert find_manifests([tmp_path / name for name in names]) == [tmp_path / name for name in names]
    assert find_manifests([tmp_path / "d*.arrow", tmp_path / "*[1].arrow"]) == [
        tmp_path / names[2],
        tmp_path / names[1],
    ]


@pytest.mark.parametrize("name", ["none.arrow", "none[1].arrow", "*.arrow", "x" * 5000, "\0"])
def test_a_pattern_that_matches_nothing_is_named(tmp_path, name):
    with pytest.raises(DataError, match="there is no such manifest"):
        find_manifests([tmp_path / name])


def test_directions_are_all_those_of_a_pivot_or_a_list_of_pairs():
    codes = ["de", "en", "fr"]
    assert len(directions(codes, codes)) == 6
    around = [("de", "en"), ("en", "de"), ("en", "fr"), ("fr", "en")]
    assert directions(codes, codes, pivot="en") == around
    assert directions(codes, codes, pairs=[["fr", "de"], ["en", "de"], ["fr", "de"]]) == [("fr", "de"), ("en", "de")]
    assert directions(["en"], ["en"]) == []  # a monolingual corpus
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
        ({"pairs": [["fr", "de"]]}, r"a pair must be of a source language \(de, en\) and another target language"),
        ({"pairs": ["de-fr"]}, "not 'de-fr'"),
        ({"pairs": [["en", "fr"]], "pivot": "de"}, "there is no direction between"),
    ],
)
def test_directions_that_there_are_not_are_refused(given, message):
    with pytest.raises(UsageError, match=message):
        directions(["de", "en"], ["de", "fr"], **given)
