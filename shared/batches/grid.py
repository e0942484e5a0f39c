"""A grid of sizes: so many to a doubling, evenly spaced between two powers of two. Batches on it have few shapes."""

from __future__ import annotations

import numpy as np


def rounded_up(sizes: np.ndarray, steps: int) -> np.ndarray:
    """Return the next size on the grid of each, of the same type; what is not positive stays.

    Args:
        sizes: int, of any shape.
        steps: sizes to a doubling, a power of two: with 4, the grid is 1 to 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, ...
    """
    step = spacing(np.maximum(sizes, 1) - 1, steps)  # a power of two is the last of its octave
    return -(-sizes // step) * step


def rounded_down(sizes: np.ndarray, steps: int) -> np.ndarray:
    """Return the size on the grid before each; see :func:`rounded_up`."""
    return sizes // (step := spacing(sizes, steps)) * step


def spacing(sizes: np.ndarray, steps: int) -> np.ndarray:
    """Return the distance between two sizes on the grid where each size stands; see :func:`rounded_up`."""
    octave = np.frexp(np.maximum(sizes, 1).astype(np.float64))[1] - 1  # exact: the exponent of a float
    return np.left_shift(1, np.maximum(octave - (steps.bit_length() - 1), 0)).astype(np.asarray(sizes).dtype)
