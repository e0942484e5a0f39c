"""The longest output, by hand."""

import re

import pytest
import torch

from dragoman import Recipe, UsageError
from dragoman.shared.generator import Encoding
from dragoman.shared.padded import Padded
from dragoman.shared.search import Rules
from tests.small import refusal, refuses


class Limited:
    longest_output = 6


def memory(*lengths):
    return Padded(torch.zeros(len(lengths), max(lengths), 1), torch.tensor(lengths))


def longest(memories, generator=None, **settings):
    rules, encoding = Rules(**settings), Encoding(memories)
    return rules.longest(encoding, generator, torch.full((len(encoding),), rules.start_symbols)).tolist()


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


@pytest.mark.parametrize("start", [1, 2])
def test_an_output_that_has_no_positions_is_refused(start):
    """Of six, the start takes some."""
    settings, room = {"start_symbols": start}, 6 - start
    assert longest({"source": memory(9)}, Limited(), minimum_length=room, **settings) == [room]
    said = f"minimum_length {room + 1} is above {room}, the most tokens that the model can write"
    refuses(UsageError, said, longest, {"source": memory(9)}, Limited(), minimum_length=room + 1, **settings)


def test_rules_have_defaults_and_may_not_contradict_each_other():
    assert refusal(ValueError, Rules, minimum_length=5, maximum_length=4) == (
        "minimum_length 5 is above maximum_length 4"
    )
    Rules(minimum_length=4, maximum_length=4)
    rules = Rules()
    assert (rules.ratio, rules.extra, rules.maximum, rules.minimum) == (0.0, 250, 1000, 1)
    assert (rules.start_symbols, rules.bans, rules.forced_free, rules.whole_prefix) == (1, [], False, False)


@pytest.mark.parametrize("name", ["own/mt", "own/mt_small", "text/mt", "mustc/mt", "covost2/mt", "iwslt14/mt"])
def test_outputs_may_be_as_long_as_what_training_keeps(name):
    recipe = Recipe.load(name, {"data_folder": "x", "source_language": "en", "target_language": "de"})
    kept = int(re.search(r"^maximum_tokens: (\d+)", recipe.text(), re.MULTILINE)[1])
    [arguments] = recipe.value("rules").values()
    assert arguments["maximum_length_extra"] >= kept > 0 and Rules().extra >= 250


def test_joined_rules_have_more_start_symbols_and_more_bans():
    first, second = object(), object()
    rules = Rules(start_symbols=2, bans=[first], minimum_length=3, forced_free=True)
    more = rules.joined(start_symbols=3, bans=[second])
    assert (more.start_symbols, more.bans, more.minimum, more.forced_free) == (3, [first, second], 3, True)
    assert rules.bans == [first] and rules.joined(start_symbols=1, bans=[]).start_symbols == 2


def test_lengths_that_no_whole_number_holds():
    assert longest({"a": memory(1, 8)}, maximum_length_ratio=1e300, maximum_length=9) == [9, 9]
    assert longest({"a": memory(1, 8)}, maximum_length_extra=2**70, maximum_length=9) == [9, 9]
    assert longest({"a": memory(3, 5)}, maximum_length_ratio=0.5, maximum_length_extra=0) == [1, 2]  # cut, not rounded


def test_without_memories_what_is_allowed_in_any_case_counts():
    encoding = Encoding({}, {"logits": memory(3, 4, 5)})
    found = Rules(maximum_length_ratio=2.0, maximum_length_extra=6).longest(encoding, None, torch.ones(3))
    assert found.tolist() == [6, 6, 6] and found.dtype == torch.int64
