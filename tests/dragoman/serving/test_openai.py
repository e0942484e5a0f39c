"""OpenAI's protocol for sound; outputs are those of ``dragoman translate``."""

import asyncio
import base64
import io
import json
import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial

import numpy as np
import pytest
import soundfile
import torch

from dragoman.commands.heard_language import HeardLanguages
from dragoman.commands.serving_options import ServingOptions
from dragoman.serving.batching import Job
from dragoman.serving.protection import Gate
from dragoman.serving.served import Served
from dragoman.serving.streamed import events
from dragoman.shared.batches.speech_field import SpeechField
from tests import small
from tests.dragoman.serving.test_libretranslate import SEARCH, figure

#: How the server of these tests treats sound.
SOUND = ["--keep-silence", "--maximum-seconds", "1"]


@pytest.fixture(scope="module")
def talks(tmp_path_factory):
    """Files of noise of several lengths; two are divided."""
    folder = tmp_path_factory.mktemp("talks")
    for number, seconds in enumerate([0.4, 2.3, 0.6, 0.9, 1.4, 0.5]):
        noise = np.random.default_rng(number).normal(0, 0.1, int(seconds * 16000))
        soundfile.write(folder / f"{number}.wav", noise, 16000)
    return sorted(folder.iterdir())


def sent(client, data, *, route="translations", name="talk.wav", **fields):
    fields = {"model": "talks"} | fields
    return client.post(f"/v1/audio/{route}", files={"file": (name, data)}, data=fields)


def by_command(dragoman, model, *arguments):
    code, output, messages = dragoman("translate", model, *SEARCH, *SOUND, *arguments)
    assert code == 0, messages
    return output


@pytest.mark.parametrize(("route", "text"), [("translations", "translation"), ("transcriptions", "transcript")])
def test_clients_at_once_get_what_the_command_writes(dragoman, talk_model, client, talks, route, text):
    output = by_command(dragoman, talk_model, "--writes", text, "--format", "json", *talks)
    expected = [json.loads(line)["segments"] for line in output.splitlines()]
    scores = sorted(segment["score"] for segments in expected for segment in segments)
    assert min(np.diff(scores)) > 4e-4  # each segment has its own, by which answers can be told apart
    with ThreadPoolExecutor(6) as clients:
        ask = partial(sent, client, route=route, response_format="verbose_json")
        answers = list(clients.map(lambda talk: ask(talk.read_bytes()).json()["segments"], talks))
    for found, segments in zip(answers, expected, strict=True):
        assert [one["text"] for one in found] == [one[text] for one in segments]
        assert [one["avg_logprob"] for one in found] == pytest.approx([one["score"] for one in segments], abs=2e-4)


@pytest.mark.parametrize("kind", ["srt", "vtt"])
def test_subtitles_are_those_of_the_command(dragoman, talk_model, client, talks, kind):
    expected = by_command(dragoman, talk_model, "--format", kind, talks[1])
    answer = sent(client, talks[1].read_bytes(), response_format=kind, to="de", language="en")
    assert answer.text == expected and expected.count("-->") == 3
    assert answer.headers["content-type"].startswith("text/")


def test_segments_have_their_times_and_texts(dragoman, talk_model, client, talks):
    expected = json.loads(by_command(dragoman, talk_model, "--format", "json", talks[1]))["segments"]
    answer = sent(client, talks[1].read_bytes(), response_format="verbose_json").json()
    assert (answer["task"], answer["language"], answer["duration"]) == ("translate", "de", 2.3)
    own = [(s["start"], s["end"], s["text"], s["avg_logprob"]) for s in answer["segments"]]
    assert own == [(s["start"], s["end"], s["translation"], pytest.approx(s["score"], abs=1e-4)) for s in expected]
    assert [s["id"] for s in answer["segments"]] == [0, 1, 2] and all(s["tokens"] for s in answer["segments"])
    text = sent(client, talks[1].read_bytes(), response_format="text")
    assert text.text == answer["text"] + "\n"
    transcript = sent(client, talks[0].read_bytes(), route="transcriptions", response_format="verbose_json").json()
    assert (transcript["task"], transcript["language"]) == ("transcribe", "en")


