"""What a run has learned from, counted from its manifests by hand; and only the training that it uses."""

import re
from pathlib import Path

import pytest

from dragoman import DataError, Manifest, Recipe
from dragoman.commands.data_seen import data_seen, learning_parameters, training_minutes, trainings
from dragoman.shared.machine.workspace import PhaseRecord
from tests.recipes.test_recipes import Vocabulary

#: Manifests of the recipes on few triples: rows, and seconds of each recording.
MANIFESTS = {"almanac-few": (3, 1800.0), "almanac": (5, 3600.0), "almanac-text": (7, None)}
TOKENIZER = f"!new:{Vocabulary.__module__}.Vocabulary {{pieces: 500, tags: [en, de]}}"

ROOT = Path(__file__).parents[3]
RESULTS = Path("results/almanac-low/en-de")


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


def load(name, *inner, **keys):
    given = {f"{prefix}tokenizer": TOKENIZER for prefix in ("", *(f"phases.{phase}." for phase in inner))}
    return Recipe.load(name, given | keys)


@pytest.mark.parametrize(
    ("name", "inner", "expected"),
    [
        ("st_low", ["asr"], "3 triples (1.5 h), 5 recordings with transcripts (5.0 h)"),
        ("costt", ["asr"], "3 triples (1.5 h), 5 recordings with transcripts (5.0 h), 7 text pairs"),
        ("cascade_low", ["asr", "mt"], "5 recordings with transcripts (5.0 h), 10 text pairs"),
    ],
)
def test_rows_and_hours_by_what_is_read_of_them(name, inner, expected):
    assert data_seen(load(f"almanac/{name}", *inner)) == expected


def test_what_a_teacher_says_of_a_text_is_read_with_the_text():
    table = "!new:mt.teacher_table.TableField {target: !ref <output>}"
    fields = {"stream.fields": f"{{source: !ref <source>, target: !ref <output>, teacher: {table}}}"}
    assert data_seen(load("almanac/mt", **fields)) == data_seen(load("almanac/mt")) == "5 text pairs"


def test_pieces_alone_do_not_make_a_model_learn_from_a_text():
    rows = {"de-en": 1, "en-de": 1, "en-fr": 2, "fr-en": 2, "en-ru": 1, "ru-en": 1, "en-tr": 1, "tr-en": 1}
    for direction, count in rows.items():
        source, target = direction.split("-")
        row = {"source_text": "a", "target_text": "b", "source_language": source, "target_language": target}
        folder = Path("data/almanac-many-300-manifests") / direction
        folder.mkdir(parents=True)
        Manifest.write(folder / "train.arrow", [row | {"id": str(number)} for number in range(count)])
    vocabulary = TOKENIZER.replace("[en, de]", "[en, de, fr, ru, tr]")
    keys = {"tokenizer": vocabulary, "phases.mrasp.tokenizer": vocabulary}
    assert data_seen(Recipe.load("almanac/mt_from_mrasp", keys)) == "10 text pairs"
    assert data_seen(Recipe.load("almanac/mt_from_mrasp", keys | {"phases.fit.initialise": "[]"})) == "1 text pairs"


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({}, r"# LNA-ED: ([0-9.]+) M learn"),
        ({"arm": "decoder"}, r"decoder: .*# LNA-D: ([0-9.]+) M learn"),
        ({"arm": "all"}, r"all: .*# .*: ([0-9.]+) M"),
        ({"arm": "lora"}, r"lora: +# ([0-9.]+) M"),
        ({"optimizer.tuning": None}, None),
    ],
)
def test_what_learns_is_what_the_recipe_says(keys, said):
    if keys.get("arm") == "lora":
        pytest.importorskip("peft")
    vocabulary = TOKENIZER.replace("500", "2000").replace("[en, de]", "[en, de, fr, tr]")
    given = {"tokenizer": vocabulary, "phases.mt.tokenizer": vocabulary, "phases.wav2vec2.tokenizer": vocabulary}
    found = learning_parameters(Recipe.load("almanac/lna", given | keys))
    if said is None:
        assert found is None
    else:
        text = (ROOT / "recipes" / "almanac" / "lna.yaml").read_text(encoding="utf-8")
        assert found == pytest.approx(float(re.search(said, text)[1]), abs=0.006)


