"""RESULTS.md: lines, columns and verdicts of rows; and the table of headlines in a text."""

import json
from itertools import permutations

import pytest

from dragoman.reporting.tables import details, render, summarise
from dragoman.shared.errors import DataError
from dragoman.shared.evaluation.results import latest, read, record
from tests.shared.evaluation.test_results import ROW
from tests.small import refuses


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
