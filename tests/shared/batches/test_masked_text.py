"""Masked text: what is chosen, what it becomes, and what a batch holds of it."""

from collections import Counter

import numpy as np
import pytest
import torch

from dragoman import DataError, Manifest, UsageError
from dragoman.shared.batches.fields import TextField
from dragoman.shared.batches.loader import Loader
from dragoman.shared.batches.masked_text import MaskedText, NextTokens
from dragoman.shared.batches.stream import Budget, Stream
from dragoman.shared.text.piece_counts import read_counts, write_counts
from tests import small
from tests.small import refuses

TEXTS = ["the quick brown fox jumps over the lazy dog", "pack my box with five dozen liquor jugs", "a"]


@pytest.fixture(scope="module")
def plain():
    return TextField(column="source_text", tokenizer=small.tokenizer(TEXTS * 4, ["en"]))


def row(text, id="1"):
    return {"id": id, "source_text": text, "source_language": "en"}


def test_chosen_pieces_are_hidden_and_all_else_is_as_it_was(plain):
    tokens = plain(row(TEXTS[0]), None)
    drawn = MaskedText(field=plain, share=0.3, masked=1.0, replaced=0.0)(row(TEXTS[0]), np.random.default_rng(1))
    places, labels = drawn["places"], drawn["labels"]
    assert len(places) == round(0.3 * (len(tokens) - 2)) and places.tolist() == sorted(set(places.tolist()))
    assert places.min() > 0 and places.max() < len(tokens) - 1  # <en> and </s> stay
    assert drawn[""][places].tolist() == [plain.tokenizer.mask] * len(places)
    restored = drawn[""].clone()
    restored[places] = labels
    assert restored.tolist() == tokens.tolist()


def test_rare_pieces_are_chosen_more_often(plain, tmp_path):
    """One of four pieces: by hand, their weights are 1, 1/2, 1/3 and, without a count, 1."""
    tokenizer = plain.tokenizer
    counts = np.zeros(tokenizer.size, dtype=np.int64)
    pieces = tokenizer.encode("abcd")[-4:]
    counts[pieces[:3]] = (1, 4, 9)
    write_counts(counts, tokenizer, tmp_path / "pieces.tsv")
    lines = [line.split("\t")[1:] for line in (tmp_path / "pieces.tsv").read_text().splitlines()]
    assert lines == [["9", "'c'"], ["4", "'b'"], ["1", "'a'"]]
    assert read_counts(tmp_path / "pieces.tsv", tokenizer).tolist() == counts.tolist()
    field = MaskedText(field=plain, share=0.2, masked=1.0, replaced=0.0, counts=str(tmp_path / "pieces.tsv"))
    text, rng = row("abcd"), np.random.default_rng(3)
    drawn = Counter(int(field(text, rng)["labels"][0]) for _ in range(6000))
    space = [id for id in plain.tokenizer.encode("abcd") if id not in pieces]  # the piece of the text's beginning, once
    weights = dict(zip([*pieces, *space], [1.0, 1 / 2, 1 / 3, 1.0, *[1.0] * len(space)], strict=True))
    total = sum(weights.values())
    assert {id: drawn[id] / 6000 for id in weights} == pytest.approx(
        {id: weight / total for id, weight in weights.items()}, abs=0.02
    )
    even = MaskedText(field=plain, share=0.2, counts=str(tmp_path / "pieces.tsv"), exponent=0.0)
    drawn = Counter(int(even(text, rng)["labels"][0]) for _ in range(6000))
    assert max(drawn.values()) - min(drawn.values()) < 300


def test_counts_that_cannot_be_read_are_named_before_training(plain, tmp_path):
    field = MaskedText(field=plain, counts=str(tmp_path / "pieces.tsv"))
    column = {"source_text": ["a"], "source_language": ["en"]}
    refuses(DataError, r"pieces\.tsv: no table of counts can be read", field.lengths, column)
    first = plain.tokenizer.encode("b")[-1]
    for line in ("7", f"{first}\tone\t'b'", f"{first}\t3\t'c'", f"{plain.tokenizer.size}\t3\t'b'"):
        (tmp_path / "pieces.tsv").write_text(f"{first}\t2\t'b'\n{line}\n")
        refuses(DataError, r"pieces\.tsv, line 2: not a piece of the tokenizer and its count", field.lengths, column)


