"""Recordings in the layouts of LibriSpeech and Libri-Light."""

import json

import soundfile

from dragoman.shared.batches.manifest import Manifest
from dragoman.shared.sound.audio import read_audio


def write_librispeech(root, splits):
    """Write recordings in the layout of LibriSpeech."""
    for split, manifest in splits.items():
        home = root / split / "7" / "1"
        home.mkdir(parents=True)
        with open(home / "7-1.trans.txt", "w", encoding="utf-8") as file:
            for number, row in enumerate(Manifest.open(manifest)):
                sound = read_audio(row["audio"], row["start"], row["duration"])
                soundfile.write(home / f"7-1-{number:04d}.flac", sound, 16000)
                file.write(f"7-1-{number:04d} {row['source_text'].upper()}\n")


def write_librilight(root, manifest):
    """Write recordings in the layout of Libri-Light, a speaker for each row; by its number, 178 is held out."""
    for number, row in enumerate(Manifest.open(manifest)):
        home = root / "small" / str(168 + number) / "book"
        home.mkdir(parents=True)
        soundfile.write(home / "a.flac", read_audio(row["audio"], row["start"], row["duration"]), 16000)
        times = {"voice_activity": [[0.0, row["duration"]]]}
        (home / "a.json").write_text(json.dumps(times), encoding="utf-8")
