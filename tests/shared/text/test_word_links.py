"""Links between words: two directions made into one, by hand; Pharaoh's format and what it refuses."""

from pathlib import Path

import pytest

from dragoman.shared.errors import DataError, UsageError
from dragoman.shared.text.word_links import read, read_links, symmetrised, written
from tests.small import refusal, refuses

FORWARD = {(0, 0), (1, 1), (1, 2), (3, 3), (4, 5)}
BACKWARD = {(0, 0), (1, 1), (2, 1), (5, 4), (4, 5), (6, 6)}
#: (1, 2) and (2, 1) touch (1, 1) and link a new word each; (3, 3) and (6, 6) touch nothing (6, 6 touches no link,
#: since 5, 4 and 4, 5 are not beside it); (5, 4) touches (4, 5) across the diagonal and links two new words.
INTERSECTION = [(0, 0), (1, 1), (4, 5)]
GROWN = [(0, 0), (1, 1), (1, 2), (2, 1), (4, 5), (5, 4)]


def test_by_hand():
    assert symmetrised(FORWARD, BACKWARD, "intersection") == INTERSECTION
    assert symmetrised(FORWARD, BACKWARD, "union") == sorted(FORWARD | BACKWARD)
    # (3, 3) and (6, 6) link two words that have no link: both rules add them.
    assert symmetrised(FORWARD, BACKWARD, "grow-diag-final-and") == sorted([*GROWN, (3, 3), (6, 6)])
    assert symmetrised(FORWARD, BACKWARD, "grow-diag-final") == sorted([*GROWN, (3, 3), (6, 6)])


def test_final_asks_for_one_free_word_and_final_and_for_two():
    forward, backward = {(0, 0), (0, 4)}, {(0, 0), (5, 0)}  # far from 0-0, each with one word that has no link
    assert symmetrised(forward, backward, "grow-diag-final-and") == [(0, 0)]
    assert symmetrised(forward, backward, "grow-diag-final") == [(0, 0), (0, 4), (5, 0)]


def test_final_takes_forward_links_first():
    forward, backward = {(0, 0), (4, 4)}, {(0, 0), (4, 6)}
    assert symmetrised(forward, backward, "grow-diag-final-and") == [(0, 0), (4, 4)]
    assert symmetrised(backward, forward, "grow-diag-final-and") == [(0, 0), (4, 6)]


def test_growing_goes_on_from_what_has_grown_and_keeps_from_words_that_both_have_links():
    forward, backward = {(0, 0), (1, 1), (2, 2), (3, 3)}, {(0, 0)}
    assert symmetrised(forward, backward, "grow-diag-final-and") == [(0, 0), (1, 1), (2, 2), (3, 3)]
    forward, backward = {(0, 0), (1, 1), (0, 1)}, {(0, 0), (1, 1)}
    assert symmetrised(forward, backward, "grow-diag-final") == [(0, 0), (1, 1)]


def test_pharaoh_and_back():
    assert read("0-0 2-1  10-7\n") == [(0, 0), (2, 1), (10, 7)]
    assert written([(0, 0), (2, 1), (10, 7)]) == "0-0 2-1 10-7"
    assert (read(""), written([])) == ([], "")


@pytest.mark.parametrize(
    "line", ["0-", "a-b", "0?1", "1", "0--1", "-1-2", "9" * 5000 + "-1", "\u0661-0", "0-\u0661", "\u00b2-1"]
)
def test_what_is_not_a_link(line):
    refuses(DataError, "is not a link of two words, such as 3-4", read, f"0-0 {line}")


def test_a_file_is_checked_against_its_sentences():
    path = Path("a.gdfa")
    assert list(read_links(path, iter(["0-1", ""]), iter([(1, 2), (3, 3)]))) == [[(0, 1)], []]
    assert list(read_links(path, iter([]), iter([]))) == []
    for lines, sizes, said in (
        (["0-0"], [(1, 1), (1, 1)], ": 1 lines, but there are more sentence pairs"),
        (["0-0", "0-0"], [(1, 1)], ": more lines than the 1 sentence pairs"),
        (["0-0", "2-0"], [(1, 1), (2, 1)],
         ", line 2: 2-0 links a word that is not there: the sentences have 2 and 1 words"),
        (["1-0 0-1"], [(1, 1)], ", line 1: 1-0 links a word that is not there: the sentences have 1 and 1 words"),
        (["0-0", "x" * 50], [(1, 1)] * 2, f", line 2: {'x' * 40!r} is not a link of two words, such as 3-4"),
    ):  # fmt: skip
        assert refusal(DataError, list, read_links(path, iter(lines), iter(sizes))) == f"a.gdfa{said}"


def test_another_symmetrisation_is_refused():
    assert refusal(UsageError, symmetrised, set(), set(), "grow") == (
        "symmetrisation must be one of intersection, grow-diag-final-and, grow-diag-final, union, not 'grow'"
    )


@pytest.mark.parametrize("near", [(-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1)])
def test_every_neighbour_grows(near):
    link = (5 + near[0], 5 + near[1])
    for forward, backward in (({(5, 5), link}, {(5, 5)}), ({(5, 5)}, {(5, 5), link})):
        assert symmetrised(forward, backward, "grow-diag-final-and") == sorted([(5, 5), link])
    far = (5 + 2 * near[0], 5)  # one word of it has a link
    assert symmetrised({(5, 5), far}, {(5, 5)}, "grow-diag-final-and") == [(5, 5)]
