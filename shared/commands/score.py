"""``dragoman score``: compare files of hypotheses with files of references."""

from __future__ import annotations

from pathlib import Path

from shared.commands.diff import render_comparisons
from shared.commands.input_files import lines
from shared.errors import DataError
from shared.evaluation.scores import Score, TextScorer
from shared.evaluation.scoring import check_metrics
from shared.evaluation.significance import compare


def score_files(
    hypotheses: Path, references: list[Path], language: str, metrics: list[str], baseline: Path | None = None
) -> None:
    """Score a file of hypotheses against one or more files of references, and test it against another such file."""
    check_metrics(metrics)
    sets = [list(lines([path])) for path in references]
    outputs = {path: list(lines([path])) for path in [hypotheses, *([baseline] if baseline else [])]}
    for path, found in [*zip(references, sets, strict=True), *outputs.items()]:
        if len(found) != len(sets[0]):
            raise DataError(f"{path}: {len(found)} lines, but {references[0]} has {len(sets[0])}")
    scorer = TextScorer(sets, language, metrics)
    counts = {path: scorer.count(found) for path, found in outputs.items()}
    for path, counted in counts.items():
        print_scores([Score.of(item) for item in counted], str(path))
    if baseline:
        print()
        print(render_comparisons([compare(*pair) for pair in zip(counts[hypotheses], counts[baseline], strict=True)]))


def print_scores(scores: list[Score], name: str) -> None:
    """Print a line per score: name of what was scored, metric, value, lines, signature."""
    for item in scores:
        print(f"{name}\t{item.name}\t{item.value:.2f}\t{item.lines} lines\t{item.signature}")
