"""The page at ``/``: plain files, which need nothing from a network."""

from __future__ import annotations

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
    """Return the routes of the page and of its files."""
    router = APIRouter(include_in_schema=False)
    for file in (files("dragoman.serving") / "page").iterdir():
        body, kind = file.read_bytes(), _KINDS[file.name.rpartition(".")[2]]
        _add(router, "/" if file.name == "index.html" else f"/{file.name}", body, kind)
    return router


def _add(router: APIRouter, path: str, body: bytes, kind: str) -> None:
    headers = {"Content-Security-Policy": _POLICY, "X-Content-Type-Options": "nosniff", "Cache-Control": "no-cache"}

    @router.get(path)
    async def page() -> Response:
        """Return a file of the page."""
        return Response(body, media_type=kind, headers=headers)
