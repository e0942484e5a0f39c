"""LNA from imported folders: exactly what is declared to learn changes, in the folder that the recipe leaves."""

import pytest
import torch

from dragoman import Recipe, System
from dragoman.exchange.importing import import_model
from dragoman.runs.running import run_recipe
from dragoman.shared.systems.saved_model import SavedModel
from tests.recipes.scenarios.test_finetune import FIXTURES, translator  # noqa: F401 - a fixture
from tests.recipes.test_resumed import check_interrupted
from tests.recipes.test_waveform import QUICK


def folders(name, translator, miniature, folder):  # noqa: F811 - folders
    """Import an encoder; return its folder, and the keys of a recipe above it and the translator, made small."""
    encoder = folder / "encoder"
    import_model(FIXTURES / "fairseq_speech" / "waveform_large", encoder)
    given = {"speech_folder": str(encoder), "text_folder": str(translator)}
    given |= {"data_folder": str(miniature[name.partition("/")[0]])}
    given |= {"manifest_folder": str(folder / "m"), "beam": 2, "rules.maximum_length_extra": 10}
    given |= {"source_language": "en", "target_language": "de", "validation.limit": 2, "batch_seconds": 8.0}
    return encoder, given | QUICK | {"grad_accumulation_factor": 1}


@pytest.mark.recipes
@pytest.mark.parametrize("name", ["own/lna", "covost2/lna", "europarl/lna"])
def test_norms_attention_and_the_adaptor_learn(name, translator, miniature, tmp_path):  # noqa: F811 - a fixture
    encoder, given = folders(name, translator, miniature, tmp_path)
    given |= {"results_folder": str(tmp_path / "results"), "learning_rate": 0.001, "updates": 100}
    model = run_recipe(Recipe.load(name, given), command="a test").output / "average" / "model"
    system, below, above = System.load(model), SavedModel.load(encoder), System.load(translator)
    states, moved = system.state_dict(), set()
    for name, tensor in states.items():
        front = "model.embeddings.speech.frontend."
        if name.startswith(front + "embedding."):
            origin = below.state_dict()["model.embeddings.speech." + name.removeprefix(front + "embedding.")]
        elif name.startswith(front):
            origin = below.state_dict()["model." + name.removeprefix(front)]
        else:
            origin = above.state_dict().get(name)
        if origin is not None and not torch.equal(tensor, origin):
            moved.add(name)
    assert moved
    for name in moved:
        assert "norm" in name or "memory_attention" in name or ".frontend.encoder." in name, name
        assert ".inner." not in name and ".outer." not in name and not name.startswith("model.encoder."), name
    assert any("memory_attention.source" in name for name in moved)
    assert any(".frontend.encoder.layers.0.self_attention." in name for name in moved)
    assert system.for_task(reads=["source"]).translate("one two") is not None


@pytest.mark.recipes
def test_tuning_ends_with_the_same_bits_after_an_interruption(
    translator,  # noqa: F811 - a fixture
    miniature,
    tmp_path,
    monkeypatch,
):
    _, given = folders("covost2/lna", translator, miniature, tmp_path)
    check_interrupted("covost2/lna", given, tmp_path, monkeypatch)
