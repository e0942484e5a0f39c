r"""METEOR as it is published: by the authors' program, Meteor 1.5 (Denkowski and Lavie 2014, WMT), which is in Java.

Its archive, ``meteor-1.5.jar``, is the user's, in the folder that the environment variable METEOR_FOLDER names, with
the tables of paraphrases in ``data/`` that the release has for English, Czech, French, Spanish, German and Russian.
Without the variable it is that of the package pycocoevalcap, if it is installed, which has the English table alone.

The program aligns words and counts what matches in each stage i, of content and of function words m, in fewest chunks:

    P, R = \sum_i w_i (d m_i^c + (1 - d) m_i^f) / (d l^c + (1 - d) l^f)        l words of the output, of the reference
    score = (1 - g (chunks / matches)^b) P R / (a P + (1 - a) R)

where the one chunk of a text that matches as a whole does not count. The score of several texts is that of the sums of
their counts, each with its best reference. The signature has the name that the program gives to its settings.

Words of the six languages are the program's (``-norm``). It has none for others: there they are those of WER, and
characters in languages without spaces, matched by their stems too where it has a stemmer. White space of any kind, the
ends of lines too, is a space, and ``|||``, by which the program divides texts, is three signs: so its words are, too.
An empty text matches nothing.

Legend: S texts.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from dragoman.shared.errors import DataError, UsageError
from dragoman.shared.evaluation.counts import Counts, form_of
from dragoman.shared.evaluation.task_metrics import LocalWords
from dragoman.shared.text.case import base
from dragoman.shared.text.piece_file import composed

VARIABLE = "METEOR_FOLDER"
#: What has the archive and all tables.
RELEASE = "the folder meteor-1.5 of http://www.cs.cmu.edu/~alavie/METEOR/download/meteor-1.5.tar.gz"
#: The counts of a text: words of both sides, of these function words, matches of four stages, chunks, matched words.
COUNTS = 23
#: Settings by the program's names for them: language, words, parameters (a, b, g, d), stages and their weights.
SETTINGS = {
    "en": "en-norm-0.85_0.2_0.6_0.75-ex_st_sy_pa-1.0_0.6_0.8_0.6",
    "cs": "cz-norm-0.95_0.2_0.6_0.8-ex_pa-1.0_0.4",
    "fr": "fr-norm-0.9_1.4_0.6_0.65-ex_st_pa-1.0_0.2_0.4",
    "es": "es-norm-0.65_1.3_0.5_0.8-ex_st_pa-1.0_0.8_0.6",
    "de": "de-norm-0.95_1.0_0.55_0.55-ex_st_pa-1.0_0.8_0.2",
    "ru": "ru-norm-0.75_1.4_0.7_0.5-ex_st_pa-1.0_0.5_0.5",
}
STEMMED = {code: code for code in ("da", "fi", "hu", "it", "nl", "no", "pt", "ro", "tr")}
STEMMED |= {"nb": "no", "nn": "no", "sv": "se"}
SETTINGS |= {code: f"{name}-no_norm-0.75_1.4_0.7_0.5-ex_st-1.0_0.5" for code, name in STEMMED.items()}
OTHERS = "other-no_norm-0.75_1.4_0.7_0.5-ex-1.0"


class MeteorMetric:
    """Words, stems, synonyms and paraphrases in common, in the same order ("meteor")."""

    def __init__(self, name: str, sets: list[Any], language: str) -> None:
        self.name = name
        self._sets = sets
        self._settings = SETTINGS.get(base(language), OTHERS)
        self._code, norm, parameters, stages, weights = self._settings.split("-")
        self._words = None if norm == "norm" else LocalWords(language)
        self._parameters = [*map(float, parameters.split("_"))]
        self._weights = [*map(float, weights.split("_"))]
        if shutil.which("java") is None:
            raise UsageError(f"the metric {name} needs Java: apt-get install default-jre-headless, or what has 'java'")
        self._archive = _folder() / "meteor-1.5.jar"
        self._tables = [self._archive.parent / "data" / f"paraphrase-{self._code}.gz"] if "pa" in stages else []
        for file in (self._archive, *self._tables):
            if not file.is_file():
                raise UsageError(f"{file}: no such file, which the metric {name} needs: let {VARIABLE} name {RELEASE}")

    def count(self, hypotheses: Sequence[str]) -> Counts:
        """Count words, matches and chunks of each text, by one process that has ended when they are there; (S, 23).

        Raises:
            DataError: if the program fails.
        """
        rows = [[*(line for line in row if line is not None)] for row in zip(*self._sets, hypotheses, strict=True)]
        lines = [" ||| ".join(["SCORE", *map(self._form, row)]) for row in rows]
        command = ["java", "-Xmx2G", "-jar", str(self._archive), "-", "-", "-stdio", "-l", self._code]
        command += [] if self._words else ["-norm"]
        command += [word for table in self._tables for word in ("-a", str(table))]
        # The process ends with its input; run() waits for it, and stops it where it is interrupted itself.
        text = "".join(f"{line}\n" for line in lines)
        done = subprocess.run(command, input=text, capture_output=True, encoding="utf-8", errors="replace", check=False)
        found = [line.split() for line in done.stdout.splitlines()]
        others = [" ".join(line) for line in found if len(line) != COUNTS]
        if done.returncode or others or len(found) != len(lines):
            said = [
                *filter(None, [" ".join(done.stderr.split())[:300], *others]),
                f"{len(found)} of {len(lines)} lines",
            ]
            raise DataError(f"{self._archive}: failed on {len(lines)} texts (exit code {done.returncode}): {said[0]}")
        signature = f"meteor-1.5-wo-{self._settings}{self._words.signature if self._words else ''}"
        values = np.array(found, dtype=np.float64)
        matches = values[:, 4:20].reshape(-1, 8, 2).sum(axis=1)
        values[(matches == values[:, :2]).all(axis=1) & (values[:, 20] == 1), 20] = 0
        return Counts(self.name, signature + form_of(*self._sets, hypotheses), values, self.formula)

    def _form(self, text: str) -> str:
        text = composed(text)
        words = text.split() if self._words is None else self._words.tokenize(text)
        return re.sub(r"\|(?=\|)", "| ", " ".join(words))

    def formula(self, totals: np.ndarray) -> np.ndarray:
        """Return METEOR in per cent (...) of sums of counts (..., 23); 0 if nothing matches."""
        a, b, g, d = self._parameters
        matches = totals[..., 4:20].reshape(*totals.shape[:-1], 4, 2, 2)  # stages; content, function words; both sides
        lengths = np.stack([totals[..., :2] - totals[..., 2:4], totals[..., 2:4]], axis=-2)
        weighted = np.einsum("s,...skn->...kn", self._weights, matches[..., : len(self._weights), :, :])
        matched, words = (np.einsum("k,...kn->n...", [d, 1 - d], counts) for counts in (weighted, lengths))
        with np.errstate(divide="ignore", invalid="ignore"):
            precision, recall = matched / words
            fragments = totals[..., 20] / totals[..., 21:].mean(axis=-1)
            score = (1 - g * fragments**b) / ((1 - a) / precision + a / recall)
        return 100 * np.maximum(np.nan_to_num(score), 0.0)


def _folder() -> Path:
    """Return the folder of the program.

    Raises:
        UsageError: if nothing says where it is.
    """
    named = os.environ.get(VARIABLE)
    if named:
        return Path(named)
    package = find_spec("pycocoevalcap")
    if package is None or not package.submodule_search_locations:
        raise UsageError(
            f"the metric meteor needs Meteor 1.5: let {VARIABLE} name {RELEASE}, or, for English alone, "
            "pip install --no-deps pycocoevalcap"
        )
    return Path(package.submodule_search_locations[0], "meteor")
