"""A talk that is translated while it is heard: it is divided at its pauses, and each sentence has its own listener.

Legend: N samples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from dragoman.shared.errors import UsageError
from dragoman.shared.sound.audio import SAMPLE_RATE, samples
from dragoman.shared.sound.pauses import FRAME, spoken
from dragoman.shared.sound.speech_activity import SpeechDetector, speech_detector
from dragoman.shared.sound.speech_spans import MARGIN
from dragoman.simultaneous.listening import Emission, Listener, Turn, hear_together, heard

#: Samples of earlier sound (10 s) with whose levels speech is told from its background.
_CONTEXT = 10 * SAMPLE_RATE


class LiveTalk:
    """A recording of any length that is translated while it is heard.

    A sentence ends where nobody speaks for a while, or when it is too long for the model; the next one is translated by
    itself. Silence before and after a sentence is not shown to the model, which may never have heard any.

    Args:
        begin: makes the listener of a sentence: ``partial(Listener, system, policy)``.
        detector: tells whether somebody begins to speak; by default the best that is installed.
        maximum_seconds: what a sentence lasts at most.
        pause: seconds without speech that end a sentence.
        chunk: seconds from one translation of a sentence to the next, if what is heard comes in smaller pieces. A pause
            ends the sentence after the piece in which it is long enough, not only after the chunk.

    Raises:
        UsageError: as :class:`Listener`, or if a number is not positive.
    """

    def __init__(
        self,
        begin: Callable[[], Listener],
        *,
        detector: SpeechDetector | None = None,
        maximum_seconds: float = 20.0,
        pause: float = 0.6,
        chunk: float = 0.0,
    ) -> None:
        if not 0 < pause < maximum_seconds:
            raise UsageError(f"need 0 < pause < maximum_seconds, not {pause} and {maximum_seconds}")
        self._begin, self._pause = begin, pause
        self._detector = detector or speech_detector()
        self._longest, self._chunk = samples(maximum_seconds), samples(chunk)
        self._listener = begin()
        self._total = self._new = 0  # samples: of all sound, and of the chunk that is coming in
        # Of the sentence, with the silence around it, and what was before.
        self._sound, self._before = torch.zeros(0), torch.zeros(0)
        self._first = self._shown = 0  # of its samples: before the sentence, and those that were shown

    def hear(self, chunk: Tensor) -> Iterator[Emission]:
        """Hear a chunk, and yield what is written after it; a chunk may hold the ends of several sentences.

        Args:
            chunk: (N,) float32 in [-1, 1] at 16 kHz.

        Raises:
            DataError: as :meth:`Listener.hear`.
        """
        return map(heard, self.turns(chunk))

    def end(self) -> Iterator[Emission]:
        """End the sentence, if there is one, and yield the rest of its output; what is heard later is another one."""
        return map(heard, self.last_turn())

    def pauses(self, sound: Tensor) -> bool:
        """Tell whether a pause ends a sentence in the sound (N,) that is heard next; a chunk need not be waited for."""
        return _sentence(self._before, torch.cat([self._sound, sound]), self._pause)[2]

    def turns(self, chunk: Tensor) -> Iterator[Turn]:
        """Yield what a chunk gives listeners to hear; each turn must have been heard before the next is asked for."""
        self._total += len(chunk)
        self._sound = torch.cat([self._sound, chunk.float().cpu()])
        self._new += len(chunk)
        yield from self._turns(is_whole=self._new >= self._chunk)

    def last_turn(self) -> Iterator[Turn]:
        """Yield the end of the sentence, if there is one, as :meth:`turns`."""
        if self._new:
            yield from self._turns(is_whole=True)
        if self._listener.chunks:
            yield self._show(self._shown, last=True)
            self._next(self._shown)

    def _turns(self, *, is_whole: bool) -> Iterator[Turn]:
        """Yield the turns after a whole chunk, or the ends of sentences within one."""
        self._new *= not is_whole
        last = True
        while last:
            start, end, last = _sentence(self._before, self._sound, self._pause)
            if not (last or is_whole):
                return
            if not self._listener.chunks:
                if not self._detector.has_speech(self._sound.numpy()):
                    if is_whole:
                        self._before, self._sound = _kept(self._before, self._sound, samples(self._pause))
                    return
                self._first = self._shown = start
            end = max(self._shown, end)
            if end - self._first >= self._longest:  # the rest of the chunk is another sentence: a model has its limit
                end, last = self._first + self._longest, True
            if last or end > self._shown:
                yield self._show(end, last=last)
            if last:
                self._next(end)

    def _show(self, end: int, *, last: bool) -> Turn:
        """Return the listener's turn to hear the sound of its sentence up to a sample."""
        sound, self._shown = self._sound[self._shown : end], end
        begin = self._total - len(self._sound)
        span = (begin + self._first) / SAMPLE_RATE, (begin + end) / SAMPLE_RATE
        return Turn(self._listener, sound, last, self._total / SAMPLE_RATE, span)

    def _next(self, end: int) -> None:
        """Begin another sentence after a sample."""
        self._before, self._sound = _kept(self._before, self._sound, len(self._sound) - end)
        clock, self._listener = self._listener.clock, self._begin()
        self._listener.clock = clock


