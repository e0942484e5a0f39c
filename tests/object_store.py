"""An object store on this machine that speaks as much of S3 as reading needs, and fails when it is told to."""

from __future__ import annotations

import hashlib
import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

import pytest

#: The status, code and message of S3 for requests that come too fast, and for those that are not allowed.
SLOW_DOWN = (503, "SlowDown", "Please reduce your request rate.")
DENIED = (403, "AccessDenied", "Access Denied")


class Store(ThreadingHTTPServer):
    """Objects by bucket and key, and what is to go wrong.

    Attributes:
        objects: contents by "bucket/key".
        asked: the requests that came: method, "bucket/key", first and last byte (None without a range).
        faults: what to do with the next requests for an object's bytes, in this order; without one, they are answered:
            a status, code and message; "cut": half of the bytes come; "reset": none; a function that is called before
            the answer.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.objects: dict[str, bytes] = {}
        self.asked: list[tuple[str, str, int | None, int | None]] = []
        self.faults: list[object] = []
        self.lock = threading.Lock()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, request: object, address: object) -> None:
        """Say nothing of clients that hang up."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Store

    def log_message(self, *_: object) -> None:
        pass

    def do_HEAD(self) -> None:  # noqa: N802
        self._object("HEAD")

    def do_GET(self) -> None:  # noqa: N802
        url = urlsplit(self.path)
        name = unquote(url.path).strip("/")
        if "list-type" in url.query:
            self._list(name, {key: values[0] for key, values in parse_qs(url.query).items()})
        else:
            self._object("GET")

    def _object(self, method: str) -> None:
        name = unquote(urlsplit(self.path).path).strip("/")
        match = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        first, last = (int(match[1]), int(match[2])) if match else (None, None)
        with self.server.lock:
            self.server.asked.append((method, name, first, last))
            fault = self.server.faults.pop(0) if method == "GET" and self.server.faults else None
        if callable(fault):
            fault()
        content = self.server.objects.get(name)
        if isinstance(fault, tuple):
            self._error(*fault)
        elif fault == "reset":
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
        elif content is None:
            self._error(404, "NoSuchKey", "The specified key does not exist.")
        else:
            whole, content = content, content if first is None else content[first : last + 1]  # type: ignore[operator]
            self.send_response(200 if first is None else 206)
            if first is not None:
                self.send_header("Content-Range", f"bytes {first}-{first + len(content) - 1}/{len(whole)}")
            self.send_header("Content-Length", str(len(content)))
            self.send_header("ETag", f'"{hashlib.md5(whole).hexdigest()}"')
            self.send_header("Last-Modified", "Sun, 01 Nov 2026 12:00:00 GMT")
            self.end_headers()
            if method == "GET":
                self.wfile.write(content[: len(content) // 2] if fault == "cut" else content)
            self.close_connection = fault == "cut"

    def _list(self, bucket: str, asked: dict[str, str]) -> None:
        prefix, delimiter = asked.get("prefix", ""), asked.get("delimiter")
        keys, folders = [], []
        for name in sorted(self.server.objects):
            key = name.removeprefix(f"{bucket}/")
            if key == name or not key.startswith(prefix):
                continue
            rest = key[len(prefix) :]
            if delimiter and delimiter in rest:
                folders.append(prefix + rest.partition(delimiter)[0] + delimiter)
            else:
                keys.append((key, len(self.server.objects[name])))
        contents = "".join(
            f"<Contents><Key>{escape(key)}</Key><Size>{size}</Size>"
            "<LastModified>2026-11-01T12:00:00.000Z</LastModified></Contents>"
            for key, size in keys
        )
        contents += "".join(
            f"<CommonPrefixes><Prefix>{escape(one)}</Prefix></CommonPrefixes>" for one in dict.fromkeys(folders)
        )
        self._xml(
            200,
            f"<ListBucketResult><Name>{bucket}</Name><Prefix>{escape(prefix)}</Prefix>"
            f"<KeyCount>{len(keys) + len(folders)}</KeyCount><IsTruncated>false</IsTruncated>{contents}"
            "</ListBucketResult>",
        )

    def _error(self, status: int, code: str, message: str) -> None:
        self._xml(status, f"<Error><Code>{code}</Code><Message>{message}</Message></Error>")

    def _xml(self, status: int, text: str) -> None:
        body = f'<?xml version="1.0" encoding="UTF-8"?>{text}'.encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


@contextmanager
def answering(monkeypatch: pytest.MonkeyPatch, cache: object) -> Iterator[Store]:
    """Yield a store to which ``s3://`` leads; copies go to a folder of their own."""
    store = Store()
    thread = threading.Thread(target=store.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    environment(monkeypatch, store.address, cache)
    try:
        yield store
    finally:
        store.shutdown()
        store.server_close()
        thread.join()


def environment(monkeypatch: pytest.MonkeyPatch, address: str, cache: object) -> None:
    """Let ``s3://`` lead to an address, with nothing known that was read before."""
    from dragoman.shared.machine import remote

    given = {"AWS_ENDPOINT_URL": address, "AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "a"}
    given |= {"AWS_SECRET_ACCESS_KEY": "b", "AWS_EC2_METADATA_DISABLED": "true", remote.VARIABLE: str(cache)}
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    for kept in (remote._known, remote._block, remote._system_of):
        kept.cache_clear()


def wait(seconds: float) -> object:
    """Return a fault: an answer that comes late."""
    return lambda: time.sleep(seconds)
