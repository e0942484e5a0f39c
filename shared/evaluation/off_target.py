"""The off-target rate: the share of outputs that are in another language than the one asked for.

Many-to-many systems, above all on directions that they were not trained on, answer in English, or repeat their input
(Zhang et al. 2020, section 3, call it off-target translation). BLEU shows that only as a low number.

Languages are told apart by py3langid, a naive Bayes model over byte n-grams, whose probabilities are calibrated for the
length of the text. An output is judged only if one of the languages in play (those the system reads or writes) has a
probability of at least ``CERTAIN``: "Ja." or "Peter Müller" are nobody's in particular. On two words to whole verses in
seven languages that rule judges three quarters of the texts of 20 to 30 characters and all of more than 100, and errs
in under two of a thousand (docs/results.md). The rate is a share of the outputs judged, and says how many those are.

An output in a language out of play counts as the nearest one in play. A system of one language is held against all that
py3langid knows. What it takes for one language here, regional forms and scripts, cannot be told apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from typing import Any

from dragoman.shared.evaluation.scores import Score
from dragoman.shared.text import languages

CERTAIN = 0.9
#: py3langid's codes where they are not the first part of ours.
_ALIASES = {"nb": "no", "nn": "no", "fil": "tl", "yue": "zh"}


@dataclass(frozen=True)
class OffTarget:
    """The languages of a system's outputs.

    Attributes:
        expected: the code of the language that they should be in.
        codes: the language of each output; None for those that could not be judged.
        signature: how they were judged.
    """

    expected: str
    codes: list[str | None]
    signature: str

    @property
    def judged(self) -> int:
        """The number of outputs that could be judged."""
        return sum(code is not None for code in self.codes)

    @property
    def wrong(self) -> list[int]:
        """The numbers of the outputs in another language, from 0."""
        right = label(self.expected)
        return [number for number, code in enumerate(self.codes) if code not in (None, right)]

    @property
    def share(self) -> float:
        """The share of wrong ones among those judged; 0 if there are none."""
        return len(self.wrong) / self.judged if self.judged else 0.0

    @property
    def score(self) -> Score | None:
        """The rate in per cent, with the number of outputs that it is a rate of; None if there are none."""
        return Score("off_target", 100 * self.share, self.signature, self.judged) if self.judged else None


def judge(lines: Sequence[str], expected: str, in_play: Sequence[str]) -> OffTarget:
    """Tell what language each line is in, of those in play.

    Raises:
        DataError: for an unknown code.
    """
    codes = set(language_identifier().nb_classes) if lines else set()
    labels = {label(code) for code in [expected, *in_play]}
    candidates = sorted(labels & codes) if len(labels) > 1 else None
    among = "+".join(candidates) if candidates else "all"
    signature = f"off_target|lid:py3langid:{version('py3langid')}|among:{among}|certain:{CERTAIN}"
    if label(expected) not in codes or (candidates and len(candidates) < 2):
        return OffTarget(expected, [None] * len(lines), signature)
    identifier = language_identifier()
    identifier.set_languages(candidates)
    try:
        classes = [identifier.classify(line) for line in lines]
    finally:
        identifier.set_languages(None)
    return OffTarget(expected, [code if sure >= CERTAIN else None for code, sure in classes], signature)


def label(code: str) -> str:
    """Return py3langid's code of a language."""
    base = languages.check(code).split("-")[0]
    return _ALIASES.get(base, base)


@cache
def language_identifier() -> Any:
    """Return py3langid's model, read once."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
