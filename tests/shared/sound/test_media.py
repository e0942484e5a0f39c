"""Films and m4a: the arithmetic with a decoder that stands in for torchcodec's, and torchcodec itself where it is."""

import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import soundfile
import torch

from dragoman.shared.errors import DataError
from dragoman.shared.sound.audio import levels, probe, read_audio
from dragoman.shared.sound.media import MediaSound, is_media
from dragoman.shared.sound.pauses import file_segments
from dragoman.shared.systems.inputs import sound_rows
from tests.small import refusal, refuses

RATE = 22050


class Decoder:
    """Decodes wav as torchcodec decodes anything: samples of a range of seconds, with the time of the first.

    Like torchcodec's, it decodes from the beginning whatever is not behind the range before; ``decoded`` counts that.
    """

    late = 0.0
    in_header = True
    decoded = 0.0

    def __init__(self, source):
        values, rate = soundfile.read(source, dtype="float32", always_2d=True)
        self.data, self.rate = torch.from_numpy(values.T.copy()), rate
        self.at = 0.0
        seconds = values.shape[0] / rate
        self.metadata = SimpleNamespace(
            sample_rate=rate,
            num_channels=values.shape[1],
            begin_stream_seconds=self.late,
            duration_seconds=seconds if self.in_header else seconds + self.late,
            duration_seconds_from_header=seconds if self.in_header else None,
        )

    def get_samples_played_in_range(self, start, stop):
        type(self).decoded += stop - (self.at if start >= self.at else 0.0)
        self.at = stop
        begin = max(start, self.late)
        first, last = (round((time - self.late) * self.rate) for time in (begin, max(stop, begin)))
        return SimpleNamespace(data=self.data[:, first:last], pts_seconds=begin)


@pytest.fixture
def films(tmp_path, monkeypatch):
    """The same sound as a wav, and under an ending that the stand-in decodes."""
    module = ModuleType("torchcodec.decoders")
    module.AudioDecoder = Decoder
    monkeypatch.setitem(sys.modules, "torchcodec", ModuleType("torchcodec"))
    monkeypatch.setitem(sys.modules, "torchcodec.decoders", module)
    time = np.arange(9 * RATE) / RATE
    noise = np.random.default_rng(0).uniform(-0.4, 0.4, (len(time), 2)) * (time % 3 < 2.4)[:, None]
    soundfile.write(tmp_path / "a.wav", noise, RATE)
    (tmp_path / "a.m4a").write_bytes((tmp_path / "a.wav").read_bytes())
    return tmp_path / "a.wav", tmp_path / "a.m4a"


@pytest.mark.parametrize("segment", [(0.0, None), (0.0, 2.5), (3.21, 1.0), (8.5, 0.52)])
def test_the_sound_of_a_film_is_that_of_the_wav(films, segment):
    wav, film = films
    np.testing.assert_array_equal(read_audio(film, *segment), read_audio(wav, *segment))


def test_a_film_is_measured_and_divided_as_the_wav_is(films):
    wav, film = films
    assert probe(film) == probe(wav) == 9.0
    assert levels(film, 1.0, 2.0) == levels(wav, 1.0, 2.0)
    assert file_segments(film, maximum=4.0) == file_segments(wav, maximum=4.0)
    rows, own = (sound_rows(path, file_segments, 4.0) for path in (film, wav))
    assert [row["start"] for row in rows] == [row["start"] for row in own] and len(rows) >= 3


def test_the_segments_of_a_film_cost_its_length_and_not_the_square_of_it(films, monkeypatch):
    wav, film = films
    monkeypatch.setattr(Decoder, "decoded", 0.0)
    rows = sound_rows(film, file_segments, 1.0)
    backwards = sorted(rows, key=lambda row: -row["start"])  # a batch takes segments by length, in any order
    assert len(rows) >= 9
    for row in backwards:
        segment = row["start"], row["duration"]
        np.testing.assert_array_equal(read_audio(film, *segment), read_audio(wav, *segment))
    np.testing.assert_array_equal(read_audio(film), read_audio(wav))
    assert Decoder.decoded <= 2 * 9.1  # to measure it, and to keep its sound; each segment by itself takes above 40 s