def test_segments_whose_texts_lack_their_ends_are_counted_and_marked(dragoman, talk_model, client, talks):
    _, _, messages = dragoman("translate", talk_model, *SEARCH, *SOUND, "--format", "srt", talks[1])
    [said] = [line for line in messages.splitlines() if "cut off at the maximum length" in line]
    times = re.findall(r"([\d.]+) to ([\d.]+) s", said)
    for kind in ("json", "text", "srt", "vtt", "verbose_json"):
        answer = sent(client, talks[1].read_bytes(), response_format=kind)
        assert answer.headers["X-Cut-Segments"] == str(len(times))
    told = [json.loads(line[6:]) for line in sent(client, talks[1].read_bytes(), stream="true").text.splitlines()[1::3]]
    streamed = [event for event in told if event["type"] == "transcript.text.segment"]
    for segments in (answer.json()["segments"], streamed):
        assert [(f"{one['start']:.2f}", f"{one['end']:.2f}") for one in segments if one.get("cut")] == times


@pytest.fixture(scope="module")
def ears(tmp_path_factory):
    """An untrained recogniser whose outputs begin with the language, English or French."""
    tokenizer = small.tokenizer(["abc def"], ("de", "en", "fr"))
    torch.manual_seed(2)
    model = small.translator(tokenizer, embeddings={"speech": small.speech_embedding()})
    output = small.text(tokenizer, "source", prefix=["<s>", "<{source_language}>"])
    options = {"output": output, "output_name": "transcript", "start_symbols": 2, "source_languages": ["en", "fr"]}
    folder = tmp_path_factory.mktemp("ears") / "model"
    small.system(tokenizer, model, inputs={"speech": SpeechField()}, **options).save(folder)
    return folder


def test_each_segment_has_its_own_language(dragoman, served, ears, talks, monkeypatch):
    """Languages are given to segments by their length, in place of the model's own choice."""

    def shares(self, system, batch):
        seconds = batch["speech"].lengths / 16000
        return [{"en": 0.9, "fr": 0.1} if one > 0.7 else {"en": 0.2, "fr": 0.8} for one in seconds.tolist()]

    monkeypatch.setattr(HeardLanguages, "probabilities", shares)
    with served([f"ears={ears}"]) as client:
        ask = partial(sent, client, route="transcriptions", model="ears", response_format="verbose_json")
        answers = [ask(talk.read_bytes(), language="auto").json() for talk in talks]
        named = {code: [ask(talk.read_bytes(), language=code).json() for talk in talks] for code in ("en", "fr")}
        codes = [[segment["source_language"] for segment in one["segments"]] for one in answers]
        assert codes[0] == ["fr"] and codes[3] == ["en"] and {"en", "fr"} == {*codes[1]}
        for number, (answer, own) in enumerate(zip(answers, codes, strict=True)):
            texts = [one["text"] for one in answer["segments"]]
            assert texts == [named[code][number]["segments"][n]["text"] for n, code in enumerate(own)]
            assert answer["language"] in own and "source_language" not in str(named["en"][number])
        whole = by_command(dragoman, ears, "--from", "auto", "--format", "text", *talks).splitlines()
        assert [line.split("\t")[-1] for line in whole] == [answer["text"] for answer in answers]
        streamed = told(ask(talks[1].read_bytes(), response_format="json", language="auto", stream="true"))
        assert streamed[-1]["text"] == answers[1]["text"]


def test_an_unknown_language_of_sound_is_said(served, ears, talks, monkeypatch):
    monkeypatch.setattr(HeardLanguages, "probabilities", lambda *_: [{"en": 0.4, "fr": 0.3, "de": 0.3}])
    with served([f"ears={ears}"]) as client:
        ask = partial(sent, client, talks[0].read_bytes(), route="transcriptions", model="ears")
        answer = ask(language="auto")
        said = "file at 0.00 s: the language is unknown (en is likely by 0.40;"
        assert answer.status_code == 400 and answer.json()["error"]["message"].startswith(said)
        assert ask(language="auto:fr").json() == ask(language="fr").json() != ask(language="en").json()
        assert "source language 'de' is unknown" in ask(language="auto:de").json()["error"]["message"]
        with client.websocket_connect("/v1/realtime?model=ears&language=auto") as socket:
            socket.receive_json()
            sound = base64.b64encode(bytes(4800)).decode()
            socket.send_json({"type": "input_audio_buffer.append", "audio": sound})
            message = socket.receive_json()["error"]["message"]
        assert message == "the language of live speech has to be named: it is not found out"


