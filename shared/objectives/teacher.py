"""A trained system that tells an objective what it would write: nothing of it is trained, saved or sent around.

Legend: B rows, L tokens, N = B x L, D width, V vocabulary, K best symbols.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from shared.batch import Batch
from shared.corpus.fields import TextField
from shared.errors import DataError
from shared.padded import Padded
from shared.systems.system import System
from shared.text.tokenizer import Tokenizer

#: Logits at a time.
CHUNK = 2**24


class Teacher:
    """A frozen translator with a decoder.

    It is no module: the objective that asks it has neither its parameters nor its buffers, so that checkpoints,
    averages, DDP and the optimiser do not know of it, and ``train()`` does not reach its dropout. It is loaded when it
    is first asked, onto the device of what it is asked about, and so may be trained by an earlier phase of the recipe.

    Args:
        folder: of the model.
        tokenizer: of the tokens that it is asked about, and of text that it reads; it must have been trained with it.
        field: the batch field that it reads.

    """

    def __init__(self, *, folder: str, tokenizer: Tokenizer, field: str = "source") -> None:
        self.folder = Path(folder)
        self.tokenizer = tokenizer
        self.field = field
        self._system: System | None = None

    @torch.no_grad()
    def best(self, batch: Batch, prefix: Padded, *, top: int, temperature: float = 1.0) -> tuple[Tensor, Tensor]:
        """Return the most probable symbols after each token of prefix (B, L), and their probabilities among themselves.

        Args:
            batch: which has the field that the teacher reads.
            prefix: right beginnings of the outputs, with their start symbol.
            top: K.
            temperature: by which logits are divided.

        Returns:
            Symbols (N, K) int64 and probabilities (N, K) float32, which add up to 1.

        Raises:
            DataError: if there is no such model, or it was trained with another tokenizer or to read something else.

        """
        model = self._loaded(prefix.device).model
        states = model.decode(prefix, model.encode(batch, self.field)).flatten(0, 1)  # type: ignore[operator]
        symbols, weights = [], []
        for some in states.split(max(1, CHUNK // self.tokenizer.size)):
            logits = model.project(some).float()  # type: ignore[operator]
            values, found = logits.topk(min(top, logits.shape[-1]), dim=-1)
            symbols.append(found)
            weights.append((values / temperature).softmax(-1))
        return torch.cat(symbols), torch.cat(weights)

    def _loaded(self, device: torch.device) -> System:
        if self._system is None:
            with torch.random.fork_rng([]):  # what is drawn to build it must not change what is drawn after it
                system = System.load(self.folder)
            self._check(system)
            self._system = system
        if self._system.device != device:
            self._system.to(device)
        return self._system

    def _check(self, system: System) -> None:
        if self.field not in system.inputs:
            raise DataError(f"{self.folder}: reads {' and '.join(system.inputs)}, not {self.field!r}")
        read = system.inputs[self.field]
        for does, field in (("writes", system.output), ("reads", read)):
            own = field.tokenizer.fingerprint if isinstance(field, TextField) else self.tokenizer.fingerprint
            if own != self.tokenizer.fingerprint:
                raise DataError(
                    f"{self.folder}: {does} the symbols of another tokenizer ({own}, here "
                    f"{self.tokenizer.fingerprint}): a teacher must be trained with the same"
                )
