"""Rooms and microphones: what stands between a voice and a recording of it.

A room answers an impulse with noise that decays by 60 dB within its reverberation time (Polack 1993, "Playing billiards
in the concert hall": the late part of a response is such noise). A microphone passes a band. Both are drawn for each
recording. Legend: N samples, F frequencies.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

import numpy as np

#: What is drawn, evenly: seconds, decibels, Hz; the highest is drawn evenly on a scale of octaves.
REVERBERATION = (0.15, 0.6)
DIRECT = (3.0, 15.0)
LOWEST = (60.0, 150.0)
HIGHEST = (3400.0, 8000.0)
#: Seconds before the first reflection.
GAP = 0.005
#: Orders of the band's edges: 12 and 48 dB an octave.
LOW_ORDER, HIGH_ORDER = 2, 8


@dataclass(frozen=True)
class Room:
    """A room and a microphone in it.

    Attributes:
        reverberation: seconds in which the response decays by 60 dB.
        direct: dB by which what comes straight from the mouth is stronger than all reflections.
        lowest: Hz, below which the microphone hears less: 3 dB there.
        highest: likewise above.
        seed: of the reflections.
    """

    reverberation: float
    direct: float
    lowest: float
    highest: float
    seed: int

    def response(self, rate: int) -> np.ndarray:
        """The answer (N,) to an impulse, with the energy 1, for a rate in Hz."""
        times = np.arange(round(self.reverberation * rate)) / rate
        noise = np.random.Generator(np.random.PCG64(self.seed)).standard_normal(len(times))
        late = noise * 10.0 ** (-3.0 * times / self.reverberation) * (times >= GAP)
        late *= 10.0 ** (-self.direct / 20.0) / math.sqrt(np.sum(late**2))
        late[0] = 1.0
        return np.asarray(late / math.sqrt(np.sum(late**2)))

    def filled(self, samples: np.ndarray, rate: int) -> np.ndarray:
        """Samples (N,) as they sound in the room, as many as there were."""
        from scipy.fft import next_fast_len  # most other sizes take ten times as long

        response = self.response(rate)
        size = next_fast_len(len(samples) + len(response) - 1, real=True)
        return np.asarray(np.fft.irfft(np.fft.rfft(samples, size) * np.fft.rfft(response, size), size)[: len(samples)])

    def heard(self, samples: np.ndarray, rate: int) -> np.ndarray:
        """Samples (N,) as the microphone hears them, without delay."""
        frequencies = np.fft.rfftfreq(len(samples), 1.0 / rate)  # (F,)
        with np.errstate(divide="ignore"):
            low = (self.lowest / frequencies) ** (2 * LOW_ORDER)
        high = (frequencies / self.highest) ** (2 * HIGH_ORDER)
        return np.asarray(np.fft.irfft(np.fft.rfft(samples) / np.sqrt((1.0 + low) * (1.0 + high)), len(samples)))


def draw(generator: random.Random) -> Room:
    """A room."""
    reverberation, direct, lowest = (
        low + (high - low) * generator.random() for low, high in (REVERBERATION, DIRECT, LOWEST)
    )
    highest = HIGHEST[0] * (HIGHEST[1] / HIGHEST[0]) ** generator.random()
    return Room(reverberation, direct, lowest, highest, generator.getrandbits(64))
