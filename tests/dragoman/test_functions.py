"""Python says what the command says: loading, translating, running, evaluating."""

import json

import pytest

import dragoman
from shared.corpus.preparation import prepare
from st.corpora.tsv import Tsv

MODEL = "tests/golden/model"
KNOWN = json.loads(open("tests/golden/translations.json", encoding="utf-8").read())["translations"]
KNOWN = [one for one in KNOWN if one["source"].strip() and one["hypotheses"][0]["text"]]


def test_a_model_translates():
    model = dragoman.load(MODEL, device="cpu")
    sources = [one["source"] for one in KNOWN[:4]]
    best = [one["hypotheses"][0]["text"] for one in KNOWN[:4]]
    assert model.translate(sources) == best and model.translate(sources[0]) == best[0]
    search = dragoman.BeamSearch(beam=3, n_best=2)
    assert [len(found) for found in model.hypotheses(sources, search=search)] == [2] * 4


def test_a_checkpoint_is_imported_and_repetition_banned(tmp_path):
    report = dragoman.import_model(
        "tests/parity/fairseq/masked_tokens", tmp_path, pieces="words", source_languages=["en"]
    )
    assert not report.missing and (tmp_path / "config.json").is_file()
    rules = dragoman.Rules(maximum_length_extra=20, bans=[dragoman.RepeatedNgrams(size=1)])
    [[found]] = dragoman.load(MODEL, device="cpu").hypotheses(
        ["one one one"], search=dragoman.GreedySearch(rules=rules)
    )
    assert len({*found.tokens[:-1]}) == len(found.tokens[:-1])


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_a_model_translates_under_autocast(precision):
    sources = [one["source"] for one in KNOWN[:4]]
    model = dragoman.load(MODEL, device="cpu", precision=precision)
    assert model.translate(sources)[0] == KNOWN[0]["hypotheses"][0]["text"]
    with pytest.raises(dragoman.UsageError, match="autocast"):
        model.save("nowhere")


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
    assert dragoman.load(output / "average" / "model", device="cpu").translate([""]) == [""]
    with pytest.raises(dragoman.UsageError, match="did you mean 'updates'"):
        dragoman.run("own/mt", **given, updtes=2)