def test_shares_are_those_that_were_asked_for(plain):
    field = MaskedText(field=plain, share=0.15)
    rng = np.random.default_rng(1)
    kinds, places = Counter(), Counter()
    symbols = {plain.tokenizer.id(symbol) for symbol in plain.tokenizer.symbols}
    draws = 3000
    for _ in range(draws):
        drawn = field(row(TEXTS[0]), rng)
        for place, label in zip(drawn["places"].tolist(), drawn["labels"].tolist(), strict=True):
            found = int(drawn[""][place])
            places[place] += 1
            kinds["mask" if found == plain.tokenizer.mask else "same" if found == label else "other"] += 1
            assert found == plain.tokenizer.mask or found not in symbols
    total = sum(kinds.values())
    pieces = len(plain(row(TEXTS[0]), None)) - 2
    assert total == draws * round(0.15 * pieces)
    same = 0.1 + 0.1 / (plain.tokenizer.size - len(symbols))  # a drawn piece may be the one that stood there
    for kind, share in (("mask", 0.8), ("same", same), ("other", 0.2 - same)):
        assert abs(kinds[kind] / total - share) < 4 * (share * (1 - share) / total) ** 0.5, kind
    expected = total / pieces
    assert sum((places[n] - expected) ** 2 / expected for n in range(1, pieces + 1)) < 90  # chi-square, 42 degrees


def test_a_short_text_has_one_masked_piece_and_an_empty_one_none(plain):
    field = MaskedText(field=plain, share=0.15)
    [place] = field(row("a"), np.random.default_rng(1))["places"].tolist()
    assert place in (1, 2)
    assert len(field(row(""), np.random.default_rng(1))["places"]) == 0


@pytest.mark.parametrize("workers", [0, 2])
def test_a_batch_holds_tokens_places_and_labels(plain, workers, tmp_path):
    rows = [row(text, str(number)) for number, text in enumerate(TEXTS)]
    Manifest.write(tmp_path / "train.arrow", rows)
    field = MaskedText(field=plain)
    stream = Stream(
        name="text", manifests=[str(tmp_path / "train.arrow")], fields={"source": field}, budget=Budget(rows=3)
    )
    [batch] = Loader(streams=[stream], seed=1, workers=workers).epoch(0)
    assert sorted(batch.fields) == ["source", "source.labels", "source.places"]
    clean = {id: plain(rows[int(id)], None) for id in batch.ids}
    for id, tokens, places, labels in zip(
        batch.ids, batch["source"].rows(), batch["source.places"].rows(), batch["source.labels"].rows(), strict=True
    ):
        assert clean[id][places].tolist() == labels.tolist()
        assert len(tokens) == len(clean[id])


def test_validation_hides_the_same_tokens_each_time(plain):
    rows = [row(text, str(number)) for number, text in enumerate(TEXTS)]
    found = [next(Loader.evaluation(rows, {"source": MaskedText(field=plain)}, Budget(rows=3)))[0] for _ in range(2)]
    for name in found[0].fields:
        assert torch.equal(found[0][name].values, found[1][name].values)


def test_defaults_and_shares_of_one_whole(plain):
    assert MaskedText(field=plain).counts is None and MaskedText(field=plain).load() is None
    MaskedText(field=plain, masked=0.9, replaced=0.1, exponent=0.0)
    said = "^masked and replaced are shares of one whole, not 0.8 and 0.3$"
    refuses(UsageError, said, MaskedText, field=plain, masked=0.8, replaced=0.3)


def test_each_token_is_asked_for_what_follows_it(plain):
    ids = plain(row(TEXTS[0]), None).tolist()
    asked = NextTokens(field=plain)(row(TEXTS[0]), None)
    assert asked[""].tolist() == ids and asked["labels"].tolist() == ids[1:]
    assert asked["places"].tolist() == [*range(len(ids) - 1)]
