"""The two kinds of error that a user can mend; the command turns them into one line and an exit code."""

from __future__ import annotations

import math
from reprlib import repr as shown
from typing import Any


class DataError(ValueError):
    """Something read from outside is wrong: a corpus, a manifest, audio, text, a checkpoint. Exit code 1.

    The message is one line that names the file, the line and the value.
    """


class TooLongError(DataError):
    """A sequence is longer than a model has positions for."""


class UsageError(ValueError):
    """The command line or a recipe is wrong. Exit code 2."""


def check_number(
    name: str,
    value: Any,
    *,
    least: float = -math.inf,
    most: float = math.inf,
    above: float = -math.inf,
    error: type[ValueError] = UsageError,
) -> float:
    """Return a number that a person gave, on a command line or in a file, if it is finite and in its range.

    Args:
        name: of the number, for the message.
        value: what was given; True and False are not numbers, nor is an integer that no float can hold.
        least: the smallest value that is allowed.
        most: the largest.
        above: what it must be greater than.
        error: what is raised.

    Raises:
        ValueError: of the type ``error``, with the name, the value and the range.
    """
    try:
        finite = not isinstance(value, bool) and math.isfinite(value)
    except (TypeError, OverflowError):
        finite = False
    if finite and least <= value <= most and value > above:
        return value
    limits = [("at least", least), ("above", above), ("at most", most)]
    given = [f"{words} {limit:,.15g}" for words, limit in limits if math.isfinite(limit)]
    raise error(f"{name} must be a number{' ' * bool(given)}{' and '.join(given)}, not {shown(value)}")


def plural(count: int, noun: str) -> str:
    """Return "1 file", "2 files"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def one_line(error: BaseException) -> str:
    """Return an error's message without its line breaks; of the system's errors, the file and what is wrong with it."""
    if isinstance(error, OSError) and error.filename is not None and error.filename2 is None and error.strerror:
        return " ".join(f"{error.filename}: {error.strerror}".split())
    return " ".join(str(error).split())


def shortened(text: str, length: int = 60) -> str:
    """Return the beginning of a text, for messages."""
    return text if len(text) <= length else text[: length - 3] + "..."
