"""The phase that trims a model's vocabulary."""

from __future__ import annotations

from dragoman.shared.machine.processes import MainPhase
from dragoman.shared.machine.workspace import Workspace
from dragoman.shared.systems.trimming import trim


class Trim(MainPhase):
    """Trim a model's vocabulary to what manifests use; writes ``model/``."""

    def __init__(self, *, model: str, manifests: list[str]) -> None:
        self.model = model
        self.manifests = list(manifests)

    def work(self, workspace: Workspace) -> None:
        """Trim the model, and log its sizes before and after."""
        workspace.log.info("%s", trim(self.model, self.manifests, workspace.folder / "model"))
