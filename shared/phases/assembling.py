"""The phase that writes a system made of others into a folder, without training."""

from __future__ import annotations

from shared.machine.processes import MainPhase
from shared.machine.workspace import Workspace
from shared.systems.saved_model import SavedModel


class Assemble(MainPhase):
    """Write a system that a recipe puts together; writes ``model/``.

    Args:
        system: usually made of systems that ``shared.systems.pretrained.load`` has read.

    """

    def __init__(self, *, system: SavedModel) -> None:
        self.system = system

    def work(self, workspace: Workspace) -> None:
        """Save the system, and log where its parameters came from."""
        folder = workspace.folder / "model"
        self.system.save(folder)
        workspace.log.info("%s: %s", workspace.phase, folder)
        for line in self.system.origin:
            workspace.log.info("%s: %s", workspace.phase, line)
