"""Voices: eSpeak NG through ctypes, with a speed, a pitch and a light noise of each utterance's own.

eSpeak NG is GPL-3 and therefore comes with the `demo` extra only (espeakng-loader carries library and data).
It keeps a state that nothing resets: a text spoken twice in one process gives other samples the second time. So every
utterance is spoken by a child forked from a process that has initialised the library and spoken nothing; that is
bit-identical wherever and in whichever order it happens, if the generator behind breathy voices is seeded too.
"""

from __future__ import annotations

import ctypes
import importlib.util
import json
import os
import random
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from shared.almanac.words import ADVICE
from shared.errors import DataError

ESPEAK_RATE = 22_050  # Hz, of eSpeak NG's formant voices
RATE = 16_000  # Hz, of what is written in the MuST-C layout
GRID = RATE // 100  # samples; utterances begin and end on a hundredth of a second, so that offsets are exact decimals

# eSpeak NG variants: who they are stays the same through a talk. The unseen ones speak in tst-HE only.
SEEN_VOICES = ("m1", "m2", "m3", "m4", "m5", "m7", "Andy", "ed", "f1", "f2", "f3", "f4", "steph", "belinda")
UNSEEN_VOICES = ("m8", "Hugo", "f5", "Andrea")
BASE = {
    "en": "en-us", "de": "de", "fr": "fr", "tr": "tr", "ru": "ru", "zh": "cmn", "es": "es", "it": "it"
}  # fmt: skip

# espeak-ng/speak_lib.h
_SYNCHRONOUS, _CHARACTERS_UTF8 = 2, 1
_SPEED, _PITCH = 1, 3
_BUFFER_MS = 0
_WORD = 1


class _Event(ctypes.Structure):
    """espeak_EVENT: what has been spoken when."""

    _fields_ = [
        ("type", ctypes.c_int),
        ("unique_identifier", ctypes.c_uint),
        ("text_position", ctypes.c_int),
        ("length", ctypes.c_int),
        ("audio_position", ctypes.c_int),
        ("sample", ctypes.c_int),
        ("user_data", ctypes.c_void_p),
        ("id", ctypes.c_char * 8),
    ]


@dataclass(frozen=True)
class SpokenWord:
    """A word of a text and where it begins, in samples at 22,050 Hz."""

    text: str
    start: int


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
    """eSpeak NG, initialised once in this process; `speak` forks a child for each utterance.

    Raises DataError when espeakng-loader or scipy is not installed, or its library does not start.
    """

    def __init__(self) -> None:
        require()
        import espeakng_loader

        self._library = ctypes.CDLL(espeakng_loader.get_library_path())
        self._data = Path(espeakng_loader.get_data_path()).parent
        # The library keeps the path in a buffer of fixed length, which a deep virtual environment overflows: so ".".
        here = os.getcwd()
        os.chdir(self._data)
        rate = self._library.espeak_Initialize(_SYNCHRONOUS, _BUFFER_MS, b".", 0)
        os.chdir(here)
        if rate != ESPEAK_RATE:
            raise DataError(f"{self._data}: eSpeak NG did not start from these data (espeak_Initialize gave {rate})")

    def speak(self, text: str, manner: Manner) -> np.ndarray:
        """Samples (N,) int16 at 22,050 Hz. Raises DataError when eSpeak NG refuses the voice or the text."""
        return self.speak_words(text, manner)[0]

    def speak_words(self, text: str, manner: Manner) -> tuple[np.ndarray, list[SpokenWord]]:
        """Samples (N,) int16 at 22,050 Hz, and the words in them as eSpeak NG counts them. Raises as `speak`."""
        receive, send = os.pipe()
        child = os.fork()
        if child == 0:
            status = 1
            try:
                os.close(receive)
                os.chdir(self._data)
                sound, events = self._synthesise(text, manner)
                answer = memoryview(sound + json.dumps(events).encode() + len(sound).to_bytes(8, "little"))
                while answer:
                    answer = answer[os.write(send, answer) :]
                status = 0
            finally:
                os._exit(status)
        os.close(send)
        with os.fdopen(receive, "rb") as pipe:
            data = pipe.read()
        _, status = os.waitpid(child, 0)
        length = int.from_bytes(data[-8:], "little")
        if status != 0 or not length:
            raise DataError(f"eSpeak NG could not say {text!r} with the voice {manner.voice!r} (status {status})")
        events = json.loads(data[length:-8])
        words = [SpokenWord(text[place - 1 : place - 1 + size], start) for place, size, start in events]
        return np.frombuffer(data[:length], dtype="<i2"), words

    def _synthesise(self, text: str, manner: Manner) -> tuple[bytes, list[tuple[int, int, int]]]:
        """Sound, and the words in it: (place in the text, counted from 1; length; first sample)."""
        library, collected = self._library, bytearray()
        words: list[tuple[int, int, int]] = []
        signature = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)

        def receive(samples: int | None, number: int, events: int | None) -> int:
            if samples and number > 0:
                collected.extend(ctypes.string_at(samples, number * 2))
            while events and (event := _Event.from_address(events)).type:
                if event.type == _WORD:
                    words.append((event.text_position, event.length, event.sample))
                events += ctypes.sizeof(_Event)
            return 0

        callback = signature(receive)
        library.espeak_SetSynthCallback(callback)
        library.espeak_ng_SetRandSeed(
            ctypes.c_long(1)
        )  # voices with breath draw it; espeak_Initialize seeds by the clock
        failed = library.espeak_SetVoiceByName(manner.voice.encode())
        failed |= library.espeak_SetParameter(_SPEED, manner.speed, 0)
        failed |= library.espeak_SetParameter(_PITCH, manner.pitch, 0)
        data = text.encode() + b"\0"
        failed |= library.espeak_Synth(data, ctypes.c_size_t(len(data)), 0, 0, 0, _CHARACTERS_UTF8, None, None)
        failed |= library.espeak_Synchronize()
        return (b"", []) if failed else (bytes(collected), words)


def manner(language: str, variant: str, talk: random.Random, utterance: random.Random) -> Manner:
    """A talk has a tempo and a pitch; its utterances move a little around them."""
    speed = 145 + 45 * talk.random() + 14 * (utterance.random() - 0.5)
    pitch = 38 + 24 * talk.random() + 8 * (utterance.random() - 0.5)
    return Manner(f"{BASE[language]}+{variant}", round(speed), round(pitch))


def at_rate(samples: np.ndarray) -> np.ndarray:
    """Int16 samples at 22,050 Hz -> float64 in [-1, 1] at 16 kHz; polyphase filter of scipy (no threads)."""
    from scipy.signal import resample_poly

    return np.asarray(resample_poly(samples.astype(np.float64) / 32768.0, 320, 441))


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
