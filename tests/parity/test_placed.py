"""Layers that stay in the folder, of models of transformers and of imported ones: outputs are as without."""

import pytest
import torch

import dragoman
from dragoman.exchange.importing import import_model
from dragoman.shared.search import BeamSearch, Rules
from dragoman.shared.systems.system import System
from tests.parity.library_models import SENTENCES, Canary, Mixture, Seamless, noise

transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate")
from dragoman.placing.placed import layers_of, rest_of, size_of_all  # noqa: E402
from tests.parity.test_huggingface_whisper import saved as whisper  # noqa: E402
from tests.parity.test_language_models import written as language_model  # noqa: E402

pytestmark = pytest.mark.parity

SEARCH = BeamSearch(beam=3, n_best=2, rules=Rules(maximum_length_extra=8))
FAMILIES = {"seamless": Seamless, "mixture": Mixture, "canary": Canary}


def imported(name, folder):
    """Return the model folder of a tiny model."""
    out = folder / "model"
    if name in FAMILIES:
        theirs = FAMILIES[name](transformers, folder / "theirs")
        import_model(theirs.folder, out, engine="transformers")
    elif name == "whisper":
        whisper("small", folder / "theirs")
        import_model(folder / "theirs", out)
    else:
        language_model(folder / "theirs", name)
        import_model(folder / "theirs", out, engine="transformers", source_languages=["en"], target_languages=["de"])
    return out


@pytest.mark.parametrize("name", [*FAMILIES, "whisper", "qwen3", "gemma3"])
def test_outputs_are_as_without(name, tmp_path):
    torch.manual_seed(1)
    if name != "whisper":
        (tmp_path / "theirs").mkdir()
    folder = imported(name, tmp_path)
    plain = System.load(folder)
    layers = layers_of(plain)
    need = rest_of(plain, layers) + max(size_of_all([layer]) for layer in layers.values())
    placed = dragoman.load(folder, device="cpu", memory=f"cpu={-(-need // 1024)}KB")
    away = [name for name, layer in layers_of(placed).items() if next(layer.parameters()).is_meta]
    assert len(away) == len(layers) > 1
    for reads in plain.inputs:
        items, common = SENTENCES, {"source_language": "en", "target_language": plain.target_languages[0]}
        if reads == "speech":
            items, common = [sound[:30000] for sound in noise()], common | {"keep_silence": True, "sample_rate": 16000}
        found = [
            [[(one.tokens, pytest.approx(one.score, abs=1e-4)) for one in row] for row in rows]
            for rows in (
                system.for_task(reads=[reads]).hypotheses(items, search=SEARCH, **common) for system in (plain, placed)
            )
        ]
        assert found[0] == found[1] and any(row for row in found[0])
