"""``dragoman score``: compare files of hypotheses with files of references."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from dragoman.commands.diff import render_comparisons
from dragoman.commands.input_files import lines
from dragoman.reporting.significance import compare
from dragoman.shared.errors import DataError, UsageError
from dragoman.shared.evaluation.counts import Counts
from dragoman.shared.evaluation.outputs import ONE_LINE
from dragoman.shared.evaluation.resegment import resegment_text
from dragoman.shared.evaluation.scores import Score, TextScorer
from dragoman.shared.evaluation.scoring import check_metrics
from dragoman.shared.machine.device import Machine


@dataclass(frozen=True)
class Learned:
    """A metric that is a trained model.

    Attributes:
        folder: of the model, see dragoman/exchange/comet.py.
        sources: file with a source for each line of the references.
        device: where it computes.
    """

    folder: Path
    sources: Path
    device: str = "auto"

    def counter(self, sets: list[list[str]]) -> Callable[[list[str]], Counts]:
        """Return what scores hypotheses with references ``sets``.

        Raises:
            DataError: if the model cannot be read, or there are not as many sources as references.
            UsageError: if the model cannot use the references.
        """
        from dragoman.exchange.comet import read_comet
        from dragoman.exchange.learned import LearnedMetric

        sources = list(lines([self.sources]))
        if len(sources) != len(sets[0]):
            raise DataError(f"{self.sources}: {len(sources)} lines, but the references have {len(sets[0])}")
        device = Machine(device=self.device).device
        model = read_comet(self.folder)
        model.regressor.to(device)
        metric = LearnedMetric(model, sources, sets if model.with_reference else [])

        def count(hypotheses: list[str]) -> Counts:
            counted = metric.count(hypotheses)
            if model.cut:
                logging.getLogger("dragoman").warning(
                    "%s: %d texts were cut to the %d tokens that it reads", self.folder, model.cut, model.longest
                )
                model.cut = 0
            return counted

        return count


def score_files(
    hypotheses: Path,
    references: list[Path],
    language: str,
    metrics: list[str],
    baseline: Path | None = None,
    talks: tuple[Path | None] | None = None,
    learned: Learned | None = None,
) -> None:
    """Score a file of hypotheses against one or more files of references, and test it against another such file.

    Args:
        hypotheses: a line for each line of the references; or for each talk.
        references: the files.
        language: of all of them.
        metrics: what is scored.
        baseline: hypotheses of another system.
        talks: if the hypotheses are whole talks: the file that names the talk of each reference line, or None if there
            is one talk.
        learned: a metric beside those named.

    Raises:
        DataError: if the numbers of lines do not agree, or there are none.
        UsageError: for an unknown metric, or none at all.
    """
    check_metrics(metrics)
    if not metrics and learned is None:
        raise UsageError("there is no metric to score with")
    sets = [list(lines([path])) for path in references]
    if not sets[0]:
        raise DataError(f"{references[0]}: is empty, so there is nothing to score against")
    outputs = {path: list(lines([path])) for path in [hypotheses, *([baseline] if baseline else [])]}
    if talks is not None:
        cut = cutter(sets[0], None if talks[0] is None else list(lines([talks[0]])), language)
        outputs = {path: cut(texts, path) for path, texts in outputs.items()}
    for path, texts in [*zip(references, sets, strict=True), *outputs.items()]:
        if len(texts) != len(sets[0]):
            raise DataError(f"{path}: {len(texts)} lines, but {references[0]} has {len(sets[0])}")
    scorer = TextScorer(sets, language, metrics)
    counts = {path: scorer.count(texts) for path, texts in outputs.items()}
    if learned is not None:
        count = learned.counter(sets)
        counts = {path: [*counts[path], count(texts)] for path, texts in outputs.items()}
    for path, counted in counts.items():
        print_scores([Score.of(item) for item in counted], str(path))
    if baseline:
        print()
        print(render_comparisons([compare(*pair) for pair in zip(counts[hypotheses], counts[baseline], strict=True)]))


def print_scores(scores: list[Score], name: str) -> None:
    """Print a line per score: name of what was scored, metric, value, lines, signature."""
    name = name.translate(ONE_LINE)
    for item in scores:
        lines = f"{item.lines} {'line' if item.lines == 1 else 'lines'}"
        print(f"{name}\t{item.name}\t{item.value:.2f}\t{lines}\t{item.signature}")


def cutter(references: list[str], talks: list[str] | None, language: str) -> Callable[[list[str], Path], list[str]]:
    """Return what cuts the outputs of whole talks, one a line, to the lines of their references.

    Args:
        references: the lines of all talks.
        talks: the name of each line's talk; None if all are of one, whose output may have any number of lines.
        language: of the lines.

    Raises:
        DataError: if there are more or fewer names than references, or a talk's lines do not follow one another.
    """
    if talks is not None and len(talks) != len(references):
        raise DataError(f"{len(talks)} lines name talks, but there are {len(references)} lines of references")
    names = talks or [""] * len(references)
    numbers = [list(group) for _, group in groupby(range(len(names)), names.__getitem__)]
    groups = [[references[number] for number in group] for group in numbers]
    if talks is not None and len(groups) != len({*talks}):
        raise DataError("the lines of a talk must follow one another")

    def cut(outputs: list[str], path: Path) -> list[str]:
        whole = [" ".join(outputs)] if talks is None else outputs
        if len(whole) != len(groups):
            raise DataError(f"{path}: {len(whole)} lines, but the references are of {len(groups)} talks")
        pairs = zip(whole, groups, strict=True)
        return [line for text, group in pairs for line in resegment_text(text, group, language)]

    return cut
