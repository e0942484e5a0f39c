"""Manifests by name and by pattern."""

import pytest

from shared.corpus.find import find_manifests
from shared.errors import DataError


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
