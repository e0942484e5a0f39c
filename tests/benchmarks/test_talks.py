"""Programs about long recordings: hand values, and samples that must stay in their places."""

import numpy as np
import pytest
import soundfile
import yaml

from benchmarks.layouts import join_talks
from benchmarks.long_recordings import segments_of, write_repeated
from benchmarks.talks import first_talks, share_in_speech, with_noise
from dragoman.shared.sound.audio import SAMPLE_RATE, read_audio


def row(file, start, duration):
    return {"id": f"{file}{start}", "audio": file, "start": start, "duration": duration}


def test_cuts_within_rows_are_counted_and_those_at_their_edges_are_not():
    rows = [row("a", 1.0, 2.0), row("a", 4.0, 2.0), row("b", 0.0, 3.0)]
    found = {"a": [(0.0, 2.0), (2.0, 1.5), (3.5, 0.53), (4.03, 2.0)], "b": [(0.0, 1.5), (1.5, 2.0)]}
    # a is cut at 2.0 (within), 3.5 (between) and 4.03 (30 ms into a row), b at 1.5 (within).
    assert share_in_speech(rows, found) == pytest.approx(2 / 4)
    # A segment that ends at 2.5 s has lost the end of a sentence; what is between 3.02 and 3.96 s is none.
    assert share_in_speech(rows, {"a": [(0.0, 2.5), (3.5, 2.0)]}) == 1.0
    assert share_in_speech(rows, {"a": [(0.0, 3.02), (3.96, 2.0)]}) == 0.0
    assert share_in_speech(rows, {"a": [(0.0, 6.0)]}) == 0.0


def test_the_first_talks_are_whole():
    rows = [row("a", 0.0, 1.0), row("b", 0.0, 1.0), row("a", 1.0, 1.0), row("c", 0.0, 1.0)]
    assert [r["id"] for r in first_talks(rows, 2)] == ["a0.0", "b0.0", "a1.0"]
    assert len(first_talks(rows, 0)) == 4


def test_noise_is_as_far_below_a_talk_as_asked(tmp_path):
    tone = np.sin(2 * np.pi * 200 * np.arange(4 * SAMPLE_RATE) / SAMPLE_RATE)
    soundfile.write(tmp_path / "tone.wav", 0.1 * tone, SAMPLE_RATE)
    [noisy] = with_noise([row(str(tmp_path / "tone.wav"), 0.0, 1.0)], 10.0, tmp_path)
    wave = read_audio(noisy["audio"])
    carrier = tone * (wave @ tone) / (tone @ tone)
    ratio = 10 * np.log10(np.mean(carrier**2) / np.mean((wave - carrier) ** 2))
    assert ratio == pytest.approx(10.0, abs=0.5) and noisy["start"] == 0.0


def test_a_talk_is_repeated_to_the_sample(tmp_path):
    talk = np.linspace(-0.5, 0.5, 1000, dtype=np.float32)
    write_repeated(talk, 2500 / SAMPLE_RATE, tmp_path / "long.wav")
    wanted = np.concatenate([talk, talk, talk[:500]])
    np.testing.assert_allclose(read_audio(tmp_path / "long.wav"), wanted, atol=2**-15)


def test_segments_of_a_recording_and_sentences_heard_live_are_counted():
    assert segments_of('{"audio": "talk.wav", "segments": [{"text": "a"}, {"text": "b"}]}\n') == 2
    live = ['{"text": "a", "last": false}', '{"text": "", "last": true}', '{"text": "b", "last": true}']
    assert segments_of("\n".join(live)) == 2


def test_joined_talks_keep_every_segment(tmp_path):
    split = tmp_path / "train"
    (split / "wav").mkdir(parents=True)
    (split / "txt").mkdir()
    rng = np.random.default_rng(1)
    talks = {f"ted_{n}.wav": rng.integers(-9000, 9000, 16000 * (n + 1), dtype=np.int16) for n in range(3)}
    for name, wave in talks.items():
        soundfile.write(split / "wav" / name, wave, SAMPLE_RATE)
    segments = [("ted_0.wav", 0.25, 0.5), ("ted_1.wav", 0.5, 1.0), ("ted_1.wav", 1.5, 0.25), ("ted_2.wav", 2.0, 1.0)]
    form = "- {{duration: {2:.6f}, offset: {1:.6f}, rW: 3, uW: 0, speaker_id: spk.1, wav: {0}}}\n"
    items = [form.format(*segment) for segment in segments]
    (split / "txt" / "train.yaml").write_text("".join(items), encoding="utf-8")
    join_talks(split, 3.0)
    joined = yaml.safe_load((split / "txt" / "train.yaml").read_text(encoding="utf-8"))
    assert {path.name for path in (split / "wav").iterdir()} == {"joined_0.wav", "joined_1.wav"}
    for (wav, start, length), item in zip(segments, joined, strict=True):
        own = talks[wav][round(start * 16000) : round((start + length) * 16000)] / 32768
        found = read_audio(split / "wav" / item["wav"], item["offset"], item["duration"])
        np.testing.assert_allclose(found, own, atol=1e-6)
