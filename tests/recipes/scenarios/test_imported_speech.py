"""Recipes above the encoders of an imported Whisper and Speech2Text: what learns, and what the folder then does."""

import re

import numpy as np
import pytest
import torch

from dragoman import Recipe, System
from dragoman.exchange.importing import import_model
from dragoman.runs.running import run_recipe
from dragoman.shared.systems.reading_model import ReadingModel
from tests.recipes.installed import RECIPES
from tests.recipes.scenarios.test_finetune import FIXTURES, translator  # noqa: F401 - a fixture
from tests.recipes.test_recipes import FILLED_IN, small
from tests.recipes.test_waveform import QUICK

pytest.importorskip("transformers")

FRONT = "model.embeddings.speech.frontend."
#: Where the imported encoder's tensors stand in its own folder.
PLACES = {f"{FRONT}embedding.": "model.embeddings.speech.", f"{FRONT}encoder.": "model.encoder."}
NOTHING = "^$"
NORMS_AND_ATTENTION = r"encoder\.(.*norm|.*self_attention)\..*"
LAST_LAYER = r"encoder\.layers\.1\..*"
REST = r"(?!.*\.frontend\.).*"


@pytest.fixture(scope="module")
def encoders(tmp_path_factory):
    """Import a random Whisper with a window of ten seconds and a random Speech2Text; return their folders by name."""
    from tests.parity.test_huggingface_speech import saved_speech_model
    from tests.parity.test_huggingface_whisper import saved

    home = tmp_path_factory.mktemp("speech")
    saved("small", home / "theirs", max_source_positions=500)
    saved_speech_model("small", home / "others")
    import_model(home / "theirs", home / "whisper").check()
    import_model(home / "others", home / "speech2text", source_languages=["en"]).check()
    return {name: home / name for name in ("whisper", "speech2text")}


def moved(model, encoder):
    """Return the tensors of the front end in a model folder that are no longer those of the encoder's, and all."""
    after, before = System.load(model).state_dict(), System.load(encoder).state_dict()
    names = {name: there for name in after for here, there in PLACES.items() if name.startswith(here)}
    names = {name: there + name.removeprefix(here) for name, there in names.items() for here in PLACES if here in name}
    assert {*names.values()} == {name for name in before if name.startswith((*PLACES.values(),))}
    changed = {name for name, there in names.items() if not torch.equal(after[name], before[there])}
    return [{name.removeprefix(FRONT) for name in found} for found in (changed, names)]


def run(name, arm, encoder, miniature, folder, **keys):
    """Run two updates of a recipe above an encoder; return its model folder."""
    given = {"arm": arm, "speech_folder": str(encoder)} | keys
    given |= {"data_folder": str(miniature[name.partition("/")[0]]), "manifest_folder": str(folder / "manifests")}
    given |= {key: value for key, value in FILLED_IN.items() if key in RECIPES[name].placeholders and key not in given}
    given |= QUICK | {"results_folder": str(folder / "results"), "learning_rate": 0.001}
    given |= {"updates": 100} if name.endswith("lna") else {"warmup": 1}
    return run_recipe(Recipe.load(name, given), command="a test").output / "average" / "model"


@pytest.mark.recipes
@pytest.mark.parametrize(
    ("name", "arm", "encoder", "learns"),
    [
        ("own/st_finetune", "whisper", "whisper", r"encoder\.(norm|.*_norm|layers\..*self_attention)\..*"),
        ("own/st_finetune", "whisper+ctc", "whisper", r"encoder\.(norm|.*_norm|layers\..*self_attention)\..*"),
        ("own/st_finetune", "w2v_bert", "speech2text", r".*(subsampler|norm).*|encoder\.layers\..*self_attention\..*"),
        ("own/lna", "features", "whisper", NORMS_AND_ATTENTION),
        ("covost2/lna", "features", "speech2text", NORMS_AND_ATTENTION),
    ],
)
def test_an_encoder_learns_in_part_below_an_imported_translator(
    name,
    arm,
    encoder,
    learns,
    translator,  # noqa: F811 - a fixture
    encoders,
    miniature,
    tmp_path,
):
    keys = {"text_folder": str(translator), "batch_seconds": 8.0, "grad_accumulation_factor": 1}
    keys |= {"source_language": "en", "target_language": "de", "validation.limit": 2, "beam": 2}
    keys |= {"rules.maximum_length_extra": 10}
    model = run(name, arm, encoders[encoder], miniature, tmp_path, **keys)
    changed, there = moved(model, encoders[encoder])
    # The zeros beside the biases of queries and values stand for those of keys, and do not keep others from moving.
    assert changed == {tensor for tensor in there if re.fullmatch(learns, tensor)} != set()


@pytest.mark.recipes
@pytest.mark.parametrize(
    ("name", "learning"),
    [
        ("own/st", NOTHING),
        ("own/st", NORMS_AND_ATTENTION),
        ("own/costt", NOTHING),
        ("own/lut", NOTHING),
        ("mustc/wav2vec2_st", LAST_LAYER),
        ("covost2/wav2vec2_st", NOTHING),
        ("mustc/xstnet", NOTHING),
        ("covost2/chimera", NOTHING),
    ],
)
def test_own_layers_learn_above_a_whole_or_partly_frozen_encoder(name, learning, encoders, miniature, tmp_path):
    encoder = encoders["whisper"]
    filled = {key: value for key, value in FILLED_IN.items() if key in RECIPES[name].placeholders}
    filled |= {"arm": "imported", "speech_folder": str(encoder)}
    taught = {}
    if name == "own/lut":
        import_model(FIXTURES / "fairseq" / "masked_tokens", tmp_path / "bert", pieces="words", source_languages=["en"])
        width = ReadingModel.load(tmp_path / "bert").model.encoder.width
        taught = {"bert_folder": str(tmp_path / "bert"), "teacher_width": width, "teacher_heads": 2}
    keys = small(Recipe.load(name, filled | taught)) | taught
    if learning != NOTHING:
        keys["learning"] = rf".*\.frontend\.{learning}|{REST}"
    model = run(name, "imported", encoder, miniature, tmp_path, **keys)
    changed, there = moved(model, encoder)
    assert changed == {tensor for tensor in there if re.fullmatch(learning, tensor)}
    assert len(changed) == 0 if learning == NOTHING else len(changed) > 0
    sound = np.random.default_rng(1).standard_normal(30000) * 0.1
    assert len(System.load(model).translate([sound, sound[:5000]], sample_rate=16000)) == 2
