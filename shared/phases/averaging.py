"""The phase that averages checkpoints into a model folder."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, NotRequired

import torch

from shared.errors import DataError
from shared.machine.files import replaced_file
from shared.machine.processes import MainPhase
from shared.machine.workspace import Workspace
from shared.nn.state import load_exactly
from shared.systems.saved_model import SavedModel
from shared.training.checkpoints import Checkpoint, Choice, list_checkpoints


class Average(MainPhase):
    """Average the parameters of checkpoints into a model folder (``model/``).

    Args:
        fit: the folder of a Fit phase.
        checkpoints: "last N": the newest ones; "best N": the best by the validation score.

    Raises:
        UsageError: for another choice.

    """

    def __init__(self, *, fit: str, checkpoints: str) -> None:
        self.fit = Path(fit)
        self.choice = Choice.read(checkpoints)

    def work(self, workspace: Workspace) -> None:
        """Average, and note in ``model/averaged.json`` what went in."""
        found = list_checkpoints(self.fit / "checkpoints")
        chosen = self.choice.of(found)
        if not chosen:
            kind = "checkpoint with a score" if found else "checkpoint"
            raise DataError(f"{self.fit / 'checkpoints'}: no {kind} to average")
        if len(chosen) < self.choice.number:
            workspace.log.warning("%s: %d checkpoints, not the %s", self.fit, len(chosen), self.choice)
        system = SavedModel.from_description(self.fit / "system")
        load_exactly(system, average(chosen), str(self.fit / "checkpoints"))
        system.save(workspace.folder / "model")
        rule = str(replace(self.choice, number=len(chosen)))
        note: dict[str, Any] = {
            "averaging": rule,
            "updates": [c.update for c in chosen],
            "scores": [c.score for c in chosen],
            "recipe": workspace.recipe,
            "keys": workspace.keys,
            "seed": workspace.seed,
        }
        with replaced_file(workspace.folder / "model" / "averaged.json") as temporary:
            temporary.write_text(json.dumps(note, indent=2) + "\n", encoding="utf-8")
        workspace.log.info("%s: %s of updates %s", workspace.phase, rule, ", ".join(map(str, note["updates"])))


#: What ``averaged.json`` says of how the model was trained.
AVERAGED: dict[str, Any] = {
    "averaging": NotRequired[str],
    "updates": NotRequired[list[int]],
    "seed": NotRequired[int],
    "recipe": NotRequired[str],
    "keys": NotRequired[dict[str, Any]],
}


def average(checkpoints: list[Checkpoint]) -> dict[str, torch.Tensor]:
    """Return the mean of the system's tensors over checkpoints, computed in float64."""
    sums: dict[str, torch.Tensor] = {}
    types: dict[str, torch.dtype] = {}
    for checkpoint in checkpoints:
        for name, tensor in checkpoint.system_tensors().items():
            types[name] = tensor.dtype
            sums[name] = sums[name] + tensor.double() if name in sums else tensor.double()
    return {name: (total / len(checkpoints)).to(types[name]) for name, total in sums.items()}
