"""A generator whose next token is averaged over several versions of its input.

Legend: B sentences, N versions of each, K beams, V vocabulary.
"""

from __future__ import annotations

import torch
from torch import Tensor

from dragoman.shared.batch import Batch
from dragoman.shared.generator import Encoding, Generator, State, longest_outputs, next_scores
from dragoman.shared.padded import Padded


class MarginalState:
    """The state of a decoder for B x N x K rows, in this order, with the weights (B, N) of the versions."""

    def __init__(self, inner: State, log_weights: Tensor, beams: int = 1) -> None:
        self.inner = inner
        self.log_weights = log_weights
        self.beams = beams

    def fork(self, beams: int) -> MarginalState:
        """Let each sentence have ``beams`` equal rows."""
        return MarginalState(self.inner.fork(beams), self.log_weights, beams)

    def reorder(self, index: Tensor) -> MarginalState:
        """Take rows, of all versions alike; see :class:`dragoman.shared.generator.State`."""
        beams, number = self.beams, self.log_weights.shape[1]
        sentence = index.view(-1, beams) // beams  # (B', K)
        beam = index.view(-1, beams) % beams
        version = torch.arange(number, device=index.device)[None, :, None]
        inner = (sentence[:, None, :] * number + version) * beams + beam[:, None, :]  # (B', N, K)
        weights = self.log_weights.index_select(0, sentence[:, 0])
        return MarginalState(self.inner.reorder(inner.flatten()), weights, beams)


class MarginalGenerator:
    """A generator of ``p(y_t | y_<t, x) = sum_n q_n p(y_t | y_<t, x_n)`` over N versions of each input.

    Args:
        model: p.
        batch: of the B x N versions, those of a sentence side by side.
        log_weights: (B, N) log q; the weights of a sentence sum to 1, and one without a weight (-inf) is not heard.
    """

    def __init__(self, model: Generator, batch: Batch, log_weights: Tensor) -> None:
        self.model = model
        self.batch = batch
        self.log_weights = log_weights
        self._encoding = Encoding({}, {})

    def encode(self, batch: Batch) -> Encoding:
        """Encode the versions; the memory of a sentence is as long as the longest of theirs."""
        self._encoding = self.model.encode(self.batch)
        sentences, number = self.log_weights.shape
        lengths = [memory.lengths.view(sentences, number).amax(1) for memory in self._encoding.memories.values()]
        longest = torch.stack(lengths).amax(0)
        empty = self.log_weights.new_zeros(sentences, int(longest.max()), 0)
        rows = torch.arange(sentences, device=self.log_weights.device)
        return Encoding({"versions": Padded(empty, longest)}, {"rows": rows})

    def longest_outputs(self, encoding: Encoding) -> Tensor | int | None:
        """Return the most tokens that can follow all versions of a sentence; see shared/generator.py."""
        limits = longest_outputs(self.model, self._encoding)
        return limits.view(self.log_weights.shape).amin(1) if isinstance(limits, Tensor) and limits.dim() else limits

    def start(self, encoding: Encoding, prefix: Padded | None) -> MarginalState:
        """Return the state before the next token; see :class:`dragoman.shared.generator.Generator`."""
        number = self.log_weights.shape[1]
        sentences = encoding.extras["rows"]
        assert isinstance(sentences, Tensor)
        versions = torch.arange(number, device=sentences.device)
        inner = (sentences[:, None] * number + versions).flatten()
        places = torch.arange(len(sentences), device=sentences.device).repeat_interleave(number)
        beginning = None if prefix is None else prefix.select(places)
        state = self.model.start(self._encoding.select(inner), beginning)
        return MarginalState(state, self.log_weights.index_select(0, sentences))

    def step(self, tokens: Tensor, state: MarginalState) -> tuple[Tensor, MarginalState]:
        """Consume one token per row (B x K,); return log-probabilities (B x K, V) of the next one, and the state."""
        sentences, number = state.log_weights.shape
        repeated = tokens.view(sentences, 1, state.beams).expand(-1, number, -1)
        scores, inner = next_scores(self.model, repeated.flatten(), state.inner)
        scores = scores.view(sentences, number, state.beams, -1) + state.log_weights[:, :, None, None]
        mixed = torch.logsumexp(scores, dim=1).flatten(0, 1)
        return mixed, MarginalState(inner, state.log_weights, state.beams)

    def scores(self, logits: Tensor) -> Tensor:
        """Return what ``step`` returned: log-probabilities already."""
        return logits
