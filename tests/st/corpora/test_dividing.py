"""Rows are divided by document into parts that share no text."""

import pytest

from dragoman import DataError, Manifest, UsageError
from dragoman.shared.machine.workspace import Workspace
from dragoman.st.corpora.dividing import Divide
from tests import small
from tests.small import refuses


def manifest(folder, rows):
    """Write rows of (document, source, target)."""
    whole = [small.row(n, *texts) | {"document": document} for n, (document, *texts) in enumerate(rows)]
    return str(Manifest.write(folder / "en-de" / "train.arrow", whole).path)


def divide(folder, rows, parts, out="out"):
    phase = Divide(manifests=[manifest(folder, rows)], out=str(folder / out), parts=parts)
    phase.run(Workspace(output=folder / "run", phase="divide", device="cpu"))
    return {name: [*Manifest.open(folder / out / "en-de" / f"{name}.arrow")] for name in parts}


PAGES = [(f"page{n // 5}", f"source {n}", f"target {n}") for n in range(100)]


def test_parts_have_their_rows_of_whole_documents_but_for_the_last(tmp_path):
    parts = divide(tmp_path, PAGES, {"train": 23, "sound": 15, "text": None})
    assert {name: len(rows) for name, rows in parts.items()} == {"train": 23, "sound": 15, "text": 60}  # 2 cut off
    documents = [{row["document"] for row in rows} for rows in parts.values()]
    assert [len(names) for names in documents] == [5, 3, 12]
    assert len(set.union(*documents)) == 20  # none is in two
    for rows in parts.values():
        assert rows == sorted(rows, key=lambda row: int(row["source_text"].split()[1]))
        assert {name for row in rows if (name := row["document"])} != {f"page{n}" for n in range(len(rows) // 5)}


def test_first_parts_do_not_depend_on_later_ones(tmp_path):
    one = divide(tmp_path, PAGES, {"train": 23, "text": None}, "one")
    other = divide(tmp_path, PAGES, {"train": 23, "sound": 40}, "other")
    assert one["train"] == other["train"]


@pytest.mark.parametrize("again", [("Say  IT", "anders"), ("other", "SAG ES")], ids=["source", "target"])
def test_no_text_is_in_two_parts_in_whatever_case_and_spaces(tmp_path, again):
    rows = [(f"page{n}", "say it", "sag es") if n % 2 else (f"page{n}", *again) for n in range(40)]
    parts = divide(tmp_path, rows, {"first": 1, "rest": None})
    assert len(parts["first"]) == 1 and parts["rest"] == []


def test_a_name_may_be_the_translation_of_something_else(tmp_path):
    rows = [("a", "Calc", "Tabelle"), ("b", "Sheet", "Calc")]
    parts = divide(tmp_path, rows, {"first": 1, "rest": None})
    assert [len(rows) for rows in parts.values()] == [1, 1]


def test_what_cannot_be_divided_is_named(tmp_path):
    message = "train.arrow: 0 rows are left for the part more, not 7"
    refuses(DataError, message, divide, tmp_path, PAGES, {"a": 100, "more": 7})
    refuses(DataError, "row 0 has no document, by which", divide, tmp_path, [("", "a", "b")], {"a": 1})
    for parts in ({}, {"a": None, "b": 1}):
        refuses(UsageError, "parts must be named, and only the last may be null", divide, tmp_path, PAGES, parts)
    path = manifest(tmp_path, PAGES)
    place = Workspace(output=tmp_path / "run", phase="divide", device="cpu")
    over = Divide(manifests=[path], out=str(tmp_path), parts={"a": 1})
    refuses(DataError, "what is read may be written over", over.run, place)
    (tmp_path / "b").mkdir()
    two = Divide(manifests=[path, manifest(tmp_path / "b", PAGES)], out=str(tmp_path / "out"), parts={"a": 1})
    refuses(DataError, "two manifests would be divided there; the second is", two.run, place)
