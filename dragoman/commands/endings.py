"""A command's own words: one line for an error, with an exit code, and one for each warning."""

from __future__ import annotations

import errno
import logging
import os
import sys
from collections.abc import Callable
from types import FrameType
from typing import NoReturn

from dragoman.shared.errors import DataError, UsageError, one_line, shortened
from dragoman.shared.machine.stopping import noticed
from dragoman.shared.text.surrogates import find_surrogate, printable

#: What a disk says that is full or broken.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EIO)


def unwritable(error: UnicodeEncodeError) -> tuple[Exception, int]:
    """Return what to say about text that has no bytes, and the exit code."""
    text = printable(error.object)
    shown = ascii(error.object[error.start])
    if find_surrogate(error.object):
        return DataError(f"{shortened(text, 200)}: is not UTF-8 ({shown}): rename the file or folder"), 1
    encoding = sys.stdout.encoding
    return UsageError(f"the output is written as {encoding}, which has no {shown}: set PYTHONIOENCODING=utf-8"), 2


def no_memory(error: Exception) -> Exception:
    """Return what to say where memory was not enough.

    Raises:
        Exception: the error itself, if it means something else.
    """
    if not isinstance(error, MemoryError):
        if "torch" not in sys.modules:
            raise error
        from dragoman.shared.machine.settings import is_out_of_memory  # which needs torch

        if not is_out_of_memory(error):
            raise error
    said = shortened(one_line(error), 200)
    return DataError(f"memory was not enough{f' ({said})' * bool(said)}: shorter inputs or smaller batches need less")


def finish() -> None:
    """Write what standard output still holds; end with an error if it cannot be written."""
    try:
        sys.stdout.flush()
    except OSError as error:
        if error.errno in _FULL:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python complains of it once more
            complain(error, 1)


def complain(error: Exception, code: int) -> NoReturn:
    """Print an error in one line, with the process that it happened in, and end with this exit code."""
    if isinstance(error, OSError) and error.filename is None and error.errno in _FULL:  # files have names there
        error = DataError(f"standard output: {os.strerror(error.errno)}")
    process = f" (process {os.environ['RANK']})" if int(os.environ.get("WORLD_SIZE", "1")) > 1 else ""
    print(f"dragoman: error{process}: {printable(one_line(error))}", file=sys.stderr)
    sys.exit(code)


def warn(message: str) -> None:
    """Print a warning in one line to standard error; names of files may have line ends."""
    print(f"dragoman: warning: {printable(' '.join(message.split()))}", file=sys.stderr)


class Warnings(logging.Handler):
    """Prints the warnings of what a command uses, where it does not show the whole log."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)

    def emit(self, record: logging.LogRecord) -> None:
        """Print one."""
        warn(record.getMessage())


def as_ctrl_c(process: int) -> Callable[[int, FrameType | None], None]:
    """Return a handler that makes a signal end this process as Ctrl-C does; processes forked from it just end."""

    def handle(number: int, _frame: FrameType | None) -> None:
        noticed.set()
        if os.getpid() == process:
            raise KeyboardInterrupt
        os._exit(128 + number)

    return handle
