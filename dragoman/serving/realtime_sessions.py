"""The sessions of OpenAI's protocol for live speech: what they are told, and what they tell."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol

from fastapi import WebSocket, WebSocketDisconnect

from dragoman.serving.arriving import RATE, ArrivingSound
from dragoman.serving.live import Live, Running, Tell
from dragoman.serving.openai_rest import chosen
from dragoman.serving.reading_rooms import Room, Rooms, Track
from dragoman.serving.realtime_events import (
    TranscriptionAppend,
    TranscriptionAudio,
    TranscriptionCommit,
    TranscriptionUpdate,
    TranslationAppend,
    TranslationAudio,
    TranslationUpdate,
    transcription_event,
    translation_event,
)
from dragoman.serving.refusals import described_error
from dragoman.serving.served import ANY, Hearing, Models, UnknownModelError
from dragoman.shared.errors import UsageError, shortened
from dragoman.simultaneous.listening import Emission

#: The name of what is said, among languages that it is translated into.
TRANSCRIPT = "transcript"
#: Milliseconds of which times are multiples, as in the protocol.
_FRAME = 200
#: The first words of the names of events about an item.
_ITEM = "conversation.item.input_audio_transcription"


class Connection:
    """A client's WebSocket, to which events go; one that has gone gets none."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket, self._events = socket, 0

    async def send(self, kind: str, **content: Any) -> None:
        """Send an event."""
        self._events += 1
        with suppress(WebSocketDisconnect, RuntimeError):  # which starlette raises after the end
            await self._socket.send_json({"type": kind, "event_id": f"event_{self._events}", **content})

    async def refuse(self, error: Exception, event: str | None = None) -> None:
        """Send an error, with the id of the client's event that it is about."""
        _, described = described_error(error)
        await self.send("error", error=described | {"event_id": event})

    async def close(self, code: int) -> None:
        """End the connection."""
        with suppress(WebSocketDisconnect, RuntimeError):
            await self._socket.close(code)


class Session(Protocol):
    """The answers to one client.

    Attributes:
        connection: to it.
        event: the id that the client gave to its last event.
        over: whether the client has ended it.
    """

    connection: Connection
    event: str | None
    over: bool

    @property
    def working(self) -> Sequence[asyncio.Task[None]]:
        """The tasks that have to go on."""
        ...

    async def begin(self) -> None:
        """Say what the session is."""
        ...

    async def take(self, message: str | bytes) -> None:
        """Do what an event asks for; raises UsageError or DataError if that cannot be done."""
        ...

    async def leave(self) -> None:
        """End what goes on."""
        ...


class _Base:
    """The common part of both sessions: the client, the choice of a model, the sound, and the work that goes on.

    Args:
        connection: to the client.
        models: all.
        asked: in the address: ``model``, and ``language`` of the sound.
        expires: when the session will be ended, in seconds since 1970.
    """

    def __init__(self, connection: Connection, models: Models, asked: Mapping[str, str], expires: int) -> None:
        self.connection, self.over = connection, False
        self.event: str | None = None
        self._models = models
        self._model, self._source = asked.get("model") or ANY, asked.get("language") or None
        self._session = {"id": f"sess_{secrets.token_hex(8)}", "expires_at": expires}
        self._arriving = ArrivingSound()
        self._live: Live | None = None
        self._offset = 0.0  # seconds that were heard before

    @property
    def working(self) -> list[asyncio.Task[None]]:
        """The tasks that have to go on."""
        return [] if self._live is None else [self._live.work]

    async def _add(self, data: bytes, hearings: Callable[[], Mapping[str, Hearing]], tell: Tell) -> None:
        """Take sound; the first begins the work."""
        if self._live is None:
            self._live = Live(self._models, hearings(), tell, offset=self._offset)
        await self._live.add(self._arriving.add(data))

    async def _finish(self) -> None:
        """End the sentence, and wait for its output; what is heard later is heard afresh."""
        rest = self._arriving.rest()
        if self._live is not None:
            await self._live.add(rest)
            await self._live.finish()
            self._offset, self._live = self._live.heard, None

    def _stop(self) -> None:
        if self._live is not None:
            self._live.work.cancel()


