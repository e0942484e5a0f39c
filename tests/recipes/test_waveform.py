"""Recipes that begin with an encoder of waveforms: at full size, and above a small one that was pre-trained."""

import pytest
import torch

from dragoman.runs.running import run_recipe
from dragoman.shared.recipe.recipe import Recipe
from dragoman.shared.systems.saved_model import SavedModel
from tests.recipes.installed import RECIPES
from tests.recipes.test_recipes import FILLED_IN, QUICK, check_size, small, vocabulary

NAMES = [name for name, recipe in RECIPES.items() if {*recipe.placeholders} - {*FILLED_IN} == {"waveform_folder"}]
#: The one that pre-trains on sound that it makes itself: all others need a corpus.
CORPORA = [name for name, recipe in RECIPES.items() if "corpus" in recipe.phases]
[PRETRAINING, *_] = [name for name in CORPORA if "distractors" in RECIPES[name].keys]
#: The one that pre-trains on, from a checkpoint that is given.
[CONTINUING] = [name for name, recipe in RECIPES.items() if "waveform_checkpoint" in recipe.placeholders]
#: Masked models of speech and text whose encoder is the pre-trained one, and the translators that begin with these.
MASKED = [name for name in NAMES if "masked_source" in RECIPES[name].keys]
TRANSLATORS = [name for name in NAMES if "fat_folder" in RECIPES[name].keys]
#: All others have it below an encoder of their own.
BELOW = [name for name in NAMES if name not in (*MASKED, *TRANSLATORS)]
#: Where the tensors of the pre-trained model are in these.
FRONTEND = "model.embeddings.speech.frontend."
PLACES = {name: {"embedding.": "model.embeddings.speech.", "encoder.": "model.encoder."} for name in BELOW}
PLACES = {name: {FRONTEND + here: there for here, there in places.items()} for name, places in PLACES.items()}
HEARD = {"model.embeddings.speech.embedding.": "model.embeddings.speech.", "model.encoder.": "model.encoder."}
PLACES |= dict.fromkeys(MASKED, HEARD)


def load(name, **overrides):
    missing = RECIPES[name].placeholders
    filled = {key: value for key, value in FILLED_IN.items() if key in missing}
    return Recipe.load(name, filled | {"manifest_folder": "manifests", "waveform_folder": "encoder"} | overrides)


@pytest.mark.parametrize("name", NAMES)
def test_full_size(name, tmp_path):
    recipe = load(name)
    with torch.device("meta"):
        objective = load(name, tokenizer=vocabulary(recipe.value("pieces"))).plan["fit"].build().objective
    check_size(recipe, objective)
    model = objective.system.model
    speech = model.embeddings["speech"]
    if name in BELOW:
        assert speech.normalisation is None and speech.augmentation is None  # a filterbank's let no gradient through
    elif name in MASKED:  # each state stands for so many frames of the filterbank, but for what is cut off at the end
        samples, [one, other] = torch.arange(400, 16000, 7, device="cpu"), model.heads["speech"].strides
        cut = one * other * speech.embedding.lengths(samples) - speech.frontend.lengths(samples)
        assert {*cut.tolist()} == {0, 1}


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory):
    """Pre-train a small encoder; return its model folder."""
    home = tmp_path_factory.mktemp("pretrained")
    sizes = small(Recipe.load(PRETRAINING)) | QUICK | {"results_folder": str(home / "results")}
    sizes |= {"data_folder": str(home / "data"), "manifest_folder": str(home / "manifests")}
    return run_recipe(Recipe.load(PRETRAINING, sizes), command="a test").output / "average" / "model"


def states(folder):
    return SavedModel.load(folder).state_dict()


