"""Trimming vocabularies: a model for many languages keeps the pieces that some texts use, and forgets the others.

Most of a multilingual model's parameters are vectors of pieces that a user's languages never need: 250,000 of them are
256 million parameters at a width of 1024.
"""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dragoman.exchange.rebuilding import Rebuilding
from dragoman.shared.batches.find import find_manifests
from dragoman.shared.batches.manifest import Manifest
from dragoman.shared.described import Described
from dragoman.shared.errors import DataError, UsageError
from dragoman.shared.machine.nesting import from_json
from dragoman.shared.machine.processes import MainPhase
from dragoman.shared.machine.workspace import Workspace
from dragoman.shared.systems.model_folder import model_folder
from dragoman.shared.systems.reading_model import ReadingModel
from dragoman.shared.text.tokenizer import Specials, Tokenizer, for_language, with_inner


class TrimmedTokenizer(Described, Specials):
    """A tokenizer that keeps some of another's ids, numbered anew in their old order; all others are unknown.

    Args:
        tokenizer: the other.
        kept: path of a JSON file with the ids that are kept, in rising order; specials and tags must be among them.

    Raises:
        DataError: if the file does not hold such a list.
    """

    asset_arguments = ("kept",)

    def __init__(self, *, tokenizer: Tokenizer, kept: str) -> None:
        try:
            ids = from_json(Path(kept).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise DataError(f"{kept}: cannot be read as a list of ids ({error})") from error
        plain = isinstance(ids, list) and all(type(id) is int for id in ids)
        if not plain or ids != sorted({*ids}) or not ids or not 0 <= ids[0] <= ids[-1] < tokenizer.size:
            raise DataError(f"{kept}: not a list of ids below {tokenizer.size} in rising order")
        self.tokenizer = tokenizer
        self.kept = ids
        self._numbers = {id: number for number, id in enumerate(ids)}
        missing = [name for name in tokenizer.symbols if tokenizer.id(name) not in self._numbers]
        if missing:
            raise DataError(f"{kept}: lacks {' '.join(missing)}")
        parts = (tokenizer.fingerprint, json.dumps(ids))
        self.fingerprint = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]

    @property
    def symbols(self) -> list[str]:
        """The specials and tags, by name."""
        return self.tokenizer.symbols

    @property
    def size(self) -> int:
        """Number of ids."""
        return len(self.kept)

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text; pieces that were not kept are ``<unk>``."""
        unknown = self.unk
        return [self._numbers.get(id, unknown) for id in self.tokenizer.encode(text)]

    def for_language(self, language: str | None) -> Tokenizer:
        """See :class:`~dragoman.shared.text.tokenizer.ByLanguage`."""
        return with_inner(self, for_language(self.tokenizer, language))

    def lengths(self, texts: Sequence[str]) -> np.ndarray:
        """Return the number of ids of each text, (texts,) int64."""
        return self.tokenizer.lengths(texts)

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of ids; specials and tags are left out."""
        return self.tokenizer.decode([self._old(int(id)) for id in ids])

    def id(self, symbol: str) -> int:
        """Return the id of a special or tag."""
        return self._numbers[self.tokenizer.id(symbol)]

    def symbol(self, id: int) -> str:
        """Return the piece, special or tag with this id."""
        return self.tokenizer.symbol(self._old(id))

    def _old(self, id: int) -> int:
        if not 0 <= id < len(self.kept):
            raise ValueError(f"id {id} is outside the vocabulary of {len(self.kept)}")
        return self.kept[id]


@dataclass(frozen=True)
class TrimReport:
    """The sizes of tokenizers and tensors before and after trimming.

    Attributes:
        sizes: of each tokenizer, the number of ids before and after.
        parameters: before and after.
        bytes: of the model folder before and after.
    """

    sizes: list[tuple[int, int]]
    parameters: tuple[int, int]
    bytes: tuple[int, int]

    def __str__(self) -> str:
        symbols = ", ".join(f"{before:,} to {after:,}" for before, after in self.sizes)
        (p_before, p_after), (b_before, b_after) = self.parameters, self.bytes
        return f"symbols {symbols}; parameters {p_before:,} to {p_after:,}; bytes {b_before:,} to {b_after:,}"