def test_a_model_that_cannot_tell_the_language_says_so(client, talks):
    answer = sent(client, talks[0].read_bytes(), language="auto")
    said = "talks: source language auto: outputs of this model do not begin with the language that is heard"
    assert answer.status_code == 400 and answer.json()["error"]["message"] == said


def test_other_formats_of_sound_are_read_and_what_changes_nothing_is_taken(client, talks):
    noise, rate = soundfile.read(talks[0])
    flac = io.BytesIO()
    soundfile.write(flac, noise, rate, format="FLAC")
    usual = {"temperature": "0", "stream": "false", "prompt": "", "timestamp_granularities[]": "segment"}
    answer = sent(client, flac.getvalue(), name="talk", model="auto", **usual)
    assert answer.json() == sent(client, talks[0].read_bytes()).json()


def told(answer):
    """Return the events of a stream."""
    assert answer.status_code == 200 and answer.headers["content-type"].startswith("text/event-stream")
    blocks = [block.split("\n") for block in answer.text.removesuffix("\n\n").split("\n\n")]
    events = [json.loads(data.removeprefix("data: ")) for _, data in blocks]
    assert [name for name, _ in blocks] == [f"event: {event['type']}" for event in events]
    return events


def test_a_stream_tells_each_segment_in_its_order(client, talks):
    ask = partial(sent, client, talks[1].read_bytes())
    events = told(ask(stream="true"))
    segments = [event for event in events if event["type"].endswith("segment")]
    own = [(one["start"], one["end"], one["text"], one["duration"]) for one in segments]
    expected = ask(response_format="verbose_json").json()
    assert own == [(s["start"], s["end"], s["text"], 2.3) for s in expected["segments"]] and len(own) == 3
    assert "".join(event["delta"] for event in events if event["type"].endswith("delta")) == expected["text"]
    assert events[-1] == {
        "type": "transcript.text.done",
        "text": expected["text"],
        "srt": ask(response_format="srt").text,
        "vtt": ask(response_format="vtt").text,
    }
    assert list(client.app.state.uploads.iterdir()) == []


def test_what_fails_in_a_stream_is_its_last_event(client, talks, monkeypatch, caplog):
    model = client.app.state.models.served["talks"]
    monkeypatch.setattr(model.batcher, "_translate", lambda how, rows: 1 / 0)
    *others, last = told(sent(client, talks[1].read_bytes(), stream="true"))
    assert others == [] and last["type"] == "error"
    assert last["error"] == {
        "message": "the server failed; its log says how",
        "type": "server_error",
        "param": None,
        "code": None,
    }
    assert list(client.app.state.uploads.iterdir()) == []
    assert caplog.records[-1].exc_info[0] is ZeroDivisionError


def test_a_client_that_leaves_a_stream_leaves_its_place_and_its_file(client, talks, monkeypatch):
    models = client.app.state.models
    task, codes = models.choose("speech", "translation", source=None, target=None)
    parts = models.parts_of_sound(talks[1], codes)
    gate = Gate(models, ServingOptions(requests=1), None, talks[1].parent)
    jobs, closed = [], []

    def one_at_a_time(model, task, rows, heard):
        jobs.append(Job(task, rows[:1], heard))  # the others never come
        model.batcher.submit(jobs[0])
        return jobs[0]

    monkeypatch.setattr(Served, "submit", one_at_a_time)
    monkeypatch.setattr(Job, "answer", lambda job, number, found: job._heard(number, found))

    async def leave():
        kept = ExitStack()
        kept.callback(closed.append, True)
        told = events(models, gate, task, parts, kept, "a client")
        assert "transcript.text.segment" in await anext(told) and gate.full and not closed
        await told.aclose()

    asyncio.run(leave())
    assert jobs[0].future.cancelled() and not gate.full and closed


def flac_bomb():
    """Return ten seconds of silence in a few hundred bytes."""
    data = io.BytesIO()
    soundfile.write(data, np.zeros(160_000), 16000, format="FLAC")
    assert len(data.getvalue()) < 10_000
    return data.getvalue()


