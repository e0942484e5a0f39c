"""Python says what the command says: loading, translating, running, evaluating."""

import json
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import dragoman
from dragoman.preparing.preparation import prepare
from dragoman.st.corpora.tsv import Tsv
from tests.small import refuses

MODEL = "tests/golden/model"
KNOWN = json.loads(open("tests/golden/translations.json", encoding="utf-8").read())["translations"]
KNOWN = [one for one in KNOWN if one["source"].strip() and one["hypotheses"][0]["text"]]


def test_a_model_translates():
    model = dragoman.load(MODEL, device="cpu")
    sources = [one["source"] for one in KNOWN[:4]]
    best = [one["hypotheses"][0]["text"] for one in KNOWN[:4]]
    assert model.translate(sources) == best and model.translate(sources[0]) == best[0]
    searched = model.hypotheses(sources, search=dragoman.BeamSearch(beam=3, n_best=2))
    assert [len(found) for found in searched] == [2] * 4 and model.hypotheses(sources, beam=3, n_best=2) == searched
    texts = f"texts={{'translation': {best[0]!r}}}"
    assert repr(searched[0][0]) == f"Hypothesis(score={searched[0][0].score!r}, {texts}, cut=False)"


def test_inputs_may_come_from_whatever_can_be_gone_through_once(tmp_path):
    model = dragoman.load(MODEL, device="cpu")
    (tmp_path / "news.txt").write_text("one two\nthree four\n")
    found = model.translate(["one two", "three four"])
    assert len({*found}) == 2 and model.translate(text for text in ("one two", "three four")) == found
    with open(tmp_path / "news.txt") as file:
        assert model.translate(file) == found
    assert [best.texts["translation"] for best, *_ in model.hypotheses(iter(["one two", "three four"]))] == found
    for call in (model.translate, model.hypotheses):
        refuses(dragoman.UsageError, "give a list of inputs, not None alone", call, None)


def test_a_checkpoint_is_imported_and_repetition_banned(tmp_path):
    folder, options = "tests/parity/fairseq/masked_tokens", {"pieces": "words", "source_languages": ["en"]}
    report = dragoman.import_model(folder, tmp_path, **options)
    assert not report.missing and (tmp_path / "config.json").is_file()
    with pytest.raises(dragoman.DataError, match="source language: name it with source_languages"):
        dragoman.import_model("tests/parity/fairseq/masked_tokens", tmp_path / "other", pieces="words")
    rules = dragoman.Rules(maximum_length_extra=20, bans=[dragoman.RepeatedNgrams(size=1)])
    search = dragoman.GreedySearch(rules=rules)
    [[found]] = dragoman.load(MODEL, device="cpu").hypotheses(["one one one"], search=search)
    assert len({*found.tokens[:-1]}) == len(found.tokens[:-1])


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_a_model_translates_under_autocast(precision):
    sources = [one["source"] for one in KNOWN[:4]]
    model = dragoman.load(MODEL, device="cpu", precision=precision)
    assert model.translate(sources)[0] == KNOWN[0]["hypotheses"][0]["text"]
    refuses(dragoman.UsageError, "autocast", model.save, "nowhere")


@pytest.fixture
def tables(tmp_path):
    rows = [f"{n}\t{one['source']}\t{one['hypotheses'][0]['text']}" for n, one in enumerate(KNOWN[:6])]
    for split in ("train", "dev", "test"):
        (tmp_path / f"{split}.tsv").write_text("\n".join(["id\tsource_text\ttarget_text", *rows]) + "\n")
    return tmp_path


def test_a_manifest_is_evaluated(tables):
    prepare(Tsv(root=str(tables), source_language="en", target_language="de"), tables / "manifests", workers=1)
    evaluation = dragoman.evaluate(MODEL, tables / "manifests" / "test.arrow", metrics=["chrf"], device="cpu")
    [score] = evaluation.scores
    manifest = tables / "manifests" / "test.arrow"
    model = dragoman.load(MODEL, device="cpu")
    assert dragoman.evaluate(model, manifest, metrics="chrf").scores == [score]  # one name is no list of letters
    told = str(evaluation).splitlines()
    assert told == ["translation (de): 6 rows", f"chrf 100.00 (6 lines, {score.signature})"]
    assert repr(evaluation) == str(evaluation)
    assert (score.name, score.value, score.lines) == ("chrf", 100.0, 6)
    with pytest.raises(dragoman.UsageError, match="unknown metric 'blue'"):
        dragoman.evaluate(MODEL, tables / "manifests" / "test.arrow", metrics=["blue"])


def test_a_recipe_runs(tables, monkeypatch):
    monkeypatch.chdir(tables)
    small = {"width": 16, "heads": 2, "feedforward": 32, "encoder_layers": 1, "decoder_layers": 1, "pieces": 300}
    given = {"data_folder": str(tables), "source_language": "en", "target_language": "de", "device": "cpu"}
    keys = {**given, **small, "updates": 2, "workers": 0, "noprogressbar": True, "rules.maximum_length_extra": 5}
    output = dragoman.run("own/mt", until="average", **keys)
    assert (output / "average" / "model" / "config.json").is_file()
    model = dragoman.load(output, device="cpu")
    assert model.translate([""]) == [""] and dragoman.evaluate(output, next(tables.rglob("test.arrow"))).scores
    with pytest.raises(dragoman.UsageError, match="^argument updtes: no such key .did you mean 'updates'"):
        dragoman.run("own/mt", **given, updtes=2)
    with pytest.raises(dragoman.UsageError, match=r'own with run="2"; or do it again with restart=\["fit"\]$'):
        dragoman.run("own/mt", until="average", **keys | {"heads": 4})
    refuses(dragoman.UsageError, "no phase 'fitt' .did you mean 'fit'", dragoman.run, "own/mt", restart="fitt", **keys)


def test_what_is_asked_reaches_what_loads_and_runs(monkeypatch):
    functions = import_module("dragoman.functions")
    asked = []
    monkeypatch.setattr(functions, "load_combined", lambda *given, **how: asked.append((given, how)))
    dragoman.load("a", device="cpu")
    plain = {"autocast_dtype": None, "ensemble": [], "language_model": None, "lm_weight": 0.0, "ctc": False}
    assert asked == [((Path("a"), "cpu"), plain | dict.fromkeys(("reads", "writes", "load")))]
    more = {"ensemble": ["b"], "language_model": "c", "lm_weight": 0.5, "ctc": True, "reads": ["x"], "writes": "y"}
    dragoman.load("a", device="cpu", precision="bf16", **more)
    wanted = more | {"ensemble": [Path("b")], "language_model": Path("c"), "autocast_dtype": torch.bfloat16}
    assert asked[1] == ((Path("a"), "cpu"), wanted | {"load": None})
    ran = []
    monkeypatch.setattr(
        functions, "run_recipe", lambda recipe, **how: ran.append(how) or SimpleNamespace(output=recipe)
    )
    monkeypatch.setattr(functions.Recipe, "load", lambda recipe, keys: (recipe, keys))
    found = dragoman.run("own/mt", data_folder="my data", updates=3)
    assert found == ("own/mt", {"data_folder": "my data", "updates": 3})
    command = "dragoman run own/mt --data_folder 'my data' --updates 3"
    assert ran == [{"restart": (), "until": None, "command": command}]
    dragoman.run("own/mt", restart="fit", until="average")
    assert ran[1] == {"restart": ["fit"], "until": "average", "command": "dragoman run own/mt"}
    dragoman.run("own/mt", restart=["fit", "test"])
    assert ran[2]["restart"] == ["fit", "test"]
