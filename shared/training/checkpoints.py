"""Training checkpoints: complete or absent, the last and the best ones kept.

A checkpoint is a folder ``checkpoints/00012000/`` with

    objective.safetensors   the objective's tensors
    frozen.safetensors      parameters that do not learn, if there are some: a hard link to the file of the checkpoint
                            before, as long as they are the same, so that they take their place on the disk once
    training.pt             optimiser, random states, position in the data; read back without running anything
    meta.json               update, epoch, validation scores

One that is written because a run was stopped, between those that are due, is "interim": it serves to go on from, and
takes no part in averages, so that a run that was stopped ends with the same model as one that was not.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NotRequired

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import nn

from shared.errors import DataError, UsageError
from shared.machine.files import discard_folder, replaced_folder
from shared.machine.records import read_record
from shared.nn.state import contiguous, load_exactly
from shared.training.tuning import merged

#: Folders of checkpoints: the number of the update, filled up with zeros.
_NAME = re.compile(r"[0-9]{8,18}", re.ASCII)
_META: dict[str, Any] = {
    "update": int,
    "score": float | None,
    "epoch": NotRequired[int],
    "adapter_scale": NotRequired[float | None],
    "interim": NotRequired[bool],
}
_LEARNING, _FROZEN = "objective.safetensors", "frozen.safetensors"
#: What a training state holds.
_TRAINING = ("optimizer", "position", "ranks")


@dataclass(frozen=True)
class Checkpoint:
    """One checkpoint on disk."""

    folder: Path
    update: int
    score: float | None
    interim: bool = False

    def meta(self) -> dict[str, Any]:
        """Return what ``meta.json`` says."""
        return _read_meta(self.folder)

    def tensors(self) -> dict[str, torch.Tensor]:
        """Return the objective's tensors."""
        frozen = self.folder / _FROZEN
        return _load(self.folder / _LEARNING) | (_load(frozen) if frozen.exists() else {})

    def system_tensors(self) -> dict[str, torch.Tensor]:
        """Return the tensors of the system alone, adapters added to what they stand beside."""
        prefix = "system."
        tensors = {name[len(prefix) :]: t for name, t in self.tensors().items() if name.startswith(prefix)}
        scale = self.meta().get("adapter_scale")
        return tensors if scale is None else merged(tensors, scale)

    def training(self) -> dict[str, Any]:
        """Return the optimiser's state, the random states and the position in the data."""
        file = self.folder / "training.pt"
        try:
            found = dict(torch.load(file, map_location="cpu", weights_only=True))
        except Exception as error:  # torch raises many kinds for a damaged or a hostile file
            raise DataError(f"{file}: not a readable training state ({str(error).splitlines()[0]})") from error
        missing = [name for name in _TRAINING if name not in found]
        if missing:
            raise DataError(f"{file}: not a readable training state (it lacks {', '.join(missing)})")
        return found


@dataclass(frozen=True)
class Choice:
    """Some of a run's checkpoints: the newest ones, or the best by the validation score.

    Attributes:
        kind: "last" or "best".
        number: how many.

    """

    kind: str
    number: int

    @staticmethod
    def read(text: str) -> Choice:
        """Read "last 10" or "best 5".

        Raises:
            UsageError: for anything else.

        """
        match = re.fullmatch(r"(last|best) ([1-9][0-9]{0,5})", text)
        if match is None:
            raise UsageError(f"checkpoints are chosen by 'last N' or 'best N' with N from 1 on, not by {text!r}")
        return Choice(match[1], int(match[2]))

    def of(self, checkpoints: list[Checkpoint]) -> list[Checkpoint]:
        """Choose from checkpoints that were due, oldest first; fewer if there are not as many."""
        checkpoints = [checkpoint for checkpoint in checkpoints if not checkpoint.interim]
        return checkpoints[-self.number :] if self.kind == "last" else best(checkpoints)[: self.number]

    def __str__(self) -> str:
        """Write it as it is read."""
        return f"{self.kind} {self.number}"


