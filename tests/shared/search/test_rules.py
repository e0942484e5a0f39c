"""The longest output, by hand."""

import pytest
import torch

from shared.generator import Encoding
from shared.padded import Padded
from shared.search import Rules


class Limited:
    longest_output = 6


def memory(*lengths):
    return Padded(torch.zeros(len(lengths), max(lengths), 1), torch.tensor(lengths))


def longest(memories, generator=None, **settings):
    return Rules(**settings).longest(Encoding(memories), generator).tolist()


def test_the_longest_memory_of_each_sentence_counts():
    """As with an ensemble, or a speech and a text encoder: each has a length of its own for a sentence."""
    memories = {"speech": memory(2, 9, 5), "text": memory(4, 1, 5)}
    assert longest(memories, maximum_length_ratio=1.0, maximum_length_extra=0) == [4, 9, 5]
    assert longest(memories, maximum_length_ratio=1.5, maximum_length_extra=2) == [8, 15, 9]
    assert longest(dict(reversed(memories.items())), maximum_length_ratio=1.0, maximum_length_extra=0) == [4, 9, 5]


@pytest.mark.parametrize(
    ("settings", "generator", "expected"),
    [
        ({"maximum_length_ratio": 2.0, "maximum_length_extra": 1, "maximum_length": 7}, None, [3, 7]),
        ({"maximum_length_ratio": 0.0, "maximum_length_extra": 1, "minimum_length": 4}, None, [4, 4]),
        ({"maximum_length_ratio": 2.0, "maximum_length_extra": 0}, Limited(), [2, 5]),  # one of six is the start symbol
        ({"maximum_length_ratio": 2.0, "maximum_length_extra": 0, "start_symbols": 2}, Limited(), [2, 4]),
    ],
)
def test_limits_in_any_case(settings, generator, expected):
    assert longest({"source": memory(1, 8)}, generator, **settings) == expected
