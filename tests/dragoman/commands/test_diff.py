"""Runs side by side: what differs is shown, what cannot be compared is refused."""

from __future__ import annotations

import json
import random

import pytest
import sacrebleu

from dragoman import DataError, Recipe, UsageError
from dragoman.commands import tested
from dragoman.commands.diff import diff_runs, differing_keys
from dragoman.shared.evaluation.outputs import Outputs
from dragoman.shared.evaluation.results import record
from dragoman.shared.evaluation.scores import score
from tests.small import refuses

REFERENCES = [
    f"The {a} train to {b} leaves at {h}:30." for a in ("fast", "slow") for b in ("Bern", "Ulm") for h in "789"
]
SOURCES = [f"source {n}" for n in range(12)]
BAD = [line.replace("leaves at", "goes on") for line in REFERENCES]
RECIPE = """\
# Two keys
output_folder: {folder}
width: {width}
phases:
    first: !new:shared.phases.TrainTokenizer
        manifests: [!ref <output_folder>/a.arrow]
        columns: [source_text]
        size: !ref <width>
"""


def evaluated(folder, hypotheses, *, references=REFERENCES, width=3, **changes):
    """Write what a run leaves that was evaluated on one test set."""
    folder.mkdir(exist_ok=True)
    Outputs([f"row{n}" for n in range(12)], hypotheses, [references], SOURCES).write(folder / "evaluate" / "t.tsv")
    for found in score(hypotheses, references, "en", ["bleu", "wer"]):
        row = {"recipe": "a/b", "phase": "evaluate", "split": "x/test", "corpus": "c1", "language": "en"}
        row |= {"outputs": "evaluate/t.tsv", "averaging": "none", "beam": 1, "search": {}, "command": "dragoman run"}
        record(folder / "results.jsonl", [row | found.row() | changes])
    (folder / "recipe.yaml").write_text(RECIPE.format(folder=folder, width=width))
    return folder


def test_scores_sentences_and_keys(tmp_path):
    other = [*REFERENCES[:5], "Nothing.", *BAD[6:]]
    a, b = evaluated(tmp_path / "a", REFERENCES), evaluated(tmp_path / "b", other, width=4)
    text = diff_runs(a, b, show=2)
    lines = [line.split() for line in text.splitlines()]
    bleu = sacrebleu.corpus_bleu(other, [REFERENCES]).score
    assert ["bleu", "100.00", f"{bleu:.2f}", f"+{100 - bleu:.2f}"] in [line[:4] for line in lines]
    assert next(line for line in lines if line[:1] == ["wer"])[-1] == "better"
    assert "7 of 12 outputs differ; by sentence chrF, A is better in 7 and B in 0" in text
    worst = sacrebleu.sentence_chrf("Nothing.", [REFERENCES[5]]).score
    shown = [line for line in lines if line and line[0].startswith("row")]
    assert len(shown) == 2 and shown[0] == ["row5", f"+{100 - worst:.1f}"]
    assert "    source      source 5\n" in text and f"    reference   {REFERENCES[5]}\n" in text
    assert f"    B {worst:5.1f}     Nothing.\n" in text
    assert ["width", "3", "4"] in lines and "output_folder" not in text


def test_an_empty_output_has_its_line_and_an_empty_source_none(tmp_path, monkeypatch):
    monkeypatch.setattr(f"{__name__}.SOURCES", [""] * 12)
    a, b = evaluated(tmp_path / "a", REFERENCES), evaluated(tmp_path / "b", ["", *REFERENCES[1:]])
    lines = diff_runs(a, b).splitlines()
    first = lines.index("row0  +100.0")
    assert [line.split()[0] for line in lines[first + 1 : first + 4]] == ["reference", "A", "B"]
    assert lines[first + 3].split() == ["B", "0.0"]


