"""Rooms: one speaker, many readers, some of them late; what was written stays."""

import itertools
import json
import threading
import time

import pytest
from starlette.websockets import WebSocketDisconnect

from dragoman.serving import reading_rooms as rooms
from dragoman.serving.protection import Refused
from dragoman.serving.reading_rooms import Room, Rooms, Track
from dragoman.simultaneous.listening import Emission
from dragoman.simultaneous.live_talk import LiveTalk
from tests.dragoman.serving.test_realtime import SILENCE, TRANSLATIONS, append, deltas, pcm, streamed, until

httpx = pytest.importorskip("httpx2")

TOLD = [("ein", 1.0, False), (" Wort", 1.5, False), ("", 2.0, True), ("noch eins", 3.0, True), ("", 3.5, True)]


@pytest.fixture
def anyio_backend():
    return "asyncio"


def room_of(*names):
    return Room([Track(name, "en" if name == "transcript" else name, []) for name in names])


def content(frame):
    place, kind, data = (line.split(": ", 1)[1] for line in frame.splitlines()[:3])
    return place, kind, json.loads(data)


async def read(room, place="", track="de"):
    """The text events of a room after a place, and the place after them."""
    found, last = [], place
    async for frame in room.read(room.track(track), place):
        if frame.startswith("id"):
            last, kind, data = content(frame)
            if kind == "speaker":
                return found, last
            found.append((data["line"], data["text"]))
    return found, last


@pytest.mark.anyio
async def test_readers_come_late_and_come_back():
    room = room_of("de")
    assert await read(room) == ([], "0.0")
    places = []
    for text, end, last in TOLD:
        room.write("de", Emission(text, end, end, last, start=0.5, end=end))
        places.append((await read(room))[1])
    everything = [(0, "ein Wort"), (1, "noch eins")]
    assert await read(room) == (everything, "1.9")
    assert places == ["0.3", "0.8", "0.8", "1.9", "1.9"]
    for place, wanted in zip(places, [[(0, " Wort"), everything[1]], *[[everything[1]]] * 2, [], []], strict=True):
        assert (await read(room, place))[0] == wanted
    for odd in ("x", "1", "-1.0", "9" * 50 + ".1"):
        assert (await read(room, odd))[0] == everything
    assert (await read(room, "7.0"))[0] == []
    cues = [(cue.start, cue.end, cue.text) for cue in room.track("de").cues()]
    assert cues == [(0.5, 2.0, "ein Wort"), (0.5, 3.0, "noch eins")]


@pytest.mark.anyio
async def test_readers_are_told_once_that_an_end_is_missing():
    room, found = room_of("de"), []
    room.write("de", Emission("ein", 1.0, 1.0, start=0.5, end=1.0))
    _, place = await read(room)
    room.write("de", Emission("", 2.0, 2.0, last=True, start=0.5, end=1.2, cut=True))
    room.write("de", Emission("noch", 3.0, 3.0, last=True, start=2.0, end=3.0))
    for begin in ("", place, "0.4"):
        told = []
        async for frame in room.read(room.track("de"), begin):
            if frame.startswith("id"):
                _, kind, data = content(frame)
                if kind == "speaker":
                    break
                told.append(data)
        found.append(told)
    last = {"line": 1, "start": 2.0, "text": "noch"}
    line = {"line": 0, "start": 0.5, "cut": True}
    assert found == [[line | {"text": "ein"}, last], [line | {"text": ""}, last], [last]]


def test_lines_without_their_ends_are_counted(client, long_ones_are_cut):
    query = "model=talks&language=en&room=new&languages=de&transcript=true"
    with client.websocket_connect(f"{TRANSLATIONS}?{query}") as socket:
        [created] = until(socket, "session.created")
        append(socket, pcm(0.9) + SILENCE + pcm(0.4, 1) + SILENCE + pcm(0.8))
        socket.send_json({"type": "session.close"})
        until(socket, "session.closed")
    address = created["session"]["room"]["address"]
    for track, kind in itertools.product(("de", "transcript"), ("text", "srt", "vtt")):
        assert client.get(f"{address}/text?track={track}&format={kind}").headers["X-Cut-Segments"] == "2"


@pytest.mark.anyio
async def test_a_silent_connection_is_used_and_ends_with_the_server(monkeypatch):
    monkeypatch.setattr(rooms, "_LOOK", 0.01)
    monkeypatch.setattr(rooms, "_PULSE", 0.03)
    stopping = threading.Event()
    monkeypatch.setattr(rooms, "noticed", stopping)
    room, frames = room_of("de"), []
    async for frame in room.read(room.track("de"), ""):
        frames.append(frame)
        if len(frames) == 4:
            stopping.set()
    assert frames[0] == "retry: 2000\n\n" and frames[2:] == [": still here\n\n"] * 2


