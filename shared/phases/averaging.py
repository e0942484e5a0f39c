"""The phase that averages checkpoints into a model folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, NotRequired

import torch

from dragoman.shared.errors import DataError
from dragoman.shared.machine.files import replaced_file
from dragoman.shared.machine.processes import MainPhase
from dragoman.shared.machine.workspace import Workspace
from dragoman.shared.nn.state import load_exactly
from dragoman.shared.systems.saved_model import SavedModel
from dragoman.shared.training.checkpoints import Checkpoint, Choice, best, list_checkpoints
from dragoman.shared.training.history import History
from dragoman.shared.training.validation import Validation

#: A checkpoint before the best one is of a model that had not learned yet, if it is worse by more than this share.
NOT_LEARNED = 0.5
#: An average that is worse than the best checkpoint by more than this share is clearly worse.
CLEARLY_WORSE = 0.02


@dataclass(frozen=True)
class Standard:
    """The scores that those of checkpoints and averages are compared with.

    Attributes:
        top: the best checkpoint of a training.
        score: its score.
        worst: the worst score of the training.
    """

    top: Checkpoint
    score: float
    worst: float

    def is_worse(self, score: float, share: float) -> bool:
        """Tell whether a score is below the best by more than a share of it, and of the way from the worst to it."""
        return self.score - score > share * max(abs(self.score), self.score - self.worst)


class Average(MainPhase):
    """Average the parameters of checkpoints into a model folder (``model/``).

    Checkpoints of a model that had not learned yet are left out. With a validation that translates, the average is
    scored; if it is clearly worse than the best checkpoint, that one alone becomes the model. Both are said in a
    warning.

    Args:
        fit: the folder of a Fit phase.
        checkpoints: "last N": the newest ones; "best N": the best by the validation score.
        validation: that of the training; None if the average is not to be scored.

    Raises:
        UsageError: for another choice.
    """

    choices: ClassVar[tuple[str, ...]] = ("checkpoints",)
    aside: ClassVar[tuple[str, ...]] = ("validation",)

    def __init__(self, *, fit: str, checkpoints: str, validation: Validation | None = None) -> None:
        self.fit = Path(fit)
        self.choice = Choice.read(checkpoints)
        self.validation = validation

    def work(self, workspace: Workspace) -> None:
        """Average, and note in ``model/averaged.json`` what went in."""
        checkpoints = list_checkpoints(self.fit / "checkpoints")
        chosen = self.choice.of(checkpoints)
        if not chosen:
            kind = "checkpoint with a score" if checkpoints else "checkpoint"
            raise DataError(f"{self.fit / 'checkpoints'}: no {kind} to average")
        if len(chosen) < self.choice.number:
            workspace.log.warning("%s: %d checkpoints, not the %s", self.fit, len(chosen), self.choice)
        standard = _standard(checkpoints, History(self.fit).scores())
        chosen = self._that_learned(chosen, standard, workspace)
        rule = replace(self.choice, number=len(chosen))
        system = SavedModel.from_description(self.fit / "system")
        load_exactly(system, average(chosen), str(self.fit / "checkpoints"))
        score = self._measured(system, workspace) if standard and len(chosen) > 1 else chosen[0].score
        if standard and len(chosen) > 1 and score is not None:
            both = f"{self._shown(score)}, best single {self._shown(standard.score)}"
            workspace.log.info("%s: average of updates %s: %s", workspace.phase, _listed(chosen), both)
            if standard.is_worse(score, CLEARLY_WORSE):
                message = "%s: warning: the average is clearly worse than the best checkpoint, which is taken alone"
                workspace.log.warning(message, workspace.phase)
                rule, chosen, score = Choice("best", 1), [standard.top], standard.score
                load_exactly(system, average(chosen), str(self.fit / "checkpoints"))
        system.save(workspace.folder / "model")
        note: dict[str, Any] = {
            "averaging": str(rule),
            "updates": [c.update for c in chosen],
            "scores": [c.score for c in chosen],
            "score": score,
            "recipe": workspace.recipe,
            "arm": workspace.arm,
            "keys": workspace.keys,
            "seed": workspace.seed,
        }
        with replaced_file(workspace.folder / "model" / "averaged.json") as temporary:
            temporary.write_text(json.dumps(note, indent=2) + "\n", encoding="utf-8")
        workspace.log.info("%s: %s of updates %s", workspace.phase, rule, _listed(chosen))

    def _that_learned(
        self, chosen: list[Checkpoint], standard: Standard | None, workspace: Workspace
    ) -> list[Checkpoint]:
        """Return the checkpoints but for those of a model that had not learned yet."""
        if standard is None:
            return chosen
        early = [one for one in chosen if one.update < standard.top.update and one.score is not None]
        early = [one for one in early if standard.is_worse(one.score or 0.0, NOT_LEARNED)]
        if early:
            reason = f"{', '.join(self._shown(one.score or 0.0) for one in early)}, best {self._shown(standard.score)}"
            message = "%s: warning: left out of the average: the model had not learned yet at updates %s (%s)"
            workspace.log.warning(message, workspace.phase, _listed(early), reason)
        return [one for one in chosen if one not in early]

    def _measured(self, system: SavedModel, workspace: Workspace) -> float | None:
        """Return the score of the system on the development data; None if it is not to be scored."""
        if self.validation is None:
            return None
        validated = self.validation.measure(system.to(workspace.device), workspace)
        system.to("cpu")
        return None if validated is None else validated.score

    def _shown(self, score: float) -> str:
        return f"a score of {score:.3f}" if self.validation is None else self.validation.shown(score)


def _standard(checkpoints: list[Checkpoint], scores: Mapping[int, float]) -> Standard | None:
    """Return what checkpoints are compared with; None if none has a score."""
    for top in best(checkpoints)[:1]:
        if top.score is not None:
            return Standard(top, top.score, min([top.score, *scores.values()]))
    return None


def _listed(checkpoints: list[Checkpoint]) -> str:
    return ", ".join(str(checkpoint.update) for checkpoint in checkpoints)


#: What ``averaged.json`` says of how the model was trained.
AVERAGED: dict[str, Any] = {
    "averaging": NotRequired[str],
    "updates": NotRequired[list[int]],
    "seed": NotRequired[int],
    "recipe": NotRequired[str],
    "arm": NotRequired[str],
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
