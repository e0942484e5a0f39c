"""The phase that tests several models on the same test manifests: trained on these rows, tested on these columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any, ClassVar

from dragoman.shared.batches.stream import Budget
from dragoman.shared.errors import UsageError
from dragoman.shared.evaluation.markdown import markdown
from dragoman.shared.evaluation.results import latest, read
from dragoman.shared.evaluation.scoring import check_metrics
from dragoman.shared.machine.files import replaced_file
from dragoman.shared.machine.processes import on_main
from dragoman.shared.machine.workspace import Phase, Workspace
from dragoman.shared.phases.evaluating import Evaluate
from dragoman.shared.search.search import AnySearch

#: The file that says that a model was tested on all manifests.
DONE = "done"


class EvaluateEach(Phase):
    """Test each of several models on all test manifests, as :class:`Evaluate` does, and write matrices of the scores.

    A recipe trains the models in phases before: each of n languages or pairs by itself, and shows in one table what
    carries over to the others (Liu et al. 2020, table 11; Zan et al. 2022, table 3). ``<name>/`` holds what Evaluate
    writes for a model, and its results bear the phase ``<phase>/<name>``. ``matrix.md`` has a table for each metric and
    name of a test set, the share of outputs in a wrong language among them: rows are models, columns are tests. A
    model that was tested before an interruption is not tested again.

    Args:
        models: the model folders, by what they were trained on.
        manifests: the tests, as paths or patterns.
        search: how to translate.
        budget: how large a batch may be.
        metrics: of the output; see :class:`Evaluate`.
        in_play: languages beside a model's own that its outputs may be in: those of all tests.

    Raises:
        UsageError: if there is no model, the name of one is no name of a folder, or for an unknown metric.
    """

    measures: ClassVar[bool] = True

    def __init__(
        self,
        *,
        models: Mapping[str, str],
        manifests: list[str],
        search: AnySearch,
        budget: Budget,
        metrics: list[str],
        in_play: list[str] | None = None,
    ) -> None:
        if not models or any(not name or name != Path(name).name for name in models):
            raise UsageError(f"models must be folders, each with a name that a folder can have, not {models}")
        check_metrics(metrics, None)
        self.models = dict(models)
        self.manifests = list(manifests)
        self.evaluate = partial(
            Evaluate, manifests=self.manifests, search=search, budget=budget, metrics=metrics, in_play=in_play
        )

    def run(self, workspace: Workspace) -> None:
        """Test the models one after the other; write the matrices."""
        for name, model in self.models.items():
            inner = replace(workspace, phase=f"{workspace.phase}/{name}")
            done = inner.folder / DONE
            if done.is_file():
                workspace.log.info("%s: tested before", inner.phase)
                continue
            self.evaluate(model=model).run(inner)
            on_main(partial(_mark, done), workspace)
        on_main(partial(self._write, workspace), workspace)

    def _write(self, workspace: Workspace) -> None:
        phases = {f"{workspace.phase}/{name}": name for name in self.models}
        rows = [row for row in read(workspace.output / "results.jsonl") if row.get("phase") in phases]
        text = "\n\n".join(_tables(latest(rows), phases)) + "\n"
        with replaced_file(workspace.folder / "matrix.md") as temporary:
            temporary.write_text(text, encoding="utf-8")
        workspace.log.info("%s:\n%s", workspace.phase, text)


def _tables(rows: Sequence[dict[str, Any]], phases: Mapping[str, str]) -> Iterator[str]:
    """Yield a table with a title for each test and each metric; ``phases``: models by the phase of their results."""
    cells = {(row["phase"], row["split"], row["metric"]): float(row["value"]) for row in rows}
    splits = list(dict.fromkeys(split for _, split, _ in cells))
    for name in dict.fromkeys(split.partition("/")[2] for split in splits):
        tests = [split for split in splits if split.partition("/")[2] == name]
        columns = {"trained on": "trained on"} | {split: split.partition("/")[0] for split in tests} | {"mean": "mean"}
        for metric in dict.fromkeys(metric for _, _, metric in cells):
            table = []
            for phase, model in phases.items():
                scores = {split: cells[phase, split, metric] for split in tests if (phase, split, metric) in cells}
                shown = {split: f"{score:.1f}" for split, score in scores.items()}
                average = {"mean": f"{mean(scores.values()):.1f}"} if scores else {}
                table.append({"trained on": model} | shown | average)
            yield f"{metric} on {name}\n\n{markdown(table, columns)}"


def _mark(done: Path) -> None:
    done.parent.mkdir(parents=True, exist_ok=True)
    done.touch()
