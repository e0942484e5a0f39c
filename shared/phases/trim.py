"""The phase that trims a model's vocabulary."""

from __future__ import annotations

from shared.machine.processes import join, on_main
from shared.machine.workspace import Phase, Workspace
from shared.systems.trimming import trim


class Trim(Phase):
    """Trim a model's vocabulary to what manifests use; writes ``model/``.

    Args:
        model: a model folder.
        manifests: paths or patterns.

    """

    def __init__(self, *, model: str, manifests: list[str]) -> None:
        self.model, self.manifests = model, list(manifests)

    def run(self, workspace: Workspace) -> None:
        """Trim the model, and log its sizes before and after."""
        join(workspace)
        on_main(
            lambda: workspace.log.info("%s", trim(self.model, self.manifests, workspace.folder / "model")), workspace
        )
