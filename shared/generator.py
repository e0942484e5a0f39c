"""The interface between search and models: encode, start, step; and what it gives back: hypotheses.

Legend: B sentences, K beams, P prefix, D model width, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, cast, runtime_checkable

import torch
from torch import Tensor

from dragoman.shared.batch import Batch
from dragoman.shared.padded import Padded


@dataclass(frozen=True)
class Encoding:
    """The output of an encoder, which a decoder reads.

    Attributes:
        memories: what the decoder attends to, by name: "source" (B, S, D), and for some systems "bert", "memory", ...
        extras: what else there is for each of the B sentences: states for a second objective, with lengths of their own
            ("tap.3"), logits of a head, predicted lengths, ...
    """

    memories: dict[str, Padded]
    extras: dict[str, Tensor | Padded] = field(default_factory=dict)

    def __len__(self) -> int:
        """Return the number of sentences, B."""
        return len(next(iter(self.memories.values()))) if self.memories else len(next(iter(self.extras.values())))

    @staticmethod
    def joined(parts: Sequence[Encoding]) -> Encoding:
        """Return the encoding of the sentences of all parts, whose tensors are equally long."""

        def join(tensors: Sequence[Tensor | Padded]) -> Any:
            if isinstance(tensors[0], Tensor):
                return torch.cat(cast(Any, tensors))
            rows = cast(Sequence[Padded], tensors)
            return Padded(torch.cat([row.values for row in rows]), torch.cat([row.lengths for row in rows]))

        first = parts[0]
        return Encoding(
            {name: join([part.memories[name] for part in parts]) for name in first.memories},
            {name: join([part.extras[name] for part in parts]) for name in first.extras},
        )

    def select(self, rows: Tensor) -> Encoding:
        """Take rows (R,) int64 of everything in it, with repetition if asked."""
        return Encoding(
            {name: memory.select(rows) for name, memory in self.memories.items()},
            {
                name: extra.select(rows) if isinstance(extra, Padded) else extra.index_select(0, rows)
                for name, extra in self.extras.items()
            },
        )


class State(Protocol):
    """A decoder's state for B x K rows (the K beams of a sentence stand side by side); opaque to search."""

    def fork(self, beams: int) -> State:
        """Let each sentence, of which there is one row so far, have ``beams`` equal ones."""
        ...

    def reorder(self, index: Tensor) -> State:
        """Take rows: the new row i continues the old row ``index[i]``.

        ``index`` (B' x K,) int64 keeps sentences together: each of a sentence's K rows continues a row of the same
        sentence; sentences may be left out (B' <= B), never mixed.
        """
        ...


def check_fork(present: int, beams: int) -> None:
    """Refuse, by ValueError, to fork a state whose sentences have several beams already, or to fewer than one."""
    if present > 1 or beams < 1:
        raise ValueError(f"{present} beams of a sentence cannot become {beams}")


def kept_sentences(index: Tensor, beams: int, sentences: int) -> Tensor | None:
    """Return which of the sentences (B,) the rows ``index`` (B' x K,) of :meth:`State.reorder` keep; None: all.

    Raises:
        ValueError: if the number of rows is not a multiple of K, or exceeds B x K.
    """
    kept, rest = divmod(len(index), beams)
    if rest or kept > sentences:
        raise ValueError(f"{len(index)} rows cannot be {beams} beams of at most {sentences} sentences")
    return index[::beams] // beams if kept < sentences else None


def longest_outputs(generator: object, encoding: Encoding) -> Tensor | int | None:
    """Return the most tokens that a generator's positions allow, start symbols included; None: there is no limit.

    They are those of each sentence, (B,) on the CPU, where what is read of it takes positions, too.
    """
    of_each = getattr(generator, "longest_outputs", None)
    return getattr(generator, "longest_output", None) if of_each is None else of_each(encoding)


@runtime_checkable
class Generator(Protocol):
    """An autoregressive system, as greedy and beam search see it.

    A generator may also have ``longest_output``, the most tokens that its positions allow, or, where what it reads
    takes some of them, ``longest_outputs(encoding)``, those of each sentence; ``ragged``, whether the rows of a prefix
    may be of different lengths; ``state_bytes(length)``, the bytes of its state for an output of ``length``
    tokens; and ``read_bytes(batch, outputs)``, the bytes of a batch's inputs that it keeps while it writes ``outputs``
    outputs for each sentence.
    """

    def encode(self, batch: Batch) -> Encoding:
        """Encode the inputs of a batch."""
        ...

    def start(self, encoding: Encoding, prefix: Padded | None) -> State:
        """Return the state before the next token, a row a sentence, after a prefix (B, P) is consumed; None: nothing.

        The rows of the prefix are equally long, if the generator is not ``ragged``.
        """
        ...

    def step(self, tokens: Tensor, state: Any) -> tuple[Tensor, State]:
        """Consume one token per row, (B x K,) int64; return the logits (B x K, V) of the next one, and the state.

        The logits are the caller's own, to write into. A state is one that this generator has returned.
        """
        ...


@runtime_checkable
class Scorer(Protocol):
    """A generator that can also score whole outputs at once."""

    def encode(self, batch: Batch) -> Encoding:
        """Encode the inputs of a batch."""
        ...

    def log_probabilities(self, prefix: Padded, encoding: Encoding) -> Tensor:
        """Return scores (B, T, V) in float32 of the token after each token of prefix (B, T), as search sees them."""
        ...


@runtime_checkable
class Scoring(Protocol):
    """A generator whose steps return what is to be added up as it is: combinations of several models."""

    def scores(self, logits: Tensor) -> Tensor:
        """Return scores (R, V) in single precision from what ``step`` returned."""
        ...


@runtime_checkable
class Filler(Protocol):
    """A system that writes tokens at any places of an output at once, as searches that fill masks see it.

    Attributes:
        mask: the symbol in the place of a token that is asked for.
    """

    mask: int

    def encode(self, batch: Batch) -> Encoding:
        """Encode the inputs of a batch."""
        ...

    def length_scores(self, encoding: Encoding) -> Tensor:
        """Return log-probabilities (B, N + 1) in float32 of outputs of 0, 1 ... N tokens, without symbols around."""
        ...

    def fill(self, tokens: Padded, encoding: Encoding) -> Tensor:
        """Return logits (R, L, V) of the token at each place of tokens (R, L); each place sees its whole row."""
        ...


def next_scores(generator: Generator, tokens: Tensor, state: State) -> tuple[Tensor, State]:
    """Take a step, and return the scores (R, V) of the next token: log-probabilities, in single precision.

    The tensor is the caller's own, to write into.
    """
    logits, state = generator.step(tokens, state)
    scores = getattr(generator, "scores", None)  # of a Scoring: isinstance does not see what a wrapper hands on
    return normalised(logits) if scores is None else scores(logits), state


def normalised(logits: Tensor) -> Tensor:
    """Return log-probabilities (R, V) in single precision; on a CPU, logits that have that already are overwritten."""
    scores = logits.float()
    return torch.log_softmax(scores, dim=-1, out=scores if scores.device.type == "cpu" else None)


@dataclass(frozen=True)
class Hypothesis:
    """One output of search.

    Attributes:
        tokens: the generated ids, without the forced start, with the end symbol if it was reached.
        score: what search ranked by (a log-probability, normalised as the search says).
        texts: detokenised outputs by name: {"translation": ...}, {"transcript": ...}, or both.
        cut: whether it was ended at the maximum length, although another token was more probable.
    """

    tokens: list[int] = field(repr=False)
    score: float
    texts: dict[str, str] = field(default_factory=dict)
    cut: bool = False
