"""Manifests belong to their data: those of other data, which another run may read, are never written over.

A folder of manifests keeps beside them (``prepared.json``) what reader they were made by, with which arguments. Where a
recipe would write into a folder with those of other data, its manifests are in a folder beside, named after its own
data, and all of its paths follow. Data that has changed in its place, or was moved, is the same data.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from dragoman.shared.described import describe
from dragoman.shared.errors import DataError
from dragoman.shared.machine.nesting import from_json
from dragoman.shared.recipe.resolve import Resolver
from dragoman.shared.recipe.tree import COMMAND_LINE, Node, plain

#: The phase that writes manifests, and the file that it leaves beside them.
PREPARE = "!new:dragoman.preparing.Prepare"
RECORD = "prepared.json"
#: So many subfolders of manifests are looked at: those of one recipe are of one corpus.
LOOKED_AT = 8

Arguments = Mapping[str, Any]


def moved_manifests(root: Node) -> dict[str, str]:
    """Return the folders of manifests of a recipe that hold those of other data, and where its own are instead."""
    moved, resolver = {}, Resolver(root, lenient=True)
    phases = [phase for _, phase in root.value.get("phases", Node({})).items() if phase.tag == PREPARE]
    for phase in map(resolver.resolve, phases):
        if not isinstance(phase.value, dict) or "out" not in phase.value:
            continue
        out, corpora = phase.value["out"], phase.value.get("corpora", Node([]))
        readers = list(_readers(plain(corpora)))
        if readers and isinstance(out.value, str) and out.value and not _is_given(out):
            place = _own_place(out.value, readers)
            if place != out.value:
                moved[out.value] = place
    return moved


def check_belonging(folder: Path, arguments: Arguments) -> None:
    """Refuse a folder with the manifests of other data.

    Raises:
        DataError: naming the other data, and the key to give.
    """
    recorded = _recorded(folder / RECORD)
    arguments_here = describe(dict(arguments))
    if recorded is not None and not _agree(recorded, arguments_here, whole=True):
        other = ", ".join(
            f"{key} {value}" for key, value in recorded.items() if not _same(value, arguments_here.get(key))
        )
        raise DataError(
            f"{folder}: holds the manifests of other data ({other or 'other options'}), which another run may read; "
            "give these a folder of their own with --manifest_folder, or delete that one"
        )


def _own_place(out: str, readers: list[Arguments]) -> str:
    """Return where the manifests of readers are, if they are to be in a folder."""
    around = Path(out)
    file = next((parent for parent in around.parents if parent.is_file()), None)  # data of one file
    base = out if file is None else f"{file}.{'.'.join(around.relative_to(file).parts)}"
    roots = [os.path.realpath(str(arguments["root"])) for arguments in readers]
    said = json.dumps(
        [{**arguments, "root": root} for arguments, root in zip(readers, roots, strict=True)], sort_keys=True
    )
    digest = hashlib.blake2b(said.encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()
    name = os.path.basename(roots[0])
    elsewhere = "-".join([base, *([] if name in base else [name]), digest])
    records = [Path(base) / RECORD, *islice(sorted(Path(base).glob(f"*/{RECORD}")), LOOKED_AT)]
    for record in records:
        recorded, whole = _recorded(record), record.parent == Path(base)
        if recorded is not None and not any(_agree(recorded, arguments, whole) for arguments in readers):
            return elsewhere
    return elsewhere if os.path.isdir(elsewhere) else base


def _is_given(out: Node) -> bool:
    """Tell whether a user has named a folder, which is then taken or refused."""
    return out.place == COMMAND_LINE and out.own


def _readers(value: Any) -> Iterator[Arguments]:
    """Yield the arguments of readers of a corpus on disk in plain data."""
    if isinstance(value, dict):
        if "root" in value:
            yield value
        for inside in value.values():
            yield from _readers(inside)
    elif isinstance(value, list):
        for inside in value:
            yield from _readers(inside)


def _recorded(record: Path) -> Arguments | None:
    """Return the arguments of the reader whose manifests are beside a record; None if it does not tell."""
    try:
        record_arguments = from_json(record.read_text(encoding="utf-8"))["arguments"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return record_arguments if isinstance(record_arguments, dict) else None


def _agree(recorded: Arguments, arguments: Arguments, whole: bool) -> bool:
    """Tell whether manifests are of one's own data; of a folder for each direction, whatever their languages are."""
    for key in {*recorded, *arguments}:
        before, now = recorded.get(key), arguments.get(key)
        of_direction = not whole and key.endswith("language")
        is_moved = key == "root" and not os.path.exists(str(before))
        if not (of_direction or is_moved or _same(before, now)):
            return False
    return True


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, str) and isinstance(other, str):
        return one == other or os.path.realpath(one) == os.path.realpath(other)
    return one == other or not (one or other)
