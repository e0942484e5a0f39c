"""``dragoman prepare``: finds a corpus reader by name and gives it the options of the command line."""

from __future__ import annotations

import inspect
import sys
from importlib.metadata import entry_points
from itertools import product
from pathlib import Path
from typing import Any

from shared.corpus.prepare import prepare, render
from shared.errors import UsageError
from shared.progress import progress
from shared.running import log_to_terminal


def corpus_class(name: str) -> type:
    """Return the reader that a package registered under ``dragoman.corpora``."""
    known = {entry.name: entry for entry in entry_points(group="dragoman.corpora")}
    if name not in known:
        raise UsageError(f"no corpus {name!r}; there are {', '.join(sorted(known))}")
    found: type = known[name].load()
    return found


def prepare_corpus(name: str, *, root: Path, out: Path | None, workers: int, arguments: list[str]) -> None:
    """Prepare a corpus; languages given as lists (``--source-language fr,es``) make one direction each."""
    log_to_terminal()
    kind = corpus_class(name)
    options = _options(kind, _pairs(arguments))
    if hasattr(kind, "write"):  # a corpus that is made, not read
        with progress(name, enabled=sys.stderr.isatty()) as show:
            kind(root=str(root), workers=workers, **options).write(progress=show)
        print(f"{root}: written")
        return
    if out is None:
        raise UsageError(f"prepare {name}: --out is missing")
    several = [key for key, value in options.items() if key.endswith("_language") and isinstance(value, list)]
    for choice in product(*(options[key] for key in several)):
        corpus = kind(root=str(root), **options | dict(zip(several, choice, strict=True)))
        with progress(f"{name} {corpus.folder}", enabled=sys.stderr.isatty()) as show:
            reports = prepare(corpus, out, workers=workers, progress=show)
        print(f"{name} {corpus.folder}\n{render(reports)}")


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
    parameters = inspect.signature(kind).parameters
    options: dict[str, Any] = {}
    for key, text in given.items():
        if key not in parameters or key in ("root", "workers"):
            known = ", ".join("--" + name.replace("_", "-") for name in parameters if name not in ("root", "workers"))
            raise UsageError(f"--{key.replace('_', '-')} is not an option of {kind.__name__}, which has {known}")
        annotation = str(parameters[key].annotation)
        if "Mapping[" in annotation:
            options[key] = dict(_pair(item, key) for item in text.split(","))
        elif "Sequence[Sequence" in annotation:
            options[key] = [item.split("-") for item in text.split(",")]
        elif "list[" in annotation or "Sequence[" in annotation or (key.endswith("_language") and "," in text):
            options[key] = text.split(",")
        elif annotation.startswith("int"):
            options[key] = _whole(text, key)
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
    return name, _whole(number, key)


def _whole(text: str, key: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise UsageError(f"--{key}: {text!r} is not a whole number") from error
