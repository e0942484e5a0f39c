"""Reading in a room: its page, its lines as they come, and as subtitles."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import ExitStack
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import PlainTextResponse, StreamingResponse

from dragoman.serving.openai_rest import CUT
from dragoman.serving.pages import page_response
from dragoman.serving.protection import Gate
from dragoman.serving.reading_rooms import Room, Rooms, Track
from dragoman.shared.errors import UsageError, shortened
from dragoman.shared.text.subtitles import srt, vtt

#: Ways to keep what was written.
FORMATS = ("text", "srt", "vtt")


def routes(gate: Gate, rooms: Rooms) -> APIRouter:
    """Return the routes of readers, who need no key: a room's address cannot be guessed.

    Args:
        gate: lets readers in.
        rooms: all.
    """
    router = APIRouter(prefix="/rooms", tags=["rooms"])

    @router.get("/{name}", include_in_schema=False)
    async def page(name: str) -> Response:
        """Return the page of a room, which says so if there is none."""
        return page_response("room.html")

    @router.get("/{name}/languages", summary="What a room can be read in")
    async def languages(name: str) -> dict[str, Any]:
        """List the tracks of a room."""
        room = rooms.get(name)
        tracks = [{"name": track.name, "language": track.language} for track in room.tracks.values()]
        return {"tracks": tracks, "speaking": room.has_speaker}

    @router.get("/{name}/events", summary="The lines of a room as server-sent events")
    async def events(name: str, track: str, request: Request) -> Response:
        """Stream a track, from its beginning or after the last event that the client has."""
        room = rooms.get(name)
        chosen = room.track(track)
        kept = ExitStack()
        kept.enter_context(gate.reading())
        lines = _lines(room, chosen, request.headers.get("last-event-id", ""), kept)
        return StreamingResponse(lines, media_type="text/event-stream", headers={"Cache-Control": "no-store"})

    @router.get("/{name}/text", summary="The lines of a room so far")
    async def text(name: str, track: str, format: str = "text") -> Response:
        """Return a track as plain text or subtitles."""
        if format not in FORMATS:
            raise UsageError(f"format must be one of {', '.join(FORMATS)}, not {shortened(format)!r}")
        chosen = rooms.get(name).track(track)
        cues, cut = chosen.cues(), sum(line.cut for line in chosen.lines)
        shown = {"text": "".join(f"{cue.text}\n" for cue in cues), "srt": srt(cues), "vtt": vtt(cues)}[format]
        headers = {"Content-Disposition": f'attachment; filename="{track}.{"txt" if format == "text" else format}"'}
        headers |= {CUT: str(cut)} if cut else {}
        kind = "text/vtt" if format == "vtt" else "text/plain"
        return PlainTextResponse(shown, media_type=kind, headers=headers)

    return router


async def _lines(room: Room, track: Track, place: str, kept: ExitStack) -> AsyncIterator[str]:
    with kept:
        async for frame in room.read(track, place):
            yield frame