class Checkpoints:
    """The checkpoints of one Fit.

    Args:
        keep: "last N" or "best N": which ones an average will be made of (see :class:`Choice`). The newest and the
            best one by the validation score are kept in any case.
        every: updates between two checkpoints; validation writes one as well.

    Raises:
        UsageError: for another rule, or if ``every`` is not positive.

    """

    def __init__(self, *, keep: str = "best 5", every: int = 1000) -> None:
        if every < 1:
            raise UsageError(f"every must be at least 1, not {every}")
        self.keep = Choice.read(keep)
        self.every = every

    def save(self, folder: Path, objective: nn.Module, training: dict[str, Any], meta: dict[str, Any]) -> None:
        """Write a checkpoint below ``folder``, then delete those that need not be kept.

        Args:
            folder: where the checkpoints of the phase stand.
            objective: whose tensors are kept.
            training: plain data and tensors that ``Checkpoint.training`` gives back.
            meta: ``update``, ``score`` (higher is better, or None), whether it is ``interim``, and anything else that
                JSON can hold.

        Raises:
            DataError: if the disk is full or cannot be written; the checkpoints already there stay as they are.

        """
        place = folder / f"{meta['update']:08d}"
        try:
            with replaced_folder(place) as temporary:
                learning, frozen = _divided(objective)
                save_file(learning, temporary / _LEARNING)
                if frozen:
                    _save_frozen(frozen, temporary / _FROZEN, list_checkpoints(folder))
                torch.save(training, temporary / "training.pt")
                (temporary / "meta.json").write_text(json.dumps(meta, indent=2) + "\n", encoding="utf-8")
        except (OSError, SafetensorError, RuntimeError) as error:
            before = list_checkpoints(folder)
            intact = f"{before[-1].folder} is intact" if before else "there is no earlier checkpoint"
            raise DataError(f"{place}: the checkpoint could not be written ({error}); {intact}") from error
        found = list_checkpoints(folder)
        wanted = [*self.keep.of(found), *found[-1:], *best(found)[:1]]
        kept = {checkpoint.update for checkpoint in wanted}
        for checkpoint in found:
            if checkpoint.update not in kept:
                discard_folder(checkpoint.folder)


def list_checkpoints(folder: Path) -> list[Checkpoint]:
    """Return the complete checkpoints below a folder, oldest first; what has another name (a copy) is none.

    Raises:
        DataError: if the description of one cannot be read, or is that of another update than its name says.

    """
    found = []
    for place in folder.glob("[0-9]*"):
        if not _NAME.fullmatch(place.name):
            continue
        meta = _read_meta(place)
        if meta["update"] != int(place.name):
            raise DataError(
                f"{place / 'meta.json'}: is that of update {meta['update']}, not of {int(place.name)} as the folder's "
                "name says: a copy needs a name that is no number"
            )
        found.append(Checkpoint(place, meta["update"], meta["score"], meta.get("interim", False)))
    return sorted(found, key=lambda checkpoint: checkpoint.update)


def best(checkpoints: list[Checkpoint]) -> list[Checkpoint]:
    """Return those with a score, best first; among equals the later one comes first."""
    scored = [c for c in checkpoints if c.score is not None]
    return sorted(scored, key=lambda c: (c.score, c.update), reverse=True)


def load_objective(objective: nn.Module, checkpoint: Checkpoint) -> None:
    """Load a checkpoint's tensors into the objective that wrote them."""
    load_exactly(objective, checkpoint.tensors(), str(checkpoint.folder / _LEARNING))


def _divided(objective: nn.Module) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    """Return the tensors of an objective: those that learn, with the buffers, and the frozen parameters."""
    state = objective.state_dict(keep_vars=True)
    frozen = {name for name, t in state.items() if isinstance(t, nn.Parameter) and not t.requires_grad}
    tensors = contiguous(state)
    return {n: t for n, t in tensors.items() if n not in frozen}, {n: t for n, t in tensors.items() if n in frozen}


def _save_frozen(tensors: dict[str, torch.Tensor], file: Path, before: list[Checkpoint]) -> None:
    """Write frozen parameters, or link to the newest checkpoint's file if it holds the same."""
    if before and _holds(before[-1].folder / _FROZEN, tensors):
        try:
            file.hardlink_to(before[-1].folder / _FROZEN)
            return
        except OSError:
            pass  # a disk without links gets a copy
    save_file(tensors, file)


def _holds(file: Path, tensors: dict[str, torch.Tensor]) -> bool:
    try:
        with safe_open(file, framework="pt") as found:
            return {*found.keys()} == {*tensors} and all(
                found.get_slice(name).get_shape() == list(tensor.shape) and found.get_tensor(name).equal(tensor)
                for name, tensor in tensors.items()
            )
    except (SafetensorError, OSError):
        return False


def _load(file: Path) -> dict[str, torch.Tensor]:
    try:
        return load_file(file)
    except (SafetensorError, OSError) as error:
        raise DataError(f"{file}: not a readable weights file ({error})") from error


def _read_meta(folder: Path) -> dict[str, Any]:
    advice = f"delete {folder}, and training goes on from the checkpoint before it"
    return read_record(folder / "meta.json", _META, "a readable checkpoint description", advice)
