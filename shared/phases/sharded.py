"""The part of phases that write manifests anew: in shards of consecutive rows, which several processes share.

A shard is whole on disk or absent, and what stands in it depends on its rows alone, so that a run which is killed, or
goes on with another number of processes, ends with the same manifest to the last bit.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import torch

from dragoman.shared.batches.find import find_manifests
from dragoman.shared.batches.manifest import Manifest, Row
from dragoman.shared.errors import DataError, UsageError
from dragoman.shared.machine.files import discard_folder, locked, replaced_file
from dragoman.shared.machine.processes import barrier, on_main
from dragoman.shared.machine.progress import progress
from dragoman.shared.machine.records import read_record
from dragoman.shared.machine.workspace import Phase, Workspace
from dragoman.shared.phases.evaluating import opened
from dragoman.shared.ranges import PositiveInt

#: Of a row in a shard: why it is not to be kept ("": it is).
DROPPED = "dropped"
#: What a phase leaves beside the manifests.
NOTE = "generated.json"


@dataclass(frozen=True)
class Shard:
    """Some consecutive rows of a manifest, and where their outputs are written."""

    manifest: Manifest
    rows: range
    path: Path


class Sharded(Phase):
    """A phase that writes ``<pair>/<split>.arrow`` for each manifest ``.../<pair>/<split>.arrow``, row by row.

    ``generated.json`` counts what was made and what dropped. All processes write, each its own shards, so that the
    run's folder has to be one that all can see; rank 0 puts the manifests together.

    Args:
        manifests: what is read, as paths or patterns.
        shard_rows: how many rows are made before they are safe on disk.
        maximum_dropped: the share of rows that may be dropped; more is an error.
    """

    def __init__(self, *, manifests: list[str], shard_rows: PositiveInt, maximum_dropped: float) -> None:
        self.manifests = list(manifests)
        self.shard_rows = shard_rows
        self.maximum_dropped = maximum_dropped

    @abstractmethod
    def made_by(self, workspace: Workspace) -> dict[str, str]:
        """Return what makes the outputs, by its kind: it may not change until the phase is done."""

    @abstractmethod
    def columns(self, manifest: Manifest) -> dict[str, Any]:
        """Return the free columns that a manifest's rows get, and their types."""

    def start(self, workspace: Workspace, makers: dict[str, str]) -> None:
        """Make ready for :meth:`made`, in a process that has shards to do, if a phase has to; see :meth:`made_by`."""

    @abstractmethod
    def made(self, shard: Shard, workspace: Workspace) -> Iterator[Row]:
        """Yield the rows of a shard with their outputs, and why each is ``dropped``."""

    @abstractmethod
    def noted(self, makers: dict[str, str], shards: Sequence[Shard]) -> dict[str, Any]:
        """Return what ``generated.json`` says beside the manifests, when all shards are on disk."""

    def run(self, workspace: Workspace) -> None:
        """Make the shards that are not there yet, then put them together.

        Raises:
            DataError: if a row lacks what is read, or too many outputs are dropped.
            UsageError: if what makes them, or a manifest, has changed since the phase was started.
        """
        makers, manifests, shards, todo = self._planned(workspace)
        self._make(workspace, makers, shards, todo[workspace.rank :: workspace.world])
        barrier(workspace)
        on_main(lambda: self._finish(workspace, makers, manifests, shards), workspace)

    def run_part(self, workspace: Workspace, number: int, of: int) -> list[int]:
        """Make the shards that are the share of one of several processes that know nothing of each other.

        It is process ``number``, from 0, of ``of``. Returns the numbers of those whose shards are not all there: if of
        none, :meth:`run` puts them together.

        Raises:
            DataError: as :meth:`run`.
            UsageError: as :meth:`run`.
        """
        makers, _, shards, todo = self._planned(workspace)
        self._make(workspace, makers, shards, [place for place in todo if place % of == number])
        return sorted({place % of for place in todo if not shards[place].path.is_file()})

    def _planned(self, workspace: Workspace) -> tuple[dict[str, str], dict[str, Manifest], list[Shard], list[int]]:
        """Return the makers, the manifests, all shards, and the numbers of those that are not there."""
        paths = find_manifests(self.manifests)
        manifests = {f"{path.parent.name}/{path.name}": opened(path, workspace) for path in paths}
        if len(manifests) < len(paths):
            raise UsageError(f"two of {', '.join(map(str, paths))} have the same names of folder and file")
        makers = on_main(lambda: self.made_by(workspace), workspace)
        folder = workspace.folder / "shards"
        shards = [shard for name, manifest in manifests.items() for shard in self._shards(manifest, folder / name)]
        return makers, manifests, shards, on_main(lambda: self._begin(workspace, makers, manifests, shards), workspace)

    def _make(self, workspace: Workspace, makers: dict[str, str], shards: list[Shard], numbers: list[int]) -> None:
        """Make some of the shards."""
        if not numbers:
            return
        self.start(workspace, makers)
        rows = sum(len(shards[number].rows) for number in numbers)
        with progress(workspace.phase, enabled=workspace.show_progress) as show:
            done = 0
            for number in numbers:
                # Its own, so that a search which draws finds the same in whatever order shards are done.
                torch.manual_seed(workspace.seed_for(workspace.phase, "shard", number))
                shard = shards[number]
                free = shard.manifest.free_columns | self.columns(shard.manifest) | {DROPPED: pa.string()}
                with locked(shard.path.with_name(f".{shard.path.name}.lock")):
                    if not shard.path.is_file():  # or a job that was started twice has made it meanwhile
                        Manifest.write(shard.path, self.made(shard, workspace), free)
                done += len(shard.rows)
                show(done, rows)
                if workspace.main:
                    workspace.keep_time()

    def _shards(self, manifest: Manifest, folder: Path) -> Iterator[Shard]:
        for number, start in enumerate(range(0, len(manifest), self.shard_rows)):
            rows = range(start, min(start + self.shard_rows, len(manifest)))
            yield Shard(manifest, rows, folder / f"{number:06d}.arrow")

    def _begin(
        self, workspace: Workspace, makers: dict[str, str], manifests: dict[str, Manifest], shards: list[Shard]
    ) -> list[int]:
        """Check that what is there was begun by the same makers and rows; return the numbers of missing shards."""
        if (workspace.folder / NOTE).is_file():
            return []
        note = workspace.folder / "shards" / "begun.json"
        now = makers | {f"manifest {name}": manifest.fingerprint for name, manifest in manifests.items()}
        if note.is_file():
            before = read_record(note, {}, "a note of what was begun", f"use --restart {workspace.phase}")
            for what in sorted(before.keys() | now.keys()):
                if before.get(what) != now.get(what):
                    raise UsageError(
                        f"{workspace.folder}: was begun with another {what} ({before.get(what)}, now {now.get(what)}); "
                        f"use --restart {workspace.phase}"
                    )
        else:
            with replaced_file(note) as temporary:
                temporary.write_text(json.dumps(now, indent=1) + "\n", encoding="utf-8")
        todo = [number for number, shard in enumerate(shards) if not shard.path.is_file()]
        workspace.log.info("%s: %d of %d shards to make", workspace.phase, len(todo), len(shards))
        return todo

    def _finish(
        self, workspace: Workspace, makers: dict[str, str], manifests: dict[str, Manifest], shards: list[Shard]
    ) -> None:
        """Put the shards together, count, and delete them; a kill in between leaves either them or the result."""
        note = workspace.folder / NOTE
        if not note.is_file():
            made = [self._merge(workspace, name, manifest, shards) for name, manifest in manifests.items()]
            content = self.noted(makers, shards) | {"manifests": made}
            with replaced_file(note) as temporary:
                temporary.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        discard_folder(workspace.folder / "shards")

    def _merge(self, workspace: Workspace, name: str, manifest: Manifest, shards: list[Shard]) -> dict[str, Any]:
        dropped: Counter[str] = Counter()

        def kept() -> Iterator[Row]:
            for shard in shards:
                if shard.manifest is manifest:
                    for row in Manifest.open(shard.path):
                        reason = row.pop(DROPPED)
                        if reason:
                            dropped[reason] += 1
                        else:
                            yield row
            if dropped.total() > self.maximum_dropped * len(manifest):
                raise DataError(
                    f"{manifest.path}: {dropped.total()} of {len(manifest)} outputs would be dropped "
                    f"({_listed(dropped)}), more than the share of {self.maximum_dropped:g} that "
                    "quality.maximum_dropped allows"
                )

        free = manifest.free_columns | self.columns(manifest)
        result = Manifest.write(workspace.folder / name, kept(), free)
        counted = f", dropped {_listed(dropped)}" if dropped else ""
        workspace.log.info("%s: %s: %d rows%s", workspace.phase, name, len(result), counted)
        told = {"from": str(manifest.path), "made_from": manifest.fingerprint, "to": name, "rows": len(result)}
        return told | {"dropped": dict(sorted(dropped.items()))}


def _listed(dropped: Counter[str]) -> str:
    return ", ".join(f"{count} {reason}" for reason, count in sorted(dropped.items()))
