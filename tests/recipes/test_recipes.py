"""Every recipe: built at full size without memory, and run for two updates on a miniature of its corpus."""

import json
from pathlib import Path

import pytest
import torch

from shared.corpus.fields import TextField
from shared.corpus.loader import Loader
from shared.corpus.manifest import Manifest
from shared.described import Described
from shared.recipe import Recipe
from shared.running import run_recipe
from shared.system import System
from shared.tokenizer import Symbols

ROOT = Path(__file__).parents[2]
#: Recipes whose models are those of other people's folders (tests/recipes/test_finetune.py).
FROM_FOLDERS = ("own/st_finetune", "text/finetune")
NAMES = [name for name, _ in Recipe.list() if name not in FROM_FOLDERS]
PAIRS = {"covost2": ("fr", "en")}
TINY = {
    "width": 16,
    "heads": 2,
    "feedforward": 32,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "pieces": 400,
    "validate_rows": 2,
    "beam": 2,
    "rules.maximum_length_extra": 10,
}

#: Trainable parameters in millions at full size, with the recipe's own vocabulary; published ones in the comments.
PARAMETERS = {
    "almanac/asr": 2.9,
    "almanac/asr_ctc": 1.87,
    "almanac/lm": 0.8,
    "almanac/mbart": 1.83,
    "almanac/mt": 1.9,
    "almanac/mt_from_mbart": 1.83,
    "almanac/st": 2.9,
    "almanac/st_from_asr_mt": 2.9,
    "covost2/asr": 27.5,
    "covost2/st": 27.5,
    "mustc/asr": 29.5,
    "mustc/mt": 21.47,
    "mustc/st": 31.1,  # fairseq prints 31 M for s2t_transformer_s
    "own/asr": 29.5,
    "own/mt": 52.4,
    "own/st": 31.1,
    "text/lm": 23.02,
    "text/mbart": 610.83,  # mbart-large-cc25 has 610.85 M: 18 symbols more, and two unused positions a side
    "text/mt": 76.92,  # 44.1 M of a base model's layers and two tables of 32,010 x 512
}


#: Recipes that leave the corpus to those that they run first.
OTHERS_FIRST = ("almanac/st_from_asr_mt", "almanac/lm")
#: Recipes that need a folder of their own for theirs.
OWN_CORPUS = (*OTHERS_FIRST, "almanac/mbart", "almanac/mt_from_mbart")


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


def load(name, folder, data, **overrides):
    corpus = name.split("/")[0]
    source, target = PAIRS.get(corpus, ("en", "de"))
    overrides |= {"data_folder": str(data), "manifest_folder": str(folder / "manifests")}
    overrides |= {"results_folder": str(folder / "results"), "source_language": source, "target_language": target}
    return Recipe.load(name, overrides)


@pytest.mark.parametrize("name", NAMES)
def test_full_size(name, tmp_path):
    recipe = load(name, tmp_path, tmp_path)
    vocabulary = f"!new:{__name__}.Vocabulary {{pieces: {recipe.value('pieces')}, tags: [en, de, fr]}}"
    recipe = load(name, tmp_path, tmp_path, tokenizer=vocabulary)
    with torch.device("meta"):
        fit = recipe.build("fit")
    objective = fit.objective
    assert {parameter.device.type for parameter in objective.parameters()} == {"meta"}
    count = sum(parameter.numel() for parameter in objective.parameters())
    assert count / 1e6 == pytest.approx(PARAMETERS[name], abs=0.06)


def test_the_table_of_parameters_names_every_recipe():
    assert sorted(PARAMETERS) == sorted(NAMES)


def small(name):
    overrides = dict(TINY)
    if not name.endswith(("/mt", "/lm", "/mbart", "/mt_from_mbart")):
        overrides |= {"channels": 16}
    if name.endswith("/lm"):  # which has no encoder, and leaves the tokenizer to the recipe that it runs
        del overrides["encoder_layers"], overrides["pieces"]
    if name.endswith("/asr_ctc"):  # which has no decoder
        del overrides["decoder_layers"], overrides["rules.maximum_length_extra"]
    if name.endswith("/mbart"):  # which is not translated with
        del overrides["beam"], overrides["rules.maximum_length_extra"]
    if name == "almanac/mbart":
        overrides |= {"sentences": 24}
    elif name.startswith("almanac"):
        overrides |= {"utterances": 24}
    if name.startswith("almanac") and name not in OTHERS_FIRST:
        overrides |= {f"corpus.sizes.{split}": 4 for split in ("dev", "tst-COMMON", "tst-HE")}
    return overrides


@pytest.mark.recipes
def test_denoisers_read_noise_in_training_and_validation(miniature, tmp_path):
    overrides = small("text/mbart") | {"debug": True, "noprogressbar": True, "workers": 0, "device": "cpu"}
    recipe = load("text/mbart", tmp_path, miniature["text"], **overrides)
    run_recipe(recipe, command="a test", until="tokenizer")
    fit = recipe.build("fit")
    mask = fit.objective.system.output.tokenizer.mask
    [batch] = list(Loader(streams=fit.streams, seed=1).epoch(0))[:1]
    [manifest, *_] = (Manifest.open(path) for path in fit.validation.manifests)
    validated, _ = next(Loader.evaluation(manifest, fit.validation.fields, fit.validation.budget))
    for one in (batch, validated):
        masked = (one["source"].values == mask).any(1)
        assert masked.all() and not (one["target"].values == mask).any()
        assert (one["source"].lengths <= one["target"].lengths).all()
    assert type(fit.objective.system.inputs["source"]) is TextField


@pytest.mark.parametrize("name", [pytest.param(n, marks=[] if n == "own/st" else [pytest.mark.recipes]) for n in NAMES])
def test_two_updates(name, miniature, tmp_path):
    overrides = small(name) | {"debug": True, "noprogressbar": True, "workers": 0, "device": "cpu"}
    data = tmp_path / "corpus" if name in OWN_CORPUS else miniature[name.split("/")[0]]
    if name == "almanac/mt_from_mbart":
        overrides |= {"monolingual_folder": str(tmp_path / "monolingual")}
        del overrides["pieces"]
    recipe = load(name, tmp_path, data, **overrides)
    workspace = run_recipe(recipe, command="a test")
    system = System.load(workspace.output / "average" / "model")
    assert system.output_name == recipe.value("output_name")
    if "evaluate" not in recipe.phases:
        return
    rows = [json.loads(line) for line in (workspace.output / "results.jsonl").read_text().splitlines()]
    wanted = set(recipe.value("metrics")) | ({"perplexity"} if name.endswith("/lm") else set())
    assert {row["metric"] for row in rows} == wanted
    assert all(row["signature"] and row["lines"] == 2 for row in rows)
