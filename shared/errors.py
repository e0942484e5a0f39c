"""The two kinds of error that a user can mend; the command turns them into one line and an exit code."""


class DataError(ValueError):
    """Something read from outside is wrong: a corpus, a manifest, audio, text, a checkpoint. Exit code 1.

    The message is one line that names the file, the line and the value.
    """


class TooLongError(DataError):
    """A sequence is longer than a model has positions for."""


class UsageError(ValueError):
    """The command line or a recipe is wrong. Exit code 2."""
