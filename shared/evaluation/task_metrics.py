"""Metrics of what models write beside translations: labels, summaries, answers.

"accuracy" is the share of labels that are right, and "entity_f1" the F measure of entities, as conlleval and seqeval
count them (Tjong Kim Sang and De Meulder 2003); where a text has labels of words, there must be as many as words.

"rouge1", "rouge2" and "rougeL" (Lin 2004) are computed by Google's rouge-score: the mean of the F measures of all
texts, each against the reference that is best for it. Its tokenizer keeps nothing but ASCII letters and digits, so it
is taken for English, with Porter's stems, as in ROUGE-1.5.5 with ``-m``. In other languages words are those of WER
without stems, and in languages without spaces characters are words (NCLS: Zhu et al. 2019). "rougeL" is that of whole
texts. "rougeLsum" is the ROUGE-L of papers on summaries of several sentences (Lin 2004, section 3.2): for each sentence
of the reference, the words that stand in the same order in any sentence of the output. A sentence ends behind a full
stop that white space or the text's end follows, or a line's end, "Mr." included; published scores divide by other
means, too (files2rouge at the full stops of Stanford's tokenizer).

"exact_match" and "answer_f1" compare answers as SQuAD's script does (Rajpurkar et al. 2016, section 6.1): without case,
ASCII punctuation and the English articles, in whatever language, each with the reference that is nearest to it.
"exact_match_local" and "answer_f1_local" do so without any punctuation and without the articles of the language, and
Chinese by characters, as MLQA's script does (Lewis et al. 2020, ACL).

Legend: S texts.
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import numpy as np

from dragoman.shared.errors import DataError
from dragoman.shared.evaluation.counts import SPOKEN, Counts, form_of, rate
from dragoman.shared.machine.extras import require
from dragoman.shared.text import languages
from dragoman.shared.text.case import base
from dragoman.shared.text.piece_file import composed
from dragoman.shared.text.word_spans import CLOSING, FULL_STOPS

# -- labels ---------------------------------------------------------------------------------------------------------


class LabelMetric:
    """Labels of texts, or of words, with spaces between them: "accuracy", "entity_f1"."""

    def __init__(self, name: str, sets: list[Any], language: str) -> None:
        if len(sets) > 1:
            raise DataError(f"{name} is defined for one set of references, not {len(sets)}")
        self.name = name
        self._expected = [(line or "").split() for line in sets[0]]
        for number, labels in enumerate(self._expected, 1):
            if name == "entity_f1" and (wrong := [label for label in labels if not _TAG.fullmatch(label)]):
                raise DataError(f"references, line {number}: {wrong[0]!r} is no tag such as O, B-LOC, I-LOC")

    def count(self, hypotheses: Sequence[str]) -> Counts:
        """Count right labels and labels (S, 2), or entities that are right, found and wanted (S, 3)."""
        pairs = [(line.split(), expected) for line, expected in zip(hypotheses, self._expected, strict=True)]
        if self.name == "accuracy":
            counts = [(sum(map(str.__eq__, *pair)), len(pair[1])) for pair in pairs]
            return Counts(self.name, "labels", np.array(counts, dtype=np.float64), rate)
        entities = [(_entities(line), _entities(expected)) for line, expected in pairs]
        of_entities = [(len(found & wanted), len(found), len(wanted)) for found, wanted in entities]
        return Counts(self.name, "entities|conlleval", np.array(of_entities, dtype=np.float64), f_measure)


_TAG = re.compile(r"O|[BIES]-\S+")


def _entities(tags: Sequence[str]) -> set[tuple[str, int, int]]:
    """Return kind, beginning and end of the entities of a text, as conlleval and seqeval divide them.

    An I or E goes on with what a B or I of its kind began; everything else but O begins an entity.
    """
    found: dict[int, tuple[str, int, int]] = {}
    before, start = ("O", ""), 0
    for place, tag in enumerate(tags):
        position, _, kind = tag.partition("-")
        goes_on = position in ("I", "E") and before[0] in ("B", "I") and before[1] == kind
        start = start if goes_on else place
        if position != "O":
            found[start] = kind, start, place + 1
        before = position, kind
    return {*found.values()}


def f_measure(totals: np.ndarray) -> np.ndarray:
    """Return the F measure in per cent; totals (..., 3): right ones, found ones, wanted ones; 0 if there are none."""
    found_and_wanted = totals[..., 1] + totals[..., 2]
    return 200 * totals[..., 0] / np.maximum(found_and_wanted, 1)


# -- summaries ------------------------------------------------------------------------------------------------------


class RougeMetric:
    """Words or pairs of words in common ("rouge1", "rouge2"), and words in the same order ("rougeL", "rougeLsum")."""

    def __init__(self, name: str, sets: list[Any], language: str) -> None:
        require("rouge_score", "summaries", f"the metric {name}")
        from rouge_score.rouge_scorer import RougeScorer

        self.name = name
        self._sets = sets
        words = None if base(language) == "en" else LocalWords(language)
        self._scorer = RougeScorer([name], use_stemmer=True, tokenizer=words)
        tokens = words.signature if words else "|tok:rouge|stem:porter"
        self._form = _sentences if name == "rougeLsum" else composed
        tokens += "|sentences:stops" if name == "rougeLsum" else ""
        self._signature = f"{name}|f:mean{tokens}|rouge-score:{version('rouge-score')}"

    def count(self, hypotheses: Sequence[str]) -> Counts:
        """Return the F measure of each text, and 1 for it; (S, 2)."""
        wanted = ([self._form(line) for line in lines if line is not None] for lines in zip(*self._sets, strict=True))
        scores = map(self._scorer.score_multi, wanted, map(self._form, hypotheses))
        values = np.array([(score[self.name].fmeasure, 1) for score in scores], dtype=np.float64)
        return Counts(self.name, self._signature + form_of(*self._sets, hypotheses), values, rate)


_WIDE_STOPS = "".join(sign for sign in FULL_STOPS if unicodedata.east_asian_width(sign) == "W")
_BEHIND = f"[{re.escape(CLOSING)}]*"
_END = re.compile(rf"([{FULL_STOPS}]{_BEHIND})\s+|([{_WIDE_STOPS}]{_BEHIND})")


def _sentences(text: str) -> str:
    """Return a text with a line for each sentence; those of Chinese and Japanese end without a space."""
    return _END.sub(r"\1\2\n", composed(text))


class LocalWords:
    """The words of a text by the rules of its language, without punctuation; rouge-score asks it for them, too."""

    def __init__(self, language: str) -> None:
        self._language = language
        unit = "words" if languages.spaced(language) else "characters"
        self.signature = f"|tok:{unit}|norm:nopunct+lower|lang:{base(language)}"

    def tokenize(self, text: str) -> list[str]:
        """Return the words."""
        words = SPOKEN(text, self._language)
        return words.split() if languages.spaced(self._language) else [*"".join(words.split())]


# -- answers --------------------------------------------------------------------------------------------------------


def _any_of(words: str) -> str:
    return rf"\b(?:{'|'.join(words.split())})\b"


#: What of a text is no word of an answer, by language; "ال" wherever it stands.
ARTICLES = {
    "ar": "ال",
    "de": _any_of("ein eine einen einem eines einer der die das den dem des"),
    "en": _any_of("a an the"),
    "es": _any_of("un una unos unas el la los las"),
    "hi": "",
    "vi": _any_of("của là cái chiếc những"),
    "zh": "",
}


class AnswerMetric:
    """Answers to questions: "exact_match", "answer_f1", and these with "_local" behind."""

    def __init__(self, name: str, sets: list[Any], language: str) -> None:
        self.name = name
        self._exact = name.startswith("exact")
        self._local = name.endswith("_local")
        self._language = base(language) if self._local else "en"
        if self._language not in ARTICLES:
            raise DataError(f"{name} is defined for {', '.join(ARTICLES)}, not {language}")
        self._sets = sets
        self._expected = [
            [self._words(line) for line in lines if line is not None] for lines in zip(*sets, strict=True)
        ]

    def count(self, hypotheses: Sequence[str]) -> Counts:
        """Count the best score of each answer, 0 to 1, and answers; (S, 2)."""
        compare = list.__eq__ if self._exact else _overlap
        words = map(self._words, hypotheses)
        best = [
            max(compare(found, each) for each in wanted) for found, wanted in zip(words, self._expected, strict=True)
        ]
        signature = f"answers|norm:{f'mlqa|lang:{self._language}' if self._local else 'squad'}"
        values = np.stack([np.array(best, dtype=np.float64), np.ones(len(best))], axis=1)
        return Counts(self.name, signature + form_of(*self._sets, hypotheses), values, rate)

    def _words(self, line: str) -> list[str]:
        signs = (sign for sign in composed(line).lower() if not self._is_punctuation(sign))
        text = re.sub(ARTICLES[self._language] or "$^", " ", "".join(signs))
        return (re.sub("([\u4e00-\u9fa5])", r" \1 ", text) if self._language == "zh" else text).split()

    def _is_punctuation(self, sign: str) -> bool:
        return sign in string.punctuation or (self._local and unicodedata.category(sign).startswith("P"))


def _overlap(found: list[str], wanted: list[str]) -> float:
    """Return the F measure of words."""
    same = (Counter(found) & Counter(wanted)).total()
    return 2 * same / (len(found) + len(wanted)) if same else 0.0
