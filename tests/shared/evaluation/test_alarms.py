"""Alarms: made-up failures are found, ordinary text is left alone."""

from __future__ import annotations

import random

import pytest

from dragoman.shared.errors import DataError
from dragoman.shared.evaluation.alarms import LOOP_CHARACTERS, LOOP_TIMES, LOOP_UNIT, detect, detect_off_target, loops
from dragoman.shared.evaluation.off_target import OffTarget
from tests.small import refuses

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
    assert kinds(["Thank you."] * 5 + ORDINARY[:20])["constant"].share == pytest.approx(0.2)
    assert kinds(["\xe9t\xe9", "x"], sources=["E\u0301TE\u0301", "y"])["copied"].share == 0.5
    assert kinds(ORDINARY, sources=ORDINARY, references=ORDINARY) == {}  # a transcript equals its source


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("no " * 12, True),
        ("a" * 30, True),
        ("a" * 29, False),
        ("x" * 5 + "the man said that " * 4, True),
        ("the man said that " * 3, False),
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


@pytest.mark.parametrize(("lines", "wrong", "kind"), [(100, 1, None), (100, 2, "repeated"), (99, 1, "repeated")])
def test_loops_are_an_alarm_above_a_hundredth(lines, wrong, kind):
    found = ["ha " * 20] * wrong + [f"line number {number}" for number in range(lines - wrong)]
    assert [*kinds(found)] == ([kind] if kind else [])


def test_one_output_too_often_is_judged_from_twenty_lines_on():
    assert "constant" in kinds(["same"] * 2 + [f"{number}" for number in range(18)])
    assert "constant" not in kinds(["same"] * 2 + [f"{number}" for number in range(17)])
    assert "constant" not in kinds(["same"] + [f"{number}" for number in range(19)])  # no more than a twentieth
    assert [*kinds([" "] * 20)] == ["empty"]
    own = ["same"] * 3 + [f"{number}" for number in range(17)]
    assert "constant" not in kinds(own, references=["ref"] * 2 + own[2:19] + ["x"])
    assert "constant" in kinds(own, references=[f"r{number}" for number in range(20)])


def test_copies_are_counted_against_the_usual_ones():
    sources = [f"s{number}" for number in range(20)]
    lines = ["S0", " s1 ", *(f"t{number}" for number in range(18))]
    assert kinds(lines, sources=sources)["copied"].share == 0.1
    assert "copied" not in kinds([*lines[:1], *(f"t{number}" for number in range(19))], sources=sources)
    usual = ["s0", *(f"r{number}" for number in range(19))]
    assert "copied" not in kinds(lines, sources=sources, references=usual)
    assert "copied" not in kinds(["a", "b"], sources=["", " "]) and kinds(["", "x"], sources=["", "y"]).keys() == {
        "empty"
    }


def test_cut_outputs_are_shown_with_the_first():
    long = "".join(f"{number:03}" for number in range(100, 150))
    [alarm] = detect(["a", "b", long], cut=[1, 2])
    assert (alarm.kind, alarm.share) == ("cut off at the maximum length", 2 / 3)
    assert str(alarm) == "66.7% of the outputs are cut off at the maximum length, for example line 2: 'b'"
    for length, shown in ((121, f"{long[:119]}…"), (120, long[:120])):
        [alarm] = detect(["a", "b", long[:length]], cut=[2])
        assert alarm.example == f"line 3: {shown!r}"


def test_outputs_in_another_language_are_judged_among_those_whose_language_can_be_told():
    found = OffTarget("de", ["de", "fr", None, "en"], "by hand")
    [alarm] = detect_off_target(["eins", "deux", "3", "four"], found)
    assert str(alarm) == (
        "66.7% of the 3 outputs (of 4) whose language can be told are in another language, "
        "for example fr in line 2: 'deux'"
    )
    assert detect_off_target(["eins", "deux", "3", "four"], found, usual=2 / 3 - 0.005) == []
    assert len(detect_off_target(["eins", "deux", "3", "four"], found, usual=2 / 3 - 0.011)) == 1
    assert detect_off_target(["eins"], OffTarget("de", ["de"], "by hand")) == []


@pytest.mark.parametrize(
    ("beside", "said"),
    [
        ({"sources": ["c"]}, "^2 hypotheses, but 1 lines of sources$"),
        ({"references": ["b"], "sources": ["d", "e"]}, "^2 hypotheses, but 1 lines of references$"),
    ],
)
def test_numbers_of_lines(beside, said):
    refuses(DataError, said, detect, ["a", "b"], **beside)
