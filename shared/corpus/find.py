"""Manifests by name or by pattern."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from pathlib import Path

from shared.errors import DataError


def find_manifests(patterns: Sequence[str | Path]) -> list[Path]:
    """Return the manifests that paths and patterns (``manifests/*-en/train.arrow``) name, each once, sorted by pattern.

    Raises:
        DataError: if a path does not exist or a pattern matches nothing.

    """
    found: list[Path] = []
    for pattern in map(str, patterns):
        matching = [Path(name) for name in sorted(glob.glob(pattern))]
        if not matching:
            raise DataError(f"{pattern}: there is no such manifest")
        found += [path for path in matching if path not in found]
    return found
