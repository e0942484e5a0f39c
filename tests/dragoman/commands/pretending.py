"""Phases that stand for others, and recipes of them; tests copy this file beside recipes that processes run."""

from __future__ import annotations

import time
from itertools import product

import numpy as np

from dragoman import DataError
from dragoman.shared.evaluation.outputs import Outputs
from dragoman.shared.evaluation.results import record
from dragoman.shared.evaluation.scores import score
from dragoman.shared.machine.workspace import Phase

LINES = 40
REFERENCES = [f"line {n} has words and {n % 7} more" for n in range(LINES)]


class Pretend(Phase):
    """Stands for training and evaluation: a share of the lines comes out wrong, which ones is up to the seed."""

    def __init__(
        self,
        *,
        share: float,
        splits: list[str],
        fails: int = 0,
        updates: int = 10,
        streams: list[dict] | None = None,
        objective: dict | None = None,
    ) -> None:
        self.share, self.splits, self.fails = share, splits, fails

    def run(self, workspace):
        if workspace.seed == self.fails:
            raise DataError("the disk is full")
        wrong = np.random.default_rng(workspace.seed).random(LINES) < self.share
        texts = ["nothing at all" if bad else text for text, bad in zip(REFERENCES, wrong, strict=True)]
        outputs = Outputs([str(n) for n in range(LINES)], texts, [REFERENCES], [""] * LINES)
        outputs.write(workspace.folder / "t.tsv")
        row = {"recipe": workspace.recipe, "arm": workspace.arm, "keys": workspace.keys, "phase": workspace.phase}
        row |= {"corpus": "c", "language": "en", "outputs": f"{workspace.phase}/t.tsv", "averaging": "none", "beam": 1}
        row |= {"search": {}, "seed": workspace.seed}
        scores = score(texts, REFERENCES, "en", ["bleu", "wer"])
        for split, found in product(self.splits, scores):
            record(workspace.output / "results.jsonl", [row | {"split": split} | found.row()])


class Slow(Phase):
    """Stands for pre-training."""

    def __init__(self, *, seconds: float) -> None:
        self.seconds = seconds

    def run(self, workspace):
        time.sleep(self.seconds)
        workspace.folder.mkdir(parents=True, exist_ok=True)
        (workspace.folder / "model").write_text("trained")


RECIPE = """\
# Pretends
output_folder: {folder}/{name}/<seed>
share: {share}
splits: [x/test]
fails: 0
updates: 10
batch: 5
phases:
    evaluate: !new:{module}.Pretend
        share: !ref <share>
        splits: !ref <splits>
        fails: !ref <fails>
        updates: !ref <updates>
        streams: [{{manifests: [a.arrow], budget: !ref <batch>}}]
arms:
    careless: {{share: 0.5}}
    half: {{share: 0.3, batch: 10}}
"""
