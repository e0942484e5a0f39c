"""Inputs of fairseq's speech models in make_fairseq_speech_fixtures.py, and their outputs."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import soundfile
import torch

from dragoman.shared.padded import Padded
from tests.parity.compared import Compared

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


def weighted(x: torch.Tensor) -> torch.Tensor:
    """Return a sum whose gradients tell all elements apart."""
    return (x * torch.linspace(-1, 1, x.numel()).view_as(x)).sum()


def check_gradients(
    model: torch.nn.Module,
    names: Callable[[str], list[str]],
    numbers: dict[str, torch.Tensor],
    found: Compared,
    least: float = 1,
) -> None:
    """Compare gradients, each as a share of its largest element, or of ``least`` if that is larger."""
    compared = 0
    for name, parameter in model.named_parameters():
        parts = [numbers.get(f"gradient.{part}") for part in names(name)]
        if parts and all(part is not None for part in parts):
            assert parameter.grad is not None, name
            expected = torch.cat(parts)
            size = expected.abs().max().clamp(min=least)
            found.close("gradients", parameter.grad / size, expected / size, message=name)
            compared += 1
        elif parameter.grad is not None:
            assert not parameter.grad.any(), name
    assert compared > 25
