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
