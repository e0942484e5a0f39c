"""Results: nothing is lost, nothing is invented, and the table is what the rows say."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import subprocess
from itertools import permutations

import pytest

from dragoman.shared.errors import DataError
from dragoman.shared.evaluation.results import collect, commit, hardware, latest, of_run, read, record
from dragoman.shared.evaluation.tables import details, render, summarise
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


@pytest.mark.parametrize("line", ["[1]", "null", "[" * 100_000, '{"value": %s}' % ("9" * 5000)])
def test_a_line_that_is_no_row_is_named(tmp_path, line):
    (tmp_path / "results.jsonl").write_text(line + "\n")
    refuses(DataError, r"results\.jsonl, line 1: not a result", read, tmp_path / "results.jsonl")
    (tmp_path / "results.jsonl").write_bytes(b"\xff\n")
    refuses(DataError, r"results\.jsonl: not results", read, tmp_path / "results.jsonl")


def cells(text):
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("| ")]


def table(tmp_path, *changes):
    """Record rows, one after the other, and return the table of the latest ones."""
    path = tmp_path / "results.jsonl"
    for change in changes:
        record(path, [ROW | change])
    return render(latest(read(path)), path.name)


def test_the_table_has_a_line_for_each_recipe_with_the_mean_over_seeds(tmp_path):
    text = table(
        tmp_path,
        {},
        {"value": 60.0, "commit": "f" * 40},  # measured again: the first does not count
        {"metric": "chrf", "value": 70.0, "signature": "nc:6", "note": "a\u2028b"},
        {"seed": 2, "value": 64.0},
        {"split": "en-de/tst-COMMON", "value": 80.0},
        {"keys": {"label_smoothing": 0.2}, "value": 44.0},
        {"keys": {"beam": 1}, "value": 50.0},
        {"keys": {"beam": 1}, "corpus": "another", "value": 5.0},  # of another corpus: not averaged with the other
        {"recipe": "own/mt", "value": 3.0, "minutes": None},
    )
    almanac, own = text.split("## own")
    header, *rows = cells(almanac)
    assert header == ["recipe", "keys", "metric", "seeds", "en-de/tst-COMMON", "en-de/tst-HE", "minutes"]
    assert rows == [
        ["almanac/st", "", "bleu", "2", "80.0", "62.0 ± 2.8", "14.3"],  # (60 + 64) / 2; sqrt(2^2 + 2^2)
        ["almanac/st", "beam=1", "bleu", "1", "", "5.0", "14.3"],
        ["almanac/st", "label_smoothing=0.2", "bleu", "1", "", "44.0", "14.3"],
    ]
    assert "chrf" not in text and "nc:6" not in text
    assert almanac.count("- bleu: `nrefs:1|tok:13a`") == 1
    assert cells(own)[1] == ["own/mt", "bleu", "1", "3.0"] and "minutes" not in own


@pytest.mark.parametrize(
    "beside", [{"ctc_weight": 0.3}, {"language_model": "lm", "lm_weight": 0.2}, {"ensemble": ["b"]}]
)
def test_what_takes_part_in_a_search_makes_it_another_measurement(beside, tmp_path):
    text = table(tmp_path, {}, {"seed": 2}, beside | {"value": 1.0})
    assert len(latest(read(tmp_path / "results.jsonl"))) == 3
    assert cells(text)[1][2:4] == ["1", "1.0"]  # the newest alone, and not with another's seeds


@pytest.mark.parametrize("beside", [{"language_model": "lm/{}", "lm_weight": 0.2}, {"ensemble": ["b/{}"]}])
def test_seeds_may_have_other_models_beside_theirs(beside, tmp_path):
    rows = [{"seed": seed} | json.loads(json.dumps(beside).replace("{}", str(seed))) for seed in (1, 2)]
    assert cells(table(tmp_path, *rows))[1][2] == "2"


def test_the_table_gives_the_verdict_against_the_control(tmp_path):
    arms = ([70.0, 74.0], {}), ([50.0, 52.0], {"keys": {"parts": []}})
    for values, keys in arms:
        table(tmp_path, *(keys | {"value": value, "seed": seed} for seed, value in enumerate(values)))
    verdict = {"kind": "comparison", "against": "almanac/st", "against_keys": {"parts": []}}
    rows = cells(table(tmp_path, verdict | {"value": 21.0, "p": 0.001}))
    assert rows[0][-2:] == ["against", "minutes"]
    assert rows[1][:-1] == ["almanac/st", "", "bleu", "2", "72.0 ± 2.8, +21.0 better", "parts=[]"]
    assert rows[2][:-1] == ["almanac/st", "parts=[]", "bleu", "2", "51.0 ± 1.4", ""]
    assert "72.0 ± 2.8, -1.0 n.s." in table(tmp_path, verdict | {"value": -1.0, "p": 0.4})


def test_each_control_has_a_verdict_and_training_its_data_and_minutes(tmp_path):
    trained = {"data": "500 triples (0.4 h)", "learning": 0.914}
    table(tmp_path, {"phase": "early"})  # whose minutes are those until its evaluation
    table(tmp_path, *(trained | {"minutes": 30.0 + s, "seed": s, "value": v} for s, v in ((1, 70.0), (2, 74.0))))
    table(tmp_path, {"kind": "comparison", "against": "almanac/cascade", "value": 2.0, "p": 0.06})
    text = table(tmp_path, {"kind": "comparison", "against": "almanac/mt", "value": -3.0, "p": 0.04})
    header, row = cells(text)[:2]
    assert header[-5:] == ["en-de/tst-HE", "against", "learning (M)", "data", "minutes"]
    shown = ["72.0 ± 2.8, +2.0 n.s.; -3.0 worse", "almanac/cascade; almanac/mt", "0.91", "500 triples (0.4 h)", "31.5"]
    assert row[-5:] == shown


def test_fewer_errors_are_better(tmp_path):
    verdict = {"kind": "comparison", "against": "almanac/mt", "value": -3.0, "p": 0.04}
    text = table(tmp_path, {"metric": "wer"}, {"metric": "wer"} | verdict)
    assert cells(text)[1][3:5] == ["61.2, -3.0 better", "almanac/mt"]


def test_keys_in_another_order_are_the_same_line_and_read_as_in_a_recipe(tmp_path):
    keys = {"phases.mt": None, "streams": [{"!ref": "<stream>"}], "beam": 4, "rules": {"ratio": 2.0}}
    text = table(tmp_path, {"keys": keys}, {"keys": dict(sorted(keys.items())), "seed": 2}, {})
    shown = "beam=4 phases.mt=null rules={ratio: 2.0} streams=[!ref <stream>]"
    assert [row[1:4] for row in cells(text)[1:]] == [["", "bleu", "1"], [shown, "bleu", "2"]]


def test_what_else_a_model_did_has_a_table_of_its_own(tmp_path):
    text = table(
        tmp_path,
        {"text": "transcript", "metric": "wer", "value": 11.0},
        {"text": "translation", "value": 22.0},
        {"phase": "evaluate_text", "value": 33.0},
        {"recipe": "almanac/asr", "metric": "wer", "value": 44.0},
        {"recipe": "almanac/chimera", "phase": "compare", "metric": "retrieval", "value": 55.0},
    )
    main, others = text.split("Other texts and phases of the same models:")
    assert [(row[0], row[-2]) for row in cells(main)[1:]] == [
        ("almanac/asr", "44.0"),
        ("almanac/chimera (compare)", "55.0"),
        ("almanac/st", "22.0"),
    ]
    assert [(row[0], row[-2]) for row in cells(others)[1:]] == [
        ("almanac/st", "11.0"),
        ("almanac/st (evaluate_text)", "33.0"),
    ]


def test_recipes_with_other_test_sets_have_a_table_of_their_own(tmp_path):
    text = table(
        tmp_path,
        {},
        {"split": "en-de/tst-COMMON"},
        {"recipe": "almanac/asr", "metric": "wer"},
        {"recipe": "almanac/asr", "metric": "wer", "split": "en-de/tst-COMMON"},
        {"recipe": "almanac/csr", "split": "de-en/test"},
        {"keys": {"beam": 1}},  # the same recipe, on one of its test sets
    )
    headers = [row for row in cells(text) if row[0] == "recipe"]
    assert [header[-3:-1] for header in headers] == [["en-de/tst-COMMON", "en-de/tst-HE"], ["seeds", "de-en/test"]]
    assert [part.count("\n| almanac/") for part in text.split("| recipe |")] == [0, 3, 1]


def test_arms_that_were_tested_on_other_data_have_a_table_of_their_own(tmp_path):
    """Whose test sets may have the same names; what shares one corpus with them belongs to them."""
    path = tmp_path / "results.jsonl"
    first, second = {"split": "en-de/tst-COMMON", "corpus": "1a"}, {"split": "en-de/tst-HE", "corpus": "1b"}
    other, more = first | {"corpus": "2a"}, {"split": "en-de/tst-voices", "corpus": "2c"}
    world2, none, few = {"arm": "world2"}, {"arm": "none"}, {"arm": "world2+few", "phase": "further"}
    for change in (first, second, none | first, world2 | other, world2 | more, few | more):
        record(path, [ROW | change])
    table = cells(render(latest(read(path)), path.name))
    assert [(row[0], row[1], *row[4:6]) for row in table] == [
        ("recipe", "arm", "en-de/tst-COMMON", "en-de/tst-HE"),
        ("almanac/st", "", "61.2", "61.2"),
        ("almanac/st", "none", "61.2", ""),
        ("recipe", "arm", "en-de/tst-COMMON", "en-de/tst-voices"),
        ("almanac/st", "world2", "61.2", "61.2"),
        ("almanac/st (further)", "world2+few", "", "61.2"),
    ]


def test_many_test_sets_share_a_column(tmp_path):
    text = table(tmp_path, *({"split": f"x{number}-en/test", "value": float(number)} for number in range(5)))
    header, row = cells(text)
    assert header == ["recipe", "metric", "seeds", "mean of tests", "minutes"] and row[3] == "2.0"
    others = ({"recipe": "almanac/mt", "split": f"en-y{number}/test", "value": 10.0 + number} for number in range(6))
    assert [row[3] for row in cells(table(tmp_path, *others))] == ["mean of tests", "12.5", "2.0"]  # in one table


def test_tests_of_many_directions_are_shown_as_sources_by_targets(tmp_path):
    path = tmp_path / "results.jsonl"
    for number, pair in enumerate(permutations(("de", "en", "fr"), 2)):
        test = {"split": f"{'-'.join(pair)}/test"}
        values = ({"seed": seed, "value": 10.0 * number + more} for seed, more in ((1, 0.0), (2, 2.0)))
        off_target = {"metric": "off_target", "value": 5.0, "signature": "lid"}
        table(tmp_path, *(test | change for change in (*values, off_target)))
    zero_shot = {"phase": "zero_shot"}
    text = table(
        tmp_path, zero_shot | {"split": "fr-tr/test", "value": 7.0}, zero_shot | {"split": "tr-fr/test", "value": 9.0}
    )
    header, main, _, zero_shot = cells(text)
    assert header[3] == "mean of tests" and (main[3], zero_shot[3]) == ("26.0", "8.0")
    assert zero_shot[0] == "almanac/st (zero_shot)"
    text = "\n\n".join(details(latest(read(path))))
    found = cells(text)
    assert "almanac/st, bleu on test, sources by targets:" in text
    assert found[:5] == [
        ["", "de", "en", "fr", "mean"],
        ["de", "", "1.0", "11.0", "6.0"],
        ["en", "21.0", "", "31.0", "26.0"],
        ["fr", "41.0", "51.0", "", "46.0"],
        ["mean", "31.0", "26.0", "21.0", "26.0"],
    ]
    assert "almanac/st, off_target on test, sources by targets:" in text
    heading = "|  | fr | tr | mean |\n|---|---:|---:|---:|"
    assert f"almanac/st (zero_shot), bleu on test, sources by targets:\n\n{heading}" in text


def test_the_mean_of_many_directions_has_its_own_verdict(tmp_path):
    """Of the tests of its phase: those of another phase are no part of it."""
    path = tmp_path / "results.jsonl"
    tests = [f"{one}-{other}/test" for one, other in permutations(("de", "en", "fr"), 2)]
    for keys, value in (({}, 12.0), ({"heads": 1}, 10.0)):
        for split in tests:
            record(path, [ROW | {"split": split, "keys": keys, "value": value}])
    record(path, [ROW | {"phase": "zero_shot", "split": "tr-fr/test", "value": 3.0}])
    compared = {"kind": "comparison of means", "split": ", ".join(sorted(tests)), "value": 2.0, "lines": 1800}
    against = {"against": "almanac/st", "against_keys": {"heads": 1}, "p": 0.01}
    record(path, [ROW | compared | against])
    text = render(latest(read(path)), path.name)
    header, *rows = cells(text)
    lines = {tuple(row[:2]): row for row in rows}
    place = header.index("mean of tests")
    assert lines["almanac/st", ""][place : place + 2] == ["12.0, +2.0 better", "heads=1"]
    assert lines["almanac/st", "heads=1"][place] == "10.0"
    assert sum("bleu on test, sources by targets:" in table for table in details(latest(read(path)))) == 2


def test_parts_of_a_test_have_a_table_of_their_own(tmp_path):
    path = tmp_path / "results.jsonl"
    record(path, [ROW])
    for number, split in enumerate(("test:0-9", "test:10+", "test-new:0-9", "test-new:10+")):
        row = ROW | {"phase": "words", "metric": "word_f", "split": split}
        record(path, [row | {"value": 10.0 * number}])
        record(path, [row | {"value": 10.0 * number + 4, "seed": 2}])
    header, main = cells(render(latest(read(path)), path.name))
    parts = cells("\n\n".join(details(latest(read(path)))))
    assert header[:4] == ["recipe", "metric", "seeds", "en-de/tst-HE"] and main[0] == "almanac/st"
    assert [row[:5] for row in parts] == [
        ["recipe", "metric", "seeds", "0-9", "10+"],
        ["almanac/st (words)", "word_f", "2", "2.0 ± 2.8", "12.0 ± 2.8"],  # (0 + 4) / 2; sqrt(2^2 + 2^2)
        ["recipe", "metric", "seeds", "0-9", "10+"],
        ["almanac/st (words)", "word_f", "2", "22.0 ± 2.8", "32.0 ± 2.8"],
    ]


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


def test_a_line_whose_signatures_no_line_says_is_named(tmp_path):
    record(tmp_path / "results.jsonl", [ROW, ROW | {"seed": 2}])
    _, second = (tmp_path / "results.jsonl").read_text().splitlines()
    (tmp_path / "results.jsonl").write_text(second + "\n")
    said = r"results\.jsonl, line 1: no line above says the signatures that are called '3672f805'"
    refuses(DataError, said, read, tmp_path / "results.jsonl")


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


def test_the_headlines_of_a_text_are_replaced(tmp_path):
    for recipe, split, metric, value, minutes in (
        ("a/st", "x", "bleu", 12.34, {"minutes": 3.2}),
        ("a/st", "y", "bleu", 5.0, {"minutes": 3.2}),
        ("a/st", "x", "ter", 50.0, {}),
        ("a/asr", "x", "wer", 7.0, {"minutes": 1.0}),
        ("a/st", "x", "bleu", 13.0, {"minutes": 4.0}),
    ):
        row = {"recipe": recipe, "split": split, "metric": metric, "value": value, "signature": "s", "lines": 2}
        record(tmp_path / "results.jsonl", [row | minutes])
    text = tmp_path / "README.md"
    text.write_text("before\n<!-- results -->\nold\n<!-- /results -->\nafter\n")
    summarise(read(tmp_path / "results.jsonl"), text)
    assert text.read_text().splitlines() == [
        "before",
        "<!-- results -->",
        "| recipe | score | x | y | minutes | hardware |",
        "|---|---|---:|---:|---:|---|",
        "| a/asr | WER | 7.0 |  | 1 |  |",
        "| a/st | BLEU | 13.0 | 5.0 | 4 |  |",
        "<!-- /results -->",
        "after",
    ]
    text.write_text("nothing")
    refuses(DataError, "README.md", summarise, read(tmp_path / "results.jsonl"), text)


def test_a_full_disk_names_the_results(tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    row = {"recipe": "r", "split": "s", "metric": "bleu", "value": 1.0, "signature": "x", "lines": 1}
    refuses(OSError, r"No space left on device: '.*results\.jsonl'", record, tmp_path / "results.jsonl", [row])
