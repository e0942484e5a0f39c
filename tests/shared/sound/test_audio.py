"""Reading sound against known sines, soundfile on whole files, and torchaudio's functional resampling."""

import io
import math

import numpy as np
import pytest
import soundfile
import torch
import torchaudio

from dragoman.shared.errors import DataError
from dragoman.shared.sound import audio
from dragoman.shared.sound.audio import END_TOLERANCE, SAMPLE_RATE, clip_duration, levels, probe, read_audio, samples
from tests.small import refuses

FORMATS = {
    "wav": {},
    "flac": {},
    "ogg": {"format": "OGG", "subtype": "VORBIS"},
    "mp3": {"format": "MP3", "subtype": "MPEG_LAYER_III"},
}


def tone(seconds, rate, frequency=440.0):
    """Return a sine of amplitude 0.5."""
    return (0.5 * np.sin(2 * np.pi * frequency * np.arange(round(seconds * rate)) / rate)).astype(np.float32)


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(0.0, 0), (1.0, 16000), (0.00003125, 1), (0.0000312, 0), (0.00009375, 2), (1.23456, 19753), (3599.99, 57599840)],
)
def test_rounding(seconds, expected):
    """Seconds become the nearest sample; halves go up (to 1 and 2 here), not to even."""
    assert samples(seconds) == expected


def test_whole_and_segment_are_exact(tmp_path):
    """At 16 kHz mono a segment is the same samples as in the whole file."""
    noise = np.random.default_rng(0).uniform(-1, 1, 16000).astype(np.float32)
    soundfile.write(tmp_path / "a.wav", noise, 16000, subtype="FLOAT")
    np.testing.assert_array_equal(read_audio(tmp_path / "a.wav"), noise)
    segment = read_audio(str(tmp_path / "a.wav"), 0.25, 0.5)
    assert segment.dtype == np.float32
    np.testing.assert_array_equal(segment, noise[4000:12000])
    np.testing.assert_array_equal(read_audio(tmp_path / "a.wav", 0.5), noise[8000:])


@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize("rate", [8000, 16000, 22050, 44100, 48000])
@pytest.mark.parametrize("channels", [1, 2])
def test_any_format(tmp_path, suffix, rate, channels):
    """A stereo tone (louder left than right) at any rate in any format comes back as its mean at 16 kHz."""
    left = tone(1.0, rate)
    content = left if channels == 1 else np.stack([left * 1.5, left * 0.5], axis=1)
    path = tmp_path / f"a.{suffix}"
    soundfile.write(path, content, rate, **FORMATS[suffix])
    assert probe(path) == pytest.approx(1.0, abs=0.08)  # mp3 and ogg pad to their frames
    waveform = read_audio(path, 0.25, 0.5)
    assert waveform.shape == (8000,)
    # phase and amplitude by projection on sine and cosine, away from the edges of the resampler
    time = np.arange(8000)[800:-800] / SAMPLE_RATE
    basis = np.exp(-2j * np.pi * 440.0 * time)
    measured = 2 * np.mean(waveform[800:-800] * basis)
    assert abs(measured) == pytest.approx(0.5, abs=0.03)
    if suffix in ("wav", "flac"):
        expected = np.exp(1j * (2 * np.pi * 440.0 * samples(0.25, rate) / rate - np.pi / 2))
        assert np.angle(measured / expected) == pytest.approx(0, abs=0.02)


