"""Dividing a long recording at its pauses, so that a model trained on segments can be given a file of any length.

Nothing is learned: the levels of short windows decide (the same file gives the same segments everywhere), in time and
memory that grow with the length of the file, of which one block is held at a time. Each long pause divides
(shared/sound/speech_spans.py). Where speech without one is longer than a segment may be, dynamic programming finds
where to cut. Segments are cut to their speech.

A cut costs the level of the sound around it, in decibels above the quietest place of the file, and ``PER_CUT`` besides;
the segments are those whose cuts cost least in all. So cuts are few, and each lies in as quiet a place as its
neighbours allow.

Legend: N samples, F frames of about 10 ms.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np

from dragoman.shared.errors import DataError, UsageError
from dragoman.shared.sound.audio import SAMPLE_RATE, open_audio, probe, samples
from dragoman.shared.sound.channels import mono
from dragoman.shared.sound.mpeg import naming_damage
from dragoman.shared.sound.speech_spans import LONGEST_PAUSE, MARGIN, check_pauses, loud_frames, stretches, trimmed

#: Seconds between the places where a cut may be.
FRAME = 0.01

#: Seconds around a cut whose level is what the cut costs.
WINDOW = 0.1

#: Seconds of a wider window (of Hann's shape), and the share of its level in the cost: among equally quiet places, the
#: middle of the longest pause is the best, because sentences end there.
SURROUNDINGS, SURROUNDINGS_SHARE = 1.0, 0.1

#: Decibels that a cut costs in the quietest place; one more cut has to make the others quieter by as much.
PER_CUT = 3.0

#: No segment is shorter than this share of the longest allowed: a model knows little to do with scraps.
SHORTEST_SHARE = 0.1

#: Mean square of what counts as silence: -100 dB, below the noise of 16-bit samples.
_SILENCE = 1e-10

_BLOCK_FRAMES = 3000

Segment = tuple[float, float]


def segments(
    waveform: np.ndarray,
    *,
    maximum: float = 20.0,
    margin: float = MARGIN,
    longest_pause: float = LONGEST_PAUSE,
    rate: int = SAMPLE_RATE,
) -> list[Segment]:
    """Divide a waveform at its pauses.

    Args:
        waveform: (N,) in [-1, 1].
        maximum: seconds of the longest segment, at least 1; infinity for no limit.
        margin: seconds that are kept before and after the speech of a segment; infinity for all of them.
        longest_pause: seconds of the longest pause within a segment; with infinity, only ``maximum`` divides.
        rate: samples per second.

    Returns:
        (start, duration) of each segment in seconds, in order. None lasts longer than ``maximum``. A waveform that is
        not longer than ``maximum`` is one segment, as it is. With both infinities, each start is the end of the
        segment before.

    Raises:
        UsageError: if a number is out of its range.
        DataError: if a sample is not a number.
    """
    check_maximum(maximum)
    check_pauses(margin, longest_pause)
    if len(waveform) <= maximum * rate:
        return [(0.0, len(waveform) / rate)]
    size = samples(FRAME, rate)
    blocks = (waveform[at : at + size * _BLOCK_FRAMES] for at in range(0, len(waveform), size * _BLOCK_FRAMES))
    energies = _energies(blocks, size, "the waveform")
    costs, speech = cut_costs(energies), spoken_frames(energies)
    limits = {"maximum": maximum, "margin": margin, "longest_pause": longest_pause}
    return divided(costs, speech, len(waveform), size=size, rate=rate, **limits)


def file_segments(
    path: str | Path, *, maximum: float = 20.0, margin: float = MARGIN, longest_pause: float = LONGEST_PAUSE
) -> list[Segment]:
    """Divide a sound file at its pauses, block by block; see :func:`segments`. The mean of its channels counts.

    Raises:
        UsageError: if a number is out of its range.
        DataError: if the file is missing, unreadable, empty or cut off, or a sample is not a number.
    """
    import soundfile

    check_maximum(maximum)
    check_pauses(margin, longest_pause)
    length = probe(path)
    if length <= maximum:
        return [(0.0, length)]
    try:
        with naming_damage(path), open_audio(path) as sound:
            rate = sound.samplerate
            size = samples(FRAME, rate)
            blocks = (mono(path, block) for block in _blocks(sound, size * _BLOCK_FRAMES))
            energies = _energies(blocks, size, str(path))
    except soundfile.LibsndfileError as error:
        raise DataError(f"{path}: cannot be read to its end ({error.error_string})") from error
    costs, speech = cut_costs(energies), spoken_frames(energies)
    limits = {"maximum": maximum, "margin": margin, "longest_pause": longest_pause}
    return divided(costs, speech, samples(length, rate), size=size, rate=rate, **limits)


def check_maximum(maximum: float) -> None:
    """Refuse a longest segment below one second, by UsageError."""
    if not maximum >= 1:
        raise UsageError(f"the longest segment must be at least 1 second, not {maximum}")


def _blocks(sound: object, count: int) -> Iterator[np.ndarray]:
    while len(block := sound.read(count, dtype="float32", always_2d=True)):  # type: ignore[attr-defined]
        yield block


def _energies(blocks: Iterable[np.ndarray], size: int, name: str) -> np.ndarray:
    """Return the mean square of each frame, (F,) float64; the last frame may be shorter.

    Blocks but the last hold a whole number of frames, so that where a block ends makes no difference.
    """
    means = []
    for number, block in enumerate(blocks):
        squares = np.square(block, dtype=np.float64)
        whole = len(squares) // size * size
        frames = [squares[:whole].reshape(-1, size).mean(axis=1)]
        if whole < len(squares):
            frames.append(squares[whole:].mean(keepdims=True))
        energies = np.concatenate(frames)
        if not np.isfinite(energies).all():
            at = (number * _BLOCK_FRAMES + int(np.flatnonzero(~np.isfinite(energies))[0])) * FRAME
            raise DataError(f"{name}: not a number among the samples at about {at:.2f} s")
        means.append(energies)
    return np.concatenate(means)


def divided(
    costs: np.ndarray,
    speech: np.ndarray,
    total: int,
    *,
    size: int,
    maximum: float,
    margin: float,
    longest_pause: float,
    rate: int,
) -> list[Segment]:
    """Return the segments between long pauses, those that are too long divided where costs (F,) of cuts are least."""
    longest = math.floor(min(maximum * rate / size, len(costs)))
    while longest * size / rate > maximum:  # a rounding in the line above
        longest -= 1
    shortest = math.ceil(longest * SHORTEST_SHARE)
    kept = round(min(margin / FRAME, len(costs)))
    bounds = []
    for stretch in stretches(speech, round(min(longest_pause / FRAME, len(costs)))):
        begin, end = trimmed(speech, *stretch, kept)
        whole = end - begin <= longest
        cuts = [] if whole else best_cuts(costs[begin:end], longest=longest, shortest=shortest)
        inner = [begin, *(begin + cut for cut in cuts), end]
        bounds += [trimmed(speech, a, b, kept) for a, b in pairwise(inner)]
    times = [(begin * size, total if end == len(costs) else end * size) for begin, end in bounds]
    return [(begin / rate, (end - begin) / rate) for begin, end in times]


def spoken(waveform: np.ndarray) -> np.ndarray:
    """Return which frames of a waveform (N,) at 16 kHz are loud enough to be speech, (F,) bool; see `loud_frames`."""
    return spoken_frames(_energies([waveform], samples(FRAME), "the waveform"))


def spoken_frames(energies: np.ndarray) -> np.ndarray:
    """Return which frames are loud enough to be speech, (F,) bool, of their mean squares, (F,)."""
    near = _means(energies, np.ones(_frames(WINDOW)))
    levels, means = (10 * np.log10(np.maximum(values, _SILENCE)) for values in (energies, near))
    return loud_frames(levels, means)


def cut_costs(energies: np.ndarray) -> np.ndarray:
    """Return what a cut before each frame (its mean square) costs, (F,) in decibels; at least ``PER_CUT``."""
    near, around = (10 * np.log10(np.maximum(values, _SILENCE)) for values in means_around(energies))
    levels = near + SURROUNDINGS_SHARE * around
    # Rounded, so that the last bits of a sum, which differ between processors, decide nothing.
    return np.round(levels - levels.min() + PER_CUT, 2)


def means_around(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the means of both windows around the start of each frame, (F,) each: the near one, and the wider.

    Windows are cut at the file's ends. Each is summed by itself: differences of running sums would lose a pause behind
    a loud passage.
    """
    count = _frames(SURROUNDINGS)
    hann = np.square(np.sin(np.pi * (np.arange(count) + 0.5) / count))
    return _means(values, np.ones(_frames(WINDOW))), _means(values, hann)


