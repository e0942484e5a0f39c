"""Sampling: frequencies against probabilities, truncation against transformers, and independence of everything."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from dragoman.shared.search import Rules, SamplingSearch, Search
from dragoman.shared.search.sampling import gumbel, sample_keys, truncated
from tests.small import refusal, refuses


def run(world, table, sources, ids=None, **settings):
    batch = world.batch(sources)
    if ids is not None:
        batch = type(batch)(batch.fields, ids=ids)
    settings = {"rules": Rules(maximum_length_extra=8)} | settings
    return world.find(SamplingSearch(**settings), table, batch)


def test_truncation_is_that_of_transformers():
    transformers = pytest.importorskip("transformers")
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(50, 30, generator=generator) * 2
    scores[:, 7] = -math.inf
    for k in (1, 5, 29, 40):
        expected = transformers.TopKLogitsWarper(k)(None, scores.clone())
        torch.testing.assert_close(truncated(scores, top_k=k, top_p=1.0), expected)
    for p in (0.01, 0.3, 0.9, 0.999):
        expected = transformers.TopPLogitsWarper(p)(None, scores.clone())
        torch.testing.assert_close(truncated(scores, top_k=0, top_p=p), expected)
        both = transformers.TopPLogitsWarper(p)(None, transformers.TopKLogitsWarper(6)(None, scores.clone()))
        torch.testing.assert_close(truncated(scores, top_k=6, top_p=p), both)
    assert truncated(scores, top_k=0, top_p=1.0) is scores


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_frequencies_are_the_probabilities(world, temperature):
    table, samples = world.table(1), 2500
    two = Rules(minimum_length=0, maximum_length_extra=2)
    [found] = run(world, table, [[3]], samples=samples, temperature=temperature, rules=two)
    for history in ([], [found[0].tokens[0]]):  # the first token, and the second after one first token
        following = [h.tokens[len(history)] for h in found if h.tokens[: len(history)] == history != h.tokens]
        logits = table.log_probabilities([3], [world.start, *history]) / temperature
        logits[world.pad] = -math.inf
        expected = np.exp(logits - np.logaddexp.reduce(logits)) * len(following)
        counts = np.bincount(following, minlength=world.vocabulary)
        assert counts[world.pad] == 0 and len(following) > 100
        real = expected > 0
        square = float(((counts - expected)[real] ** 2 / expected[real]).sum())
        assert square < 30  # chi square with 7 degrees of freedom: 1 in 10,000 is above 29.9


def test_noise_is_gumbel_and_nothing_in_it_is_correlated():
    noise = torch.stack([gumbel(sample_keys(1, ["a", "b", "c"], 4), step, 5000) for step in range(4)]).flatten(0, 2)
    assert noise.mean().item() == pytest.approx(0.5772, abs=0.01)  # Euler's constant
    assert noise.var().item() == pytest.approx(math.pi**2 / 6, abs=0.03)
    correlations = torch.corrcoef(noise) - torch.eye(len(noise))  # between rows, samples and steps
    assert correlations.abs().max() < 0.07
    shifted = torch.corrcoef(torch.cat([noise[:, :-1], noise[:, 1:]]))  # and between neighbours
    assert (shifted - torch.eye(len(shifted))).abs().max() < 0.07
    uniform = torch.exp(-torch.exp(-noise)).double()
    counts = torch.histc(uniform.flatten(), bins=100, min=0, max=1)
    expected = noise.numel() / 100
    assert ((counts - expected) ** 2 / expected).sum() < 150  # 99 degrees of freedom
    assert torch.equal(gumbel(sample_keys(1, ["b"], 1), 2, 5000)[0, 0], noise.view(4, 3, 4, 5000)[2, 1, 0])


def test_a_sample_depends_on_seed_row_and_number_alone(world):
    table, sources = world.table(2, sharpness=0.5), world.sources(2, 8)
    ids = [f"row {i}" for i in range(8)]
    together = run(world, table, sources, ids, samples=3)
    order = [5, 2, 7, 0, 1, 6, 3, 4]
    shuffled = run(world, table, [sources[i] for i in order], [ids[i] for i in order], samples=3)
    for i in range(8):
        assert run(world, table, [sources[i]], [ids[i]], samples=3)[0] == together[i]
        assert shuffled[order.index(i)] == together[i]
        assert run(world, table, [sources[i]], [ids[i]], samples=1)[0] == together[i][:1]
    assert len({tuple(h.tokens) for some in together for h in some}) > 18  # samples of a row differ
    same = run(world, table, [sources[0]] * 2, ["row 0", "row 1"])
    assert same[0] != same[1]  # and so do those of another row
    assert run(world, table, [sources[0]], [ids[0]], seed=2) != run(world, table, [sources[0]], [ids[0]])


def test_scores_are_the_models_own(world):
    table, sources = world.table(5), world.sources(5, 3)
    found = run(world, table, sources, samples=4, temperature=1.7, top_k=3, top_p=0.9)
    for source, some in zip(sources, found, strict=True):
        for h in some:
            history = [world.start, *h.tokens]
            steps = [table.log_probabilities(source, history[: i + 1]) for i in range(len(h.tokens))]
            assert h.score == pytest.approx(np.mean([s[t] for s, t in zip(steps, h.tokens, strict=True)]), abs=1e-5)
            free = steps[:8] if len(steps) == 9 else steps  # the end is forced at the longest length
            assert all(t in np.argsort(-s)[:5] for s, t in zip(free, h.tokens, strict=False))


def test_the_most_probable_token_is_all_that_is_left(world):
    from dragoman.shared.search import GreedySearch

    table, sources = world.table(6), world.sources(6, 4)
    greedy = world.find(GreedySearch(rules=Rules(maximum_length_extra=8)), table, sources)
    for settings in ({"top_k": 1}, {"top_p": 1e-6}, {"temperature": 1e-3}):
        assert [h[0].tokens for h in run(world, table, sources, **settings)] == [h[0].tokens for h in greedy]


def test_refuses_nonsense(world):
    assert isinstance(SamplingSearch(), Search)
    table = world.table(0)
    table.logits = lambda source, history: np.full(9, math.nan if source == [3] else 0.0, dtype=np.float32)
    refuses(ValueError, "position 1 of: id1$", run, world, table, [[1], [3]])


def test_settings_are_kept_and_have_defaults(world):
    search = SamplingSearch()
    assert (search.samples, search.temperature, search.top_k, search.top_p, search.seed) == (1, 1.0, 0, 1.0, 1)
    assert search.rules.minimum == Rules().minimum and search.rules.extra == 250
    rules = Rules(minimum_length=3)
    search = SamplingSearch(samples=2, temperature=1e-6, top_k=1, top_p=1e-9, seed=5, rules=rules)
    assert (search.samples, search.temperature, search.top_k, search.top_p, search.seed) == (2, 1e-6, 1, 1e-9, 5)
    assert search.rules is rules
    complaint = refusal(ValueError, lambda: run(world, world.table(0), [[1]], ids=[]))
    assert complaint == "sampling needs the ids of the rows: its random numbers are made from them"


def test_the_bits_behind_the_numbers_are_those_of_murmur_hash():
    """By hand, in Python's integers: fmix32 of MurmurHash3."""

    def fmix(h):
        h = (h ^ (h >> 16)) * 0x85EBCA6B % 2**32
        h = (h ^ (h >> 13)) * 0xC2B2AE35 % 2**32
        return h ^ (h >> 16)

    key, step = (123456789, -987654321), 3
    at_step = fmix((key[0] + step * 0x3C6EF372) % 2**32)
    expected = []
    for token in range(20):
        bits = fmix((fmix(token * 0x1B873593 % 2**32 ^ at_step) + fmix(key[1] % 2**32 ^ at_step)) % 2**32)
        expected.append(-math.log(-math.log(((bits >> 8) + 0.5) / 2**24)))
    found = gumbel(torch.tensor([key], dtype=torch.int32), step, 20)
    torch.testing.assert_close(found, torch.tensor([expected]), atol=1e-5, rtol=1e-5)


def test_ties_and_bounds_of_truncation():
    scores = torch.tensor([[2.0, 1.0, 1.0, 0.0]])
    assert truncated(scores, top_k=2, top_p=1.0).isfinite().tolist() == [[True, True, True, False]]
    assert truncated(scores, top_k=4, top_p=1.0) is scores
    even = torch.zeros(1, 4)
    for p, left in ((0.25, 1), (0.26, 2), (0.5, 2), (0.75, 3), (0.76, 4)):
        assert int(truncated(even, top_k=0, top_p=p).isfinite().sum()) == left
