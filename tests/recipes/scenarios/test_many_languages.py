"""Translators of many languages that begin with an imported masked language model: sizes, beginnings, interruptions."""

import pytest
import torch

from dragoman import Recipe, System
from dragoman.runs.running import run_recipe
from dragoman.shared.evaluation.results import read
from dragoman.shared.systems.reading_model import ReadingModel
from tests.recipes.installed import RECIPES
from tests.recipes.test_recipes import Vocabulary, check_size, small, vocabulary
from tests.recipes.test_resumed import check_interrupted
from tests.recipes.test_waveform import QUICK
from tests.recipes.xlmr import save_masked_model

NAMES = [
    name
    for name, recipe in RECIPES.items()
    if "encoder_folder" in recipe.placeholders and "languages" in recipe.keys and "fit" in recipe.phases
]
LANGUAGES = ["de", "fr"]
#: Where the files of a pair are in each corpus, and what comes before the name of a split.
LAYOUTS = {"opus100": ("supervised/{pair}", "opus.{pair}-"), "wmt10": ("{pair}", ""), "text": ("{pair}", "")}
SIZES = {"width": 16, "heads": 2, "feedforward": 32, "encoder_layers": 3, "decoder_layers": 2, "positions": 120}
#: Rows of the published model: 250,000 pieces but for three, fairseq's first four symbols, and a mask.
ROWS = 250_002


@pytest.fixture(scope="module")
def encoder(tmp_path_factory, miniature):
    folder = tmp_path_factory.mktemp("encoder")
    return save_masked_model(folder, miniature, layers=3, feedforward=32, headed=False)


@pytest.fixture(scope="module")
def corpora(tmp_path_factory, miniature):
    """Small corpora in the layouts of the published ones, from Almanac's lines."""
    root = tmp_path_factory.mktemp("corpora")
    for corpus, (place, before) in LAYOUTS.items():
        for code in LANGUAGES:
            pair = f"{code}-en" if corpus != "opus100" or code < "en" else f"en-{code}"
            folder = root / corpus / place.format(pair=pair)
            folder.mkdir(parents=True)
            for split in ("train", "dev", "test"):
                for side in (code, "en"):
                    lines = (miniature["text"] / f"{split}.{side}").read_text(encoding="utf-8").splitlines()[:12]
                    name = f"{before.format(pair=pair)}{split}.{side}"
                    (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return root


def given(name, encoder, corpora):
    """Return the keys that make a recipe small, with what has to be filled in."""
    keys = {"encoder_folder": str(encoder), "data_folder": str(corpora / name.partition("/")[0])}
    keys |= {"manifest_folder": "manifests", "languages": LANGUAGES} | QUICK
    return keys | small(Recipe.load(name, keys)) | SIZES | {"grad_accumulation_factor": 2, "batch_tokens": 400}


def test_published_sizes_are_found():
    assert {name.partition("/")[0] for name in NAMES} == {*LAYOUTS}


@pytest.mark.parametrize("name", NAMES)
def test_full_size(name):
    """The count is that of the published encoder and six layers with attention to it, by hand."""
    tags = len(RECIPES[name].value("languages")) + 1
    own = vocabulary(ROWS - Vocabulary(pieces=0, tags=[]).size, "")
    recipe = Recipe.load(name, {"encoder_folder": "xlmr", "data_folder": "data", "tokenizer": own})
    with torch.device("meta"):
        objective = recipe.plan["fit"].build().objective
    width, inner = 768, 3072
    attention, norm = 4 * (width + 1) * width, 2 * width
    layer = attention + (width + 1) * inner + (inner + 1) * width + 2 * norm
    beside = (512 + 2) * width + width + norm  # positions, type and norm of a side
    expected = ROWS * width + 2 * beside + 12 * layer + 6 * (layer + attention + norm)
    assert sum(parameter.numel() for parameter in objective.parameters()) == expected
    assert expected / 1e6 == pytest.approx(334.6, abs=0.05)
    check_size(recipe, objective, tags * width)


@pytest.mark.recipes
@pytest.mark.parametrize("name", NAMES)
def test_the_translator_begins_as_the_imported_model(name, encoder, corpora, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    changes = {"learning_rate": 1e-12, "decoder_from": [0, 2], "cross_from_self": "model.decoder", "average": "last 1"}
    workspace = run_recipe(Recipe.load(name, given(name, encoder, corpora) | changes), command="a test")
    found, imported = System.load(workspace.output / "average" / "model"), ReadingModel.load(encoder)
    own, theirs = found.model.state_dict(), imported.model.state_dict()
    rows = len(theirs["embeddings.source.tokens.weight"])
    assert len(own["embeddings.source.tokens.weight"]) == rows + 3
    own["embeddings.source.tokens.weight"] = own["embeddings.source.tokens.weight"][:rows]
    places = {"": "", "target_embedding.": "embeddings.source."}
    places |= {f"decoder.layers.{here}.": f"encoder.layers.{there}." for here, there in enumerate([0, 2])}
    compared = 0
    for here, there in places.items():
        for known, tensor in theirs.items():
            if known.startswith(there) and not (here and known.endswith("tokens.weight")):
                torch.testing.assert_close(own[here + known[len(there) :]], tensor, atol=1e-6, rtol=0)
                compared += 1
    assert compared == len(theirs) + 4 + 2 * 12
    for number in range(2):
        crossed = own[f"decoder.layers.{number}.memory_attention.source.keys_values.weight"]
        self_attention = own[f"decoder.layers.{number}.self_attention.queries_keys_values.weight"]
        torch.testing.assert_close(crossed, self_attention[16:], atol=1e-6, rtol=0)
    row = {"source_text": "a", "source_language": "de", "target_language": "en"}
    tokenizer = found.output.tokenizer
    assert tokenizer.symbol(found.inputs["source"](row, None).tolist()[0]) == "<en>"
    assert [tokenizer.symbol(id) for id in found.output.prefix_ids("en")] == ["<s>"]
    assert (found.source_languages, found.target_languages) == languages(name)
    rows = read(workspace.output / "results.jsonl")
    splits = {row["split"].partition("/")[0] for row in rows if row["metric"] == "bleu"}
    sources, targets = languages(name)
    assert splits >= {f"{a}-{b}" for a in sources for b in targets if "en" in (a, b) and a != b}
    assert not {"de-fr", "fr-de"} & splits


def languages(name):
    return (["de", "en", "fr"],) * 2 if name.startswith("opus100") else (["de", "fr"], ["en"])


@pytest.mark.recipes
@pytest.mark.parametrize("name", NAMES)
def test_an_interrupted_run_ends_with_the_same_bits(name, encoder, corpora, tmp_path, monkeypatch):
    check_interrupted(name, given(name, encoder, corpora), tmp_path, monkeypatch)
