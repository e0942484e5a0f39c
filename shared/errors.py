"""The two kinds of error that a user can mend; the command turns them into one line and an exit code."""

from __future__ import annotations


class DataError(ValueError):
    """Something read from outside is wrong: a corpus, a manifest, audio, text, a checkpoint. Exit code 1.

    The message is one line that names the file, the line and the value.
    """


class TooLongError(DataError):
    """A sequence is longer than a model has positions for."""


class UsageError(ValueError):
    """The command line or a recipe is wrong. Exit code 2."""


def check_share(name: str, value: float) -> float:
    """Return a value that an argument has, or raise a UsageError that names it if it is not between 0 and 1."""
    if not 0 <= value <= 1:
        raise UsageError(f"{name} must be between 0 and 1, not {value}")
    return value


def one_line(error: Exception) -> str:
    """Return an error's message without its line breaks; of the system's errors, the file and what is wrong with it."""
    if isinstance(error, OSError) and error.filename is not None and error.filename2 is None and error.strerror:
        return " ".join(f"{error.filename}: {error.strerror}".split())
    return " ".join(str(error).split())


def shortened(text: str, length: int = 60) -> str:
    """Return the beginning of a text, for messages."""
    return text if len(text) <= length else text[: length - 3] + "..."
