"""Speech that is translated while it is heard: what has been written is never taken back.

After each chunk of sound, all that has been heard is translated again; the output begins with what has been written
(Liu et al. 2020, "Low-Latency Sequence-to-Sequence Speech Recognition and Translation by Partial Hypothesis Selection",
arXiv 2005.11185). A policy (policies.py) says how much of the rest is certain, and of that, whole words are written.
Systems need no training for it. Listeners who wait at the same time share a batch (:func:`hear_together`).

Legend: B listeners, N samples, L tokens, S encoder states.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any, Protocol, cast

import torch
from torch import Tensor

from dragoman.shared.batch import Batch
from dragoman.shared.batches.stream import translation_budget
from dragoman.shared.errors import UsageError
from dragoman.shared.generator import Encoding, Generator, Hypothesis
from dragoman.shared.nn.decoding import TokenDecoder
from dragoman.shared.nn.speech import SpeechEmbedding
from dragoman.shared.nn.state import evaluating
from dragoman.shared.nn.translator import MEMORY, FieldEncoder
from dragoman.shared.padded import Padded
from dragoman.shared.search.search import AnySearch, Search, continuing
from dragoman.shared.sound.audio import SAMPLE_RATE, samples
from dragoman.shared.systems.inputs import chosen_languages
from dragoman.shared.systems.rows import of_windows
from dragoman.shared.systems.system import System
from dragoman.shared.text import languages
from dragoman.shared.text.units import is_inside

#: Seconds that are heard before anything is translated: shorter sound may be less than one frame of a front end.
LEAST = 0.1
#: Types of devices that encode one sound after the other: a batch would cost them its padding, and gain them nothing.
APART = frozenset({"cpu"})


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
        cut: whether the sentence ends here without the end of its text, for which there was no room.
    """

    text: str
    heard: float
    elapsed: float
    last: bool = False
    start: float = 0.0
    end: float = 0.0
    cut: bool = False


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


class Encoded:
    """A generator that has encoded its batch already."""

    def __init__(self, generator: Generator, encoding: Encoding) -> None:
        self._generator, self._encoding = generator, encoding

    def encode(self, batch: Batch) -> Encoding:
        """Return the encoding."""
        return self._encoding

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
        cut: whether the newest hypothesis was ended at the maximum length.

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
        self.cut = False
        self.written: list[int] = []
        self.hypotheses: list[list[int]] = []
        #: Of all that has been heard, if it has been encoded.
        self.encoding: Encoding | None = None
        # Systems that search in a way of their own, or with joined models, encode for themselves.
        own = type(system).translate_batch is not System.translate_batch
        self.plain = not own and system.generator is cast(Any, system.model)

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
        return heard(Turn(self, waveform, last, arrived))

    def take(self, waveform: Tensor, arrived: float | None = None) -> None:
        """Add a chunk to what is translated next; see :meth:`hear`."""
        self.waveform = torch.cat([self.waveform, waveform.float().cpu()])
        self.heard = len(self.waveform) / SAMPLE_RATE if arrived is None else arrived
        self.chunks += 1
        if len(waveform):
            self.encoding = None

    def write(self, hypothesis: Hypothesis, *, last: bool) -> None:
        """Write what is certain of the newest hypothesis, which begins with what has been written; at the end, all."""
        tokens, self.cut = hypothesis.tokens, hypothesis.cut
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
            attention=partial(self._attended, tokens),
        )
        certain = self.policy.certain(guess)
        self.hypotheses.append(tokens)
        complete = max((end for end in ends if end <= certain), default=0)
        if complete > len(self.written):
            self.written = tokens[:complete]

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

    def _attended(self, tokens: list[int], layer: int | None) -> Tensor:
        """Return the attention (L, S) of each token; see :class:`Guess`.

        Raises:
            UsageError: if the model's decoder attends to something else than the vectors of the sound.
        """
        model = self.system.model
        if not isinstance(model, FieldEncoder) or not isinstance(model, TokenDecoder):
            raise UsageError(f"a {type(model).__name__} has no attention to sound that a policy could look at")
        batch = _batch([self])
        encoding = model.encode(batch) if self.encoding is None else self.encoding
        embedding = model.embeddings["speech"]
        states, lengths = encoding.memories[MEMORY].lengths, batch["speech"].lengths
        if not isinstance(embedding, SpeechEmbedding) or not torch.equal(states, embedding.lengths(lengths)):
            raise UsageError(f"what the decoder of a {type(model).__name__} attends to is not in step with the sound")
        prefix = self.system.prefix(self.languages[self.system.output.side], [tokens], self.languages["source"])
        weights = model.attention(prefix, encoding, layer=layer)[0].mean(0)
        # The state after a token is the one that the next token is generated from.
        return weights[len(weights) - len(tokens) - 1 : -1]


# -- listeners who wait at the same time -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Turn:
    """A chunk that a listener is to hear next.

    Attributes:
        listener: who hears it.
        waveform: see :meth:`Listener.hear`.
        last: likewise.
        arrived: likewise.
        span: when the sentence began and up to where it will have been heard, in seconds from the beginning of the
            sound; None: it began with it, and no sound was left out.
    """

    listener: Listener
    waveform: Tensor
    last: bool = False
    arrived: float | None = None
    span: tuple[float, float] | None = None


def heard(turn: Turn) -> Emission:
    """Return what is written after a chunk; raises as :meth:`Listener.hear`."""
    [found] = hear_together([turn])
    if isinstance(found, Exception):
        raise found
    return found


