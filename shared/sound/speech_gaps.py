"""Dividing a long recording where silero-vad hears no speech: for recordings whose pauses are not quiet.

Behind music, applause or traffic, the quietest places are not where nobody speaks. Here a cut costs the probability of
speech around it, and a frame is spoken where that is at least a half; all else is as in shared/sound/pauses.py.

Legend: F frames of 10 ms.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from dragoman.shared.sound.audio import SAMPLE_RATE, probe, read_audio, samples
from dragoman.shared.sound.pauses import (
    FRAME,
    PER_CUT,
    SURROUNDINGS_SHARE,
    Segment,
    check_maximum,
    divided,
    means_around,
)
from dragoman.shared.sound.silero import THRESHOLD, WINDOW, SileroDetector, amplified
from dragoman.shared.sound.speech_spans import LONGEST_PAUSE, MARGIN, check_pauses

#: What a cut through certain speech costs, in the decibels of shared/sound/pauses.py.
SPEECH = 40.0

#: Seconds that the network is given in one go, and before them those whose probabilities are not used: its memory
#: begins anew in each block.
_BLOCK, _BEFORE = 60.0, 2.0

_SIZE = samples(FRAME, SAMPLE_RATE)


def gap_segments(
    path: str | Path,
    *,
    detector: SileroDetector,
    maximum: float = 20.0,
    margin: float = MARGIN,
    longest_pause: float = LONGEST_PAUSE,
) -> list[Segment]:
    """Divide a sound file where there is least speech, block by block; else as :func:`pauses.file_segments`."""
    check_maximum(maximum)
    check_pauses(margin, longest_pause)
    length = probe(path)
    if length <= maximum:
        return [(0.0, length)]
    blocks = [
        _block(path, detector, start, min(_BLOCK, length - start)) for start in np.arange(0.0, length, _BLOCK).tolist()
    ]
    probabilities = np.concatenate(blocks)
    costs, speech = gap_costs(probabilities), probabilities >= THRESHOLD
    limits = {"maximum": maximum, "margin": margin, "longest_pause": longest_pause}
    return divided(costs, speech, samples(length, SAMPLE_RATE), size=_SIZE, rate=SAMPLE_RATE, **limits)


def _block(path: str | Path, detector: SileroDetector, start: float, duration: float) -> np.ndarray:
    """Return the probability of speech in each frame of a part of a file, (F,)."""
    before = min(_BEFORE, start)
    waveform = read_audio(path, start - before, before + duration)
    heard = detector.probabilities(amplified(waveform))
    places = np.arange(samples(before, SAMPLE_RATE), len(waveform), _SIZE)
    return heard[places // WINDOW]


def gap_costs(probabilities: np.ndarray) -> np.ndarray:
    """Return what a cut before each frame costs, (F,), by probabilities of speech (F,); at least about ``PER_CUT``."""
    near, around = means_around(probabilities.astype(np.float64))
    return np.round(SPEECH * (near + SURROUNDINGS_SHARE * around) + PER_CUT, 2)
