from __future__ import annotations

import pytest

from dragoman.shared.errors import DataError, UsageError, check_number, one_line, plural, shortened
from tests.small import refuses


@pytest.mark.parametrize(
    "value",
    [float("nan"), float("inf"), float("-inf"), 10**309, True, None, "3", [3]],
    ids=lambda value: str(value)[:5],
)
def test_what_is_no_finite_number_is_refused(value):
    refuses(UsageError, "^chunk must be a number, not ", check_number, "chunk", value)


@pytest.mark.parametrize(
    "value, limits, words",
    [
        (-0.1, {"least": 0}, "x must be a number at least 0, not -0.1"),
        (0, {"above": 0, "most": 3600}, "x must be a number above 0 and at most 3,600, not 0"),
        (3601, {"above": 0, "most": 3600}, "x must be a number above 0 and at most 3,600, not 3601"),
    ],
)
def test_the_message_names_the_range(value, limits, words):
    with pytest.raises(DataError) as caught:
        check_number("x", value, error=DataError, **limits)
    assert str(caught.value) == words


@pytest.mark.parametrize(
    "value, limits", [(0, {"least": 0}), (3600, {"most": 3600}), (1e-9, {"above": 0}), (10**300, {})]
)
def test_a_number_in_its_range_is_returned(value, limits):
    assert check_number("x", value, **limits) is value


def test_words_of_messages():
    assert [plural(count, "file") for count in (0, 1, 2, 1234)] == ["0 files", "1 file", "2 files", "1,234 files"]
    assert shortened("x" * 60) == "x" * 60 and shortened("x" * 61) == "x" * 57 + "..."
    assert shortened("abcdef", 5) == "ab..." and shortened("abcde", 5) == "abcde"


def test_errors_on_one_line():
    assert one_line(ValueError("a\n  b\tc ")) == "a b c"
    assert one_line(OSError(2, "No such file", "a  b")) == "a b: No such file"
    assert one_line(OSError(2, "No such file", "a", None, "b")) == "[Errno 2] No such file: 'a' -> 'b'"
    assert one_line(OSError("plain\ntext")) == "plain text"
    assert one_line(OSError(2, "No such file")) == "[Errno 2] No such file"


def test_ranges_are_named_in_full():
    with pytest.raises(UsageError) as error:
        check_number("x", 5, least=1, above=0, most=4)
    assert str(error.value) == "x must be a number at least 1 and above 0 and at most 4, not 5"
    refuses(UsageError, "^x must be a number above 0, not 0$", check_number, "x", 0, above=0)
    assert check_number("x", 1.5, least=1.5, most=1.5) == 1.5
