"""The benchmark of servers against one whose answers, pauses and processes are known."""

import os
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import numpy as np
import pytest
import soundfile

pytest.importorskip("httpx2")

from benchmarks.serving import Measured, Server, Sound, asked, read, row
from tests import small


@pytest.fixture
def server():
    """Answers with the number of the request to a recording, "a" or "b", and knows how many it answers at a time."""
    at_once, seen, lock = [0, 0], {}, threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            name = "a" if b'filename="a.wav"' in self.rfile.read(int(self.headers["content-length"])) else "b"
            with lock:
                at_once[0] += 1
                at_once[1] = max(at_once)
                seen[name] = seen.get(name, 0) + 1
                text = f"{name}{seen[name] if name == 'b' else ''}"
            time.sleep(0.05)
            with lock:
                at_once[0] -= 1
            body = b'{"text": "%s"}' % text.encode()
            self.send_response(500 if seen[name] > 5 else 200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        threading.Thread(target=http.serve_forever, daemon=True).start()
        yield SimpleNamespace(port=http.server_port, cpu_seconds=lambda: 1.0, peak=lambda: 5, at_once=at_once)
        http.shutdown()


SOUNDS = [Sound("a.wav", b"x", 2.0), Sound("b.wav", b"x", 3.0)]


@pytest.mark.parametrize("clients", [1, 4])
def test_each_request_is_timed_and_changed_answers_are_counted(server, clients):
    texts = {}
    found = asked(server, "fr", SOUNDS * 4, clients, texts)
    assert len(found.latencies) == 8 and min(found.latencies) >= 0.05 and found.sound == 20.0
    assert found.changed == 3 and texts["a.wav"] == "a" and texts["b.wav"] in ("b1", "b2", "b3", "b4")
    assert found.seconds >= 8 * 0.05 / clients and server.at_once[1] == clients
    assert (found.cpu_seconds, found.peak) == (0.0, 5)


def test_an_error_ends_the_run(server):
    assert "500" in small.refusal(SystemExit, asked, server, "fr", SOUNDS * 8, 2, {})


def test_rates_and_percentiles():
    rounds = [Measured(10.0, 50.0, [1.0] * 50, 5.0, 10**9, 0), Measured(20.0, 50.0, [1.0] * 49 + [9.0], 10.0, 10**6, 0)]
    assert row("x", 4, rounds) == "| 4 | x | 3.75 | 3.8 | 1.00 | 1.08 | 0.150 | 1,000 MB |"


def test_recordings_fit_into_a_window(tmp_path):
    assert "holds no recordings" in small.refusal(SystemExit, read, tmp_path)
    soundfile.write(tmp_path / "a.wav", np.zeros(8000), 16000)
    assert [(one.name, one.seconds) for one in read(tmp_path)] == [("a.wav", 0.5)]
    soundfile.write(tmp_path / "b.wav", np.zeros(21000), 1000)
    assert "b.wav is longer than 20 s" in small.refusal(SystemExit, read, tmp_path)


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="needs Linux")
def test_all_processes_of_a_server_count():
    child = "bytearray(60 << 20); print(flush=True); input()"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    with subprocess.Popen([sys.executable, "-c", parent], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        server = Server(process, 0)
        assert len(server.processes()) == 2 and 60 << 20 < server.peak() < 500 << 20
        assert 0 <= server.cpu_seconds() < 60
        process.stdin.close()
