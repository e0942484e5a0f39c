"""Results: nothing is lost, nothing is invented, and the table is what the rows say."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import subprocess

import pytest

from dragoman.shared.errors import DataError
from dragoman.shared.evaluation.results import commit, hardware, read, record
from tests.small import refuses

ROW = {
    "recipe": "almanac/st",
    "phase": "evaluate",
    "split": "en-de/tst-HE",
    "metric": "bleu",
    "value": 61.234,
    "signature": "nrefs:1|tok:13a",
    "lines": 300,
    "beam": 5,
    "search": {"class": "BeamSearch", "arguments": {}},
    "seed": 1,
    "minutes": 14.26,
    "command": "dragoman run almanac/st",
    "commit": "0123456789abcdef0123456789abcdef01234567+",
}
#: The same as a line of a file.
LINE = {name: value for name, value in ROW.items() if name not in ("metric", "value", "signature")}
LINE |= {"scores": {"bleu": 61.234}, "signatures": {"bleu": "nrefs:1|tok:13a"}}


def write_many(path, number):
    for i in range(50):
        record(path, [ROW | {"seed": number, "value": float(i)}])


def test_processes_append_at_once_without_loss(tmp_path):
    path = tmp_path / "folder" / "results.jsonl"
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=write_many, args=(path, number)) for number in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    rows = read(path)
    assert len(rows) == 200
    for number in range(4):
        assert [row["value"] for row in rows if row["seed"] == number] == [float(i) for i in range(50)]


def test_refuses_what_is_not_a_result(tmp_path):
    path = tmp_path / "results.jsonl"
    partial = {name: value for name, value in ROW.items() if name not in ("split", "lines")}
    refuses(DataError, r"results\.jsonl: not a result \('split' is missing", record, path, [partial])
    refuses(DataError, "not a finite number", record, path, [ROW | {"value": float("nan")}])
    for value in ("61", None, True):
        refuses(DataError, "'value' is .*, not a number", record, path, [ROW | {"value": value}])
    assert not path.exists()
    record(path, [ROW])
    path.write_text(path.read_text() + "{broken\n")
    refuses(DataError, r"results.jsonl, line 2: not a result \('\{broken' is not JSON", read, path)
    path.write_text(json.dumps(LINE))
    refuses(DataError, "the last line is cut off", record, path, [ROW])


@pytest.mark.parametrize("line", ["[1]", "null", "[" * 100_000, '{"value": %s}' % ("9" * 5000)])
def test_a_line_that_is_no_row_is_named(tmp_path, line):
    (tmp_path / "results.jsonl").write_text(line + "\n")
    refuses(DataError, r"results\.jsonl, line 1: not a result", read, tmp_path / "results.jsonl")
    (tmp_path / "results.jsonl").write_bytes(b"\xff\n")
    refuses(DataError, r"results\.jsonl: not results", read, tmp_path / "results.jsonl")


def test_one_line_holds_the_metrics_of_a_test(tmp_path):
    off_target = {"metric": "off_target", "value": 2.5, "signature": "lid", "lines": 7}
    record(tmp_path / "results.jsonl", [ROW, ROW | {"metric": "ter", "value": 4.0}, ROW | off_target])
    [line] = (tmp_path / "results.jsonl").read_text().splitlines()
    written = json.loads(line)
    assert written["scores"] == {"bleu": 61.234, "ter": 4.0, "off_target": 2.5}
    assert written["signatures"] == {"bleu": "nrefs:1|tok:13a", "ter": "nrefs:1|tok:13a", "off_target": "lid"}
    assert written["lines"] == {"bleu": 300, "ter": 300, "off_target": 7} and "value" not in written
    rows = read(tmp_path / "results.jsonl")
    assert [(row["metric"], row["value"], row["signature"], row["lines"]) for row in rows] == [
        ("bleu", 61.234, "nrefs:1|tok:13a", 300),
        ("ter", 4.0, "nrefs:1|tok:13a", 300),
        ("off_target", 2.5, "lid", 7),
    ]
    record(tmp_path / "other.jsonl", [ROW, ROW | {"seed": 2, "value": 1.0}])  # of two runs
    first, second = map(json.loads, (tmp_path / "other.jsonl").read_text().splitlines())
    assert (first["lines"], second["lines"], second["scores"], second["seed"]) == (300, 300, {"bleu": 1.0}, 2)


def test_a_line_whose_signatures_no_line_says_is_named(tmp_path):
    record(tmp_path / "results.jsonl", [ROW, ROW | {"seed": 2}])
    _, second = (tmp_path / "results.jsonl").read_text().splitlines()
    (tmp_path / "results.jsonl").write_text(second + "\n")
    said = r"results\.jsonl, line 1: no line above says the signatures that are called '3672f805'"
    refuses(DataError, said, read, tmp_path / "results.jsonl")


def test_commit_is_of_the_code_and_says_if_it_was_changed(tmp_path):
    file = tmp_path / "code.py"
    file.write_text("1\n")
    assert commit(file) == "none"
    git = ["git", "-C", str(tmp_path), "-c", "user.name=x", "-c", "user.email=x@example.com"]
    subprocess.run([*git, "init", "-q"], check=True)
    assert commit(file) == "none"  # in somebody's repository, which does not know it
    subprocess.run([*git, "add", "code.py"], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "x"], check=True)
    head = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    assert commit(file) == head
    file.write_text("2\n")
    assert commit(file) == head + "+"


def test_hardware_counts_cores():
    assert hardware("cpu").split(" x ")[0].isdigit() and hardware("cpu").split(" x ")[1]


def test_a_full_disk_names_the_results(tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    row = {"recipe": "r", "split": "s", "metric": "bleu", "value": 1.0, "signature": "x", "lines": 1}
    refuses(OSError, r"No space left on device: '.*results\.jsonl'", record, tmp_path / "results.jsonl", [row])
