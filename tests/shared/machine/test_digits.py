"""Whole numbers written as text."""

from __future__ import annotations

import pytest

from dragoman.shared.machine.digits import whole_number


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0), ("007", 7), ("999999999999999999", 10**18 - 1), ("1" * 19, None), ("9" * 5000, None),
        ("", None), ("-1", None), ("+1", None), ("1_0", None), (" 1", None), ("1.0", None), ("١", None), ("²", None),
    ],
)  # fmt: skip
def test_digits_are_a_number_and_all_else_is_none(text, number):
    assert whole_number(text) == number
