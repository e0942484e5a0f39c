"""A speaker who is heard live: the sound that has arrived goes to the models, their words to whoever waits for them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace

import torch
from torch import Tensor

from dragoman.serving.served import Hearing, Models
from dragoman.shared.sound.audio import SAMPLE_RATE, samples
from dragoman.shared.text.languages import spaced
from dragoman.simultaneous.hearing import pieces_of
from dragoman.simultaneous.listening import Emission

#: Seconds of sound that may wait to be heard; a client that sends more has to wait.
BACKLOG = 30.0
#: What is told of each emission: the name of the hearing, and the emission.
Tell = Callable[[str, Emission], Awaitable[None]]


class Running:
    """The text of one emission after the other, with a space between sentences where the language has spaces.

    Args:
        language: code.
    """

    def __init__(self, language: str) -> None:
        self._space = " " if spaced(language) else ""
        self._begun = self._within = False

    def added(self, emission: Emission) -> str:
        """Return what an emission adds."""
        text = emission.text
        if text and not self._within:
            text = (self._space if self._begun else "") + text.lstrip()
        self._begun = self._begun or bool(text)
        self._within = (self._within or bool(text)) and not emission.last
        return text


class Live:
    """One speaker, whom one or more hearings hear together; what a slow machine has not heard yet is heard at once.

    Args:
        models: whose threads do the work.
        hearings: by name.
        tell: called with what each of them writes.
        offset: seconds that the speaker has been heard before.
    """

    def __init__(self, models: Models, hearings: Mapping[str, Hearing], tell: Tell, *, offset: float = 0.0) -> None:
        self._models, self._hearings, self._tell, self._offset = models, dict(hearings), tell, offset
        self._sound: list[Tensor] = []
        self._ends = self._over = False
        self._changed = asyncio.Event()
        self._taken = asyncio.Event()
        self._piece, _ = pieces_of(models.listening.chunk)
        self._looked = 0  # samples that wait, among which there is no pause
        self.heard = offset
        self.work = asyncio.create_task(self._hear())

    async def add(self, sound: Tensor) -> None:
        """Take the next samples, (N,) at 16 kHz, once there is room for them.

        Raises:
            Exception: whatever ended the work.
        """
        while self._samples() > BACKLOG * SAMPLE_RATE and not self.work.done():
            self._taken.clear()
            waiting = asyncio.ensure_future(self._taken.wait())
            await asyncio.wait([waiting, self.work], return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
        self._check()
        self._sound.append(sound)
        self._changed.set()

    def clear(self) -> None:
        """Forget the sound that has not been heard yet."""
        self._sound.clear()
        self._looked = 0

    async def finish(self) -> None:
        """End the sentence, and wait until all has been written.

        Raises:
            Exception: whatever ended the work.
        """
        self._ends = self._over = True
        self._changed.set()
        await self.work

    def _check(self) -> None:
        if self.work.done() and not self.work.cancelled():
            self.work.result()

    def _samples(self) -> int:
        return sum(len(sound) for sound in self._sound)

    async def _is_due(self) -> bool:
        """Tell whether a chunk has come in, or a pause that ends the sentence."""
        waiting = self._samples()
        if waiting >= samples(self._models.listening.chunk):
            return True
        if waiting < self._looked + self._piece:
            return False
        self._looked = waiting
        talk = next(iter(self._hearings.values())).talk  # of the same pauses as the others
        return await asyncio.to_thread(talk.pauses, torch.cat(self._sound))

    async def _hear(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            if not self._ends and not await self._is_due():
                continue
            sound = torch.cat([torch.zeros(0), *self._sound])
            last, over = self._ends, self._over
            self._sound, self._ends, self._looked = [], False, 0
            self._taken.set()
            # A sentence cannot be longer than the model's, whatever has piled up.
            pieces = sound.split(samples(self._models.listening.chunk * 4)) or (sound,)
            for number, piece in enumerate(pieces):
                self.heard += len(piece) / SAMPLE_RATE
                await self._write(piece, last=last and number == len(pieces) - 1)
            if over:
                return

    async def _write(self, sound: Tensor, *, last: bool) -> None:
        jobs = {}
        try:
            for name, one in self._hearings.items():
                jobs[name] = self._models.served[one.task.model].submit(Hearing, [one.row(sound, last=last)])
            for name, job in jobs.items():
                [emissions] = await asyncio.wrap_future(job.future)
                for emission in emissions:
                    times = {key: getattr(emission, key) + self._offset for key in ("heard", "start", "end")}
                    await self._tell(name, replace(emission, **times))
        finally:
            for job in jobs.values():
                job.future.cancel()
