"""Options that several commands share, each defined once; nothing heavy is imported here.

A group of options is a dataclass whose fields are typer options. :func:`with_options` gives them to a command, which
receives one object of the group.
"""

from __future__ import annotations

import inspect
import math
import shlex
import sys
from collections.abc import Callable
from dataclasses import fields
from functools import wraps
from typing import Annotated, Any, TypeVar, get_type_hints

import typer

from dragoman.shared.errors import check_number

#: Those of shared/evaluation/metrics.py, which is too heavy to be imported here.
METRIC_NAMES = (
    "bleu, bleu_lc, bleu_bare, spbleu, chrf, chrf++, ter, wer, cer, wer_raw, cer_raw, accuracy, entity_f1, "
    "exact_match, answer_f1, exact_match_local, answer_f1_local, rouge1, rouge2, rougeL, rougeLsum, meteor"
)
#: The context of a command that gets keys of a recipe or options of a reader, beside its own.
OPEN = {"allow_extra_args": True, "ignore_unknown_options": True}
Command = TypeVar("Command", bound=Callable[..., Any])


def option(help: str, panel: str, **settings: Any) -> Any:
    """Return what typer shows of an option, in a panel of its command's help."""
    return typer.Option(help=help, rich_help_panel=panel, **settings)


SourceLanguage = Annotated[str | None, typer.Option("--source-language", "--from", help="language code of the input")]
TargetLanguage = Annotated[str | None, typer.Option("--target-language", "--to", help="language code of the output")]


def check_numbers(group: Any) -> None:
    """Refuse numbers of a group of options that are infinite, but for those whose help says so, or not numbers.

    Raises:
        UsageError: naming the first such option.
    """
    for field in fields(group):
        value = getattr(group, field.name)
        if isinstance(value, float) and not (value == math.inf and field.name in getattr(group, "endless", ())):
            check_number(f"--{field.name.replace('_', '-')}", value)


def command_line() -> str:
    """Return the command that runs, quoted as a shell needs it, for the records of what it makes."""
    return shlex.join(["dragoman", *sys.argv[1:]])


def with_options(**groups: type) -> Callable[[Command], Command]:
    """Give a command the options of groups; its parameters of the groups' names receive their objects.

    Args:
        groups: by parameter name: dataclasses with ``check()``, which is called.
    """

    def decorate(command: Command) -> Command:
        signature = inspect.signature(command, eval_str=True)
        parameters = [parameter for name, parameter in signature.parameters.items() if name not in groups]
        for group in groups.values():
            hints = get_type_hints(group, include_extras=True)
            parameters += [
                inspect.Parameter(f.name, inspect.Parameter.KEYWORD_ONLY, default=f.default, annotation=hints[f.name])
                for f in fields(group)
            ]

        @wraps(command)
        def run(**values: Any) -> Any:
            for name, group in groups.items():
                made = group(**{field.name: values.pop(field.name) for field in fields(group)})
                check_numbers(made)
                made.check()
                values[name] = made
            return command(**values)

        run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return run  # type: ignore[return-value]

    return decorate
