"""Transcripts letter by letter."""

from dragoman.exchange.vocabularies.letters import Letters, Recased
from dragoman.shared.described import build, describe
from dragoman.shared.errors import DataError, UsageError
from tests.small import refuses


def test_letters_and_spaces():
    assert Letters().split(" we 're  é") == ["w", "e", "|", "'", "r", "e", "|", "é"]
    assert Letters(closing=True, upper=True).split("we are") == [*"WE|ARE|"]
    assert Letters(space="_", lower=True).split("We ARE") == [*"we_are"]
    assert Letters(lower=True, language="tr").split("IĞDIR İL") == [*"ığdır|il"]
    assert Letters(upper=True, language="az").split("ığdır il") == [*"IĞDIR|İL"]
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
    refuses(UsageError, "''", Letters, space="")
    refuses(UsageError, "at most one case", Letters, upper=True, lower=True)
    refuses(DataError, "not valid Unicode", lambda: Letters().split("\ud800"))


def test_pieces_are_given_back_in_their_case_unless_asked():
    plain = Recased(segmenter=Letters())
    assert plain.split("Ab C") == [*"Ab|C"] and plain.join([*"Ab|C"]) == "Ab C"
    assert (plain.lower, plain.lower_output, plain.upper_output) == (False, False, False)
    assert Recased(segmenter=Letters(), lower=True).join([*"Ab"]) == "Ab"
    assert Recased(segmenter=Letters(), upper_output=True).split("Ab") == [*"Ab"]