def test_nothing_to_tell(tmp_path):
    a, b = evaluated(tmp_path / "a", BAD), evaluated(tmp_path / "b", BAD)
    text = diff_runs(a, b)
    assert text.count("no significant difference") == 2 and "0 of 12 outputs differ" in text
    assert "the recipes have the same keys and values" in text
    (b / "recipe.yaml").unlink()
    assert f"no recipes to compare: {b / 'recipe.yaml'} missing" in diff_runs(a, b)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"references": [*REFERENCES[:11], "Else."]}, r"line 13: reference 'The slow train .*' and 'Else.'"),
        ({"corpus": "c2"}, r"the texts agree, but not the manifests \(c1 and c2\)"),
        ({"split": "x/dev", "references": [*REFERENCES[:11], "Else."]}, "nothing to compare"),
        ({"split": "x/dev", "language": "de"}, "nothing to compare"),
        ({"language": "de"}, "are in en and de"),
        ({"value": 3.0}, "is .*, and not 3.0 as results.jsonl has it"),
    ],
)
def test_other_tests_are_refused(tmp_path, changes, message):
    a, b = evaluated(tmp_path / "a", REFERENCES), evaluated(tmp_path / "b", BAD, **changes)
    refuses(DataError, message, diff_runs, a, b)


def test_one_test_set_under_two_names(tmp_path):
    """Readers call it differently, and make ids and manifests of their own."""
    a = evaluated(tmp_path / "a", REFERENCES, split="manifests/test")
    b = evaluated(tmp_path / "b", BAD, split="en-de/test", corpus="c2")
    (b / "evaluate" / "t.tsv").write_text((b / "evaluate" / "t.tsv").read_text().replace("row", "line"))
    text = diff_runs(a, b, show=1)
    assert "== manifests/test (A) = en-de/test (B): 12 lines in en" in text
    assert "only A" not in text and "only B" not in text


def test_what_was_not_evaluated(tmp_path):
    a = evaluated(tmp_path / "a", REFERENCES)
    refuses(DataError, "b: has no results.jsonl", diff_runs, a, tmp_path / "b")
    b = evaluated(tmp_path / "b", REFERENCES)
    (b / "results.jsonl").write_text((b / "results.jsonl").read_text().replace('"outputs"', '"other"'))
    refuses(DataError, "does not say where its outputs are", diff_runs, a, b)
    measured = json.loads((a / "results.jsonl").read_text().splitlines()[0])
    measured |= {"scores": {"source.masked_accuracy": 1.0}, "signatures": "s", "phase": "alone"}
    with open(a / "results.jsonl", "a", encoding="utf-8") as file:
        file.write(json.dumps(measured) + "\n")
    refuses(DataError, "phase 'alone' scored no outputs that can be compared", tested.tests_of, a, "alone")
    refuses(DataError, "no results of a phase 'nowhere'", tested.tests_of, a, "nowhere")
    refuses(UsageError, "blue", diff_runs, a, a, metrics=["blue"])
    evaluated(a, REFERENCES, phase="again")
    refuses(UsageError, r"evaluated in phases again, evaluate: choose one with --phase", diff_runs, a, a)
    assert "0 of 12" in diff_runs(a, a, phase="again")


def test_keys_of_objects_are_compared_as_written(tmp_path):
    (tmp_path / "a.yaml").write_text(RECIPE.format(folder="x", width=3))
    first = Recipe.load(tmp_path / "a.yaml").flat()
    assert first["phases.first"] == "!new:shared.phases.TrainTokenizer"
    assert first["phases.first.size"] == "!ref <width>" and first["phases.first.columns.0"] == '"source_text"'
    second = Recipe.load(tmp_path / "a.yaml", {"width": 4, "phases.first.alpha": 0.5}).flat()
    assert differing_keys(first, second) == {"width": ("3", "4"), "phases.first.alpha": ("", "0.5")}


def test_scores_are_of_random_outputs_too(tmp_path):
    """Shuffled outputs: both directions of the comparison agree but for the sign."""
    shuffled = random.Random(1).sample(BAD, 12)
    a, b = evaluated(tmp_path / "a", BAD), evaluated(tmp_path / "b", shuffled)
    one, other = diff_runs(a, b, show=0), diff_runs(b, a, show=0)
    rows = [[line.split() for line in text.splitlines() if line.startswith("bleu  ")] for text in (one, other)]
    differences = [[cells[3] for cells in own] for own in rows]
    assert float(differences[0][0]) == -float(differences[1][0]) > 0
