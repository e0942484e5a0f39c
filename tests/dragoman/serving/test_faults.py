"""Processes that are killed, and clients that stop, close half or vanish: others are served, and nothing is left."""

import base64
import io
import json
import os
import signal
import socket
import struct
import threading
import time
from contextlib import contextmanager
from http.client import HTTPResponse
from multiprocessing import active_children

import numpy as np
import pytest
import soundfile

pytest.importorskip("uvicorn")
pytest.importorskip("httpx2")
pytest.importorskip("websockets")

import httpx2 as httpx
from websockets.sync.client import connect

from dragoman.serving import connections, served
from tests.dragoman.serving.test_libretranslate import figure
from tests.dragoman.serving.test_realtime import SILENCE, TRANSLATIONS, pcm

#: One request fills this server: /ready tells whether it has left.
ALONE = {"requests": 1, "requests_per_client": 1}
HEAD = b"POST /translate HTTP/1.1\r\nHost: here\r\nContent-Type: application/x-www-form-urlencoded\r\n"
#: Seconds after which a test gives up.
LONG = 60


def request(text):
    body = b"source=en&target=de&q=" + text
    return HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body


def wave(seconds):
    data = io.BytesIO()
    soundfile.write(data, np.random.default_rng(1).normal(0, 0.1, int(seconds * 16000)), 16000, format="WAV")
    return data.getvalue()


def upload(seconds, **fields):
    """The bytes of a request with sound."""
    made = {"data": {"model": "talks"} | fields, "files": {"file": ("a.wav", wave(seconds))}}
    whole = httpx.Request("POST", "http://here/v1/audio/translations", **made)
    head = "".join(f"{name}: {value}\r\n" for name, value in whole.headers.items())
    return f"POST /v1/audio/translations HTTP/1.1\r\n{head}\r\n".encode() + whole.read()


def connected(address, sent=b""):
    host, port = address.removeprefix("http://").split(":")
    client = socket.create_connection((host, int(port)), timeout=LONG)
    client.sendall(sent)
    return client


def vanish(client):
    """Close without a farewell: the server's next packet is answered by a reset."""
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


def answered(client):
    """The status and the body of one answer, in however many packets it comes."""
    answer = HTTPResponse(client)
    answer.begin()
    return answer.status, json.load(answer)


def read_until(client, words):
    """Read an answer up to some words, which have to come."""
    stream = b""
    while words not in stream:
        more = client.recv(65536)
        assert more, f"the server closed after {stream!r}"
        stream += more


def everything(client):
    """All that comes until the server closes."""
    found = b""
    try:
        while data := client.recv(65536):
            found += data
    except ConnectionResetError:
        pass
    return found


def settled(condition):
    """Wait until something is so."""
    until = time.monotonic() + LONG
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


@contextmanager
def clean(running, **changes):
    """A server that must have nothing left of its clients when they have gone, and answer another one."""
    with running(**changes) as server, httpx.Client(base_url=server.address, timeout=LONG) as web:
        body = {"q": "one two", "source": "en", "target": "de"}
        assert web.post("/translate", json=body).json() == {"translatedText": "zwei eins"}
        yield server, web
        settled(lambda: web.get("/ready").status_code == 200)
        settled(lambda: figure(web, r'waiting_rows\{model="\w+"\}') == figure(web, r'connected\{kind="\w+"\}') == 0)
        settled(lambda: len(server.server_state.connections) <= 1)  # this client's own
        assert not [*server.config.app.state.uploads.iterdir()]
        assert web.post("/translate", json=body).json() == {"translatedText": "zwei eins"}


class Held:
    """Holds the models up: after ``free`` batches, each waits until it is let go."""

    def __init__(self, free=0):
        self.free, self.batches = free, []
        self.begun, self.go = threading.Event(), threading.Event()

    def __call__(self, machine, batch_size, how, rows):
        self.batches.append(len(rows))
        if len(self.batches) > self.free:
            self.begun.set()
            assert self.go.wait(LONG)
        return self.work(machine, batch_size, how, rows)


@pytest.fixture
def held(monkeypatch):
    """One that holds up whatever comes behind the first request."""
    made = Held(free=1)
    made.work = served._answered
    monkeypatch.setattr(served, "_answered", made)
    yield made
    made.go.set()


# -- processes --------------------------------------------------------------------------------------------------------


def decoders():
    return [process for process in active_children() if process.name == "decoding" and process.is_alive()]


def transcribed(web):
    return web.post("/v1/audio/transcriptions", data={"model": "talks"}, files={"file": ("a.wav", wave(0.4))})


