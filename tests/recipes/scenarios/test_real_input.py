"""Recipes over real input above imported encoders: both arms of a comparison read the same, and two updates run."""

import re
import shutil
from pathlib import Path

import pytest

pytest.importorskip("transformers")
from dragoman import Recipe, System
from dragoman.runs.running import run_recipe
from dragoman.shared.nn.fbank import Fbank
from dragoman.shared.systems.reading_model import ReadingModel
from tests.recipes.scenarios.test_imported_reader import encoder  # noqa: F401 - a fixture
from tests.recipes.scenarios.test_imported_speech import (
    NORMS_AND_ATTENTION,
    NOTHING,
    encoders,  # noqa: F401 - a fixture
    moved,
)
from tests.recipes.test_recipes import small
from tests.recipes.test_waveform import QUICK

REAL_INPUT = Path(__file__).parents[3] / "docs" / "real_input"
#: Sizes that LNA's encoder has from Whisper's.
WHISPERS = {"width", "heads", "feedforward"}
#: Recipes, the arm that README.md measures (None: no arm), and its control.
COMPARED = [
    ("wav2vec2_st", "whisper", "filterbanks"),
    ("xstnet", "whisper", "filterbanks"),
    ("chimera", "whisper", "filterbanks"),
    ("lut", None, "filterbanks"),
    ("lut", None, "none"),
    ("lna", None, "filterbanks"),
    ("lna", None, "all"),
    ("ctnmt", None, "none"),
    ("ctnmt", "switch", "frozen"),
    ("bert_fused", None, "alone"),
    ("apt", None, "none"),
]


def load(name, arm, **keys):
    return Recipe.load(REAL_INPUT / f"{name}.yaml", keys | ({"arm": arm} if arm else {}))


def read_in_training(recipe):
    """Return what each training reads and how long, and the vocabulary."""
    read = ("manifests", "budget", "filter", "alpha")
    pieces = [recipe.value(key) for key in ("pieces", "piece_kind", "piece_columns")]
    trainings = [phase.arguments for phase in recipe.plan.values() if "streams" in phase.arguments]
    assert trainings
    found = []
    for training in trainings:
        streams = [[*stream.values()][0] for stream in training["streams"]]  # below the name of the class
        assert all(stream["manifests"] and stream["budget"] for stream in streams)
        found.append([training["updates"], training.get("grad_accumulation_factor", 1)])
        found.append([{key: stream.get(key) for key in read} for stream in streams])
    return pieces, found


@pytest.mark.parametrize(("name", "arm", "control"), COMPARED)
def test_both_arms_have_the_same_data_batches_updates_and_pieces(name, arm, control, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    one, other = (load(name, each, data_folder="data") for each in (arm, control))
    assert read_in_training(one) == read_in_training(other)
    assert one.value("output_folder") != other.value("output_folder")


@pytest.mark.recipes
@pytest.mark.parametrize(
    ("name", "arm", "learns"),
    [("wav2vec2_st", "filterbanks", None), ("xstnet", "whisper", NOTHING), ("lut", None, NOTHING)]
    + [("lut", "filterbanks", None), ("lna", "filterbanks", None), ("lna", None, NORMS_AND_ATTENTION)],
)
def test_translators_of_speech_learn_above_whisper_and_filterbanks(
    name,
    arm,
    learns,
    encoders,  # noqa: F811 - a fixture
    miniature,
    tmp_path,
    monkeypatch,
):
    monkeypatch.chdir(tmp_path)
    given = {"data_folder": str(miniature["covost2"]), "manifest_folder": str(tmp_path / "m"), "learning_rate": 0.001}
    given |= {"results_folder": str(tmp_path / "r")} | QUICK
    if learns is not None:
        given["speech_folder"] = str(encoders["whisper"])
    if name != "wav2vec2_st":
        given |= {"text_folder": str(miniature["text"]), "text_manifest_folder": str(tmp_path / "t")}
    sizes = small(load(name, arm, **given))
    if (name, arm) == ("lna", None):
        sizes = {key: size for key, size in sizes.items() if key not in WHISPERS}
    model = run_recipe(load(name, arm, **given | sizes), command="a test").output
    model = model / "average" / "model"
    if learns is not None:
        changed, there = moved(model, encoders["whisper"])
        assert changed == {tensor for tensor in there if re.fullmatch(learns, tensor)}
    else:
        assert any(isinstance(part, Fbank) for part in System.load(model).model.modules())


@pytest.mark.recipes
@pytest.mark.parametrize(("name", "arm"), [("ctnmt", None), ("ctnmt", "none"), ("bert_fused", "alone"), ("apt", None)])
def test_translators_of_text_learn_with_an_imported_encoder(
    name,
    arm,
    encoder,  # noqa: F811 - a fixture
    miniature,
    tmp_path,
    monkeypatch,
):
    monkeypatch.chdir(tmp_path)
    data = shutil.copytree(miniature["text"], tmp_path / "text")
    shutil.copy(data / "monolingual" / "train.de", data / "monolingual" / "dev.de")
    keys = {"data_folder": str(data), "results_folder": str(tmp_path / "r"), "bert_folder": str(encoder)}
    keys |= {"manifest_folder": str(tmp_path / "m")} | QUICK
    sizes = small(load(name, arm, **keys))
    if name == "ctnmt":
        sizes["width"] = ReadingModel.load(encoder).model.encoder.width
    run = run_recipe(load(name, arm, **keys | sizes), command="a test")
    assert System.load(run.output / "average" / "model").translate("one two") is not None
