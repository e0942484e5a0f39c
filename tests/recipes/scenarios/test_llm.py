"""Recipes that teach a language model of transformers to translate: what stays, what is written, interruptions."""

import json
import re

import numpy as np
import pytest

from dragoman import Recipe, System, UsageError
from dragoman.exchange.importing import import_model
from dragoman.runs.running import run_recipe
from dragoman.shared.systems.reading_model import ReadingModel
from tests.recipes.scenarios.test_finetune import changed
from tests.recipes.test_resumed import check_interrupted
from tests.recipes.test_waveform import QUICK
from tests.small import refuses

transformers = pytest.importorskip("transformers")
pytest.importorskip("peft")
#: What makes a run short, and its steps long.
SHORT = QUICK | {"learning_rate": 0.01, "warmup": 1, "validation.limit": 2, "beam": 2}
SHORT |= {"rules.maximum_length_extra": 10, "source_language": "en", "target_language": "de"}


@pytest.fixture(scope="module")
def language_model(tmp_path_factory):
    """Import a small random language model that is asked to translate."""
    from tests.parity.test_language_models import written

    home = tmp_path_factory.mktemp("language_model")
    written(home / "theirs", "qwen3")
    codes = {"source_languages": ["en"], "target_languages": ["de"]}
    import_model(home / "theirs", home / "ours", engine="transformers", **codes)
    return home / "ours"


def run(name, folder, data, **keys):
    """Run a recipe in debug mode; return its model folder."""
    keys = SHORT | {"data_folder": str(data), "manifest_folder": str(folder / "manifests")} | keys
    keys |= {"results_folder": str(folder / "results")}
    return run_recipe(Recipe.load(name, keys), command="a test").output / "average" / "model"


@pytest.mark.recipes
@pytest.mark.parametrize(
    ("keys", "learning"),
    [({"targets": r".*\.(q_proj|up_proj)"}, ("q_proj.weight", "up_proj.weight")), ({"tuning": "null"}, ("",))],
)
def test_a_language_model_learns_to_translate(keys, learning, language_model, miniature, tmp_path):
    model = run("own/llm_mt", tmp_path, miniature["own"], model_folder=str(language_model), **keys)
    before, after = System.load(language_model), System.load(model)
    names = {name for name, _ in before.named_parameters()}
    assert changed(before, after) == {name for name in names if name.endswith(learning)}
    assert isinstance(after.translate("a dog"), str)
    assert after.inputs["source"].prompt == before.inputs["source"].prompt
    assert any(line == f"all parameters from {language_model}" for line in after.origin)


@pytest.mark.recipes
def test_an_interrupted_run_ends_with_the_same_bits(language_model, miniature, tmp_path, monkeypatch):
    keys = SHORT | {"data_folder": str(miniature["own"]), "manifest_folder": "manifests"}
    check_interrupted("own/llm_mt", keys | {"model_folder": str(language_model)}, tmp_path, monkeypatch)


@pytest.mark.recipes
def test_four_bits_need_a_gpu(language_model, miniature, tmp_path):
    pytest.importorskip("bitsandbytes")
    given = {"model_folder": str(language_model), "four_bit": True}
    refuses(UsageError, "4-bit weights need a GPU", run, "own/llm_mt", tmp_path, miniature["own"], **given)


# -- speech -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def speaking(tmp_path_factory):
    """Import a random Whisper with a window of ten seconds, wav2vec 2.0 with CTC, and a language model to hear them."""
    from tests.parity.test_huggingface_speech import saved_waveform_model
    from tests.parity.test_huggingface_whisper import saved
    from tests.parity.test_language_models import written

    home = tmp_path_factory.mktemp("speaking")
    saved("small", home / "theirs", max_source_positions=500)
    import_model(home / "theirs", home / "whisper")
    saved_waveform_model("base_ctc", home / "ctc_theirs")
    import_model(home / "ctc_theirs", home / "ctc", source_languages=["en"])
    written(home / "lm_theirs", "llama")
    settings = json.loads((home / "lm_theirs" / "config.json").read_text())  # the small encoder has 400 states a second
    settings["max_position_embeddings"] = 4096
    (home / "lm_theirs" / "config.json").write_text(json.dumps(settings))
    codes = {"source_languages": ["en"], "target_languages": ["de"]}
    import_model(home / "lm_theirs", home / "lm", engine="transformers", prompt="{text}", **codes)
    return home