def test_a_process_killed_in_mid_request_fails_that_request_alone(running):
    before = decoders()
    with clean(running) as (server, web):
        expected = transcribed(web)
        assert expected.status_code == 200
        [process] = [one for one in decoders() if one not in before]
        os.kill(process.pid, signal.SIGSTOP)
        with connected(server.address, upload(0.4)) as client:
            settled(lambda: [*server.config.app.state.uploads.rglob("upload.wav")])
            os.kill(process.pid, signal.SIGKILL)
            status, answer = answered(client)
        assert status == 500  # it was not the file's fault
        assert answer["error"]["message"] == "the file could not be read: the process that read it ended"
        assert transcribed(web).json() == expected.json()


def test_a_process_killed_between_requests_is_replaced(running):
    before = decoders()
    with clean(running) as (_, web):
        expected = transcribed(web)
        [process] = [one for one in decoders() if one not in before]
        os.kill(process.pid, signal.SIGKILL)
        process.join(LONG)
        answer = transcribed(web)
        assert (answer.status_code, answer.json()) == (200, expected.json())
        assert len([one for one in decoders() if one not in before]) == 1


# -- requests that never become whole ---------------------------------------------------------------------------------


@pytest.mark.parametrize("part", [HEAD + b"Content-Length: 100\r\n\r\nq=", upload(1.0)[:-1000]], ids=["form", "sound"])
def test_half_a_body_holds_its_place_until_the_deadline(running, monkeypatch, part):
    monkeypatch.setattr(connections, "PATIENCE", 0.2)
    with clean(running, deadline=1.0, **ALONE) as (server, web):
        with connected(server.address, part) as client:
            settled(lambda: web.get("/ready").status_code == 503)
            assert everything(client).startswith(b"HTTP/1.1 504 ")


def test_who_stops_sending_in_mid_body_has_gone(running):
    with clean(running, **ALONE) as (server, web):
        with connected(server.address, upload(1.0)[:-1000]) as client:
            settled(lambda: web.get("/ready").status_code == 503)
            client.shutdown(socket.SHUT_WR)
            assert everything(client) == b""


@pytest.mark.parametrize(
    ("sent", "drop"),
    [
        (b"", b""),
        (b"GET / HTTP/1.1\r\nHo", b""),
        (b"GET / HTTP/1.1\r\nX: ", b"x"),
        (b"POST /nowhere HTTP/1.1\r\nHost: here\r\nContent-Length: 9000\r\n\r\n", b"x"),
        (b"GET /health HTTP/1.1\r\nHost: here\r\n\r\n", b"\r\n"),
    ],
    ids=["nothing", "half a head", "a head by drops", "a body by drops behind the answer", "drops behind an answer"],
)
def test_a_connection_that_brings_no_request_ends(running, monkeypatch, sent, drop):
    monkeypatch.setattr(connections, "PATIENCE", 0.5)
    with clean(running) as (server, _), connected(server.address, sent) as client:
        ended = threading.Event()

        def drip():
            try:
                while drop and not ended.wait(0.05):
                    client.sendall(drop)
            except OSError:
                pass

        dripping = threading.Thread(target=drip)
        dripping.start()
        everything(client)
        ended.set()
        dripping.join()


def test_who_does_not_take_his_answers_is_cut_off(running, monkeypatch):
    monkeypatch.setattr(connections, "PATIENCE", 0.3)
    with clean(running) as (server, _), socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        host, port = server.address.removeprefix("http://").split(":")
        client.connect((host, int(port)))
        client.sendall(b"GET /page.js HTTP/1.1\r\nHost: here\r\n\r\n" * 2000)
        settled(lambda: any(one.flow.write_paused for one in [*server.server_state.connections]))
        settled(lambda: len(server.server_state.connections) <= 1)


def test_a_connection_with_a_request_in_work_does_not_end(running, monkeypatch, held):
    monkeypatch.setattr(connections, "PATIENCE", 0.1)
    with clean(running) as (server, _), connected(server.address, request(b"one+two")) as client:
        assert held.begun.wait(LONG)
        time.sleep(0.5)
        held.go.set()
        assert answered(client) == (200, {"translatedText": "zwei eins"})


# -- clients that leave while they are answered -----------------------------------------------------------------------


@pytest.mark.parametrize("leave", [lambda client: client.shutdown(socket.SHUT_WR), vanish, socket.socket.close])
def test_who_leaves_while_waiting_is_not_worked_for(running, held, leave):
    """The first request is in the hands of the model; the second waits, and its client goes."""
    with clean(running) as (server, web), connected(server.address, request(b"one+two")) as first:
        assert held.begun.wait(LONG)
        second = connected(server.address, request(b"one%0Atwo%0Athree"))
        settled(lambda: figure(web, r'waiting_rows\{model="text"\}') == 3)
        leave(second)
        settled(lambda: figure(web, r'waiting_rows\{model="text"\}') == 0)
        if second.fileno() >= 0:
            assert everything(second) == b""
            second.close()
        held.go.set()
        assert answered(first)[0] == 200
        assert held.batches == [1, 1]


