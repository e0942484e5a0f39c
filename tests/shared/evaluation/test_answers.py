"""Answers to questions: SQuAD's and MLQA's definitions written down again, word by word, and values by hand."""

import random
import unicodedata
from collections import Counter

import pytest

from dragoman import DataError
from dragoman.shared.evaluation.metrics import METRICS
from dragoman.shared.evaluation.scores import score
from tests.small import refuses

ASCII = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
ARTICLES = {
    "en": {"a", "an", "the"},
    "de": {"ein", "eine", "einen", "einem", "eines", "einer", "der", "die", "das", "den", "dem", "des"},
    "es": {"un", "una", "unos", "unas", "el", "la", "los", "las"},
    "vi": {"của", "là", "cái", "chiếc", "những"},
    "hi": set(),
    "zh": set(),
}
WORDS = "The a an Cat cat's der DIE las của 10.5 «x» — 北京 市x \u0964 - El".split()


def words_of(text, language, local):
    """The words of an answer: letter by letter, then word by word."""
    letters = []
    for sign in text.lower():
        outside = sign in ASCII or (local and unicodedata.category(sign)[0] == "P")
        chinese = local and language == "zh" and "一" <= sign <= "\u9fa5"
        letters.append("" if outside else f" {sign} " if chinese else sign)
    return [word for word in "".join(letters).split() if word not in ARTICLES[language if local else "en"]]


def looped(found, references, language, local):
    """The best exact match and the best F1 of one answer, in per cent."""
    exact, best = 0.0, 0.0
    words = words_of(found, language, local)
    for reference in references:
        wanted = words_of(reference, language, local)
        exact = max(exact, 100.0 * (words == wanted))
        if same := (Counter(words) & Counter(wanted)).total():
            precision, recall = same / len(words), same / len(wanted)
            best = max(best, 100 * 2 * precision * recall / (precision + recall))
    return exact, best


@pytest.mark.parametrize("local", [False, True])
@pytest.mark.parametrize("language", ARTICLES)
def test_random_answers(language, local):
    rng = random.Random(3)

    def drawn():
        return " ".join(rng.choices(WORDS, k=rng.randint(0, 4)))

    suffix = "_local" if local else ""
    answers = [drawn() for _ in range(200)]
    sets = [[rng.choice([drawn(), answer]) for answer in answers]]
    sets += [[rng.choice([None, drawn()]) for _ in answers] for _ in range(2)]
    expected = [
        looped(found, [each for each in references if each is not None], language, local)
        for found, references in zip(answers, zip(*sets, strict=True), strict=True)
    ]
    assert len({*expected}) > 5
    for place, name in enumerate(("exact_match", "answer_f1")):
        counts = METRICS[f"{name}{suffix}"](f"{name}{suffix}", sets, language).count(answers)
        assert (100 * counts.values[:, 0]).tolist() == pytest.approx([each[place] for each in expected])
        assert counts.score == pytest.approx(sum(each[place] for each in expected) / 200) and counts.higher_is_better


@pytest.mark.parametrize(
    ("language", "found", "reference", "local", "exact", "f1"),
    [
        ("en", "The cat.", "cat", False, 100, 100),
        ("en", "black cat", "the black dog", False, 0, 50),
        ("en", "", "cat", False, 0, 0),
        ("en", "the", "a", False, 100, 0),  # nothing is left of both: equal, without a word in common
        ("de", "der Hund", "Hund", False, 0, 100 * 2 / 3),
        ("de", "Der Hund", "einen «Hund»", True, 100, 100),
        ("de", "Hund", "„Hund“", False, 0, 0),
        ("zh", "北京市", "北京", False, 0, 0),
        ("zh", "北京市", "北京。", True, 0, 80),
        ("ar", "الكتاب", "كتاب", True, 100, 100),
        ("hi", "घर।", "घर", True, 100, 100),
        ("es-MX", "La casa", "¿casa?", True, 100, 100),
    ],
)
def test_values_by_hand(language, found, reference, local, exact, f1):
    suffix = "_local" if local else ""
    scores = score([found], [reference], language, [f"exact_match{suffix}", f"answer_f1{suffix}"])
    assert [one.value for one in scores] == pytest.approx([exact, f1])


def test_signatures_name_the_rules():
    names = ["exact_match", "answer_f1_local"]
    found = score(["e\u0301"], [["x"], ["é"]], "de", names)
    assert [one.value for one in found] == [100, 100]
    assert [one.signature for one in found] == [
        "answers|norm:squad|unicode:nfc",
        "answers|norm:mlqa|lang:de|unicode:nfc",
    ]
    refuses(
        DataError, "answer_f1_local is defined for ar, de, en, es, hi, vi, zh, not ja", score, ["a"], ["a"], "ja", names
    )
