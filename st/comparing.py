"""The phase that compares how a model encodes the same sentences in two modalities."""

from __future__ import annotations

from typing import Annotated, Any

from dragoman.shared.batches.manifest import Manifest
from dragoman.shared.batches.stream import Budget
from dragoman.shared.evaluation.representations import retrieved
from dragoman.shared.evaluation.scores import Score
from dragoman.shared.machine.workspace import Workspace
from dragoman.shared.phases.evaluating import MeasureManifests
from dragoman.shared.ranges import Range
from dragoman.shared.systems.system import System
from dragoman.st.modalities import input_vectors, plot_pairs


class CompareInputs(MeasureManifests):
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
        pairs: Annotated[int, Range(least=2)] = 40,
    ) -> None:
        super().__init__(model=model, manifests=manifests, budget=budget)
        self.one = one
        self.other = other
        self.mean = mean
        self.pairs = pairs

    def measure(
        self, system: System, manifest: Manifest, name: str, workspace: Workspace
    ) -> tuple[list[Score], dict[str, Any]]:
        """Return the share of rows whose other input is found."""
        one, other = (
            input_vectors(system, manifest, field, mean=self.mean, budget=self.budget, workspace=workspace)
            for field in (self.one, self.other)
        )
        plot_pairs(one[: self.pairs], other[: self.pairs], workspace.folder / f"{name}.png", (self.one, self.other))
        hits = retrieved(one, other, manifest.column("source_text").to_pylist())
        vectors = "mean of states" if self.mean else "states"
        score = Score("retrieval", 100 * hits / len(manifest), f"vectors:{vectors}|cosine", len(manifest))
        return [score], {"reads": [self.one, self.other]}
