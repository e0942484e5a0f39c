"""Distillation token by token from a table: what a teacher says is written down once, and read in every epoch.

Kim and Rush 2016, "Sequence-Level Knowledge Distillation", arXiv 1606.07947, section 3.1 (Hinton et al. 2015, arXiv
1503.02531). Of the teacher the K best symbols after each right beginning are kept, whose probabilities are made to add
up to 1:

    L = - sum_t sum_v [(1 - share) gold(v) + share p_teacher(v | y_<t, x)] log p(v | y_<t, x)

A teacher that is asked in every update costs its forward pass each time, and its memory. A table costs 6 K bytes a
token on the disk, and teaches rows as they are written alone: not those that noise has changed.

Not established, and chosen here: the share (0.8) and how many symbols (8), as for speech.

Legend: B rows, L ids of a target, K symbols.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Unpack, cast

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from dragoman.shared.batch import Batch
from dragoman.shared.batches.fields import Field, Rows, TextField
from dragoman.shared.batches.find import find_manifests
from dragoman.shared.batches.loader import Loader
from dragoman.shared.batches.manifest import Manifest, Row
from dragoman.shared.batches.stream import Budget
from dragoman.shared.errors import DataError
from dragoman.shared.machine.processes import MainPhase
from dragoman.shared.machine.workspace import Workspace
from dragoman.shared.objectives.cross_entropy import CrossEntropyParts
from dragoman.shared.objectives.mixed_targets import MixedTargets
from dragoman.shared.objectives.teacher import Teacher
from dragoman.shared.padded import Padded
from dragoman.shared.phases.evaluating import opened
from dragoman.shared.ranges import PositiveFloat, PositiveInt, Share

#: The columns of a table: symbols ((L - 1) K uint32) and probabilities (float16) as bytes, and whose symbols they are.
COLUMNS = {"teacher_symbols": pa.binary(), "teacher_probabilities": pa.binary(), "teacher_reads": pa.string()}


class TeachRows(MainPhase):
    """Write manifests anew with what a teacher says after each right beginning of their targets.

    Writes ``<pair>/<split>.arrow`` for each manifest ``.../<pair>/<split>.arrow``, with the columns of :data:`COLUMNS`.
    One process does all of it, and begins again if it is stopped.

    Args:
        teacher: a translator of the same text, with the tokenizer of the one that is to learn.
        manifests: of training, as paths or patterns.
        fields: what the teacher reads, by its batch field, and "target".
        budget: how large a batch may be.
        top: K, the number of its symbols that are kept.
        temperature: by which its logits are divided.
    """

    def __init__(
        self,
        *,
        teacher: Teacher,
        manifests: list[str],
        fields: dict[str, Field],
        budget: Budget,
        top: PositiveInt = 8,
        temperature: PositiveFloat = 1.0,
    ) -> None:
        self.teacher = teacher
        self.manifests = list(manifests)
        self.fields = {name: field.evaluating() for name, field in fields.items()}
        self.budget = budget
        self.top = top
        self.temperature = temperature

    def work(self, workspace: Workspace) -> None:
        """Teach every manifest.

        Raises:
            DataError: if a row lacks a field, or the teacher has another tokenizer.
        """
        for path in find_manifests(self.manifests):
            manifest = opened(path, workspace)
            taught = self._taught(manifest, workspace)
            rows = (manifest[number] | said for number, said in enumerate(taught))
            target = workspace.folder / path.parent.name / path.name
            written = Manifest.write(target, rows, manifest.free_columns | COLUMNS)
            workspace.log.info("%s: %s: %d rows", workspace.phase, target, len(written))

    def _taught(self, manifest: Manifest, workspace: Workspace) -> list[Row]:
        """Return the new columns of all rows."""
        reads = cast(TextField, self.fields["target"]).fingerprint
        taught: list[Row] = [{}] * len(manifest)
        for batch, numbers in Loader.evaluation(manifest, self.fields, self.budget, workspace.workers):
            there = batch.to(workspace.device)
            with workspace.autocast():
                found = self.teacher.best(there, beginnings(there), top=self.top, temperature=self.temperature)
            symbols, probabilities = (one.cpu().unflatten(0, (len(batch), -1)).numpy() for one in found)
            lengths = (batch["target"].lengths - 1).tolist()
            for place, (number, length) in enumerate(zip(numbers.tolist(), lengths, strict=True)):
                said = (symbols[place, :length].astype("<u4"), probabilities[place, :length].astype("<f2"))
                taught[number] = dict(zip(COLUMNS, (*(one.tobytes() for one in said), reads), strict=True))
        return taught


def beginnings(batch: Batch) -> Padded:
    """Return what the decoder reads of the field "target" (B, L): all but the last (B, L - 1)."""
    target = batch["target"]
    return Padded(target.values[:, :-1], target.lengths - 1)


class TableField:
    """The table of a row: ``<name>`` (L, K), the symbols, and ``<name>.probabilities`` (L, K).

    Row t is of the target's id t; the first one, which nobody is asked for, is 0. Probabilities add up to 1.

    Args:
        target: the field of the target, whose symbols they are.
    """

    unit, padding, overhead = "elements", 0.0, 0  # which no budget counts

    def __init__(self, *, target: TextField) -> None:
        self.target = target

    def __call__(self, row: Row, rng: np.random.Generator) -> dict[str, Tensor]:
        """Return symbols int64 and probabilities float32.

        Raises:
            DataError: if the row has no table, or that is of another tokenizer, other normalizers or another text.
        """
        written: list[Any] = [row.get(name) for name in COLUMNS]
        if None in written:
            raise DataError(f"row {row.get('id')!r} has no {' and '.join(COLUMNS)}: the phase TeachRows writes them")
        if written[-1] != self.target.fingerprint:
            raise DataError(
                f"row {row.get('id')!r}: what the teacher said is of other pieces ({written[-1]}, here "
                f"{self.target.fingerprint})"
            )
        symbols, probabilities = (
            np.frombuffer(one, dtype) for one, dtype in zip(written, ("<u4", "<f2"), strict=False)
        )
        asked = self.target.length(row) - 1
        if len(symbols) != len(probabilities) or len(symbols) % max(asked, 1):
            raise DataError(f"row {row.get('id')!r}: {len(symbols)} symbols of the teacher for {asked} tokens")
        shares = probabilities.astype(np.float32).reshape(asked, -1)
        shares /= shares.sum(1, keepdims=True)
        tables: dict[str, np.ndarray] = {"": symbols.astype(np.int64).reshape(asked, -1), "probabilities": shares}
        return {name: torch.from_numpy(np.pad(table, ((1, 0), (0, 0)))) for name, table in tables.items()}

    def length(self, row: Row) -> int:
        """Return L."""
        return self.target.length(row)

    def lengths(self, rows: Rows, folder: Path | None = None) -> np.ndarray:
        """Return the lengths of targets, -1 where there is no text.

        Raises:
            DataError: if a manifest has no table.
        """
        if isinstance(rows, Manifest) and not {*COLUMNS} <= {*rows.columns}:
            raise DataError(f"{rows.path}: has no {' and '.join(COLUMNS)}: the phase TeachRows writes them")
        return self.target.lengths(rows, folder)

    def evaluating(self) -> TableField:
        """Return the field itself: it has no noise."""
        return self


class DistilledFromTable(MixedTargets):
    """Cross entropy with a mixture of the right token and what a table says of it; see :class:`MixedTargets`.

    A batch without the table has the right token alone, as those of validation, whose loss is then the student's own.

    Args:
        table: the batch field that a :class:`TableField` makes.
        share: of the teacher in the target; 0 is CrossEntropy itself.
        parts: see :class:`CrossEntropy`; ``label_smoothing`` is of the right token.
    """

    def __init__(self, *, table: str = "teacher", share: Share = 0.8, **parts: Unpack[CrossEntropyParts]) -> None:
        super().__init__(share=share, **parts)
        self.table = table

    def taught(self, batch: Batch) -> bool:
        """Tell whether the batch has a table, and it is used."""
        return super().taught(batch) and self.table in batch

    def best(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the table's symbols (N, K) and probabilities (N, K)."""
        symbols, shares = (
            batch[name].values[:, 1:].flatten(0, 1) for name in (self.table, f"{self.table}.probabilities")
        )
        return symbols, shares
