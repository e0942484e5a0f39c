"""Filling masks against a loop over single sentences, with probabilities that are made by hand."""

import math

import pytest
import torch

from dragoman import BeamSearch, DataError, UsageError
from dragoman.shared.batch import Batch
from dragoman.shared.generator import Encoding
from dragoman.shared.padded import Padded
from dragoman.shared.search.filling import FillingSearch
from dragoman.shared.search.search import Search
from dragoman.shared.search.search_bytes import search_bytes
from tests import small
from tests.small import refuses

PAD, START, END, MASK, VOCABULARY, LONGEST = 0, 1, 2, 3, 11, 6


class Table:
    """Scores that depend on the sentence, the place, and the tokens that stand there: any change of those is felt."""

    mask = MASK

    def __init__(self):
        self.passes = []

    def encode(self, batch):
        return Encoding({}, {"keys": batch["source"].values[:, 0]})

    def length_scores(self, encoding):
        scores = torch.stack([self.length_row(int(key)) for key in encoding.extras["keys"]])
        return scores.log_softmax(-1)

    def length_row(self, key):
        scores = torch.randn(LONGEST + 1, generator=torch.Generator().manual_seed(key))
        return scores.index_fill(0, torch.tensor([0]), -math.inf)

    def row(self, key, tokens):
        seed = key
        for token in tokens:
            seed = (31 * seed + token) % 1_000_003
        return 2 * torch.randn(len(tokens), VOCABULARY, generator=torch.Generator().manual_seed(seed))

    def fill(self, tokens, encoding):
        self.passes.append(tokens)
        rows = [self.row(int(k), row.tolist()) for k, row in zip(encoding.extras["keys"], tokens.rows(), strict=True)]
        return Padded.from_sequences(rows, padding=7.0).values


def by_loop(key, prefix, iterations, tries):
    """Return the hypotheses of one sentence, tokens and scores, the best first."""
    table, found = Table(), []
    scores = table.length_row(key).tolist()
    for n in sorted(range(1, LONGEST + 1), key=lambda n: -scores[n])[:tries]:
        text, kept = [MASK] * n, [0.0] * n
        for t in range(iterations):
            again = (
                range(n)
                if t == 0
                else sorted(range(n), key=lambda i: kept[i])[: max(1, n * (iterations - t) // iterations)]
            )
            shown = [MASK if i in again else token for i, token in enumerate(text)]
            rows = table.row(key, [*prefix, *shown, END])[len(prefix) :]
            for i in again:
                probabilities = [math.exp(x) for x in rows[i].tolist()]
                allowed = [token for token in range(VOCABULARY) if token not in (PAD, END, MASK)]
                text[i] = max(allowed, key=lambda token: probabilities[token])
                kept[i] = math.log(probabilities[text[i]] / sum(probabilities))
        found.append(([*text, END], sum(kept) / n))
    return sorted(found, key=lambda one: -one[1])


def searched(keys, prefixes, **options):
    batch = small.batch(source=[[key] for key in keys])
    prefix = small.padded(prefixes)
    return FillingSearch(**options).search(Table(), batch, prefix=prefix, end=END, padding=PAD)


@pytest.mark.parametrize("iterations", [1, 2, 3, 10])
@pytest.mark.parametrize("tries", [1, 3, 6])
def test_a_batch_has_the_outputs_of_a_loop_over_its_sentences(iterations, tries):
    keys, prefixes = [4, 9, 25], [[START], [START, 5], [START]]
    found = searched(keys, prefixes, iterations=iterations, beam=tries, n_best=tries)
    for own, key, prefix in zip(found, keys, prefixes, strict=True):
        expected = by_loop(key, prefix, iterations, tries)
        assert [one.tokens for one in own] == [tokens for tokens, _ in expected]
        assert [one.score for one in own] == pytest.approx([score for _, score in expected], abs=1e-5)


def test_the_best_alone_and_no_more_lengths_than_there_are():
    many = searched([4], [[START]], beam=50, n_best=50)[0]
    assert len(many) == LONGEST == len({len(one.tokens) for one in many})
    assert searched([4], [[START]], beam=50)[0] == many[:1]


def test_one_pass_is_the_most_probable_token_of_each_place():
    """The scores of all masks at once, by hand: place i writes i + 4, and the second its second best, not the end."""
    table = Table()
    table.length_row = lambda key: torch.tensor([-math.inf, 0.0, 0.0, 9.0, 0.0])
    probabilities = torch.full((5, VOCABULARY), 0.01)
    probabilities[1, 4], probabilities[3, 6] = 0.9, 0.9
    probabilities[2, END], probabilities[2, 5] = 0.6, 0.31
    table.row = lambda key, tokens: probabilities.log()
    batch = small.batch(source=[[1]])
    found = FillingSearch(iterations=1, beam=1).search(
        table, batch, prefix=small.padded([[START]]), end=END, padding=PAD
    )
    assert found[0][0].tokens == [4, 5, 6, END]
    assert found[0][0].score == pytest.approx((math.log(0.9) + math.log(0.31) + math.log(0.9)) / 3, abs=1e-5)
    assert [one.values.tolist() for one in table.passes] == [[[START, MASK, MASK, MASK, END]]]


def test_fewer_tokens_are_written_again_in_each_pass_and_the_others_are_shown():
    table = Table()
    table.length_row = lambda key: torch.tensor([-math.inf, 0.0, 0.0, 0.0, 9.0])
    FillingSearch(iterations=4, beam=1).search(
        table, small.batch(source=[[3]]), prefix=small.padded([[START]]), end=END, padding=PAD
    )
    assert [int((one.values == MASK).sum()) for one in table.passes] == [4, 3, 2, 1]
    first = Table().row(3, [START, MASK, MASK, MASK, MASK, END])[1:5].log_softmax(-1)
    first[:, [PAD, END, MASK]] = -math.inf
    kept = int(first.amax(-1).argmax())
    assert int(table.passes[1].values[0, 1 + kept]) == int(first[kept].argmax())


def test_it_is_a_search_and_says_how_much_memory_it_needs():
    assert isinstance(FillingSearch(), Search)
    assert search_bytes(FillingSearch(beam=3), sentences=2, vocabulary=10, positions=7) == 2 * 3 * 7 * 10 * 8


def test_refusals():
    table = Table()
    table.fill = lambda tokens, encoding: torch.full((*tokens.values.shape, VOCABULARY), math.nan)
    batch = Batch({"source": small.padded([[1]])}, ids=["a"])
    given = {"prefix": small.padded([[START]]), "end": END, "padding": PAD}
    refuses(DataError, "log-probabilities are not numbers for: a", FillingSearch().search, table, batch, **given)
    refuses(UsageError, "a Translator fills no masks", FillingSearch().search, small.translator(9), batch, **given)
    refuses(ValueError, "n_best must be at most beam", FillingSearch, beam=2, n_best=3)
    refuses(ValueError, "iterations", FillingSearch, iterations=0)
    assert not isinstance(BeamSearch(), FillingSearch)
