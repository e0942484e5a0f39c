"""Connections of a server: uvicorn's, and an end for those that bring no request or do not take their answers."""

from __future__ import annotations

import asyncio
import math
from typing import Any

from uvicorn import Config
from uvicorn.protocols.http.h11_impl import H11Protocol

#: Seconds for which a connection may be useless. uvicorn ends one that is silent for 5 seconds after an answer, but not
#: before the first request, nor if a byte comes now and then.
PATIENCE = 20.0
#: Bytes of an event that a live client sends: some 16 seconds of sound.
_EVENT = 1 << 20


class PatientProtocol(H11Protocol):
    """A connection that ends once it has been without a request in work for :data:`PATIENCE` seconds.

    It ends, too, if its client takes nothing of what waits to be sent for as long.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to watch."""
        super().connection_made(transport)
        self._idle_since, self._unsent = self.loop.time(), 0
        self.loop.call_later(PATIENCE, self._look)

    def on_response_complete(self) -> None:
        """Note the end of an answer."""
        self._idle_since = self.loop.time()
        super().on_response_complete()

    def _look(self) -> None:
        if self not in self.connections:  # it has ended, or has become a WebSocket
            return
        before, self._unsent = self._unsent, self.transport.get_write_buffer_size()
        full = self.flow.write_paused or self.transport.is_closing()  # nothing is added
        if full and 0 < self._unsent == before:
            self.transport.abort()
            return
        works = self.cycle is not None and not self.cycle.response_complete
        left = PATIENCE if works else self._idle_since + PATIENCE - self.loop.time()
        if left <= 0:
            self.timeout_keep_alive_handler()
        self.loop.call_later(left if left > 0 else PATIENCE, self._look)


def configured(app: Any, deadline: float) -> Config:
    """Return how uvicorn runs an application.

    Args:
        app: of ASGI.
        deadline: seconds that a request may take; so long, requests in flight are waited for at the end.
    """
    return Config(
        app,
        http=PatientProtocol,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=math.ceil(deadline) + 1,
        ws="websockets-sansio",
        ws_max_size=_EVENT,
    )
