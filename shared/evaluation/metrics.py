"""Metrics: the counts of each sentence, and the formula that turns their sums into a score.

All corpus scores of this project are of that kind, so that the score of any sample of sentences, which a significance
test needs by the thousand, is a matrix product away.

All texts are compared in Unicode's normal form C; "|unicode:nfc" behind a signature says that this changed one, so that
sacreBLEU, given the same texts, would find fewer matches.

BLEU, chrF and TER are counted by sacreBLEU (Post 2018), with the tokenizer that fits the language; "bleu_lc" does not
tell capitals from small letters, and "bleu_bare" no letters with marks from those without, as published scores of WMT16
Romanian do not ("ș" with comma or cedilla is "s"). "spbleu" is BLEU of the pieces of FLORES-200 (Goyal et al. 2022),
"chrf++" has words and pairs of words beside characters (Popović 2017).

WER and CER count edits with RapidFuzz, after one of two normalisations that the signature names:

- ``raw`` ("wer_raw", "cer_raw"): the text as it is, white space runs made one space.
- ``nopunct+lower`` ("wer", "cer"): what the text policy of recognisers does (shared/text/normalise.py: punctuation
  False, lowercase True), by the rules of the language that is named behind it; so a recogniser that has learnt its
  policy's form loses nothing by it. fairseq's convention (``--wer-tokenizer 13a --wer-lowercase --wer-remove-punct``)
  is the same on ASCII words with punctuation around them and apostrophes inside. It differs in what it divides: there
  "well-known" and "3.5" are a word each, and "$5" is two; and outside ASCII it leaves punctuation glued to words.

CER counts the spaces between words as characters, except in languages that do not divide words by spaces, where all
spaces are dropped; there WER is refused. Empty hypotheses count as they stand. An empty reference is an error for WER
and CER, whose denominator it would not enter; for the others, which sacreBLEU defines on it, it is allowed.

Metrics of labels, summaries and answers are in task_metrics.py, METEOR is in meteor.py.

Legend: S sentences, K counts of a sentence.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from dragoman.shared.errors import DataError
from dragoman.shared.evaluation.counts import SPOKEN, Counts, Metric, form_of, rate
from dragoman.shared.evaluation.meteor import MeteorMetric
from dragoman.shared.evaluation.task_metrics import AnswerMetric, LabelMetric, RougeMetric
from dragoman.shared.recipe.tree import nearest
from dragoman.shared.text import languages
from dragoman.shared.text.case import base
from dragoman.shared.text.piece_file import composed, read_piece_file

BLEU_ORDER = 4
CHRF_BETA = 2


# -- sacreBLEU ------------------------------------------------------------------------------------------------------


class SacreMetric:
    """One of sacreBLEU's metrics, with the n-grams of its references kept for every system that is scored."""

    def __init__(self, name: str, sets: list[Any], language: str) -> None:
        from sacrebleu.metrics.chrf import CHRF
        from sacrebleu.metrics.ter import TER

        self.name = name
        self.form = _without_marks if name == "bleu_bare" else composed
        self.mark = form_of(*sets)
        sets = [[line and self.form(line) for line in lines] for lines in sets]
        self.scorer: Any
        self.formula: Callable[[np.ndarray], np.ndarray]
        if "bleu" in name:
            tokenizer = "flores200" if name == "spbleu" else languages.sacrebleu_tokenizer(language)
            self.scorer = _bleu_scorer(sets, tokenizer, language, lowercase=name == "bleu_lc")
            self.formula = bleu
        elif name.startswith("chrf"):
            self.scorer = CHRF(word_order=2 if name == "chrf++" else 0, references=sets)
            self.formula = chrf
        else:
            unspaced = not languages.spaced(language)
            self.scorer = TER(normalized=unspaced, asian_support=unspaced, references=sets)
            self.formula = rate

    def count(self, hypotheses: Sequence[str]) -> Counts:
        """Count n-grams, or edits; (S, 10), (S, 18), (S, 24) or (S, 2)."""
        lines = [*map(self.form, hypotheses)]
        values = np.array(self.scorer._extract_corpus_statistics(lines, None), dtype=np.float64)
        mark = "|marks:removed" if self.form is _without_marks else self.mark or form_of(hypotheses)
        return Counts(self.name, f"{self.scorer.get_signature()}{mark}", values, self.formula)


def _without_marks(line: str) -> str:
    """Return a text whose letters have lost their accents, commas and cedillas."""
    parts = (c for c in unicodedata.normalize("NFD", line) if unicodedata.category(c) != "Mn")
    return unicodedata.normalize("NFC", "".join(parts))


def _bleu_scorer(sets: list[Any], tokenizer: str, language: str, *, lowercase: bool) -> Any:
    from sacrebleu.metrics.bleu import BLEU

    if tokenizer == "flores200":
        _check_pieces(tokenizer)
    try:
        return BLEU(tokenize=tokenizer, lowercase=lowercase, references=sets)
    except (RuntimeError, ImportError) as error:
        extra = tokenizer.split("-")[0]
        raise DataError(
            f"BLEU in {languages.name(language)} needs the tokenizer {tokenizer}: pip install 'dragoman[{extra}]'"
        ) from error


def _check_pieces(tokenizer: str) -> None:
    """Refuse a tokenizer whose pieces are not there: sacreBLEU would download them, and wait for a network."""
    from sacrebleu.tokenizers import tokenizer_spm

    address = tokenizer_spm.SPM_MODELS[tokenizer]["url"]
    try:
        read_piece_file(Path(tokenizer_spm.SACREBLEU_DIR, "models", address.rpartition("/")[2]))
    except DataError as error:
        raise DataError(f"{error}; spbleu needs there what is at {address}") from error


