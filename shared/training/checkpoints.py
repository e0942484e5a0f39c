"""Training checkpoints: complete or absent, the last and the best ones kept.

A checkpoint is a folder ``checkpoints/00012000/`` with

    objective.safetensors   the objective's tensors; of parameters that processes divide, they are in files of each:
    objective-0000?-of-00008.safetensors  its rows of them (part_files.py)
    frozen.safetensors      parameters that do not learn, if there are some: a hard link to the file of the checkpoint
                            before, as long as they are the same, so that they take their place on the disk once
    training.pt             optimiser, random states, position in the data; read back without running anything
    moments-0000?-of-00008.safetensors    its rows of the moments, likewise
    meta.json               update, epoch, validation scores, and a digest of each file above

One that is written because a run was stopped, between those that are due, is "interim": it serves to go on from, and
takes no part in averages, so that a run that was stopped ends with the same model as one that was not.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NotRequired

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import nn

from dragoman.shared.annotations import Checked
from dragoman.shared.errors import DataError, UsageError, one_line
from dragoman.shared.machine.files import discard_folder, replaced_folder
from dragoman.shared.machine.records import check_record, read_record
from dragoman.shared.nn.state import check_fit, contiguous
from dragoman.shared.ranges import PositiveInt
from dragoman.shared.training.part_files import MOMENTS, PARAMETERS, Joined, Part, digest, read_moments, read_parts
from dragoman.shared.training.position import check_position
from dragoman.shared.training.tuning import merged

#: Folders of checkpoints: the number of the update, filled up with zeros.
_NAME = re.compile(r"[0-9]{8,18}", re.ASCII)
_META: dict[str, Any] = {
    "update": int,
    "score": float | None,
    "epoch": NotRequired[int],
    "adapter_scale": NotRequired[float | None],
    "interim": NotRequired[bool],
    "files": NotRequired[dict[str, str]],
}
_LEARNING, _FROZEN = "objective.safetensors", "frozen.safetensors"
_TRAINING = "training.pt"
#: What a training state holds.
_STATE: dict[str, Any] = {
    "optimizer": dict[str, Any],
    "position": dict[str, Any],
    "ranks": list[dict[str, Any]],
    "planned": NotRequired[int],
}


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

    def tensors(self, part: Part = (0, 1)) -> Joined:
        """Return the objective's tensors, mapped; of the files of processes, a part is looked at for damage."""
        pieces: dict[str, list[torch.Tensor]] = {}
        for name in [_LEARNING, *([_FROZEN] if self._has(_FROZEN) else [])]:
            with self._reading(name, "weights file"):
                pieces |= read_parts([self.folder / name])
                self._check_unchanged(name)
        parts = self._parts(PARAMETERS, "weights file", part)
        with self._reading(_LEARNING, "weights file"):
            return Joined(pieces | read_parts(parts))

    def system_tensors(self) -> Mapping[str, torch.Tensor]:
        """Return the tensors of the system alone, adapters added to what they stand beside."""
        prefix = "system."
        pieces = self.tensors().pieces
        tensors = Joined({name[len(prefix) :]: own for name, own in pieces.items() if name.startswith(prefix)})
        scale = self.meta().get("adapter_scale")
        return tensors if scale is None else merged(tensors, scale)

    def training(self, part: Part = (0, 1)) -> dict[str, Any]:
        """Return the optimiser's state, with a part of its moments, the random states and the position in the data."""
        with self.restoring():
            place, mapped = self.folder / _TRAINING, part[1] > 1
            state = dict(torch.load(place, map_location="cpu", weights_only=True, mmap=mapped))
            missing = [name for name in ("optimizer", "position", "ranks") if name not in state]
            if missing:
                raise ValueError(f"it lacks {', '.join(missing)}")
            check_record(state, "the state", _STATE, "whole")
            check_position(state["position"], self.update)
            if state.get("planned", 1) < 1 or not state["ranks"]:
                raise ValueError(
                    f"it is planned for {state.get('planned', 0)} processes, and has {len(state['ranks'])}"
                )
            self._check_unchanged(_TRAINING)
        files = self._parts(MOMENTS, "file of moments", part)
        if files or mapped:
            with self.restoring():
                read_moments(files, state["optimizer"]["state"], part)
        return state

    def _parts(self, kind: str, what: str, part: Part = (0, 1)) -> list[Path]:
        """Return the files of one kind that processes have written, after a look at those that one is to look at."""
        names = sorted(name for name in self.meta().get("files", {}) if name.startswith(kind))
        for name in names[part[0] :: part[1]]:
            with self._reading(name, what):
                self._check_unchanged(name)
        return [self.folder / name for name in names]

    @contextmanager
    def restoring(self) -> Iterator[None]:
        """Blame the training state for whatever goes wrong while it is read, or given back to what it is the state of.

        Raises:
            DataError: naming the file, what is wrong, and what to do.
        """
        with self._reading(_TRAINING, "training state"):
            yield

    @contextmanager
    def _reading(self, name: str, what: str) -> Iterator[None]:
        """Blame a file for errors of what reads it."""
        try:
            yield
        except Exception as error:  # torch raises many kinds for a damaged or a hostile file
            problem = f"not a readable {what} ({one_line(error)})"
            raise DataError(f"{self.folder / name}: {problem}; {_advice(self.folder)}") from error

    def _check_unchanged(self, name: str) -> None:
        digests = self.meta().get("files", {})  # older checkpoints have none
        if name in digests and digest(self.folder / name) != digests[name]:
            raise ValueError("it is not as it was written: the disk has lost something, or it was changed")

    def _has(self, name: str) -> bool:
        return (self.folder / name).exists() or name in self.meta().get("files", {})


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