def trim(model: str | Path, manifests: Sequence[str | Path], out: str | Path) -> TrimReport:
    """Write a model folder with the symbols that manifests use, specials, tags and single bytes.

    Texts whose pieces are all kept are read as before, and logits of what is kept do not change; probabilities do, a
    little, because they are shared among fewer.

    Args:
        model: a model folder, or that of a run.
        manifests: paths or patterns; the columns that the model reads and writes are looked at.
        out: the folder to write.

    Raises:
        DataError: if there is no text, or rows of the model cannot be told to belong to a tokenizer.
    """
    folder, out = model_folder(model), Path(out)
    if folder.resolve() == out.resolve():
        raise UsageError(f"{out}: is the model that is to be trimmed: give another place")
    system = ReadingModel.load(folder)
    fields = system.text_fields()
    kept = {field.tokenizer.fingerprint: always(field.tokenizer) for field in fields}
    texts = 0
    for path in find_manifests([str(manifest) for manifest in manifests]):
        for row in Manifest.open(path):
            for field in fields:
                if row.get(field.column) is not None:
                    ids = field.encoded(field.text(row), row.get(field.language_column))
                    kept[field.tokenizer.fingerprint].update(ids)
                    texts += 1
    if not texts:
        columns = ", ".join(sorted({field.column for field in fields}))
        raise DataError(f"{', '.join(map(str, manifests))}: no text in {columns}")
    with tempfile.TemporaryDirectory() as place:
        trimmed = Trimming(kept, Path(place)).apply(system)
        trimmed.save(out)
    tokenizers = {field.tokenizer.fingerprint: field.tokenizer.size for field in fields}
    return TrimReport(
        [(size, len(kept[name])) for name, size in tokenizers.items()],
        (sum(p.numel() for p in system.parameters()), sum(p.numel() for p in trimmed.parameters())),
        (bytes_of(folder), bytes_of(out)),
    )


def always(tokenizer: Tokenizer) -> set[int]:
    """Return the ids that are kept whatever the texts: specials, tags, and pieces that stand for a single byte."""
    special = {tokenizer.id(name) for name in tokenizer.symbols}
    return special | {id for id in range(tokenizer.size) if re.fullmatch(r"<0x[0-9A-F]{2}>", tokenizer.symbol(id))}


def bytes_of(folder: Path) -> int:
    """Return the bytes of a folder's files."""
    return sum(path.stat().st_size for path in folder.iterdir())


class Trimming(Rebuilding):
    """Builds a system again with fewer symbols, and copies what is left of its parameters.

    Args:
        kept: the ids to keep, by the fingerprints of tokenizers.
        place: a folder for lists of them, needed until the system is saved.
    """

    def __init__(self, kept: dict[str, set[int]], place: Path) -> None:
        super().__init__()
        self.kept = {name: sorted(ids) for name, ids in kept.items()}
        self.place = place
        self._numbers = {name: {id: number for number, id in enumerate(ids)} for name, ids in self.kept.items()}

    def apply(self, system: ReadingModel) -> ReadingModel:
        """Return the trimmed system.

        Raises:
            DataError: if the model does not say to which text the symbols of a part belong.
        """
        trimmed = super().apply(system)
        sizes = ", ".join(str(len(ids)) for ids in self.kept.values())
        trimmed.origin = [*system.origin, f"trimmed to {sizes} symbols"]
        return trimmed

    def changes(self, fingerprint: str) -> bool:
        """See :class:`Rebuilding`."""
        return fingerprint in self.kept

    def number(self, id: int, fingerprint: str) -> int | None:
        """See :class:`Rebuilding`."""
        return self._numbers[fingerprint].get(id)

    def size(self, fingerprint: str) -> int:
        """See :class:`Rebuilding`."""
        return len(self.kept[fingerprint])

    def rows(self, values: Tensor, fingerprint: str) -> Tensor:
        """See :class:`Rebuilding`."""
        return values.index_select(0, torch.tensor(self.kept[fingerprint], device=values.device))

    def tokenizer(self, old: Any) -> TrimmedTokenizer:
        """See :class:`Rebuilding`."""
        kept, inner = self.kept[old.fingerprint], old
        if isinstance(old, TrimmedTokenizer):  # trimmed before: one list is enough
            kept, inner = [old.kept[id] for id in kept], old.tokenizer
        path = self.place / f"kept-{old.fingerprint}.json"
        path.write_text(json.dumps(kept), encoding="utf-8")
        return TrimmedTokenizer(tokenizer=inner, kept=str(path))


class Trim(MainPhase):
    """A phase that trims a model's vocabulary to what manifests use; writes ``model/``."""

    def __init__(self, *, model: str, manifests: list[str]) -> None:
        self.model = model
        self.manifests = list(manifests)

    def work(self, workspace: Workspace) -> None:
        """Trim the model, and log its sizes before and after."""
        workspace.log.info("%s", trim(self.model, self.manifests, workspace.folder / "model"))
