"""The phase that hears test recordings in real time: outputs, times and scores agree with one another."""

import json
from itertools import count

import numpy as np
import pytest
import soundfile

from dragoman import DataError, GreedySearch, Manifest, Rules, UsageError
from dragoman.shared.evaluation.outputs import Outputs
from dragoman.shared.evaluation.results import read
from dragoman.shared.machine.workspace import Workspace
from dragoman.simultaneous import live_talk
from dragoman.simultaneous.listening import Emission, Listener
from dragoman.simultaneous.policies import Hold, WaitK
from dragoman.simultaneous.simulating import Simulate
from tests.small import refuses


@pytest.fixture
def manifest(tmp_path, write_sound):
    rows = []
    for number, seconds in enumerate([0.5, 0.9]):
        write_sound(tmp_path / f"{number}.wav", seconds)
        rows.append(
            {"id": str(number), "audio": str(tmp_path / f"{number}.wav"), "start": 0.0, "duration": seconds}
            | {"source_text": "one", "target_text": "eins zwei drei", "source_language": "en", "target_language": "de"}
        )
    (tmp_path / "en-de").mkdir()
    return Manifest.write(tmp_path / "en-de" / "test.arrow", rows).path


def phase(model, manifest, **options):
    search = GreedySearch(rules=Rules(maximum_length_extra=6))
    given = {"model": str(model), "manifests": [str(manifest)], "policy": WaitK(k=1), "search": search}
    return Simulate(**(given | {"metrics": ["bleu"], "chunk": 0.2} | options))


def workspace(tmp_path):
    return Workspace(output=tmp_path / "run", device="cpu", phase="simulate", recipe="test", workers=0)


def test_scores_log_and_outputs_agree(speech_model, manifest, tmp_path):
    place = workspace(tmp_path)
    phase(speech_model, manifest).run(place)
    rows = read(place.output / "results.jsonl")
    assert [row["metric"] for row in rows[:6]] == ["bleu", "al", "laal", "dal", "ap", "laal_ca"]
    assert "WaitK" in str(rows[0]["policy"]) and rows[0]["chunk"] == 0.2 and rows[0]["split"] == "en-de/test"
    log = [json.loads(line) for line in (place.folder / "en-de.test.instances.log").read_text().splitlines()]
    outputs = Outputs.read(place.folder / "en-de.test.tsv")
    assert outputs.hypotheses == [one["prediction"] for one in log]
    for one, chunks in zip(log, [[200, 400, 500], [200, 400, 600, 800, 900]], strict=True):
        assert len(one["delays"]) == len(one["elapsed"]) == len(one["prediction"].split()) > 0
        assert set(one["delays"]) <= set(chunks) and one["delays"] == sorted(one["delays"])
        assert all(late > early for early, late in zip(one["delays"], one["elapsed"], strict=True))
        assert one["source_length"] == chunks[-1]
    by_name = {row["metric"]: row["value"] for row in rows}
    assert by_name["ap"] == pytest.approx(
        sum(sum(one["delays"]) / one["source_length"] / 3 for one in log) / 2, abs=0.005
    )
    assert by_name["laal_ca"] > by_name["laal"]


def test_a_row_is_heard_from_its_start_to_its_end(speech_model, manifest, tmp_path, monkeypatch):
    [_, row] = (dict(row) for row in Manifest.open(manifest))
    part = Manifest.write(tmp_path / "en-de" / "part.arrow", [row | {"start": 0.3, "duration": 0.5}]).path
    shown = []

    def hear(self, waveform, *, last=False):
        shown.append((waveform, last))
        return Emission("eins", 0.1, 0.2, last)

    monkeypatch.setattr(Listener, "hear", hear)
    phase(speech_model, part).run(workspace(tmp_path))
    whole, _ = soundfile.read(row["audio"], dtype="float32")
    assert np.array_equal(np.concatenate([waveform.numpy() for waveform, _ in shown]), whole[4800:12800])
    assert [(len(waveform), last) for waveform, last in shown] == [(3200, False), (3200, False), (1600, True)]


@pytest.fixture
def talks(tmp_path, hum):
    """Two recordings of two sentences, the second one twice as long, and a row for each sentence, out of order."""
    rows = []
    for name, times in (("b", 2), ("a", 1)):
        sound = np.concatenate([hum] * times)
        soundfile.write(tmp_path / f"{name}.wav", sound, 16000)
        for number in range(2 * times - 1, -1, -1):
            row = {"id": f"{name}{number}", "audio": str(tmp_path / f"{name}.wav"), "start": 1.8 * number}
            row |= {"duration": 0.8, "source_text": "one", "target_text": f"eins {name} {number}"}
            rows.append(row | {"source_language": "en", "target_language": "de"})
    (tmp_path / "en-de").mkdir()
    return Manifest.write(tmp_path / "en-de" / "talks.arrow", rows).path