def _frames(seconds: float) -> int:
    return 2 * round(seconds / FRAME / 2)


def _means(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    around = (len(weights) // 2, len(weights) // 2 - 1)
    sums, totals = (np.convolve(np.pad(x, around), weights, "valid") for x in (values, np.ones_like(values)))
    return sums / totals


def best_cuts(costs: np.ndarray, *, longest: int, shortest: int) -> list[int]:
    """Return the cheapest cuts that leave no segment longer or shorter than allowed, by a sliding-window minimum.

    Args:
        costs: (F,) what a cut before each frame costs.
        longest: frames of the longest segment; F must be above it.
        shortest: frames of the shortest segment, at most a third of ``longest``, so that there is always a way.

    Returns:
        The frames before which to cut, rising; of equally cheap ways, the one whose last segments are longest.
    """
    count = len(costs)
    prices = [*costs.tolist(), 0.0]  # what the file's end costs: nothing
    prices[0] = 0.0
    best = [math.inf] * (count + 1)
    best[0] = 0.0
    before = [0] * (count + 1)
    window: deque[int] = deque()  # possible predecessors, the cheapest first, rising in cost and place
    for place in range(shortest, count + 1):
        new = place - shortest
        if best[new] < math.inf:
            while window and best[window[-1]] > best[new]:
                window.pop()
            window.append(new)
        while window and window[0] < place - longest:
            window.popleft()
        if window:
            before[place] = window[0]
            best[place] = best[window[0]] + prices[place]
    cuts = []
    place = before[count]
    while place:
        cuts.append(place)
        place = before[place]
    return cuts[::-1]
