"""Voices: eSpeak NG, with a speed, a pitch and a light noise of each utterance's own.

eSpeak NG is GPL-3 and therefore comes with the `demo` extra only (espeakng-loader carries library and data). It speaks
in a small process of its own (espeak.py).
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import random
import subprocess
import sys
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from dragoman.almanac.words import ADVICE
from dragoman.shared.errors import DataError

ESPEAK_RATE = 22_050  # Hz, of eSpeak NG's formant voices
RATE = 16_000  # Hz, of what is written in the MuST-C layout
_UP, _DOWN = 320, 441  # from the first to the second
GRID = RATE // 100  # samples; utterances begin and end on a hundredth of a second, so that offsets are exact decimals

# eSpeak NG variants: who they are stays the same through a talk. The unseen ones speak in tst-HE only.
SEEN_VOICES = ("m1", "m2", "m3", "m4", "m5", "m7", "Andy", "ed", "f1", "f2", "f3", "f4", "steph", "belinda")
UNSEEN_VOICES = ("m8", "Hugo", "f5", "Andrea")
BASE = {
    "en": "en-us", "de": "de", "fr": "fr", "tr": "tr", "ru": "ru", "zh": "cmn", "es": "es", "it": "it",
    "zh-CN": "cmn", "zh-TW": "cmn", "en-GB": "en",
}  # fmt: skip


@dataclass(frozen=True)
class SpokenWord:
    """A word of a text and where it begins, in samples at 22,050 Hz."""

    text: str
    start: int


#: Samples and the words in them.
Spoken = tuple[np.ndarray, list[SpokenWord]]


@dataclass(frozen=True)
class Manner:
    """The manner of an utterance: speed in words a minute, pitch 0 to 99 (50 is the voice's own)."""

    voice: str
    speed: int
    pitch: int


def require() -> None:
    """Raise DataError when espeakng-loader or scipy is not installed."""
    for package in ("espeakng-loader", "scipy"):
        if importlib.util.find_spec(package.replace("-", "_")) is None:
            raise DataError(f"the package {package} is not installed; {ADVICE}")


class Speaker:
    """eSpeak NG in a process of its own (espeak.py), which ends with this object.

    Raises DataError when espeakng-loader or scipy is not installed, or its library does not start.
    """

    def __init__(self) -> None:
        require()
        import espeakng_loader

        data = Path(espeakng_loader.get_data_path()).parent
        library = Path(espeakng_loader.get_library_path()).absolute()
        program = Path(__file__).with_name("espeak.py")
        command = [sys.executable, "-I", "-S", str(program), str(library), str(data)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._end = weakref.finalize(self, _end, self._process)
        rate = self._answer()["rate"]
        if rate != ESPEAK_RATE:
            raise DataError(f"{data}: eSpeak NG did not start from these data (espeak_Initialize gave {rate})")

    def speak(self, text: str, manner: Manner) -> np.ndarray:
        """Samples (N,) int16 at 22,050 Hz. Raises DataError when eSpeak NG refuses the voice or the text."""
        [(samples, _)] = self.speak_words([(text, manner)])
        return samples

    def speak_words(self, texts: Sequence[tuple[str, Manner]]) -> Iterator[Spoken]:
        """Samples (N,) int16 at 22,050 Hz of each of some texts, and the words in them as eSpeak NG counts them.

        A text is spoken while the caller works on the one before. Raises as `speak`.
        """
        self._ask(*texts[0])
        for number, (text, manner) in enumerate(texts, start=1):
            if number < len(texts):
                self._ask(*texts[number])
            yield self._hear(text, manner)

    def _ask(self, text: str, manner: Manner) -> None:
        assert self._process.stdin is not None
        request = {"text": text, **asdict(manner)}
        with contextlib.suppress(BrokenPipeError):  # it has ended, and `_answer` says so
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()

    def _hear(self, text: str, manner: Manner) -> Spoken:
        assert self._process.stdout is not None
        answer = self._answer()
        sound = self._process.stdout.read(answer["size"])
        if answer["status"] != 0 or not sound:
            raise DataError(
                f"eSpeak NG could not say {text!r} with the voice {manner.voice!r} (status {answer['status']})"
            )
        words = [SpokenWord(text[place - 1 : place - 1 + size], start) for place, size, start in answer["words"]]
        return np.frombuffer(sound, dtype="<i2"), words

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise DataError(f"the process of eSpeak NG has ended (status {self._process.wait()})")
        answer: dict[str, Any] = json.loads(line)
        return answer


def _end(process: subprocess.Popen[bytes]) -> None:
    """Let a process end that answers until its input does."""
    assert process.stdin is not None and process.stdout is not None
    with contextlib.suppress(BrokenPipeError):
        process.stdin.close()
    process.stdout.close()
    process.wait()


def manner(language: str, variant: str, talk: random.Random, utterance: random.Random) -> Manner:
    """A talk has a tempo and a pitch; its utterances move a little around them."""
    speed = 145 + 45 * talk.random() + 14 * (utterance.random() - 0.5)
    pitch = 38 + 24 * talk.random() + 8 * (utterance.random() - 0.5)
    return Manner(f"{BASE.get(language, language.lower())}+{variant}", round(speed), round(pitch))


def at_rate(samples: np.ndarray) -> np.ndarray:
    """Int16 samples at 22,050 Hz -> float64 in [-1, 1] at 16 kHz; polyphase filter of scipy (no threads)."""
    from scipy.signal import resample_poly

    return np.asarray(resample_poly(samples.astype(np.float64) / 32768.0, _UP, _DOWN, window=_filter()))


@cache
def _filter() -> np.ndarray:
    """Return the filter that resample_poly would design anew for each utterance."""
    from scipy.signal import firwin

    largest = max(_UP, _DOWN)
    return np.asarray(firwin(20 * largest + 1, 1.0 / largest, window=("kaiser", 5.0)))


def noisy(samples: np.ndarray, utterance: random.Random) -> np.ndarray:
    """The samples at a level of their own, with white noise 25 to 45 dB under the speech."""
    level = 0.5 + 0.5 * utterance.random()
    decibels = 25.0 + 20.0 * utterance.random()
    noise = np.random.Generator(np.random.PCG64(utterance.getrandbits(64))).standard_normal(len(samples))
    power = float(np.sqrt(np.mean(samples**2)))
    return np.asarray(level * (samples + noise * power * 10.0 ** (-decibels / 20.0)))


def pcm(samples: np.ndarray) -> np.ndarray:
    """Floats in [-1, 1] -> int16, clipped."""
    return np.clip(np.rint(samples * 32767.0), -32768, 32767).astype("<i2")