@pytest.mark.anyio
async def test_rooms_are_kept_for_a_while(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(rooms.time, "monotonic", lambda: now[0])
    all_rooms = Rooms(2)
    first, second = (all_rooms.open([Track("de", "de")]) for _ in range(2))
    assert first.name != second.name and first.key != second.key
    for key, status in (("wrong", 403), ("ü\ud800", 403), (first.key, 409)):
        with pytest.raises(Refused) as refused:
            all_rooms.come_back(first.name, key)
        assert refused.value.status == status
    first.leave()
    assert all_rooms.come_back(first.name, first.key) is first and first.has_speaker
    first.leave()
    now[0] += rooms.KEPT - 1
    assert all_rooms.get(first.name) is first
    now[0] += 2
    with pytest.raises(Refused, match="there is no such room"):
        all_rooms.get(first.name)
    third = all_rooms.open([Track("de", "de")])
    second.leave()
    all_rooms.open([Track("de", "de")])  # too many: the one without a speaker makes way
    assert all_rooms.get(third.name) is third
    with pytest.raises(Refused):
        all_rooms.get(second.name)


def test_a_room_over_the_network(serving, talk_model):
    """A reader is there from the beginning, and one comes when the speaker has left."""
    import websockets.sync.client as clients

    data = pcm(0.9)
    with serving() as address, httpx.Client(base_url=address, timeout=60) as client:
        port = address.rpartition(":")[2]
        query = "model=talks&language=en&room=new&languages=de&transcript=true"
        with clients.connect(f"ws://127.0.0.1:{port}{TRANSLATIONS}?{query}") as socket:
            room = json.loads(socket.recv())["session"]["room"]
            assert room["languages"] == ["de", "transcript"]
            listed = client.get(f"{room['address']}/languages").json()
            tracks = [{"name": "de", "language": "de"}, {"name": "transcript", "language": "en"}]
            assert listed == {"tracks": tracks, "speaking": True}
            with client.stream("GET", f"{room['address']}/events?track=de") as early:
                lines = early.iter_lines()
                for kind in ("append", "close"):
                    Adapter(socket).send(kind, data)
                events = []
                while not events or events[-1]["type"] != "session.closed":
                    events.append(json.loads(socket.recv()))
                [sentence] = streamed(talk_model, data)
                assert deltas(events) == sentence
                heard = ""
                for line in lines:
                    if line.startswith("data: "):
                        told = json.loads(line[6:])
                        heard += told.get("text", "")
                        if told.get("speaking") is False:
                            break
                assert heard == sentence
        for track, writes in (("de", "translation"), ("transcript", "transcript")):
            assert client.get(f"{room['address']}/text?track={track}").text.splitlines() == streamed(
                talk_model, data, writes=writes
            )
        shown = client.get(f"{room['address']}/text?track=de&format=srt")
        assert shown.text.startswith("1\n00:00:00,") and shown.headers["content-disposition"].endswith('"de.srt"')
        assert client.get(f"{room['address']}/text?track=xx").status_code == 400
        assert client.get(f"{room['address']}/text?track=de&format=pdf").status_code == 400
        assert client.get("/rooms/none/languages").status_code == 404
        # The speaker comes back: times go on, and readers find both lines.
        again = f"model=talks&language=en&room={room['address'].rpartition('/')[2]}&room_key={room['key']}"
        with clients.connect(f"ws://127.0.0.1:{port}{TRANSLATIONS}?{again}") as socket:
            assert json.loads(socket.recv())["session"]["room"] == room
            Adapter(socket).send("append", data)
        while client.get(f"{room['address']}/languages").json()["speaking"]:  # the rest is heard after he has gone
            time.sleep(0.05)
        shown = client.get(f"{room['address']}/text?track=de&format=srt").text
        assert shown.count(sentence) == 2 and "\n2\n00:00:0" in shown


class Adapter:
    """Sends events as the tests of the protocol do."""

    def __init__(self, socket):
        self._socket = socket

    def send_json(self, event):
        self._socket.send(json.dumps(event))

    def send(self, kind, data):
        if kind == "append":
            append(self, data)
        else:
            self.send_json({"type": "session.close"})


def test_a_room_is_left_even_if_the_model_fails(client, monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("secret")

    monkeypatch.setattr(LiveTalk, "turns", fail)
    with client.websocket_connect(f"{TRANSLATIONS}?language=en&room=new&languages=de") as socket:
        [created] = until(socket, "session.created")
        address = created["session"]["room"]["address"]
        append(socket, pcm(0.5))
        assert until(socket, "error")[-1]["error"]["type"] == "server_error"
        with pytest.raises(WebSocketDisconnect) as ended:
            socket.receive_json()
        assert ended.value.code == 1011
    assert client.get(f"{address}/languages").json()["speaking"] is False


def test_readers_are_limited(served):
    with served(readers=0) as client:
        with client.websocket_connect(f"{TRANSLATIONS}?language=en&room=new&languages=de") as socket:
            [created] = until(socket, "session.created")
            address = created["session"]["room"]["address"]
            assert client.get(f"{address}/events?track=de").status_code == 429
            socket.send_json({"type": "session.update", "session": {"audio": {"output": {"language": "en"}}}})
            assert until(socket, "error")[0]["error"]["message"] == "session: a room keeps its languages"
