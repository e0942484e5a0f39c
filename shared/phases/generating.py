"""The phase in which a model writes training data: translations of sources, sources of translations, transcripts."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from dragoman.shared.batches.manifest import Manifest, Row
from dragoman.shared.batches.stream import Budget, field_lengths
from dragoman.shared.described import describe
from dragoman.shared.errors import DataError, UsageError
from dragoman.shared.machine.workspace import Workspace
from dragoman.shared.phases.quality import Quality
from dragoman.shared.phases.sharded import DROPPED, Shard, Sharded
from dragoman.shared.ranges import PositiveInt
from dragoman.shared.search.search import AnySearch
from dragoman.shared.systems.combining import load_combined
from dragoman.shared.systems.rows import translate_rows
from dragoman.shared.systems.system import System

#: What is known of an output, beside the columns of the row that it was made for. ``score`` is the search's.
COLUMNS = {"score": pa.float64(), "model": pa.string(), "search": pa.string(), "made_from": pa.string()}


class Generate(Sharded):
    """Translate manifests with a model folder, into new manifests of the same rows.

    Rows keep all their columns, and get the free columns ``score``, ``model`` (fingerprint of the model folder),
    ``search`` and ``made_from`` (fingerprint of the manifest). See :class:`dragoman.shared.phases.sharded.Sharded`.

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
        dropped = 1.0 if quality is None else quality.maximum_dropped
        super().__init__(manifests=manifests, shard_rows=shard_rows, maximum_dropped=dropped)
        self.model = Path(model)
        self.search = search
        self.budget = budget
        self.column = column
        self.language = language
        self.backwards = backwards
        self.quality = quality
        self.reads = reads
        self.writes = writes
        self.texts = dict(texts or {})

    def made_by(self, workspace: Workspace) -> dict[str, str]:
        """Return the fingerprint of the model folder, and the precision."""
        return {"model": fingerprint_of_model(self.model), "precision": workspace.precision}

    def columns(self, manifest: Manifest) -> dict[str, Any]:
        """Return what is known of an output, and the texts."""
        texts = [name for name in (self.column, *self.texts.values()) if name]
        return dict.fromkeys(texts, pa.string()) | COLUMNS

    def start(self, workspace: Workspace, makers: dict[str, str]) -> None:
        """Load the model.

        Raises:
            UsageError: if it does not write one of ``texts``.
        """
        self._mark = makers["model"]
        self._system = load_combined(
            self.model, workspace.device, autocast_dtype=workspace.autocast_dtype, reads=self.reads, writes=self.writes
        )
        for text in self.texts:
            if text not in self._system.texts:
                raise UsageError(f"{self.model}: writes {' and '.join(self._system.texts)}, not {text!r}")

    def noted(self, makers: dict[str, str], shards: Sequence[Shard]) -> dict[str, Any]:
        """Return the model and the search."""
        return {"model": makers["model"], "folder": str(self.model), "search": describe(self.search)}

    def made(self, shard: Shard, workspace: Workspace) -> Iterator[Row]:
        """Yield the rows of a shard with their outputs.

        Raises:
            DataError: if a row lacks what the model reads or its output's language.
        """
        system, source = self._system, shard.manifest
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
        provenance = {"model": self._mark, "search": _shown(describe(self.search)), "made_from": source.fingerprint}
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
