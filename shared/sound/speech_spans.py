"""The parts of a recording that hold speech: where pauses divide it, and where a segment begins and ends.

A model is trained on segments that begin and end with speech, and makes up text for silence that it has never heard
(docs/talks.md has figures). So a pause that is long separates two segments, and what is silent before and after the
speech of a segment is left out, but for a margin.

Legend: F frames of about 10 ms.
"""

from __future__ import annotations

import math

import numpy as np

from dragoman.shared.errors import UsageError

#: Seconds of a pause within a segment, at most: most pauses within a sentence are shorter.
LONGEST_PAUSE = 0.5

#: Seconds that are kept before and after the speech of a segment, for weak consonants: those that silero-vad keeps.
#: More is worse for a model whose training segments end with their speech (docs/talks.md).
MARGIN = 0.03

#: Frames of a block (1 s), and the blocks before and after it whose levels say what is loud there and what is quiet.
_BLOCK, _AROUND = 100, 10

#: Decibels below the loudest sound around within which all is speech, and the share of the way from the quietest to the
#: loudest above which it is, if the background is not that quiet.
_SPEECH_RANGE, _SPEECH_SHARE = 35.0, 0.3

#: Decibels between the loudest and the quietest sound around, at least: with fewer, levels do not tell speech from its
#: background.
_LEAST_RANGE = 10.0


def check_pauses(margin: float, longest_pause: float) -> None:
    """Refuse a margin or a longest pause that is negative or not a number, by UsageError."""
    if not margin >= 0:
        raise UsageError(f"the margin around speech must be at least 0 seconds, not {margin}")
    if not longest_pause >= 0:
        raise UsageError(f"the longest pause must be at least 0 seconds, not {longest_pause}")


def loud_frames(levels: np.ndarray, means: np.ndarray) -> np.ndarray:
    """Return which frames are loud enough to be speech, (F,) bool.

    A frame is speech if it and its surroundings are within 35 dB of the loudest sound up to about 10 s away, and above
    the background by 0.3 of what the loudest is above it. Where loudest and quietest differ by less than 10 dB, for
    example far from all speech, every frame counts as speech: nothing is left out that levels cannot judge.

    Args:
        levels: (F,) of the frames, in decibels.
        means: (F,) of a window around each frame, in decibels: what is loud for less is no speech.
    """
    loudest = _largest_around(means)
    quietest = -_largest_around(-means)
    least = np.maximum(loudest - _SPEECH_RANGE, quietest + _SPEECH_SHARE * (loudest - quietest))
    return (np.minimum(levels, means) >= least) | (loudest - quietest < _LEAST_RANGE)


def _largest_around(values: np.ndarray) -> np.ndarray:
    """Return the largest value in the block of each frame and those near it, (F,); by blocks, hours cost little."""
    count = -(-len(values) // _BLOCK)
    filled = np.pad(values, (0, count * _BLOCK - len(values)), constant_values=-math.inf)
    blocks = np.pad(filled.reshape(count, _BLOCK).max(axis=1), _AROUND, constant_values=-math.inf)
    near = np.lib.stride_tricks.sliding_window_view(blocks, 2 * _AROUND + 1).max(axis=1)
    return np.repeat(near, _BLOCK)[: len(values)]


def stretches(speech: np.ndarray, longest_pause: int) -> list[tuple[int, int]]:
    """Divide a recording in the middle of each long pause.

    Args:
        speech: (F,) bool.
        longest_pause: frames of a pause that does not divide, at most.

    Returns:
        (first frame, frame behind the last) of each stretch; they follow one another from 0 to F. A recording without
        speech is one.
    """
    edges = np.flatnonzero(np.diff(speech.astype(np.int8), prepend=0, append=0))
    begins, ends = edges[2::2], edges[1:-1:2]  # of speech behind a pause, and of that before it
    long = begins - ends > longest_pause
    cuts = ((begins + ends) // 2)[long].tolist()
    return list(zip([0, *cuts], [*cuts, len(speech)], strict=True))


def trimmed(speech: np.ndarray, begin: int, end: int, margin: int) -> tuple[int, int]:
    """Return the first frame of a stretch that is kept, and the one behind the last; all of one without speech.

    Args:
        speech: (F,) bool.
        begin: first frame of the stretch.
        end: the frame behind its last.
        margin: frames that are kept before and after the speech, at most.
    """
    (spoken,) = np.nonzero(speech[begin:end])
    if not len(spoken):
        return begin, end
    return max(begin, begin + int(spoken[0]) - margin), min(end, begin + int(spoken[-1]) + 1 + margin)