@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize("rate", [16000, 22050])
def test_segments_equal_the_whole(tmp_path, suffix, rate):
    """Seeking inside a compressed file gives what decoding from its start gives (mp3 frames lean on earlier ones)."""
    path = tmp_path / f"a.{suffix}"
    soundfile.write(path, tone(10.0, rate), rate, **FORMATS[suffix])
    whole, _ = soundfile.read(path, dtype="float32")
    for start in (0.0, 0.3, 4.987, 8.1, 9.4):
        segment = whole[samples(start, rate) : samples(start, rate) + rate // 2]
        expected = torchaudio.functional.resample(torch.from_numpy(segment), rate, 16000).numpy()
        found = read_audio(path, start, 0.5)
        np.testing.assert_allclose(found[:7900], expected[:7900], atol=1e-5)
        with torch.autocast("cpu", dtype=torch.bfloat16):  # of the model that reads it
            np.testing.assert_array_equal(read_audio(path, start, 0.5), found)


@pytest.mark.parametrize("rate", [8000, 11025, 16000, 22050, 32000, 44100, 48000])
def test_length_is_that_of_the_rounding_function(tmp_path, rate):
    soundfile.write(tmp_path / "a.wav", tone(2.0, rate), rate)
    rng = np.random.default_rng(rate)
    for _ in range(40):
        start, duration = rng.uniform(0, 1.0), rng.uniform(0.01, 0.9)
        assert len(read_audio(tmp_path / "a.wav", start, duration)) == samples(duration), (start, duration)
    assert len(read_audio(tmp_path / "a.wav")) == 32000


def test_values_stay_within_one(tmp_path):
    soundfile.write(tmp_path / "a.wav", np.array([2.0, -3.0, 0.5] * 100, np.float32), 16000, subtype="FLOAT")
    assert np.abs(read_audio(tmp_path / "a.wav")).max() == 1.0


def test_segment_past_the_end(tmp_path):
    """Up to the tolerance a segment is cut at the end; beyond it is an error with the numbers."""
    path = tmp_path / "a.wav"
    soundfile.write(path, tone(1.0, 16000), 16000)
    assert len(read_audio(path, 0.5, 0.5 + END_TOLERANCE * 0.9)) == 8000
    with pytest.raises(DataError, match=r"a\.wav: the segment 0\.500 to 1\.100 s runs past the end \(1\.000 s\)"):
        read_audio(path, 0.5, 0.6)
    refuses(DataError, r"nothing at 1 s \(the file has 1\.000 s\)", read_audio, path, 1.0, 0.01)
    refuses(DataError, "nothing at 7 s", read_audio, path, 7.0)
    for start, duration in ((-0.1, 0.5), (math.nan, 0.5), (0.1, 0.0), (0.1, -1.0), (0.1, math.inf)):
        refuses(DataError, "segment", read_audio, path, start, duration)


def test_clip_duration():
    assert clip_duration("a", 0.5, 0.25, 1.0) == 0.25
    assert clip_duration("a", 0.5, None, 1.0) == 0.5
    assert clip_duration("a", 0.5, 0.52, 1.0) == 0.5
    for start, duration in ((0.5, 0.56), (1.0, 0.01), (1.5, None), (0.5, 0.0), (-1.0, 0.5)):
        refuses(DataError, "a: ", clip_duration, "a", start, duration, 1.0)


@pytest.mark.parametrize("suffix", FORMATS)
def test_cut_off_files(tmp_path, suffix):
    path = tmp_path / f"a.{suffix}"
    soundfile.write(path, np.random.default_rng(0).uniform(-0.5, 0.5, 64000), 16000, **FORMATS[suffix])
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    for function in (probe, read_audio):
        with pytest.raises(DataError, match=rf"a\.{suffix}: ") as caught:
            function(path)
        assert "\n" not in str(caught.value)
    refuses(DataError, rf"a\.{suffix}: ", read_audio, path, 3.0, 0.5)
    if suffix == "wav":
        assert len(read_audio(path, 0.5, 0.5)) == 8000, "what is there can be read"


def page(end, flags=0, size=30):
    return b"OggS\0" + bytes([flags]) + end.to_bytes(8, "little", signed=True) + bytes(size - 14)


@pytest.mark.parametrize(
    ("content", "ends"),
    [
        (page(1000, 4), (0, 1000)),
        (page(1000, 5) + bytes(99), (0, 1000)),  # flags beside that of the end
        (page(700) + page(1000, 4), (700, 1000)),
        (page(-1) + page(1000, 4), (0, 1000)),  # no sample ends on the page before
        (page(700, 4) + page(1000), (700, 0)),  # not the last page
        (page(700, 4) + page(1000, 3), (700, 0)),
        (page(700) + page(1000, 4, size=14), (700, 1000)),
        (page(700) + page(1000, 4)[:13], (700, 0)),
        (page(700) + page(1000, 4)[:5], (700, 0)),
        (b"x" * 99, (0, 0)),
        (b"xxxx\x04" * 99, (0, 0)),
        (b"", (0, 0)),
        (page(700) + bytes(200_000) + page(1000, 4), (0, 1000)),  # too far before
        (page(1000, 4) + bytes(200_000), (0, 0)),
    ],
)
def test_the_last_pages_of_an_ogg_by_hand(tmp_path, content, ends):
    (tmp_path / "a.ogg").write_bytes(content)
    assert audio._last_pages(tmp_path / "a.ogg") == ends


def test_an_ogg_that_ends_between_two_pages_is_cut_off(tmp_path):
    path = tmp_path / "a.ogg"
    soundfile.write(path, np.random.default_rng(0).uniform(-0.5, 0.5, 64000), 16000, **FORMATS["ogg"])
    content = path.read_bytes()
    path.write_bytes(content[: content.rindex(b"OggS")])
    refuses(DataError, r"a\.ogg: cut off: the last of its \d+ bytes", probe, path)


def test_streamed_wav(tmp_path):
    path = tmp_path / "a.wav"
    soundfile.write(path, tone(1.0, 16000), 16000)
    data = bytearray(path.read_bytes())
    position = data.index(b"data") + 4
    data[position : position + 4] = b"\xff\xff\xff\xff"
    data[4:8] = b"\xff\xff\xff\xff"
    path.write_bytes(bytes(data))
    assert probe(path) == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize("suffix", FORMATS)
def test_unreadable(tmp_path, suffix):
    path = tmp_path / f"a.{suffix}"
    for function in (probe, read_audio):
        path.unlink(missing_ok=True)
        refuses(DataError, "no such sound file", function, path)
        path.write_bytes(b"")
        refuses(DataError, rf"a\.{suffix}: .*0 bytes", function, path)
        path.write_bytes(b"<html>not found</html>" * 50)
        refuses(DataError, rf"a\.{suffix}: ", function, path)


def test_no_samples(tmp_path):
    soundfile.write(tmp_path / "a.wav", np.zeros(0), 16000)
    for function in (probe, read_audio):
        refuses(DataError, "holds no samples", function, tmp_path / "a.wav")


@pytest.mark.parametrize("rate", [44101, 15999, 1, 999, 2**31 - 1])
def test_rates_that_would_fill_the_memory(tmp_path, rate):
    """A filter from 44,101 Hz to 16,000 would have 700 million numbers; found by the fuzz test."""
    soundfile.write(tmp_path / "a.wav", np.zeros(2000), rate)
    for read in (read_audio, probe):
        refuses(DataError, f"a.wav: a sampling rate of {rate} Hz", read, tmp_path / "a.wav")


@pytest.mark.parametrize("rate", [1000, 8000, 11025, 22050, 44056, 44100, 47952, 96000, 192000, 768000])
def test_rates_of_sound_cards(tmp_path, rate):
    soundfile.write(tmp_path / "a.wav", np.zeros(2000), rate)
    assert len(read_audio(tmp_path / "a.wav")) == math.ceil(2000 * 16000 / rate)


@pytest.mark.parametrize("subtype", ["VORBIS", "OPUS"])
def test_long_ogg_is_entered_in_the_middle(tmp_path, subtype, monkeypatch):
    """Segments equal the whole file also on its last page, where libsndfile's own seek is wrong; little is decoded."""
    path = tmp_path / "a.ogg"
    noise = np.random.default_rng(3).uniform(-0.5, 0.5, 60 * 16000).astype(np.float32)
    with soundfile.SoundFile(path, "w", 16000, 1, format="OGG", subtype=subtype) as file:
        for part in np.split(noise, 20):
            file.write(part)
    whole, _ = soundfile.read(path, dtype="float32")
    decoded = []
    original = audio._decode
    monkeypatch.setattr(audio, "_decode", lambda p, s, count: decoded.append(count) or original(p, s, count))
    for start in (0.0, 0.7, 30.123, 58.5, 59.0, 59.3, 59.6, 59.85):
        segment = read_audio(path, start, 0.125)
        np.testing.assert_allclose(segment, whole[samples(start) : samples(start) + 2000], atol=1e-5)
    assert max(decoded) < 60 * 16000 / 10


def test_files_of_floats_are_decoded_before_they_are_believed(tmp_path):
    """One sample that is not a number is found by probe and by read_audio; good files keep their length."""
    values = tone(3.0, 16000)
    values[40000] = np.nan
    soundfile.write(tmp_path / "a.wav", values, 16000, subtype="FLOAT")
    refuses(DataError, r"a\.wav: not a number among the samples at 2\.50 s", probe, tmp_path / "a.wav")
    refuses(DataError, r"a\.wav: not a number among the samples at 2\.25 s", read_audio, tmp_path / "a.wav", 2.25, 0.5)
    soundfile.write(tmp_path / "b.wav", tone(3.0, 16000), 16000, subtype="DOUBLE")
    assert probe(tmp_path / "b.wav") == 3.0


@pytest.mark.parametrize("suffix", ["wav", "flac"])
def test_levels(tmp_path, suffix, monkeypatch):
    """Peak and share of full-scale samples by hand, over several blocks and both channels."""
    monkeypatch.setattr(audio, "_BLOCK", 700)
    values = np.zeros((8000, 2))
    values[2000:2010, 0], values[6000, 1] = 1.0, -1.0
    values[100, 0] = -0.25
    soundfile.write(tmp_path / f"a.{suffix}", values, 8000, subtype="PCM_16")
    whole = levels(tmp_path / f"a.{suffix}", 0.0, 1.0)
    assert whole.peak == 1.0 and whole.full == pytest.approx(11 / 16000)
    start = levels(tmp_path / f"a.{suffix}", 0.0, 0.2)
    assert (start.peak, start.full) == (0.25, 0.0)
    assert levels(tmp_path / f"a.{suffix}", 0.8, 0.3).peak == 0.0


def flac(frames):
    """Return a second of sound whose header announces another number of frames (36 bits; 0 means not known)."""
    file = io.BytesIO()
    soundfile.write(file, 0.3 * np.sin(np.arange(16000) / 9), 16000, format="FLAC")
    content = bytearray(file.getvalue())
    content[21] = content[21] & 0xF0 | frames >> 32
    content[22:26] = (frames & 0xFFFFFFFF).to_bytes(4, "big")
    return content


def mp3(frames):
    """Likewise, in frames of 1,152 or 576 samples."""
    file = io.BytesIO()
    soundfile.write(file, 0.3 * np.sin(np.arange(16000) / 9), 16000, format="MP3")
    content = bytearray(file.getvalue())
    place = max(content.find(b"Info"), content.find(b"Xing")) + 8
    content[place : place + 4] = frames.to_bytes(4, "big")
    return content


@pytest.mark.parametrize("content", [flac(2**36 - 1), flac(2**31), flac(0), mp3(2**31 - 1)])
def test_a_header_that_lies_takes_no_memory(tmp_path, content):
    path = tmp_path / "sound"
    path.write_bytes(content)
    for read in (probe, read_audio, lambda path: levels(path, 0.0, 1e6), lambda path: read_audio(path, 0.0, 1e6)):
        refuses(DataError, rf"{path}: \d+ samples announced, which {len(content)} bytes cannot hold", read, path)


def test_sound_that_does_not_fit_into_the_memory(tmp_path):
    """A megabyte may hold half a year of silence, for all that its header says."""
    path = tmp_path / "sound.flac"
    path.write_bytes(flac(2**36 - 1) + bytes(1 << 24))
    refuses(DataError, rf"{path}: (68719476735 samples of 1 channels do not fit|cut off)", read_audio, path)
    refuses(DataError, rf"{path}: ", probe, path)


@pytest.mark.parametrize("name", ["SILENCE.FLAC", "SILENCE.OGG", "SILENCE.MP3"])
def test_the_smallest_files_of_silence_are_read(tmp_path, name):
    soundfile.write(tmp_path / name, np.zeros(16000 * 60, dtype=np.float32), 16000)
    assert probe(tmp_path / name) == pytest.approx(60, abs=0.2)


@pytest.mark.parametrize("kind", ["AIFF", "AU", "W64", "RF64"])
def test_half_of_an_uncompressed_file_is_cut_off(tmp_path, kind):
    path = tmp_path / f"a.{kind.lower()}"
    soundfile.write(path, np.sin(np.arange(16000) / 9), 8000, format=kind, subtype="PCM_16")
    assert probe(path) == 2.0
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    refuses(DataError, r"a\.\w+: cut off: \d+ bytes announced, \d+ there", probe, path)
