"""Models that recipes trained, exported: transformers and CTranslate2 make of them what this project does."""

from pathlib import Path

import pytest
import torch

from dragoman import BeamSearch, Recipe, Rules, System
from dragoman.exchange import ctranslate2 as engine
from dragoman.exchange.huggingface import hf_export
from dragoman.runs.running import run_recipe
from dragoman.shared.batch import Batch
from dragoman.shared.batches.loader import collate
from tests.recipes.test_recipes import load, small

pytestmark = [pytest.mark.recipes, pytest.mark.parity]

LINES = ["The train leaves at nine.", "one two three", "Two (2) of them!", "ÄÖ: a ÷ b?", "Monday, 4 May"]


@pytest.fixture(scope="module", params=["text/mt", "own/mt"])
def trained(request, miniature, tmp_path_factory) -> Path:
    """Run a recipe for some updates; return its model folder."""
    folder = tmp_path_factory.mktemp("run")
    data = miniature[request.param.split("/")[0]]
    overrides = small(load(request.param, data)) | {"data_folder": str(data), "workers": 0, "device": "cpu"}
    overrides |= {"manifest_folder": str(folder / "manifests"), "results_folder": str(folder / "results")}
    overrides |= {"source_language": "en", "target_language": "de", "noprogressbar": True}
    overrides |= {"updates": 4, "warmup": 1, "learning_rate": 0.01, "validate_every": 2}
    workspace = run_recipe(Recipe.load(request.param, overrides), command="a test", until="average")
    return workspace.output / "average" / "model"


def test_transformers_computes_the_same(trained, tmp_path):
    transformers = pytest.importorskip("transformers")
    system = System.load(trained)
    assert [type(change).__name__ for change in system.inputs["source"].normalizers] == ["Policy"]
    assert hf_export.export(trained, tmp_path / "theirs") == ["M2M100ForConditionalGeneration (m2m_100)"]
    theirs = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "theirs").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "theirs")
    ours = system.output.tokenizer
    order = torch.tensor(tokenizer.convert_tokens_to_ids([ours.symbol(id) for id in range(ours.size)]))
    rows = [{"id": "", "source_text": line, "source_language": "en", "target_language": "de"} for line in LINES]
    batch = collate(rows, system.inputs, None)
    inputs = tokenizer(LINES, return_tensors="pt", padding=True)
    assert torch.equal(order[batch["source"].values], inputs.input_ids)
    prefix = torch.randint(ours.pieces, (len(LINES), 6), generator=torch.Generator().manual_seed(1))
    decoded = type(batch["source"])(prefix, torch.full((len(LINES),), 6))
    with torch.no_grad():
        encoding = system.model.encode(Batch({"source": batch["source"]}))
        logits = system.model.project(system.model.decode(decoded, encoding))
        expected = theirs(**inputs, decoder_input_ids=order[prefix], use_cache=False).logits
    torch.testing.assert_close(logits, expected[..., order], atol=1e-4, rtol=1e-4)
    generated = theirs.generate(**inputs, max_length=14)
    search = BeamSearch(rules=Rules(maximum_length=12, minimum_length=0, forced_free=True))
    for tokens, found in zip(generated.tolist(), system.hypotheses(LINES, search=search), strict=True):
        wanted = order[found[0].tokens].tolist()
        assert tokens[1 : 1 + len(wanted)] == wanted


def test_ctranslate2_computes_the_same(trained, tmp_path):
    pytest.importorskip("ctranslate2")
    engine.export(trained, tmp_path / "theirs")
    theirs, ours = engine.CTranslate2System.open(tmp_path / "theirs"), System.load(trained)
    limit = 12
    search = BeamSearch(rules=Rules(maximum_length=limit))
    for one, other in zip(ours.hypotheses(LINES, search=search), theirs.hypotheses(LINES, search=search), strict=True):
        assert one[0].tokens[: limit - 1] == other[0].tokens[: limit - 1]
