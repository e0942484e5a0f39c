"""Translators of a denoiser and a new encoder: what each of the two steps changes, and that a run can be continued."""

from pathlib import Path

import pytest
import torch

from dragoman import Recipe, System
from dragoman.exchange.importing import import_model
from dragoman.mt.bart_translator import ForeignEncoder, put_before
from dragoman.runs.running import run_recipe
from dragoman.shared.batch import Batch
from dragoman.shared.batches.loader import Loader
from dragoman.shared.padded import Padded
from tests.recipes.test_recipes import load, small
from tests.recipes.test_resumed import check_interrupted, given
from tests.recipes.test_waveform import QUICK

BART = Path(__file__).parents[2] / "parity" / "fairseq" / "denoising_post_norm"
NAMES = ["text/mt_from_bart", "wmt16/bart_ro-en"]


@pytest.fixture(scope="module")
def denoiser(miniature, tmp_path_factory):
    """Pre-train a small English denoiser, in a run of text/bart; return its folder."""
    home = tmp_path_factory.mktemp("bart")
    found = {"target_language": "en", "data_folder": str(miniature["text"]), "manifest_folder": str(home / "manifests")}
    found |= QUICK | small(Recipe.load("text/bart", found)) | {"results_folder": str(home / "results")}
    return run_recipe(Recipe.load("text/bart", found), command="a test").output / "average" / "model"


def keys(name, denoiser, miniature):
    """Return the keys that make a recipe small, with what has to be filled in."""
    data = miniature[name.partition("/")[0]]
    found = {"bart_folder": str(denoiser), "data_folder": str(data), "manifest_folder": "manifests"} | QUICK
    found |= {"source_language": "de", "target_language": "en"} if name.startswith("text") else {}
    found |= {"source_layers": 1, "step1_warmup": 1, "warmup": 1, "step1_learning_rate": 0.01, "learning_rate": 0.01}
    return found | small(Recipe.load(name, found)) | {"source_pieces": 400}


def changed(before, after, names):
    return {name for name in names if not torch.equal(before[name], after[name])}


@pytest.mark.recipes
@pytest.mark.parametrize("name", NAMES)
def test_the_first_step_leaves_an_imported_bart_alone(name, denoiser, miniature, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    output = run_recipe(Recipe.load(name, keys(name, denoiser, miniature)), command="a test").output
    bart = System.load(denoiser)
    first, second = (System.load(output / phase / "model") for phase in ("step1_average", "average"))
    known, steps = bart.state_dict(), (first.state_dict(), second.state_dict())
    known["model.target_embedding.tokens.weight"] = known.pop("model.embeddings.source.tokens.weight")
    learning = {
        "model.embeddings.source.positions.weight",
        "model.target_embedding.positions.weight",
        "model.encoder.layers.0.self_attention.queries_keys_values.weight",
        "model.encoder.layers.0.self_attention.queries_keys_values.bias",
    }
    assert changed(known, steps[0], known) == learning
    assert changed(*steps, steps[0]) == {*steps[0]}  # the second step changes everything
    assert {*steps[0]} - {*known} and isinstance(second.model.embeddings["source"], ForeignEncoder)
    assert second.output.tokenizer.fingerprint == bart.output.tokenizer.fingerprint
    assert second.inputs["source"].tokenizer.fingerprint != bart.output.tokenizer.fingerprint
    assert isinstance(second.translate(["der Ball"])[0], str)
    assert sum("all parameters from" in line for line in second.origin) == 1


@pytest.mark.recipes
def test_an_imported_bart_is_read_through(denoiser, tmp_path):
    """One of fairseq's, whose positions, norm and vectors are where they belong."""
    import_model(BART, tmp_path / "bart", pieces="words", source_languages=["en"], target_languages=["en"])
    bart, source = System.load(tmp_path / "bart"), System.load(denoiser).inputs["source"]
    system = put_before(text=bart, source=source, layers=1, source_languages=["en"]).eval()
    old, new = bart.model.embeddings["source"], system.model.embeddings["source"]
    assert new.positions.weight is old.positions.weight and torch.equal(new.norm.weight, old.norm.weight)
    assert torch.equal(system.model.target_embedding.weight, old.weight)
    assert torch.equal(system.model.projection.weight, old.weight)
    prefix, tokens = (Padded.from_sequences([torch.tensor(ids)]) for ids in ([0, 5], [4, 5, 2]))
    memory = bart.model.encode(Batch({"source": tokens}))
    found, expected = (one.project(one.decode(prefix, memory)) for one in (system.model, bart.model))
    assert torch.equal(found, expected)


@pytest.mark.recipes
@pytest.mark.parametrize("name", NAMES)
def test_both_steps_end_with_the_same_bits_after_an_interruption(name, denoiser, miniature, tmp_path, monkeypatch):
    check_interrupted(name, keys(name, denoiser, miniature), tmp_path, monkeypatch)


@pytest.mark.recipes
def test_a_denoiser_of_ones_own_is_read_through(miniature, tmp_path, monkeypatch):
    """Of almanac/bart all but the token vectors of its encoder is where the translator begins."""
    monkeypatch.chdir(tmp_path)
    name = "almanac/mt_from_bart"
    recipe = Recipe.load(name, given(name, miniature, None))
    output = run_recipe(recipe, command="a test").output
    bart = System.load(Path(recipe.plan["bart"].inner.value("output_folder")) / "average" / "model").state_dict()
    first = System.load(output / "step1_average" / "model").state_dict()
    bart["model.target_embedding.tokens.weight"] = bart.pop("model.embeddings.source.tokens.weight")
    assert {*bart} < {*first}
    moved = {name for name in changed(bart, first, bart)}
    assert moved and all(".positions." in name or ".layers.0.self_attention.queries" in name for name in moved)
    assert not any(name.startswith("model.decoder") for name in moved)


@pytest.mark.recipes
def test_back_translated_rows_are_read_behind_their_symbol(miniature, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = load("almanac/back_translation", **small(load("almanac/back_translation")), **QUICK)
    written = run_recipe(made, command="a test", until="generate").output / "generate"
    added = {"streams": "[!ref <stream>, !ref <made>]", "made_rows": f"[{written}/*/*.arrow]"}
    recipe = load("almanac/mt_from_bart", **added, **small(load("almanac/mt_from_bart")), **QUICK)
    output = run_recipe(recipe, command="a test", until="step1").output
    fit = recipe.plan["step1"].build()
    source, target = fit.objective.system.inputs["source"].tokenizer, fit.objective.system.output.tokenizer
    found = {}
    for batch in Loader(streams=fit.streams, seed=1).epoch(0):
        starts = found.setdefault(batch.stream, [])
        starts += [source.symbol(int(row[0])) for row in batch["source"].rows()]
        assert {target.symbol(int(row[0])) for row in batch["target"].rows()} == {"<en>"}
    assert {*found["text"]} == {"<de>"} and {*found["made"]} == {"<bt>"}
    assert (output / "step1").is_dir()