def bleu(totals: np.ndarray, *, effective_order: bool = False) -> np.ndarray:
    """Return BLEU as sacreBLEU has it: four orders, exponential smoothing (Chen and Cherry 2014, method 3).

    Args:
        totals: (..., 10): hypothesis length, reference length, n-grams that match, n-grams.
        effective_order: leave out orders of which a short hypothesis has no n-gram, for scores of single sentences.
    """
    hypothesis, reference = totals[..., 0], totals[..., 1]
    correct, total = totals[..., 2 : 2 + BLEU_ORDER], totals[..., 2 + BLEU_ORDER :]
    missed = correct == 0
    smoothed = np.where(missed, 0.5 ** np.cumsum(missed, axis=-1), correct)
    with np.errstate(divide="ignore", invalid="ignore"):
        counted = (total > 0) | (not effective_order)
        logarithm = np.where(counted, np.log(100 * smoothed / total), 0).sum(axis=-1) / counted.sum(axis=-1)
        brevity = np.where(hypothesis < reference, 1 - reference / hypothesis, 0.0)
        defined = ((total > 0) == counted).all(axis=-1) & correct.any(axis=-1)
        return np.where(defined, np.exp(np.where(defined, brevity + logarithm, 0.0)), 0.0)


def chrf(totals: np.ndarray) -> np.ndarray:
    """Return chrF2 or chrF2++ (Popović 2015, 2017), averaged over the orders that both sides have.

    Args:
        totals: (..., 18) or (..., 24): for each order, of characters and of words, the n-grams of the hypotheses, of
            the references, and those that match.
    """
    parts = totals.reshape(*totals.shape[:-1], -1, 3)
    hypothesis, reference, match = parts[..., 0], parts[..., 1], parts[..., 2]
    defined = (hypothesis > 0) & (reference > 0)
    orders = np.maximum(defined.sum(axis=-1), 1)
    precision = np.divide(match, hypothesis, out=np.zeros_like(match), where=defined).sum(axis=-1) / orders
    recall = np.divide(match, reference, out=np.zeros_like(match), where=defined).sum(axis=-1) / orders
    weight = CHRF_BETA**2
    below = weight * precision + recall
    return 100 * (1 + weight) * precision * recall / np.where(below > 0, below, 1.0)


# -- edits ----------------------------------------------------------------------------------------------------------


class EditRate:
    """Word or character error rate: "wer", "cer", "wer_raw", "cer_raw"."""

    def __init__(self, name: str, sets: list[Any], language: str) -> None:
        if len(sets) > 1:
            raise DataError(f"{name} is defined for one set of references, not {len(sets)}")
        for number, line in enumerate(sets[0], 1):
            if not (line or "").strip():
                raise DataError(f"references, line {number}: {line!r} is empty, so {name} is not defined")
        unit, _, raw = name.partition("_")
        spaced = languages.spaced(language)
        if unit == "wer" and not spaced:
            raise DataError(f"{languages.name(language)} does not divide words by spaces: use cer instead of {name}")
        self.name = name
        self._normalise = _collapse if raw else lambda line: SPOKEN(line, language)
        self._divide: Callable[[str], Sequence[str]] = str.split
        if unit == "cer":
            self._divide = str if spaced else _without_spaces
        normalisation = "raw" if raw else f"nopunct+lower|lang:{base(language)}"
        spaces = "" if unit == "wer" else f"|spaces:{'yes' if spaced else 'no'}"
        self._signature = f"{unit}|norm:{normalisation}{spaces}|rapidfuzz:{version('rapidfuzz')}"
        self._raw = sets[0] if raw else None
        self._expected = [self._units(line or "") for line in sets[0]]
        if not any(self._expected):
            raise DataError(f"all {len(self._expected)} references are empty once punctuation is removed")

    def count(self, hypotheses: Sequence[str]) -> Counts:
        """Count edits and units of the reference; (S, 2)."""
        from rapidfuzz.distance import Levenshtein

        pairs = zip(self._expected, map(self._units, hypotheses), strict=True)
        counts = [(Levenshtein.distance(expected, written), len(expected)) for expected, written in pairs]
        mark = "" if self._raw is None else form_of(self._raw, hypotheses)
        return Counts(self.name, self._signature + mark, np.array(counts, dtype=np.float64), rate)

    def _units(self, line: str) -> Sequence[str]:
        return self._divide(self._normalise(line))


def _collapse(line: str) -> str:
    return " ".join(composed(line).split())


def _without_spaces(line: str) -> str:
    return "".join(line.split())


def unknown(metric: str) -> str:
    """Return what to say of a metric that is not among ``METRICS``."""
    if metric.lower().startswith("comet"):
        return f"{metric} is a trained model, which this does not load: use `dragoman score --comet FOLDER`"
    return f"unknown metric {metric!r}{nearest(metric.lower(), METRICS)}; known are {', '.join(METRICS)}"


#: Made of a name, sets of references (a line for each sentence, None where one has fewer), and their language.
METRICS: dict[str, Callable[[str, list[Any], str], Metric]] = {
    **dict.fromkeys(("bleu", "bleu_lc", "bleu_bare", "spbleu", "chrf", "chrf++", "ter"), SacreMetric),
    **dict.fromkeys(("wer", "cer", "wer_raw", "cer_raw"), EditRate),
    **dict.fromkeys(("accuracy", "entity_f1"), LabelMetric),
    **dict.fromkeys(("exact_match", "answer_f1", "exact_match_local", "answer_f1_local"), AnswerMetric),
    **dict.fromkeys(("rouge1", "rouge2", "rougeL", "rougeLsum"), RougeMetric),
    "meteor": MeteorMetric,
}