def hears(monkeypatch):
    """Let the first chunk of each sentence write its first word, the last one the others, with none of them slow."""
    numbers = count()

    def heard(turn):
        turn.listener.chunks += 1
        text = "eins" if turn.listener.chunks == 1 else f" x {next(numbers)}" if turn.last else ""
        return Emission(text, turn.arrived, turn.arrived + 0.125, turn.last, *turn.span)

    monkeypatch.setattr(live_talk, "heard", heard)


def test_talks_are_heard_whole_and_cut_to_their_rows(speech_model, talks, tmp_path, monkeypatch):
    hears(monkeypatch)
    place = workspace(tmp_path)
    phase(speech_model, talks, talks=True).run(place)
    log = [json.loads(line) for line in (place.folder / "en-de.talks.instances.log").read_text().splitlines()]
    assert [(one["source"], one["prediction"]) for one in log] == [
        ([str(tmp_path / "b.wav")], "eins x 0 eins x 1 eins x 2 eins x 3"),
        ([str(tmp_path / "a.wav")], "eins x 4 eins x 5"),
    ]
    assert [one["source_length"] for one in log] == [7200, 3600]
    assert log[0]["delays"][0] < 900 < log[0]["delays"][1] == log[0]["delays"][2] < 1900 < log[0]["delays"][3]
    outputs = Outputs.read(place.folder / "en-de.talks.tsv")
    assert outputs.hypotheses == [f"eins x {number}" for number in range(6)]
    assert outputs.references[0] == [f"eins {name} {n}" for name, n in zip("bbbbaa", [0, 1, 2, 3, 0, 1], strict=True)]
    segments = json.loads((place.folder / "en-de.talks.segments.json").read_text())
    assert [(one["wav"][-5:], one["offset"]) for one in segments[2:]] == [
        ("b.wav", 3.6), ("b.wav", pytest.approx(5.4)), ("a.wav", 0.0), ("a.wav", 1.8),
    ]  # fmt: skip
    by_name = {row["metric"]: row["value"] for row in read(place.output / "results.jsonl")}
    assert set(by_name) == {"bleu"} | {
        f"long_{name}" for name in ("al", "laal", "dal", "ap", "laal_ca", "yaal", "yaal_ca")
    }
    # By hand: each line's three words at its offset + d, d, d, of 800 ms and three words; the last sentence of a
    # recording is 800 ms before its end, so that words behind that do not count.
    delays = [time - 1800.0 * (number // 3) for one in log for number, time in enumerate(one["delays"])]
    wanted = []
    for number in range(6):
        end = 800.0 + (1800.0 * (3 - number) if number < 4 else 1800.0 * (5 - number))
        counted = [delay for delay in delays[3 * number : 3 * number + 3] if delay < end]
        wanted.append(sum(delay - n * 800 / 3 for n, delay in enumerate(counted)) / len(counted))
    assert by_name["long_yaal"] == pytest.approx(sum(wanted) / 6, abs=0.006)


def test_a_limit_counts_talks(speech_model, talks, tmp_path, monkeypatch):
    hears(monkeypatch)
    place = workspace(tmp_path)
    phase(speech_model, talks, talks=True, limit=1).run(place)
    assert len((place.folder / "en-de.talks.instances.log").read_text().splitlines()) == 1
    assert len((place.folder / "en-de.talks.references.txt").read_text().splitlines()) == 4


def test_a_limit_leaves_rows_out(speech_model, manifest, tmp_path):
    place = workspace(tmp_path)
    phase(speech_model, manifest, limit=1, policy=Hold(tokens=1)).run(place)
    assert len((place.folder / "en-de.test.instances.log").read_text().splitlines()) == 1


def test_a_row_without_audio_and_ranges_are_told(speech_model, manifest, tmp_path):
    row = dict(Manifest.open(manifest)[0]) | {"audio": None, "start": None, "duration": None, "id": "silent"}
    part = Manifest.write(tmp_path / "en-de" / "silent.arrow", [row]).path
    refuses(DataError, "^row 'silent' has no audio to be heard$", phase(speech_model, part).run, workspace(tmp_path))
    for wrong, said in (
        ({"chunk": 1 / 16001}, f"^Simulate: chunk must be at least 6.25e-05, not {1 / 16001}$"),
        ({"limit": -1}, "^Simulate: limit must be at least 0, not -1$"),
        ({"metrics": ["blue"]}, "blue"),
    ):
        refuses(UsageError, said, phase, speech_model, manifest, **wrong)
    assert phase(speech_model, manifest, chunk=1 / 16000).limit == 0
