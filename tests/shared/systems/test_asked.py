"""A call's numbers make the system's usual search; what is no keyword or out of range is said in Python's words."""

import numpy as np
import pytest

from dragoman import BeamSearch, CtcPrefixSearch, GreedySearch, Rules, UsageError
from dragoman.shared.systems.asked import asked_search
from tests.small import refuses


def call(inputs, *, search=None, batch_size=16):
    """Stand for the call of a system."""


def test_without_numbers_a_given_search_or_the_usual_one():
    usual, given = BeamSearch(), GreedySearch()
    assert asked_search(usual, None, {}, call) is usual
    assert asked_search(usual, given, {}, call) is given


def test_numbers_change_the_usual_search_and_nothing_else_of_it():
    rules = Rules(maximum_length_extra=7)
    made = asked_search(BeamSearch(beam=4, rules=rules), None, {"n_best": 3, "length_penalty": 0}, call)
    assert (made.beam, made.n_best, made.length_penalty, made.rules) == (4, 3, 0.0, rules)
    made = asked_search(CtcPrefixSearch(), None, {"beam": np.int64(3), "length_bonus": np.float32(0.5)}, call)
    assert (type(made), made.beam, made.length_bonus) == (CtcPrefixSearch, 3, 0.5)
    assert type(made.beam) is int and type(made.length_bonus) is float


@pytest.mark.parametrize(
    ("numbers", "match"),
    [
        ({"beams": 3}, r"'beams' \(did you mean 'beam'\?\): there are beam, length_penalty, n_best, search, batch"),
        ({"num_beams": 3}, "did you mean 'beam'"),
        ({"n": 3}, "did you mean 'n_best'"),
        ({"num_return_sequences": 3}, "did you mean 'n_best'"),
        ({"batchsize": 3}, "did you mean 'batch_size'"),
        ({"xyz": 3}, "called 'xyz': there are"),
        ({"src_lang": "en"}, "called 'src_lang': there are"),  # this call has no languages
        ({"rules": 3}, "called 'rules'"),
        ({"beam": 2.5}, "beam must be a whole number, not 2.5"),
        ({"beam": "3"}, "beam must be a number, not '3'"),
        ({"beam": True}, "beam must be a number"),
        ({"n_best": 6}, r"n_best must be at most beam \(5\), not 6"),
        ({"length_penalty": float("inf")}, "length_penalty must be a number"),
    ],
)
def test_what_is_no_number_of_the_search_is_refused(numbers, match):
    refuses(UsageError, match, asked_search, BeamSearch(), None, numbers, call)


def test_numbers_and_a_search_do_not_go_together():
    both = {"beam": 3, "n_best": 2}
    said = r"beam and n_best: .* search=GreedySearch\(...\)"
    refuses(UsageError, said, asked_search, BeamSearch(), GreedySearch(), both, call)
    refuses(UsageError, "length_penalty", asked_search, CtcPrefixSearch(), None, {"length_penalty": 1.0}, call)
