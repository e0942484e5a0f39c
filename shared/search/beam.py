"""Beam search by fairseq's rules, over anything that generates left to right.

Legend: B sentences, A sentences still searched, K beams, C = 2K candidates, P prefix, T tokens so far, V vocabulary.

The rules (``sequence_generator.py`` and ``search.py`` of fairseq 0.12), for each sentence on its own:

1. The 2K best continuations of the K beams are candidates (K cannot be enough: each beam may offer the end symbol).
2. An end symbol among the best K candidates finishes its beam; one among the other K is forgotten. The best K
   candidates that are not end symbols are the next beams.
3. A finished hypothesis is ranked by ``sum of log-probabilities / length ** length_penalty``; the length counts the
   end symbol and the forced tokens, not the start symbols.
4. A sentence is done when K hypotheses are finished, or at the longest length, where the end symbol is forced.
5. Forced tokens (``prefix`` after its start symbols) count with their log-probabilities, like fairseq's
   ``prefix_tokens``; so the score of an output is the same whether it was forced or found. The minimum length does not
   overrule them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from torch import Tensor

from dragoman.shared.batch import Batch
from dragoman.shared.described import Described
from dragoman.shared.generator import Generator, Hypothesis, next_scores
from dragoman.shared.padded import Padded
from dragoman.shared.ranges import PositiveInt, Range
from dragoman.shared.search.constraints import Constraints, check_numbers, no_output
from dragoman.shared.search.rules import Rules

#: A million to this power is still a number.
LARGEST_PENALTY = 50


@dataclass(frozen=True)
class _Choice:
    """The decisions of one step, on the model's device.

    Attributes:
        scores: (A, K) of the next beams; minus infinity for a beam that does not exist.
        tokens: (A, K) that they consume next.
        parents: (A, K) the beam that each continues.
        ended: (A, K) scores of hypotheses that end now, best first; minus infinity elsewhere.
        ended_parents: (A, K) the beams that they end.
    """

    scores: Tensor
    tokens: Tensor
    parents: Tensor
    ended: Tensor
    ended_parents: Tensor

    def fetch(self) -> list[Tensor]:
        """Copy everything to the CPU in one transfer, the only time a step waits for the device."""
        floats = torch.stack([self.scores, self.ended]).float().view(torch.int32)
        integers = torch.stack([self.tokens, self.parents, self.ended_parents]).to(torch.int32)
        packed = torch.cat([floats, integers]).cpu()
        scores, ended = packed[:2].view(torch.float32).unbind(0)
        return [scores, ended, *packed[2:].unbind(0)]


class BeamSearch(Described):
    """Beam search; the output of a sentence does not depend on the other sentences of its batch.

    Args:
        beam: K, the number of beams and of finished hypotheses.
        length_penalty: exponent of the length that divides a hypothesis's score; above 1 favours long outputs.
        n_best: how many hypotheses to return per sentence, at most ``beam``.
        rules: lengths, start symbols and bans; by default those of :class:`Rules`.
    """

    def __init__(
        self,
        *,
        beam: PositiveInt = 5,
        length_penalty: Annotated[float, Range(least=-LARGEST_PENALTY, most=LARGEST_PENALTY)] = 1.0,
        n_best: PositiveInt = 1,
        rules: Rules | None = None,
    ) -> None:
        if n_best > beam:
            raise ValueError(f"n_best must be at most beam ({beam}), not {n_best}")
        self.beam = beam
        self.length_penalty = length_penalty
        self.n_best = n_best
        self.rules = rules or Rules()

    @torch.no_grad()
    def search(
        self, generator: Generator, batch: Batch, *, prefix: Padded, end: int, padding: int
    ) -> list[list[Hypothesis]]:
        """Search the best outputs for each sentence.

        Args:
            generator: the model, in eval mode.
            batch: of B sentences.
            prefix: (B, P_i) forced beginnings of any lengths; the first token(s) are the start symbol.
            end: the end symbol.
            padding: the padding symbol.

        Returns:
            For each sentence up to ``n_best`` hypotheses, best first. Their tokens are those after the start symbols:
            forced ones, generated ones, the end symbol. Their texts are empty.

        Raises:
            DataError: if the model's scores are not numbers, or allow no output (naming the rows' ids).
            UsageError: if the prefix is impossible, or a ban does not fit the vocabulary or the languages.
        """
        if not len(batch):
            return []
        encoding = generator.encode(batch)
        constraints = Constraints(
            self.rules, generator, encoding, batch, prefix=prefix, beams=self.beam, end=end, padding=padding
        )
        # Before the first choice all beams are the same: the model sees one of each sentence, and only one is alive.
        token_scores, state = next_scores(generator, constraints.first, generator.start(encoding, constraints.primed))
        token_scores, state = token_scores.repeat_interleave(self.beam, dim=0), state.fork(self.beam)
        beam_scores = torch.full((len(batch), self.beam), float("-inf"), device=token_scores.device)
        beam_scores[:, 0] = 0.0

        finished: list[list[Hypothesis]] = [[] for _ in range(len(batch))]
        active = list(range(len(batch)))
        paths = np.empty((len(batch), self.beam, 0), dtype=np.int32)
        step = 0
        while True:
            token_scores = constraints.apply(token_scores.view(*beam_scores.shape, -1), step)
            count = min(2 * self.beam, token_scores[0].numel())
            choice = self._choose(*constraints.candidates(token_scores, beam_scores, count), token_scores.shape[2], end)
            going, ended, next_tokens, parents, ended_parents = choice.fetch()
            check_numbers(ended, active, batch.ids, step)
            for row, rank in (ended > float("-inf")).nonzero().tolist():
                hypotheses = finished[active[row]]
                if len(hypotheses) < self.beam:
                    score = float(ended[row, rank]) / (step + 1) ** self.length_penalty
                    parent = int(ended_parents[row, rank])
                    cut = constraints.cut is not None and bool(constraints.cut[row, parent])
                    hypotheses.append(Hypothesis([*paths[row, parent].tolist(), end], score, cut=cut))
            dead = going[:, 0] == float("-inf")
            done = (
                constraints.exhausted(step) | dead | torch.tensor([len(finished[row]) == self.beam for row in active])
            )
            rows = done.logical_not().nonzero().flatten()
            if not len(rows):
                break
            paths = np.take_along_axis(paths, parents.numpy()[..., None].astype(np.int64), axis=1)
            paths = np.concatenate([paths, next_tokens.numpy()[..., None]], axis=2)[rows.numpy()]
            kept = rows.to(token_scores.device)
            index = kept[:, None] * self.beam + choice.parents.index_select(0, kept)
            state = state.reorder(index.flatten())
            tokens, beam_scores = choice.tokens.index_select(0, kept), choice.scores.index_select(0, kept)
            constraints.advance(index.flatten(), tokens)
            if len(rows) < len(active):
                active = [active[row] for row in rows.tolist()]
                constraints.keep(rows, kept)
            token_scores, state = next_scores(generator, tokens.flatten(), state)
            step += 1
        if not all(finished):
            raise no_output([row for row, hypotheses in enumerate(finished) if not hypotheses], batch.ids)
        return [sorted(hypotheses, key=lambda hypothesis: -hypothesis.score)[: self.n_best] for hypotheses in finished]

    def _choose(self, best: Tensor, places: Tensor, vocabulary: int, end: int) -> _Choice:
        """Choose the next beams and the ending ones from candidates (A, C): scores, and places in K x V."""
        beams, tokens, parents = self.beam, places % vocabulary, places // vocabulary
        is_end = tokens == end
        nothing = float("-inf")
        # Stable: the candidates that go on first, in order of their scores, then the ends.
        order = is_end.to(torch.int8).argsort(dim=1, stable=True)[:, :beams]
        going = best.masked_fill(is_end, nothing).gather(1, order)
        tokens, going_parents = tokens.gather(1, order), parents.gather(1, order)
        # What is not a number stays, for check_numbers; topk has put it first.
        ended = best.masked_fill(is_end.logical_not() & best.isnan().logical_not(), nothing)[:, :beams]
        # A beam that does not exist copies the best one, so that the model never sees an impossible past.
        absent = going == nothing
        tokens = torch.where(absent, tokens[:, :1], tokens)
        going_parents = torch.where(absent, going_parents[:, :1], going_parents)
        return _Choice(going, tokens, going_parents, ended, parents[:, :beams])
