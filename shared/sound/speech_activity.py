"""Telling recordings with speech from those without: silence, noise, hum, clicks, a single sample.

A translator that is shown no speech writes a fluent sentence all the same. Two detectors find such recordings:

- ``levels``: a rule about levels and spectrum, which needs nothing else. It takes for speech what changes and has a
  pitch as speech does: music, a siren.
- ``silero``: the network of silero-vad (``pip install 'dragoman[vad]'``, shared/sound/silero.py), which tells most
  music from speech too.

docs/search.md has the rates of both, benchmarks/silence.py measures them. Either prefers to take noise for speech: what
is skipped is lost, and an invented sentence is seen.

Legend: N samples, F frames, Q frequencies, K bands, L lags.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from dragoman.shared.errors import UsageError
from dragoman.shared.sound.audio import SAMPLE_RATE, read_audio

if TYPE_CHECKING:
    from dragoman.shared.sound.silero import SileroDetector

#: What a caller may ask for; "auto" is silero where it is installed, levels elsewhere.
DETECTORS = ("auto", "levels", "silero")

#: The rule's frames: 40 ms hold two periods of the lowest pitch, a frame starts every 10 ms.
_FRAME, _HOP, _TRANSFORM = 640, 160, 1024

#: Seconds that the rule looks at in one go; longer recordings have speech if one of their blocks has.
_BLOCK = 20.0

#: Hz: pitches of voices, and the frequencies where their harmonics are looked for.
_PITCHES, _HARMONICS = (65, 450), (70, 2500)

#: Hz: the bands whose levels are followed, equally wide on the mel scale.
_LOWEST, _HIGHEST, _BANDS = 150.0, 5000.0, 18

#: Frequencies (15.6 Hz apart) over which a spectrum is averaged to find its envelope.
_ENVELOPE = 33

#: Frames over which a band's power is averaged, so that noise by itself hardly changes.
_SMOOTHING = 7

#: Frames (200 ms) that may be louder than what counts as a band's highest level: a click is shorter, a word longer.
_SHORTEST_WORD = 20

#: Decibels below the loudest frame within which a frame's pitch is looked for.
_LOUD = 25.0

#: Power of a band that counts as nothing: far below the rounding of 16-bit samples.
_NOTHING = 1e-12

#: The least change of speech, in decibels, and its least voicing (a correlation, 1 for a steady tone).
_LEAST_CHANGE, _LEAST_VOICING = 3.5, 0.45

#: Seconds of a recording that has time to change that much; a shorter one has to change less, in proportion.
_TIME_TO_CHANGE = 0.35

#: In more frames (above these seconds) some frame of noise looks voiced by chance. There, change and voicing together
#: have to reach this sum, in these units: what changes little must be voiced well.
_MANY_FRAMES = 0.4
_CHANGE_UNIT, _VOICING_UNIT, _LEAST_SUM = 5.0, 0.5, 2.1


class SpeechDetector(Protocol):
    """Tells whether a recording holds speech; messages call it by its name."""

    name: str

    def has_speech(self, waveform: np.ndarray) -> bool:
        """Tell whether there is speech in a waveform, (N,) float32 in [-1, 1] at 16 kHz; N may be 0."""
        ...


def check_detector(name: str) -> None:
    """Refuse a detector that is not one of :data:`DETECTORS`, or not installed.

    Raises:
        UsageError: saying what is known, or what to install.
    """
    if name not in DETECTORS:
        raise UsageError(f"the speech detector must be one of {', '.join(DETECTORS)}, not {name!r}")
    if name == "silero" and not _has_silero():
        raise UsageError("the speech detector 'silero' needs the library silero-vad: pip install 'dragoman[vad]'")


def speech_detector(name: str = "auto") -> SpeechDetector:
    """Return a detector by its name; see :func:`check_detector`.

    Raises:
        DataError: if silero-vad's weights cannot be read.
        UsageError: for a detector that is unknown or not installed.
    """
    check_detector(name)
    if name == "levels" or not _has_silero():
        return LevelDetector()
    return silero_detector()


def _has_silero() -> bool:
    return find_spec("silero_vad") is not None


@cache
def silero_detector() -> SileroDetector:
    """Return silero-vad's detector, loaded once; raises a DataError if its weights cannot be read."""
    from dragoman.shared.sound.silero import SileroDetector

    return SileroDetector.installed()


def rows_without_speech(rows: Iterable[Mapping[str, Any]], detector: SpeechDetector) -> set[int]:
    """Return the numbers of the rows whose recording holds no speech; rows without a recording are not among them.

    Raises:
        DataError: if a recording cannot be read.
    """
    silent = set()
    for number, row in enumerate(rows):
        if row.get("audio"):
            waveform = read_audio(row["audio"], row.get("start") or 0.0, row.get("duration"))
            if not detector.has_speech(waveform):
                silent.add(number)
    return silent


def warn_of_silence(rows: Sequence[Mapping[str, Any]], silent: set[int], detector: SpeechDetector) -> None:
    """Warn of the segments that are skipped, by their numbers; those that follow one another are named as one."""
    stretches: list[tuple[str, float, float]] = []
    for number in sorted(silent):
        row = rows[number]
        file, start, end = row["audio"], row["start"], row["start"] + row["duration"]
        if number - 1 in silent and stretches[-1][0] == file and stretches[-1][2] <= start:
            start = stretches.pop()[1]
        stretches.append((file, start, end))
    for file, start, end in stretches:
        logging.getLogger("dragoman").warning(
            "%s: no speech from %.2f to %.2f s: skipped (detector: %s; --keep-silence translates it)",
            file,
            start,
            end,
            detector.name,
        )


