"""Random generators that are a pure function of what they are for, so that nothing depends on who draws first."""

from __future__ import annotations

import hashlib

import numpy as np


def generator(*key: int | str) -> np.random.Generator:
    """Return a generator that the key alone determines, (seed, epoch, row id, field name) say, on every machine."""
    digest = hashlib.blake2b(repr(key).encode(), digest_size=16).digest()
    return np.random.default_rng(int.from_bytes(digest, "little"))
