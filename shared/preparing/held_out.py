"""Development and test data drawn from training data that has none: by a hash, so that no source is in two splits."""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from dragoman.shared.errors import DataError

TRAIN, DEV, TEST = "train", "dev", "test"
#: At most this share each becomes development and test data.
LARGEST_SHARE = 0.3


class HeldOut:
    """The split that each row of training data belongs to: a function of its source text and the set of all of them.

    Texts that differ in case and spaces alone are one. The share of them whose hashes are lowest is for development, as
    many that follow are for tests, whatever the order of the rows.

    Args:
        rows: all of them.
        share: of the different sources, for each of development and test; it is at least one.
        where: the data, for messages.

    Raises:
        DataError: if there are fewer than three different sources.
    """

    def __init__(self, rows: Iterable[Mapping[str, Any]], share: float, where: object) -> None:
        hashes = np.unique(np.fromiter((_hash(row) for row in rows if _is_whole(row)), dtype=np.uint64))
        number = max(1, round(share * len(hashes)))
        if 2 * number >= len(hashes):
            raise DataError(f"{where}: {len(hashes)} different sources are too few to hold out {share:g} of them twice")
        self._dev, self._test = int(hashes[number - 1]), int(hashes[2 * number - 1])

    def split_of(self, row: Mapping[str, Any]) -> str:
        """Return "train", "dev" or "test"."""
        if not _is_whole(row):
            return TRAIN  # whose rows may be left out
        number = _hash(row)
        return DEV if number <= self._dev else TEST if number <= self._test else TRAIN


def _is_whole(row: Mapping[str, Any]) -> bool:
    """Tell whether none of a row's texts is blank."""
    return all(text is None or text.strip() for text in (row.get("source_text"), row.get("target_text")))


def folded(text: str) -> str:
    """Return what texts have in common that differ in case, spaces and compatible characters alone."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def hashed(text: str) -> int:
    """Return a number below 2 ** 64 that is always the same for a text."""
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


def _hash(row: Mapping[str, Any]) -> int:
    return hashed(folded(row.get("source_text") or row.get("target_text") or row.get("audio") or ""))
