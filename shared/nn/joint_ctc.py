"""Joint search with a decoder and a CTC head: both judge every token (Watanabe et al. 2017, section II-C).

    score(c | y) = (1 - w) log p_decoder(c | y) + w (log p_ctc(y c ...) - log p_ctc(y ...)),

where p_ctc(y ...) is the probability that the head's output begins with y; of an end, p_ctc(y) that it is y. With the
two sums of prefix search (shared/search/ctc_prefix.py) over alignments of y with the first t positions, b_t(y) of those
that end in the blank and n_t(y) of those that end in y's last token,

    p_ctc(y c ...) = sum_t before_t(y, c) p_t(c),   before_t(y, c) = b_{t-1}(y) + n_{t-1}(y), without n if c is y's last

is one product of matrices for all tokens, and n_t(y c) = p_t(c) (n_{t-1}(y c) + before_t(y, c)) is a linear recurrence.
Where a decoder writes several texts one after the other, the head judges the first, and its score of what follows is 0.

Legend: B sentences, K beams, R = B x K rows, S positions, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dragoman.shared.batch import Batch
from dragoman.shared.described import Described
from dragoman.shared.errors import UsageError
from dragoman.shared.generator import Encoding, State, next_scores
from dragoman.shared.machine.memory import refuse_over
from dragoman.shared.nn.heads import head_log_probabilities
from dragoman.shared.padded import Padded
from dragoman.shared.ranges import Range

NOTHING = float("-inf")
#: The logarithm of what is impossible: an output longer than its sound is ranked, and the decoder still judges it.
LOWEST = -1e4
#: Of log-probabilities: below, single precision has no probability, and sums of them would not be those of logarithms.
FLOOR = -80.0
#: In the place of a last token.
EMPTY, ENDED = -1, -2
#: The extra of an encoding that holds the head's log-probabilities.
SCORES = "ctc.scores"


@dataclass(frozen=True)
class CtcPrefixes:
    """The prefixes y that R rows have written, as a CTC head sees them.

    Attributes:
        scores: (B, S, V) log-probabilities; at positions that are padding the blank is certain.
        probabilities: (B, S, V) their exponentials.
        beams: K.
        blank: (R, S) log b_t(y) of t = 1 to S, in double precision.
        token: (R, S) log n_t(y), likewise.
        last: (R,) the last token of y; EMPTY where there is none, ENDED where y is over.
        total: (R,) log p_ctc(y ...).
    """

    scores: Tensor
    probabilities: Tensor
    beams: int
    blank: Tensor
    token: Tensor
    last: Tensor
    total: Tensor

    @staticmethod
    def empty(scores: Padded, blank: int) -> CtcPrefixes:
        """Return one empty prefix for each row of log-probabilities (B, S, V)."""
        padding = scores.mask.logical_not()
        values = scores.values.float().clamp(min=FLOOR)
        values = values.masked_fill(padding[..., None], 2 * LOWEST)  # all of them together are below LOWEST
        values[..., blank].masked_fill_(padding, 0.0)
        waiting = values[..., blank].double().cumsum(1)
        return CtcPrefixes(
            scores=values,
            probabilities=values.exp(),
            beams=1,
            blank=waiting,
            token=torch.full_like(waiting, NOTHING),
            last=torch.full((len(waiting),), EMPTY, device=waiting.device),
            total=waiting.new_zeros(len(waiting)),
        )

    def fork(self, beams: int) -> CtcPrefixes:
        """Let each sentence have K equal rows."""
        rows = torch.arange(len(self.last), device=self.last.device).repeat_interleave(beams)
        return replace(self._taken(rows), beams=beams)

    def reorder(self, index: Tensor) -> CtcPrefixes:
        """Take rows; see :class:`dragoman.shared.generator.State`."""
        taken = self._taken(index)
        if len(index) == len(self.last):
            return taken
        kept = index[:: self.beams] // self.beams
        return replace(
            taken, scores=self.scores.index_select(0, kept), probabilities=self.probabilities.index_select(0, kept)
        )

    def following(self, end: int, blank: int) -> Tensor:
        """Return log p_ctc(y c ...) - log p_ctc(y ...) of every token c, (R, V); 0 where y is over."""
        before = self._before()
        largest = before.amax(1, keepdim=True).clamp(min=LOWEST)
        weights = (before - largest).exp().float().unflatten(0, (-1, self.beams))
        with torch.autocast(weights.device.type, enabled=False):  # steps would not add up
            totals = (weights @ self.probabilities).log().flatten(0, 1).double() + largest
        written = self.last.clamp(min=0)
        again = (_one_later(self.blank) + self._of(written)).logsumexp(1)
        again = torch.where(self.last < 0, totals.gather(1, written[:, None])[:, 0], again)
        totals = totals.scatter(1, written[:, None], again[:, None])
        totals[:, end] = torch.logaddexp(self.blank[:, -1], self.token[:, -1])
        following = (totals.clamp(min=LOWEST) - self.total[:, None]).float()
        following.masked_fill_((self.last == ENDED)[:, None], 0.0)
        following[:, blank] = NOTHING
        return following

    def extended(self, tokens: Tensor, blank: int) -> CtcPrefixes:
        """Return the prefixes with one more token each, (R,) int64."""
        source = torch.where((tokens == self.last)[:, None], _one_later(self.blank), self._before())
        scores = self._of(tokens)
        token = _accumulated(scores, source)
        return replace(
            self,
            blank=_accumulated(self._of(torch.full_like(tokens, blank)), _one_later(token)),
            token=token,
            last=tokens,
            total=(source + scores).logsumexp(1).clamp(min=LOWEST),
        )

    def ended(self, chosen: Tensor) -> CtcPrefixes:
        """Return the same, but that prefixes are over in the rows ``chosen`` (R,) bool."""
        return replace(self, last=self.last.masked_fill(chosen, ENDED))

    def where(self, chosen: Tensor, other: CtcPrefixes) -> CtcPrefixes:
        """Return these prefixes in the rows ``chosen`` (R,) bool, and the others elsewhere."""
        return replace(
            self,
            blank=torch.where(chosen[:, None], self.blank, other.blank),
            token=torch.where(chosen[:, None], self.token, other.token),
            last=torch.where(chosen, self.last, other.last),
            total=torch.where(chosen, self.total, other.total),
        )

    def _taken(self, rows: Tensor) -> CtcPrefixes:
        names = ("blank", "token", "last", "total")
        return replace(self, **{name: getattr(self, name).index_select(0, rows) for name in names})

    def _of(self, tokens: Tensor) -> Tensor:
        """Return log p_t (R, S) of a token a row, in double precision."""
        index = tokens.view(-1, 1, self.beams).expand(-1, self.scores.shape[1], -1)
        return self.scores.gather(2, index).transpose(1, 2).flatten(0, 1).double()

    def _before(self) -> Tensor:
        """Return log before_t(y, c) (R, S) for tokens that are not y's last."""
        before = _one_later(torch.logaddexp(self.blank, self.token))
        # An empty prefix is there before all positions.
        before[:, 0] = torch.where(self.last == EMPTY, 0.0, before[:, 0])
        return before