def listen(
    begin: Callable[[], Listener],
    chunks: Iterable[Tensor],
    *,
    detector: SpeechDetector | None = None,
    maximum_seconds: float = 20.0,
    pause: float = 0.6,
    chunk: float = 0.0,
) -> Iterator[Emission]:
    """Let a talk be heard in chunks to its end; yield what is written after each chunk with speech.

    Arguments and errors are those of :class:`LiveTalk`; ``chunks`` are waveforms, one after the other.
    """
    talk = LiveTalk(begin, detector=detector, maximum_seconds=maximum_seconds, pause=pause, chunk=chunk)
    for heard_now in chunks:
        yield from talk.hear(heard_now)
    yield from talk.end()


def talks_together(talks: Sequence[Iterator[Turn]]) -> list[list[Emission] | Exception]:
    """Return what is written of different talks after a chunk each, or what went wrong with a talk.

    Args:
        talks: the turns of each, see :meth:`LiveTalk.turns`. The first of all are heard together, then the second.
    """
    written: list[list[Emission]] = [[] for _ in talks]
    wrong: dict[int, Exception] = {}
    going = [*range(len(talks))]
    while going:
        turns: dict[int, Turn] = {}
        for number in going:
            try:
                if (turn := next(talks[number], None)) is not None:
                    turns[number] = turn
            except Exception as error:
                wrong[number] = error
        for number, found in zip(turns, hear_together([*turns.values()]), strict=True):
            if isinstance(found, Exception):
                wrong[number] = found
            else:
                written[number].append(found)
        going = [number for number in turns if number not in wrong]
    return [wrong.get(number, emissions) for number, emissions in enumerate(written)]


def _kept(before: Tensor, sound: Tensor, samples: int) -> tuple[Tensor, Tensor]:
    """Keep the last samples of a sound, and append the others to what was before it, of which the end is kept."""
    cut = max(0, len(sound) - samples)
    return torch.cat([before, sound[:cut]])[-_CONTEXT:], sound[cut:]


def _sentence(before: Tensor, sound: Tensor, pause: float) -> tuple[int, int, bool]:
    """Find the first speech in a sound: its first sample, the one behind its last, and whether a pause follows.

    Args:
        before: what was heard before, with whose levels the sound's are compared.
        sound: (N,).
        pause: seconds of the shortest pause.
    """
    size = samples(FRAME)
    passed = len(before) // size
    speech = spoken(torch.cat([before[len(before) - passed * size :], sound]).numpy())[passed:]
    (loud,) = speech.nonzero()
    if not len(loud):
        return 0, len(sound), False
    silent = np.diff(loud, append=len(speech)) - 1  # frames behind each loud one
    (pauses,) = (silent >= round(pause / FRAME)).nonzero()
    last = loud[pauses[0]] if len(pauses) else loud[-1]
    margin = round(MARGIN / FRAME)
    begin, end = max(0, int(loud[0]) - margin), int(last) + 1 + margin
    return begin * size, min(end * size, len(sound)), bool(len(pauses))
