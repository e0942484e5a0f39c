"""A server at a port: both protocols' own clients talk to it, and it ends when it is told to."""

import base64
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.error
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests import small
from tests.conftest import IMPORT_PATH
from tests.dragoman.serving.test_libretranslate import SEARCH, figure
from tests.dragoman.serving.test_realtime import pcm, streamed

uvicorn = pytest.importorskip("uvicorn")
openai = pytest.importorskip("openai")
libretranslatepy = pytest.importorskip("libretranslatepy")
httpx = pytest.importorskip("httpx2")


@pytest.fixture
def address(serving):
    with serving(keys=["let me in"]) as address:
        yield address


@pytest.mark.parametrize(
    ("path", "kind"),
    [("/", "html"), ("/page.css", "css"), ("/page.js", "javascript"), ("/recorder.js", "javascript")],
)
def test_the_page_names_no_other_server(client, path, kind):
    answer = client.get(path)
    assert answer.status_code == 200 and answer.headers["content-type"].startswith(f"text/{kind}")
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "//" not in re.sub(r"(?m)^\s*// .*|; // .*", "", answer.text).replace("<!--", "")


def test_a_client_of_libretranslate(address):
    client = libretranslatepy.LibreTranslateAPI(address, "let me in")
    assert client.translate("one two", "en", "de") == "zwei eins"
    assert client.languages() == [{"code": "en", "name": "English", "targets": ["de"]}]
    assert client.detect("The train leaves at nine in the morning.")[0]["language"] == "en"
    with pytest.raises(urllib.error.HTTPError, match="400"):
        client.translate("one two", "en", "fr")
    with pytest.raises(urllib.error.HTTPError, match="403"):
        libretranslatepy.LibreTranslateAPI(address, "let me out").translate("one two", "en", "de")


def test_a_client_of_openai_who_is_heard_live(address, talk_model):
    data = pcm(0.9)
    client = openai.OpenAI(base_url=f"{address}/v1", api_key="let me in", max_retries=0)
    with client.realtime.translations.connect(model="talks", extra_query={"language": "en"}) as connection:
        assert connection.recv().session.audio.output.language == "de"
        connection.session.input_audio_buffer.append(audio=base64.b64encode(data).decode())
        connection.session.close()
        heard = [event for event in connection if event.type == "session.output_transcript.delta"]
    assert ["".join(event.delta for event in heard)] == streamed(talk_model, data)
    query = {"intent": "transcription", "language": "en"}
    with client.realtime.connect(model="talks", extra_query=query) as connection:
        assert connection.recv().session.type == "transcription"
        connection.input_audio_buffer.append(audio=base64.b64encode(data).decode())
        connection.input_audio_buffer.commit()
        while (event := connection.recv()).type != "conversation.item.input_audio_transcription.completed":
            assert event.type != "error", event
    assert [event.transcript] == streamed(talk_model, data, writes="transcript")


def test_a_client_of_openai(address, dragoman, talk_model, tmp_path, write_sound):
    write_sound(tmp_path / "talk.wav")
    expected = dragoman("translate", talk_model, *SEARCH, "--keep-silence", "--format", "srt", tmp_path / "talk.wav")[1]
    client = openai.OpenAI(base_url=f"{address}/v1", api_key="let me in", max_retries=0)
    assert [model.id for model in client.models.list()] == ["text", "talks"]
    audio, ask = client.audio, {"model": "talks", "file": tmp_path / "talk.wav"}
    create = audio.translations.with_raw_response.create
    assert create(**ask, response_format="srt", extra_body={"to": "de"}).text == expected
    verbose = audio.transcriptions.create(**ask, response_format="verbose_json", language="en")
    assert (verbose.language, verbose.duration, verbose.segments[0].text) == ("en", 0.5, verbose.text)
    streamed = [event for event in audio.transcriptions.create(**ask, language="en", stream=True)]
    assert "".join(event.delta for event in streamed if event.type == "transcript.text.delta") == verbose.text
    assert streamed[-1].type == "transcript.text.done" and streamed[-1].text == verbose.text
    with pytest.raises(openai.NotFoundError, match="no model is called 'whisper-1'"):
        audio.transcriptions.create(model="whisper-1", file=b"sound")
    with pytest.raises(openai.BadRequestError, match="not readable as sound"):
        audio.transcriptions.create(model="talks", file=b"no sound")
    with pytest.raises(openai.AuthenticationError):
        client.with_options(api_key="let me out").models.list()