def test_a_film_that_has_changed_is_decoded_anew(films):
    wav, film = films
    before = [read_audio(film, 0.0, 1.0) for _ in range(3)]
    np.testing.assert_array_equal(before[2], before[0])
    values, rate = soundfile.read(wav)
    soundfile.write(wav, -values[: 5 * RATE], rate)
    film.write_bytes(wav.read_bytes())
    for _ in range(3):
        np.testing.assert_array_equal(read_audio(film, 0.0, 1.0), read_audio(wav, 0.0, 1.0))
    assert probe(film) == 5.0


def test_a_full_folder_for_what_is_decoded_is_said(films, monkeypatch):
    def full():
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.TemporaryFile", full)
    read_audio(films[1], 0.0, 1.0)
    said = r"a\.m4a: cannot be decoded into .*No space left on device; see TMPDIR"
    refuses(DataError, said, read_audio, films[1], 0.0, 1.0)


@pytest.mark.parametrize("in_header", [True, False])
def test_sound_that_begins_late_keeps_its_time(films, monkeypatch, in_header):
    wav, film = films
    monkeypatch.setattr(Decoder, "late", 1.5)
    monkeypatch.setattr(Decoder, "in_header", in_header)
    assert probe(film) == pytest.approx(10.5)
    whole = read_audio(film, 0.0, 4.0)
    assert not whole[: int(1.4 * 16000)].any()
    np.testing.assert_allclose(read_audio(film, 2.0, 1.0), read_audio(wav, 0.5, 1.0), atol=1e-6)


class WithoutFfmpeg:
    def find_spec(self, name, path=None, target=None):
        if name == "torchcodec":
            raise RuntimeError("Could not load libtorchcodec")


def test_missing_libraries_of_ffmpeg_are_said(tmp_path, monkeypatch):
    (tmp_path / "a.webm").write_bytes(b"nothing")
    for name in [name for name in sys.modules if name.partition(".")[0] == "torchcodec"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [WithoutFfmpeg(), *sys.meta_path])
    said = "a.webm: torchcodec is installed, but cannot be loaded: it needs FFmpeg"
    refuses(DataError, said, read_audio, tmp_path / "a.webm")


@pytest.mark.parity
@pytest.mark.parametrize("ending", ["m4a", "mp4"])
def test_torchcodec_gives_back_what_it_encoded(tmp_path, ending):
    try:
        from torchcodec.encoders import AudioEncoder
    except (ImportError, OSError, RuntimeError) as error:
        pytest.skip(f"torchcodec cannot be loaded: {str(error)[:60]}")
    rate = 48000
    time = np.arange(20 * rate) / rate
    sweep = (0.4 * np.sin(2 * np.pi * (150 + 20 * time) * time) * (time % 4 < 3.2)).astype("float32")
    path = tmp_path / f"a.{ending}"
    AudioEncoder(torch.from_numpy(sweep)[None], sample_rate=rate).to_file(str(path))
    soundfile.write(tmp_path / "a.wav", sweep, rate)
    assert probe(path) == pytest.approx(20.0, abs=0.05)
    for start, duration in ((0.0, 3.0), (7.3, 2.0), (16.0, 3.5)):
        found, wanted = read_audio(path, start, duration), read_audio(tmp_path / "a.wav", start, duration)
        assert len(found) == len(wanted)
        lags = {lag: np.corrcoef(found[800 + lag : -800 + lag], wanted[800:-800])[0, 1] for lag in range(-40, 41)}
        best = max(lags, key=lags.get)
        assert lags[best] > 0.98 and abs(best) <= 32  # 2 ms
    cuts = [start for start, _ in file_segments(path, maximum=9.0)][1:]
    assert cuts and all(3.2 <= cut % 4 <= 4.0 for cut in cuts)
    assert not read_audio(path, 3.3, 0.5).max() > 0.02


