"""``dragoman stream``: files and standard input, text and times, and options that do not fit."""

import io
import json

import numpy as np
import pytest
import soundfile
import torch

from dragoman import DataError
from dragoman.commands import live_output
from dragoman.commands.live_output import heard_from, policy_of
from dragoman.commands.talk_options import ListeningOptions
from dragoman.shared.sound.audio import SAMPLE_RATE, read_audio
from dragoman.simultaneous import hearing
from dragoman.simultaneous.hearing import heard_in
from dragoman.simultaneous.listening import Emission
from dragoman.simultaneous.policies import AlignAtt, Hold, LocalAgreement, WaitK

OPTIONS = ["--maximum-length-extra", "6", "--device", "cpu", "--speech-detector", "levels", "--chunk", "0.25"]


def test_each_sentence_is_a_line_and_the_times_are_those_of_the_sound(dragoman, speech_model, hum, tmp_path):
    soundfile.write(tmp_path / "talk.wav", hum, SAMPLE_RATE)
    code, lines, messages = dragoman("stream", speech_model, tmp_path / "talk.wav", *OPTIONS)
    assert code == 0, messages
    code, times, _ = dragoman("stream", speech_model, tmp_path / "talk.wav", "--format", "json", *OPTIONS)
    found = [json.loads(line) for line in times.splitlines()]
    assert "".join(one["text"] + "\n" * one["last"] for one in found) == lines
    assert lines.count("\n") == 2
    first, second = (one["heard"] for one in found if one["last"])
    assert 1.4 <= first <= 1.8 + 0.25 and 3.2 <= second <= 3.6
    assert all(one["elapsed"] > one["heard"] for one in found)


def test_standard_input_is_heard_like_a_file(hum, tmp_path):
    soundfile.write(tmp_path / "talk.wav", hum, SAMPLE_RATE, subtype="PCM_16")
    file, piped = [*heard_in(tmp_path / "talk.wav", 7000)], [*heard_from(io.BytesIO(hum.tobytes() + b"x"), 7000)]
    assert [len(chunk) for chunk in file] == [7000] * 8 + [1600]
    assert all(torch.equal(one, other) for one, other in zip(file, piped, strict=True))


@pytest.mark.parametrize("options", [[], ["--policy", "wait-k", "--k", "2"], ["--policy", "alignatt", "--layer", "1"]])
def test_standard_input_gives_lines(dragoman, speech_model, hum, options):
    code, lines, messages = dragoman("stream", speech_model, *options, *OPTIONS, data=hum.tobytes())
    assert (code, lines.count("\n")) == (0, 2) and lines.strip() and "nothing was written" not in messages


def test_a_sentence_without_the_end_of_its_text_is_named(dragoman, speech_model, monkeypatch, tmp_path):
    emissions = [Emission("eins", 2.0, 2.1, True, 1.0, 2.0, cut=True), Emission("zwei", 3.0, 3.1, True, 2.5, 3.0)]
    monkeypatch.setattr("dragoman.commands.live_output.listen", lambda *_, **options: iter(emissions))
    code, lines, messages = dragoman("stream", speech_model, *OPTIONS)
    said = "cut off at the maximum length (see --maximum-length-extra): standard input, 1.00 to 2.00 s"
    assert (code, lines) == (0, "eins\nzwei\n") and messages.count("warning") == 1 and said in messages
    _, objects, again = dragoman("stream", speech_model, *OPTIONS, "--format", "json")
    assert [json.loads(line).get("cut") for line in objects.splitlines()] == [True, None] and said in again


def test_each_policy_gets_its_options():
    made = [
        policy_of(ListeningOptions(policy="agreement", agree=3)),
        policy_of(ListeningOptions(policy="alignatt", frames=7, layer=2)),
        policy_of(ListeningOptions(policy="alignatt")),
        policy_of(ListeningOptions(policy="hold", hold=4)),
        policy_of(ListeningOptions(policy="wait-k", k=5, tokens=True)),
    ]
    wanted = [LocalAgreement(agree=3), AlignAtt(frames=7, layer=2), AlignAtt(frames=4, layer=None)]
    wanted += [Hold(tokens=4), WaitK(k=5, tokens=True)]
    assert [(type(one), vars(one)) for one in made] == [(type(one), vars(one)) for one in wanted]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--policy", "agree"], "--policy must be one of agreement, alignatt, hold, wait-k, not 'agree'"),
        (["--policy", "hold", "--k", "4"], "--k does not apply to the policy hold"),
        (["--format", "srt"], "--format must be text, json or simuleval, not 'srt'"),
        (["--ctc"], "CTC"),
    ],
)
def test_options_that_do_not_fit_are_refused(dragoman, speech_model, tmp_path, write_sound, options, message):
    write_sound(tmp_path / "a.wav")
    code, output, messages = dragoman("stream", speech_model, tmp_path / "a.wav", *options, "--device", "cpu")
    assert (code, output) == (2, "") and message in messages


