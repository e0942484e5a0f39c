"""The phase that writes a system made of others into a folder, without training."""

from __future__ import annotations

from typing import cast

from dragoman.shared.machine.processes import MainPhase
from dragoman.shared.machine.workspace import Workspace
from dragoman.shared.systems.reading_model import ReadingModel
from dragoman.shared.systems.saved_model import SavedModel
from dragoman.shared.training.initialise import Initialiser


class Assemble(MainPhase):
    """Write a system that a recipe puts together; writes ``model/``.

    Args:
        system: usually made of systems that ``dragoman.shared.systems.pretrained.load`` has read.
        initialise: what of it takes its parameters from other model folders, one after the other.
    """

    def __init__(self, *, system: SavedModel, initialise: list[Initialiser] | None = None) -> None:
        self.system = system
        self.initialise = list(initialise or [])

    def work(self, workspace: Workspace) -> None:
        """Save the system, and log where its parameters came from."""
        for step in self.initialise:
            step.apply(cast(ReadingModel, self.system))
        folder = workspace.folder / "model"
        self.system.save(folder)
        workspace.log.info("%s: %s", workspace.phase, folder)
        for line in self.system.origin:
            workspace.log.info("%s: %s", workspace.phase, line)
