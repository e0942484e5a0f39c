"""Manifests by name, by pattern, by direction or by language; and the readers of several of them."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from dragoman.shared.errors import DataError, UsageError
from dragoman.shared.machine.remote import local_copy, on_disk, remote_matches, uri_of


def find_manifests(patterns: Sequence[str | Path]) -> list[Path]:
    """Return the manifests that paths and patterns (``manifests/*-en/train.arrow``) name, each once, sorted by pattern.

    Those that URIs name are copied to this machine (see shared/machine/remote.py).

    Raises:
        DataError: if a path does not exist, a pattern matches nothing, or something cannot be copied.
    """
    paths: list[Path] = []
    for pattern in map(on_disk, patterns):
        uri = uri_of(pattern)
        if uri is not None:
            matching = [local_copy(match) for match in remote_matches(uri)]
        elif os.path.isfile(pattern):  # a name may hold what is special in patterns, such as brackets
            matching = [Path(pattern)]
        else:
            matching = [Path(name) for name in sorted(glob.glob(pattern))]
        if not matching:
            raise DataError(f"{uri or pattern}: there is no such manifest")
        paths += [path for path in matching if path not in paths]
    return paths


def written_below(out: Path, patterns: Sequence[str | Path]) -> list[tuple[Path, Path]]:
    """Return the manifests that paths and patterns name, each with ``<out>/<its folder>/<its name>``.

    Raises:
        DataError: as :func:`find_manifests`; or if two would be written to one place, or one over what is read.
    """
    paths = find_manifests(patterns)
    places: dict[Path, Path] = {}
    for path in paths:
        place = out / path.parent.name / path.name
        if place in places:
            raise DataError(f"{place}: two manifests would be written there; the second is {path}")
        if any(place.resolve() == other.resolve() for other in paths):
            raise DataError(f"{place}: what is read would be written over: choose another folder")
        places[place] = path
    return [(path, place) for place, path in places.items()]


def directions(
    sources: list[str],
    targets: list[str],
    pivot: str | None = None,
    pairs: Sequence[Sequence[str]] | None = None,
    without: Sequence[Sequence[str]] = (),
) -> list[tuple[str, str]]:
    """Return the directions of a multilingual system, each once.

    Args:
        sources: language codes.
        targets: language codes.
        pivot: keep only the directions from and to this language, as in a corpus around English; None keeps all.
        pairs: the directions themselves, (source, target), in place of each source with each other target; a pair may
            be of one language, where a text is written in its own, such as a summary.
        without: directions that are left out, to be tested without training on them.

    Raises:
        UsageError: for a pair that is not of a source and a target, a pivot that is neither, or no direction.
    """
    every = [(source, target) for source in sources for target in targets if source != target]
    if pivot is not None and pivot not in (*sources, *targets):
        raise UsageError(f"pivot must be one of the languages {', '.join([*sources, *targets])}, not {pivot!r}")
    for given in (pairs or (), without):
        for pair in given:
            if isinstance(pair, str) or len(pair) != 2 or pair[0] not in sources or pair[1] not in targets:
                raise UsageError(
                    f"a pair must be of a source language ({', '.join(sources)}) and a target language "
                    f"({', '.join(targets)}), not {pair!r}"
                )
    if pairs is not None:
        every = list(dict.fromkeys((source, target) for source, target in pairs))
    every = [pair for pair in every if (pivot is None or pivot in pair) and list(pair) not in map(list, without)]
    if not every and (pivot is not None or pairs is not None):
        raise UsageError("there is no direction between the source and target languages that were given")
    return every


def readers(
    *,
    reader: Callable[..., Any],
    sources: list[str],
    targets: list[str],
    pivot: str | None = None,
    pairs: list[list[str]] | None = None,
) -> list[Any]:
    """Make a corpus reader for each of :func:`directions`; it takes ``source_language`` and ``target_language``."""
    chosen = directions(sources, targets, pivot, pairs)
    return [reader(source_language=source, target_language=target) for source, target in chosen]


def pair_manifests(
    *,
    folder: str,
    sources: list[str],
    targets: list[str],
    splits: list[str],
    pivot: str | None = None,
    pairs: list[list[str]] | None = None,
) -> list[str]:
    """Return the paths of the manifests of each direction and split, ``<folder>/<source>-<target>/<split>.arrow``."""
    chosen = directions(sources, targets, pivot, pairs)
    return [
        str(Path(folder) / f"{source}-{target}" / f"{split}.arrow") for source, target in chosen for split in splits
    ]


def text_readers(*, reader: Callable[..., Any], languages: list[str]) -> list[Any]:
    """Make a reader of monolingual text, which takes ``language``, for each of some language codes."""
    return [reader(language=code) for code in languages]


def text_manifests(*, folder: str, languages: list[str], splits: list[str]) -> list[str]:
    """Return the paths of the manifests of each language and split, ``<folder>/<language>/<split>.arrow``."""
    return [str(Path(folder) / code / f"{split}.arrow") for code in languages for split in splits]


def joined(*lists: list[Any]) -> list[Any]:
    """Return the items of several lists of a recipe in one list."""
    return [item for one in lists for item in one]
