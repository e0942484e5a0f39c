"""Tables of log-probabilities: one row for each output, whatever is in its texts."""

import csv
from contextlib import nullcontext

import pytest
import torch

from dragoman import DataError
from dragoman.shared.batches.stream import Budget
from dragoman.shared.evaluation.rescoring import Rescored, perplexity, score_rows, write_rescored
from tests import small
from tests.small import refuses


def test_a_row_is_one_line_of_five_cells(tmp_path):
    rows = [Rescored("a\tb\nc", -1.5, 2, "one\r\ntwo\tthree"), Rescored("d", -1.0, 1, '"four')]
    write_rescored(rows, tmp_path / "scores.tsv")
    with open(tmp_path / "scores.tsv", encoding="utf-8", newline="") as file:
        table = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    assert table == [
        ["id", "sum", "tokens", "mean", "text"],
        ["a b c", "-1.5000", "2", "-0.750000", "one  two three"],
        ["d", "-1.0000", "1", "-1.000000", '"four'],
    ]


@pytest.mark.parametrize(
    ("totals", "tokens", "value"),
    [([-1.0, -3.0], [1, 3], "2.71828"), ([-2.0, -4.0], [4, 2], "2.71828"), ([0.0], [7], "1"),
     ([-709.0], [1], "8.21841e+307"), ([-710.0], [1], "inf"), ([float("-inf")], [1], "inf")],
)  # fmt: skip
def test_perplexity_weighs_tokens_and_not_outputs(totals, tokens, value):
    found = perplexity([Rescored("", *one, "") for one in zip(totals, tokens, strict=True)], "abc")
    assert f"{found.value:g}" == value and f"tokens:{sum(tokens)}|tokenizer:abc" in found.signature


def test_no_outputs_have_no_perplexity():
    refuses(DataError, "there are no outputs to score", perplexity, [], "abc")


@torch.no_grad()
def test_symbols_that_begin_every_search_do_not_count():
    tokenizer = small.tokenizer(["one two", "eins zwei"])
    torch.manual_seed(4)
    output = small.text(tokenizer, "target", prefix=["<de>", "<en>"])
    system = small.system(tokenizer, output=output, start_symbols=2).eval()
    rows = [small.row("a", "one two", "eins zwei"), small.row("b", "one", "zwei")]
    found = sorted(score_rows(system, rows, budget=Budget(rows=2), autocast=nullcontext))
    for row, (_, total, tokens) in zip(rows, found, strict=True):
        texts = [row["source_text"], row["target_text"]]
        source, target = ([*tokenizer.encode(text), tokenizer.eos] for text in texts)
        ids = [tokenizer.id("<de>"), tokenizer.id("<en>"), *target]
        encoding = system.model.encode(small.batch(source=[[tokenizer.id("<en>"), *source]]))
        scores = system.model.log_probabilities(small.padded([ids[:-1]]), encoding)[0]
        expected = sum(float(scores[place, ids[place + 1]]) for place in range(1, len(ids) - 1))
        assert (tokens, total) == (len(target), pytest.approx(expected, abs=1e-4))
