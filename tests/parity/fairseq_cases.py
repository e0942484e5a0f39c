"""Inputs of fairseq's speech models in make_fairseq_speech_fixtures.py, and their outputs."""

from __future__ import annotations

import os
from pathlib import Path

import soundfile
import torch

from dragoman.shared.padded import Padded
from tests.parity.compared import Compared, weighted  # noqa: F401 - for the tests of speech models

HERE = Path(os.environ.get("FAIRSEQ_SPEECH_FIXTURES") or Path(__file__).parent / "fairseq_speech")
FILES = sorted((HERE / "audio").glob("*.wav"))
#: Samples that batches of pre-training have of each waveform that is long enough.
CROP = 9600


def waveforms() -> Padded:
    """Return all waveforms in one batch, with padding that nobody may read."""
    rows = [torch.from_numpy(soundfile.read(file, dtype="float32")[0]) for file in FILES]
    return Padded.from_sequences(rows, padding=0.5)


def beginnings() -> Padded:
    """Return the batch of pre-training."""
    return Padded.from_sequences([row[:CROP] for row in waveforms().rows() if len(row) >= CROP])


def check_gradients(model, names, numbers, found: Compared, least: float = 1) -> None:
    found.gradients(model, names, {name.removeprefix("gradient."): value for name, value in numbers.items()}, least)
