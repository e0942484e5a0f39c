"""Damaged mp3 frames: one warning that names the file, a finding of check, and nothing else on the terminal."""

import logging
import os
import random

import numpy as np
import pytest
import soundfile

from dragoman.commands.inspection import check_manifests
from dragoman.preparing.probing import check_segments
from dragoman.shared.batches.manifest import Manifest
from dragoman.shared.sound import mpeg
from dragoman.shared.sound.audio import SAMPLE_RATE, probe, read_audio
from dragoman.shared.sound.mpeg import naming_damage
from dragoman.shared.sound.pauses import file_segments


def write_mp3(path, *, damages=0):
    seconds = np.arange(4 * SAMPLE_RATE) / SAMPLE_RATE
    noise = np.random.default_rng(0).normal(size=len(seconds))
    soundfile.write(path, 0.3 * np.sin(2 * np.pi * 440 * seconds) + 0.05 * noise, SAMPLE_RATE, format="MP3")
    data = bytearray(path.read_bytes())
    chance = random.Random(1)
    for _ in range(damages):
        place = chance.randrange(len(data) // 4, len(data) - 400)
        data[place : place + 3] = chance.randbytes(3)
    path.write_bytes(data)
    return path


@pytest.fixture
def broken(tmp_path):
    return write_mp3(tmp_path / "broken.MP3", damages=30)


def test_a_damaged_mp3_is_named_once(broken, capfd, caplog):
    probe(broken)
    read_audio(broken, 0.0, 3.0)
    file_segments(broken, maximum=1.5)
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert record.getMessage().startswith(f"{broken}: damaged mp3 frames (messages of the decoder: ")
    assert "libmpg123" not in capfd.readouterr().err


def test_a_whole_mp3_is_not_named(tmp_path, capfd, caplog):
    probe(write_mp3(tmp_path / "whole.mp3"))
    assert not caplog.records and capfd.readouterr().err == ""


def test_what_others_say_meanwhile_gets_to_the_terminal(broken, capfd):
    with naming_damage(broken):
        os.write(2, b"from a library\n[src/libmpg123/layer3.c:f():1] error: broken\n")
    messages = capfd.readouterr().err
    assert messages.startswith("from a library\n") and "libmpg123" not in messages


def test_check_counts_damaged_files(broken, tmp_path, capfd):
    row = {"source_text": "abc", "source_language": "en", "target_text": "def", "target_language": "de"}
    files = {"a": write_mp3(tmp_path / "a.mp3"), "b": broken, "c": write_mp3(tmp_path / "c.mp3", damages=40)}
    rows = [row | {"id": name, "audio": str(path), "start": 0.0, "duration": 3.9} for name, path in files.items()]
    manifest = Manifest.write(tmp_path / "dev.arrow", rows)
    for listen in (False, True):
        findings = check_manifests([manifest.path], workers=2, listen=listen).findings
        assert findings.counts["damaged audio"] == 2 and findings.errors == 0
    assert f"{broken}, 0 s: damaged mp3 frames" in findings.examples["damaged audio"][0]
    assert capfd.readouterr().err == ""


def test_preparing_names_damaged_files(broken, caplog):
    assert check_segments([(str(broken), 0.0, 3.0)]) == [3.0]
    assert [f"{broken}, 0 s: damaged mp3 frames" in record.getMessage() for record in caplog.records] == [True]


@pytest.mark.parametrize(
    ("start", "found"),
    [
        (b"ID3", True), (b"\xff\xe0\x00", True), (b"\xff\xfb\x90", True), (b"\xff\xdf\x00", False),
        (b"\xfe\xfb\x90", False), (b"\xff\xfb", False), (b"RIF", False), (b"", False),
    ],
)  # fmt: skip
def test_an_mp3_is_known_by_its_beginning(start, found, tmp_path):
    (tmp_path / "a").write_bytes(start)
    assert mpeg._is_mpeg(tmp_path / "a") is found
    assert mpeg._is_mpeg(tmp_path / "nowhere") is False


def test_only_messages_of_the_decoder_are_kept_back(broken, capfd, caplog):
    with naming_damage(broken):
        os.write(
            2, b"warning: one\n\n  \n[../src/libmpg123/id3.c:f():9] error: two\nNote: three\n a warning: x\n\xff\n"
        )
    assert capfd.readouterr().err == " a warning: x\n\ufffd\n"
    assert [record.getMessage() for record in caplog.records] == [
        f"{broken}: damaged mp3 frames (messages of the decoder: 3, the first: one)"
    ]
    with naming_damage(broken):
        os.write(2, b"warning: four\n")
    assert len(caplog.records) == 1  # once in a process


def test_damage_is_listed_where_it_is_asked_for(tmp_path, caplog, capfd):
    with mpeg.listed_damage() as outer, mpeg.listed_damage() as inner:
        with naming_damage(write_mp3(tmp_path / "b.mp3")):
            os.write(2, b"error: broken\n")
    assert outer == [] and inner == ["damaged mp3 frames (messages of the decoder: 1, the first: broken)"]
    with naming_damage(write_mp3(tmp_path / "c.mp3")):
        os.write(2, b"error: broken\n")
    assert len(caplog.records) == 1 and len(inner) == 1
    with pytest.raises(KeyError), naming_damage(write_mp3(tmp_path / "d.mp3")):
        raise KeyError
    os.write(2, b"still here\n")
    assert capfd.readouterr().err == "still here\n"
