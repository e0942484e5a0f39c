"""The figures of ``/metrics``, in Prometheus's format."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from dragoman.serving.served import Models

_ROWS = (1, 2, 4, 8, 16, 32, 64, 128)


class Counters:
    """Requests by route and status; of each model, the rows that wait, the sizes of batches and the time they took."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        known: dict[str, Any] = {"registry": self._registry, "namespace": "dragoman"}
        self._requests = Counter("requests", "Answered requests.", ["route", "status"], **known)
        self._connected = Gauge("connected", "Live speakers, and readers of rooms.", ["kind"], **known)
        self._waiting = Gauge("waiting_rows", "Lines and segments that wait.", ["model"], **known)
        self._work = Counter("work_seconds", "Seconds of translating.", ["model"], **known)
        self._rows = Histogram("batch_rows", "Lines and segments in a batch.", ["model"], buckets=_ROWS, **known)

    def answered(self, route: str, status: int) -> None:
        """Count a request."""
        self._requests.labels(route, str(status)).inc()

    def translated(self, model: str, rows: int, seconds: float) -> None:
        """Count a batch."""
        self._rows.labels(model).observe(rows)
        self._work.labels(model).inc(seconds)

    def page(self, models: Models, connected: Mapping[str, int]) -> bytes:
        """Return all figures, those of who is connected among them."""
        for kind, number in connected.items():
            self._connected.labels(kind).set(number)
        for name, one in models.served.items():
            self._waiting.labels(name).set(one.batcher.waiting)
        return generate_latest(self._registry)


class CountedApp:
    """An application of ASGI whose answers are counted, by the paths of its routes, not those that clients write."""

    def __init__(self, app: Any, counters: Counters) -> None:
        self._app, self._counters = app, counters

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status = 500

        async def noted(message: Any) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        try:
            await self._app(scope, receive, noted)
        finally:
            self._counters.answered(getattr(scope.get("route"), "path", "other"), status)
