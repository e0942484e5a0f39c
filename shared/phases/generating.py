"""The phase in which a model writes training data: translations of sources, sources of translations, transcripts.

A manifest is translated in shards of consecutive rows. A shard is whole on disk or absent, and what stands in it
depends on its rows alone, so that a run which is killed, or goes on with another number of processes, ends with the
same manifest to the last bit.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from dragoman.shared.batches.find import find_manifests
from dragoman.shared.batches.manifest import Manifest, Row
from dragoman.shared.batches.stream import Budget, field_lengths
from dragoman.shared.described import describe
from dragoman.shared.errors import DataError, UsageError
from dragoman.shared.machine.files import discard_folder, replaced_file
from dragoman.shared.machine.processes import barrier, on_main
from dragoman.shared.machine.progress import progress
from dragoman.shared.machine.records import read_record
from dragoman.shared.machine.workspace import Phase, Workspace
from dragoman.shared.phases.evaluating import opened
from dragoman.shared.phases.quality import Quality
from dragoman.shared.ranges import PositiveInt
from dragoman.shared.search.search import AnySearch
from dragoman.shared.systems.combining import load_combined
from dragoman.shared.systems.rows import translate_rows
from dragoman.shared.systems.system import System

#: What is known of an output, beside the columns of the row that it was made for. ``score`` is the search's.
COLUMNS = {"score": pa.float64(), "model": pa.string(), "search": pa.string(), "made_from": pa.string()}

#: Of a row in a shard: why it is not to be kept ("": it is).
DROPPED = "dropped"


@dataclass(frozen=True)
class Shard:
    """Some consecutive rows of a manifest, and where their outputs are written."""

    manifest: Manifest
    rows: range
    path: Path


class Generate(Phase):
    """Translate manifests with a model folder, into new manifests of the same rows.

    Writes ``<pair>/<split>.arrow`` for each manifest ``.../<pair>/<split>.arrow``, in the order of its rows and with
    all its columns, and with the free columns ``score``, ``model`` (fingerprint of the model folder), ``search`` and
    ``made_from`` (fingerprint of the manifest); and ``generated.json``, which counts what was made and what dropped.

    Several processes share the shards. All of them write, each its own shards, so that the run's folder has to be one
    that all can see; rank 0 puts the manifests together.

    Args:
        model: a model folder, of any inputs.
        manifests: what to translate, as paths or patterns.
        search: how.
        budget: how large a batch may be.
        column: the text column that gets the output; "" for the one that the model was trained to write, whose old
            text is then replaced.
        language: of the outputs; "" for each row's own.
        backwards: exchange source and target for the model: it reads the target texts of the rows and writes their
            source texts.
        quality: what outputs must be like to be kept; None keeps all.
        reads: the inputs that the model reads, if not those that the folder names.
        writes: the text that it writes, if not the one that the folder names.
        texts: columns for further texts that the system writes in the same pass, by the text's name: ``{"transcript":
            "source_text"}``.
        shard_rows: how many rows are translated before they are safe on disk.

    Raises:
        UsageError: if the column is not one of text.
    """

    def __init__(
        self,
        *,
        model: str,
        manifests: list[str],
        search: AnySearch,
        budget: Budget,
        column: str = "",
        language: str = "",
        backwards: bool = False,
        quality: Quality | None = None,
        reads: list[str] | None = None,
        writes: str | None = None,
        texts: dict[str, str] | None = None,
        shard_rows: PositiveInt = 10_000,
    ) -> None:
        for name in (column, *(texts or {}).values()):
            if name and not name.endswith("_text"):
                raise UsageError(f"column must be one of text, whose name ends in _text, not {name!r}")
        self.model = Path(model)
        self.manifests = list(manifests)
        self.search = search
        self.budget = budget
        self.column = column
        self.language = language
        self.backwards = backwards
        self.quality = quality
        self.shard_rows = shard_rows
        self.reads = reads
        self.writes = writes
        self.texts = dict(texts or {})

    def run(self, workspace: Workspace) -> None:
        """Translate the shards that are not there yet, then put them together.

        Raises:
            DataError: if a row lacks what the model reads or its output's language, or too many outputs are dropped.
            UsageError: if model or manifests have changed since the phase was started.
        """
        paths = find_manifests(self.manifests)
        manifests = {f"{path.parent.name}/{path.name}": opened(path, workspace) for path in paths}
        if len(manifests) < len(paths):
            raise UsageError(f"generate: two of {', '.join(map(str, paths))} have the same names of folder and file")
        mark = on_main(lambda: fingerprint_of_model(self.model), workspace)
        folder = workspace.folder / "shards"
        shards = [shard for name, manifest in manifests.items() for shard in self._shards(manifest, folder / name)]
        todo = on_main(lambda: self._begin(workspace, mark, manifests, shards), workspace)
        mine = todo[workspace.rank :: workspace.world]
        if mine:
            system = load_combined(
                self.model,
                workspace.device,
                autocast_dtype=workspace.autocast_dtype,
                reads=self.reads,
                writes=self.writes,
            )
            for text in self.texts:
                if text not in system.texts:
                    raise UsageError(f"{self.model}: writes {' and '.join(system.texts)}, not {text!r}")
            rows = sum(len(shards[number].rows) for number in mine)
            with progress(workspace.phase, enabled=workspace.show_progress) as show:
                done = 0
                for number in mine:
                    # Its own, so that a search which draws finds the same in whatever order shards are done.
                    torch.manual_seed(workspace.seed_for(workspace.phase, "shard", number))
                    shard = shards[number]
                    outputs = self._translated(system, shard, mark, workspace)
                    Manifest.write(shard.path, outputs, self._columns(shard.manifest) | {DROPPED: pa.string()})
                    done += len(shard.rows)
                    show(done, rows)
                    if workspace.main:
                        workspace.keep_time()
        barrier(workspace)
        on_main(lambda: self._finish(workspace, mark, manifests, shards), workspace)

    # -- shards -----------------------------------------------------------------------------------------------------

    def _shards(self, manifest: Manifest, folder: Path) -> Iterator[Shard]:
        for number, start in enumerate(range(0, len(manifest), self.shard_rows)):
            rows = range(start, min(start + self.shard_rows, len(manifest)))
            yield Shard(manifest, rows, folder / f"{number:06d}.arrow")

    def _columns(self, manifest: Manifest) -> dict[str, Any]:
        """Return the free columns of the result."""
        texts = [name for name in (self.column, *self.texts.values()) if name]
        return manifest.free_columns | dict.fromkeys(texts, pa.string()) | COLUMNS

    def _begin(self, workspace: Workspace, mark: str, manifests: dict[str, Manifest], shards: list[Shard]) -> list[int]:
        """Check that what is there was begun with the same model and rows; return the numbers of missing shards."""
        if (workspace.folder / "generated.json").is_file():
            return []
        note = workspace.folder / "shards" / "begun.json"
        now = {"model": mark, "precision": workspace.precision}
        now |= {f"manifest {name}": manifest.fingerprint for name, manifest in manifests.items()}
        if note.is_file():
            before = read_record(note, {}, "a note of what was begun", f"use --restart {workspace.phase}")
            for what in sorted(before.keys() | now.keys()):
                if before.get(what) != now.get(what):
                    raise UsageError(
                        f"{workspace.folder}: was begun with another {what} ({before.get(what)}, now {now.get(what)}); "
                        f"use --restart {workspace.phase}"
                    )
        with replaced_file(note) as temporary:
            temporary.write_text(json.dumps(now, indent=1) + "\n", encoding="utf-8")
        todo = [number for number, shard in enumerate(shards) if not shard.path.is_file()]
        workspace.log.info("%s: %d of %d shards to translate", workspace.phase, len(todo), len(shards))
        return todo

    def _finish(self, workspace: Workspace, mark: str, manifests: dict[str, Manifest], shards: list[Shard]) -> None:
        """Put the shards together, count, and delete them; a kill in between leaves either them or the result."""
        note = workspace.folder / "generated.json"
        if not note.is_file():
            made = [self._merge(workspace, name, manifest, shards) for name, manifest in manifests.items()]
            content = {"model": mark, "folder": str(self.model), "search": describe(self.search), "manifests": made}
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
            limit = 1.0 if self.quality is None else self.quality.maximum_dropped
            if dropped.total() > limit * len(manifest):
                raise DataError(
                    f"{manifest.path}: {dropped.total()} of {len(manifest)} outputs would be dropped "
                    f"({_listed(dropped)}), more than the share of {limit:g} that quality.maximum_dropped allows"
                )

        result = Manifest.write(workspace.folder / name, kept(), self._columns(manifest))
        counted = f", dropped {_listed(dropped)}" if dropped else ""
        workspace.log.info("%s: %s: %d rows%s", workspace.phase, name, len(result), counted)
        return {
            "from": str(manifest.path),
            "made_from": manifest.fingerprint,
            "to": name,
            "rows": len(result),
            "dropped": dict(sorted(dropped.items())),
        }

    # -- rows -------------------------------------------------------------------------------------------------------

    def _translated(self, system: System, shard: Shard, mark: str, workspace: Workspace) -> Iterator[Row]:
        """Yield the rows of a shard with their outputs."""
        source = shard.manifest
        rows = [self._asked(source[number], system, source) for number in shard.rows]
        fields = system.input_fields
        lengths = field_lengths(fields, rows)
        overheads = np.array([field.overhead for field in fields.values()])[:, None]
        outputs = dict(
            translate_rows(
                system,
                rows,
                search=self.search,
                budget=self.budget,
                autocast=workspace.autocast,
                workers=workspace.workers,
            )
        )
        main = system.texts[system.output_name]
        best = [outputs[number][0] for number in range(len(rows))]
        filled = [row | {main.column: output.texts[system.output_name]} for row, output in zip(rows, best, strict=True)]
        tokens = main.lengths(filled) - main.overhead
        is_text = [field.unit == "tokens" for field in fields.values()]
        read = (lengths - overheads)[is_text]
        cut = sum(output.cut for output in best)
        if cut:
            workspace.log.warning("%s: %d of %d outputs are cut at their maximum length", shard.path, cut, len(best))
        provenance = {"model": mark, "search": _shown(describe(self.search)), "made_from": source.fingerprint}
        for number, (row, full, output) in enumerate(zip(rows, filled, best, strict=True)):
            reason = ""
            if self.quality is not None:
                reason = self.quality.reason(
                    score=output.score,
                    tokens=int(tokens[number]),
                    inputs=read[:, number].tolist(),
                    seconds=row["duration"],
                )
            made = self._turned(row) | {self.column: full[main.column]} if self.column else self._turned(full)
            made |= {column: output.texts[text] for text, column in self.texts.items()}
            yield made | provenance | {"score": output.score, DROPPED: reason}

    def _asked(self, row: Row, system: System, manifest: Manifest) -> Row:
        """Return a row as the model is to see it, with the language that it is to write."""
        row = self._turned(row)
        side = f"{system.output.side}_language"
        row[side] = self.language or row[side]
        codes = system.output_languages
        if row[side] not in codes:
            raise DataError(
                f"{manifest.path}: row {row['id']!r}: the model writes {', '.join(codes)}, not {row[side]!r}: "
                "name one with language"
            )
        return row

    def _turned(self, row: Row) -> Row:
        """Exchange source and target if the model works backwards; doing it twice changes nothing."""
        if not self.backwards:
            return dict(row)
        sides = {"source": "target", "target": "source"}
        turned = {f"{side}_{kind}": row[f"{sides[side]}_{kind}"] for side in sides for kind in ("text", "language")}
        return row | turned


def fingerprint_of_model(folder: Path) -> str:
    """Hash what a model folder holds: description, weights and tokenizer.

    Raises:
        DataError: if there is no such folder.
    """
    if not folder.is_dir():
        raise DataError(f"{folder}: there is no such model folder")
    digest = hashlib.blake2b(digest_size=8)
    for file in sorted(file for file in folder.iterdir() if file.is_file() and not file.name.startswith(".")):
        digest.update(file.name.encode() + b"\0")
        with open(file, "rb") as stream:
            digest.update(hashlib.file_digest(stream, "blake2b").digest())
    return digest.hexdigest()


def _shown(described: Any) -> str:
    """Return a search as "BeamSearch(beam=5)", from its description."""
    if not isinstance(described, dict) or "class" not in described:
        return str(described)
    arguments = (f"{name}={_shown(value)}" for name, value in described["arguments"].items())
    return f"{described['class'].rpartition('.')[2]}({', '.join(arguments)})"


def _listed(dropped: Counter[str]) -> str:
    return ", ".join(f"{count} {reason}" for reason, count in sorted(dropped.items()))