def run(name, folder, data, home, **changes):
    """Run a recipe, made small, above the pre-trained encoder of a folder; return its workspace."""
    keys = QUICK | {"waveform_positions": 32, "waveform_folder": str(folder), "data_folder": str(data)} | changes
    keys |= {"manifest_folder": str(home / "manifests"), "results_folder": str(home / "results")}
    norms = ("waveform_norm_each", "waveform_norm_sum")  # the pre-trained encoder is not built as the recipe's own is
    keys |= {key: RECIPES[PRETRAINING].value(key) for key in norms}
    given = {key: value for key, value in FILLED_IN.items() if key in RECIPES[name].placeholders}
    return run_recipe(Recipe.load(name, given | small(load(name, data_folder=str(data))) | keys), command="a test")


def compared(above, below, places):
    """Yield the tensors that have the same place in two models, by the beginnings of their names."""
    for here, there in places.items():
        yield from ((above[here + name[len(there) :]], below[name]) for name in below if name.startswith(there))


@pytest.mark.recipes
@pytest.mark.parametrize("name", PLACES)
def test_an_encoder_that_was_pretrained_here_is_frozen_bit_for_bit(name, pretrained, miniature, tmp_path):
    data = miniature[name.split("/")[0]]
    frozen = "|".join(f".*{here}.*" for here in PLACES[name])
    workspace = run(name, pretrained, data, tmp_path, **{"optimizer.multipliers": FROZEN.replace("PLACES", frozen)})
    pairs = [*compared(states(workspace.output / "average" / "model"), states(pretrained), PLACES[name])]
    assert len(pairs) > 25 and all(torch.equal(one, other) for one, other in pairs)


@pytest.mark.recipes
@pytest.mark.parametrize("name", TRANSLATORS)
def test_a_translator_begins_with_the_masked_model_and_its_front_end(name, pretrained, miniature, tmp_path):
    data = miniature[name.split("/")[0]]
    workspace = run(name, pretrained, data, tmp_path, **{"optimizer.multipliers": FROZEN.replace("PLACES", ".*")})
    [inner] = [recipe for phase in RECIPES[name].phases if (recipe := load(name).plan[phase].inner)]
    masked = tmp_path / "results" / inner.value("output_folder").split("/")[-2] / "1-debug" / "average" / "model"
    above, below = states(workspace.output / "average" / "model"), states(masked)
    taken = {"model.embeddings.speech.": "model.embeddings.speech.embedding.", "model.encoder.": "model.encoder."}
    taken |= {"model.embeddings.source.": "model.embeddings.source."}
    pairs = [*compared(above, below, taken), *compared(above, below, {"model.decoder.": "model.encoder."})]
    assert len(pairs) > 35 and all(torch.equal(one, other) for one, other in pairs)
    learned = compared(below, states(pretrained), PLACES[MASKED[0]])
    assert not all(torch.equal(one, other) for one, other in learned)


@pytest.mark.recipes
def test_pretraining_goes_on_with_the_quantiser_of_the_checkpoint(pretrained, miniature, tmp_path):
    """All parameters begin with the checkpoint's values, and two updates move them a little."""
    sizes = QUICK | {"manifest_folder": str(tmp_path / "m"), "results_folder": str(tmp_path / "results")}
    sizes |= {"waveform_checkpoint": str(pretrained), "data_folder": str(miniature["own"]), "learning_rate": 1e-3}
    sizes |= {"source_language": "en", "target_language": "de", "warmup": 1, "optimizer.weight_decay": 0.0}
    workspace = run_recipe(Recipe.load(CONTINUING, sizes), command="a test")
    before, after = states(pretrained), states(workspace.output / "average" / "model")
    assert before.keys() == after.keys()
    codes = "model.heads.contrastive.quantiser.codes"
    moved = {name: float((after[name] - before[name]).abs().max()) for name in before}
    assert 0 < moved[codes] < 0.01 and max(moved.values()) < 0.01
    origin = SavedModel.load(workspace.output / "average/model").origin
    assert any(f"all parameters from {pretrained}" in line for line in origin)


#: For the first ten updates, the parameters of PLACES do not learn.
FROZEN = '{"PLACES": !new:shared.training.schedules.Steps {values: [0, 1], after: [10]}}'
