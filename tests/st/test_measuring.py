"""Features are measured over a corpus, and a norm is filled with what was measured."""

import numpy as np
import pytest
import soundfile
import torch
from safetensors.torch import load_file, save_file
from torch import nn
from torchaudio.compliance import kaldi

from dragoman import DataError, Manifest, UsageError
from dragoman.shared.batches.stream import Budget
from dragoman.shared.nn.fbank import Fbank, GlobalNorm
from dragoman.shared.training.initialise import FeatureStatistics
from dragoman.st.measuring import MeasureFeatures
from tests.small import refusal, refuses, run


@pytest.fixture
def manifest(tmp_path, write_sound):
    rows = []
    for number, seconds in enumerate([0.5, 0.9, 0.3]):
        write_sound(tmp_path / f"{number}.wav", seconds)
        row = {"id": str(number), "audio": str(tmp_path / f"{number}.wav"), "start": 0.0, "duration": seconds}
        rows.append(row | {"source_text": "one", "source_language": "en", "target_language": "en"})
    return Manifest.write(tmp_path / "train.arrow", rows).path


def measured(tmp_path, manifest, **options):
    given = {"manifests": [str(manifest)], "frontend": Fbank(bins=20), "budget": Budget(seconds=1.2)}
    return run(MeasureFeatures(**given | options), tmp_path / "run", "features").folder / "features.safetensors"


@pytest.mark.parametrize("limit", [0, 2])
def test_means_and_deviations_are_those_of_all_frames(tmp_path, manifest, limit):
    found = load_file(measured(tmp_path, manifest, limit=limit))
    features = []
    for row in list(Manifest.open(manifest))[: limit or 3]:
        waveform = torch.from_numpy(soundfile.read(row["audio"], dtype="float32")[0])[None] * 32768
        features.append(kaldi.fbank(waveform, num_mel_bins=20, dither=0.0).numpy())
    frames = np.concatenate(features)
    np.testing.assert_allclose(found["mean"], frames.mean(0), rtol=1e-4)
    np.testing.assert_allclose(found["deviation"], frames.std(0), rtol=1e-3)


class Whole(nn.Module):
    """A system with a norm of three features and one of other things."""

    def __init__(self):
        super().__init__()
        self.norm, self.other, self.origin = GlobalNorm(bins=3), nn.Linear(3, 3), []


def test_a_norm_is_filled_and_what_is_constant_is_not_divided(tmp_path):
    file = tmp_path / "features.safetensors"
    save_file({"mean": torch.tensor([1.0, 2.0, 3.0]), "deviation": torch.tensor([2.0, 0.0, 0.5])}, file)
    system = Whole()
    [line] = FeatureStatistics(file=str(file), part="norm").apply(system)
    assert system.origin == [line] and "norm: means and deviations of 3 features" in line
    assert system.norm.mean.tolist() == [1.0, 2.0, 3.0] and system.norm.deviation.tolist() == [2.0, 1.0, 0.5]


def test_what_does_not_fit_is_refused(tmp_path, manifest):
    refuses(UsageError, "limit must be at least 0", measured, tmp_path, manifest, limit=-1)
    for part in ("other", "nothing"):
        apply = FeatureStatistics(file="x", part=part).apply
        refuses(UsageError, f"{part} is a (Linear|NoneType), not a GlobalNorm", apply, Whole())
    refuses(DataError, "holds no features", FeatureStatistics(file=str(tmp_path / "none"), part="norm").apply, Whole())
    twenty = FeatureStatistics(file=str(measured(tmp_path, manifest)), part="norm")
    refuses(DataError, "has 20 features, and norm 3", twenty.apply, Whole())


def test_manifests_without_recordings_are_named(tmp_path):
    path = Manifest.write(tmp_path / "none.arrow", []).path
    assert refusal(DataError, measured, tmp_path, path) == f"{path}: hold no recording to measure features of"
