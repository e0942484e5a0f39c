"""Self-training: which rows the student reads, and the recipe that labels another corpus' recordings."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

from dragoman import Manifest, Recipe
from dragoman.preparing.preparation import prepare
from dragoman.runs.running import run_recipe
from dragoman.shared.batches.loader import Loader
from dragoman.shared.systems.saved_model import SavedModel
from dragoman.st.corpora.librilight import LibriLight
from tests.recipes.test_recipes import check_size, small, vocabulary
from tests.recipes.test_waveform import FRONTEND, QUICK, pretrained, states  # noqa: F401 - a fixture

GOLDEN = Path(__file__).parents[2] / "golden" / "model"
COVOST = {"source_language": "en", "target_language": "de", "manifest_folder": "manifests", "data_folder": "data"}
COVOST |= {"waveform_folder": "encoder", "more_manifests": ["more.arrow"]}


def test_the_recipe_of_covost_has_the_size_that_it_says():
    own = vocabulary(Recipe.load("covost2/self_training", COVOST).value("pieces"), "en, de")
    recipe = Recipe.load("covost2/self_training", COVOST | {"tokenizer": own})
    with torch.device("meta"):
        objective = recipe.plan["fit"].build().objective
    check_size(recipe, objective)


@pytest.mark.recipes
def test_recordings_of_another_corpus_are_labelled_in_the_target_language(
    pretrained,  # noqa: F811 - a fixture
    miniature,
    tmp_path,
):
    prepare(LibriLight(root=str(miniature["librilight"])), tmp_path / "more", workers=1)
    [more] = (tmp_path / "more").glob("en/train.arrow")
    given = COVOST | {"data_folder": str(miniature["covost2"]), "waveform_folder": str(pretrained)}
    given |= {"manifest_folder": str(tmp_path / "manifests"), "results_folder": str(tmp_path / "results")}
    given |= {"more_manifests": [str(more)], "waveform_positions": 32}
    given |= {"lm_width": 16, "lm_heads": 2, "lm_feedforward": 32, "lm_layers": 1}
    recipe = Recipe.load("covost2/self_training", small(Recipe.load("covost2/self_training", given)) | QUICK | given)
    output = run_recipe(recipe, command="a test").output
    below = states(pretrained)
    there = {name: f"{FRONTEND}embedding{name.removeprefix('model.embeddings.speech')}" for name in below}
    frozen = [name for name in below if name.startswith("model.embeddings.speech.")]
    places = (tmp_path / "results/self_training_teacher/1-debug/average", output / "average", output / "average_tuned")
    teacher, student, tuned = (states(place / "model") for place in places)
    assert frozen and all(torch.equal(one[there[name]], below[name]) for one in (teacher, student) for name in frozen)
    assert not all(torch.equal(tuned[there[name]], below[name]) for name in frozen)
    assert SavedModel.load(output / "average_lm" / "model").target_languages == ["de"]
    rows = list(Manifest.open(output / "label" / "en" / "train.arrow"))
    assert rows and all(row["target_text"] and row["target_language"] == "de" for row in rows)
    mark = Manifest.open(more).select(range(2)).fingerprint
    assert all(row["made_from"] == mark and row["source_text"] is None for row in rows)


def test_the_student_reads_as_many_labels_as_translations(tmp_path):
    """40 rows with translations and 160 with labels: the shares are of rows, and labels lack transcripts."""
    gold = {"id": "a{}", "target_text": "eins", "source_text": "one"}
    label = {"id": "b{}", "target_text": "zwei", "source_text": None}
    fixed = {"source_language": "en", "target_language": "de", "start": 0.0, "speaker": None}
    sound = tmp_path / "sound.wav"
    fixed |= {"audio": str(sound), "duration": 1.0}
    soundfile.write(sound, np.zeros(16000), 16000)
    for path, row, number in (("m/train.arrow", gold, 40), ("results/self_training/1/label/m/more.arrow", label, 160)):
        rows = [fixed | row | {"id": row["id"].format(n)} for n in range(number)]
        Manifest.write(tmp_path / path, rows)
    own = {"source_language": "en", "target_language": "de", "data_folder": "data", "batch_seconds": 10.0}
    own |= {"manifest_folder": str(tmp_path / "m"), "results_folder": str(tmp_path / "results"), "speeds": [1.0]}
    recipe = Recipe.load("own/self_training", own | {"tokenizer.model": str(GOLDEN / "tokenizer.model")})
    with torch.device("meta"):
        [stream] = recipe.plan["fit"].build().streams
    counts = Counter(id[0] for batch in Loader(streams=[stream], seed=1).epoch(0) for id in batch.ids)
    assert counts["a"] == counts["b"] > 0
