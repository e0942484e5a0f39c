"""The application: the routes of both protocols, those for whoever watches it, and the form of errors."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory

from fastapi import FastAPI, Response
from fastapi.middleware.cors import CORSMiddleware
from fastapi.responses import HTMLResponse, JSONResponse
from starlette.exceptions import HTTPException

from dragoman.commands.serving_options import ServingOptions
from dragoman.serving import file_routes, libretranslate, openai_rest, realtime, room_routes
from dragoman.serving.counters import CountedApp, Counters
from dragoman.serving.pages import pages
from dragoman.serving.protection import Gate, Refused
from dragoman.serving.reading_rooms import Rooms
from dragoman.serving.refusals import refusal
from dragoman.serving.served import Models
from dragoman.shared.errors import DataError, UsageError

#: Rooms that are kept after their speaker has left.
_LEFT = 100


def application(
    models: Models, counters: Counters, serving: ServingOptions, *, keys: list[str] | None = None
) -> FastAPI:
    """Return the application of ASGI; its end is that of the models' threads and of all uploads.

    Args:
        models: loaded ones.
        counters: that the models' batches are counted by.
        serving: the limits of requests, and the web pages that may call (CORS).
        keys: of which a client must have one; None lets everybody in.
    """
    folder = TemporaryDirectory(prefix="dragoman-serve-")
    readers = ThreadPoolExecutor(1, "reading")  # sound is read by one at a time; translating has the other cores

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        readers.shutdown()
        gate.decoder.close()
        for batcher in models.batchers:
            await asyncio.to_thread(batcher.close)
        folder.cleanup()

    # FastAPI's own pages load scripts from a network.
    app = FastAPI(title="dragoman", docs_url=None, redoc_url=None, lifespan=lifespan)
    if serving.origin:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=serving.origin,
            allow_methods=["*"],
            allow_headers=["*"],
            expose_headers=[openai_rest.CUT, "Retry-After"],  # which scripts of pages may not read otherwise
        )
    app.add_middleware(CountedApp, counters=counters)
    app.state.models, app.state.uploads = models, Path(folder.name)
    gate = Gate(models, serving, keys, app.state.uploads)
    app.include_router(libretranslate.routes(models, gate))
    app.include_router(file_routes.routes(models, gate, app.state.uploads))
    app.include_router(openai_rest.routes(models, gate, readers))
    rooms = Rooms(serving.live + _LEFT)
    app.include_router(realtime.routes(models, gate, rooms))
    app.include_router(room_routes.routes(gate, rooms))
    watched(app, models, counters, gate)
    app.include_router(pages())
    for kind in (Refused, UsageError, DataError, HTTPException, Exception):
        app.add_exception_handler(kind, refusal)
    return app


def watched(app: FastAPI, models: Models, counters: Counters, gate: Gate) -> None:
    """Add the routes for whoever watches a server."""

    @app.get("/health", summary="Whether the server runs", tags=["state"])
    async def health() -> dict[str, str]:
        """Say that the server runs."""
        return {"status": "ok"}

    @app.get("/ready", summary="Whether a request would be answered", tags=["state"])
    async def ready() -> JSONResponse:
        """Say whether a request would be answered now: 503 if not."""
        wrong = "full" if gate.full else "" if all(one.alive for one in models.batchers) else "a model has stopped"
        return JSONResponse({"status": wrong or "ready"}, status_code=503 if wrong else 200)

    @app.get("/metrics", summary="Figures for Prometheus", tags=["state"])
    async def metrics() -> Response:
        """Return counters."""
        return Response(counters.page(models, gate.connected), media_type="text/plain; version=0.0.4; charset=utf-8")

    @app.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        """List the routes, without anything from a network."""
        rows = "".join(
            f"<tr><td>{method.upper()} {escape(path)}<td>{escape(said['summary'])}"
            for path, methods in app.openapi()["paths"].items()
            for method, said in methods.items()
        )
        head = "<!doctype html><html lang=en><meta charset=utf-8><title>dragoman</title><h1>dragoman</h1>"
        return HTMLResponse(f"{head}<p>Fields and answers: <a href=/openapi.json>openapi.json</a></p><table>{rows}")
