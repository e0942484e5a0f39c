"""The results of an evaluated run, read from disk: for comparisons, which need outputs and not only scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dragoman.shared.errors import DataError, UsageError
from dragoman.shared.evaluation.counts import Counts
from dragoman.shared.evaluation.metrics import METRICS
from dragoman.shared.evaluation.outputs import Outputs
from dragoman.shared.evaluation.results import of_run
from dragoman.shared.evaluation.scores import TextScorer

#: Rows of one evaluation agree in these.
ONE_EVALUATION = ("phase", "split", "model", "corpus", "search", "command", "text", "reads", "writes")


@dataclass(frozen=True)
class Tested:
    """The outputs of a run on one test set.

    Attributes:
        place: the table of outputs.
        split: the name of the test set, followed by that of the text if it is one beside the translation.
        rows: the results, by metric.
        outputs: as they were written.
    """

    place: Path
    split: str
    rows: dict[str, dict[str, Any]]
    outputs: Outputs

    @property
    def any_row(self) -> dict[str, Any]:
        """One of the results, for what they have in common."""
        return next(iter(self.rows.values()))

    def count(self, scorer: TextScorer) -> list[Counts]:
        """Count in the outputs.

        Raises:
            DataError: if what comes out is not what the results say.
        """
        counted = scorer.count(self.outputs.hypotheses)
        for counts in counted:
            row = self.rows.get(counts.metric)
            if row and row["signature"] == counts.signature and abs(row["value"] - counts.score) > 0.006:
                raise DataError(
                    f"{self.place}: {counts.metric} is {counts.score:.2f}, and not {row['value']} as results.jsonl has "
                    "it: these are not the outputs that were scored; evaluate again (--restart)"
                )
        return counted

    def scorer(self, metrics: Sequence[str]) -> TextScorer:
        """Return metrics on this test set's references."""
        return TextScorer(self.outputs.references, self.any_row["language"], metrics)


def tests_of(run: Path, phase: str | None = None) -> dict[str, Tested]:
    """Return what a run was tested on, by test set.

    Args:
        run: its output folder.
        phase: the evaluation to read, if there are several.

    Raises:
        DataError: if the run has no results, or they do not say where the outputs are.
        UsageError: if a test set was evaluated in several phases and none is named.
    """
    path = run / "results.jsonl"
    measured = [row for row in of_run(run) if phase in (None, row.get("phase"))]
    rows = [row for row in measured if row["metric"] in METRICS and "kind" not in row]
    if not rows and measured and phase:
        raise DataError(f"{path}: phase {phase!r} scored no outputs that can be compared; dragoman results collects it")
    if not rows:
        raise DataError(f"{path}: no results" + (f" of a phase {phase!r}" if phase else ""))
    tested = {}
    for split in dict.fromkeys(map(_test, rows)):
        rows_of_test = [row for row in rows if _test(row) == split]
        phases = sorted({str(row.get("phase")) for row in rows_of_test})
        if len(phases) > 1:
            raise UsageError(f"{path}: {split} was evaluated in phases {', '.join(phases)}: choose one with --phase")
        last = rows_of_test[-1]
        if not {"outputs", "language"} <= last.keys():
            raise DataError(f"{path}: {split} does not say where its outputs are (evaluated long ago): evaluate again")
        same = [row for row in rows_of_test if all(row.get(key) == last.get(key) for key in ONE_EVALUATION)]
        place = run / last["outputs"]
        tested[split] = Tested(place, split, {row["metric"]: row for row in same}, Outputs.read(place))
    return tested


def _test(row: dict[str, Any]) -> str:
    """Return the test set that a result is of: translations are compared, whatever else a system writes beside them."""
    return str(row["split"]) if row.get("text") in (None, "translation") else f"{row['split']} ({row['text']})"


def same_lines(first: Tested, second: Tested) -> bool:
    """Return whether two test sets have the same references, sources and language, whatever they are called."""
    one, other = first.outputs, second.outputs
    texts = one.references == other.references and one.sources == other.sources
    return texts and first.any_row["language"] == second.any_row["language"]


def pairs_of_tests(first: dict[str, Tested], second: dict[str, Tested]) -> list[tuple[Tested, Tested]]:
    """Return the test sets that two runs share: those of one name, else those of the same lines.

    Readers call one test set differently (``manifests/test``, ``en-de/test``).
    """
    pairs = [(mine, second[name]) for name, mine in first.items() if name in second]
    left = [theirs for name, theirs in second.items() if name not in first]
    for name, mine in first.items():
        same = [theirs for theirs in left if name not in second and same_lines(mine, theirs)]
        if same:
            pairs.append((mine, same[0]))
            left.remove(same[0])
    return pairs


def check_same_test(first: Tested, second: Tested) -> None:
    """Raise a DataError, naming what differs, unless two runs were tested on the same rows."""
    pair = f"{first.place} and {second.place}"
    one, other = first.outputs, second.outputs
    if len(one.ids) != len(other.ids):
        raise DataError(f"{pair} are not of the same test: {len(one.ids)} and {len(other.ids)} lines")
    if len(one.references) != len(other.references):
        raise DataError(f"{pair} have {len(one.references)} and {len(other.references)} references a line")
    kinds = [("id", one.ids, other.ids)] if first.split == second.split else []  # each reader makes its own
    kinds += [("source", one.sources, other.sources)]
    kinds += [("reference", *sets) for sets in zip(one.references, other.references, strict=True)]  # type: ignore[misc]
    for kind, mine, theirs in kinds:
        for line, (a, b) in enumerate(zip(mine, theirs, strict=True), 2):
            if a != b:
                raise DataError(f"{pair} are not of the same test: line {line}: {kind} {a!r} and {b!r}")
    if first.split == second.split and first.any_row["corpus"] != second.any_row["corpus"]:
        versions = f"{first.any_row['corpus']} and {second.any_row['corpus']}"
        raise DataError(f"{pair} are not of the same test: the texts agree, but not the manifests ({versions})")
    if first.any_row["language"] != second.any_row["language"]:
        raise DataError(f"{pair} are in {first.any_row['language']} and {second.any_row['language']}")


def common_metrics(tests: Sequence[Tested]) -> list[str]:
    """Return the metrics that all were scored by, in the order of the first."""
    return [metric for metric in tests[0].rows if all(metric in other.rows for other in tests)]