def test_half_a_request_stops_nobody(address):
    host, port = address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as broken:
        broken.sendall(b"POST /translate HTTP/1.1\r\nHost: here\r\nContent-Length: 100\r\n\r\nq=")
        client = libretranslatepy.LibreTranslateAPI(address, "let me in")
        assert client.translate("one two", "en", "de") == "zwei eins"


@pytest.mark.slow
def test_a_process_answers_what_it_has_taken_before_it_ends(tmp_path):
    """The line waits for others for longer than dragoman's own patience with a process that was told to stop."""
    command = [sys.executable, "-m", "dragoman", "serve", f"text={small.GOLDEN}", "--port", "0", "--batch-wait", "4000"]
    environment = os.environ | {"PYTHONPATH": IMPORT_PATH, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        line = process.stdout.readline()
        assert line.startswith("serving text at http://127.0.0.1:"), line
        texts = libretranslatepy.LibreTranslateAPI(line.split()[-1])
        with httpx.Client(base_url=texts.url) as web, ThreadPoolExecutor(1) as others:
            answer = others.submit(texts.translate, "one two", "en", "de")
            while not figure(web, r'waiting_rows\{model="text"\}'):
                assert not answer.done()
            process.send_signal(signal.SIGTERM)
            assert answer.result(300) == "zwei eins"
        assert process.wait(60) == 0 and process.stdout.read() == "" and not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["a=nowhere"], 1, "nowhere"),
        ([small.GOLDEN, small.GOLDEN], 2, "two models are called model: give NAME=FOLDER"),
        ([f"auto={small.GOLDEN}"], 2, "'auto' cannot be the name of a model"),
        ([small.GOLDEN, "--sample"], 2, "--sample does not apply to serve"),
        ([small.GOLDEN, "--keys", os.devnull], 1, "holds no key"),
        ([small.GOLDEN, "--deadline", "0"], 2, "--deadline must be a number above 0"),
        ([small.GOLDEN, "--host", "192.0.2.1"], 1, "--host 192.0.2.1 --port 0: Cannot assign requested address"),
    ],
)
def test_a_server_that_cannot_start_says_why(dragoman, arguments, code, message):
    found, output, messages = dragoman("serve", *arguments, "--port", "0")
    assert (found, output) == (code, "") and message in messages, messages


def test_a_port_that_is_taken_is_named(dragoman):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        code, _, messages = dragoman("serve", small.GOLDEN, "--port", port)
    assert code == 1 and f"--port {port}: Address already in use" in messages


#: Limits files to what is given, lets a server have what it needs, and opens files until no more are allowed.
OPENING = """
import os, resource, sys
from dragoman.commands.serving_options import ServingOptions
from dragoman.serving.server import allow_files
resource.setrlimit(resource.RLIMIT_NOFILE, (100, int(sys.argv[1])))
allow_files(ServingOptions(readers=int(sys.argv[2])))
count = 0
try:
    while count < 3000:
        os.dup(0)
        count += 1
except OSError:
    pass
print(count)
"""


@pytest.mark.parametrize(("most", "readers", "opened"), [(2000, 1000, 1500), (500, 1000, 480), (2000, 0, 500)])
def test_files_for_all_readers_are_allowed_or_missed_with_both_numbers(most, readers, opened):
    run = subprocess.run([sys.executable, "-c", OPENING, str(most), str(readers)], capture_output=True, text=True)
    assert run.returncode == 0 and int(run.stdout) > opened
    wanted = readers + 8 + 5 * 64 + 200
    said = f"--readers 1000, --live 8 and --requests 64 may need {wanted:,} open files, and the system allows 500"
    assert said in run.stderr if most < wanted else not run.stderr
