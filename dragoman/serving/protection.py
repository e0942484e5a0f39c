"""Protection of a server among strangers: limits, keys, deadlines, and files of ours for what they send."""

from __future__ import annotations

import asyncio
import hmac
import math
import os
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import unquote, urlsplit

from fastapi import Request
from starlette.requests import ClientDisconnect, HTTPConnection

from dragoman.commands.serving_options import ServingOptions
from dragoman.serving.batching import Job
from dragoman.serving.served import Models
from dragoman.serving.uploads import Decoder, KilledError, TooLongError, decoded
from dragoman.shared.errors import DataError, UsageError
from dragoman.shared.generator import Hypothesis
from dragoman.shared.machine.nesting import from_json
from dragoman.shared.systems.inputs import AUDIO_SUFFIXES

#: Bytes that a character may take in a request: two escapes of JSON; and those of all else in it.
_PER_CHARACTER, _BESIDE = 12, 1 << 16
#: What a key follows in the name of a subprotocol.
KEY_PROTOCOL = "openai-insecure-api-key."
#: What servers say where nobody hears it any more (nginx).
GONE = 499


class Refused(Exception):
    """A request that gets no answer, with what it gets instead.

    Args:
        status: HTTP's.
        message: for the client.
        code: OpenAI's name for it, if there is one.
        headers: to send with it.
    """

    def __init__(
        self, status: int, message: str, *, code: str | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.code, self.headers = status, message, code, dict(headers or {})


def read_keys(path: Path) -> list[str]:
    """Return the keys of a file: one a line, without blank lines and lines that begin with #.

    Raises:
        DataError: if it cannot be read, or holds none.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read as keys ({error})") from error
    keys = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    if not keys:
        raise DataError(f"{path}: holds no key: one a line")
    return keys


class Gate:
    """Lets requests in, and out again.

    Args:
        models: whose work is waited for.
        limits: those of requests are read.
        keys: of which a client must have one; None lets everybody in.
        folder: a private one, for uploads.
    """

    def __init__(self, models: Models, limits: ServingOptions, keys: list[str] | None, folder: Path) -> None:
        self.limits, self.decoder = limits, Decoder(limits.deadline)
        self._models, self._folder = models, folder
        self._keys = None if keys is None else [key.encode() for key in keys]
        self._inside = self._live = self._readers = 0
        self._of_clients = Counter[str]()

    @property
    def full(self) -> bool:
        """Tell whether the next request would be sent away."""
        return self._inside >= self.limits.requests

    def knows(self, key: str) -> bool:
        """Compare a key with all there are, in a time that tells nothing about them."""
        if self._keys is None:
            return True
        given = key.encode(errors="surrogateescape")
        return any([hmac.compare_digest(given, known) for known in self._keys])

    def check_bearer(self, request: HTTPConnection) -> None:
        """Refuse a client without a key; see :func:`bearer`."""
        if not self.knows(bearer(request) or ""):
            headers = {"WWW-Authenticate": "Bearer"}
            raise Refused(401, "Incorrect API key provided", code="invalid_api_key", headers=headers)

    @asynccontextmanager
    async def admitted(self, client: str) -> AsyncIterator[None]:
        """Hold a place for a request until it is answered, its deadline has passed or its client has gone.

        Args:
            client: see :func:`client_of`.

        Raises:
            Refused: 429 if there is no place, 504 at the deadline, 499 (for the log) if the client has gone.
        """
        if self.full:
            seconds = max((batcher.seconds_left for batcher in self._models.batchers), default=0.0)
            headers = {"Retry-After": str(max(1, math.ceil(seconds)))}
            raise Refused(429, f"{self.limits.requests} requests are being answered: try again later", headers=headers)
        if self._of_clients[client] >= self.limits.requests_per_client:
            said = f"{self.limits.requests_per_client} requests of this client are being answered: wait for one of them"
            raise Refused(429, said, headers={"Retry-After": "1"})
        self._inside += 1
        self._of_clients[client] += 1
        try:
            async with asyncio.timeout(self.limits.deadline):
                yield
        except TimeoutError as error:
            raise Refused(504, f"no answer within {self.limits.deadline:g} seconds") from error
        except ClientDisconnect as error:
            raise Refused(GONE, "the client has gone") from error
        finally:
            self._inside -= 1
            self._of_clients[client] -= 1
            self._of_clients += Counter()  # which drops those that have none

    @contextmanager
    def speaking(self) -> Iterator[None]:
        """Hold a place for a speaker, or raise Refused (429)."""
        if self._live >= self.limits.live:
            said = f"{self.limits.live} speakers are being heard: try again later"
            raise Refused(429, said, headers={"Retry-After": "60"})
        self._live += 1
        try:
            yield
        finally:
            self._live -= 1

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Hold a place for a reader, or raise Refused (429)."""
        if self._readers >= self.limits.readers:
            said = f"{self.limits.readers} readers are there: try again later"
            raise Refused(429, said, headers={"Retry-After": "60"})
        self._readers += 1
        try:
            yield
        finally:
            self._readers -= 1

    @property
    def connected(self) -> dict[str, int]:
        """The speakers and readers that are there."""
        return {"speakers": self._live, "readers": self._readers}

    def check_page(self, connection: HTTPConnection) -> None:
        """Refuse a browser's page of another server, which the rules for requests do not keep from a WebSocket."""
        origin, known = connection.headers.get("origin"), self.limits.origin or []
        if origin is None or origin in known or "*" in known:
            return
        if urlsplit(origin).netloc != connection.headers.get("host"):
            raise Refused(403, "pages of other servers may not call: see --origin", code="origin_not_allowed")

    async def results(self, request: Request, *jobs: Job) -> list[list[list[Hypothesis]]]:
        """Wait for jobs while the client does; what nobody waits for any more is not translated."""
        gone = asyncio.ensure_future(_gone(request))
        found = []
        try:
            for job in jobs:
                work = asyncio.wrap_future(job.future)
                both: list[asyncio.Future[Any]] = [work, gone]
                await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
                if not work.done():
                    raise ClientDisconnect
                found.append(work.result())
            return found
        finally:
            gone.cancel()
            for job in jobs:
                job.future.cancel()

    def for_text(self, request: Request) -> Request:
        """Return a request whose body may be as long as its texts; see :func:`limited`."""
        return limited(request, _PER_CHARACTER * self.limits.characters + _BESIDE)

    def for_sound(self, request: Request) -> Request:
        """Return a request whose body may be as long as an upload; see :func:`limited`."""
        return limited(request, int(self.limits.upload_megabytes * 1e6) + _BESIDE)

    @contextmanager
    def upload(self, file: BinaryIO, name: str) -> Iterator[Path]:
        """Keep an upload as a file with a name of ours, which has the ending of the client's if it is one of sound.

        Raises:
            DataError: in what follows, naming the upload.
        """
        suffix = os.path.splitext(name)[1].lower()
        with tempfile.TemporaryDirectory(dir=self._folder) as own:
            path = Path(own) / f"upload{suffix if suffix in AUDIO_SUFFIXES else ''}"
            with open(path, "wb") as kept:
                shutil.copyfileobj(file, kept)
            try:
                yield path
            except DataError as error:
                said = re.sub(f"{re.escape(own)}/[a-z.0-9]+", "file", str(error))
                raise DataError(said) from error

    def decoded(self, upload: Path) -> Path:
        """Return the plain samples of an upload; this takes its time.

        Raises:
            Refused: 413 if it holds more sound than a request may, 500 if somebody ended the process that read it.
            DataError: if it is no sound.
        """
        try:
            return decoded(self.decoder, upload, self.limits.upload_seconds)
        except TooLongError as error:
            raise Refused(413, str(error)) from error
        except KilledError as error:
            raise Refused(500, str(error)) from error


def client_of(connection: HTTPConnection) -> str:
    """Return who asks: the key in a header, or the address."""
    return bearer(connection) or (connection.client.host if connection.client else "")


def bearer(request: HTTPConnection) -> str | None:
    """Return the key in the header ``Authorization: Bearer KEY``, None without one.

    A browser's WebSocket has no such header; as in OpenAI's protocol, its key is the name of a subprotocol.
    """
    kind, _, key = request.headers.get("authorization", "").partition(" ")
    if kind.lower() == "bearer":
        return key.strip()
    offered = request.headers.get("sec-websocket-protocol", "").split(",")
    keys = [name.strip().removeprefix(KEY_PROTOCOL) for name in offered if name.strip().startswith(KEY_PROTOCOL)]
    return unquote(keys[0]) if keys else None


def limited(request: Request, most: int) -> Request:
    """Return a request whose body is refused by 413 as soon as it has more bytes, or says that it will have them."""
    said = f"the request has more than {most:,} bytes"
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and (len(announced) > 18 or int(announced) > most):
        raise Refused(413, said)
    read = 0

    async def receive() -> Any:
        nonlocal read
        message = await request.receive()
        read += len(message.get("body", b""))
        if read > most:
            raise Refused(413, said)
        return message

    return Request(request.scope, receive)


async def fields_of(request: Request) -> dict[str, Any]:
    """Return the fields of a body in JSON or of a form without files.

    Raises:
        UsageError: if it is neither.
    """
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() == "application/json":
        try:
            fields = from_json(await request.body())
        except ValueError as error:
            raise UsageError(f"the body is not JSON: {error}") from error
        if not isinstance(fields, dict):
            raise UsageError(f"the body is a {type(fields).__name__}, not an object")
        return fields
    longest = 1 << 62  # the whole body is limited
    async with request.form(max_files=0, max_fields=20, max_part_size=longest) as form:
        return dict(form)


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
