"""Messages of the command line in the words of a Python call: ``--restart fit`` is ``restart=["fit"]`` there."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from dragoman.shared.errors import DataError, UsageError

#: An option with its value, where a message shows one that cannot be the next word of its sentence.
_OPTION = re.compile(
    r"(?<![\w-])--(?P<key>[A-Za-z](?:[\w.-]*\w)?)"
    r"(?:[ =](?P<value>null|true|false|-?\d+(?:[\w.]*\w)?|\[[^]]*\]|\"[^\"]*\"|'[^']*'|[A-Z]+)(?!\w))?"
)
_VALUES = {"null": "None", "true": "True", "false": "False"}

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def in_python(message: str) -> str:
    """Return a message with keyword arguments in the place of options."""
    # The call that was made is known: what it needs besides is said alone.
    message = re.sub(r"dragoman run (?:(?!dragoman run ).)*(?=--(?:restart|run) )", "", message)
    message = re.sub(r"command line: --(?=\w)", "argument ", message)
    message = re.sub(r"(?<![\w-])--restart ([\w.]*\w)", r'restart=["\1"]', message)
    message = re.sub(r"(?<![\w-])--run ([\w.-]*\w)", r'run="\1"', message)
    return _OPTION.sub(_keyword, message).replace("the same command", "the same call")


def _keyword(option: re.Match[str]) -> str:
    key, value = option["key"].replace("-", "_"), option["value"]
    if value is None:
        return key
    value = _VALUES.get(value, value)
    return f'**{{"{key}": {value}}}' if "." in key else f"{key}={value}"


def speaks_python(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Let the errors of a function that commands share name keyword arguments."""

    @wraps(function)
    def called(*positional: Arguments.args, **named: Arguments.kwargs) -> Result:
        try:
            return function(*positional, **named)
        except (DataError, UsageError) as error:
            error.args = tuple(in_python(part) if isinstance(part, str) else part for part in error.args)
            raise

    return called
