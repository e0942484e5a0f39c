"""OpenAI's protocol for live speech; the words are those of ``dragoman stream``."""

import base64
import json
import re
import time
from contextlib import ExitStack
from functools import partial

import numpy as np
import pytest
import torch
from starlette.testclient import WebSocketDenialResponse
from starlette.websockets import WebSocketDisconnect
from torchaudio.functional import resample

import dragoman
from dragoman.serving import served as models_served
from dragoman.serving.arriving import ArrivingSound
from dragoman.serving.live import Running
from dragoman.shared.errors import DataError
from dragoman.shared.search import BeamSearch
from dragoman.shared.search.rules import Rules
from dragoman.simultaneous.listening import Emission, Listener
from dragoman.simultaneous.live_talk import LiveTalk
from dragoman.simultaneous.policies import LocalAgreement

TRANSLATIONS = "/v1/realtime/translations"


def pcm(seconds, seed=0):
    """Noise at 24 kHz, which the levels' detector takes for speech, with silence behind it."""
    time = np.arange(int(seconds * 24000)) / 24000
    voice = np.sin(2 * np.pi * 150 * time) * (0.5 + 0.5 * np.sin(2 * np.pi * 4 * time + seed))
    return (9000 * voice).astype("<i2").tobytes()


SILENCE = bytes(24000)  # half a second


def append(socket, data, kind="session.input_audio_buffer.append"):
    socket.send_json({"type": kind, "audio": base64.b64encode(data).decode()})


def until(socket, *kinds):
    """Return the events up to the first of these kinds."""
    found = []
    while not found or found[-1]["type"] not in kinds:
        found.append(socket.receive_json())
    return found


def deltas(events, side="output"):
    return "".join(event["delta"] for event in events if event["type"] == f"session.{side}_transcript.delta")


