"""Corpora in the layouts of MuST-C and CoVoST 2 whose files are like the real ones, to time the reading of sound.

    python -m benchmarks.layouts FOLDER [--utterances 3000] [--minutes 15]
    dragoman run mustc/asr --data_folder FOLDER/mustc --manifest_folder FOLDER/mustc/manifests --until tokenizer
    python -m benchmarks.loader mustc/asr --data_folder FOLDER/mustc --manifest_folder FOLDER/mustc/manifests
    dragoman run covost2/asr --data_folder FOLDER/covost2 --source_language en --target_language de
        --manifest_folder FOLDER/covost2/manifests --until tokenizer
    python -m benchmarks.loader covost2/asr --data_folder FOLDER/covost2 --source_language en --target_language de
        --manifest_folder FOLDER/covost2/manifests

What is said is Almanac's. Its talks of two minutes are joined to recordings of ``--minutes``, as long as talks of TED,
in which a worker looks for one segment at a time; its clips become mono mp3 at 48 kHz, as those of Common Voice, which
are decoded and resampled.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import soundfile
import yaml
from scipy.signal import resample_poly

from dragoman.almanac import Almanac

#: Hz of the clips of Common Voice; Almanac's have 22,050.
RATE, UP, DOWN = 48_000, 320, 147


def join_talks(split: Path, seconds: float) -> None:
    """Join the talks of a split, each time as many as make a recording of this length; the texts stay as they are.

    Args:
        split: a folder with wav/ and txt/.
        seconds: what a recording lasts at least, but for the last one.

    """
    listed = split / "txt" / f"{split.name}.yaml"
    segments = yaml.safe_load(listed.read_text(encoding="utf-8"))
    parts: list[np.ndarray] = []
    lasted, number = 0.0, 0
    places: dict[str, tuple[str, float]] = {}
    talks = list(dict.fromkeys(segment["wav"] for segment in segments))
    for talk in talks:
        waveform, rate = soundfile.read(split / "wav" / talk, dtype="int16")
        (split / "wav" / talk).unlink()
        places[talk] = (f"joined_{number}.wav", lasted)
        parts.append(waveform)
        lasted += len(waveform) / rate
        if lasted >= seconds or talk == talks[-1]:
            soundfile.write(split / "wav" / places[talk][0], np.concatenate(parts), rate, subtype="PCM_16")
            parts, lasted, number = [], 0.0, number + 1
    lines = []
    for segment in segments:
        wav, start = places[segment["wav"]]
        offset = segment["offset"] + start
        lines.append(
            f"- {{duration: {segment['duration']:.6f}, offset: {offset:.6f}, rW: {segment['rW']}, "
            f"speaker_id: {segment['speaker_id']}, wav: {wav}}}\n"
        )
    listed.write_text("".join(lines), encoding="utf-8")


def encode_again(clip: Path) -> None:
    """Write a clip of 22,050 Hz anew at 48 kHz."""
    waveform, _ = soundfile.read(clip, dtype="float64")
    soundfile.write(clip, np.clip(resample_poly(waveform, UP, DOWN), -1, 1), RATE, format="MP3")


def main(words: Sequence[str] | None = None) -> None:
    """Write both corpora."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="to be made")
    parser.add_argument("--utterances", type=int, default=3000, help="of training data in each")
    parser.add_argument("--minutes", type=float, default=15.0, help="of a recording of the talks")
    given = parser.parse_args(words)
    sizes = {"train": given.utterances, "dev": 60, "tst-COMMON": 60, "tst-HE": 60}
    pairs = [["en", "de"]]
    mustc, covost2 = given.folder / "mustc", given.folder / "covost2"
    Almanac(root=mustc, pairs=pairs, layouts=["mustc"], sizes=sizes).write()
    Almanac(root=given.folder / "clips", pairs=pairs, layouts=["covost2"], sizes=sizes).write()
    for split in sorted((mustc / "en-de" / "data").iterdir()):
        join_talks(split, 60 * given.minutes)
    shutil.move(given.folder / "clips" / "covost2", covost2)
    shutil.rmtree(given.folder / "clips")
    clips = sorted(covost2.rglob("*.mp3"))
    for clip in clips:
        encode_again(clip)
    recordings = sorted((mustc / "en-de" / "data" / "train" / "wav").glob("*.wav"))
    longest = max(soundfile.info(file).duration for file in recordings)
    print(f"{mustc}: {len(recordings)} recordings for training, up to {longest / 60:.1f} minutes")
    print(f"{covost2}: {len(clips)} clips")


if __name__ == "__main__":
    main()
