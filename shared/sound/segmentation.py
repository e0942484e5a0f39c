"""The ways to divide a long recording, by the names that a user gives."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Protocol

from dragoman.shared.errors import UsageError
from dragoman.shared.sound.pauses import Segment, file_segments
from dragoman.shared.sound.speech_activity import check_detector, silero_detector
from dragoman.shared.sound.speech_spans import LONGEST_PAUSE, MARGIN, check_pauses

#: What a caller may ask for.
SEGMENTERS = ("pauses", "silero")


class Segmenter(Protocol):
    """Divides a sound file: :func:`dragoman.shared.sound.pauses.file_segments`, or what is called like it."""

    def __call__(self, path: str | Path, *, maximum: float) -> list[Segment]:
        """Return (start, duration) of each segment in seconds, in order and apart, none longer than ``maximum``."""
        ...


def check_segmenter(name: str) -> None:
    """Refuse a segmenter that is unknown or not installed, by UsageError."""
    if name not in SEGMENTERS:
        raise UsageError(f"the segmenter must be one of {', '.join(SEGMENTERS)}, not {name!r}")
    if name == "silero":
        check_detector(name)


def named_segmenter(name: str = "pauses", *, margin: float = MARGIN, longest_pause: float = LONGEST_PAUSE) -> Segmenter:
    """Return one of :data:`SEGMENTERS`: quietest pauses, or least speech as silero-vad hears it.

    Raises:
        DataError: if silero-vad's weights cannot be read.
        UsageError: for a segmenter that is unknown or not installed, or a number out of its range.
    """
    check_segmenter(name)
    check_pauses(margin, longest_pause)
    if name == "pauses":
        return partial(file_segments, margin=margin, longest_pause=longest_pause)
    from dragoman.shared.sound.speech_gaps import gap_segments

    return partial(gap_segments, detector=silero_detector(), margin=margin, longest_pause=longest_pause)
