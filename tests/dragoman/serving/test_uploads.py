"""Uploads are decoded in a process of their own, which a hostile file may end."""

import io
import os
import signal
import time

import numpy as np
import pytest
import soundfile

from dragoman.serving.uploads import MEMORY, Decoder, KilledError, TooLongError, rewrite
from dragoman.shared.errors import DataError
from dragoman.shared.sound.audio import read_audio
from tests.dragoman.serving.test_openai import sent


@pytest.fixture(scope="module")
def decoder():
    decoder = Decoder(60.0)
    yield decoder
    decoder.close()


def noise(seconds, rate=16000, channels=1):
    return np.random.default_rng(3).normal(0, 0.1, (int(seconds * rate), channels))


@pytest.mark.parametrize(("format", "rate", "channels"), [("WAV", 16000, 1), ("FLAC", 44100, 2), ("OGG", 48000, 1)])
def test_what_is_read_is_what_was_sent(decoder, tmp_path, format, rate, channels):
    path, plain = str(tmp_path / f"a.{format.lower()}"), str(tmp_path / "plain.wav")
    soundfile.write(path, noise(1.3, rate, channels), rate, format=format)
    decoder.run(rewrite, path, plain, 2.0)
    for segment in ((0.0, None), (0.31, 0.5)):
        np.testing.assert_array_equal(read_audio(plain, *segment), read_audio(path, *segment))
    with pytest.raises(TooLongError, match="the file has 1 seconds of sound, more than 1"):
        decoder.run(rewrite, path, plain, 1.0)


def test_what_ends_the_process_is_one_uploads_fault(decoder):
    with pytest.raises(DataError, match="the process that read it ended"):
        decoder.run(os._exit, 1)
    assert decoder.run(abs, -2) == 2
    with pytest.raises(DataError, match="needs more memory than an upload may"):
        decoder.run(bytes, MEMORY)
    with pytest.raises(DataError, match=r"could not be read \(TypeError\)"):
        decoder.run(abs, "x")
    first = decoder._process.pid
    decoder._seconds = 0.2
    with pytest.raises(DataError, match=r"could not be read within 0\.2 seconds"):
        decoder.run(time.sleep, 30)
    decoder._seconds = 60.0
    assert decoder.run(os.getpid) != first


@pytest.mark.parametrize(
    ("number", "error"),
    [("SIGSEGV", DataError), ("SIGABRT", DataError), ("SIGKILL", KilledError), ("SIGTERM", KilledError)],
)
def test_who_ends_the_process_is_told_by_the_signal(decoder, number, error):
    """A broken file may crash a library; only somebody outside sends the others."""
    said = "the file could not be read: the process that read it ended"
    with pytest.raises(error, match=f"^{said}$"):
        decoder.run(signal.raise_signal, getattr(signal, number))
    assert decoder.run(abs, -2) == 2


@pytest.mark.slow
def test_a_hundred_broken_files_do_not_end_the_server(client):
    """Bytes of good files are changed, cut off and put together anew; whatever comes of it, each is answered."""
    rng = np.random.default_rng(7)
    good = []
    for format in ("WAV", "FLAC", "OGG", "MP3", "AIFF", "W64"):
        data = io.BytesIO()
        soundfile.write(data, noise(0.4), 16000, format=format)
        good.append(np.frombuffer(data.getvalue(), np.uint8))
    answers = []
    for number in range(100):
        data = good[number % len(good)].copy()
        places = rng.integers(0, min(len(data), 400 if number % 2 else len(data)), rng.integers(1, 40))
        data[places] = rng.integers(0, 256, len(places))
        cut = data[: rng.integers(1, len(data))] if number % 3 == 0 else data
        answer = sent(client, cut.tobytes(), name=f"x.{('wav', 'flac', 'ogg', 'mp3', 'aiff', 'w64')[number % 6]}")
        assert answer.status_code in (200, 400, 413), answer.text
        answers.append(answer.status_code)
    assert {200, 400} <= {*answers}
    assert sent(client, bytes(100)).status_code == 400
    assert list(client.app.state.uploads.iterdir()) == []
