"""Models of unbabel-comet with their tokenizers: they score texts.

Legend: N texts, S segments, D model width.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from dragoman.exchange.regression import JointRegressor, Regressor, SegmentRegressor
from dragoman.shared.batches.fields import TextField
from dragoman.shared.nn.state import evaluating
from dragoman.shared.padded import Padded

#: Texts or sequences that are encoded at a time.
BATCH = 16
R = TypeVar("R", bound=Regressor)


class CometModel(Generic[R]):
    """The part that all have: encoding of texts, those of like length together.

    Args:
        regressor: the model, filled.
        field: makes tokens of texts, with the symbols around them.
        longest: how many tokens a sequence may have, symbols included; longer ones are cut, as unbabel-comet does it.
        name: what the model is called.
        fingerprint: of its weights.

    Attributes:
        cut: how many different sequences have been cut so far.
    """

    def __init__(self, *, regressor: R, field: TextField, longest: int, name: str, fingerprint: str) -> None:
        self.regressor = regressor
        self.field = field
        self.longest = longest
        self.name = name
        self.fingerprint = fingerprint
        self.cut = 0

    @property
    def device(self) -> torch.device:
        """The device on which it computes."""
        return next(self.regressor.parameters()).device

    def tokens(self, text: str) -> list[int]:
        """Return the tokens of a text with the symbols around them, cut if they are too many."""
        before, pieces, behind = self.field.parts({"id": "", "source_language": None}, text)
        room = self.longest - len(before) - len(behind)
        self.cut += len(pieces) > room
        return [*before, *pieces[:room], *behind]

    def each(self, sequences: Sequence[Sequence[int]], compute: Callable[[Padded], Tensor]) -> Tensor:
        """Return the rows that a function computes of sequences, (N, ...) on the CPU: those of like length together."""
        order = sorted(range(len(sequences)), key=lambda number: len(sequences[number]))
        rows: list[Tensor] = [torch.empty(0)] * len(sequences)
        with evaluating(self.regressor), torch.inference_mode():
            for start in range(0, len(order), BATCH):
                numbers = order[start : start + BATCH]
                tensors = [torch.tensor(sequences[number], dtype=torch.int64) for number in numbers]
                batch = Padded.from_sequences(tensors, padding=self.field.padding)
                for number, row in zip(numbers, compute(batch.to(self.device)).cpu(), strict=True):
                    rows[number] = row
        return torch.stack(rows)


class SegmentComet(CometModel[SegmentRegressor]):
    """Encodes each text by itself (COMET: Rei et al. 2020)."""

    @property
    def with_reference(self) -> bool:
        """True if it reads references."""
        return self.regressor.with_reference

    @property
    def estimates(self) -> bool:
        """True if it scores without a reference."""
        return not self.with_reference

    def beside(self, sources: Sequence[str], references: Sequence[str] | None) -> Callable[[Sequence[str]], Tensor]:
        """Return what scores (S,) S hypotheses beside these sources and references, which are encoded once."""
        of_sources = self.vectors(sources)
        of_references = None if references is None else self.vectors(references)
        return lambda hypotheses: self.score(self.vectors(hypotheses), of_sources, of_references)

    def vectors(self, texts: Sequence[str]) -> Tensor:
        """Return a vector (N, D) for each text, on the CPU; equal texts are encoded once."""
        distinct = {text: number for number, text in enumerate(dict.fromkeys(texts))}
        rows = self.each([self.tokens(text) for text in distinct], self.regressor.vectors)
        return rows[[distinct[text] for text in texts]]

    def score(self, hypotheses: Tensor, sources: Tensor, references: Tensor | None) -> Tensor:
        """Return the scores (S,) of segments whose texts have these vectors (S, D)."""
        moved = [None if part is None else part.to(self.device) for part in (hypotheses, sources, references)]
        with evaluating(self.regressor), torch.inference_mode():
            return self.regressor(*moved).cpu()


class JointComet(CometModel[JointRegressor]):
    """Encodes a hypothesis with its source and reference as one sequence (CometKiwi: Rei et al. 2022).

    A model that was trained with both scores the hypothesis with its source, with its reference and with both, and
    means the three; without a reference it scores the first alone.

    Args:
        reads: beside the hypothesis: "src", "ref" or both, in this order.
        options: those of :class:`CometModel`.
    """

    #: Tokens that a joined sequence may have more than a text, as unbabel-comet cuts them.
    MORE = 2

    def __init__(self, *, reads: Sequence[str], **options: Any) -> None:
        super().__init__(**options)
        self.reads = list(reads)

    @property
    def with_reference(self) -> bool:
        """True if it reads references."""
        return "ref" in self.reads

    @property
    def estimates(self) -> bool:
        """True if it scores without a reference."""
        return "src" in self.reads

    def beside(self, sources: Sequence[str], references: Sequence[str] | None) -> Callable[[Sequence[str]], Tensor]:
        """Return what scores (S,) S hypotheses beside these sources and references."""
        texts = {"src": sources, "ref": references}
        sides = [[self.tokens(text) for text in texts[name] or ()] for name in self.reads if texts[name] is not None]
        passes = [[side] for side in sides] + ([sides] if len(sides) > 1 else [])

        def score(hypotheses: Sequence[str]) -> Tensor:
            begun = [self.tokens(text) for text in hypotheses]
            joined = [[self._joined(parts) for parts in zip(begun, *beside, strict=True)] for beside in passes]
            return torch.stack([self.each(sequences, self.regressor) for sequences in joined]).mean(0)

        return score

    def _joined(self, parts: Sequence[list[int]]) -> list[int]:
        """Return texts with their symbols as one sequence: ``<s> a </s> </s> b </s>``, as XLM-R joins pairs."""
        end = self.field.tokenizer.eos
        sequence = list(parts[0])
        for part in parts[1:]:
            sequence += [end, *part[1:]]
        self.cut += len(sequence) > self.longest + self.MORE
        return sequence[: self.longest + self.MORE]
