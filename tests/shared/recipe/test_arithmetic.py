"""Arithmetic of references: HyperPyYAML's, up to a size."""

from __future__ import annotations

import pytest
from hyperpyyaml.core import parse_arithmetic
from hypothesis import given
from hypothesis import strategies as st

from dragoman.shared.recipe.arithmetic import BITS, calculated
from tests.small import refusal

NUMBERS = st.integers(-99, 99).map(str) | st.floats(0.01, 99).map(lambda number: f"{number:.3f}")


@given(st.lists(st.tuples(st.sampled_from([" + ", "-", " * ", "/", "//", "%"]), NUMBERS), max_size=5), NUMBERS)
def test_small_results_are_those_of_hyperpyyaml(rest, first):
    text = first + "".join(sign + number for sign, number in rest)
    try:
        expected = parse_arithmetic(text)
    except ZeroDivisionError:
        with pytest.raises(ZeroDivisionError):
            calculated(text)
    else:
        assert calculated(text) == expected or expected != expected


@pytest.mark.parametrize(
    "text",
    ["results/en-de", "2 ** 3", "2 ** 0.5", "'a' + 'b'", "'a' * 3", "None", "-1", "1 +", "True + 1", "(2 + 3) * 4"],
)
def test_what_else_hyperpyyaml_reads(text):
    assert calculated(text) == parse_arithmetic(text)


@pytest.mark.parametrize("text", ["9 ** 9 ** 9", "'a' * 10 ** 9", "10 ** 9 * 'a'", f"{2**BITS} * 2", "1e9 ** 400"])
def test_what_would_be_large_is_refused_before_it_is_calculated(text):
    with pytest.raises(ArithmeticError):
        calculated(text)


def test_a_format_is_not_filled_in():
    assert calculated("'%999999999d' % 1") == "'%999999999d' % 1"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("'a' * 100000", "a" * 100_000),
        ("100000 * 'a'", "a" * 100_000),
        ("'ab' * 50000", "ab" * 50_000),
        ("'a' * (1 - 2)", ""),
        ("2 ** 1023", 2**1023),
        ("2 ** (1 - 3000)", 0.0),
        ("-1 + 2", "-1 + 2"),
        ("0 ** 9999", 0),
        ("1.5 ** 3", 3.375),
        ("7 // 2 % 2", 1),
        ("len", "len"),
        ("1 << 4", "1 << 4"),
        ("1 if 2 else 3", "1 if 2 else 3"),
        ("'a' - 1", "'a' - 1"),
        ("\0", "\0"),
    ],
)
def test_results_up_to_the_bounds(text, found):
    assert calculated(text) == found


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("'a' * 100001", "the result has more than 100,000 characters"),
        ("2 * ('ab' * 50000)", "the result has more than 100,000 characters"),
        ("2 ** 1024", "the result has more than 1024 bits"),
        ("3 ** 1025", "the result has more than 1024 bits"),
        (f"{2**1023} + {2**1023}", "the result has more than 1024 bits"),
        ("1+" * 50_000 + "1", "it is too long"),
    ],
)
def test_what_is_said_of_large_results(text, said):
    assert refusal(OverflowError, calculated, text) == said
    assert calculated(f"{2**1022} + {2**1022}") == 2**1023
