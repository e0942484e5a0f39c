"""Outputs of whole talks are cut as well as mweralign cuts them (Matusov et al. 2005, in their own C++).

Of several cuts with the least distance each program takes one, so distances are compared, and cuts where a distance
leaves no choice.
"""

import random

import pytest
from rapidfuzz.distance import Levenshtein

from dragoman.shared.evaluation.resegment import resegment

mweralign = pytest.importorskip("mweralign")
pytestmark = pytest.mark.parity

WORDS = [first + second for first in ("ba", "de", "ku", "mo", "ri", "sa") for second in ("ba", "ku", "lo", "ne", "ti")]


def talk(seed: int, errors: float, words: list[str]) -> tuple[list[str], list[list[str]]]:
    """Return the words of a talk as a system with errors might write them, and its reference lines."""
    chosen = random.Random(seed)
    lines = [chosen.choices(words, k=chosen.randint(1, 14)) for _ in range(40)]
    output: list[str] = []
    for word in (word for line in lines for word in line):
        kind = chosen.random()
        if kind >= errors:
            output.append(word)
        elif kind < errors / 2:
            output += chosen.choices(words, k=1 if kind < errors / 4 else 2)  # exchanged, or with one put in
    return output, lines


def theirs(output: list[str], lines: list[list[str]]) -> list[list[str]]:
    """Return mweralign's parts."""
    references = "\n".join(map(" ".join, lines))
    return [line.split() for line in mweralign.align_texts(references, " ".join(output)).split("\n")[: len(lines)]]


def distance(parts: list[list[str]], lines: list[list[str]]) -> int:
    assert len(parts) == len(lines)
    return sum(Levenshtein.distance(part, line) for part, line in zip(parts, lines, strict=True))


@pytest.mark.parametrize("errors", [0.0, 0.1, 0.4, 0.9])
@pytest.mark.parametrize("vocabulary", [3, 30])
def test_the_distance_is_mweraligns(errors: float, vocabulary: int) -> None:
    for seed in range(5):
        output, lines = talk(seed, errors, WORDS[:vocabulary])
        ours, other = resegment(output, lines), theirs(output, lines)
        assert [word for part in other for word in part] == output
        assert distance(ours, lines) == distance(other, lines)


def test_where_words_are_heard_rightly_the_cuts_are_the_same() -> None:
    output, lines = talk(7, 0.0, WORDS)
    assert resegment(output, lines) == theirs(output, lines) == lines