def test_a_file_on_standard_input_is_refused(dragoman, speech_model):
    code, _, messages = dragoman("stream", speech_model, *OPTIONS, text="RIFF....WAVE")
    assert code == 1 and "standard input: is a file (WAV)" in messages


@pytest.mark.parametrize(
    ("begin", "format"),
    [
        (b"RIFF", "WAV"), (b"RF64", "WAV"), (b"riff", "W64"), (b"fLaC", "FLAC"), (b"OggS", "Ogg"), (b"FORM", "AIFF"),
        (b"ID3", "MP3"), (b".snd", "AU"), (b"caff", "CAF"), (b"\x1aE\xdf\xa3", "WebM"), (b"NIST", "NIST sphere"),
        (b"1234ftyp", "MP4"), (b"\0\0\0\0", None), (b"", None), (b"12345ftyp", None),
    ],
)  # fmt: skip
def test_files_are_known_by_their_headers(begin, format):
    assert live_output._format_of(begin + b"\0" * 20) == format


def frames(header, size):
    return header + b"\0" * (size - 4) + header + b"\0" * 40


@pytest.mark.parametrize(
    ("header", "size"),
    [
        (b"\xff\xfb\x90\x00", 417),  # MPEG 1, 128 kbit/s at 44.1 kHz: 144 x 128000 / 44100
        (b"\xff\xfb\x92\x00", 418),  # padded
        (b"\xff\xfa\x14\x00", 96),  # 32 kbit/s at 48 kHz
        (b"\xff\xfb\xe8\x00", 1440),  # 320 kbit/s at 32 kHz
        (b"\xff\xf3\x10\x00", 26),  # MPEG 2, 8 kbit/s at 22.05 kHz
        (b"\xff\xf3\xe4\x00", 480),  # 160 kbit/s at 24 kHz
        (b"\xff\xe3\x88\x00", 576),  # MPEG 2.5, 64 kbit/s at 8 kHz
    ],
)
def test_two_frames_of_mpeg_are_a_file(header, size):
    assert live_output._format_of(frames(header, size)) == "MP3"
    for other in (size - 1, size + 1):
        assert live_output._format_of(frames(header, other)) is None


@pytest.mark.parametrize(
    "header",
    [
        b"\xff\xeb\x90\x00",  # no such version
        b"\xff\xfd\x90\x00",  # layer II
        b"\xff\xfb\x9c\x00",  # no such rate
        b"\xff\xfb\x00\x00",  # free, and
        b"\xff\xfb\xf0\x00",  # forbidden bits
        b"\xfe\xfb\x90\x00",
        b"\xff\xfb",
        b"\xff\x1b\x90\x00",
    ],
)
def test_samples_that_resemble_a_frame_are_heard(header):
    sizes = range(4, 1500) if len(header) == 4 else ()
    assert not any(live_output._format_of(frames(header, size)) for size in sizes)
    assert live_output._format_of(header) is None


def test_samples_are_shares_of_the_greatest():
    data = np.array([0, 1, -32768, 32767, 5], dtype="<i2").tobytes()
    chunks = [chunk.tolist() for chunk in heard_from(io.BytesIO(data), 2)]
    assert chunks == [[0.0, 1 / 32768], [-1.0, 32767 / 32768], [5 / 32768]]
    later = np.array([0, 0], dtype="<i2").tobytes() + b"RIFF"  # a header is looked for at the beginning
    assert [len(chunk) for chunk in heard_from(io.BytesIO(later), 2)] == [2, 2]
    assert [*heard_from(io.BytesIO(b""), 2)] == []


