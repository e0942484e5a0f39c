"""What a run has learned from, counted from its manifests by hand; and only the training that it uses."""

import re
from pathlib import Path

import pytest

from shared.commands.data_seen import data_seen, learning_parameters, training_minutes
from shared.corpus.manifest import Manifest
from shared.machine.workspace import PhaseRecord
from shared.recipe.recipe import Recipe
from tests.recipes.test_recipes import Vocabulary

#: Manifests of the recipes on few triples: rows, and seconds of each recording.
MANIFESTS = {"almanac-few": (3, 1800.0), "almanac": (5, 3600.0), "almanac-text": (7, None)}
TOKENIZER = f"!new:{Vocabulary.__module__}.Vocabulary {{pieces: 500, tags: [en, de]}}"

LORA = "{rank: 8, learn: .*subsampler.*, targets: .*(frontend|decoder).*(queries|values)}"


@pytest.fixture(autouse=True)
def manifests(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, (count, seconds) in MANIFESTS.items():
        row = {"source_text": "a b", "target_text": "c", "source_language": "en", "target_language": "de"}
        if seconds is not None:
            row |= {"audio": "a.wav", "start": 0.0, "duration": seconds}
        folder = Path("data") / f"{name}-manifests" / "en-de"
        folder.mkdir(parents=True)
        Manifest.write(folder / "train.arrow", [row | {"id": str(number)} for number in range(count)])


def load(name, *inner):
    given = {f"{prefix}tokenizer": TOKENIZER for prefix in ("", *(f"phases.{phase}." for phase in inner))}
    return Recipe.load(name, given)


@pytest.mark.parametrize(
    ("name", "inner", "expected"),
    [
        ("st_low", ["asr"], "3 triples (1.5 h), 5 recordings with transcripts (5.0 h)"),
        ("costt", [], "3 triples (1.5 h), 5 recordings with transcripts (5.0 h), 7 text pairs"),
        ("cascade_low", ["asr", "mt"], "5 recordings with transcripts (5.0 h), 10 text pairs"),
    ],
)
def test_rows_and_hours_by_what_is_read_of_them(name, inner, expected):
    assert data_seen(load(f"almanac/{name}", *inner)) == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [({}, "10 text pairs"), ({"phases.fit.initialise": "[]"}, "1 text pairs")],
)
def test_pieces_alone_do_not_make_a_model_learn_from_a_text(given, expected):
    rows = {"de-en": 1, "en-de": 1, "en-fr": 2, "fr-en": 2, "en-ru": 1, "ru-en": 1, "en-tr": 1, "tr-en": 1}
    for direction, count in rows.items():
        source, target = direction.split("-")
        row = {"source_text": "a", "target_text": "b", "source_language": source, "target_language": target}
        folder = Path("data/almanac-many-300-manifests") / direction
        folder.mkdir(parents=True)
        Manifest.write(folder / "train.arrow", [row | {"id": str(number)} for number in range(count)])
    vocabulary = TOKENIZER.replace("[en, de]", "[en, de, fr, ru, tr]")
    keys = {"tokenizer": vocabulary, "phases.mrasp.tokenizer": vocabulary}
    assert data_seen(Recipe.load("almanac/mt_from_mrasp", keys | given)) == expected


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({}, r"LNA-ED \(([0-9.]+) M learn"),
        ({"optimizer.tuning.encoder": False}, r"LNA-D \(([0-9.]+) M"),
        ({"optimizer.tuning.encoder": False, "optimizer.tuning.decoder": False}, r"text encoder \(([0-9.]+) M"),
        ({"optimizer.tuning": f"!new:shared.training.tuning.LoRA {LORA}"}, r"LoRA[ #]+\(([0-9.]+) M"),
        ({"optimizer.tuning": None}, None),
    ],
)
def test_what_learns_is_what_the_header_of_the_recipe_says(keys, said):
    if "LoRA" in str(keys):
        pytest.importorskip("peft")
    vocabulary = TOKENIZER.replace("500", "2000").replace("[en, de]", "[en, de, fr, tr]")
    given = {"tokenizer": vocabulary, "phases.mt.tokenizer": vocabulary, "phases.wav2vec2.tokenizer": vocabulary}
    recipe = Recipe.load("almanac/lna", given | keys)
    found = learning_parameters(recipe)
    if said is None:
        assert found is None
    else:
        assert found == pytest.approx(float(re.search(said, recipe.header.replace("\n", " "))[1]), abs=0.006)


def test_minutes_are_those_of_all_training_that_is_used():
    results = Path("results/almanac-low/en-de")
    for run, phase, seconds in (
        ("asr/1", "fit", 600.0),
        ("asr/1", "evaluate", 5000.0),
        ("st_low/1", "fit", 120.0),
        ("costt/1", "text_fit", 60.0),
        ("costt/1", "fit", 30.0),
    ):
        PhaseRecord(results / run, phase).write(status="finished", fingerprint="", outputs=[], seconds=seconds)
    assert training_minutes(load("almanac/st_low", "asr")) == pytest.approx(12.0)
    assert training_minutes(load("almanac/costt")) == pytest.approx(1.5)  # the recogniser only writes its recordings