def streamed(folder, data, *, writes="translation"):
    """The sentences that the stream command's parts write, given the pieces in which the server hears one message."""
    system = dragoman.load(folder)
    system = system.for_task(writes=writes)
    search = BeamSearch(beam=3, rules=Rules(maximum_length_extra=12))
    begin = partial(Listener, system, LocalAgreement(), search=search, source_language="en")
    talk = LiveTalk(begin, maximum_seconds=1.0, pause=0.3, chunk=0.2)
    sound = resample(torch.from_numpy(np.frombuffer(data, "<i2").astype(np.float32) / 32768), 24000, 16000)
    whole = (len(data) // 2 - 12) // 3 * 2
    emissions = [one for piece in (*sound[:whole].split(12800), sound[whole:]) for one in talk.hear(piece)]
    emissions += talk.end()
    text = "".join(emission.text + "\n" * emission.last for emission in emissions)
    return [line for line in text.split("\n") if line]


@pytest.mark.parametrize("sizes", [[1], [2, 3], [4800], [24, 26, 4802], [10**6]])
def test_pieces_of_sound_are_resampled_as_the_whole(sizes):
    data = pcm(0.1 if sizes == [1] else 0.7)[:-2]
    arriving, found, place, number = ArrivingSound(), [], 0, 0
    while place < len(data):
        size = 2 * sizes[number % len(sizes)]
        found.append(arriving.add(data[place : place + size]))
        place, number = place + size, number + 1
    found.append(arriving.rest())
    whole = resample(torch.from_numpy(np.frombuffer(data, "<i2").astype(np.float32) / 32768), 24000, 16000)
    torch.testing.assert_close(torch.cat(found), whole, rtol=0, atol=1e-6)
    assert len(arriving.add(bytes(24))) == 0 and len(arriving.rest()) == 8  # another recording
    with pytest.raises(DataError, match="3 bytes are no whole samples"):
        arriving.add(b"abc")


def test_sentences_are_joined_as_the_language_is_written():
    told = [("ein", False), (" Wort", True), ("", True), ("noch", True), ("eins", True)]
    emissions = [Emission(text, 0.0, 0.0, last) for text, last in told]
    assert "".join(map(Running("de").added, emissions)) == "ein Wort noch eins"
    assert "".join(map(Running("zh").added, emissions)) == "ein Wortnocheins"


def test_a_speaker_is_translated(client, talk_model):
    data = pcm(0.9) + SILENCE + pcm(0.6, 1)
    sentences = streamed(talk_model, data)
    assert len(sentences) == 2
    with client.websocket_connect(f"{TRANSLATIONS}?model=talks&language=en") as socket:
        created = socket.receive_json()
        assert created["type"] == "session.created" and created["session"]["model"] == "talks"
        assert created["session"]["audio"]["output"] == {"language": "de"}
        append(socket, data)
        socket.send_json({"type": "session.close"})
        events = until(socket, "session.closed")
        assert deltas(events) == " ".join(sentences)
        times = [event["elapsed_ms"] for event in events[:-1]]
        assert times == sorted(times) and all(time % 200 == 0 for time in times)
        assert [event["event_id"] for event in [created, *events]] == [f"event_{n + 1}" for n in range(len(events) + 1)]
        with pytest.raises(WebSocketDisconnect) as ended:
            socket.receive_json()
        assert ended.value.code == 1000


def test_the_transcript_comes_too_where_it_is_asked_for(client, talk_model):
    data = pcm(0.8)
    with client.websocket_connect(f"{TRANSLATIONS}?model=talks&language=en") as socket:
        until(socket, "session.created")
        asked = {"audio": {"input": {"transcription": {"model": "talks"}}, "output": {"language": "de"}}}
        socket.send_json({"type": "session.update", "session": asked})
        [updated] = until(socket, "session.updated")
        assert updated["session"]["audio"]["input"]["transcription"] == {"model": "talks"}
        append(socket, data)
        socket.send_json({"type": "session.close"})
        events = until(socket, "session.closed")
    assert [deltas(events)] == streamed(talk_model, data)
    assert [deltas(events, "input")] == streamed(talk_model, data, writes="transcript")


def test_speakers_at_once_get_their_own_words(client, talk_model):
    sounds = [pcm(0.5 + 0.1 * number, number) for number in range(5)]
    sockets = [client.websocket_connect(f"{TRANSLATIONS}?language=en") for _ in sounds]
    for socket, data in zip(sockets, sounds, strict=True):
        socket.__enter__()
        append(socket, data)
    for socket in sockets:
        socket.send_json({"type": "session.close"})
    found = [deltas(until(socket, "session.closed")) for socket in sockets]
    for socket in sockets:
        socket.__exit__(None, None, None)
    assert found == [" ".join(streamed(talk_model, data)) for data in sounds] and len(set(found)) > 1


def test_speakers_who_wait_share_a_batch(served, talk_model, monkeypatch):
    """The first batch is held up until the chunks of all others wait."""
    sounds = [pcm(0.5 + 0.1 * number, number) for number in range(4)]
    work, batches, waiting = models_served._answered, [], []

    def held(machine, batch_size, how, rows):
        batches.append(len(rows))
        until = time.monotonic() + 60
        while len(batches) == 1 and batches[0] + waiting[0].waiting < 4:
            assert time.monotonic() < until
            time.sleep(0.01)
        return work(machine, batch_size, how, rows)

    monkeypatch.setattr(models_served, "_answered", held)
    with served() as client:
        waiting.append(client.app.state.models.served["talks"].batcher)
        with ExitStack() as open:
            sockets = [open.enter_context(client.websocket_connect(f"{TRANSLATIONS}?language=en")) for _ in sounds]
            for socket, data in zip(sockets, sounds, strict=True):
                append(socket, data)
            for socket in sockets:
                socket.send_json({"type": "session.close"})
            found = [deltas(until(socket, "session.closed")) for socket in sockets]
    assert found == [" ".join(streamed(talk_model, data)) for data in sounds] and sum(batches[:2]) >= 4


def test_each_sentence_of_a_transcription_is_an_item(client, talk_model):
    data = pcm(0.9) + SILENCE + pcm(0.6, 1)
    sentences = streamed(talk_model, data, writes="transcript")
    with client.websocket_connect("/v1/realtime?intent=transcription") as socket:
        assert socket.receive_json()["session"]["type"] == "transcription"
        sound = {"transcription": {"model": "talks", "language": "en"}}
        sound |= {"turn_detection": {"type": "server_vad", "silence_duration_ms": 300}}
        session = {"type": "transcription", "audio": {"input": sound}}
        socket.send_json({"type": "session.update", "session": session})
        [updated] = until(socket, "session.updated")
        assert updated["session"]["audio"]["input"]["turn_detection"]["silence_duration_ms"] == 300
        append(socket, data, "input_audio_buffer.append")
        socket.send_json({"type": "input_audio_buffer.commit"})
        item = "conversation.item.input_audio_transcription"
        for number, sentence in enumerate(sentences, 1):
            events = until(socket, f"{item}.completed")
            assert {event["item_id"] for event in events} == {f"item_{number}"}
            kinds = [event["type"] for event in events if event["type"] != f"{item}.delta"]
            buffer = [f"input_audio_buffer.{kind}" for kind in ("speech_started", "speech_stopped", "committed")]
            assert kinds == [*buffer, f"{item}.completed"]
            assert "".join(e["delta"] for e in events if e["type"] == f"{item}.delta") == sentence
            assert events[-1]["transcript"] == sentence
            [start] = [event["audio_start_ms"] for event in events if "audio_start_ms" in event]
            assert start == pytest.approx([0, 1400][number - 1], abs=120)
        socket.send_json({"type": "input_audio_buffer.clear"})
        assert socket.receive_json()["type"] == "input_audio_buffer.cleared"
        append(socket, SILENCE, "input_audio_buffer.append")
        socket.send_json({"type": "input_audio_buffer.commit", "event_id": "mine"})
        error = socket.receive_json()["error"]
        assert error["message"] == "the sound since the last sentence holds no speech" and error["event_id"] == "mine"


def test_a_sentence_whose_text_lacks_its_end_is_marked_in_its_last_event(client, talk_model, long_ones_are_cut):
    data = pcm(0.9) + SILENCE + pcm(0.4, 1) + SILENCE
    first, second = streamed(talk_model, data)
    with client.websocket_connect(f"{TRANSLATIONS}?model=talks&language=en") as socket:
        append(socket, data)
        socket.send_json({"type": "session.close"})
        events = until(socket, "session.closed")
    assert deltas(events) == f"{first} {second}"
    [marked] = [number for number, event in enumerate(events) if event.get("cut") is True]
    assert deltas(events[: marked + 1]) == first and not any("cut" in event for event in events[marked + 1 :])
    with client.websocket_connect("/v1/realtime?model=talks&language=en") as socket:
        append(socket, data, "input_audio_buffer.append")
        socket.send_json({"type": "input_audio_buffer.commit"})
        completed = [until(socket, "conversation.item.input_audio_transcription.completed")[-1] for _ in range(2)]
    assert [event.get("cut") for event in completed] == [True, None]


def test_a_pause_ends_a_sentence_although_the_chunk_is_not_there_yet(served, talk_model):
    data = pcm(0.5) + SILENCE
    with served(chunk=3.0) as client, client.websocket_connect("/v1/realtime?model=talks&language=en") as socket:
        append(socket, data, "input_audio_buffer.append")  # and no more
        events = until(socket, "conversation.item.input_audio_transcription.completed")
    assert [events[-1]["transcript"]] == streamed(talk_model, data, writes="transcript")


WRONG = [
    ("no JSON", "the event is not JSON"),
    ('{"type": "response.create"}', "event: Input tag 'response.create' found"),
    ('{"type": "session.close", "more": 1}', "more: Extra inputs are not permitted"),
    ('{"type": "session.input_audio_buffer.append", "audio": "%%"}', "audio: is not base64"),
    ('{"type": "session.input_audio_buffer.append", "audio": "AAAA"}', "3 bytes are no whole samples of 16 bits"),
    ('{"type": "session.update", "session": {"audio": {"output": {"language": "xx"}}}}', "'xx' is unknown"),
    (
        '{"type": "session.update", "session": {"audio": {"input": {"noise_reduction": {"type": "near_field"}}}}}',
        "session.audio.input.noise_reduction: Input should be None",
    ),
]


def test_after_a_wrong_event_the_session_goes_on(client, talk_model):
    data = pcm(0.5)
    with client.websocket_connect(f"{TRANSLATIONS}?language=en") as socket:
        until(socket, "session.created")
        for sent, wanted in WRONG:
            socket.send_text(sent)
            event = socket.receive_json()
            assert event["type"] == "error" and event["error"]["type"] == "invalid_request_error"
            assert re.search(wanted, event["error"]["message"]), event
        append(socket, data)
        socket.send_json({"type": "session.close"})
        assert [deltas(until(socket, "session.closed"))] == streamed(talk_model, data)


@pytest.mark.parametrize(
    ("path", "status", "wanted"),
    [
        (f"{TRANSLATIONS}?model=none", 404, "no model is called 'none'"),
        (f"{TRANSLATIONS}?temperature=1", 400, "temperature: unknown; the address may have"),
        (f"{TRANSLATIONS}?languages=de", 400, "are for a room"),
        (f"{TRANSLATIONS}?room=new&languages=xx", 400, "'xx'"),
        (f"{TRANSLATIONS}?room=new&transcript=yes", 400, "transcript must be true or false, not 'yes'"),
        (f"{TRANSLATIONS}?room=other&room_key=x", 404, "there is no such room"),
        ("/v1/realtime?intent=conversation", 400, "there is no assistant here"),
        ("/v1/realtime?model=none", 404, "no model is called 'none'"),
    ],
)
def test_what_cannot_be_done_is_refused_at_the_door(client, path, status, wanted):
    with pytest.raises(WebSocketDenialResponse) as denied, client.websocket_connect(path):
        pass
    assert denied.value.status_code == status and wanted in denied.value.json()["error"]["message"]


def test_strangers_and_their_pages_stay_outside(served):
    with served(keys=["let me in"], origin=["https://friend.example"]) as client:
        right = {"Authorization": "Bearer let me in"}
        for headers, status in [
            ({}, 401),
            ({"Authorization": "Bearer let me out"}, 401),
            (right | {"Origin": "https://stranger.example"}, 403),
        ]:
            with pytest.raises(WebSocketDenialResponse) as denied:
                client.websocket_connect(TRANSLATIONS, headers=headers).__enter__()
            assert denied.value.status_code == status
        for origin in ("https://friend.example", "http://testserver"):
            with client.websocket_connect(TRANSLATIONS, headers=right | {"Origin": origin}) as socket:
                assert socket.receive_json()["type"] == "session.created"
        names = ["realtime", "openai-insecure-api-key.let%20me%20in"]
        with client.websocket_connect(TRANSLATIONS, subprotocols=names) as socket:
            assert socket.accepted_subprotocol == "realtime" and socket.receive_json()["type"] == "session.created"


def test_limits_of_speakers(served):
    with served(live=1, live_seconds=0.3) as client:
        with client.websocket_connect(TRANSLATIONS) as socket:
            with pytest.raises(WebSocketDenialResponse) as denied:
                client.websocket_connect(TRANSLATIONS).__enter__()
            assert denied.value.status_code == 429 and denied.value.headers["retry-after"] == "60"
            assert 'dragoman_connected{kind="speakers"} 1.0' in client.get("/metrics").text
            assert until(socket, "error")[-1]["error"]["message"] == "0.3 seconds are over"
        with client.websocket_connect(TRANSLATIONS) as socket:
            assert socket.receive_json()["type"] == "session.created"
    with served(deadline=0.2) as client, client.websocket_connect(TRANSLATIONS) as socket:
        assert until(socket, "error")[-1]["error"]["message"] == "nothing was sent for 0.2 seconds"


def test_what_fails_in_the_model_ends_the_session_with_an_error(client, monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("secret")

    monkeypatch.setattr(LiveTalk, "turns", fail)
    with client.websocket_connect(f"{TRANSLATIONS}?language=en") as socket:
        until(socket, "session.created")
        append(socket, pcm(0.5))
        error = until(socket, "error")[-1]["error"]
        assert error["message"] == "the server failed; its log says how" and error["type"] == "server_error"
        with pytest.raises(WebSocketDisconnect) as ended:
            socket.receive_json()
        assert ended.value.code == 1011
    assert json.loads(client.get("/ready").text) == {"status": "ready"}
