"""Speech that is translated while it is heard: what has been written is never taken back.

After each chunk of sound, all that has been heard is translated again; the output begins with what has been written
(Liu et al. 2020, "Low-Latency Sequence-to-Sequence Speech Recognition and Translation by Partial Hypothesis Selection",
arXiv 2005.11185). A policy (policies.py) says how much of the rest is certain, and of that, whole words are written.
Systems need no training for it.

Legend: N samples, L tokens, S encoder states.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, Protocol, cast

import torch
from torch import Tensor

from dragoman.shared.batch import Batch
from dragoman.shared.errors import UsageError
from dragoman.shared.generator import Encoding, Generator
from dragoman.shared.nn.decoding import TokenDecoder
from dragoman.shared.nn.speech import SpeechEmbedding
from dragoman.shared.nn.state import evaluating
from dragoman.shared.nn.translator import MEMORY, FieldEncoder
from dragoman.shared.padded import Padded
from dragoman.shared.search.search import AnySearch, Search, ruled
from dragoman.shared.sound.audio import SAMPLE_RATE, samples
from dragoman.shared.systems.inputs import chosen_languages
from dragoman.shared.systems.system import System
from dragoman.shared.text import languages
from dragoman.shared.text.units import is_inside

#: Seconds that are heard before anything is translated: shorter sound may be less than one frame of a front end.
LEAST = 0.1


@dataclass(frozen=True)
class Emission:
    """New text, written after a chunk.

    Attributes:
        text: new words, with the space before them: all emissions of a listener, joined, are its output.
        heard: seconds of sound that had been heard.
        elapsed: seconds from the beginning of the sound until the words were there, computing included, if the sound
            came in as it was spoken.
        last: whether the sentence ends here: the next emission begins another one.
        start: when the sentence began, in seconds from the beginning of the sound.
        end: up to where it has been heard.
    """

    text: str
    heard: float
    elapsed: float
    last: bool = False
    start: float = 0.0
    end: float = 0.0


@dataclass(frozen=True)
class Guess:
    """The newest hypothesis of all that has been heard, on which a policy decides.

    Attributes:
        tokens: L of them, without start symbols and end symbol; what has been written comes first.
        written: how many tokens have been written.
        ends: the numbers of tokens after which a word is complete, because the next token begins another one; rising.
        earlier: the tokens of the hypotheses after earlier chunks, oldest first.
        chunks: how many chunks have been heard.
        attention: given the number of a decoder layer, 1 for the first, returns how much each token attended to each
            encoder state when it was generated: (L, S), the mean over heads. ``None`` stands for the layer at two
            thirds of the depth.
    """

    tokens: Sequence[int]
    written: int
    ends: Sequence[int]
    earlier: Sequence[Sequence[int]]
    chunks: int
    attention: Callable[[int | None], Tensor]


class Policy(Protocol):
    """Says how much of a hypothesis is certain while more is to be heard."""

    def certain(self, guess: Guess) -> int:
        """Return how many tokens are certain, from the first; whole words of them are written."""
        ...


class EncodesOnce:
    """A generator that encodes a batch once, for the search and for a policy that looks at attention."""

    def __init__(self, generator: Generator) -> None:
        self._generator = generator
        self._encoded: tuple[Batch, Encoding] | None = None

    def encode(self, batch: Batch) -> Encoding:
        """Return the encoding of a batch, which is kept until another one comes."""
        if self._encoded is None or self._encoded[0] is not batch:
            self._encoded = batch, self._generator.encode(batch)
        return self._encoded[1]

    def __getattr__(self, name: str) -> Any:
        """Return all else as it is."""
        return getattr(self._generator, name)


class Listener:
    """The translation of one sentence, or of a few, while it is heard.

    Args:
        system: reads speech, and writes one text with a decoder.
        policy: says what is certain.
        search: by which hypotheses are found; beam search with its defaults if not given.
        source_language: needed if the system was trained on several.
        target_language: likewise.

    Attributes:
        text: all that has been written.
        heard: seconds of sound that have been heard.
        clock: seconds from the beginning of the sound until the last output was there; see :class:`Emission`.
        chunks: how many have been heard.

    Raises:
        UsageError: if the system reads something else or writes several texts, a language is unknown or has to be
            named, or the search is none for decoders.
    """

    def __init__(
        self,
        system: System,
        policy: Policy,
        *,
        search: AnySearch | None = None,
        source_language: str | None = None,
        target_language: str | None = None,
    ) -> None:
        if system.reads != ["speech"]:
            raise UsageError(f"only a system that reads speech translates while it listens, not {system.reads}")
        if len(system.texts) != 1:
            raise UsageError(f"a system that writes {' and '.join(system.texts)} at once cannot write while it listens")
        search = search or system.default_search()
        if not isinstance(search, Search):
            raise UsageError(
                f"{type(search).__name__} does not search the outputs of a decoder, which a listener needs"
            )
        codes = system.source_languages, system.output_languages
        source, target = chosen_languages(source_language, target_language, codes=codes, side=system.output.side)
        self.system = system
        self.policy = policy
        self.search = search
        self.languages = {"source": [source], "target": [target]}
        self.spaced = languages.spaced(target)
        self.waveform = torch.zeros(0)
        self.heard = 0.0
        self.clock = 0.0
        self.chunks = 0
        self.written: list[int] = []
        self.hypotheses: list[list[int]] = []
        self._batch: Batch | None = None
        # Systems that search in a way of their own, or with joined models, encode for themselves.
        plain = type(system).translate_batch is System.translate_batch and system.generator is cast(Any, system.model)
        self._generator = EncodesOnce(cast(Generator, system.model)) if plain else None

    @property
    def text(self) -> str:
        """All that has been written."""
        return self._decoded(self.written)

    def hear(self, waveform: Tensor, *, last: bool = False, arrived: float | None = None) -> Emission:
        """Hear a chunk, and write what is certain; after the last chunk, the rest.

        Args:
            waveform: (N,) float32 in [-1, 1] at 16 kHz.
            last: whether the sentence ends here.
            arrived: when the chunk was there, in seconds from the beginning of all sound; by default, the sentence
                began with it, and no sound was left out.

        Raises:
            DataError: if the sound is longer than the model has positions.
            UsageError: if the policy needs what the model has not, or the search more memory than there is.
        """
        began = time.perf_counter()
        self.waveform = torch.cat([self.waveform, waveform.float().cpu()])
        self.heard = len(self.waveform) / SAMPLE_RATE if arrived is None else arrived
        self.chunks += 1
        before = self.text
        if len(self.waveform) >= samples(LEAST):
            with evaluating(self.system), torch.inference_mode(), self.system.autocast():
                self._write(last=last)
        self.clock = max(self.clock, self.heard) + time.perf_counter() - began
        text, end = self.text.removeprefix(before), len(self.waveform) / SAMPLE_RATE
        return Emission(text, self.heard, self.clock, last, end=end)

    def _write(self, *, last: bool) -> None:
        batch = self._heard()
        tokens = self._translate(batch)
        if last:
            self.written = tokens
            return
        ends = self._word_ends(tokens)
        guess = Guess(
            tokens=tokens,
            written=len(self.written),
            ends=ends,
            earlier=self.hypotheses,
            chunks=self.chunks,
            attention=partial(self._attended, batch, tokens),
        )
        certain = self.policy.certain(guess)
        self.hypotheses.append(tokens)
        complete = max((end for end in ends if end <= certain), default=0)
        if complete > len(self.written):
            self.written = tokens[:complete]

    def _heard(self) -> Batch:
        """Return all sound; the same batch as before, which has been encoded, if nothing has been added."""
        if self._batch is None or self._batch["speech"].values.shape[1] != len(self.waveform):
            speech = Padded.from_sequences([self.waveform])
            self._batch = Batch({"speech": speech}, self.languages, ["what is heard"]).to(self.system.device)
        return self._batch

    def _translate(self, batch: Batch) -> list[int]:
        """Return the tokens of the best hypothesis that begins with what has been written, without the end symbol."""
        system = self.system
        # As start symbols, the tokens that have been written are consumed at once, not one in a step.
        start = self._prefix(self.written).values.shape[1]
        search = ruled(self.search, start_symbols=start, bans=[])
        if self._generator is None:
            hypotheses = system.translate_batch(batch, search, forced=[self.written])
        else:
            hypotheses = system.searched(self._generator, batch, search, forced=[self.written])
        best = hypotheses[0][0]
        end = system.output.tokenizer.eos
        return [*self.written, *(token for token in best.tokens if token != end)]

    def _prefix(self, tokens: Sequence[int]) -> Padded:
        return self.system.prefix(self.languages[self.system.output.side], [tokens], self.languages["source"])

    def _word_ends(self, tokens: list[int]) -> list[int]:
        """Return the numbers of tokens after which a word is complete."""
        texts = [self._decoded(tokens[:number]) for number in range(len(tokens) + 1)]
        return [number for number, (text, longer) in enumerate(pairwise(texts)) if self._is_complete(text, longer)]

    def _is_complete(self, text: str, longer: str) -> bool:
        """Tell whether a text ends with a whole word, when it is seen with the token after it."""
        # A character whose bytes are not all there yet is decoded to a mark.
        if not text or not longer.startswith(text) or text.endswith("\N{REPLACEMENT CHARACTER}"):
            return False
        if self.spaced:
            return longer[len(text) :].startswith(" ")
        return not is_inside(longer, len(text))

    def _decoded(self, tokens: Sequence[int]) -> str:
        return self.system.texts_of(tokens)[self.system.output_name]

    def _attended(self, batch: Batch, tokens: list[int], layer: int | None) -> Tensor:
        """Return the attention (L, S) of each token; see :class:`Guess`.

        Raises:
            UsageError: if the model's decoder attends to something else than the vectors of the sound.
        """
        model = self.system.model
        if not isinstance(model, FieldEncoder) or not isinstance(model, TokenDecoder):
            raise UsageError(f"a {type(model).__name__} has no attention to sound that a policy could look at")
        embedding, encoding = model.embeddings["speech"], (self._generator or model).encode(batch)
        states, heard = encoding.memories[MEMORY].lengths, batch["speech"].lengths
        if not isinstance(embedding, SpeechEmbedding) or not torch.equal(states, embedding.lengths(heard)):
            raise UsageError(f"what the decoder of a {type(model).__name__} attends to is not in step with the sound")
        weights = model.attention(self._prefix(tokens), encoding, layer=layer)[0].mean(0)
        # The state after a token is the one that the next token is generated from.
        return weights[len(weights) - len(tokens) - 1 : -1]
