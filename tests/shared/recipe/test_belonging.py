"""Manifests of other data are never written over: what two runs read, from the outside."""

import json
from pathlib import Path

import pytest

from dragoman import DataError, Manifest, Recipe
from dragoman.runs.running import run_recipe
from dragoman.shared.recipe.belonging import check_belonging
from tests.small import refusal, refuses

WORDS = {"en": "number", "de": "Nummer", "fr": "numéro"}


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def write(folder, note, languages=("en", "de"), splits=("train", "dev", "test")):
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for split in splits:
        for code in languages:
            lines = [f"{WORDS[code]} {n} {note} {split}\n" for n in range(20)]
            (folder / f"{split}.{code}").write_text("".join(lines))
    return folder


def prepared(name, data, **changes):
    """Run a recipe up to its manifests; return the first source of its training manifest, and the folder."""
    given = {"data_folder": str(data), "source_language": "en", "target_language": "de", "device": "cpu"}
    recipe = Recipe.load(name, given | {"noprogressbar": True} | changes)
    run_recipe(recipe, until="prepare")
    place = recipe.value("manifest_folder")
    [train] = Path(place).rglob("train.arrow")
    return Manifest.open(train)[0]["source_text"], place


def content():
    return {path: path.read_bytes() for path in Path().rglob("*.arrow")}


@pytest.mark.parametrize(
    "changes",
    [{"results_folder": "others"}, {"debug": True}, {"results_folder": "others", "debug": True}, {"run": "second"}],
)
@pytest.mark.parametrize("name", ["text/mt", "own/mt"])
def test_a_second_folder_of_the_same_languages_leaves_the_manifests_of_the_first(name, changes):
    write("first", "A")
    write("second", "B")
    text, place = prepared(name, "first")
    assert text == "number 0 A train"
    before = content()
    text, other = prepared(name, "second", **changes)
    assert text == "number 0 B train" and other != place
    assert {path: content()[path] for path in before} == before
    assert prepared(name, "first") == ("number 0 A train", place)  # its run is not refused
    assert prepared(name, "second", **changes) == ("number 0 B train", other)


def test_data_that_was_moved_or_changed_in_its_place_keeps_its_folder():
    _, place = prepared("text/mt", write("first", "A"))
    assert prepared("text/mt", write("first", "B"), results_folder="again") == ("number 0 B train", place)
    Path("first").rename("moved")
    assert prepared("text/mt", "moved", results_folder="later") == ("number 0 B train", place)
    Path("link").symlink_to("moved")
    assert prepared("text/mt", "link", results_folder="last")[1] == place


def test_another_direction_of_the_same_data_has_its_place_in_the_folder():
    write("data", "A", ("en", "de", "fr"))
    _, first = prepared("text/mt", "data")
    before = content()
    text, other = prepared("text/mt", "data", target_language="fr")
    assert text == "number 0 A train" and Path(first).parent == Path(other).parent == Path("manifests/text")
    assert {path: content()[path] for path in before} == before


def test_other_shares_of_one_file_are_other_data():
    write("data", "A", splits=["train"])
    found = [prepared("own/mt", "data", split=share, results_folder=str(share)) for share in (0.1, 0.2, 0.1)]
    places = [place for _, place in found]
    assert places[0] == places[2] != places[1] and all(place.startswith("data/manifests") for place in places)
    assert [len(Manifest.open(f"{place}/dev.arrow")) for place in places] == [2, 4, 2]


def test_manifests_of_data_of_one_file_are_beside_it():
    Path("mine.csv").write_text("en,de\n" + "".join(f"number {n},Nummer {n}\n" for n in range(20)))
    assert prepared("own/mt", "mine.csv", split=0.1)[1] == "mine.csv.manifests"


def test_a_folder_that_was_asked_for_is_taken_or_refused():
    write("first", "A")
    write("second", "B")
    assert prepared("text/mt", "first", manifest_folder="mine")[1].startswith("mine")
    before = content()
    said = refusal(DataError, prepared, "text/mt", "second", manifest_folder="mine", results_folder="others")
    assert "holds the manifests of other data (root " in said and "first" in said and "--manifest_folder" in said
    assert content() == before


@pytest.mark.parametrize("record", ["", "[1]", "{}", '{"arguments": 5}', "[" * 10_000])
def test_a_record_that_says_nothing_refuses_nobody(record):
    Path("prepared.json").write_text(record)
    check_belonging(Path(), {"root": "x"})
    Path("prepared.json").write_text(json.dumps({"arguments": {"root": "/", "splits": None}}))
    check_belonging(Path(), {"root": "/"})
    refuses(DataError, r"other data \(root /\)", check_belonging, Path(), {"root": "/tmp"})
