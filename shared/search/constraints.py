"""The rules of a search at work on a batch: what is forced, what may not yet end or must, what is banned, no padding.

Legend: B sentences, A sentences still searched, K beams, P prefix, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from dragoman.shared.batch import Batch
from dragoman.shared.errors import DataError, UsageError
from dragoman.shared.generator import Encoding, Generator
from dragoman.shared.padded import Padded
from dragoman.shared.search.bans import Opening
from dragoman.shared.search.rules import Rules
from dragoman.shared.search.top import best_continuations


class Constraints:
    """The rules at work on one batch; ``step`` counts the tokens generated so far, forced ones included.

    Args:
        rules: what holds for all batches.
        generator: the model.
        encoding: of B sentences.
        batch: of B sentences.
        prefix: (B, P_i) forced beginnings; their first tokens are the start and are not generated (see
            :meth:`Rules.starts`).
        beams: K.
        end: the end symbol.
        padding: the padding symbol, which is never generated.

    Attributes:
        primed: the start but its last symbol (B, S_i - 1), for ``Generator.start``; None if there is nothing else.
        first: (B,) the last start symbol, for the first ``Generator.step``.
        cut: (A, K) bool on the CPU: outputs that the last step ended at their limit, although another token was more
            probable than the end; None where no sentence had come to its limit.

    Raises:
        UsageError: if the prefix is too short, or contains the end symbol after the start; or if starts are of
            different lengths, which the model does not take.
        ValueError: if it does not fit the batch.
    """

    def __init__(
        self,
        rules: Rules,
        generator: Generator,
        encoding: Encoding,
        batch: Batch,
        *,
        prefix: Padded,
        beams: int,
        end: int,
        padding: int,
    ) -> None:
        if len(prefix) != len(encoding):
            raise ValueError(f"{len(prefix)} prefixes for {len(encoding)} sentences")
        starts = rules.starts(prefix)
        forced_lengths = prefix.lengths.cpu() - starts
        if len(prefix) and int(forced_lengths.min()) < 0:
            raise UsageError(
                f"row {int(forced_lengths.argmin())}: a prefix has fewer than {rules.start_symbols} start symbols"
            )
        longest = int(starts.max())
        if int(starts.min()) < longest and not getattr(generator, "ragged", False):
            raise UsageError(f"a {type(generator).__name__} takes no prefixes of different lengths at once")
        self._forced = prefix.values[:, longest:]
        self._is_forced = prefix.mask[:, longest:]
        if bool(((self._forced == end) & self._is_forced).any()):
            raise UsageError(f"a forced prefix contains the end symbol {end} after its {longest} start symbols")
        self._minimum = rules.minimum
        self._end = end
        self._padding = padding
        self._forced_lengths = forced_lengths
        self._free = rules.forced_free
        self._limits = torch.maximum(rules.longest(encoding, generator, starts), forced_lengths)
        self._limits_there = self._limits.to(prefix.device)  # a copy where the model is
        start = Padded(prefix.values[:, :longest], starts.to(prefix.device))
        self.primed = Padded(start.values[:, :-1], start.lengths - 1) if longest > 1 else None
        self.first = start.values.gather(1, start.lengths[:, None] - 1)[:, 0]
        self.cut: Tensor | None = None
        opening = Opening(batch, _at_end(start, padding), beams, end, padding)
        self._bans = [ban.begin(opening) for ban in rules.bans]

    def keep(self, rows_here: Tensor, rows_there: Tensor) -> None:
        """Go on with some sentences only: their rows (A',) on the CPU and on the model's device."""
        self._forced_lengths, self._limits = self._forced_lengths[rows_here], self._limits[rows_here]
        self._limits_there = self._limits_there.index_select(0, rows_there)
        self._forced = self._forced.index_select(0, rows_there)
        self._is_forced = self._is_forced.index_select(0, rows_there)
        for ban in self._bans:
            ban.keep(rows_there)

    def advance(self, index: Tensor | None, tokens: Tensor) -> None:
        """Note what a step has chosen; see :meth:`dragoman.shared.search.bans.ActiveBan.advance`."""
        for ban in self._bans:
            ban.advance(index, tokens)

    def candidates(self, scores: Tensor, beams: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """Return the best continuations, if no ban ranks them otherwise; see ``best_continuations``."""
        found = best_continuations(scores, beams, count)
        for ban in self._bans:
            found = ban.ranked(scores, beams, *found)
        return found

    def exhausted(self, step: int) -> Tensor:
        """Tell which sentences (A,) bool, on the CPU, had to end at this step."""
        return self._limits <= step

    def apply(self, log_probabilities: Tensor, step: int) -> Tensor:
        """Forbid tokens by minus infinity in (A, K, V), in place, without renormalising.

        The device is waited for only where a sentence has come to its limit.
        """
        nothing = float("-inf")
        log_probabilities[..., self._padding] = nothing
        self.cut = None
        forced = None
        if int(self._forced_lengths.max()) > step:
            # A row without a forced token here has the padding symbol there, which makes no difference.
            token = self._forced[:, step].masked_fill(self._is_forced[:, step].logical_not(), self._padding)
            forced = token[:, None, None].expand(-1, log_probabilities.shape[1], 1)
            rows = self._is_forced[:, step, None, None]
            scores = log_probabilities.gather(-1, forced)
            scores = scores.masked_fill(rows, 0.0) if self._free else scores
            log_probabilities.masked_fill_(rows, nothing)
        if step < self._minimum:
            # No matter to rows with a forced token: it is not the end, and it counts towards the minimum.
            log_probabilities[..., self._end] = nothing
        if int(self._limits.min()) <= step:
            over = (self._limits_there <= step)[:, None]
            end = log_probabilities[..., self._end].clone()
            self.cut = (over & (end < log_probabilities.amax(-1))).cpu()
            log_probabilities.masked_fill_(over[..., None], nothing)
            log_probabilities[..., self._end] = end.masked_fill(over, 0.0) if self._free else end
        for ban in self._bans:
            ban.apply(log_probabilities)
        if forced is not None:
            log_probabilities.scatter_(-1, forced, scores)
        return log_probabilities


def _at_end(start: Padded, padding: int) -> Tensor:
    """Return starts (B, S_i) with the padding of shorter ones in front, (B, S)."""
    longest = start.values.shape[1]
    places = torch.arange(longest, device=start.device) - (longest - start.lengths)[:, None]
    return start.values.gather(1, places.clamp(min=0)).masked_fill(places < 0, padding)


def check_numbers(scores: Tensor, active: Sequence[int], ids: Sequence[str], step: int) -> None:
    """Refuse scores (A, ...) on the CPU that are not numbers.

    ``topk`` and ``max`` put NaN first, so looking at the best scores of a sentence is enough.

    Raises:
        DataError: naming the rows of the batch.
    """
    wrong = scores.isnan().flatten(1).any(1)
    if bool(wrong.any()):
        rows = named_rows([active[row] for row in wrong.nonzero().flatten().tolist()], ids)
        raise DataError(f"the model's log-probabilities are not numbers at output position {step + 1} of: {rows}")


def no_output(rows: Sequence[int], ids: Sequence[str]) -> DataError:
    """Return the error to raise when a model gives every allowed output a probability of zero."""
    return DataError(f"the model gives no allowed output a probability above zero for: {named_rows(rows, ids)}")


def named_rows(rows: Sequence[int], ids: Sequence[str]) -> str:
    """Return the ids of rows, or their numbers if there are no ids."""
    return ", ".join(ids[row] if ids else f"row {row}" for row in rows)
