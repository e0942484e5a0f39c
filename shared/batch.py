"""A batch: what one step of training or translation sees."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import torch

from dragoman.shared.errors import DataError, TooLongError, UsageError
from dragoman.shared.padded import Padded


@dataclass(frozen=True)
class Batch:
    """Any subset of fields is legal; it may hold one sentence in several tokenisations.

    Attributes:
        fields: "speech" (B, N) float waveform at 16 kHz, "source", "target", "transcript" (B, L) int64 tokens, ...
        languages: language codes of the rows by side: ``{"source": ["en", "en"], "target": ["de", "fr"]}``.
        ids: the row ids, for messages and for putting outputs back in order.
        stream: the name of the stream that the rows came from.
        group: what all rows have in common if the stream groups them (a language pair, a domain), else None.
        idle: whether its loss counts for nothing: there were fewer rows than processes, and another one has these.
    """

    fields: dict[str, Padded]
    languages: dict[str, list[str]] = field(default_factory=dict)
    ids: list[str] = field(default_factory=list)
    stream: str = ""
    group: str | None = None
    idle: bool = False

    def __post_init__(self) -> None:
        sizes = {name: len(padded) for name, padded in self.fields.items()}
        sizes |= {f"languages[{side}]": len(codes) for side, codes in self.languages.items()}
        if self.ids:
            sizes["ids"] = len(self.ids)
        if len(set(sizes.values())) > 1:
            raise ValueError(f"the parts of a batch differ in their number of rows: {sizes}")

    def __len__(self) -> int:
        """Return the number of rows, B."""
        return len(next(iter(self.fields.values()))) if self.fields else len(self.ids)

    def __getitem__(self, name: str) -> Padded:
        """Return a field; a missing one is an error that names those that are there."""
        if name not in self.fields:
            raise UsageError(f"stream {self.stream!r} has no field {name!r}, only {sorted(self.fields)}")
        return self.fields[name]

    def __contains__(self, name: str) -> bool:
        """Tell whether a field is there."""
        return name in self.fields

    def singly(self) -> Iterator[Batch]:
        """Yield each row as a batch of its own, padded as it is here."""
        return self.divided(1)

    def divided(self, rows: int) -> Iterator[Batch]:
        """Yield batches of so many rows, the last of the rest, padded as they are here."""
        for start in range(0, len(self), rows):
            yield self.select(range(start, min(start + rows, len(self))))

    def select(self, rows: Sequence[int]) -> Batch:
        """Take rows, padded as they are here."""
        fields = {
            name: padded.select(torch.tensor([*rows], device=padded.device)) for name, padded in self.fields.items()
        }
        languages = {side: [codes[row] for row in rows] for side, codes in self.languages.items()}
        ids = [self.ids[row] for row in rows] if self.ids else []
        return replace(self, fields=fields, languages=languages, ids=ids)

    def to(self, device: torch.device | str, non_blocking: bool = True) -> Batch:
        """Copy all fields to a device."""
        return replace(self, fields={name: padded.to(device, non_blocking) for name, padded in self.fields.items()})

    def pin_memory(self) -> Batch:
        """Pin all fields (called by torch's DataLoader)."""
        return replace(self, fields={name: padded.pin_memory() for name, padded in self.fields.items()})

    def with_fields(self, **fields: Padded) -> Batch:
        """Return a batch with some fields added or replaced."""
        return replace(self, fields=self.fields | fields)


@contextmanager
def naming_longest(batch: Batch, field: str) -> Iterator[None]:
    """Name the longest row of a field if what is done with it finds that a sequence is too long.

    Raises:
        DataError: with the row's id.
    """
    try:
        yield
    except TooLongError as error:
        row = int(batch[field].lengths.argmax())
        name = repr(batch.ids[row]) if batch.ids else str(row)
        raise DataError(f"row {name}: its {field!r} is too long for the model: {error}") from error
