"""The end of a command: one line for an error, and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from types import FrameType
from typing import NoReturn

from shared.errors import DataError, UsageError, one_line, shortened
from shared.text.surrogates import find_surrogate, printable


def unwritable(error: UnicodeEncodeError) -> tuple[Exception, int]:
    """Return what to say about text that has no bytes, and the exit code."""
    text = printable(error.object)
    shown = ascii(error.object[error.start])
    if find_surrogate(error.object):
        return DataError(f"{shortened(text, 200)}: is not UTF-8 ({shown}): rename the file or folder"), 1
    encoding = sys.stdout.encoding
    return UsageError(f"the output is written as {encoding}, which has no {shown}: set PYTHONIOENCODING=utf-8"), 2


def complain(error: Exception, code: int) -> NoReturn:
    """Print an error in one line, with the process that it happened in, and end with this exit code."""
    process = f" (process {os.environ['RANK']})" if int(os.environ.get("WORLD_SIZE", "1")) > 1 else ""
    print(f"dragoman: error{process}: {printable(one_line(error))}", file=sys.stderr)
    sys.exit(code)


def as_ctrl_c(process: int) -> Callable[[int, FrameType | None], None]:
    """Return a handler that makes SIGTERM end this process as Ctrl-C does; processes forked from it just end."""

    def handle(number: int, _frame: FrameType | None) -> None:
        if os.getpid() == process:
            raise KeyboardInterrupt
        os._exit(128 + number)

    return handle
