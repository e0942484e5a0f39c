"""Padded sequences: values and their true lengths, carried together everywhere.

Legend: B batch, L length.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor


@dataclass(frozen=True)
class Padded:
    """A batch of sequences of unequal length.

    Attributes:
        values: (B, L, ...); what stands beyond a row's length is padding and carries no meaning.
        lengths: (B,) int64, on the same device as ``values``; every length is at most L.
        full: whether no row has padding, where that is known without asking the device for the lengths.
    """

    values: Tensor
    lengths: Tensor
    full: bool = field(default=False, compare=False, kw_only=True)
    _mask: Tensor | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.lengths.dim() != 1 or self.lengths.shape[0] != self.values.shape[0]:
            raise ValueError(
                f"lengths of shape {tuple(self.lengths.shape)} do not fit values of shape {tuple(self.values.shape)}"
            )
        if self.lengths.dtype != torch.int64:
            raise TypeError(f"lengths must be int64, not {self.lengths.dtype}")

    @classmethod
    def from_sequences(cls, sequences: Sequence[Tensor], padding: float = 0, least: int = 0) -> Padded:
        """Pad tensors of shape (L_i, ...) with ``padding`` to the longest of them, but at least to ``least``."""
        lengths = torch.tensor([len(sequence) for sequence in sequences], dtype=torch.int64)
        values = torch.nn.utils.rnn.pad_sequence(list(sequences), batch_first=True, padding_value=padding)
        if (missing := least - values.shape[1]) > 0:
            values = torch.nn.functional.pad(values, (0, 0) * (values.dim() - 2) + (0, missing), value=padding)
        return cls(values, lengths, full=bool(values.shape[1]) and set(lengths.tolist()) == {values.shape[1]})

    @property
    def mask(self) -> Tensor:
        """(B, L) bool, True where a position is real; made once (not by functools, whose lock cannot be compiled)."""
        if self._mask is None:
            positions = torch.arange(self.values.shape[1], device=self.lengths.device)
            object.__setattr__(self, "_mask", positions[None, :] < self.lengths[:, None])
        assert self._mask is not None
        return self._mask

    @property
    def needs_no_mask(self) -> bool:
        """True if attention to all elements is known to be right, and on a device that is quicker without a mask."""
        return self.full and self.values.device.type != "cpu"

    @property
    def device(self) -> torch.device:
        """The device of the values."""
        return self.values.device

    def __len__(self) -> int:
        """Return the number of sequences, B."""
        return self.values.shape[0]

    def to(self, device: torch.device | str, non_blocking: bool = False) -> Padded:
        """Copy to a device."""
        values, lengths = (x.to(device, non_blocking=non_blocking) for x in (self.values, self.lengths))
        return Padded(values, lengths, full=self.full)

    def pin_memory(self) -> Padded:
        """Pin both tensors, so that a copy to the device need not wait."""
        return Padded(self.values.pin_memory(), self.lengths.pin_memory(), full=self.full)

    def select(self, rows: Tensor) -> Padded:
        """Take rows (R,) int64, with repetition if asked; L stays."""
        return Padded(self.values.index_select(0, rows), self.lengths.index_select(0, rows), full=self.full)

    def map(self, function: Callable[[Tensor], Tensor]) -> Padded:
        """Replace the values by ``function(values)``, which keeps B and L."""
        return Padded(function(self.values), self.lengths, full=self.full)

    def never_empty(self) -> Padded:
        """Return the same with at least one element in each row, of whatever its padding holds."""
        return Padded(self.values, self.lengths.clamp(min=1), full=self.full)

    def keep(self, mask: Tensor, least: int = 0) -> Padded:
        """Keep the real elements that ``mask`` marks, in their order, and cut to the longest row.

        Gradients flow to what was kept alone; the padding is 0.

        Args:
            mask: (B, L) bool; what it says of padding is not read.
            least: a row in which fewer are marked also keeps its first unmarked elements, as far as it has any.

        Returns:
            (B, L', ...) with L' at most L.
        """
        kept = mask & self.mask
        if least > 0:
            unmarked = self.mask & ~kept
            missing = least - kept.sum(1, keepdim=True)
            kept = kept | (unmarked & (unmarked.cumsum(1) <= missing))
        lengths = kept.sum(1)
        longest = int(lengths.max()) if len(lengths) else 0
        result = Padded(self.values.new_zeros(len(lengths), longest, *self.values.shape[2:]), lengths)
        places = result.mask.reshape(*result.mask.shape, *[1] * (self.values.dim() - 2))
        return result.map(lambda zeros: zeros.masked_scatter(places, self.values[kept]))

    def mean(self) -> Tensor:
        """Return the mean of each row's real elements, (B, ...), in at least single precision; 0 for an empty row."""
        mask = self.mask.reshape(*self.mask.shape, *[1] * (self.values.dim() - 2))
        total = self.values.to(torch.promote_types(self.values.dtype, torch.float32)).masked_fill(~mask, 0).sum(1)
        return total / self.lengths.clamp(min=1).reshape(-1, *[1] * (total.dim() - 1))

    def rows(self) -> list[Tensor]:
        """Return the sequences without their padding, each (L_i, ...)."""
        return [row[:length] for row, length in zip(self.values, self.lengths.tolist(), strict=True)]

    @staticmethod
    def concatenate(parts: Sequence[Padded]) -> tuple[Padded, list[Tensor]]:
        """Join sequences end to end, row by row, with all padding moved to the end.

        Returns:
            The joined sequences (B, L_1 + ... + L_n, ...) and, for each part, the (B, L_i) int64 positions at which
            its elements now stand (see :meth:`split`); positions of padding elements point behind the row's length.
        """
        total = sum(part.values.shape[1] for part in parts)
        lengths = torch.stack([part.lengths for part in parts]).sum(0)
        start = torch.zeros_like(lengths)
        spare = lengths.clone()  # where padding goes: behind everything real
        segments = []
        for part in parts:
            offsets = torch.arange(part.values.shape[1], device=part.device)[None, :]
            behind = (offsets - part.lengths[:, None]) + spare[:, None]
            segments.append(torch.where(part.mask, start[:, None] + offsets, behind))
            start = start + part.lengths
            spare = spare + part.values.shape[1] - part.lengths
        target = torch.cat(segments, dim=1)
        values = torch.cat([part.values for part in parts], dim=1)
        index = target.reshape(*target.shape, *[1] * (values.dim() - 2)).expand_as(values)
        joined = torch.zeros_like(values).scatter(1, index, values)
        assert joined.shape[1] == total
        return Padded(joined, lengths), segments

    def split(self, segments: Sequence[Tensor], lengths: Sequence[Tensor]) -> list[Padded]:
        """Undo :meth:`concatenate`: the parts at ``segments``, with their ``lengths``."""
        parts = []
        for segment, length in zip(segments, lengths, strict=True):
            index = segment.reshape(*segment.shape, *[1] * (self.values.dim() - 2))
            index = index.expand(*segment.shape, *self.values.shape[2:])
            parts.append(Padded(self.values.gather(1, index), length))
        return parts
