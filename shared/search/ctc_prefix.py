"""Prefix beam search over the outputs of connectionist temporal classification.

Graves 2012 (section 7.5.3) and Graves and Jaitly 2014 (algorithm 1) sum over the alignments of an output; Hannun et al.
2014 (algorithm 1) adds a language model and a bonus for each token.

Legend: B sentences, S positions, K prefixes kept, C symbols considered, T tokens of a prefix, V vocabulary.

For each prefix y that is kept, two sums over its alignments with the positions so far: those that end in the blank,
``b(y)``, and those that end in its last token, ``n(y)``. At the next position, with log-probabilities p,

    b'(y)     = (b(y) + n(y)) p(blank)
    n'(y)     = n(y) p(last of y)
    n'(y + c) = p(c) (b(y) + n(y)), or p(c) b(y) where c is the last token of y, as only a blank keeps two apart

and where y + c is kept itself, the last adds to its n'. What is kept are the K prefixes with the greatest
``log(b' + n') + weight log p_lm(y) + bonus |y|``. All sentences and prefixes of a batch are worked on at once, and
nothing waits for the device but the question which prefixes a language model has not read yet.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor
from torch.nn import functional as F

from dragoman.shared.described import Described
from dragoman.shared.errors import DataError
from dragoman.shared.generator import Encoding, Hypothesis
from dragoman.shared.padded import Padded
from dragoman.shared.ranges import NonNegativeInt, PositiveInt, Range
from dragoman.shared.search.constraints import named_rows
from dragoman.shared.search.ctc_greedy import check_blank
from dragoman.shared.search.search import Companion

NOTHING = float("-inf")
#: Of a token; scores in single precision have seven digits, and they are to tell outputs apart.
LARGEST_BONUS = 1e4


@dataclass(frozen=True)
class _Prefixes:
    """The prefixes of a batch.

    Attributes:
        blank: (B, K) log of b(y).
        token: (B, K) log of n(y); a prefix with minus infinity in both is none.
        tokens: (B, K, T) its tokens, -1 behind them.
        lengths: (B, K).
        bonus: (B, K) what is added for the prefix itself: language model and length.
    """

    blank: Tensor
    token: Tensor
    tokens: Tensor
    lengths: Tensor
    bonus: Tensor

    @property
    def last(self) -> Tensor:
        """(B, K) the last token, -1 for the empty prefix."""
        if not self.tokens.shape[-1]:
            return torch.full_like(self.lengths, -1)
        last = self.tokens.gather(-1, (self.lengths - 1).clamp(min=0)[..., None])[..., 0]
        return last.masked_fill(self.lengths == 0, -1)

    @property
    def total(self) -> Tensor:
        """(B, K) log of b(y) + n(y)."""
        return torch.logaddexp(self.blank, self.token)

    def children(self) -> Tensor:
        """(B, K, K) bool: prefix j, the last index, is prefix i and one token more."""
        longer = self.lengths[:, None, :] == self.lengths[:, :, None] + 1
        places = torch.arange(self.tokens.shape[-1], device=self.tokens.device)
        beyond = places >= self.lengths[:, :, None, None]  # (B, K, 1, T)
        same = ((self.tokens[:, :, None] == self.tokens[:, None]) | beyond).all(-1)
        return longer & same & (self.total[:, None] > NOTHING)


class CtcPrefixSearch(Described):
    """Finds the most probable outputs, not the most probable path.

    A hypothesis's score is the log-probability of the output, all alignments (that the beam held) together, plus what
    language model and bonus add. The language model's judgement includes the end symbol.

    Args:
        beam: K, prefixes kept at each position.
        candidates: C, the best symbols of a position by which prefixes may grow; 0: all. The exact sums for prefixes
            that are kept do not depend on it.
        n_best: how many hypotheses to return per sentence, at most ``beam``.
        length_bonus: added for each token; needed against a language model, which favours short outputs.

    Raises:
        ValueError: for more hypotheses than beams.
    """

    def __init__(
        self,
        *,
        beam: PositiveInt = 10,
        candidates: NonNegativeInt = 40,
        n_best: PositiveInt = 1,
        length_bonus: Annotated[float, Range(least=-LARGEST_BONUS, most=LARGEST_BONUS)] = 0.0,
    ) -> None:
        if n_best > beam:
            raise ValueError(f"n_best must be at most beam ({beam}), not {n_best}")
        self.beam = beam
        self.candidates = candidates
        self.n_best = n_best
        self.length_bonus = length_bonus

    @torch.no_grad()
    def decode(
        self, log_probabilities: Padded, *, blank: int, ids: Sequence[str] = (), companion: Companion | None = None
    ) -> list[list[Hypothesis]]:
        """Return up to ``n_best`` hypotheses per sentence; see :class:`dragoman.shared.search.search.CtcSearch`.

        Raises:
            DataError: if a log-probability is not a number.
            ValueError: if the blank is outside the vocabulary.
        """
        check_blank(blank, log_probabilities)
        if not len(log_probabilities):
            return []
        values, lengths = log_probabilities.values.float(), log_probabilities.lengths
        reader = None if companion is None else _Reader(companion)
        prefixes = self._empty(log_probabilities)
        following = None if reader is None else reader.first(self.beam)
        for position in range(values.shape[1]):
            prefixes, parents, grown = self._advance(
                prefixes, values[:, position], position < lengths, blank, following
            )
            if reader is not None and following is not None:
                following = reader.read(following, prefixes, parents, grown)
        totals = prefixes.total + prefixes.bonus
        if companion is not None and following is not None:
            totals = totals + following[..., companion.end]
        return self._hypotheses(totals, prefixes, ids)

    def _empty(self, log_probabilities: Padded) -> _Prefixes:
        """Return the empty prefix of each sentence, and K - 1 that do not exist."""
        shape, device = (len(log_probabilities), self.beam), log_probabilities.device
        nothing = torch.full(shape, NOTHING, device=device)
        blank = nothing.clone()
        blank[:, 0] = 0.0
        none = torch.zeros(shape, dtype=torch.int64, device=device)
        return _Prefixes(blank, nothing, none[..., None][..., :0], none, torch.zeros(shape, device=device))

    def _advance(
        self, old: _Prefixes, scores: Tensor, running: Tensor, blank: int, following: Tensor | None
    ) -> tuple[_Prefixes, Tensor, Tensor]:
        """Take the next position.

        Args:
            old: K prefixes a sentence.
            scores: (B, V) the position's log-probabilities.
            running: (B,) bool, False where a sentence is over: its prefixes stay what they are.
            blank: the blank symbol.
            following: (B, K, V) what the language model expects after each prefix.

        Returns:
            The new prefixes, the numbers (B, K) of the old ones that they come from, and (B, K) whether they grew.
        """
        vocabulary = scores.shape[1]
        total, last, children = old.total, old.last, old.children()
        of_last = scores.gather(1, last.clamp(min=0)).masked_fill(last < 0, NOTHING)  # (B, K)
        stay_blank = total + scores[:, blank, None]
        # Of every prefix that is kept: what comes to it from a kept prefix that is shorter by its last token.
        source = torch.where(last[:, :, None] == last[:, None], old.blank[:, :, None], total[:, :, None])
        inherited = (source + of_last[:, None]).masked_fill(children.logical_not(), NOTHING).logsumexp(1)
        stay_token = torch.logaddexp(old.token + of_last, inherited)

        count = min(self.candidates + 1, vocabulary) if self.candidates else vocabulary  # one may be the blank
        best, symbols = scores.topk(count, dim=1)  # (B, C)
        best = best.masked_fill(symbols == blank, NOTHING)
        held = (children[..., None] & (last[:, None, :, None] == symbols[:, None, None])).any(2)  # (B, K, C)
        source = torch.where(symbols[:, None] == last[..., None], old.blank[..., None], total[..., None])
        grown = (source + best[:, None]).masked_fill(held, NOTHING)
        extra = torch.full_like(grown, self.length_bonus)
        if following is not None:
            extra = extra + following.gather(2, symbols[:, None].expand(-1, self.beam, -1))
        extra = extra + old.bonus[..., None]

        stay_blank = torch.where(running[:, None], stay_blank, old.blank)
        stay_token = torch.where(running[:, None], stay_token, old.token)
        grown = grown.masked_fill(running.logical_not()[:, None, None], NOTHING)
        ranking = torch.cat([torch.logaddexp(stay_blank, stay_token) + old.bonus, (grown + extra).flatten(1)], dim=1)
        chosen = ranking.topk(self.beam, dim=1).indices  # (B, K): first the K that stay, then K x C that grow
        grew = chosen >= self.beam
        number = (chosen - self.beam).clamp(min=0)
        parents = torch.where(grew, number // count, chosen)
        added = symbols.gather(1, number % count)
        new_token = grown.flatten(1).gather(1, number)
        tokens = old.tokens.gather(1, parents[..., None].expand(-1, -1, old.tokens.shape[-1]))
        lengths = old.lengths.gather(1, parents)
        tokens = F.pad(tokens, (0, 1), value=-1).scatter(2, lengths[..., None], torch.where(grew, added, -1)[..., None])
        new = _Prefixes(
            blank=stay_blank.gather(1, parents).masked_fill(grew, NOTHING),
            token=torch.where(grew, new_token, stay_token.gather(1, parents)),
            tokens=tokens,
            lengths=lengths + grew,
            bonus=torch.where(grew, extra.flatten(1).gather(1, number), old.bonus.gather(1, parents)),
        )
        return new, parents, grew

    def _hypotheses(self, totals: Tensor, prefixes: _Prefixes, ids: Sequence[str]) -> list[list[Hypothesis]]:
        order = totals.argsort(dim=1, descending=True, stable=True)
        results = []
        rows = (totals.tolist(), prefixes.tokens.tolist(), prefixes.lengths.tolist(), order.tolist())
        for number, (scores, tokens, lengths, ranks) in enumerate(zip(*rows, strict=True)):
            if any(math.isnan(score) for score in scores):
                raise DataError(f"the model's log-probabilities are not numbers for: {named_rows([number], ids)}")
            hypotheses = [Hypothesis(tokens[k][: lengths[k]], scores[k]) for k in ranks if scores[k] > NOTHING]
            results.append(hypotheses[: self.n_best])
        return results


class _Reader:
    """Asks a language model what follows prefixes; it reads each from its beginning, once."""

    def __init__(self, companion: Companion) -> None:
        self._companion = companion
        self._encoding: Encoding = companion.model.encode(companion.batch)

    def first(self, beam: int) -> Tensor:
        """Return weighted log-probabilities (B, K, V) of the first token."""
        prefix = self._companion.prefix
        scores = self._companion.model.log_probabilities(prefix, self._encoding)
        rows = torch.arange(len(prefix), device=prefix.device)
        return (self._companion.weight * scores[rows, prefix.lengths - 1])[:, None].expand(-1, beam, -1)

    def read(self, following: Tensor, prefixes: _Prefixes, parents: Tensor, grown: Tensor) -> Tensor:
        """Return the weighted log-probabilities (B, K, V) of what follows the new prefixes."""
        following = following.gather(1, parents[..., None].expand_as(following)).clone()
        sentences, places = grown.nonzero(as_tuple=True)
        if not len(sentences):
            return following
        tokens = prefixes.tokens[sentences, places]
        written = Padded(tokens.clamp(min=0), prefixes.lengths[sentences, places])
        joined, _ = Padded.concatenate([self._companion.prefix.select(sentences), written])
        longest = int(joined.lengths.max())
        joined = Padded(joined.values[:, :longest], joined.lengths)
        scores = self._companion.model.log_probabilities(joined, self._encoding.select(sentences))
        rows = torch.arange(len(sentences), device=tokens.device)
        following[sentences, places] = self._companion.weight * scores[rows, joined.lengths - 1]
        return following
