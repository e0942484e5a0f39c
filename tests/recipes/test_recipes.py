"""Every recipe: built at full size without memory, and run for two updates on a miniature of its corpus."""

import re

import pytest
import torch

from dragoman import Manifest, Recipe
from dragoman.mt.lexicon import read_pairs
from dragoman.runs.prechecks import try_values
from dragoman.runs.running import run_recipe
from dragoman.shared.batches.fields import TextField
from dragoman.shared.batches.loader import Loader
from dragoman.shared.described import Described
from dragoman.shared.evaluation.results import read
from dragoman.shared.systems.saved_model import SavedModel
from dragoman.shared.text.tokenizer import Symbols
from tests.recipes.installed import RECIPES, swept

#: What a user may have to fill in before a recipe runs; others begin with somebody's model folders (test_finetune.py).
FILLED_IN = {"source_language": "en", "target_language": "de", "data_folder": "data", "manifest_folder": "manifests"}
#: What makes a run short.
QUICK = {"debug": True, "noprogressbar": True, "workers": 0, "device": "cpu"}
#: Small sizes, given to each recipe and to those that it runs as far as they have the keys.
SIZES = {  # by the value
    1: "encoder_layers decoder_layers shared_layers new_layers waveform_layers acoustic_layers semantic_layers least "
    "middle_layer",
    2: "heads waveform_heads beam validation.limit",
    4: "slots test_sentences corpus.sizes.dev corpus.sizes.tst-COMMON corpus.sizes.tst-HE",
    16: "width embedding_width attention_width output_width waveform_width channels wav2vec_channels shared_channels "
    "waveform_channels cells",
    24: "utterances sentences recordings sounds english_sentences spoken_rows",
    32: "feedforward waveform_feedforward",
}
TINY = {key: size for size, keys in SIZES.items() for key in keys.split()} | {
    "pieces": 500,  # five languages in two scripts have more than 400 characters and bytes
    "quality.maximum_dropped": 1.0,  # what has hardly learned writes nothing
    "quality.maximum_ratio": 1000.0,  # and what is drawn for it is not alike in length
    "back_search": "!new:shared.search.sampling.SamplingSearch {rules: !ref <rules>}",
    "rules.maximum_length_extra": 10,
    "acoustic_from": [0],
    "semantic_from": [0],
    "kept_layers": [-1],
    "seed_lexicon": "identical",
}
#: What is given to the recipes of a folder that have the key, lists where theirs are of another length: scores of
#: Japanese, one of the 30 languages of ted, need an extra, and the miniature has two languages.
FEWER = {
    "ted": {"languages": ["de", "fr"]},
    "iwslt14": {"languages": ["de"]},
    "help": {"low_pairs": 12, "rich": ["fr", "ru"]},
}
#: What a recipe calls the folder of its corpus, by the recipe's folder.
CORPUS = {"help": "packages_folder"}
#: The keys under which recipes have tokenizers.
TOKENIZERS = {"tokenizer", "masked_tokenizer", "source_tokenizer"}
NAMES = [name for name, recipe in RECIPES.items() if {*recipe.placeholders} <= {*FILLED_IN}]


class Vocabulary(Symbols, Described):
    """A tokenizer of a given size, without a model file."""

    def __init__(self, *, pieces: int, tags: list[str]) -> None:
        self._lay_out(pieces, tags)
        self.fingerprint = str(pieces)

    def encode(self, text):
        return [0] * len(text)

    def lengths(self, texts):
        return [len(text) for text in texts]

    def decode(self, ids):
        return "x" * len(ids)

    def symbol(self, id):
        return "x"


def vocabulary(pieces, tags="en, de, fr"):
    """Return how a recipe names a tokenizer of a given size."""
    return f"!new:{__name__}.Vocabulary {{pieces: {pieces}, tags: [{tags}]}}"


def load(name, data=None, **overrides):
    """Load a recipe with what has to be filled in; relative folders are those of the test."""
    missing = RECIPES[name].placeholders
    filled = {key: value for key, value in FILLED_IN.items() if key in missing}
    place = CORPUS.get(name.partition("/")[0], "data_folder")
    if place in (*filled, *CORPUS.values()) and data is not None:
        filled[place] = str(data)
    return Recipe.load(name, filled | {"manifest_folder": "manifests", "results_folder": "results"} | overrides)


def small(recipe, prefix=""):
    """Return the small sizes of a recipe and of those that it runs, by their keys on the command line."""
    sizes = {f"{prefix}{key}": value for key, value in TINY.items() if {key, f"{key}.0"} & {*recipe.flat()}}
    if f"{prefix}pieces" in sizes and "languages" in recipe.keys and "zh" in recipe.value("languages"):
        sizes[f"{prefix}pieces"] = 1000  # Chinese alone has more characters than 400
    if not prefix:
        fewer = {
            key: value for key, value in FEWER.get(recipe.name.partition("/")[0], {}).items() if key in recipe.keys
        }
        lists = {key: recipe.value(key) for key, value in fewer.items() if isinstance(value, list)}
        kept = {key for key, value in lists.items() if len(value) == len(fewer[key])}
        sizes |= {key: value for key, value in fewer.items() if key not in kept}
    for phase in recipe.phases:
        inner = recipe.plan[phase].inner
        if inner is not None:
            sizes |= small(inner, f"{prefix}phases.{phase}.")
            if "recordings" in recipe.flat():  # it is what the recogniser's utterances are
                sizes.pop(f"{prefix}phases.{phase}.utterances", None)
    return sizes


