"""The phase that speaks manifests: rows fit their sound, the same bytes whatever speaks, other voices for tests."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import soundfile

from dragoman import DataError
from dragoman.almanac import voices
from dragoman.almanac.speaking import Speak
from dragoman.shared.batches.manifest import Manifest
from dragoman.shared.machine.workspace import Workspace
from tests.small import refuses

TEXTS = ["Open the page.", "Close it.", "A longer sentence has more to say than a short one.", "Yes.", "No."]


def manifest(folder, split, texts=TEXTS, language="en"):
    rows = [
        {"id": f"{split}{n}", "source_text": text, "source_language": language, "target_text": f"t{n}"}
        | {"target_language": "de", "document": f"page{n // 2}"}
        for n, text in enumerate(texts)
    ]
    return Manifest.write(folder / "en-de" / f"{split}.arrow", rows).path


def speak(folder, out, splits=("train",), **options):
    paths = [str(folder / "en-de" / f"{split}.arrow") for split in splits]
    phase = Speak(manifests=paths, out=str(out), **{"processes": 1} | options)
    phase.run(Workspace(output=folder / "run", phase="speak", device="cpu"))
    return [Manifest.open(out / "en-de" / f"{split}.arrow") for split in splits]


def content(out):
    return {path.relative_to(out): path.read_bytes() for path in sorted(out.rglob("*.flac"))}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The split "train", and beside it what two processes have spoken of it."""
    folder = tmp_path_factory.mktemp("spoken")
    manifest(folder, "train")
    speak(folder, folder / "out", processes=2)
    return folder


def test_rows_keep_their_texts_and_lie_in_their_recordings(folder, tmp_path):
    given, spoken = (Manifest.open(place / "en-de" / "train.arrow") for place in (folder, folder / "out"))
    assert len(spoken) == len(TEXTS)
    ends = {}
    for before, row in zip(given, spoken, strict=True):
        new = {"audio", "start", "duration", "speaker"}
        assert {key: row[key] for key in before if key not in new} == {k: before[k] for k in before if k not in new}
        samples, rate = soundfile.read(row["audio"])
        assert rate == 16_000 and row["start"] >= ends.get(row["audio"], 0)
        ends[row["audio"]] = row["start"] + row["duration"]
        assert ends[row["audio"]] <= len(samples) / rate
        said = samples[round(row["start"] * rate) : round(ends[row["audio"]] * rate)]
        assert np.sqrt(np.mean(said**2)) > 0.01  # it is no silence
    assert len(ends) == 3  # of two, two and one row: documents
    durations = [row["duration"] for row in spoken]
    assert durations[2] == max(durations) > 2 * durations[3]
    assert [row["duration"] for row in speak(folder, tmp_path / "few", rows=3)[0]] == durations[:3]


def test_the_bytes_are_the_same_whatever_speaks_and_after_an_interruption(folder, tmp_path):
    speak(folder, tmp_path / "one")
    shutil.copytree(folder / "out", tmp_path / "two")
    assert content(tmp_path / "one") == content(tmp_path / "two")
    file, *others = sorted((tmp_path / "two").rglob("*.flac"))
    times = {path: path.stat().st_mtime_ns for path in others}
    file.unlink()
    speak(folder, tmp_path / "two")
    assert content(tmp_path / "one") == content(tmp_path / "two")
    assert {path: path.stat().st_mtime_ns for path in others} == times


def test_recordings_differ_by_room_and_microphone(folder, tmp_path):
    plain = Manifest.open(folder / "out" / "en-de" / "train.arrow")
    [row, *_] = speak(folder, tmp_path / "one", rooms=True)[0]
    speak(folder, tmp_path / "two", rooms=True, processes=2)
    assert content(tmp_path / "one") == content(tmp_path / "two")
    assert not {*content(tmp_path / "one")} & {*content(folder / "out")}  # both may be in one folder
    assert (row["start"], row["duration"]) == (plain[0]["start"], plain[0]["duration"])
    energies = []
    for audio in (row["audio"], plain[0]["audio"]):
        samples, rate = soundfile.read(audio)
        start, end = round(row["start"] * rate), round((row["start"] + row["duration"]) * rate)
        power = np.abs(np.fft.rfft(samples[start:end])) ** 2
        rumble = power[: 40 * (end - start) // rate].sum() / power.sum()
        pause = np.mean(samples[end : end + 1600] ** 2) / np.mean(samples[start:end] ** 2)
        energies.append((rumble, pause))
    (rumble, pause), (loud, silent) = energies
    assert rumble < loud / 4  # below 40 Hz
    assert pause > 2 * silent  # reflections are heard when nobody speaks any more


def test_another_text_is_another_recording(folder, tmp_path):
    shutil.copytree(folder / "out", tmp_path / "out")
    manifest(tmp_path, "train", ["Open the book.", *TEXTS[1:]])
    [spoken] = speak(tmp_path, tmp_path / "out")
    samples, rate = soundfile.read(spoken[0]["audio"])
    assert spoken[0]["start"] + spoken[0]["duration"] <= len(samples) / rate
    assert len({Path(row["audio"]).name for row in spoken}) == 3 and len(content(tmp_path / "out")) == 4


def test_tests_have_voices_that_training_lacks(tmp_path):
    for split in ("train", "dev", "test"):
        manifest(tmp_path, split)
    for spoken in speak(tmp_path, tmp_path / "out", ("train", "dev", "test")):
        known = voices.UNSEEN_VOICES if spoken.path.stem == "test" else voices.SEEN_VOICES
        assert {row["speaker"] for row in spoken} <= {*known}


def test_what_cannot_be_spoken_is_named(tmp_path):
    manifest(tmp_path, "train", ["Yes.", None])
    refuses(DataError, "train.arrow: row train1 has no source to speak", speak, tmp_path, tmp_path / "out")
    manifest(tmp_path, "train", ["Yes."], language="xx")
    refuses(DataError, "could not say 'Yes.'", speak, tmp_path, tmp_path / "out")


def test_manifests_are_not_written_over_each_other_or_what_is_read(tmp_path):
    manifest(tmp_path / "a", "train")
    manifest(tmp_path / "b", "train")
    read = [str(tmp_path / name / "en-de" / "train.arrow") for name in "ab"]
    place = Workspace(output=tmp_path / "run", phase="speak", device="cpu")
    two = Speak(manifests=read, out=str(tmp_path / "out"))
    refuses(DataError, "two manifests would be written there; the second is", two.run, place)
    one = Speak(manifests=read[:1], out=str(tmp_path / "a"))
    refuses(DataError, "what is read would be written over", one.run, place)


def test_a_recording_has_one_language(tmp_path):
    rows = [{"id": code, "source_text": "Yes.", "source_language": code} for code in ("en", "en", "zh-CN")]
    Manifest.write(tmp_path / "en-de" / "train.arrow", rows)
    [spoken] = speak(tmp_path, tmp_path / "out")
    assert [len({row["audio"] for row in list(spoken)[:n]}) for n in (1, 2, 3)] == [1, 1, 2]