def _one_later(values: Tensor) -> Tensor:
    """Return values (R, S) of the position before each."""
    return F.pad(values, (1, 0), value=NOTHING)[:, :-1]


def _accumulated(factors: Tensor, source: Tensor) -> Tensor:
    """Return r_t = own_t + log(exp r_{t-1} + exp source_t), all (R, S), without a loop."""
    product = factors.cumsum(1)
    return product + (source - (product - factors)).logcumsumexp(1)


@dataclass(frozen=True)
class JointCtcState:
    """The states of the decoder and of the prefixes."""

    decoder: State
    prefixes: CtcPrefixes

    def fork(self, beams: int) -> JointCtcState:
        """Fork both."""
        return JointCtcState(self.decoder.fork(beams), self.prefixes.fork(beams))

    def reorder(self, index: Tensor) -> JointCtcState:
        """Reorder both."""
        return JointCtcState(self.decoder.reorder(index), self.prefixes.reorder(index))


class JointCtc(Described, nn.Module):
    """A generator whose tokens a decoder and the CTC head of the same model judge together.

    Args:
        model: a Translator with the head, whose text the decoder's outputs begin with.
        weight: w, the head's share.
        end: the symbol that ends that text.
        passed: symbols that outputs may begin with and the head never writes: the start symbol, tags of languages.
        head: the head's name.

    Raises:
        ValueError: if there is no such head.
    """

    def __init__(
        self,
        *,
        model: nn.Module,
        weight: Annotated[float, Range(above=0, below=1)],
        end: int,
        passed: list[int],
        head: str = "ctc",
    ) -> None:
        super().__init__()
        if head not in getattr(model, "heads", {}):
            raise ValueError(f"the model has no head {head!r}")
        self.model = model
        self.weight = weight
        self.end = end
        self.passed = list(passed)
        self.head = head

    @property
    def _generator(self) -> Any:
        return self.model

    @property
    def _blank(self) -> int:
        return int(self._generator.heads[self.head].blank)

    @property
    def longest_output(self) -> int | None:
        """The most tokens that the decoder can consume; None if there is no limit."""
        return getattr(self.model, "longest_output", None)

    def state_bytes(self, length: int) -> int:
        """Return how many bytes the decoder's state of an output of `length` tokens takes."""
        return int(self._generator.state_bytes(length))

    def read_bytes(self, batch: Batch, outputs: int) -> int:
        """Return how many bytes what the decoder reads of a batch takes, of one that can tell."""
        read_bytes = getattr(self._generator, "read_bytes", None)
        return 0 if read_bytes is None else int(read_bytes(batch, outputs))

    def symbol_fields(self) -> dict[str, str]:
        """See shared/nn/symbols.py."""
        return {f"model.{part}": field for part, field in self._generator.symbol_fields().items()}

    def symbol_arguments(self) -> dict[str, nn.Module]:
        """See shared/nn/symbols.py."""
        return dict.fromkeys(("end", "passed"), self._generator.heads[self.head])

    def encode(self, batch: Batch) -> Encoding:
        """Encode, and let the head score every position.

        Raises:
            UsageError: if there are no states for the head, as of text where it hears speech; if there is not enough
                memory for its scores.
        """
        encoding = self._generator.encode(batch)
        tap = f"tap.{self._generator.heads[self.head].tap}"
        if not {tap, f"logits.{self.head}"} & {*encoding.extras}:
            raise UsageError(f"the head {self.head!r} reads states that the model has not made of this input")
        scores = head_log_probabilities(self.model, encoding, self.head)
        shape = "x".join(map(str, scores.values.shape))
        refuse_over(2 * scores.values.nbytes, f"joint search over {shape} scores of a CTC head", scores.device)
        return Encoding(encoding.memories, encoding.extras | {SCORES: scores})

    def start(self, encoding: Encoding, prefix: Padded | None) -> JointCtcState:
        """Start the decoder, and an empty prefix: what is consumed here are start symbols."""
        return JointCtcState(self._generator.start(encoding, prefix), self._empty(encoding))

    def step(self, tokens: Tensor, state: JointCtcState) -> tuple[Tensor, JointCtcState]:
        """Consume one token per row (R,), and return the joint scores (R, V)."""
        decoded, decoder = next_scores(self._generator, tokens, state.decoder)
        prefixes = self._consumed(tokens, state.prefixes)
        return self._joint(decoded, prefixes), JointCtcState(decoder, prefixes)

    def log_probabilities(self, prefix: Padded, encoding: Encoding) -> Tensor:
        """Return the joint scores (B, T, V) of the token after each token of prefix (B, T)."""
        decoded = self._generator.log_probabilities(prefix, encoding)
        prefixes, rows = self._empty(encoding), []
        for place, tokens in enumerate(prefix.values.unbind(1)):
            prefixes = self._consumed(tokens, prefixes)
            rows.append(self._joint(decoded[:, place], prefixes))
        return torch.stack(rows, dim=1)

    def scores(self, logits: Tensor) -> Tensor:
        """Return what ``step`` returned: scores already."""
        return logits

    def _empty(self, encoding: Encoding) -> CtcPrefixes:
        scores = encoding.extras[SCORES]
        assert isinstance(scores, Padded)
        return CtcPrefixes.empty(scores, self._blank)

    def _consumed(self, tokens: Tensor, prefixes: CtcPrefixes) -> CtcPrefixes:
        """Return prefixes with a token more each (R,), but for what the head does not write."""
        passed = torch.isin(tokens, torch.tensor(self.passed, device=tokens.device)) & (prefixes.last == EMPTY)
        over = (tokens == self.end) & ~passed | (prefixes.last == ENDED)
        return prefixes.where(passed | over, prefixes.extended(tokens, self._blank)).ended(over)

    def _joint(self, decoded: Tensor, prefixes: CtcPrefixes) -> Tensor:
        """Return the weighted sum (R, V) of the decoder's log-probabilities and the head's."""
        judged = prefixes.following(self.end, self._blank)
        for symbol in {*self.passed} - {self.end}:
            judged[:, symbol].masked_fill_(prefixes.last == EMPTY, 0.0)
        return (1 - self.weight) * decoded + self.weight * judged
