"""The phase that trains a model for each direction by itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import ClassVar

import torch

from dragoman.shared.batches.find import pair_manifests
from dragoman.shared.batches.stream import Stream
from dragoman.shared.errors import UsageError
from dragoman.shared.machine.files import discard_folder
from dragoman.shared.machine.processes import join, on_main
from dragoman.shared.machine.workspace import Phase, Workspace
from dragoman.shared.objectives.objective import Objective
from dragoman.shared.phases.averaging import Average
from dragoman.shared.systems.model_folder import CONFIG
from dragoman.shared.training.fit import Fit
from dragoman.shared.training.validation import Validation


class FitEach(Phase):
    """Train a model for each direction by itself, always from the same beginning.

    Writes to ``<source>-<target>/`` what Fit writes, and to ``<source>-<target>/model`` the average of its checkpoints,
    which are then deleted.

    Args:
        pairs: the directions, (source, target).
        folder: of their manifests, ``<source>-<target>/train.arrow`` and ``dev.arrow``.
        objective: what to minimise; each direction has a copy.
        stream: makes a stream, given its ``manifests``: a partial ``Stream``.
        validation: makes a validation, given its ``manifests``: a partial ``Validation``; None for none.
        fit: makes the Fit of a direction, given ``objective``, ``streams`` and ``validation``: a partial ``Fit``.
        checkpoints: which ones are averaged: "last N" or "best N".

    Raises:
        UsageError: if there is no direction, or one is there twice.
    """

    aside: ClassVar[tuple[str, ...]] = ("trackers",)

    def __init__(
        self,
        *,
        pairs: Sequence[Sequence[str]],
        folder: str,
        objective: Objective,
        stream: Callable[..., Stream],
        validation: Callable[..., Validation] | None = None,
        fit: Callable[..., Fit],
        checkpoints: str,
    ) -> None:
        self.pairs = [(source, target) for source, target in pairs]
        if not self.pairs or len({*self.pairs}) < len(self.pairs):
            raise UsageError(f"pairs must be directions, each once, not {pairs}")
        self.folder = folder
        self.objective = objective
        self.stream = stream
        self.validation = validation
        self.fit = fit
        self.checkpoints = checkpoints
        splits = ["train", "dev"] if validation else ["train"]
        self.manifests = [path for pair in self.pairs for path in self._manifests(pair, splits)]

    def run(self, workspace: Workspace) -> None:
        """Train the directions one after the other; those that are done already are passed by."""
        join(workspace)
        for source, target in self.pairs:
            name = f"{source}-{target}"
            inner = replace(workspace, phase=f"{workspace.phase}/{name}")
            if not (inner.folder / "model" / CONFIG).is_file():
                # A start that goes on with this direction draws what one without a break has drawn.
                torch.manual_seed(workspace.seed_for(inner.phase))
                fit = self._fit((source, target))
                fit.run(inner)
                Average(fit=str(inner.folder), checkpoints=self.checkpoints, validation=fit.validation).run(inner)
            on_main(partial(_discard_checkpoints, inner), workspace)

    def check_libraries(self) -> None:
        """Refuse what is not installed; see :class:`Fit`."""
        self._fit(self.pairs[0]).check_libraries()

    def memory_needed(self) -> int:
        """Return the bytes that one direction needs; see :class:`Fit`."""
        return self._fit(self.pairs[0]).memory_needed()

    def _fit(self, pair: tuple[str, str]) -> Fit:
        validation = self.validation and self.validation(manifests=self._manifests(pair, ["dev"]))
        stream = self.stream(manifests=self._manifests(pair, ["train"]))
        return self.fit(objective=deepcopy(self.objective), streams=[stream], validation=validation)

    def _manifests(self, pair: tuple[str, str], splits: list[str]) -> list[str]:
        source, target = pair
        return pair_manifests(folder=self.folder, sources=[source], targets=[target], splits=splits)


def _discard_checkpoints(workspace: Workspace) -> None:
    checkpoints = workspace.folder / "checkpoints"
    if checkpoints.is_dir():
        discard_folder(checkpoints)
