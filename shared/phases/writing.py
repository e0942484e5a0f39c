"""The phase that writes a generated corpus."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dragoman.shared.machine.processes import MainPhase
from dragoman.shared.machine.progress import progress
from dragoman.shared.machine.workspace import Workspace


class Write(MainPhase):
    """Make a corpus that is generated, not read; what is complete stays.

    Args:
        corpus: has ``root``, and ``write(progress=...)``.
    """

    def __init__(self, *, corpus: Any) -> None:
        self.corpus = corpus

    def outputs(self) -> list[Path]:
        """Name the corpus' folder."""
        return [Path(self.corpus.root)]

    def work(self, workspace: Workspace) -> None:
        """Write the corpus."""
        with progress("corpus", enabled=workspace.show_progress) as show:
            self.corpus.write(progress=show)
