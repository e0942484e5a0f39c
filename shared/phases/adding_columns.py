"""A phase that copies manifests and adds columns to them.

The copies are ``<pair>/<split>.arrow`` for each ``.../<pair>/<split>.arrow``. One is whole on disk or absent; a start
after an interruption makes those that are missing.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from dragoman.shared.batches.find import find_manifests
from dragoman.shared.batches.manifest import Manifest, Row
from dragoman.shared.errors import UsageError
from dragoman.shared.machine.processes import MainPhase
from dragoman.shared.machine.workspace import Workspace
from dragoman.shared.phases.evaluating import opened

#: The column of words and when each is said, in seconds from the beginning of the row, and its type.
WORDS = "words"
WORDS_TYPE = pa.list_(pa.struct([("text", pa.string()), ("start", pa.float64()), ("end", pa.float64())]))


class AddColumns(MainPhase):
    """Copies manifests with further columns. Subclasses define :meth:`rows` and ``columns``.

    Args:
        manifests: what is copied, as paths or patterns.
        further: manifests that are read beside.
    """

    columns: Mapping[str, pa.DataType]

    def __init__(self, *, manifests: list[str], further: Sequence[str] = ()) -> None:
        self.copied = list(manifests)
        self.manifests = [*manifests, *further]

    def work(self, workspace: Workspace) -> None:
        """Write the manifests that are not there yet.

        Raises:
            UsageError: if two manifests have the same names of folder and file.
        """
        paths = find_manifests(self.copied)
        outputs = {workspace.folder / path.parent.name / path.name: path for path in paths}
        if len(outputs) < len(paths):
            raise UsageError(
                f"{workspace.phase}: two of {', '.join(map(str, paths))} have the same names of folder and file"
            )
        missing = {out: path for out, path in outputs.items() if not out.is_file()}
        if missing:
            self.begin(workspace)
        for out, path in missing.items():
            manifest = opened(path, workspace)
            Manifest.write(out, self.rows(manifest, workspace), {**manifest.free_columns, **self.columns})

    def begin(self, workspace: Workspace) -> None:
        """Load or learn what all manifests need."""

    @abstractmethod
    def rows(self, manifest: Manifest, workspace: Workspace) -> Iterator[Row]:
        """Yield the rows of a manifest with their new columns."""
