"""The phase that compares how a model encodes the same sentences in two modalities."""

from __future__ import annotations

from pathlib import Path

from shared.corpus.find import find_manifests
from shared.corpus.stream import Budget
from shared.errors import UsageError
from shared.evaluation.modalities import plot_pairs, row_vectors
from shared.evaluation.representations import retrieved
from shared.evaluation.results import split_name
from shared.evaluation.scores import Score
from shared.machine.processes import MainPhase
from shared.machine.workspace import Stopwatch, Workspace
from shared.phases.testing import forget_earlier, opened, record_scores
from shared.systems.system import System


class CompareInputs(MainPhase):
    """Find each row by one of its inputs among the other inputs of all rows: the text of a recording, for example.

    Writes ``<folder>.<split>.png`` (the pairs in the plane of two principal components) and the metric "retrieval" (the
    percentage of rows that are found; 100 / rows by chance) to ``results.jsonl`` of the run's folder.

    Args:
        model: a model folder.
        manifests: the tests, as paths or patterns.
        budget: how large a batch may be.
        one: the input that searches.
        other: the input that is found.
        mean: compare the means of states; needed if rows have different numbers of them.
        pairs: how many rows the picture shows, from the first.

    """

    def __init__(
        self,
        *,
        model: str,
        manifests: list[str],
        budget: Budget,
        one: str = "speech",
        other: str = "source",
        mean: bool = False,
        pairs: int = 40,
    ) -> None:
        if pairs < 2:
            raise UsageError(f"pairs must be at least 2, not {pairs}")
        self.model, self.manifests, self.budget = Path(model), list(manifests), budget
        self.one, self.other, self.mean, self.pairs = one, other, mean, pairs

    def work(self, workspace: Workspace) -> None:
        """Compare the inputs of every manifest."""
        forget_earlier(workspace)
        system = System.load(self.model, workspace.device)
        for path in find_manifests(self.manifests):
            stopwatch = Stopwatch()
            manifest = opened(path, workspace)
            one, other = (
                row_vectors(system, manifest, name, mean=self.mean, budget=self.budget, workspace=workspace)
                for name in (self.one, self.other)
            )
            picture = workspace.folder / f"{path.parent.name}.{path.stem}.png"
            plot_pairs(one[: self.pairs], other[: self.pairs], picture, (self.one, self.other))
            found = retrieved(one, other, manifest.column("source_text").to_pylist())
            vectors = "mean of states" if self.mean else "states"
            score = Score("retrieval", 100 * found / len(manifest), f"vectors:{vectors}|cosine", len(manifest))
            how = {"reads": [self.one, self.other]}
            record_scores([score], split_name(path), manifest, self.model, workspace, stopwatch, how)
