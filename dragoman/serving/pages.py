"""The page at ``/``: plain files, which need nothing from a network."""

from __future__ import annotations

from functools import cache, partial
from importlib.resources import files

from fastapi import APIRouter, Response

_KINDS = {"html": "text/html", "css": "text/css", "js": "text/javascript"}
#: What a browser may load and where it may send: this server alone.
_POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "media-src blob:",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    ]
)


def pages() -> APIRouter:
    """Return the routes of the page and of the files of all pages."""
    router = APIRouter(include_in_schema=False)
    for file in (files("dragoman.serving") / "page").iterdir():
        if file.name != "room.html":  # which has addresses of its own (room_routes.py)
            path = "/" if file.name == "index.html" else f"/{file.name}"
            router.add_api_route(path, partial(page_response, file.name))
    return router


@cache
def page_response(name: str) -> Response:
    """Return a file of a page."""
    headers = {"Content-Security-Policy": _POLICY, "X-Content-Type-Options": "nosniff", "Cache-Control": "no-cache"}
    body = (files("dragoman.serving") / "page" / name).read_bytes()
    return Response(body, media_type=_KINDS[name.rpartition(".")[2]], headers=headers)