def hear_together(turns: Sequence[Turn]) -> list[Emission | Exception]:
    """Return what different listeners write after a chunk each, or what went wrong with it.

    Those of one system and search are translated in one batch, if the model's decoder can begin with outputs of
    different lengths (``ragged``, see :class:`~dragoman.shared.generator.Generator`): all Transformers with plain
    layers. Others are translated one after the other, and a policy that looks at attention (AlignAtt) lets the decoder
    read its hypothesis once more for each. What one writes does not depend on who else is there.
    """
    began = time.perf_counter()
    before = [turn.listener.text for turn in turns]
    groups: dict[tuple[int, int], list[Turn]] = {}
    for turn in turns:
        turn.listener.take(turn.waveform, turn.arrived)
        if len(turn.listener.waveform) >= samples(LEAST):
            groups.setdefault((id(turn.listener.system), id(turn.listener.search)), []).append(turn)
    wrong: dict[int, Exception] = {}
    for group in groups.values():
        system = group[0].listener.system
        with evaluating(system), torch.inference_mode(), system.autocast():
            for some in _divided(group):
                wrong |= _written(some)
    spent = time.perf_counter() - began
    return [
        wrong.get(id(turn.listener)) or _emission(turn, text, spent) for turn, text in zip(turns, before, strict=True)
    ]


def _emission(turn: Turn, before: str, spent: float) -> Emission:
    listener = turn.listener
    listener.clock = max(listener.clock, listener.heard) + spent
    start, end = turn.span or (0.0, len(listener.waveform) / SAMPLE_RATE)
    text = listener.text.removeprefix(before)
    cut = turn.last and listener.cut
    return Emission(text, listener.heard, listener.clock, turn.last, start=start, end=end, cut=cut)


def _divided(turns: list[Turn]) -> Iterator[list[Turn]]:
    """Yield the turns of one system and search that are translated in one batch."""
    first, size = turns[0].listener, 1
    if first.plain and getattr(first.system.model, "ragged", False):
        budget = of_windows(translation_budget(len(turns)), first.system)
        longest = max(len(turn.listener.waveform) for turn in turns) / SAMPLE_RATE
        size = max(1, min(budget.rows or 1, int((budget.seconds or longest) / longest)))
    for begin in range(0, len(turns), size):
        yield turns[begin : begin + size]


def _written(turns: list[Turn]) -> dict[int, Exception]:
    """Let the listeners of one batch write; return what went wrong, by the listener's id.

    A batch that fails is translated one by one, so that the others do not suffer from what is wrong with one.
    """
    listeners = [turn.listener for turn in turns]
    try:
        hypotheses = _translated(listeners)
    except Exception as error:
        if len(turns) == 1:
            return {id(listeners[0]): error}
        return {one: error for turn in turns for one, error in _written([turn]).items()}
    wrong: dict[int, Exception] = {}
    for turn, best in zip(turns, hypotheses, strict=True):
        try:
            turn.listener.write(best, last=turn.last)
        except Exception as error:
            wrong[id(turn.listener)] = error
    return wrong


def _translated(listeners: list[Listener]) -> list[Hypothesis]:
    """Return each one's best hypothesis that begins with what has been written, without the end symbol.

    What has been written is the start of the search: it is consumed at once, not one token in a step.
    """
    system, search = listeners[0].system, continuing(listeners[0].search)
    batch, forced = _batch(listeners), [one.written for one in listeners]
    if listeners[0].plain:
        generator = Encoded(cast(Generator, system.model), _encoded(listeners))
        hypotheses = system.searched(generator, batch, search, forced=forced)
    else:
        hypotheses = system.translate_batch(batch, search, forced=forced)
    end = system.output.tokenizer.eos
    return [
        replace(best, tokens=[*one.written, *(token for token in best.tokens if token != end)])
        for one, (best, *_) in zip(listeners, hypotheses, strict=True)
    ]


def _batch(listeners: Sequence[Listener]) -> Batch:
    """Return all that B listeners have heard."""
    speech = Padded.from_sequences([one.waveform for one in listeners])
    codes = {side: [code for one in listeners for code in one.languages[side]] for side in ("source", "target")}
    return Batch({"speech": speech}, codes, ["what is heard"] * len(listeners)).to(listeners[0].system.device)


def _encoded(listeners: Sequence[Listener]) -> Encoding:
    """Return the encoding of all that B listeners have heard; what has been encoded before is not encoded again."""
    system = listeners[0].system
    model, new = cast(Generator, system.model), [one for one in listeners if one.encoding is None]
    if system.device.type in APART or len(new) == 1:
        for one in new:
            one.encoding = model.encode(_batch([one]))
    elif new:
        memories = {name: memory.rows() for name, memory in model.encode(_batch(new)).memories.items()}
        for number, one in enumerate(new):
            one.encoding = _padded([{name: rows[number] for name, rows in memories.items()}])
    encodings = [cast(Encoding, one.encoding) for one in listeners]
    if len(encodings) == 1:
        return encodings[0]
    return _padded([{name: memory.rows()[0] for name, memory in one.memories.items()} for one in encodings])


def _padded(memories: Sequence[dict[str, Tensor]]) -> Encoding:
    """Return the encoding of sentences, of which the states (S, D) of each memory are given."""
    joined = {name: Padded.from_sequences([one[name] for one in memories]) for name in memories[0]}
    return Encoding({name: memory.to(memory.values.device) for name, memory in joined.items()})
