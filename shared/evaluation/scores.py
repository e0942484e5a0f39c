"""Scores of detokenised text against references, each with a signature that says how it was computed.

BLEU, chrF and TER are sacreBLEU's (Post 2018), with the tokenizer that fits the language. WER and CER count edits with
jiwer, after one of two normalisations that the signature names:

- ``raw`` ("wer_raw", "cer_raw"): the text as it is, white space runs made one space.
- ``13a+lower+nopunct`` ("wer", "cer"): fairseq's convention for speech recognition (``--wer-tokenizer 13a
  --wer-lowercase --wer-remove-punct``): sacreBLEU's 13a tokenizer, tokens that are nothing but Unicode punctuation
  dropped, lowercase. 13a leaves punctuation outside ASCII glued to words, so that is made a space before (fairseq does
  not), but for apostrophes, hyphens and the Catalan middle dot inside words; on ASCII text the two agree.

CER counts the spaces between words as characters, except in languages that do not divide words by spaces, where all
spaces are dropped; there WER is refused. Empty hypotheses count as they stand. An empty reference is an error for WER
and CER, whose denominator it would not enter; for the others, which sacreBLEU defines on it, it is allowed.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from shared import languages
from shared.errors import DataError

WITHIN_WORDS = "\u2019\u2010\u2011\u00b7"  # apostrophe, hyphen, unbroken hyphen, middle dot


@dataclass(frozen=True)
class Score:
    """One number and what it means.

    Attributes:
        name: "bleu", "chrf", "ter", "wer", "cer", "wer_raw", "cer_raw".
        value: 0 to 100 for bleu and chrf, higher is better; a percentage, lower is better, for the others.
        signature: how it was computed.
        lines: how many lines were scored; all of them.

    """

    name: str
    value: float
    signature: str
    lines: int

    @property
    def higher_is_better(self) -> bool:
        """Tell which way the number improves."""
        return self.name in ("bleu", "chrf")

    def __str__(self) -> str:
        """Return the number with its signature, on one line."""
        return f"{self.name} {self.value:.2f} ({self.lines} lines, {self.signature})"


def score(
    hypotheses: Sequence[str],
    references: Sequence[str] | Sequence[Sequence[str]],
    language: str,
    metrics: Sequence[str] = ("bleu", "chrf", "ter"),
) -> list[Score]:
    """Score detokenised hypotheses.

    Args:
        hypotheses: one line each.
        references: as many lines; or several sets of references, each of as many lines (not for WER and CER).
        language: code of the language that they are in.
        metrics: names of :class:`Score`, in the order wanted.

    Raises:
        DataError: if the numbers of lines differ or are 0, a metric is unknown or does not fit the language, a
            reference is empty where that has no meaning, or the language needs a tokenizer that is not installed.

    """
    hypotheses = list(hypotheses)
    sets = _reference_sets(references)
    languages.check(language)
    if not hypotheses:
        raise DataError("there are 0 hypotheses to score")
    for number, lines in enumerate(sets, 1):
        if len(lines) != len(hypotheses):
            name = f"references {number}" if len(sets) > 1 else "references"
            raise DataError(f"{len(hypotheses)} hypotheses, but {len(lines)} lines of {name}")
    results = []
    for metric in metrics:
        if metric not in METRICS:
            raise DataError(f"unknown metric {metric!r}; known are {', '.join(METRICS)}")
        value, signature = METRICS[metric](metric, hypotheses, sets, language)
        results.append(Score(metric, value, signature, len(hypotheses)))
    return results


def _reference_sets(references: Sequence[str] | Sequence[Sequence[str]]) -> list[list[str]]:
    if isinstance(references, str):
        raise DataError("references must be a list of lines, not one string")
    single = [line for line in references if isinstance(line, str)]
    if len(single) == len(references):
        return [single]
    if single:
        raise DataError("references must be lines, or lists of lines, not both")
    return [list(lines) for lines in references]


# -- sacreBLEU ------------------------------------------------------------------------------------------------------


def _sacrebleu(metric: str, hypotheses: list[str], sets: list[list[str]], language: str) -> tuple[float, str]:
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.metrics.ter import TER

    scorer: Any
    if metric == "bleu":
        tokenizer = languages.sacrebleu_tokenizer(language)
        try:
            scorer = BLEU(tokenize=tokenizer)
        except (RuntimeError, ImportError) as error:
            extra = tokenizer.split("-")[0]
            raise DataError(
                f"BLEU in {languages.name(language)} needs the tokenizer {tokenizer}: pip install 'sacrebleu[{extra}]'"
            ) from error
    elif metric == "chrf":
        scorer = CHRF()
    else:
        unspaced = not languages.spaced(language)
        scorer = TER(normalized=unspaced, asian_support=unspaced)
    return scorer.corpus_score(hypotheses, sets).score, str(scorer.get_signature())


# -- edits ----------------------------------------------------------------------------------------------------------


def _edits(metric: str, hypotheses: list[str], sets: list[list[str]], language: str) -> tuple[float, str]:
    import jiwer

    if len(sets) > 1:
        raise DataError(f"{metric} is defined for one set of references, not {len(sets)}")
    references = sets[0]
    for number, line in enumerate(references, 1):
        if not line.strip():
            raise DataError(f"references, line {number}: {line!r} is empty, so {metric} is not defined")
    unit, _, raw = metric.partition("_")
    spaced = languages.spaced(language)
    if unit == "wer" and not spaced:
        raise DataError(f"{languages.name(language)} does not divide words by spaces: use cer instead of {metric}")
    normalise = _collapse if raw else _without_case_and_punctuation()
    expected, found = ([normalise(line) for line in lines] for lines in (references, hypotheses))
    if unit == "cer" and not spaced:
        expected, found = (["".join(line.split()) for line in lines] for lines in (expected, found))
    if not any(expected):
        raise DataError(f"all {len(references)} references are empty once punctuation is removed")
    value = 100.0 * (jiwer.wer(expected, found) if unit == "wer" else jiwer.cer(expected, found))
    normalisation = "raw" if raw else "13a+lower+nopunct"
    spaces = "" if unit == "wer" else f"|spaces:{'yes' if spaced else 'no'}"
    return value, f"{unit}|norm:{normalisation}{spaces}|jiwer:{version('jiwer')}"


def _collapse(line: str) -> str:
    return " ".join(line.split())


def _without_case_and_punctuation() -> Callable[[str], str]:
    from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

    tokenizer = Tokenizer13a()

    def normalise(line: str) -> str:
        tokens = tokenizer("".join(_spaced_out(line))).split()
        return " ".join(token for token in tokens if not all(map(_is_punctuation, token))).lower()

    return normalise


def _spaced_out(line: str) -> Iterator[str]:
    """Yield the characters, with a space for each punctuation mark outside ASCII that is not part of a word."""
    for before, character, after in zip(" " + line, line, line[1:] + " ", strict=False):
        inside = character in WITHIN_WORDS and before.isalnum() and after.isalnum()
        yield " " if not character.isascii() and _is_punctuation(character) and not inside else character


def _is_punctuation(character: str) -> bool:
    return unicodedata.category(character).startswith("P")


METRICS: dict[str, Callable[[str, list[str], list[list[str]], str], tuple[float, str]]] = {
    **dict.fromkeys(("bleu", "chrf", "ter"), _sacrebleu),
    **dict.fromkeys(("wer", "cer", "wer_raw", "cer_raw"), _edits),
}