@pytest.fixture
def emitted(monkeypatch):
    """What is listened to, and how."""
    asked, emissions = [], []

    def listen(begin, chunks, **options):
        asked.append((begin, options))
        return iter(emissions)

    monkeypatch.setattr(live_output, "listen", listen)
    return asked, emissions


def test_lines_of_json_have_text_or_end_a_sentence(dragoman, speech_model, emitted):
    asked, emissions = emitted
    emissions += [Emission("", 1.0, 1.1), Emission("ä", 1.23456, 2.34567), Emission("", 3.0, 3.5, last=True)]
    _, output, _ = dragoman("stream", speech_model, "--format", "json", *OPTIONS, "--maximum-seconds", "7")
    assert output.splitlines() == [
        '{"text": "ä", "heard": 1.235, "elapsed": 2.346, "last": false}',
        '{"text": "", "heard": 3.0, "elapsed": 3.5, "last": true}',
    ]
    [(begin, options)] = asked
    assert options["maximum_seconds"] == 7 and {*options} == {"detector", "maximum_seconds", "pause", "chunk"}
    assert isinstance(begin.args[1], LocalAgreement) and begin.keywords["search"].rules.extra == 6


def test_text_is_written_as_it_comes(dragoman, speech_model, emitted):
    said = [("", True), ("eins", False), (" null", False), ("", True), ("", True), ("zwei", True), ("drei", False)]
    emitted[1].extend(Emission(text, time, time + 0.1, last) for time, (text, last) in enumerate(said))
    assert dragoman("stream", speech_model, *OPTIONS)[1] == "eins null\nzwei\ndrei"


@pytest.mark.parametrize("format", ["text", "json"])
@pytest.mark.parametrize("file", [True, False])
def test_that_nothing_was_written_is_said(dragoman, speech_model, tmp_path, format, file):
    silence = np.zeros(SAMPLE_RATE, dtype="<i2")
    soundfile.write(tmp_path / "a.wav", silence, SAMPLE_RATE)
    given = [tmp_path / "a.wav"] if file else []
    given += [*OPTIONS, "--format", format]
    code, output, messages = dragoman("stream", speech_model, *given, data=silence.tobytes())
    name = tmp_path / "a.wav" if file else "standard input"
    said = f"dragoman: warning: {name}: nothing was written: there is no speech in it (detector: levels and spectrum)"
    assert (code, output) == (0, "") and messages.startswith(said) and messages.count("\n") == 1


def test_a_line_for_a_log_of_simuleval(dragoman, speech_model, hum, tmp_path):
    soundfile.write(tmp_path / "talk.wav", hum, SAMPLE_RATE)
    _, lines, _ = dragoman("stream", speech_model, tmp_path / "talk.wav", *OPTIONS)
    code, log, messages = dragoman("stream", speech_model, tmp_path / "talk.wav", "--format", "simuleval", *OPTIONS)
    assert code == 0, messages
    [line] = map(json.loads, log.splitlines())
    assert line["prediction"] == " ".join(lines.split()) and line["source"] == [str(tmp_path / "talk.wav")]
    assert len(line["delays"]) == len(line["elapsed"]) == len(line["prediction"].split()) > 0
    assert line["source_length"] == 3600 and line["delays"][-1] <= 3600


@pytest.mark.parametrize("rate", [16000, 11025, 44100])
def test_a_file_is_read_in_blocks_like_a_whole(tmp_path, monkeypatch, rate):
    monkeypatch.setattr(hearing, "_BLOCK", 2)
    noise = np.random.default_rng(1).uniform(-0.5, 0.5, int(7.3 * rate))
    soundfile.write(tmp_path / "noise.wav", noise, rate, subtype="FLOAT")
    chunks = [*heard_in(tmp_path / "noise.wav", 5000)]
    assert {len(chunk) for chunk in chunks[:-1]} == {5000} and 0 < len(chunks[-1]) <= 5000
    assert torch.cat(chunks).numpy() == pytest.approx(read_audio(tmp_path / "noise.wav"), abs=1e-6)


def test_a_broken_file_is_told_before_anything_is_heard(tmp_path):
    soundfile.write(tmp_path / "long.flac", np.zeros(70 * 16000), 16000)
    whole = (tmp_path / "long.flac").read_bytes()
    (tmp_path / "cut.flac").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match="cut"):
        next(heard_in(tmp_path / "cut.flac", 8000))
