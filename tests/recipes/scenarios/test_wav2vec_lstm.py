"""A translator of LSTM layers above a wav2vec that fairseq has trained, which is imported and stays as it is."""

from pathlib import Path

import pytest
import torch

from dragoman.exchange.importing import import_model
from dragoman.runs.running import run_recipe
from dragoman.shared.systems.saved_model import SavedModel
from tests.recipes.test_recipes import load, small
from tests.recipes.test_waveform import QUICK

CHECKPOINT = Path(__file__).parents[2] / "parity" / "fairseq_speech" / "wav2vec_2019" / "checkpoint.pt"
FRONT = "model.embeddings.speech.frontend."


@pytest.mark.recipes
def test_an_imported_front_end_learns_nothing(tmp_path, monkeypatch, miniature):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "wav2vec"
    import_model(CHECKPOINT, folder)
    keys = QUICK | {"data_folder": str(miniature["mustc"]), "phases.wav2vec": None, "wav2vec_folder": str(folder)}
    keys |= {"wav2vec_channels": 14, "wav2vec_kernels": "[2, 3, 6]", "debug": True, "workers": 0, "device": "cpu"}
    recipe = load("mustc/wav2vec_lstm", **small(load("mustc/wav2vec_lstm", **keys)) | keys)
    system = SavedModel.load(run_recipe(recipe, command="a test").output / "average" / "model")
    assert system.origin[0] == f"{FRONT[:-1]}: 33 of 33 tensors from model.frontend of {folder}"
    theirs = SavedModel.load(folder).state_dict()
    below = {name: tensor for name, tensor in system.state_dict().items() if name.startswith(FRONT)}
    assert len(below) == 33
    for name, tensor in below.items():
        assert torch.equal(tensor, theirs[name.replace(FRONT, "model.frontend.")]), name
