"""Files on the Hugging Face Hub, read by its own library from a hub on this machine that answers what that asks."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote

import numpy as np
import pytest

from dragoman import DataError
from dragoman.shared.machine import remote
from dragoman.shared.machine.remote import local_copy, open_remote, remote_matches
from tests.small import refuses

constants = pytest.importorskip("huggingface_hub.constants")

CONTENT = np.random.default_rng(0).bytes(2_500_000)
FOLDER = "hf://datasets/owner/talks/data"


class Hub(ThreadingHTTPServer):
    """A hub with one dataset, owner/talks.

    Attributes:
        files: contents by path.
        failing: the status of all answers, if it is not 200.
    """

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.files, self.failing = {"data/en/a.tar": CONTENT, "data/de/b.tar": b"b", "readme.md": b"words"}, 200

    def about(self, path):
        content = self.files[path]
        return {"type": "file", "path": path, "size": len(content), "oid": hashlib.sha1(content).hexdigest()}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def reply(self, found, status=200, code=""):
        body = found if isinstance(found, bytes) else json.dumps(found).encode()
        self.send_response(status)
        self.send_header("X-Error-Code", code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def handled(self, asked=""):
        files, path = self.server.files, unquote(self.path.partition("?")[0])
        if self.server.failing != 200:
            return self.reply({"error": "as it was told to"}, self.server.failing)
        api, resolve = "/api/datasets/owner/talks", "/datasets/owner/talks/resolve/main/"
        if path.startswith(resolve):
            first, last = map(int, re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers["Range"]).groups())
            return self.reply(files[path.removeprefix(resolve)][first : last + 1], 206)
        if path in (api, f"{api}/revision/main"):
            return self.reply({"id": "owner/talks", "sha": "0" * 40, "siblings": []})
        if path == f"{api}/paths-info/main":
            return self.reply([self.server.about(name) for name in parse_qs(asked)["paths"] if name in files])
        folder = path.removeprefix(f"{api}/tree/main/")
        if folder != path and (inside := [name for name in files if name.startswith(folder + "/")]):
            return self.reply([self.server.about(name) for name in inside])
        return self.reply({}, 404, "EntryNotFound" if path.startswith(api) else "RepoNotFound")

    def do_GET(self):  # noqa: N802
        self.handled()

    def do_POST(self):  # noqa: N802
        self.handled(self.rfile.read(int(self.headers["Content-Length"])).decode())


@pytest.fixture
def hub(tmp_path, monkeypatch):
    with Hub() as found:
        address = f"http://127.0.0.1:{found.server_port}"
        threading.Thread(target=found.serve_forever, args=(0.01,), daemon=True).start()
        template = constants.HUGGINGFACE_CO_URL_TEMPLATE.replace(constants.ENDPOINT, address)
        monkeypatch.setattr(constants, "ENDPOINT", address)
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(remote, "WAITS", (0.0,))
        monkeypatch.setenv(remote.VARIABLE, str(tmp_path))
        caches = remote._known, remote._block, remote._system_of
        for cache in caches:
            cache.cache_clear()
        yield found
        for cache in caches:
            cache.cache_clear()
        found.shutdown()


def test_any_part_of_a_file_is_read_and_copied(hub):
    with open_remote(f"{FOLDER}/en/a.tar") as file:
        file.seek(1_500_000)
        assert file.read(10) == CONTENT[1_500_000:1_500_010] and file.seek(0, 2) == len(CONTENT)
        file.seek(0)
        assert file.read() == CONTENT
    assert local_copy(f"{FOLDER}/en/a.tar").read_bytes() == CONTENT


def test_patterns_name_files_and_none_of_a_folder_that_is_not_there(hub):
    assert remote_matches(f"{FOLDER}/*/*.tar") == [f"{FOLDER}/de/b.tar", f"{FOLDER}/en/a.tar"]
    assert remote_matches(f"{FOLDER}/fr/*.tar") == []


def test_a_file_that_is_replaced_by_one_of_its_size_is_an_error(hub):
    with open_remote(f"{FOLDER}/en/a.tar") as file:
        assert file.read(10) == CONTENT[:10]
        hub.files["data/en/a.tar"] = CONTENT[::-1]
        refuses(DataError, r"en/a\.tar: has been changed since it was first read", file.read)


@pytest.mark.parametrize("uri", [f"{FOLDER}/none.tar", "hf://datasets/other/talks/a.tar"])
def test_what_is_not_there_is_named(hub, uri):
    refuses(DataError, rf"^{re.escape(uri)}: there is no such object$", open_remote, uri)


@pytest.mark.parametrize("status", [500, 403])
def test_what_the_hub_refuses_is_no_missing_file(hub, status, caplog):
    hub.failing = status
    refuses(DataError, rf"en/a\.tar: cannot be read \(.*{status}", open_remote, f"{FOLDER}/en/a.tar")
    assert len(caplog.records) == (status == 500)  # it asks again where that may help


def test_a_hub_that_cannot_be_reached_ends_in_an_error(hub, monkeypatch):
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    refuses(DataError, r"en/a\.tar: cannot be read \(.*(refused|connect)", open_remote, f"{FOLDER}/en/a.tar")
