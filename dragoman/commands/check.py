"""``dragoman check``: what is wrong with a corpus or manifests, as a table, or with a recipe and its arms."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import IO, Any

from dragoman.commands.check_parts import examine_parts, known_of
from dragoman.commands.inspection import Checked, Known, check_corpus, check_manifests, splits_of
from dragoman.commands.output_parts import OutputParts
from dragoman.commands.prepare import corpora, corpus_class
from dragoman.commands.shard_numbers import read_shard
from dragoman.preparing.preparation import file_stamp
from dragoman.runs.prechecks import try_values
from dragoman.shared.batches.find import find_manifests
from dragoman.shared.described import describe
from dragoman.shared.errors import DataError, UsageError, plural
from dragoman.shared.machine.progress import progress
from dragoman.shared.preparing.reader import Corpus
from dragoman.shared.recipe.recipe import Recipe
from dragoman.shared.text.surrogates import printable

#: For keys that are up to who runs a recipe, and that not any word can be the value of.
STAND_INS = {
    "source_language": "en",
    "target_language": "de",
    "more_manifests": "[more.arrow]",
    "made_rows": "[made.arrow]",
}


def check(
    targets: list[str],
    *,
    root: Path | None,
    workers: int,
    listen: bool,
    arguments: list[str],
    out: Path | None = None,
    shard: str | None = None,
) -> None:
    """Print what is wrong or strange about a corpus or manifests, or write it to a file, or check a recipe.

    Args:
        targets: the name of one corpus, or manifests and patterns of them, or one recipe.
        root: the folder of the corpus.
        workers: processes; 0 means one per processor.
        listen: decode every sample.
        arguments: options of the corpus' reader, or keys of the recipe.
        out: the file; None prints.
        shard: "2/8", of machines that share the work and a disk.

    Raises:
        DataError: if there are errors among the findings.
        UsageError: if something is wrong with the recipe, or the file is there already.
    """
    if shard is not None and out is None:
        raise UsageError("--shard needs --out: the file of the report, on a disk that all machines see")
    if len(targets) == 1 and root is None and _is_recipe(targets[0]):
        if out is not None:
            raise UsageError("--out is for the report on a corpus or manifests, not for recipes")
        check_recipe(targets[0], arguments)
        return
    found = partial(_named, targets, root, arguments)
    report = partial(_report, found, workers, listen)
    if out is None:
        text, wrong = report(None)
        print(text)
        if wrong:
            raise DataError("; ".join(wrong))
        return
    part = (1, 1) if shard is None else read_shard(shard)
    parts = OutputParts(out, part, _made_by(found(), listen), lacks="errors")
    if parts.done:
        print(f"{out}: done before")
    else:
        splits = [rows for target in found().values() for rows in splits_of(target).values()]
        with progress(", ".join(targets), enabled=sys.stderr.isatty()) as show:
            count = examine_parts(splits, parts, workers=workers, listen=listen, progress=show)

        def joined(places: Iterator[Path], whole: IO[bytes]) -> list[str]:
            text, wrong = report(known_of(places))
            whole.write(f"{text}\n".encode())
            return wrong

        print(parts.join(count, joined))
    if parts.lacking:
        raise DataError(f"{out}: {'; '.join(parts.lacking)}")


def _named(targets: list[str], root: Path | None, arguments: list[str]) -> dict[str, Corpus | list[Path]]:
    """Return the readers of a corpus, or the manifests together, by the names that the report has for them."""
    if all(target.endswith(".arrow") for target in targets):
        if root is not None or arguments:
            raise UsageError(f"manifests need no {'--root' if root else arguments[0]}")
        return {", ".join(targets): find_manifests(targets)}
    if len(targets) > 1:
        raise UsageError(f"give one corpus or several manifests (*.arrow), not {' '.join(targets)}")
    corpus_class(targets[0])  # an unknown name, such as that of a folder, is the first thing to say
    if root is None:
        raise UsageError(f"check {targets[0]}: --root is missing")
    several = corpora(targets[0], root=root, arguments=arguments)
    return {f"{corpus.name} {corpus.folder}".strip(): corpus for corpus in several}


def _report(
    found: Callable[[], dict[str, Corpus | list[Path]]], workers: int, listen: bool, known: Known | None
) -> tuple[str, list[str]]:
    """Return the tables of findings, and of each target that has errors how many."""
    results: dict[str, Checked] = {}
    for name, target in found().items():
        with progress(name, enabled=sys.stderr.isatty()) as show:
            options: dict[str, Any] = {"workers": workers, "listen": listen, "progress": show, "known": known}
            look: Callable[..., Checked] = check_manifests if isinstance(target, list) else check_corpus
            results[name] = look(target, **options)
    tables = []
    for name, checked in results.items():
        total = f"{plural(checked.rows, 'row')}, {checked.seconds / 3600:,.2f} hours"
        tables.append(printable(f"{name}: {total}\n{checked.findings.render()}"))
    wrong = {name: checked.findings.errors for name, checked in results.items() if checked.findings.errors}
    return "\n".join(tables), [printable(f"{name}: {plural(errors, 'error')}") for name, errors in wrong.items()]


def _made_by(found: dict[str, Corpus | list[Path]], listen: bool) -> dict[str, Any]:
    """Return what a report follows from, but for the sound files: the readers, their settings, and the texts."""
    about: dict[str, Any] = {"headers_only": not listen}
    for name, target in found.items():
        if isinstance(target, list):
            content: list[Any] = [_stamp(path) for path in target]
        else:
            files = [_stamp(path) for split in target.splits() for path in target.inputs(split)]
            content = [describe(target.arguments), getattr(target, "edition", 0), files]
        digest = hashlib.blake2b(json.dumps(content, sort_keys=True).encode(), digest_size=8).hexdigest()
        about[printable(name)] = digest
    return about


def _stamp(path: Path) -> list[str | int]:
    try:
        return file_stamp(path)
    except DataError as error:  # the report will say so
        return [str(error)]


def _is_recipe(target: str) -> bool:
    return target.endswith(".yaml") or target in {name for name, _ in Recipe.list()}


def check_recipe(source: str, overrides: Sequence[str]) -> None:
    """Check all phases of a recipe, and of each of its arms: paths, arguments, types, references and values.

    Args:
        source: a file, or the name of an installed recipe.
        overrides: ``--key value ...``; of a recipe with arms also of each of these.

    Raises:
        UsageError: naming file, line, key and value.
    """
    recipe = Recipe.load(source, overrides)
    arms = [] if recipe.arm else [["--arm", name] for name in recipe.arms]
    for words in ([], *arms):
        given = [*overrides, *words]
        missing = Recipe.load(source, given).placeholders  # up to who runs it
        filled = {key: STAND_INS.get(key, key.upper()) for key in missing}
        arm = Recipe.load(source, [*given, *(word for key, value in filled.items() for word in (f"--{key}", value))])
        arm.check()
        _try_values(arm)
        print(f"{' '.join([arm.name, *words])}: {', '.join(arm.phases)}")


def _try_values(recipe: Recipe) -> None:
    try_values(recipe)
    for phase in recipe.plan.values():
        if phase.inner is not None:
            _try_values(phase.inner)
