"""Rooms: the words of one speaker in several languages, for any number of readers, who may come late.

A room has an address that cannot be guessed: whoever has it may read. What has been written is never changed, so that a
reader's place is a line and a character in it, from which one goes on after a lost connection.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import secrets
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

from dragoman.serving.protection import Refused
from dragoman.shared.errors import UsageError, shortened
from dragoman.shared.machine.stopping import noticed
from dragoman.shared.text.subtitles import Cue
from dragoman.simultaneous.listening import Emission

#: Seconds for which a room is kept after its speaker has left; he may come back in this time.
KEPT = 3600.0
#: Seconds after which a reader's silent connection is used, so that nothing between takes it for dead.
_PULSE = 15.0
#: Seconds from one look at whether the server is stopping to the next.
_LOOK = 1.0


@dataclass
class Line:
    """A sentence as far as it has been written.

    Attributes:
        start: in seconds.
        end: likewise.
        text: so far.
        cut: whether it has ended without the end of its text; see :class:`Emission`.
    """

    start: float
    end: float
    text: str
    cut: bool = False

    @property
    def characters(self) -> int:
        """The number of what has been written: that the end is missing counts as one more."""
        return len(self.text) + self.cut


@dataclass
class Track:
    """The lines of one language.

    Attributes:
        name: the code of a translation's language, or "transcript".
        language: the code.
        lines: all so far.
        is_open: whether the last one goes on.
    """

    name: str
    language: str
    lines: list[Line] = field(default_factory=list)
    is_open: bool = False

    def write(self, emission: Emission) -> None:
        """Add what has been written."""
        text = emission.text if self.is_open else emission.text.lstrip()
        if not self.is_open and text:
            self.lines.append(Line(emission.start, emission.end, ""))
            self.is_open = True
        if self.is_open:
            self.lines[-1].text += text
            self.lines[-1].end = emission.end
            self.lines[-1].cut = emission.cut
        self.is_open = self.is_open and not emission.last

    def cues(self) -> list[Cue]:
        """Return the subtitles so far."""
        return [Cue(line.start, line.end, line.text.strip()) for line in self.lines]


class Room:
    """One room.

    Args:
        tracks: what can be read in it.
    """

    def __init__(self, tracks: Sequence[Track]) -> None:
        self.name, self.key = secrets.token_urlsafe(9), secrets.token_urlsafe(24)
        self.tracks = {track.name: track for track in tracks}
        self.has_speaker = True
        self.left = 0.0  # when the last speaker left
        self.heard = 0.0  # seconds, of all speakers
        self._changed = asyncio.Event()

    def write(self, track: str, emission: Emission) -> None:
        """Add what has been written, for all readers."""
        self.tracks[track].write(emission)
        self.heard = max(self.heard, emission.end)
        self._tell()

    def leave(self) -> None:
        """Let the speaker leave."""
        self.has_speaker, self.left = False, time.monotonic()
        for track in self.tracks.values():
            track.is_open = False
        self._tell()

    def track(self, name: str) -> Track:
        """Return a track, or raise a UsageError."""
        if name not in self.tracks:
            raise UsageError(f"the room has {', '.join(self.tracks)}, not {shortened(name)!r}")
        return self.tracks[name]

    def _tell(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def read(self, track: Track, place: str) -> AsyncIterator[str]:
        """Yield a track as server-sent events, from a place on, until the room is closed or the server stops.

        ``text`` has the number of its ``line``, its ``start`` in seconds and new ``text``, and at the end of a line
        ``cut`` if the end of its text is missing; ``speaker`` says whether somebody is ``speaking``.

        Args:
            track: of this room.
            place: the id of the last event that the reader has, or nothing.
        """
        number, characters = _place(place)
        yield "retry: 2000\n\n"
        speaking, quiet = None, 0.0
        while not noticed.is_set():
            changed = self._changed
            for index in range(number, len(track.lines)):
                line, before = track.lines[index], characters if index == number else 0
                after = line.characters
                if before < after:
                    quiet = 0.0
                    content = {"line": index, "start": round(line.start, 3), "text": line.text[before:]}
                    content |= {"cut": True} if line.cut else {}
                    yield _frame("text", content, f"{index}.{after}")
                number, characters = index, after
            if self.has_speaker is not speaking:
                speaking, quiet = self.has_speaker, 0.0
                yield _frame("speaker", {"speaking": speaking}, f"{number}.{characters}")
            try:
                await asyncio.wait_for(changed.wait(), _LOOK)
            except TimeoutError:
                quiet += _LOOK
                if quiet >= _PULSE:
                    quiet = 0.0
                    yield ": still here\n\n"


class Rooms:
    """All rooms of a server.

    Args:
        most: how many there may be, those without a speaker included.
    """

    def __init__(self, most: int) -> None:
        self._rooms: dict[str, Room] = {}
        self._most = most

    def open(self, tracks: Sequence[Track]) -> Room:
        """Return a new room; the one that was left first makes way for it if there are too many."""
        self._forget()
        empty = sorted((room for room in self._rooms.values() if not room.has_speaker), key=lambda room: room.left)
        while len(self._rooms) >= self._most and empty:
            del self._rooms[empty.pop(0).name]
        room = Room(tracks)
        self._rooms[room.name] = room
        return room

    def get(self, name: str) -> Room:
        """Return a room, or raise Refused (404)."""
        self._forget()
        if name not in self._rooms:
            raise Refused(404, "there is no such room, or it has been closed", code="room_not_found")
        return self._rooms[name]

    def come_back(self, name: str, key: str) -> Room:
        """Return a room that its speaker enters again, or raise Refused: 404, 403 (not his), 409 (he is there)."""
        room = self.get(name)
        if not hmac.compare_digest(key.encode(errors="replace"), room.key.encode()):
            raise Refused(403, "the key is not that of the room's speaker", code="invalid_room_key")
        if room.has_speaker:
            raise Refused(409, "the room has a speaker", code="room_has_speaker")
        room.has_speaker = True
        room._tell()
        return room

    def _forget(self) -> None:
        now = time.monotonic()
        old = [room.name for room in self._rooms.values() if not room.has_speaker and now - room.left > KEPT]
        for name in old:
            del self._rooms[name]


def _place(text: str) -> tuple[int, int]:
    """Return line and character of an event's id; the beginning, if it is none."""
    line, dot, character = text.partition(".")
    if dot and line.isdecimal() and character.isdecimal() and len(text) < 40:
        return int(line), int(character)
    return 0, 0


def _frame(kind: str, content: dict[str, object], place: str) -> str:
    return f"id: {place}\nevent: {kind}\ndata: {json.dumps(content, ensure_ascii=False)}\n\n"
