"""``dragoman prepare``: finds a corpus reader by name and gives it the options of the command line."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from importlib.metadata import entry_points
from itertools import product
from pathlib import Path
from typing import Any, TypeVar

from dragoman.commands.prepare_shard import prepare_shard
from dragoman.commands.shard_numbers import Waiting, read_shard
from dragoman.commands.text_options import names_of
from dragoman.preparing.preparation import prepare
from dragoman.preparing.report import render
from dragoman.runs.running import log_to_terminal
from dragoman.shared.annotations import hints, name_of
from dragoman.shared.errors import UsageError, check_number
from dragoman.shared.machine.progress import progress
from dragoman.shared.sound.audio import LATEST
from dragoman.shared.text.surrogates import printable

Number = TypeVar("Number", int, float)


def corpus_class(name: str) -> type:
    """Return the reader that a package registered under ``dragoman.corpora``."""
    entries = {entry.name: entry for entry in entry_points(group="dragoman.corpora")}
    if name not in entries:
        raise UsageError(f"no corpus {name!r}; there are {', '.join(sorted(entries))}")
    kind: type = entries[name].load()
    return kind


def corpora(name: str, *, root: Path, arguments: list[str]) -> Iterator[Any]:
    """Make a reader from command-line options; languages given as lists (``--source-language fr,es``) make several."""
    kind = corpus_class(name)
    if not hasattr(kind, "rows"):
        raise UsageError(f"{name} is made, not read: give the name of the layout that it was written in")
    options = reader_options(kind, arguments)
    several = [key for key, value in options.items() if key.endswith("language") and isinstance(value, list)]
    for choice in product(*(options[key] for key in several)):
        yield kind(root=str(root), **options | dict(zip(several, choice, strict=True)))


def prepare_corpus(
    name: str,
    *,
    root: Path,
    out: Path | None,
    workers: int,
    arguments: list[str],
    skip_bad: bool = False,
    end_tolerance: float | None = None,
    shard: str | None = None,
) -> None:
    """Prepare a corpus, or its share of one machine (``shard``: "2/8")."""
    log_to_terminal()
    kind = corpus_class(name)
    enabled = sys.stderr.isatty()
    if hasattr(kind, "write"):  # a corpus that is made, not read
        if skip_bad or shard or end_tolerance is not None:
            raise UsageError(f"{name} is made, not read: --skip-bad, --end-tolerance and --shard are not for it")
        with progress(name, enabled=enabled) as show:
            kind(root=str(root), workers=workers, **reader_options(kind, arguments)).write(progress=show)
        print(f"{root}: written")
        return
    if out is None:
        raise UsageError(f"prepare {name}: --out is missing")
    part = None if shard is None else read_shard(shard)
    allowed: dict[str, Any] = {"skip_bad": skip_bad}
    if end_tolerance is not None:
        allowed["end_tolerance"] = check_number("--end-tolerance", end_tolerance, least=0, most=LATEST)
    for corpus in list(corpora(name, root=root, arguments=arguments)):  # all are checked before one is prepared
        title = f"{name} {corpus.folder}".strip()
        with progress(title, enabled=enabled) as show:
            if part is None:
                reports = prepare(corpus, out, workers=workers, progress=show, **allowed)
                print(printable(f"{title}\n{render(reports)}"))
                continue
            prepared = prepare_shard(corpus, out, shard=part, workers=workers, progress=show, **allowed)
        if isinstance(prepared, Waiting):
            print(f"{title}: shard {shard} is done; {prepared} of {part[1]} still to be run")
        else:
            print(printable(f"{title}\n{render(prepared)}"))


def reader_options(kind: type, arguments: list[str]) -> dict[str, Any]:
    """Read ``--key value`` pairs as what a reader's constructor asks for."""
    return _options(kind, _pairs(arguments))


def _pairs(arguments: list[str]) -> dict[str, str]:
    """Read ``--key value`` and ``--key=value`` pairs."""
    given: dict[str, str] = {}
    rest = list(arguments)
    while rest:
        name, equals, value = rest.pop(0).partition("=")
        if not name.startswith("--") or not (equals or rest):
            raise UsageError(f"{name!r}: expected --key value")
        given[name[2:].replace("-", "_")] = value if equals else rest.pop(0)
    return given


def _options(kind: type, given: dict[str, Any]) -> dict[str, Any]:
    """Turn the strings of the command line into what the constructor's annotations ask for."""
    # Not those of the class, which in Python 3.11.2 are those of __new__ where the constructor is inherited.
    parameters = dict([*inspect.signature(kind.__init__).parameters.items()][1:])  # type: ignore[misc]
    annotated = hints(kind.__init__)  # type: ignore[misc]
    options: dict[str, Any] = {}
    for key, text in given.items():
        if key not in parameters or key in ("root", "workers"):
            names = ", ".join("--" + name.replace("_", "-") for name in parameters if name not in ("root", "workers"))
            raise UsageError(f"--{key.replace('_', '-')} is not an option of {kind.__name__}, which has {names}")
        annotation = name_of(annotated.get(key, Any))
        if "Mapping[" in annotation:
            options[key] = dict(_pair(item, key) for item in text.split(","))
        elif "Sequence[Sequence" in annotation:
            options[key] = [item.split("-") for item in text.split(",")]
        elif "list[" in annotation or "Sequence[" in annotation or (key.endswith("language") and "," in text):
            options[key] = _items(text, key)
        elif annotation.startswith("an int"):
            options[key] = _read(int, text, key)
        elif annotation.startswith("a bool"):
            options[key] = _truth(text, key)
        elif annotation.startswith("a float"):
            options[key] = _read(float, text, key)
        else:
            options[key] = text
    for key, parameter in parameters.items():
        if parameter.default is parameter.empty and key not in ("root", "workers", *given):
            raise UsageError(f"{kind.__name__} needs --{key.replace('_', '-')}")
    return options


def _pair(item: str, key: str) -> tuple[str, int]:
    name, equals, number = item.partition("=")
    if not equals:
        raise UsageError(f"--{key}: {item!r} is not NAME=NUMBER")
    return name, _read(int, number, key)


def _items(text: str, key: str) -> list[str]:
    items = names_of(text)
    if twice := [item for item in items if items.count(item) > 1]:
        raise UsageError(f"--{key.replace('_', '-')}: {twice[0]!r} is named twice")
    return items


def _truth(text: str, key: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise UsageError(f"--{key}: {text!r} is neither true nor false")
    return text.lower() == "true"


def _read(kind: type[Number], text: str, key: str) -> Number:
    try:
        return kind(text)
    except ValueError as error:
        raise UsageError(f"--{key}: {text!r} is not a {'whole ' * (kind is int)}number") from error
