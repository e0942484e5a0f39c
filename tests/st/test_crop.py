"""Crops: parts of a recording that was read as a whole, and lengths known beforehand."""

from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

from dragoman import DataError, Manifest, UsageError
from dragoman.shared.batches.speech_field import SpeechField
from dragoman.st.crop import Crop
from tests.small import refuses


@pytest.fixture
def recording(tmp_path: Path) -> dict:
    samples = np.arange(32000, dtype=np.float32) / 32000  # each sample says where it is
    soundfile.write(tmp_path / "a.wav", samples, 16000, subtype="FLOAT")
    return {"id": "r", "audio": str(tmp_path / "a.wav"), "start": 0.25, "duration": 1.5}


def first(crop: Crop, row: dict, seed: int) -> int:
    """Return the place in the file at which a crop begins, and insist that it is one piece."""
    places = torch.round(crop(row, np.random.default_rng(seed)) * 32000).long()
    assert places.tolist() == list(range(int(places[0]), int(places[0]) + len(places)))
    return int(places[0])


def test_a_crop_is_a_piece_from_anywhere_in_the_row(recording: dict) -> None:
    crop = Crop(field=SpeechField(), seconds=0.1)
    begins = [first(crop, recording, seed) for seed in range(200)]
    assert begins == [first(crop, recording, seed) for seed in range(200)]
    assert 4000 <= min(begins) < 5000 and 25000 < max(begins) <= 28000 - 1600
    assert len(set(begins)) > 190
    assert len(crop(recording, np.random.default_rng(1))) == crop.length(recording) == 1600


def test_a_short_row_stays_whole(recording: dict) -> None:
    crop = Crop(field=SpeechField(), seconds=2.0)
    torch.testing.assert_close(crop(recording, None), SpeechField()(recording, None), atol=0, rtol=0)
    assert crop.length(recording) == 24000


def test_in_evaluation_it_is_the_beginning(recording: dict) -> None:
    crop = Crop(field=SpeechField(speeds=[0.5, 2.0]), seconds=0.5).evaluating()
    assert {first(crop, recording, seed) for seed in range(5)} == {4000}
    assert crop.length(recording) == 8000


def test_lengths_are_those_of_the_slowest_speed(tmp_path: Path, recording: dict) -> None:
    crop = Crop(field=SpeechField(speeds=[0.9, 1.0]), seconds=1.0)
    rows = [recording, recording | {"id": "s", "duration": 0.5}, {"id": "none"}]
    manifest = Manifest.write(tmp_path / "m.arrow", rows)
    assert crop.lengths(manifest).tolist() == crop.lengths(rows).tolist() == [17778, 8889, -1]
    assert max(len(crop(recording, np.random.default_rng(seed))) for seed in range(9)) == 17778


def test_refusals(recording: dict) -> None:
    refuses(UsageError, "seconds must be at least the length of a sample, not 0", Crop, field=SpeechField(), seconds=0)
    for column in ("duration", "audio"):
        crop = Crop(field=SpeechField(), seconds=1)
        refuses(DataError, f"'r' has no {column}", crop, recording | {column: None}, None)
