"""Transcripts letter by letter."""

import pytest

from shared.described import build, describe
from shared.errors import DataError, UsageError
from shared.text.letters import Letters, Recased


def test_letters_and_spaces():
    assert Letters().split(" we 're  é") == ["w", "e", "|", "'", "r", "e", "|", "é"]
    assert Letters(closing=True, upper=True).split("we are") == [*"WE|ARE|"]
    assert Letters(space="_", lower=True).split("We ARE") == [*"we_are"]
    assert Letters(closing=True).split("") == Letters().split("  ") == []
    for letters in (Letters(), Letters(closing=True)):
        assert letters.join(letters.split("ab c d")) == "ab c d"


def test_recased():
    letters = Recased(segmenter=Letters(), lower=True, upper_output=True)
    assert letters.split("Ab C") == [*"ab|c"]
    assert letters.join([*"ab|c"]) == "AB C"
    assert Recased(segmenter=Letters(), lower_output=True).join([*"AB|c"]) == "ab c"
    assert build(describe(letters)).fingerprint == letters.fingerprint


def test_fingerprints_differ():
    some = [Letters(), Letters(space="_"), Letters(closing=True), Letters(upper=True), Recased(segmenter=Letters())]
    some += [Recased(segmenter=Letters(closing=True)), Recased(segmenter=Letters(), lower=True)]
    assert len({one.fingerprint for one in some}) == len(some)


def test_refuses():
    with pytest.raises(UsageError, match="''"):
        Letters(space="")
    with pytest.raises(UsageError, match="at most one case"):
        Letters(upper=True, lower=True)
    with pytest.raises(DataError, match="not valid Unicode"):
        Letters().split("\ud800")
