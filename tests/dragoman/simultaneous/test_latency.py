"""Latency: the figures of SimulEval 1.1.4 (its latency_scorer.py) for the same delays, and cases by hand."""

import json
from dataclasses import replace

import pytest

from dragoman.simultaneous.latency import (
    Timed,
    average_lagging,
    average_proportion,
    differentiable_average_lagging,
    latencies,
    words_of,
    write_log,
)
from dragoman.simultaneous.latency import timed as timed_output
from dragoman.simultaneous.listening import Emission

#: Delays, times with computing, reference, length of the source; AL, LAAL, DAL, AP and computation-aware LAAL.
SIMULEVAL = [
    (
        ([500, 500, 1500, 2000, 2600], [700, 710, 1600, 2300, 2900], "a b c d e f", 2600),
        (553.3333333, 553.3333333, 504.0, 0.4551282051, 775.3333333),
    ),
    (([1000, 1500], [1000, 1500], "a b c d", 1500), (1062.5, 1062.5, 1000.0, 0.4166666667, 1062.5)),
    (
        ([400, 800, 1200, 1600, 2000, 2000, 2000], [450, 900, 1300, 1800, 2200, 2200, 2200], "a b c", 2000),
        (-133.3333333, 628.5714286, 693.8775510, 1.6666666667, 758.5714286),
    ),
    (([3000], [3100], "a b", 3000), (3000.0, 3000.0, 3000.0, 0.5, 3100.0)),
]


def timed(delays, elapsed, reference, source_length, prediction="x"):
    return Timed(prediction, delays, elapsed, reference, "a.wav", source_length)


@pytest.mark.parametrize(("given", "wanted"), SIMULEVAL)
def test_latencies_are_simulevals(given, wanted):
    scores = latencies([timed(*given)], "de")
    assert [score.name for score in scores[:5]] == ["al", "laal", "dal", "ap", "laal_ca"]
    assert [score.value for score in scores[:5]] == pytest.approx(wanted)
    assert [score.signature for score in scores[:5]] == ["unit:word|ms"] * 3 + ["unit:word|share", "unit:word|ms"]
    assert {score.name for score in scores[5:]} <= {"yaal", "yaal_ca"}


def test_means_leave_empty_outputs_out():
    both = [timed(*SIMULEVAL[0][0]), timed([], [], "a", 500.0, prediction=""), timed(*SIMULEVAL[1][0])]
    score = latencies(both, "de")[0]
    assert score.value == pytest.approx((553.3333333 + 1062.5) / 2) and score.lines == 2
    assert latencies(both[1:2], "de") == []


@pytest.mark.parametrize("reference", ["", " ", "\u3000"])
@pytest.mark.parametrize("language", ["de", "zh"])
def test_an_empty_reference_has_no_rate_to_compare_with(reference, language):
    empty = timed([500.0], [600.0], reference, 1000.0)
    assert latencies([empty], language) == []
    if language == "de":
        assert latencies([timed(*SIMULEVAL[1][0]), empty], "de") == latencies([timed(*SIMULEVAL[1][0])], "de")


def test_yaal_leaves_out_words_that_wait_for_the_end():
    """By hand: with 2600 ms and six words, word i belongs at (i - 1) 433.3; the fifth waits for the end."""
    one = timed(*SIMULEVAL[0][0])
    by_name = {score.name: score.value for score in latencies([one], "de")}
    assert by_name["yaal"] == pytest.approx((500 + 66.6666667 + 633.3333333 + 700) / 4)
    assert by_name["yaal_ca"] == pytest.approx((700 + 276.6666667 + 733.3333333 + 1000) / 4)
    late = timed(*SIMULEVAL[3][0])
    assert "yaal" not in {score.name for score in latencies([late], "de")}  # all of it waits
    [score] = [score for score in latencies([one, late], "de") if score.name == "yaal"]
    assert score.lines == 1
    part = replace(one, end=5000.0)  # of a talk that goes on: the fifth counts
    assert {score.name: score.value for score in latencies([part], "de", prefix="long_")}["long_yaal"] == pytest.approx(
        (4 * 475 + 2600 - 4 * 433.3333333) / 5
    )


@pytest.mark.parametrize(("language", "space"), [("de", " "), ("zh", "")])
def test_words_have_the_times_of_the_chunk_that_began_them(language, space):
    signs = "一二三四五六"
    texts = [signs[0], space + signs[1], "", signs[2] + space + signs[3], signs[4], signs[5]]
    emissions = [Emission(text, n + 1.0, n + 1.25, last=n in (3, 5)) for n, text in enumerate(texts)]
    whole = timed_output(emissions, language, source="talk.wav")
    if language == "de":  # the fourth chunk adds to the second word
        assert whole.prediction == "一 二三 四 五六" and whole.delays == [1000, 2000, 4000, 5000]
    else:
        assert whole.prediction == signs and whole.delays == [1000, 2000, 4000, 4000, 5000, 6000]
    assert whole.elapsed == [delay + 250 for delay in whole.delays]
    assert whole.source_length == 6000


def test_a_perfect_translator_lags_by_nothing():
    """A word each second, written when it begins to be said, of as many words as the reference."""
    assert average_lagging([0.0, 1000.0, 2000.0], 3000.0, 3) == 0.0


def test_languages_without_spaces_are_counted_in_characters():
    assert words_of("ein Haus", "de") == ["ein", "Haus"]
    assert words_of("我 看", "zh") == ["我", "看"]
    one = timed([100.0, 100.0], [100.0, 100.0], "我看", 100.0, prediction="我看")
    assert latencies([one], "zh")[0].signature == "unit:char|ms"


def test_the_log_has_a_line_for_each_output(tmp_path):
    write_log(tmp_path / "instances.log", [timed(*SIMULEVAL[1][0], prediction="ein „Haus“")], "de")
    [line] = (tmp_path / "instances.log").read_text(encoding="utf-8").splitlines()
    assert json.loads(line) == {
        "index": 0,
        "prediction": "ein „Haus“",
        "delays": [1000, 1500],
        "elapsed": [1000, 1500],
        "prediction_length": 2,
        "reference": "a b c d",
        "source": ["a.wav"],
        "source_length": 1500,
    }


def test_several_outputs_are_numbered_and_words_may_be_shown_late(tmp_path):
    both = [timed(*SIMULEVAL[0][0]), timed(*SIMULEVAL[1][0])]
    write_log(tmp_path / "a" / "instances.log", both, "de")
    lines = [json.loads(line) for line in (tmp_path / "a" / "instances.log").read_text().splitlines()]
    assert [line["index"] for line in lines] == [0, 1]
    assert differentiable_average_lagging([0.0, 0.0], 100.0) == 0.0  # the second word counts at 50
    assert differentiable_average_lagging([100.0, 100.0], 100.0) == 100.0
    assert average_lagging([50.0], 100.0, 1) == 50.0  # the end was never heard
    assert average_lagging([100.0, 900.0], 100.0, 2) == 100.0  # what comes after the end does not count
    assert average_proportion([50.0, 100.0], 100.0, 3) == 0.5
