"""Search that writes all tokens at once, and the least probable ones again (Ghazvininejad et al. 2019, section 3).

An output of n tokens begins as n masks. In each pass t = 0 ... T - 1 the masks become the tokens that are most probable
there, and keep their probabilities; before each but the first, the n (T - t) / T tokens with the lowest probabilities
become masks again. What stays keeps the probability that it had when it was written. As in the authors' code, this
number is rounded down, and at least one token is written anew.

Legend: B sentences, K lengths of each, R = B x K rows, L positions, V vocabulary, T passes.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from dragoman.shared.batch import Batch
from dragoman.shared.described import Described
from dragoman.shared.errors import DataError, UsageError
from dragoman.shared.generator import Filler, Hypothesis
from dragoman.shared.padded import Padded
from dragoman.shared.ranges import PositiveInt
from dragoman.shared.search.constraints import named_rows


class FillingSearch(Described):
    """Fills masks; the output of a sentence does not depend on the other sentences of its batch.

    Of each sentence the most probable lengths are tried. A hypothesis's score, by which they are ranked, is the mean of
    its tokens' log-probabilities; the end symbol, which the length implies, has none. The mask, the end and the padding
    symbol are never written.

    Args:
        iterations: T.
        beam: K, how many lengths are tried.
        n_best: how many hypotheses to return per sentence, at most ``beam``.
    """

    def __init__(self, *, iterations: PositiveInt = 10, beam: PositiveInt = 5, n_best: PositiveInt = 1) -> None:
        if n_best > beam:
            raise ValueError(f"n_best must be at most beam ({beam}), not {n_best}")
        self.iterations = iterations
        self.beam = beam
        self.n_best = n_best

    @torch.no_grad()
    def search(self, generator: Any, batch: Batch, *, prefix: Padded, end: int, padding: int) -> list[list[Hypothesis]]:
        """Search the best outputs for each sentence; see :meth:`dragoman.shared.search.beam.BeamSearch.search`.

        Args:
            generator: a Filler, in eval mode.
            batch: of B sentences.
            prefix: (B, P_i) what stands before the masks.
            end: the symbol that stands behind them.
            padding: the padding symbol.

        Raises:
            DataError: if the model's scores are not numbers (naming the rows' ids).
            UsageError: if the model fills no masks.
        """
        if not isinstance(generator, Filler):
            raise UsageError(f"a {type(generator).__name__} fills no masks: search it from left to right")
        if not len(batch):
            return []
        encoding = generator.encode(batch)
        lengths = generator.length_scores(encoding)
        lengths = lengths[:, 1:].topk(min(self.beam, lengths.shape[1] - 1), dim=1).indices + 1  # (B, K)
        tries = lengths.shape[1]
        owners = torch.arange(len(batch), device=lengths.device).repeat_interleave(tries)
        tokens, blank = _masked(prefix.select(owners), lengths.flatten(), generator.mask, end, padding)
        repeated = encoding.select(owners)
        scores = torch.zeros(tokens.values.shape, device=tokens.device)
        for number in range(self.iterations):
            open_places = blank if number == 0 else self._worst(scores, blank, number)
            shown = Padded(tokens.values.masked_fill(open_places, generator.mask), tokens.lengths)
            best, written = _best(generator.fill(shown, repeated), [generator.mask, end, padding])
            tokens = Padded(torch.where(open_places, written, tokens.values), tokens.lengths)
            scores = torch.where(open_places, best, scores)
        means = (scores.masked_fill(~blank, 0.0).sum(1) / blank.sum(1)).view(len(batch), tries).tolist()
        wrong = [row for row, some in enumerate(means) if any(mean != mean for mean in some)]
        if wrong:
            raise DataError(f"the model's log-probabilities are not numbers for: {named_rows(wrong, batch.ids)}")
        texts = Padded(tokens.values, tokens.lengths).keep(blank).rows()
        hypotheses = [
            [Hypothesis([*texts[row * tries + k].tolist(), end], mean) for k, mean in enumerate(some)]
            for row, some in enumerate(means)
        ]
        return [sorted(some, key=lambda one: -one.score)[: self.n_best] for some in hypotheses]

    def _worst(self, scores: Tensor, blank: Tensor, number: int) -> Tensor:
        """Return which tokens (R, L) are written again in pass ``number``; of equal ones, the first."""
        counts = (blank.sum(1) * (self.iterations - number) // self.iterations).clamp(min=1)
        order = scores.masked_fill(~blank, float("inf")).argsort(dim=1, stable=True)
        return order.argsort(dim=1) < counts[:, None]


def _masked(prefix: Padded, lengths: Tensor, mask: int, end: int, padding: int) -> tuple[Padded, Tensor]:
    """Return outputs (R, L) of masks between prefix (R, P) and end, and where the masks are, (R, L) bool."""
    totals = prefix.lengths + lengths + 1
    places = torch.arange(int(totals.max()), device=lengths.device)
    blank = (places >= prefix.lengths[:, None]) & (places < totals[:, None] - 1)
    values = torch.full(blank.shape, padding, device=lengths.device)
    values[:, : prefix.values.shape[1]] = prefix.values
    values = values.masked_fill(blank, mask).masked_fill(places >= totals[:, None] - 1, padding)
    return Padded(values.scatter(1, totals[:, None] - 1, end), totals), blank


def _best(logits: Tensor, never: list[int]) -> tuple[Tensor, Tensor]:
    """Return the greatest log-probabilities (R, L) of logits (R, L, V), and of which tokens they are."""
    scores = logits.float().log_softmax(-1)
    scores[..., never] = float("-inf")
    best, tokens = scores.max(dim=-1)
    return best, tokens
