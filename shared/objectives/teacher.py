"""A trained system that tells an objective what it would write, or its states; nothing of it is trained, saved or sent.

Legend: B rows, S states, L tokens, N = B x L, D width, V vocabulary, K best symbols.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

from dragoman.shared.batch import Batch
from dragoman.shared.batches.fields import Field, TextField
from dragoman.shared.errors import DataError, UsageError
from dragoman.shared.generator import Encoding
from dragoman.shared.nn.decoding import TokenWriter
from dragoman.shared.nn.translator import MEMORY
from dragoman.shared.padded import Padded
from dragoman.shared.systems.reading_model import ReadingModel
from dragoman.shared.systems.system import System
from dragoman.shared.text.tokenizer import Tokenizer

#: Logits at a time.
CHUNK = 2**24


class Teacher:
    """A frozen translator, encoder or language model.

    It is no module: the objective that asks it has neither its parameters nor its buffers, so that checkpoints,
    averages, DDP and the optimiser do not know of it, and ``train()`` does not reach its dropout. It is loaded when it
    is first asked, onto the device of what it is asked about, and so may be trained by an earlier phase of the recipe.

    Args:
        folder: of the model.
        tokenizer: of the tokens that it is asked about, and of text that it reads; it must have been trained with it.
        field: the batch field that it reads; None for a language model, which reads the prefix alone.
        reads: what it calls that field itself; by default the same.

    Raises:
        UsageError: if ``reads`` names a field, and ``field`` does not.
    """

    def __init__(
        self, *, folder: str, tokenizer: Tokenizer, field: str | None = "source", reads: str | None = None
    ) -> None:
        if field is None and reads is not None:
            raise UsageError(f"{folder}: a language model reads no field, so it cannot call one {reads!r}")
        self.folder = Path(folder)
        self.tokenizer = tokenizer
        self.field = field
        self.reads = reads or field
        self._system: ReadingModel | None = None

    def read(self, batch: Batch) -> Padded:
        """Return the batch field that the teacher reads.

        Raises:
            UsageError: if it is a language model, which reads none.
        """
        if self.field is None:
            raise UsageError(
                f"{self.folder}: a language model has no states of what it reads: name the teacher's field"
            )
        return batch[self.field]

    @torch.no_grad()
    def states(self, batch: Batch) -> Padded:
        """Return the states (B, S, D) of the encoder for the field that the teacher reads.

        Raises:
            DataError: if there is no such model, or it was trained with another tokenizer or to read something else.
            UsageError: if it is a language model, which reads nothing.
        """
        if self.field is None or self.reads is None:
            raise UsageError(
                f"{self.folder}: a language model has no states of what it reads: name the teacher's field"
            )
        system = self._loaded(batch[self.field].device)
        self._check(reads=system.inputs[self.reads])
        memories = self._encoded(system, batch).memories
        return memories[self.reads if self.reads in memories else MEMORY]

    @torch.no_grad()
    def decoded(self, batch: Batch, prefix: Padded) -> Tensor:
        """Return the states (B, L, D) of the decoder after each token of right beginnings (B, L) with start symbols.

        Raises:
            DataError: if there is no such model, it writes nothing, or it was trained with another tokenizer or to read
                something else.
        """
        system = self._loaded(prefix.device)
        if not isinstance(system, System) or not isinstance(system.model, TokenWriter):
            raise DataError(f"{self.folder}: this teacher is an encoder, which writes nothing")
        self._check(writes=system.output, **({} if self.reads is None else {"reads": system.inputs[self.reads]}))
        return cast(Any, system.model).decode(prefix, self._encoded(system, batch))

    @torch.no_grad()
    def project(self, states: Tensor) -> Tensor:
        """Return the logits (N, V) in float32 of the token that follows each of the decoder's states (N, D)."""
        return cast(Any, self._loaded(states.device)).model.project(states).float()

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
            DataError: if there is no such model, it writes nothing, or it was trained with another tokenizer or to read
                something else.
        """
        states = self.decoded(batch, prefix).flatten(0, 1)
        symbols, weights = [], []
        for some in states.split(max(1, CHUNK // self.tokenizer.size)):
            logits = self.project(some)
            values, places = logits.topk(min(top, logits.shape[-1]), dim=-1)
            symbols.append(places)
            weights.append((values / temperature).softmax(-1))
        return torch.cat(symbols), torch.cat(weights)

    def _encoded(self, system: ReadingModel, batch: Batch) -> Encoding:
        if self.reads is None:
            return cast(Any, system.model).encode(batch)
        asked = Batch({self.reads: self.read(batch)}, ids=batch.ids)
        return cast(Any, system.model).encode(asked, self.reads)

    def _loaded(self, device: torch.device) -> ReadingModel:
        if self._system is None:
            with torch.random.fork_rng([]):  # what is drawn to build it must not change what is drawn after it
                system = ReadingModel.load(self.folder)
            if self.reads is None and system.inputs:
                raise DataError(f"{self.folder}: reads {' and '.join(system.inputs)}: it is no language model")
            if self.reads is not None and self.reads not in system.inputs:
                raise DataError(f"{self.folder}: reads {' and '.join(system.inputs) or 'nothing'}, not {self.reads!r}")
            self._system = system
        if self._system.device != device:
            self._system.to(device)
        return self._system

    def _check(self, **sides: Field) -> None:
        for does, field in sides.items():
            fingerprint = field.tokenizer.fingerprint if isinstance(field, TextField) else self.tokenizer.fingerprint
            if fingerprint != self.tokenizer.fingerprint:
                raise DataError(
                    f"{self.folder}: {does} the symbols of another tokenizer ({fingerprint}, here "
                    f"{self.tokenizer.fingerprint}): a teacher must be trained with the same"
                )
