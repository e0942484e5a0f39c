"""ROUGE against a loop over words, values by hand, and rouge-score itself in English."""

from __future__ import annotations

import math
import random
from collections import Counter

import pytest
from rapidfuzz.distance import LCSseq
from rouge_score.rouge_scorer import RougeScorer

from dragoman.shared.errors import UsageError
from dragoman.shared.evaluation.metrics import METRICS
from dragoman.shared.evaluation.scores import score
from dragoman.shared.machine import extras
from tests.small import refuses

NAMES = ["rouge1", "rouge2", "rougeL"]


def values(hypotheses: list[str], references: list[str], language: str) -> list[float]:
    return [found.value for found in score(hypotheses, references, language, NAMES)]


def overlap(one: list[str], other: list[str], size: int) -> float:
    """The F measure of n-grams, each found in the other side once."""
    pieces = [Counter(zip(*(words[n:] for n in range(size)), strict=False)) for words in (one, other)]
    return 2 * (pieces[0] & pieces[1]).total() / max(pieces[0].total() + pieces[1].total(), 1)


@pytest.mark.parametrize(("language", "between"), [("de", " "), ("ru", " "), ("zh", ""), ("ja", "")])
def test_it_is_the_mean_of_the_f_measures_of_texts(language: str, between: str) -> None:
    draw = random.Random(1)
    signs = "äбπ" if between else "在名前"
    pairs = [[draw.choices(signs, k=draw.randint(0, 7)) for _ in range(2)] for _ in range(12)]
    expected = [
        *(math.fsum(overlap(*pair, size) for pair in pairs) / 12 * 100 for size in (1, 2)),
        math.fsum(2 * LCSseq.similarity(*pair) / max(len(pair[0] + pair[1]), 1) for pair in pairs) / 12 * 100,
    ]
    assert values(*([between.join(pair[side]) for pair in pairs] for side in (0, 1)), language) == pytest.approx(
        expected
    )


def test_words_of_a_language_are_those_of_its_error_rate() -> None:
    """Capitals and punctuation are not counted: of 3 and 4 words, 2 are common, and 1 pair of 2 and 3."""
    assert values(["Der „GROẞE“ Hund."], ["der große, alte Hund"], "de") == pytest.approx([600 / 7, 40, 600 / 7])
    assert values(["他不知道。"], ["他知道！"], "zh") == pytest.approx([600 / 7, 40, 600 / 7])
    assert [found.signature.split("|rouge")[0] for found in score(["a"], ["a"], "zh-TW", NAMES)] == [
        f"{name}|f:mean|tok:characters|norm:nopunct+lower|lang:zh" for name in NAMES
    ]
    assert "|tok:words|norm:nopunct+lower|lang:de|" in score(["a"], ["a"], "de", ["rouge1"])[0].signature


def test_english_is_that_of_rouge_score() -> None:
    hypotheses = ["The dogs were running, and running!", "", "it's 5:30 p.m."]
    references = ["A dog ran and was running.", "nothing", "It is 5:30 p.m., isn't it?"]
    scorer = RougeScorer(NAMES, use_stemmer=True)
    oracle = [scorer.score(wanted, found) for wanted, found in zip(references, hypotheses, strict=True)]
    found = score(hypotheses, references, "en", NAMES)
    for one in found:
        assert one.value == pytest.approx(100 * sum(row[one.name].fmeasure for row in oracle) / 3)
        assert one.higher_is_better and "|tok:rouge|stem:porter|rouge-score:" in one.signature
    assert score(["dogs"], ["dog"], "en-GB", ["rouge1"])[0].value == score(["dogs"], ["dog"], "en", ["rouge1"])[0].value
    assert values(["walked"], ["walking"], "en")[0] == 100 and values(["walked"], ["walking"], "de")[0] == 0


def test_sentences_of_a_summary_are_those_of_rouge_score() -> None:
    """Divided by hand for it: behind a stop and its quotation marks, not inside a number."""
    hypotheses = [["the dog bit a man .", "The man won 3.5 points!"], ["One here"], ["a b."]]
    references = [['He said: "A man."', "The dog bit points."], ["There is one.", "And here?"], [""]]
    scorer = RougeScorer(["rougeLsum"], use_stemmer=True)
    pairs = [*zip(references, hypotheses, strict=True)]
    oracle = [scorer.score("\n".join(wanted), "\n".join(found))["rougeLsum"].fmeasure for wanted, found in pairs]
    joined = [[" ".join(lines) for lines in side] for side in (hypotheses, references)]
    [found] = score(*joined, "en", ["rougeLsum"])
    assert found.value == pytest.approx(100 * sum(oracle) / 3) and found.higher_is_better
    assert "|tok:rouge|stem:porter|sentences:stops|" in found.signature
    assert score(*joined, "en", ["rougeL"])[0].value < found.value
    lines = [["\n".join(lines) for lines in side] for side in (hypotheses, references)]
    assert score(*lines, "en", ["rougeLsum"])[0].value == found.value


def test_sentences_of_chinese_end_without_a_space() -> None:
    """All 5 characters of the reference stand in the same order in a sentence of the output."""
    found, wanted = "他不知道。她在这里。", "她在。他知道！"
    assert [one.value for one in score([found], [wanted], "zh", ["rougeLsum", "rougeL"])] == pytest.approx(
        [100 * 2 * 5 / (5 + 8), 100 * 2 * 3 / (5 + 8)]
    )


def test_the_best_reference_counts() -> None:
    sets = [["the cat sat", "x"], ["a dog", None]]
    assert score(["a dog", "x"], sets, "de", ["rouge1"])[0].value == 100
    assert score(["the dog", "y"], sets, "de", ["rouge1"])[0].value == pytest.approx(50 / 2)


def test_without_its_library_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    message = r"the metric rouge2 needs the library rouge_score: pip install 'dragoman\[summaries\]'"
    refuses(UsageError, message, METRICS["rouge2"], "rouge2", [["a"]], "de")