@pytest.mark.parametrize("leave", [lambda client: client.shutdown(socket.SHUT_WR), vanish])
def test_who_vanishes_while_an_answer_streams_is_not_worked_for(running, held, leave):
    with clean(running, upload_seconds=80.0, upload_megabytes=3.0, **ALONE) as (server, web):
        held.free = 2
        client = connected(server.address, upload(70.0, stream="true"))
        read_until(client, b"transcript.text.segment")
        assert held.begun.wait(LONG) and figure(web, r'waiting_rows\{model="talks"\}') > 0
        leave(client)
        settled(lambda: figure(web, r'waiting_rows\{model="talks"\}') == 0)
        client.close()
        settled(lambda: web.get("/ready").status_code == 200)
        held.go.set()
    assert len(held.batches) == 4 and sum(held.batches) < 70


@contextmanager
def speaker(address, query=""):
    with connect(f"ws{address.removeprefix('http')}{TRANSLATIONS}?language=en{query}", open_timeout=LONG) as one:
        created = json.loads(one.recv(LONG))
        assert created["type"] == "session.created"
        sound = base64.b64encode(pcm(0.9) + SILENCE).decode()
        one.send(json.dumps({"type": "session.input_audio_buffer.append", "audio": sound}))
        yield one, created["session"]


@pytest.mark.parametrize("leave", [lambda client: client.shutdown(socket.SHUT_WR), vanish])
def test_a_reader_who_vanishes_leaves_his_place(running, leave):
    with clean(running, readers=1) as (server, web), speaker(server.address, "&room=new&languages=de") as (_, session):
        path = f"{session['room']['address']}/events?track=de"
        for _ in range(2):
            client = connected(server.address, f"GET {path} HTTP/1.1\r\nHost: here\r\n\r\n".encode())
            read_until(client, b"event: text")
            assert web.get(path).status_code == 429
            leave(client)
            settled(lambda: figure(web, r'connected\{kind="readers"\}') == 0)
            client.close()


@pytest.mark.parametrize("leave", [lambda client: client.shutdown(socket.SHUT_WR), vanish])
def test_a_speaker_who_vanishes_leaves_his_room(running, held, leave):
    with clean(running, live=1) as (server, web):
        with speaker(server.address, "&room=new&languages=de") as (client, session):
            address = session["room"]["address"]
            assert held.begun.wait(LONG) and web.get(f"{address}/languages").json()["speaking"]
            leave(client.socket.dup() if leave is not vanish else client.socket)
            held.go.set()
            settled(lambda: not web.get(f"{address}/languages").json()["speaking"])
        settled(lambda: figure(web, r'connected\{kind="speakers"\}') == 0)
        key, name = session["room"]["key"], address.rpartition("/")[2]
        with speaker(server.address, f"&room={name}&room_key={key}"):
            assert web.get(f"{address}/languages").json()["speaking"]


def lasting_threads():
    """The names of threads, but for those of pools, which grow up to a bound."""
    names = [one.name for one in threading.enumerate()]
    return sorted(name for name in names if not name.startswith(("asyncio_", "AnyIO")))


def open_files():
    """The number of this process's files and sockets, where the system tells."""
    return len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0


@pytest.mark.slow
def test_nothing_is_left_of_two_hundred_broken_clients(running, monkeypatch):
    """Threads, sockets and tasks are as many as before."""
    monkeypatch.setattr(connections, "PATIENCE", 0.5)
    parts = [
        b"",
        HEAD,
        HEAD + b"Content-Length: 100\r\n\r\nq=",
        request(b"one+two"),
        upload(0.4)[:-1000],
        upload(2.5, stream="true"),
    ]
    leaves = [lambda client: client.shutdown(socket.SHUT_WR), vanish, socket.socket.close, lambda client: None]
    with clean(running, deadline=5.0, requests=500, requests_per_client=500) as (server, web):
        assert transcribed(web).status_code == 200
        settled(lambda: len(server.server_state.tasks) == 0)
        threads, files, clients = lasting_threads(), open_files(), []
        for number in range(200):
            clients.append(connected(server.address, parts[number % len(parts)]))
            if number % 3 == 0:
                time.sleep(0.01)
            leaves[number // len(parts) % len(leaves)](clients[-1])
        settled(lambda: len(server.server_state.connections) <= 1)
        settled(lambda: len(server.server_state.tasks) == 0)
        for client in clients:
            client.close()
        settled(lambda: open_files() <= files)
        assert lasting_threads() == threads
