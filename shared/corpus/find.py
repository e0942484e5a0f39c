"""Manifests by name, by pattern, by direction or by language; and the readers of several of them."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from shared.errors import DataError


def find_manifests(patterns: Sequence[str | Path]) -> list[Path]:
    """Return the manifests that paths and patterns (``manifests/*-en/train.arrow``) name, each once, sorted by pattern.

    Raises:
        DataError: if a path does not exist or a pattern matches nothing.

    """
    found: list[Path] = []
    for pattern in map(str, patterns):
        # A name may hold what is special in patterns, such as brackets.
        matching = [Path(pattern)] if os.path.isfile(pattern) else [Path(name) for name in sorted(glob.glob(pattern))]
        if not matching:
            raise DataError(f"{pattern}: there is no such manifest")
        found += [path for path in matching if path not in found]
    return found


def directions(sources: list[str], targets: list[str]) -> list[tuple[str, str]]:
    """Return the directions from each source language to each other target language."""
    return [(source, target) for source in sources for target in targets if source != target]


def readers(*, reader: Callable[..., Any], sources: list[str], targets: list[str]) -> list[Any]:
    """Make a corpus reader for each direction.

    Args:
        reader: takes ``source_language`` and ``target_language``.
        sources: language codes.
        targets: language codes.

    """
    return [reader(source_language=source, target_language=target) for source, target in directions(sources, targets)]


def pair_manifests(*, folder: str, sources: list[str], targets: list[str], splits: list[str]) -> list[str]:
    """Return the paths of the manifests of each direction and split, ``<folder>/<source>-<target>/<split>.arrow``."""
    pairs = directions(sources, targets)
    return [str(Path(folder) / f"{source}-{target}" / f"{split}.arrow") for source, target in pairs for split in splits]


def text_readers(*, reader: Callable[..., Any], languages: list[str]) -> list[Any]:
    """Make a reader of monolingual text for each language.

    Args:
        reader: takes ``language``.
        languages: codes.

    """
    return [reader(language=code) for code in languages]


def text_manifests(*, folder: str, languages: list[str], splits: list[str]) -> list[str]:
    """Return the paths of the manifests of each language and split, ``<folder>/<language>/<split>.arrow``."""
    return [str(Path(folder) / code / f"{split}.arrow") for code in languages for split in splits]