@pytest.mark.parametrize(
    ("data", "fields", "status", "message"),
    [
        (b"", {}, 400, "file: not readable as sound (0 bytes"),
        (b"RIFF, and no more", {}, 400, "file: not readable as sound (17 bytes"),
        (b"#!/bin/sh\nrm -r /\n", {"name": "x.sh"}, 400, "file: not readable as sound"),
        (b"OggS" + bytes(500), {"name": "../../etc/x.ogg"}, 400, "file: not readable as sound"),
        (flac_bomb(), {}, 413, "the file has 10 seconds of sound, more than 3"),
        (bytes(200_000), {}, 413, "the request has more than 165,536 bytes"),
        (None, {}, 400, "file: the sound is missing"),
        (b"a", {"model": "gpt"}, 404, "no model is called 'gpt': there are text, talks"),
        (b"a", {"model": "text"}, 400, "no model called text reads speech and writes a translation"),
        (b"a", {"to": "fr"}, 400, "target language 'fr' is unknown to this system, which knows de"),
        (b"a", {"language": "xx"}, 400, "source language 'xx' is unknown"),
        (b"a", {"response_format": "xml"}, 400, "response_format must be one of json, text, srt, verbose_json, vtt"),
        (b"a", {"stream": "yes"}, 400, "stream must be true or false, not 'yes'"),
        (b"a", {"stream": "true", "response_format": "srt"}, 400, "a stream has no response_format srt, only json or"),
        (b"a", {"temperature": "0.7"}, 400, "temperature '0.7' is not supported"),
        (b"a", {"prompt": "Names: Ada"}, 400, "prompt 'Names: Ada' is not supported"),
        (b"a", {"timestamp_granularities[]": "word"}, 400, "'word' is not supported, only segment"),
        (b"a", {"path": "/etc/passwd"}, 400, "Unrecognized request argument supplied: path"),
        (b"a", {"file": "/etc/passwd"}, 400, "file: give one text"),
        (b"a", {"route": "transcriptions", "to": "de"}, 400, "Unrecognized request argument supplied: to"),
    ],
)
def test_hostile_uploads_are_errors_and_leave_nothing(client, talks, data, fields, status, message):
    if data is None:
        answer = client.post("/v1/audio/translations", data={"model": "talks"}, files={"other": b""})
        assert answer.status_code == 400
        answer = client.post("/v1/audio/translations", data={"model": "talks"})
    else:
        answer = sent(client, data, **fields)
    error = answer.json()["error"]
    assert (answer.status_code, {*error}) == (status, {"message", "type", "param", "code"}), error
    assert message in error["message"] and "/tmp" not in error["message"]
    assert error["code"] == ("model_not_found" if status == 404 else None)
    assert list(client.app.state.uploads.iterdir()) == []


def test_after_all_of_it_the_server_goes_on(client, talks):
    assert sent(client, b"no sound").status_code == 400
    assert sent(client, talks[0].read_bytes()).status_code == 200
    assert list(client.app.state.uploads.iterdir()) == []


def test_silence_is_not_shown_to_the_model(served, talk_model):
    silence = io.BytesIO()
    soundfile.write(silence, np.zeros(8000), 16000, format="WAV")
    with served([f"talks={talk_model}"], keep_silence=False) as client:
        answer = sent(client, silence.getvalue(), response_format="verbose_json").json()
        assert (answer["text"], answer["duration"], len(answer["segments"])) == ("", 0.5, 1)
        assert sent(client, silence.getvalue(), response_format="srt").text == ""
        segment, done = told(sent(client, silence.getvalue(), stream="true"))
        assert (segment["text"], segment["end"], done["text"]) == ("", 0.5, "")
        assert figure(client, r"work_seconds_total\{.*\}") == 0


def test_models_are_listed(client):
    listed = client.get("/v1/models").json()["data"]
    assert [one["id"] for one in listed] == ["text", "talks"]
    assert [task["writes"] for task in listed[1]["tasks"]] == ["translation", "transcript"]
    assert client.get("/v1/models/talks").json() == listed[1]
    answer = client.get("/v1/models/nobody")
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "model_not_found")


def test_a_key_is_asked_for_before_anything_is_read(served):
    with served(keys=["key"]) as client:
        for headers in ({}, {"authorization": "Bearer no"}, {"authorization": "Basic key"}, {"authorization": "key"}):
            answer = client.post("/v1/audio/translations", headers=headers, content=iter([b"never read"]))
            assert answer.status_code == 401 and answer.headers["www-authenticate"] == "Bearer"
            assert answer.json()["error"]["code"] == "invalid_api_key"
        assert client.get("/v1/models").status_code == 401
        assert client.get("/v1/models", headers={"authorization": "bearer key"}).status_code == 200