class LevelDetector:
    """A rule: speech has a pitch somewhere, and the levels of its bands change.

    Stationary noise and hum do not change, clicks and rustling have no pitch.
    """

    name = "levels and spectrum"

    def has_speech(self, waveform: np.ndarray) -> bool:
        """Tell whether there is speech in a waveform, (N,) float32 at 16 kHz; its overall level does not matter."""
        return any(_sounds_spoken(block) for block in _blocks(waveform))


def _blocks(waveform: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the waveform in blocks of ``_BLOCK`` seconds; what is shorter than a frame cannot hold speech."""
    size = round(_BLOCK * SAMPLE_RATE)
    for begin in range(0, len(waveform), size):
        block = waveform[begin : begin + size]
        if len(block) >= _FRAME:
            yield block


def _sounds_spoken(block: np.ndarray) -> bool:
    seconds = len(block) / SAMPLE_RATE
    change, voicing = change_and_voicing(block)
    if change < _LEAST_CHANGE * min(seconds / _TIME_TO_CHANGE, 1.0) or voicing < _LEAST_VOICING:
        return False
    return seconds < _MANY_FRAMES or change / _CHANGE_UNIT + voicing / _VOICING_UNIT >= _LEAST_SUM


def change_and_voicing(waveform: np.ndarray) -> tuple[float, float]:
    """Return what the rule looks at.

    Args:
        waveform: (N,), at least a frame long.

    Returns:
        Decibels between the highest and the lowest level of a band, the third most changing one; and the fourth highest
        correlation of a loud frame with itself a period of a pitch later.
    """
    frames = np.lib.stride_tricks.sliding_window_view(waveform.astype(np.float32), _FRAME)[::_HOP]
    window, bands = _window(), _bands()
    # A sine at full scale has a power of about 1/2 in its band.
    power = np.square(np.abs(np.fft.rfft(frames * window, _TRANSFORM))) * (2 / np.square(window).sum() / _TRANSFORM)
    in_bands = power @ bands  # (F, K)
    return _change(in_bands), _voicing(power, in_bands.sum(axis=1))


def _change(in_bands: np.ndarray) -> float:
    width = min(_SMOOTHING, len(in_bands))
    smooth = np.lib.stride_tricks.sliding_window_view(in_bands, width, axis=0).mean(axis=-1)
    ordered = np.sort(10 * np.log10(smooth + _NOTHING), axis=0)  # each band by itself, the quietest frame first
    few = len(ordered) // 20
    changes = ordered[-1 - min(few, _SHORTEST_WORD)] - ordered[few]
    return float(np.sort(changes)[-3])


def _voicing(power: np.ndarray, levels: np.ndarray) -> float:
    loud = power[levels >= levels.max() * 10 ** (-_LOUD / 10)]  # (F, Q)
    beside = np.pad(loud.astype(np.float64), ((0, 0), (_ENVELOPE // 2 + 1, _ENVELOPE // 2)), mode="edge")
    sums = np.cumsum(beside, axis=1)
    envelope = (sums[:, _ENVELOPE:] - sums[:, :-_ENVELOPE]) / _ENVELOPE
    # Divided by its envelope, a spectrum shows its harmonics alone; else every rumble would correlate with itself.
    flat = np.where(_harmonic(), loud / (envelope + 1e-2 * _NOTHING), 0.0)
    correlation = np.fft.irfft(flat, _TRANSFORM)[:, : SAMPLE_RATE // _PITCHES[0]]  # (F, L)
    whole = np.maximum(correlation[:, :1], 1e-9)
    periods = (correlation / whole / _own_correlation())[:, SAMPLE_RATE // _PITCHES[1] :]
    best = np.sort(periods.max(axis=1))
    return float(best[max(len(best) - 4, 0)])


@cache
def _window() -> np.ndarray:
    return np.hanning(_FRAME + 2)[1:-1].astype(np.float32)


@cache
def _own_correlation() -> np.ndarray:
    """Return how much of a correlation the window leaves at each lag, (L,)."""
    correlation = np.fft.irfft(np.square(np.abs(np.fft.rfft(_window().astype(np.float64), 2 * _FRAME))))
    return correlation[: SAMPLE_RATE // _PITCHES[0]] / correlation[0]


@cache
def _bands() -> np.ndarray:
    """Return which frequencies belong to which band, (Q, K) of 0 and 1."""
    mels = np.linspace(np.log1p(_LOWEST / 700), np.log1p(_HIGHEST / 700), _BANDS + 1)
    edges = 700 * np.expm1(mels)
    frequencies = np.fft.rfftfreq(_TRANSFORM, 1 / SAMPLE_RATE)[:, None]
    return ((frequencies >= edges[:-1]) & (frequencies < edges[1:])).astype(np.float32)


@cache
def _harmonic() -> np.ndarray:
    frequencies = np.fft.rfftfreq(_TRANSFORM, 1 / SAMPLE_RATE)
    return (frequencies > _HARMONICS[0]) & (frequencies < _HARMONICS[1])
