"""Channels by soundfile's own columns; the power of means by hand."""

import logging

import numpy as np
import pytest
import soundfile

from dragoman import DataError, Manifest
from dragoman.commands.inspection import check_corpus
from dragoman.preparing.preparation import prepare
from dragoman.shared.sound import channels
from dragoman.shared.sound.audio import levels, probe, read_audio
from dragoman.shared.sound.channels import Mix, split_channel, with_channel
from dragoman.st.corpora.tsv import Tsv
from tests.st.corpora.shards import write_shard

RATE = 16000
TIMES = np.arange(2 * RATE) / RATE
LEFT, RIGHT = (0.5 * np.sin(2 * np.pi * pitch * TIMES) for pitch in (440, 1000))


@pytest.fixture(autouse=True)
def nothing_named(monkeypatch):
    monkeypatch.setattr(channels, "_named", set())


@pytest.fixture(params=["wav", "flac"])
def stereo(tmp_path, request):
    path = tmp_path / f"call.{request.param}"
    soundfile.write(path, np.stack([LEFT, RIGHT], 1), RATE, subtype="PCM_16")
    return path


def test_a_channel_is_a_column_of_the_file(stereo):
    values, _ = soundfile.read(stereo, dtype="float32")
    for number in (0, 1):
        place = with_channel(str(stereo), number)
        np.testing.assert_array_equal(read_audio(place), values[:, number])
        np.testing.assert_array_equal(read_audio(place, 0.5, 0.25), values[8000:12000, number])
    np.testing.assert_array_equal(read_audio(stereo), values.mean(axis=1))


def test_a_channel_that_is_not_there_is_named(stereo):
    with pytest.raises(DataError, match=r"call\.\w+#channel:2: there is no channel 2: it has 2, counted from 0"):
        read_audio(with_channel(str(stereo), 2))
    with pytest.raises(DataError, match="there is no channel 7"):
        probe(f"{stereo}#channel:7")


def test_a_channel_of_a_sound_in_a_shard(tmp_path, stereo):
    write_shard(tmp_path / "x.parquet", {"audio": [stereo.read_bytes()]})
    inside = f"{tmp_path}/x.parquet#audio:0"
    np.testing.assert_array_equal(read_audio(f"{inside}#channel:1"), read_audio(f"{stereo}#channel:1"))
    assert split_channel("x.parquet#channel:1") == ("x.parquet#channel:1", None)  # row 1 of a column "channel"


def power(*values):
    mix = Mix()
    mix.add(np.array(values, dtype=np.float32).T)
    return mix.cancels


def test_opposite_phase_cancels_and_nothing_else_does():
    noise = np.random.default_rng(3).normal(0, 0.1, (8, 50_000))
    assert power(LEFT, -LEFT) and power(LEFT, -0.8 * LEFT) and power(LEFT, -LEFT, 0 * LEFT)
    assert not power(LEFT, RIGHT) and not power(LEFT, 0 * LEFT) and not power(LEFT, LEFT) and not power(LEFT)
    assert not power(*noise) and not power(noise[0], *[0 * noise[0]] * 7)
    assert not power(1e-4 * LEFT, -1e-4 * LEFT)  # nothing to lose
    # Two channels a and -ca: the mean has (1 - c)^2 / 4 of a's power, the channels (1 + c^2) / 2.
    share = [((1 - c) ** 2 / 4) * 2 / ((1 + c**2) / 2) for c in (0.62, 0.64)]
    assert share[0] > channels.CANCELLED > share[1]
    assert not power(LEFT, -0.62 * LEFT) and power(LEFT, -0.64 * LEFT)


def test_opposite_phase_is_found_by_check_and_said_when_preparing(tmp_path, caplog):
    soundfile.write(tmp_path / "a.wav", np.stack([LEFT, -LEFT], 1), RATE)
    soundfile.write(tmp_path / "b.wav", np.stack([LEFT, 0 * LEFT], 1), RATE)
    table = "id\taudio\tsource_text\n1\ta.wav\thello there\n2\tb.wav\tgood bye\n3\ta.wav#channel:1\thello there\n"
    (tmp_path / "train.tsv").write_text(table)
    corpus = Tsv(root=tmp_path, source_language="en")
    found = check_corpus(corpus, workers=1).findings
    assert found.counts["cancelling channels"] == found.counts["silent audio"] == 1
    assert "a.wav" in found.examples["cancelling channels"][0]
    assert check_corpus(corpus, workers=1, listen=False).findings.counts["cancelling channels"] == 1
    caplog.clear()
    prepare(corpus, tmp_path / "out", workers=1)
    said = [record.getMessage() for record in caplog.records if "cancel each other" in record.getMessage()]
    assert len(said) == 1 and "a.wav" in said[0]
    assert levels(tmp_path / "a.wav", 0, 2).cancelled and not levels(f"{tmp_path}/a.wav#channel:1", 0, 2).cancelled


def test_reading_opposite_phase_warns_once(tmp_path, caplog):
    soundfile.write(tmp_path / "a.wav", np.stack([LEFT, -LEFT], 1), RATE)
    with caplog.at_level(logging.WARNING, "dragoman"):
        for _ in range(2):
            assert np.abs(read_audio(tmp_path / "a.wav")).max() < 1e-3
    assert caplog.text.count("a.wav: the channels cancel each other") == 1


def test_a_table_chooses_a_channel(tmp_path):
    soundfile.write(tmp_path / "a.wav", np.stack([LEFT, RIGHT], 1), RATE)
    lines = ["id\taudio\tsource_text\tchannel", "1\ta.wav\tone\t0", "2\ta.wav\ttwo\t1", "3\ta.wav\tboth\t", ""]
    (tmp_path / "train.tsv").write_text("\n".join(lines))
    prepare(Tsv(root=tmp_path, source_language="en"), tmp_path / "out", workers=1)
    rows = Manifest.open(tmp_path / "out" / "train.arrow")
    places = [row["audio"].removeprefix(f"{tmp_path}/") for row in rows]
    assert places == ["a.wav#channel:0", "a.wav#channel:1", "a.wav"]
    (tmp_path / "train.tsv").write_text("id\taudio\tsource_text\tchannel\n1\ta.wav\tone\tTEDx\n")
    with pytest.raises(DataError, match="channel is 'TEDx', not the number of a channel"):
        prepare(Tsv(root=tmp_path, source_language="en"), tmp_path / "out", workers=1)


def test_a_channel_has_a_number():
    assert channels.with_channel("a.wav", 3) == "a.wav#channel:3"
    assert split_channel("a.wav#channel:9999") == ("a.wav", 9999)
    assert split_channel("a.wav#channel:") == ("a.wav#channel:", None)


def test_parts_of_a_recording_are_added_up():
    mix = Mix()
    assert not mix.cancels
    for begin in range(0, len(LEFT), 1000):
        part = LEFT[begin : begin + 1000].astype(np.float32)
        mix.add(np.stack([part, -part], 1))
    assert mix.cancels
    mix.add(np.stack([LEFT, LEFT], 1).astype(np.float32))
    assert not mix.cancels