def check_size(recipe, objective, more=0):
    """Assert that a recipe's header says how many parameters its objective has, and more that it has not here."""
    count = sum(parameter.numel() for parameter in objective.parameters()) + more
    said = re.search(r"^Parameters: ([0-9.]+) M\b", recipe.header, re.MULTILINE)
    assert said, f"the header of {recipe.name} has no line '# Parameters: {count / 1e6:.2f} M.'"
    assert count / 1e6 == pytest.approx(float(said[1]), abs=0.06)


@pytest.fixture(autouse=True)
def folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", swept(name for name in NAMES if "fit" in RECIPES[name].phases))
def test_full_size(name):
    recipe = load(name)
    own = vocabulary(recipe.value("pieces"), "en, de, fr, <bt>")
    try_values(recipe)  # of all phases
    recipe = load(name, **dict.fromkeys(TOKENIZERS & {*recipe.keys}, own))
    with torch.device("meta"):
        fit = recipe.plan["fit"].build()
    objective = fit.objective
    assert {parameter.device.type for parameter in objective.parameters()} == {"meta"}
    check_size(recipe, objective)


@pytest.mark.parametrize("name", swept(name for name in NAMES if "tokenizer" in RECIPES[name].phases))
def test_the_tokenizer_can_be_trained_as_it_is_written(name):
    """Sizes of pieces are the recipe's own here; below, all recipes get the same."""
    recipe = load(name)
    assert recipe.plan["tokenizer"].build().size == recipe.value("pieces")


def denoises(name):
    return "noised" in RECIPES[name].keys


@pytest.mark.recipes
@pytest.mark.parametrize("name", [name for name in NAMES if denoises(name)])
def test_denoisers_read_noise_in_training_and_validation(name, miniature):
    data = miniature.get(name.split("/")[0])
    recipe = load(name, data, **small(load(name, data)), **QUICK)
    run_recipe(recipe, command="a test", until="tokenizer")
    fit = recipe.plan["fit"].build()
    mask = fit.objective.system.output.tokenizer.mask
    [batch] = list(Loader(streams=fit.streams, seed=1).epoch(0))[:1]
    [manifest, *_] = (Manifest.open(path) for path in fit.validation.manifests)
    validated, _ = next(Loader.evaluation(manifest, fit.validation.fields, fit.validation.budget))
    for one in (batch, validated):
        rows = [[ids.tolist() for ids in one[side].rows()] for side in ("source", "target")]
        assert not any(mask in target for target in rows[1])
        if "lexicon" in recipe.keys:  # its words become others
            assert any(source != target for source, target in zip(*rows, strict=True))
        else:
            assert all(mask in source and len(source) <= len(target) for source, target in zip(*rows, strict=True))
    assert type(fit.objective.system.inputs["source"]) is TextField


#: The one that ``make test`` runs.
FAST = [name for name in NAMES if "speech_embedding" in RECIPES[name].keys][-1]


@pytest.mark.parametrize("name", [pytest.param(n, marks=[] if n == FAST else [pytest.mark.recipes]) for n in NAMES])
def test_two_updates(name, miniature):
    data = miniature.get(name.split("/")[0])
    recipe = load(name, data, **small(load(name, data)), **QUICK)
    workspace = run_recipe(recipe, command="a test")
    folders = [path for phase in recipe.phases if (path := workspace.output / phase / "model").is_dir()]
    if not folders and "evaluate" not in recipe.phases:  # it makes a lexicon
        one, other = recipe.value("source_language"), recipe.value("target_language")
        assert [*read_pairs(workspace.output / f"lexicon/{one}-{other}.txt")]
        return
    for folder in folders[-1:]:  # no folder: it tests a model of another recipe
        system = SavedModel.load(folder)
        assert getattr(system, "output_name", "") == recipe.value("output_name")  # an encoder writes nothing
    if "evaluate" not in recipe.phases:
        return
    wanted = set()
    for tag, arguments in (item for phase in recipe.phases for item in recipe.plan[phase].plain.items()):
        if arguments.get("manifests") == []:
            continue  # tests that a user may give
        if "Rescore" in tag:
            wanted.add((None, "perplexity"))
        elif "CompareInputs" in tag or "Retrieve" in tag:
            wanted.add((None, "retrieval"))
        elif "Simulate" in tag:
            wanted |= {(None, metric) for metric in arguments["metrics"]}
        elif "Evaluate" in tag:
            name = recipe.value("output_name") if "text_metrics" in recipe.keys else None
            texts = {name: arguments["metrics"]} | (arguments.get("texts") or {})
            wanted |= {(text, metric) for text, metrics in texts.items() for metric in metrics}
    if not wanted:
        return
    rows = read(workspace.output / "results.jsonl")
    # Of systems of several languages, and of phases that look at words and sentences.
    also = {"off_target", "cosine", "cosine_of_others", "word_f", "distance"}
    also |= {"al", "laal", "dal", "ap", "laal_ca", "yaal", "yaal_ca"}
    assert {(row.get("text"), row["metric"]) for row in rows if row["metric"] not in also} == wanted
    assert all(row["signature"] for row in rows)
    lines = {row["lines"] for row in rows if row["metric"] not in also and row.get("text") != "documents"}
    assert lines == {2}  # not every output can be judged, and a document has several
