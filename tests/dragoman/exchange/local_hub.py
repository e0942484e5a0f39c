"""A Hub in miniature on this machine: the requests that huggingface_hub makes for models, and how it answers them."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import unquote, urlsplit


class LocalHub(ThreadingHTTPServer):
    """Repositories in memory.

    Attributes:
        repositories: name -> commits, oldest first, of file name -> content.
        private: the names of those that only who has the token may see.
        token: who sends it may write.
        asked: the files that were downloaded.
        broken: every answer is an error of the server.

    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.repositories: dict[str, list[dict[str, bytes]]] = {}
        self.private: set[str] = set()
        self.token = "hf_secret"
        self.asked: list[str] = []
        self.broken = False

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def commit(self, name: str, revision: str) -> tuple[str, dict[str, bytes]] | None:
        found = {identity(files): files for files in self.repositories[name]}
        newest = list(found)[-1] if found else "0" * 40
        found.setdefault(newest, {})
        return next(((one, files) for one, files in found.items() if revision in (one, "main") and
                     (revision != "main" or one == newest)), None)  # fmt: skip


def identity(files: dict[str, bytes]) -> str:
    return hashlib.sha1(repr(sorted(files.items())).encode()).hexdigest()


@contextmanager
def serving() -> Iterator[LocalHub]:
    hub = LocalHub()
    thread = Thread(target=hub.serve_forever, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        hub.shutdown()
        hub.server_close()
        thread.join()


class Handler(BaseHTTPRequestHandler):
    server: LocalHub

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        parts = unquote(urlsplit(self.path).path).strip("/").split("/")
        is_file = parts[2:3] == ["resolve"]
        name = "/".join(parts[:2] if is_file else parts[2:4])
        if self.server.broken:
            return self.answer(500, {"error": "out of order"})
        if name not in self.server.repositories or (name in self.server.private and not self.knows()):
            return self.answer(401, {"error": "no such repository"}, {"X-Error-Code": "RepoNotFound"})
        if is_file:
            return self.file(name, parts[3], "/".join(parts[4:]))
        found = self.server.commit(name, parts[5] if len(parts) > 5 else "main")
        if found is None:
            return self.answer(404, {"error": "no such revision"}, {"X-Error-Code": "RevisionNotFound"})
        commit, files = found
        if parts[4:5] == ["tree"]:
            rows = [{"type": "file", "path": path, "size": len(data), "oid": oid(data)} for path, data in files.items()]
            return self.answer(200, rows)
        return self.answer(200, {"id": name, "modelId": name, "sha": commit, "private": name in self.server.private})

    def file(self, name: str, revision: str, path: str) -> None:
        found = self.server.commit(name, revision)
        if found is None or path not in found[1]:
            return self.answer(404, {"error": "no such file"}, {"X-Error-Code": "EntryNotFound"})
        commit, files = found
        if self.command == "GET":
            self.server.asked.append(path)
        return self.answer(200, files[path], {"X-Repo-Commit": commit, "ETag": f'"{oid(files[path])}"'})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        parts = unquote(urlsplit(self.path).path).strip("/").split("/")
        if parts == ["api", "validate-yaml"]:
            return self.answer(200, {"warnings": [], "errors": []})
        if not self.knows():
            status = 403 if self.headers["Authorization"] else 401
            return self.answer(status, {"error": "not allowed"})
        if parts == ["api", "repos", "create"]:
            return self.create(json.loads(body))
        name = "/".join(parts[2:4])
        if parts[4] == "preupload":
            paths = [file["path"] for file in json.loads(body)["files"]]
            files = [{"path": path, "uploadMode": "regular", "shouldIgnore": False} for path in paths]
            return self.answer(200, {"files": files})
        lines = [json.loads(line) for line in body.splitlines()]
        added = [line["value"] for line in lines if line["key"] == "file"]
        files = {value["path"]: base64.b64decode(value["content"]) for value in added}
        commits = self.server.repositories[name]
        commits.append((commits[-1] if commits else {}) | files)
        made = identity(commits[-1])
        return self.answer(200, {"commitUrl": f"{self.server.address}/{name}/commit/{made}", "commitOid": made})

    def create(self, wanted: dict[str, Any]) -> None:
        name = f"{wanted['organization']}/{wanted['name']}"
        if name in self.server.repositories:
            return self.answer(409, {"error": "is there already", "url": f"{self.server.address}/{name}"})
        self.server.repositories[name] = []
        if wanted.get("visibility") == "private":
            self.server.private.add(name)
        return self.answer(200, {"url": f"{self.server.address}/{name}"})

    def knows(self) -> bool:
        return self.headers["Authorization"] == f"Bearer {self.server.token}"

    def answer(self, status: int, content: Any, headers: dict[str, str] | None = None) -> None:
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for header, value in ({"Content-Length": str(len(data))} | (headers or {})).items():
            self.send_header(header, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)


def oid(data: bytes) -> str:
    return hashlib.sha1(data).hexdigest()
