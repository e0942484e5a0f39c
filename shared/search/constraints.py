"""What every left-to-right search must obey: forced beginnings, shortest and longest outputs, no padding symbol.

Legend: B sentences, A sentences still searched, K beams, P prefix, S source memory, V vocabulary.

The rules are fairseq's (``sequence_generator.py`` of fairseq 0.12), with two differences that make the output of a
sentence independent of the batch it stands in: the longest output follows from the sentence's own source length, not
from the longest source of the batch, and it is never shorter than the forced beginning.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from shared.generator import Encoding
from shared.padded import Padded


@dataclass(frozen=True, kw_only=True)
class LengthLimits:
    """How long outputs may be, counted in generated tokens (forced ones included) without the end symbol.

    Attributes:
        ratio: fairseq's ``max_len_a``: tokens allowed per position of the sentence's longest encoder memory.
        extra: fairseq's ``max_len_b``: tokens allowed in any case.
        minimum: tokens that must be generated before the end symbol may come (fairseq's ``min_len``).
        maximum: what ``ratio * S + extra`` is cut to, whatever the source.

    Raises:
        ValueError: if the numbers contradict each other.

    """

    ratio: float = 0.0
    extra: int = 200
    minimum: int = 1
    maximum: int = 1000

    def __post_init__(self) -> None:
        if self.ratio < 0 or self.extra < 0:
            raise ValueError(f"the longest output cannot be {self.ratio} tokens per source position + {self.extra}")
        if not 0 <= self.minimum <= self.maximum:
            raise ValueError(f"the minimum length {self.minimum} is not between 0 and the maximum {self.maximum}")

    def of(self, encoding: Encoding) -> Tensor:
        """Return the longest output of each sentence, (B,) int64 on the CPU, at least ``minimum``."""
        lengths = [memory.lengths for memory in encoding.memories.values()]
        longest = torch.stack(lengths).amax(0).cpu() if lengths else torch.zeros(len(encoding), dtype=torch.int64)
        limits = (self.ratio * longest.double()).floor().long() + self.extra
        return limits.clamp(min=self.minimum, max=self.maximum)


class Constraints:
    """Masks log-probabilities step by step; ``step`` counts the tokens generated so far, forced ones included.

    Args:
        limits: the length limits.
        encoding: of B sentences.
        prefix: (B, P_i) forced beginnings; their first ``start_symbols`` tokens are the start and are not generated.
        start_symbols: how many.
        end: the end symbol.
        padding: the padding symbol, which is never generated.

    Attributes:
        primed: the start symbols but the last (B, start_symbols - 1), for ``Generator.start``; None if there are none.
        first: (B,) the last start symbol, for the first ``Generator.step``.

    Raises:
        ValueError: if the prefix does not fit the batch, is too short, or contains the end symbol after the start.

    """

    def __init__(
        self, limits: LengthLimits, encoding: Encoding, prefix: Padded, start_symbols: int, end: int, padding: int
    ) -> None:
        if len(prefix) != len(encoding):
            raise ValueError(f"{len(prefix)} prefixes for {len(encoding)} sentences")
        forced_lengths = prefix.lengths.cpu() - start_symbols
        if len(prefix) and int(forced_lengths.min()) < 0:
            raise ValueError(
                f"row {int(forced_lengths.argmin())}: a prefix has fewer than {start_symbols} start symbols"
            )
        self._forced = prefix.values[:, start_symbols:]
        self._is_forced = prefix.mask[:, start_symbols:]
        if bool(((self._forced == end) & self._is_forced).any()):
            raise ValueError(f"a forced prefix contains the end symbol {end} after its {start_symbols} start symbols")
        self._minimum, self._end, self._padding = limits.minimum, end, padding
        self._forced_lengths = forced_lengths
        self._limits = torch.maximum(limits.of(encoding), forced_lengths)
        self._limits_there = self._limits.to(prefix.device)  # a copy where the model is
        consumed = start_symbols - 1
        self.primed: Padded | None = None
        if consumed:
            self.primed = Padded(prefix.values[:, :consumed], torch.full_like(prefix.lengths, consumed))
        self.first = prefix.values[:, consumed]

    def keep(self, rows_here: Tensor, rows_there: Tensor) -> None:
        """Go on with some sentences only: their rows (A',) on the CPU and on the model's device."""
        self._forced_lengths, self._limits = self._forced_lengths[rows_here], self._limits[rows_here]
        self._limits_there = self._limits_there.index_select(0, rows_there)
        self._forced = self._forced.index_select(0, rows_there)
        self._is_forced = self._is_forced.index_select(0, rows_there)

    def exhausted(self, step: int) -> Tensor:
        """Tell which sentences (A,) bool, on the CPU, had to end at this step."""
        return self._limits <= step

    def apply(self, log_probabilities: Tensor, step: int) -> Tensor:
        """Forbid tokens by minus infinity in (A, K, V), in place, without renormalising; wait for no device."""
        nothing = float("-inf")
        vocabulary = torch.arange(log_probabilities.shape[-1], device=log_probabilities.device)
        log_probabilities[..., self._padding] = nothing
        if step < self._minimum:
            # No matter to rows with a forced token: it is not the end, and it counts towards the minimum.
            log_probabilities[..., self._end] = nothing
        if int(self._limits.min()) <= step:
            over = (self._limits_there <= step)[:, None] & (vocabulary != self._end)  # (A, V)
            log_probabilities.masked_fill_(over[:, None], nothing)
        if int(self._forced_lengths.max()) > step:
            other = self._is_forced[:, step, None] & (vocabulary != self._forced[:, step, None])  # (A, V)
            log_probabilities.masked_fill_(other[:, None], nothing)
        return log_probabilities


def check_numbers(scores: Tensor, active: Sequence[int], ids: Sequence[str], step: int) -> None:
    """Refuse scores (A, ...) on the CPU that are not numbers.

    ``topk`` and ``max`` put NaN first, so looking at the best scores of a sentence is enough.

    Raises:
        ValueError: naming the rows of the batch.

    """
    wrong = scores.isnan().flatten(1).any(1)
    if bool(wrong.any()):
        rows = _named([active[row] for row in wrong.nonzero().flatten().tolist()], ids)
        raise ValueError(f"the model's log-probabilities are not numbers at output position {step + 1} of: {rows}")


def no_output(rows: Sequence[int], ids: Sequence[str]) -> ValueError:
    """Return the error to raise when a model gives every allowed output a probability of zero."""
    return ValueError(f"the model gives no allowed output a probability above zero for: {_named(rows, ids)}")


def _named(rows: Sequence[int], ids: Sequence[str]) -> str:
    return ", ".join(ids[row] if ids else f"row {row}" for row in rows)
