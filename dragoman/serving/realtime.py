"""OpenAI's protocol for a speaker who is heard live: ``/v1/realtime/translations`` and ``/v1/realtime``, WebSockets.

A translation answers with text alone, without sound. A room (reading_rooms.py) can have it in several languages. A
session of ``/v1/realtime`` transcribes: there is no assistant here.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial

from fastapi import APIRouter, WebSocket
from fastapi.responses import JSONResponse

from dragoman.serving.protection import Gate, Refused
from dragoman.serving.reading_rooms import Rooms
from dragoman.serving.realtime_sessions import Connection, Session, Transcription, Translation
from dragoman.serving.refusals import described_error
from dragoman.serving.served import Models
from dragoman.shared.errors import DataError, UsageError, shortened

#: Codes of WebSockets: all is well, a client's fault, the server's.
_WELL, _REFUSED, _FAILED = 1000, 1008, 1011
#: What a client may ask for in the address.
_TRANSLATION = {"model", "language", "languages", "transcript", "room", "room_key"}
_TRANSCRIPTION = {"model", "language", "intent"}


def routes(models: Models, gate: Gate, rooms: Rooms) -> APIRouter:
    """Return the WebSockets of this protocol.

    Args:
        models: all.
        gate: lets speakers in.
        rooms: where their words may be read.
    """
    router = APIRouter(prefix="/v1/realtime")

    @router.websocket("/translations")
    async def translations(socket: WebSocket) -> None:
        """Translate a speaker."""
        await served(socket, gate, partial(Translation, models=models, rooms=rooms), _TRANSLATION)

    @router.websocket("")
    async def transcriptions(socket: WebSocket) -> None:
        """Transcribe a speaker."""
        await served(socket, gate, partial(Transcription, models=models), _TRANSCRIPTION)

    return router


def asked(socket: WebSocket, known: set[str]) -> dict[str, str]:
    """Return what the address asks for, or raise a UsageError for what is unknown."""
    for name, value in socket.query_params.items():
        if name not in known:
            raise UsageError(f"{shortened(name)}: unknown; the address may have {', '.join(sorted(known))}")
        if name == "intent" and value != "transcription":
            raise UsageError(f"intent must be transcription, not {shortened(value)!r}: there is no assistant here")
    return dict(socket.query_params)


async def served(socket: WebSocket, gate: Gate, made: Callable[..., Session], known: set[str]) -> None:
    """Let a client in, and answer it to the end; one that is refused before gets the status and error of a request.

    Args:
        socket: that has not been accepted yet.
        gate: lets speakers in.
        made: makes the session.
        known: what its address may ask for.
    """
    connection = Connection(socket)
    expires = int(time.time() + gate.limits.live_seconds)
    with ExitStack() as kept:
        try:
            gate.check_page(socket)
            gate.check_bearer(socket)
            kept.enter_context(gate.speaking())
            session = made(connection, asked=asked(socket, known), expires=expires)
        except (Refused, UsageError) as error:
            status, described = described_error(error)
            await socket.send_denial_response(
                JSONResponse({"error": described}, status_code=status, headers=getattr(error, "headers", None))
            )
            return
        code = _WELL
        try:  # from here on a room may have a speaker, who has to leave it whatever happens
            await socket.accept("realtime" if "realtime" in socket.scope.get("subprotocols", []) else None)
            await session.begin()
            await converse(socket, session, gate.limits.deadline, gate.limits.live_seconds)
        except Exception as error:
            code = _REFUSED if isinstance(error, Refused | UsageError | DataError) else _FAILED
            if code == _FAILED:
                logging.getLogger("dragoman").error("a live session failed", exc_info=error)
            await connection.refuse(error)
        finally:
            await session.leave()
        await connection.close(code)


async def converse(socket: WebSocket, session: Session, patience: float, longest: float) -> None:
    """Hand on what a client sends, until it ends the session or leaves.

    Args:
        socket: that has been accepted.
        session: what answers.
        patience: seconds for which a client may be silent.
        longest: seconds of the session.

    Raises:
        Refused: if a client is silent for too long, or the session lasts too long.
        Exception: whatever ended the session's work.
    """
    until = time.monotonic() + longest
    while not session.over:
        message = asyncio.ensure_future(socket.receive())
        try:
            waited = {message, *session.working}
            left = until - time.monotonic()
            await asyncio.wait(waited, timeout=min(patience, left), return_when=asyncio.FIRST_COMPLETED)
            for work in session.working:
                if work.done():
                    work.result()
            if not message.done():
                said = (
                    f"nothing was sent for {patience:g} seconds" if left > patience else f"{longest:g} seconds are over"
                )
                raise Refused(408, said, code="session_expired")
        finally:
            message.cancel()
        received = message.result()
        if received["type"] != "websocket.receive":
            return
        try:
            await session.take(received.get("text") or received.get("bytes") or "")
        except (UsageError, DataError, Refused) as error:  # the session goes on
            await session.connection.refuse(error, session.event)