def finished(runs):
    """Write down how many seconds the phases of runs took."""
    for run, phases in runs.items():
        for phase, seconds in phases.items():
            PhaseRecord(RESULTS / run, phase).write(status="finished", fingerprint="", outputs=[], seconds=seconds)


def test_minutes_are_those_of_all_training_that_is_used():
    finished({"asr/1": {"fit": 600.0, "evaluate": 5000.0}, "st_low/1": {"fit": 120.0}})
    finished({"costt/1": {"text_fit": 60.0, "fit": 30.0}})
    assert training_minutes(load("almanac/st_low", "asr")) == pytest.approx(12.0)
    assert training_minutes(load("almanac/costt")) == pytest.approx(11.5)  # its encoders begin as the recogniser's


#: XSTNet's second stage alone, from the first one of another run, which is what recipes/almanac/RESULTS.md compares.
DROPPED = {
    "phases.mt_fit": None,
    "phases.mt_average": None,
    "from_text.folder": "!ref <results_folder>/xstnet/<seed>/mt_average/model",
    "streams": "[!ref <stream>]",
    "grad_accumulation_factor": 1,
    "output_folder": "!ref <results_folder>/xstnet_dropped/<seed>",
}


def write_recipe(run, **keys):
    run.mkdir(parents=True, exist_ok=True)
    (run / "recipe.yaml").write_text(load("almanac/xstnet", "asr", **keys).text(), encoding="utf-8")


def another_run():
    """Write the recipe of a finished run down, and how long its training and that of its recogniser took."""
    write_recipe(RESULTS / "xstnet/1")
    of_run = {"tokenizer": 1.0, "mt_fit": 60.0, "mt_average": 1.0, "fit": 300.0, "average": 1.0}
    finished({"asr/1": {"fit": 600.0}, "xstnet/1": of_run, "xstnet_dropped/1": {"fit": 30.0}})
    return RESULTS


def test_what_another_run_has_learned_from_counts_as_far_as_it_is_used():
    another_run()
    recipe = load("almanac/xstnet", "asr", **DROPPED)
    assert data_seen(recipe) == "3 triples (1.5 h), 5 recordings with transcripts (5.0 h), 7 text pairs"
    # The recogniser's once, and of the other run its first stage.
    assert training_minutes(recipe) == pytest.approx(11.5)
    without = load("almanac/xstnet", "asr", **DROPPED | {"phases.fit.initialise": "[!ref <from_recogniser>]"})
    assert data_seen(without) == "3 triples (1.5 h), 5 recordings with transcripts (5.0 h)"
    assert training_minutes(without) == pytest.approx(10.5)


@pytest.mark.parametrize("own", [{}, {"phases.asr": None, "phases.fit.initialise": "[!ref <from_text>]"}])
def test_all_that_led_to_a_model_of_another_run_counts_once(own):
    another_run()
    keys = DROPPED | {"from_text.folder": "!ref <results_folder>/xstnet/<seed>/average/model"}
    recipe = load("almanac/xstnet", *([] if own else ["asr"]), **keys | own)
    assert data_seen(recipe) == "3 triples (1.5 h), 5 recordings with transcripts (5.0 h), 7 text pairs"
    assert training_minutes(recipe) == pytest.approx(16.5)


def test_the_pieces_of_another_run_are_no_training():
    folder = another_run()
    pieces = f"!new:shared.text.tokenizer.SentencePieceTokenizer {{model: {folder}/xstnet/1/tokenizer/tokenizer.model}}"
    keys = {"tokenizer": pieces, "phases.fit.initialise": "[!ref <from_recogniser>]"}
    assert [phase for _, phase in trainings(load("almanac/xstnet", "asr", **DROPPED | keys))] == ["fit", "fit"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda run: run.rename(run.parent / "2"), "2/mt_average/model: is read, but the run in .* is .*/xstnet/1"),
        (lambda run: write_recipe(run, **{"phases.mt_average": None}), "recipe.yaml has no phase 'mt_average'"),
    ],
)
def test_another_run_that_is_no_more_what_it_was_is_refused(change, message):
    folder = another_run()
    change(folder / "xstnet/1")
    [run] = (folder / "xstnet").iterdir()
    recipe = load("almanac/xstnet", "asr", **DROPPED | {"from_text.folder": f"{run}/mt_average/model"})
    with pytest.raises(DataError, match=message):
        data_seen(recipe)
