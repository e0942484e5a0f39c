"""The help of commands; that of ``dragoman prepare NAME`` has the layout of a corpus and the options of its reader."""

from __future__ import annotations

import inspect
import re
import sys
from textwrap import dedent, fill
from typing import Any

import typer
from typer.core import TyperCommand

_WIDTH = 100
#: The arguments of readers that are no options of theirs, or options of the command itself.
_COMMON = ("self", "root", "workers")


class ReaderCommand(TyperCommand):
    """A command whose first argument is a corpus: its help ends with that of the corpus's reader."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Keep the words of the command line, which ``--help`` would not see."""
        ctx.meta[__name__] = list(args)
        return super().parse_args(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help of the command, then that of the reader that the command line names."""
        super().format_help(ctx, formatter)
        words = ctx.meta.get(__name__, [])
        if words and not words[0].startswith("-"):
            from dragoman.commands.prepare import corpus_class

            formatter.write(reader_help(words[0], corpus_class(words[0])))


def reader_help(name: str, kind: type) -> str:
    """Return the layout that a reader expects and its options, as plain text.

    Args:
        name: of the corpus.
        kind: the class of its reader; the docstring of its module tells the layout, that of its constructor the
            options.
    """
    told = _arguments(inspect.getdoc(kind.__init__) or "")  # type: ignore[misc]
    options = []
    for key, parameter in inspect.signature(kind.__init__).parameters.items():  # type: ignore[misc]
        if key not in _COMMON:
            default = parameter.default
            note = "" if default in (None, "", False, ()) else f"(default: {_shown(default)})"
            note = "(needed)" if default is parameter.empty else note
            text = " ".join(filter(None, [told.get(key, ""), note]))
            head = f"  --{key.replace('_', '-')}".ljust(22) + " "
            options.append(fill(head + text, _WIDTH, subsequent_indent=" " * len(head), break_on_hyphens=False))
    parts = [_plain(inspect.getdoc(sys.modules[kind.__module__]) or "")]
    if not told:  # the class itself tells what its arguments are
        parts.append(_plain(inspect.getdoc(kind) or ""))
    parts += ["\n".join([f"Options of {name}, beside those above:", *options])] if options else []
    return "\n" + "\n\n".join(parts) + "\n"


def _arguments(docstring: str) -> dict[str, str]:
    """Return the texts of the arguments that a docstring lists under "Args:"."""
    section = re.search(r"^Args:\n((?: .*\n?|\n(?= ))*)", docstring, re.MULTILINE)
    block = dedent(section[1]) if section else ""
    entries = re.findall(r"^(\w+): (.*(?:\n[ \n].*)*)", block, re.MULTILINE)
    return {key: _plain(" ".join(text.split())) for key, text in entries}


def _plain(text: str) -> str:
    """Return the text of a docstring without its marks."""
    text = re.sub(r":\w+:(?=`)", "", text).replace("``", "`")
    return re.sub(r"::$", ":", text, flags=re.MULTILINE)


def _shown(value: object) -> str:
    """Return a default as the command line takes it: lists with commas, pairs with hyphens."""
    if isinstance(value, tuple | list):
        return ",".join("-".join(one) if isinstance(one, tuple | list) else str(one) for one in value)
    return str(value)


def flow(*apps: typer.Typer) -> None:
    """Let the help of all commands flow to the terminal's width: typer ends its lines where those of the source end."""
    for command in (command for one in apps for command in one.registered_commands):
        paragraphs = inspect.cleandoc(getattr(command.callback, "__doc__", None) or "").split("\n\n")
        command.help = "\n\n".join(" ".join(lines.split("\n")) for lines in paragraphs)
