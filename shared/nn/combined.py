"""Models made of models: an ensemble, and a translator with a language model beside it.

Legend: B sentences, K beams, R = B x K rows, T target, V vocabulary.

Both are generators over other generators, which must have the same vocabulary and read the same batches.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from typing import Any

import torch
from torch import Tensor, nn

from dragoman.shared.batch import Batch
from dragoman.shared.described import Described
from dragoman.shared.generator import Encoding, State, longest_outputs, next_scores
from dragoman.shared.nn.symbols import SymbolFields
from dragoman.shared.padded import Padded
from dragoman.shared.ranges import PositiveFloat


class JointState:
    """The states of several generators."""

    def __init__(self, states: Sequence[State]) -> None:
        self.states = list(states)

    def fork(self, beams: int) -> JointState:
        """Fork each."""
        return JointState([state.fork(beams) for state in self.states])

    def reorder(self, index: Tensor) -> JointState:
        """Reorder each."""
        return JointState([state.reorder(index) for state in self.states])


class Combination(nn.Module):
    """Runs several generators side by side; :meth:`combine` makes one score of theirs."""

    def __init__(self, models: Sequence[nn.Module]) -> None:
        super().__init__()
        self.models = nn.ModuleList(models)

    def combine(self, scores: Sequence[Tensor]) -> Tensor:
        """Return one tensor (..., V) of the models' scores, each (..., V)."""
        raise TypeError(f"{type(self).__name__} does not define combine(scores)")

    def encode(self, batch: Batch) -> Encoding:
        """Encode with each; the name of a memory begins with the number of its model ("0.source")."""
        memories: dict[str, Padded] = {}
        extras: dict[str, Tensor | Padded] = {}
        for number, model in enumerate(self._generators()):
            encoding = model.encode(batch)
            memories |= {f"{number}.{name}": memory for name, memory in encoding.memories.items()}
            extras |= {f"{number}.{name}": extra for name, extra in encoding.extras.items()}
        return Encoding(memories, extras)

    def start(self, encoding: Encoding, prefix: Padded | None) -> JointState:
        """Start each; see shared/generator.py."""
        parts = enumerate(self._generators())
        return JointState([model.start(_part(encoding, number), prefix) for number, model in parts])

    def step(self, tokens: Tensor, state: JointState) -> tuple[Tensor, JointState]:
        """Consume one token per row (R,) with each, and return the combined scores (R, V)."""
        scores, states = [], []
        for model, part in zip(self._generators(), state.states, strict=True):
            score, new = next_scores(model, tokens, part)
            scores.append(score)
            states.append(new)
        return self.combine(scores), JointState(states)

    def scores(self, logits: Tensor) -> Tensor:
        """Return what ``step`` returned: scores already."""
        return logits

    def log_probabilities(self, prefix: Padded, encoding: Encoding) -> Tensor:
        """Return the combined scores (B, T, V) of the token after each token of prefix (B, T)."""
        parts = enumerate(self._generators())
        return self.combine([model.log_probabilities(prefix, _part(encoding, number)) for number, model in parts])

    @property
    def longest_output(self) -> int | None:
        """The most tokens that all models can consume; None if there is no limit."""
        limits = [getattr(model, "longest_output", None) for model in self.models]
        return min((limit for limit in limits if limit is not None), default=None)

    def longest_outputs(self, encoding: Encoding) -> Tensor | int | None:
        """Return the most tokens that all models can consume, where there is a limit; see shared/generator.py."""
        found = (longest_outputs(model, _part(encoding, number)) for number, model in enumerate(self.models))
        limits = [torch.as_tensor(limit) for limit in found if limit is not None]
        return reduce(torch.minimum, limits) if limits else None

    def state_bytes(self, length: int) -> int:
        """Return how many bytes the states of an output of `length` tokens take, of all models that can tell."""
        return sum(model.state_bytes(length) for model in self._generators() if hasattr(model, "state_bytes"))

    def read_bytes(self, batch: Batch, outputs: int) -> int:
        """Return how many bytes what is read of a batch takes, of all models that can tell."""
        return sum(model.read_bytes(batch, outputs) for model in self._generators() if hasattr(model, "read_bytes"))

    def symbol_fields(self) -> dict[str, str]:
        """Return those of all models that say so; see shared/nn/symbols.py."""
        return {
            f"models.{number}.{part}": field
            for number, model in enumerate(self.models)
            if isinstance(model, SymbolFields)
            for part, field in model.symbol_fields().items()
        }

    def _generators(self) -> list[Any]:
        return list(self.models)


def _part(encoding: Encoding, number: int) -> Encoding:
    """Return what one model has encoded."""
    start = f"{number}."
    return Encoding(
        {name.removeprefix(start): value for name, value in encoding.memories.items() if name.startswith(start)},
        {name.removeprefix(start): value for name, value in encoding.extras.items() if name.startswith(start)},
    )


class Ensemble(Described, Combination):
    """The mean of the models' probabilities at every step: ``log(1/M sum_m p_m(y | ...))`` (fairseq's rule).

    Args:
        models: M of them.
    """

    def __init__(self, *, models: list[nn.Module]) -> None:
        if not models:
            raise ValueError("an ensemble needs at least one model")
        super().__init__(models)

    def combine(self, scores: Sequence[Tensor]) -> Tensor:
        """Return the logarithm of the mean of the exponentials."""
        total = scores[0]
        for score in scores[1:]:
            total = torch.logaddexp(total, score)
        return total - math.log(len(scores))


class ShallowFusion(Described, Combination):
    """``log p(y | x, ...) + weight * log p_lm(y | ...)`` at every step (Gulcehre et al. 2015, section 4.1).

    The sum is not normalised again: scores add up to those of whole sentences under both models.

    Args:
        model: the translator or recogniser.
        language_model: over the same vocabulary.
        weight: of the language model.
    """

    def __init__(self, *, model: nn.Module, language_model: nn.Module, weight: PositiveFloat) -> None:
        super().__init__([model, language_model])
        self.weight = weight

    def combine(self, scores: Sequence[Tensor]) -> Tensor:
        """Return the weighted sum."""
        translation, language = scores
        return translation + self.weight * language
