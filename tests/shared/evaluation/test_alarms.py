"""Alarms: made-up failures are found, ordinary text is left alone."""

from __future__ import annotations

import random

import pytest

from shared.errors import DataError
from shared.evaluation.alarms import LOOP_CHARACTERS, LOOP_TIMES, LOOP_UNIT, detect, loops

ORDINARY = [
    f"The {adjective} train to {town} leaves at {hour}:30."
    for adjective in ("fast", "slow", "last")
    for town in ("Bern", "Ulm", "Bonn")
    for hour in (7, 8, 9)
]


def kinds(*arguments, **named):
    return {alarm.kind: alarm for alarm in detect(*arguments, **named)}


def slow_loops(line: str) -> bool:
    """By definition: some unit, often enough, over enough characters, anywhere."""
    for start in range(len(line)):
        for unit in range(1, LOOP_UNIT + 1):
            length = unit  # how far the line continues with period `unit`
            while start + length < len(line) and line[start + length] == line[start + length - unit]:
                length += 1
            if length >= LOOP_CHARACTERS and length >= LOOP_TIMES * unit and start + unit <= len(line):
                return True
    return False


def test_ordinary_text_raises_nothing():
    assert detect(ORDINARY) == []
    assert detect(ORDINARY, references=ORDINARY, sources=[line[::-1] for line in ORDINARY]) == []
    assert detect([]) == []


def test_each_failure_is_found_with_its_share():
    broken = list(ORDINARY)
    broken[3] = "  "
    alarm = kinds(broken)["empty"]
    assert alarm.share == pytest.approx(1 / 27) and alarm.example.startswith("line 4:")
    assert "3.7% of the outputs are empty" in str(alarm)
    broken = list(ORDINARY)
    broken[0] = "I think that I think that I think that I think that I think"
    assert set(kinds(broken)) == {"repeated"}
    constant = ["Thank you."] * 5 + ORDINARY[:20]
    assert kinds(constant)["constant"].share == pytest.approx(0.2)
    assert "constant" not in kinds(constant, references=["Danke."] * 5 + ORDINARY[:20])
    assert "constant" not in kinds(["Thank you."] * 5)
    copies = ORDINARY[:5] + [line[::-1] for line in ORDINARY[5:]]
    assert kinds(copies, sources=[line.upper() for line in ORDINARY])["copied"].share == pytest.approx(5 / 27)
    assert kinds(ORDINARY, sources=ORDINARY, references=ORDINARY) == {}  # a transcript equals its source


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("no " * 12, True),
        ("no no no", False),
        ("a" * 30, True),
        ("a" * 29, False),
        ("aaaab" * 6, True),
        ("我们我们" * 8, True),
        ("x" * 5 + "the man said that " * 4, True),
        ("the man said that " * 3, False),
        ("", False),
        ("zero zero zero zero seven", False),
    ],
)
def test_loops(line, expected):
    assert loops(line) is expected


def test_loops_agree_with_their_definition():
    rng = random.Random(0)
    seen = set()
    for _ in range(300):
        unit = "".join(rng.choices("ab ", k=rng.randint(1, 12)))
        line = "".join(rng.choices("abc", k=rng.randint(0, 20))) + unit * rng.randint(1, 9)
        line += "".join(rng.choices("abc", k=rng.randint(0, 9)))
        assert loops(line) is slow_loops(line), line
        seen.add(loops(line))
    assert seen == {True, False}


def test_numbers_of_lines():
    with pytest.raises(DataError, match="2 hypotheses, but 1 lines of sources"):
        detect(["a", "b"], sources=["c"])