ATTENTION = r".*\.(q_proj|k_proj|v_proj|o_proj|gate_proj|up_proj|down_proj)\.weight"


@pytest.mark.recipes
@pytest.mark.parametrize(
    ("arm", "encoder", "learning", "keys"),
    [
        (None, "whisper", rf"model\.speech\.subsampler\..*|model\.lm\.{ATTENTION}", {}),
        ("frozen_llm+tasks", "whisper", r"model\.speech\.subsampler\..*", {}),
        ("frozen_llm+waveform+ctc", "ctc", r"model\.speech\.subsampler\..*", {}),
        (
            "frozen_llm",
            "whisper",
            r"model\.speech\.(subsampler|frontend\.encoder)\..*",
            {"learning": r".*\.speech\.(subsampler|frontend\.encoder)\..*"},
        ),
    ],
)
def test_what_is_chosen_learns_and_all_else_stays(arm, encoder, learning, keys, speaking, miniature, tmp_path):
    folders = {"speech_folder": str(speaking / encoder), "model_folder": str(speaking / "lm")}
    keys = {"batch_rows": 4} | ({} if arm is None else {"arm": arm}) | keys
    keys |= {} if encoder == "ctc" else {"channels": 16, "kernels": [3, 3]}
    after = System.load(run("own/speech_llm", tmp_path, miniature["own"], **folders, **keys))
    sound, lm = ReadingModel.load(speaking / encoder), System.load(speaking / "lm")
    places = {
        "model.speech.frontend.embedding.": "model.embeddings.speech.",
        "model.speech.frontend.encoder.": "model.encoder.",
    }
    before = {name: tensor for name, tensor in lm.state_dict().items()}
    for here, there in places.items():
        found = {here + name.removeprefix(there): t for name, t in sound.state_dict().items() if name.startswith(there)}
        before |= found
    new = {name for name in after.state_dict() if name not in before}
    heads = {name for name in new if name.startswith("model.speech.frontend.head.")}
    assert all(name.startswith("model.speech.subsampler.") for name in new - heads) and new - heads
    assert all(after.state_dict()[name].equal(sound.state_dict()["model.heads.ctc." + name[27:]]) for name in heads)
    moved = {name for name, tensor in before.items() if not tensor.equal(after.state_dict()[name])}
    wanted = {name for name, _ in after.named_parameters() if re.fullmatch(learning, name)}
    # Zeros beside the biases of queries and values stand for those of keys, which nothing moves.
    assert moved == wanted - new
    heard = 0.1 * np.random.default_rng(1).standard_normal(16000).astype(np.float32)
    for writes, names in {"transcript": ["transcript"], "both": ["transcript", "translation"]}.items():
        [[best]] = after.for_task(writes=writes).hypotheses([heard], sample_rate=16000, beam=2, keep_silence=True)
        assert [*best.texts] == names
    prompts = [after.for_task(writes=name).inputs["prompt"].prompt for name in ("translation", "transcript", "both")]
    assert len({*map(str, prompts)}) == 3


@pytest.mark.recipes
def test_an_interrupted_run_of_speech_ends_with_the_same_bits(speaking, miniature, tmp_path, monkeypatch):
    keys = SHORT | {"data_folder": str(miniature["own"]), "manifest_folder": "manifests", "arm": "waveform+ctc+tasks"}
    keys |= {"speech_folder": str(speaking / "ctc"), "model_folder": str(speaking / "lm"), "batch_rows": 4}
    check_interrupted("own/speech_llm", keys, tmp_path, monkeypatch)