class Translation(_Base):
    """A session of translation, whose words may also go to a room.

    Args:
        connection: to the client.
        models: all.
        asked: in the address: ``model``; ``language`` of the sound; ``room``: new, or its name, with ``room_key``;
            ``languages`` of the translations, of which the client gets the first; ``transcript``: true, for a room
            with what is said too.
        expires: when the session will be ended, in seconds since 1970.
        rooms: of the server.

    Raises:
        Refused: if the room cannot be entered.
        UsageError: if no model can do this.
    """

    def __init__(
        self, connection: Connection, models: Models, asked: Mapping[str, str], expires: int, *, rooms: Rooms
    ) -> None:
        super().__init__(connection, models, asked, expires)
        self._targets: list[str] = [code for code in asked.get("languages", "").split(",") if code]
        self._transcript = asked.get("transcript", "false") == "true"
        self._transcriber = self._model
        self._running: dict[str, Running] = {}
        self._room = self._entered(rooms, asked)

    def _entered(self, rooms: Rooms, asked: Mapping[str, str]) -> Room | None:
        """Return the room that is asked for, after a look at what no model can do."""
        if asked.get("transcript", "false") not in ("true", "false"):
            raise UsageError(f"transcript must be true or false, not {shortened(asked['transcript'])!r}")
        name, given = asked.get("room"), {"languages", "transcript"} & {*asked}
        if name is None and (given or "room_key" in asked):
            raise UsageError("languages, transcript and room_key are for a room: room=new, or its name")
        if name not in (None, "new"):
            if given:
                raise UsageError(f"{' and '.join(sorted(given))}: a room keeps its languages")
            tracks = rooms.get(name).tracks
            self._targets = [track for track in tracks if track != TRANSCRIPT]
            self._transcript = TRANSCRIPT in tracks
        try:
            hearings = self._hearings()
        except UnknownModelError:
            raise
        except UsageError:
            if self._targets or name is not None:
                raise
            return None  # the client has to name the language before its sound
        if name is None:
            return None
        if name != "new":
            room = rooms.come_back(name, asked.get("room_key", ""))
            self._offset = room.heard
            return room
        return rooms.open([Track(track, hearing.language) for track, hearing in hearings.items()])

    def _hearings(self) -> dict[str, Hearing]:
        """Return what hears the speaker, by language; the language that is meant if none is named is noted."""
        found = {}
        targets: list[str | None] = [*self._targets] or [None]
        for target in targets:
            task, codes = chosen(self._models, "translation", self._model, self._source, target)
            found[codes["target_language"]] = self._models.hearing(task, codes)
        self._targets = [*found]
        if self._transcript:
            task, codes = chosen(self._models, "transcript", self._transcriber, self._source, None)
            found[TRANSCRIPT] = self._models.hearing(task, codes)
        self._session["model"] = found[self._targets[0]].task.model
        for name, hearing in found.items():
            self._running.setdefault(name, Running(hearing.language))
        return found

    def _described(self) -> dict[str, Any]:
        transcription = {"model": self._transcriber} if self._transcript else None
        sides = {
            "input": {"transcription": transcription, "noise_reduction": None},
            "output": {"language": self._targets[0] if self._targets else None},
        }
        room = self._room and {"address": f"/rooms/{self._room.name}", "key": self._room.key}
        named = {"room": room | {"languages": [*self._room.tracks]}} if self._room and room else {}
        return {"model": self._model, **self._session, "type": "translation", "audio": sides, **named}

    async def begin(self) -> None:
        """Say what the session is."""
        await self.connection.send("session.created", session=self._described())

    async def take(self, message: str | bytes) -> None:
        """Do what an event asks for."""
        self.event = None
        event = translation_event(message)
        self.event = event.event_id
        if isinstance(event, TranslationAppend):
            await self._add(event.sound(), self._hearings, self._tell)
        elif isinstance(event, TranslationUpdate):
            await self._change(event.session.audio or TranslationAudio())
            await self.connection.send("session.updated", session=self._described())
        else:
            await self._finish()
            self.over = True
            await self.connection.send("session.closed")

    async def _change(self, audio: TranslationAudio) -> None:
        """Change languages; the sentence is ended in the old ones."""
        language = audio.output.language if audio.output else None
        asks = audio.input is not None and "transcription" in audio.input.model_fields_set
        if self._room is not None and (language not in (None, self._targets[0]) or asks):
            raise UsageError("session: a room keeps its languages")
        before = self._targets, self._transcript, self._transcriber
        try:
            if language is not None:
                self._targets = [language]
            if asks and audio.input is not None:
                wanted = audio.input.transcription
                self._transcript = wanted is not None
                self._transcriber = (wanted.model if wanted else None) or self._model
            self._hearings()
        except UsageError:
            self._targets, self._transcript, self._transcriber = before
            raise
        await self._finish()

    async def _tell(self, name: str, emission: Emission) -> None:
        if self._room is not None:
            self._room.write(name, emission)
        if name not in (self._targets[0], TRANSCRIPT) or (self._room is not None and name == TRANSCRIPT):
            return
        delta = self._running[name].added(emission)
        if delta or emission.cut:
            side = "input" if name == TRANSCRIPT else "output"
            told = {"delta": delta, "elapsed_ms": int(1000 * emission.heard) // _FRAME * _FRAME, **_cut(emission)}
            await self.connection.send(f"session.{side}_transcript.delta", **told)

    async def leave(self) -> None:
        """End what goes on; readers of the room get the end of the sentence, even if this task is cancelled."""
        if self._room is None:
            self._stop()
        else:
            await asyncio.shield(asyncio.create_task(self._last_words(self._room)))

    async def _last_words(self, room: Room) -> None:
        try:
            if not any(work.done() for work in self.working):  # which has failed, and said so
                await self._finish()
        except Exception as error:  # the speaker may have gone: nobody else can be told
            logging.getLogger("dragoman").error("the end of a live session failed", exc_info=error)
        finally:
            self._stop()
            room.leave()


class Transcription(_Base):
    """A session of transcription: each sentence is an item.

    Args:
        connection: to the client.
        models: all.
        asked: in the address: ``model``, and ``language`` of the sound.
        expires: when the session will be ended, in seconds since 1970.

    Raises:
        UsageError: if no model is called so.
    """

    def __init__(self, connection: Connection, models: Models, asked: Mapping[str, str], expires: int) -> None:
        super().__init__(connection, models, asked, expires)
        self._pause: float | None = None
        self._items = 0
        self._text: str | None = None  # of the item, None between two
        try:
            self._hearings()
        except UnknownModelError:
            raise
        except UsageError:  # the client may name model and language before its sound
            pass

    def _hearings(self) -> dict[str, Hearing]:
        task, codes = chosen(self._models, TRANSCRIPT, self._model, self._source, None)
        return {TRANSCRIPT: self._models.hearing(task, codes, self._pause)}

    def _described(self) -> dict[str, Any]:
        pause = self._models.listening.pause if self._pause is None else self._pause
        sound = {
            "format": {"type": "audio/pcm", "rate": RATE},
            "transcription": {"model": self._model, "language": self._source},
            "turn_detection": {"type": "server_vad", "silence_duration_ms": round(1000 * pause)},
            "noise_reduction": None,
        }
        kind = {"object": "realtime.transcription_session", "type": "transcription"}
        return {**self._session, **kind, "audio": {"input": sound}}

    async def begin(self) -> None:
        """Say what the session is."""
        await self.connection.send("session.created", session=self._described())

    async def take(self, message: str | bytes) -> None:
        """Do what an event asks for."""
        self.event = None
        event = transcription_event(message)
        self.event = event.event_id
        if isinstance(event, TranscriptionAppend):
            await self._add(event.sound(), self._hearings, self._tell)
        elif isinstance(event, TranscriptionUpdate):
            await self._change(event.session.audio or TranscriptionAudio())
            await self.connection.send("session.updated", session=self._described())
        elif isinstance(event, TranscriptionCommit):
            await self._finish()
        else:
            self._arriving = ArrivingSound()
            if self._live is not None:
                self._live.clear()
            await self.connection.send("input_audio_buffer.cleared")

    async def _change(self, audio: TranscriptionAudio) -> None:
        """Change model, language or pause; the sentence is ended with the old ones."""
        before = self._model, self._source, self._pause
        try:
            if audio.input is not None:
                wanted = audio.input.transcription
                if wanted is not None:
                    self._model, self._source = wanted.model or self._model, wanted.language or self._source
                if (pause := audio.input.turn_detection.silence_duration_ms) is not None:
                    self._pause = pause / 1000
            self._hearings()
        except UsageError:
            self._model, self._source, self._pause = before
            raise
        await self._finish()

    async def _tell(self, _: str, emission: Emission) -> None:
        """Tell of a sentence: its beginning, its words, its end."""
        if self._text is None:
            if emission.start == emission.end:  # what a client ended was no sentence
                error = UsageError("the sound since the last sentence holds no speech")
                await self.connection.refuse(error, self.event)
                return
            self._items, self._text = self._items + 1, ""
            await self._send("input_audio_buffer.speech_started", audio_start_ms=round(1000 * emission.start))
        if emission.text:
            self._text += emission.text
            await self._send(f"{_ITEM}.delta", content_index=0, delta=emission.text)
        if emission.last:
            before = f"item_{self._items - 1}" if self._items > 1 else None
            await self._send("input_audio_buffer.speech_stopped", audio_end_ms=round(1000 * emission.end))
            await self._send("input_audio_buffer.committed", previous_item_id=before)
            usage = {"type": "duration", "seconds": round(emission.end - emission.start, 3)}
            told = {"transcript": self._text, "usage": usage, **_cut(emission)}
            await self._send(f"{_ITEM}.completed", content_index=0, **told)
            self._text = None

    async def _send(self, kind: str, **content: Any) -> None:
        await self.connection.send(kind, item_id=f"item_{self._items}", **content)

    async def leave(self) -> None:
        """End what goes on."""
        self._stop()


def _cut(emission: Emission) -> dict[str, bool]:
    """Return what an event says beside OpenAI's protocol where the end of a sentence's text is missing."""
    return {"cut": True} if emission.cut else {}
