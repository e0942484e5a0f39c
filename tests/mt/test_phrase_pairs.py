"""Phrase pairs against the definition, applied to every pair of spans; and those of a textbook's sentence pair."""

import itertools

import numpy as np
import pytest

from dragoman.mt.phrases import phrase_pairs


def by_definition(links, m, n, longest):
    """Go through all spans of both sentences."""
    found = []
    for a, b in itertools.combinations(range(m + 1), 2):
        for c, d in itertools.combinations(range(n + 1), 2):
            inside = [(a <= s < b, c <= t < d) for s, t in links]
            consistent = all(source == target for source, target in inside) and (True, True) in inside
            if consistent and b - a <= longest and d - c <= longest:
                found.append((a, b, c, d))
    return found


@pytest.mark.parametrize("longest", [1, 2, 4, 9])
def test_against_all_pairs_of_spans(longest):
    rng = np.random.default_rng(longest)
    several = 0
    for _ in range(300):
        m, n = rng.integers(1, 8, size=2).tolist()
        cells = [*itertools.product(range(m), range(n))]
        links = [cell for cell in cells if rng.random() < rng.choice([0.05, 0.15, 0.3])]
        found = phrase_pairs(links, m, n, longest)
        assert found == by_definition(links, m, n, longest)
        several += len(found) > len({pair[:2] for pair in found})
    assert several > 10 or longest == 1  # phrases with several counterparts occurred


def test_a_sentence_pair_by_hand():
    """ "michael geht davon aus": "michael assumes", where "davon" has no link."""
    links = [(0, 0), (1, 1), (3, 1)]
    assert phrase_pairs(links, 4, 2, 4) == [(0, 1, 0, 1), (0, 4, 0, 2), (1, 4, 1, 2)]
    assert phrase_pairs(links, 4, 2, 3) == [(0, 1, 0, 1), (1, 4, 1, 2)]
    assert phrase_pairs([(0, 1)], 1, 3, 2) == [(0, 1, 0, 2), (0, 1, 1, 2), (0, 1, 1, 3)]
    assert phrase_pairs([], 3, 3, 4) == phrase_pairs([], 0, 0, 4) == []
