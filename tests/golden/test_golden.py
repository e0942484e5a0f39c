"""A model folder that was written once and is never written again gives the same texts and scores."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from dragoman import BeamSearch, Rules, System

HERE = Path(__file__).parent


def check_translations(batch_size, device="cpu", tolerance=1e-4):
    """Assert that the folder translates as it did; return what it finds."""
    stored = json.loads((HERE / "translations.json").read_text(encoding="utf-8"))
    asked, settings = stored["translations"], stored["search"]
    rules = Rules(maximum_length_extra=settings.pop("maximum_length_extra"))
    search = BeamSearch(**settings, rules=rules)
    system = System.load(HERE / "model", device)
    found = system.hypotheses([one["source"] for one in asked], search=search, batch_size=batch_size)
    for one, hypotheses in zip(asked, found, strict=True):
        assert [h.texts["translation"] for h in hypotheses] == [h["text"] for h in one["hypotheses"]], one["source"]
        assert [h.score for h in hypotheses] == pytest.approx([h["score"] for h in one["hypotheses"]], abs=tolerance)
    return found


@pytest.mark.parametrize("batch_size", [1, 16])
def test_an_old_model_folder_gives_the_same_translations(batch_size):
    found = check_translations(batch_size)
    assert found[0][0].texts["translation"] == "zwei eins"  # what it was taught
    assert found[3][0].texts["translation"] == "drei sechs"


def with_stable_names(description):
    """Replace "dragoman.shared.systems.system.System", as folders of old name classes, by "System"."""
    if isinstance(description, list):
        return [with_stable_names(item) for item in description]
    if not isinstance(description, dict):
        return description
    return {
        key: item.rpartition(".")[2] if key == "class" else with_stable_names(item) for key, item in description.items()
    }


def test_an_old_model_folder_is_written_as_it_was_read(tmp_path):
    System.load(HERE / "model").save(tmp_path / "model")
    old, new = HERE / "model", tmp_path / "model"
    assert sorted(p.name for p in new.iterdir()) == sorted(p.name for p in old.iterdir())
    known = json.loads((old / "config.json").read_text())  # of before files had marks: the first 16 of sha256sum's
    marks = {"files": {"tokenizer.model": "5605ea6febd4c5c9"}}
    assert json.loads((new / "config.json").read_text()) == with_stable_names(known) | marks
    assert (new / "tokenizer.model").read_bytes() == (old / "tokenizer.model").read_bytes()
    before, after = load_file(old / "model.safetensors"), load_file(new / "model.safetensors")
    assert before.keys() == after.keys() and all(torch.equal(before[name], after[name]) for name in before)