@pytest.mark.parametrize(("name", "value"), [("sample_rate", 0), ("num_channels", None), ("duration_seconds", 0.0)])
def test_a_film_that_does_not_say_what_it_holds(films, monkeypatch, name, value):
    class Silent(Decoder):
        def __init__(self, source):
            super().__init__(source)
            setattr(self.metadata, name, value)

    monkeypatch.setattr(sys.modules["torchcodec.decoders"], "AudioDecoder", Silent)
    complaint = refusal(DataError, MediaSound, films[1])
    assert complaint == f"{films[1]}: does not say its sampling rate, channels and duration"


def test_films_that_are_none_are_named(films, tmp_path, monkeypatch):
    complaint = refusal(DataError, MediaSound, tmp_path / "none.mp4")
    assert complaint == f"{tmp_path / 'none.mp4'}: there is no such sound file"
    (tmp_path / "folder.mp4").mkdir()
    refuses(DataError, "folder.mp4: a folder, not a sound file$", MediaSound, tmp_path / "folder.mp4")

    def broken(path):
        raise RuntimeError("no\n  stream")

    monkeypatch.setattr(sys.modules["torchcodec.decoders"], "AudioDecoder", broken)
    assert refusal(DataError, MediaSound, films[1]) == f"{films[1]}: not readable as sound (no stream)"


def test_a_decoder_that_breaks_off_says_where(films, monkeypatch):
    def breaks(self, start, stop):
        raise ValueError("bad packet")

    sound = MediaSound(films[1])
    monkeypatch.setattr(Decoder, "get_samples_played_in_range", breaks)
    sound.seek(3 * RATE)
    assert refusal(DataError, sound.read, 100) == f"{films[1]}: broken sound at 3.00 s (bad packet)"
    sound.seek(sound.frames - 10)  # of a promised end that is not there, nothing is missed
    assert sound.read(100).shape == (0, 2)
    assert sound.read(0).shape == (0, 2)


def test_a_film_is_read_on_and_at_places(films):
    wav, film = films
    expected, _ = soundfile.read(wav, dtype="float32", always_2d=True)
    with MediaSound(film) as sound:
        assert (sound.samplerate, sound.channels, sound.frames, sound.format, sound.subtype) == (
            RATE, 2, 9 * RATE, "MEDIA", "",
        )  # fmt: skip
        parts = []
        while len(part := sound.read(RATE // 2)):
            parts.append(part)
            assert sound.tell() == sum(map(len, parts))
        np.testing.assert_array_equal(np.concatenate(parts), expected)
        sound.seek(100)
        assert sound.tell() == 100
        np.testing.assert_array_equal(sound.read(50), expected[100:150])
    assert is_media("a.MP4") and not is_media("a.wav") and not is_media("mp4")


def test_without_the_library_its_extra_is_named(tmp_path, monkeypatch):
    (tmp_path / "a.m4a").touch()
    monkeypatch.setitem(sys.modules, "torchcodec.decoders", None)
    monkeypatch.setitem(sys.modules, "torchcodec", None)
    complaint = refusal(DataError, MediaSound, tmp_path / "a.m4a")
    assert complaint == (f"{tmp_path / 'a.m4a'}: needs torchcodec and FFmpeg: pip install 'dragoman[media]'")
    monkeypatch.setitem(sys.modules, "torchcodec", ModuleType("torchcodec"))
    monkeypatch.setitem(sys.modules, "torchcodec.decoders", ModuleType("torchcodec.decoders"))
    said = "torchcodec is installed, but cannot be loaded: it needs FFmpeg's shared"
    refuses(DataError, said, MediaSound, tmp_path / "a.m4a")