class Checkpoints(Checked):
    """The checkpoints of one Fit.

    Args:
        keep: "last N" or "best N": which ones an average will be made of (see :class:`Choice`). The newest and the
            best one by the validation score are kept in any case.
        every: updates between two checkpoints; validation writes one as well.
    """

    def __init__(self, *, keep: str = "best 5", every: PositiveInt = 1000) -> None:
        self.keep = Choice.read(keep)
        self.every = every

    def save(
        self,
        folder: Path,
        state: Mapping[str, torch.Tensor],
        training: dict[str, Any],
        meta: dict[str, Any],
        parts: Mapping[Path, str] | None = None,
    ) -> None:
        """Write a checkpoint below ``folder``, then delete those that need not be kept.

        Args:
            folder: where the checkpoints of the phase stand.
            state: the objective's tensors, with its parameters themselves (``state_dict(keep_vars=True)``).
            training: plain data and tensors that ``Checkpoint.training`` gives back.
            meta: ``update``, ``score`` (higher is better, or None), whether it is ``interim``, and anything else that
                JSON can hold.
            parts: files that processes have written for it, by digest, which are taken away.

        Raises:
            DataError: if the disk is full or cannot be written; the checkpoints already there stay as they are.
        """
        place = folder / f"{meta['update']:08d}"
        try:
            with replaced_folder(place) as temporary:
                learning, frozen = _divided(state)
                save_file(learning, temporary / _LEARNING)
                if frozen:
                    _save_frozen(frozen, temporary / _FROZEN, list_checkpoints(folder))
                torch.save(training, temporary / _TRAINING)
                files = {file.name: digest(file) for file in temporary.iterdir()}
                for file, known in (parts or {}).items():
                    files[file.rename(temporary / file.name).name] = known
                meta = meta | {"files": dict(sorted(files.items()))}
                (temporary / "meta.json").write_text(json.dumps(meta, indent=2) + "\n", encoding="utf-8")
        except (OSError, SafetensorError, RuntimeError) as error:
            before = list_checkpoints(folder)
            intact = f"{before[-1].folder} is intact" if before else "there is no earlier checkpoint"
            raise DataError(f"{place}: the checkpoint could not be written ({error}); {intact}") from error
        checkpoints = list_checkpoints(folder)
        wanted = [*self.keep.of(checkpoints), *checkpoints[-1:], *best(checkpoints)[:1]]
        kept = {checkpoint.update for checkpoint in wanted}
        for checkpoint in checkpoints:
            if checkpoint.update not in kept:
                discard_folder(checkpoint.folder)


