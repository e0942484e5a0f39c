"""``dragoman rescore`` of a challenge set: a model's own log-probabilities, summed; options that do not fit."""

import json

import pytest
import torch

from dragoman import System
from dragoman.shared.batch import Batch
from tests import small
from tests.small import GOLDEN

TEXTS = ["eins zwei", "zwei", "drei eins zwei vier"]


@pytest.fixture
def pairs(tmp_path):
    rows = []
    for source, reference in zip(("one two", "two", "one"), TEXTS, strict=True):
        errors = [{"contrastive": text, "type": "any"} for text in TEXTS if text != reference]
        rows.append({"source": source, "reference": reference, "errors": errors})
    path = tmp_path / "pairs.json"
    path.write_text(json.dumps(rows), encoding="utf-8")
    return path, rows


def score(system, source, target):
    """Return the sum of a text's log-probabilities, the end symbol's among them, and their mean."""
    read, written = system.inputs["source"], system.output
    tokens = torch.tensor(written.framed(written.tokenizer.encode(target), "de"))
    given = small.padded([read.framed(read.tokenizer.encode(source), "en")])
    with torch.inference_mode():
        encoding = system.model.encode(Batch({"source": given}))
        found = system.model.log_probabilities(small.padded([tokens[:-1]]), encoding)[0].gather(1, tokens[1:, None])
    return float(found.sum()), float(found.mean())


@pytest.mark.parametrize(("number", "options"), [(0, []), (1, ["--mean", "--from", "en"])])
def test_a_reference_is_preferred_if_it_is_more_probable(dragoman, pairs, tmp_path, number, options):
    path, rows = pairs
    system, right, listed = System.load(GOLDEN).eval(), [], []
    for row in rows:
        texts = [row["reference"], *(one["contrastive"] for one in row["errors"])]
        best, *others = (score(system, row["source"], text)[number] for text in texts)
        right += [best > other for other in others]
        listed += texts
    options = ["--device", "cpu", "--out", tmp_path / "out.tsv", *options]
    code, output, messages = dragoman("rescore", GOLDEN, path, *options)
    assert code == 0, messages
    preferred = ["preferred", f"{100 * sum(right) / 6:.2f}", "6 lines", "preferred|pairs:all"]
    assert output.splitlines()[0].split("\t")[1:] == preferred
    table = [line.split("\t") for line in (tmp_path / "out.tsv").read_text(encoding="utf-8").splitlines()]
    assert [row[4] for row in table[1:]] == listed and table[1][0] == "1/0" and table[-1][0] == "3/2"


def test_options_that_do_not_fit_are_refused(dragoman, pairs, tmp_path):
    path, _ = pairs
    for given, said in (
        ([path, "--outputs", path], "--outputs does not apply"),
        ([tmp_path / "none.arrow", "--mean"], "--mean and languages are for challenge sets (*.json, *.tsv)"),
        ([path, "--to", "fr"], "fr"),
    ):
        code, _, messages = dragoman("rescore", GOLDEN, *given, "--device", "cpu")
        assert code == 2 and said in messages, messages
