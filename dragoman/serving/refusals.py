"""Errors in the forms of both protocols."""

from __future__ import annotations

from typing import Any

from fastapi import Request
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from dragoman.serving.protection import Refused
from dragoman.serving.served import UnknownModelError
from dragoman.shared.errors import DataError, UsageError, one_line

#: Names of errors in OpenAI's protocol; others are invalid requests.
_TYPES = {401: "authentication_error", 429: "rate_limit_error", 500: "server_error", 503: "server_error"}
_TYPES[504] = "server_error"


async def refusal(request: Request, error: Exception) -> JSONResponse:
    """Return an error in the form of the protocol that the request's path belongs to."""
    status, described = described_error(error)
    content = {"error": described if request.url.path.startswith("/v1/") else described["message"]}
    return JSONResponse(content, status_code=status, headers=getattr(error, "headers", None))


def described_error(error: Exception) -> tuple[int, dict[str, Any]]:
    """Return the status of an error, and the error as OpenAI's protocol describes it."""
    code = None
    if isinstance(error, Refused):
        status, message, code = error.status, error.message, error.code
    elif isinstance(error, HTTPException):
        status, message = error.status_code, str(error.detail)
    elif isinstance(error, UnknownModelError):
        status, message, code = 404, one_line(error), "model_not_found"
    elif isinstance(error, UsageError | DataError):
        status, message = 400, one_line(error)
    else:
        status, message = 500, "the server failed; its log says how"
    message = message.encode(errors="backslashreplace").decode()
    kind = _TYPES.get(status, "invalid_request_error")
    return status, {"message": message, "type": kind, "param": None, "code": code}