def list_checkpoints(folder: Path) -> list[Checkpoint]:
    """Return the complete checkpoints below a folder, oldest first; what has another name (a copy) is none.

    Raises:
        DataError: if the description of one cannot be read, or is that of another update than its name says.
    """
    checkpoints = []
    for place in folder.glob("[0-9]*"):
        if not _NAME.fullmatch(place.name):
            continue
        meta = _read_meta(place)
        if meta["update"] != int(place.name):
            raise DataError(
                f"{place / 'meta.json'}: is that of update {meta['update']}, not of {int(place.name)} as the folder's "
                f"name says: a copy needs a name that is no number; {_advice(place)}"
            )
        checkpoints.append(Checkpoint(place, meta["update"], meta["score"], meta.get("interim", False)))
    return sorted(checkpoints, key=lambda checkpoint: checkpoint.update)


def best(checkpoints: list[Checkpoint]) -> list[Checkpoint]:
    """Return those with a score, best first; among equals the later one comes first."""
    scored = [c for c in checkpoints if c.score is not None]
    return sorted(scored, key=lambda c: (c.score, c.update), reverse=True)


def load_objective(objective: nn.Module, checkpoint: Checkpoint, part: Part = (0, 1)) -> None:
    """Load a checkpoint's tensors into the objective that wrote them.

    Args:
        objective: with all its parameters, or with this process's rows of them (fsdp.py), as the checkpoint's may be.
        checkpoint: the folder.
        part: of the rows, and of the files that this process looks at.

    Raises:
        DataError: if a file is damaged, or the tensors are not those of the objective.
    """
    pieces = (tensors := checkpoint.tensors(part)).pieces
    check_fit(objective, tensors.like(), str(checkpoint.folder / _LEARNING))
    state = objective.state_dict(keep_vars=True)
    rows = {name for name, one in state.items() if hasattr(one, "to_local")}
    objective.load_state_dict({n: own[0] for n, own in pieces.items() if len(own) == 1 and n not in rows}, strict=False)
    for name, own in pieces.items():
        if name in rows:
            state[name].detach().to_local().copy_(tensors.rows(name, part))
        elif len(own) > 1:
            state[name].detach().copy_(tensors[name])


def _divided(state: Mapping[str, torch.Tensor]) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    """Return the tensors that learn, with the buffers, and the frozen parameters."""
    frozen = {name for name, t in state.items() if isinstance(t, nn.Parameter) and not t.requires_grad}
    tensors = contiguous(dict(state))
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
        with safe_open(file, framework="pt") as opened:
            return {*opened.keys()} == {*tensors} and all(
                opened.get_slice(name).get_shape() == list(tensor.shape) and opened.get_tensor(name).equal(tensor)
                for name, tensor in tensors.items()
            )
    except (SafetensorError, OSError):
        return False


def _advice(folder: Path) -> str:
    return f"delete {folder}, and training goes on from the checkpoint before it, or begins anew if there is none"


def _read_meta(folder: Path) -> dict[str, Any]:
    what, file = "a readable checkpoint description", folder / "meta.json"
    meta = read_record(file, _META, what, _advice(folder))
    if meta["score"] is not None and not math.isfinite(meta["score"]):
        raise DataError(f"{file}: not {what} ('score' is {meta['score']}, not a finite number); {_advice(folder)}")
    return meta
