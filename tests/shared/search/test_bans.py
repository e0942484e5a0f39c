"""Bans: against a loop in fairseq's manner, against transformers, and in every search."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dragoman.shared.batch import Batch
from dragoman.shared.errors import UsageError
from dragoman.shared.padded import Padded
from dragoman.shared.search import (
    AllowedTokens,
    BeamSearch,
    ForbiddenFirst,
    ForbiddenTokens,
    GreedySearch,
    RepeatedNgrams,
    Rules,
    SamplingSearch,
)
from dragoman.shared.search.bans import Ban, Opening
from dragoman.shared.search.search import ruled
from tests.small import refuses

SEARCHES = [
    lambda rules: GreedySearch(rules=rules),
    lambda rules: BeamSearch(beam=3, n_best=3, rules=rules),
    lambda rules: SamplingSearch(samples=3, rules=rules),
]


def opening(start, beams):
    return Opening(Batch({"source": Padded.from_sequences(list(start))}), start, beams, end=2, padding=0)


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_what_repeats_an_ngram_is_what_a_loop_and_transformers_say(size):
    transformers = pytest.importorskip("transformers")
    rng = np.random.default_rng(size)
    sentences, beams, vocabulary = 3, 2, 6
    start = torch.from_numpy(rng.integers(3, vocabulary, (sentences, 1)))
    ban = RepeatedNgrams(size=size).begin(opening(start, beams))
    rows = [[int(start[i])] for i in range(sentences) for _ in range(beams)]
    banned_ever = 0
    for _ in range(12):
        scores = torch.from_numpy(rng.normal(size=(sentences * beams, vocabulary))).float()
        ours = scores.clone().view(sentences, beams, vocabulary)
        ours[..., 0] = -torch.inf
        ban.apply(ours)
        theirs = transformers.NoRepeatNGramLogitsProcessor(size)(torch.tensor(rows), scores.clone())
        for row, found, expected in zip(rows, ours.flatten(0, 1), theirs, strict=True):
            ngrams = [row[i : i + size] for i in range(len(row) - size + 1)]
            banned = {n[-1] for n in ngrams if n[:-1] == row[len(row) - size + 1 :]}
            assert {v for v in range(1, vocabulary) if found[v] == -torch.inf} == banned
            assert found[1:].tolist() == expected[1:].tolist()
            banned_ever += len(banned)
        index = torch.from_numpy(rng.integers(0, beams, (sentences, beams))) + beams * torch.arange(sentences)[:, None]
        tokens = torch.from_numpy(rng.integers(3, vocabulary, (sentences, beams)))
        ban.advance(index.flatten(), tokens)
        rows = [[*rows[i], token] for i, token in zip(index.flatten().tolist(), tokens.flatten().tolist(), strict=True)]
    assert banned_ever


@pytest.mark.parametrize("make", SEARCHES)
def test_no_output_repeats_an_ngram_but_what_is_forced_may(world, make):
    table, sources = world.table(3, sharpness=0.7), world.sources(3, 6)
    prefixes = [[world.start, 5, 5, 5, 5]] + [[world.start]] * 5

    def run(bans):
        search = make(Rules(minimum_length=12, maximum_length_extra=14, bans=bans))
        return world.find(search, table, sources, prefixes)

    def twice(tokens):
        pairs = list(zip(tokens, tokens[1:], strict=False))
        return len(pairs) - len(set(pairs))

    assert sum(twice(h.tokens) for some in run([]) for h in some) > 5
    first, *others = run([RepeatedNgrams(size=2)])
    assert all(h.tokens[:4] == [5, 5, 5, 5] and twice(h.tokens) == 2 for h in first)
    assert all(twice(h.tokens) == 0 and len(h.tokens) >= 13 for some in others for h in some)


@pytest.mark.parametrize("make", SEARCHES)
def test_masks(world, make):
    table, sources = world.table(4), world.sources(4, 8)
    codes = ["de", "fr"] * 4
    batch = world.batch(sources)
    batch = Batch(batch.fields, {"target": codes}, batch.ids)

    def run(*bans):
        found = world.find(make(Rules(maximum_length_extra=6, bans=list(bans))), table, batch)
        return [[h.tokens[:-1] for h in some] for some in found]

    def used(lists):
        return {token for some in lists for tokens in some for token in tokens}

    assert {3, 7} < used(run())
    assert used(run(AllowedTokens(tokens=[3, 4, 7]))) == {3, 4, 7}
    assert not {3, 7} & used(run(ForbiddenTokens(tokens=[3, 7, world.end])))
    assert used(run(AllowedTokens(tokens=[3, 4, 7]), ForbiddenTokens(tokens=[4]))) == {3, 7}
    by_language = run(AllowedTokens(tokens={"de": [3, 4, 5], "fr": [5, 6, 7]}))
    assert used(by_language[::2]) <= {3, 4, 5} and used(by_language[1::2]) <= {5, 6, 7}
    assert len(used(by_language)) == 5


@pytest.mark.parametrize("make", SEARCHES)
def test_what_is_never_first_may_follow(world, make):
    table, batch = world.table(4), world.batch(world.sources(4, 8))

    def run(*bans, forced=()):
        search = make(Rules(maximum_length_extra=6, bans=list(bans)))
        prefix = world.prefix([[world.start, *forced]] * 8)
        found = search.search(table, batch, prefix=prefix, end=world.end, padding=world.pad)
        return [h.tokens for some in found for h in some]

    free = run()
    banned = sorted({tokens[0] for tokens in free} - {world.end})[:3]
    found = run(ForbiddenFirst(tokens=banned))
    assert not {*banned} & {tokens[0] for tokens in found}
    assert {*banned} <= {token for tokens in found for token in tokens[1:]}
    # A row that did not begin with one is as it was; a forced token is the first, whatever is banned.
    assert isinstance(make(Rules()), BeamSearch) or all(
        one == other for one, other in zip(free, found, strict=True) if one[0] not in banned
    )
    assert run(ForbiddenFirst(tokens=banned), forced=banned[:1]) == run(forced=banned[:1])


@pytest.mark.parametrize("make", SEARCHES)
def test_what_a_system_demands_is_added_to_a_search(world, make):
    table, batch = world.table(4), world.batch(world.sources(4, 5))
    search = make(Rules(maximum_length_extra=5, bans=[ForbiddenTokens(tokens=[3])]))
    assert ruled(search, start_symbols=1, bans=[]) is search
    demanding = ruled(search, start_symbols=2, bans=[ForbiddenTokens(tokens=[5])])
    assert type(demanding) is type(search) and search.rules.start_symbols == 1 and len(search.rules.bans) == 1

    def run(one):
        prefix = world.prefix([[world.start, 8]] * 5)
        found = one.search(table, batch, prefix=prefix, end=world.end, padding=world.pad)
        return [[(h.tokens, h.score) for h in some] for some in found]

    rules = Rules(
        maximum_length_extra=5, start_symbols=2, bans=[ForbiddenTokens(tokens=[3]), ForbiddenTokens(tokens=[5])]
    )
    assert run(demanding) == run(make(rules)) != run(search)

    class Other:
        def search(self, *given, **named):
            raise AssertionError

    refuses(UsageError, "Other has no rules", ruled, Other(), start_symbols=2, bans=[])


def test_masks_that_do_not_fit_are_refused(world):
    def run(ban):
        assert isinstance(ban, Ban)
        batch = Batch(world.batch([[1]]).fields, {"target": ["de"]}, ["a"])
        search = GreedySearch(rules=Rules(bans=[ban]))
        return search.search(world.table(0), batch, prefix=world.prefix([[1]]), end=world.end, padding=world.pad)

    refuses(ValueError, "'de', only for fr", lambda: run(AllowedTokens(tokens={"fr": [3]})))
    refuses(ValueError, "by source language", lambda: run(AllowedTokens(tokens={"fr": [3]}, side="source")))
    refuses(ValueError, "token 9, outside the vocabulary of 9", lambda: run(ForbiddenTokens(tokens=[3, 9])))
    for wrong in (
        lambda: AllowedTokens(tokens=[]),
        lambda: ForbiddenTokens(tokens=[-1]),
        lambda: RepeatedNgrams(size=0),
    ):
        refuses(ValueError, "at least one|cannot be -1|at least 1, not 0", wrong)


def test_rules_without_bans_keep_no_history(world):
    from dragoman.shared.search.constraints import Constraints

    table, batch = world.table(0), world.batch([[1], [2]])
    prefix = world.prefix([[1], [1]])
    made = Constraints(Rules(), table, table.encode(batch), batch, prefix=prefix, beams=2, end=2, padding=0)
    assert made._bans == []
