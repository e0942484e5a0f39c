"""Rows of runs in one file: what is kept of them, and their order."""

import json

import pytest

from dragoman.reporting.collecting import collect
from dragoman.reporting.tables import render
from dragoman.shared.errors import DataError
from dragoman.shared.evaluation.results import latest, of_run, read, record
from tests.shared.evaluation.test_results import LINE, ROW
from tests.small import refuses


@pytest.mark.parametrize(
    "odd",
    [
        {"scores": ["bleu"]}, {"scores": {"bleu": "1"}}, {"recipe": None}, {"split": 5}, {"lines": "300"},
        {"lines": 10**23}, {"keys": "none"}, {"minutes": "14"}, {"commit": 7}, {"seeds": [1, "2"]}, {"seeds": 3},
        {"kind": []}, {"outputs": 1}, {"low": None}, {"against_keys": [1]}, {"seed": "1"}, {"signed": 7},
    ],
)  # fmt: skip
def test_an_odd_row_is_named_with_its_key(tmp_path, odd):
    """Whatever would have been a traceback of the table."""
    record(tmp_path / "results.jsonl", [ROW])
    with open(tmp_path / "results.jsonl", "a") as file:
        file.write(json.dumps(LINE | odd) + "\n")
    with pytest.raises(DataError, match=rf"results\.jsonl, line 2: not a result \('{next(iter(odd))}' is .*, not "):
        collect(of_run(tmp_path), tmp_path / "all")


def test_collecting_twice_changes_nothing(tmp_path):
    for run, change in (("a", {}), ("b", {"seed": 2})):
        record(tmp_path / run / "results.jsonl", [ROW | change, ROW | change | {"metric": "ter", "value": 4.0}])
    into = tmp_path / "recipes" / "almanac"
    table = collect([*of_run(tmp_path / "a"), *of_run(tmp_path / "b")], into)
    before = (into / "results.jsonl").read_bytes(), table.read_bytes()
    assert len(read(into / "results.jsonl")) == 4 and table.read_text() == render(
        latest(read(into / "results.jsonl")), "results.jsonl"
    )
    collect(of_run(tmp_path / "b"), into)
    assert ((into / "results.jsonl").read_bytes(), table.read_bytes()) == before
    refuses(DataError, "has no results.jsonl", of_run, tmp_path / "c")


def test_signatures_stand_in_the_first_line_that_has_them(tmp_path):
    """Their short name is what `b2sum -l 32` says of their JSON."""
    both = [ROW, ROW | {"metric": "ter", "value": 4.0, "signature": "lc"}]
    rows = [row | {"seed": seed} for seed in (1, 2, 3) for row in both] + [ROW | {"seed": 4}, ROW | {"seed": 5}]
    collect(rows, tmp_path)
    lines = [json.loads(line) for line in (tmp_path / "results.jsonl").read_text().splitlines()]
    several, one = {"bleu": "nrefs:1|tok:13a", "ter": "lc"}, "nrefs:1|tok:13a"
    assert [(line["seed"], line["signed"], line.get("signatures")) for line in lines] == [
        (1, "759db6b6", several), (2, "759db6b6", None), (3, "759db6b6", None),
        (4, "3672f805", one), (5, "3672f805", None),
    ]  # fmt: skip
    assert [row["signature"] for row in read(tmp_path / "results.jsonl")] == ["nrefs:1|tok:13a", "lc"] * 3 + [one] * 2
    assert not any("signed" in row or "signatures" in row for row in read(tmp_path / "results.jsonl"))


def test_what_is_added_to_a_file_says_its_signatures_again_and_collecting_once(tmp_path):
    """Who appends does not read the file; and files that are joined are a file."""
    for seed in (1, 2):
        record(tmp_path / "run" / "results.jsonl", [ROW | {"seed": seed}, ROW | {"seed": seed + 2, "value": 1.0}])
    texts = [json.loads(line).get("signatures") for line in (tmp_path / "run" / "results.jsonl").open()]
    assert texts == ["nrefs:1|tok:13a", None] * 2
    collect(of_run(tmp_path / "run"), tmp_path)
    texts = [json.loads(line).get("signatures") for line in (tmp_path / "results.jsonl").open()]
    assert texts == ["nrefs:1|tok:13a", None, None, None]


def test_a_file_of_an_earlier_version_is_read_and_rewritten(tmp_path):
    """Each of its lines has its signatures in full, and no name of them."""
    (tmp_path / "results.jsonl").write_text("".join(json.dumps(LINE | {"seed": seed}) + "\n" for seed in (1, 2)))
    before = read(tmp_path / "results.jsonl")
    assert [(row["seed"], row["signature"]) for row in before] == [(1, "nrefs:1|tok:13a"), (2, "nrefs:1|tok:13a")]
    collect([], tmp_path)
    first, second = map(json.loads, (tmp_path / "results.jsonl").read_text().splitlines())
    assert (first["signatures"], first["signed"], second["signed"]) == ("nrefs:1|tok:13a", "3672f805", "3672f805")
    assert "signatures" not in second


def test_what_is_collected_of_a_run_knows_what_it_learned_from_when_it_is_collected_again(tmp_path):
    trained = {"data": "300 text pairs", "minutes": 40.0}
    collect([ROW | trained], tmp_path)
    collect([ROW | {"value": 62.0}], tmp_path)
    [row] = read(tmp_path / "results.jsonl")
    assert (row["value"], row["data"], row["minutes"]) == (62.0, "300 text pairs", 40.0)
    assert row["commit"] == "0123456789+" and not {"command", "search", "beam", "phase"} & row.keys()
    collect([ROW | {"recipe": "", "model": "m"}], tmp_path)  # whose command is not known from a recipe
    [row] = [row for row in read(tmp_path / "results.jsonl") if not row["recipe"]]
    assert row["command"] == "dragoman run almanac/st" and row["search"] == ROW["search"]
