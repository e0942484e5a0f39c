"""The process that speaks: eSpeak NG's library, and for each utterance a forked child.

The library keeps a state that nothing resets: a text spoken twice in one process gives other samples the second time.
So every utterance is spoken by a child forked from a process that has initialised the library and spoken nothing; that
is bit-identical wherever and in whichever order it happens, if the generator behind breathy voices is seeded too.

A fork takes as long as the process is large. So this file is a program that imports no other package, not even this
one (``python -I -S espeak.py LIBRARY DATA``); :class:`dragoman.almanac.voices.Speaker` starts it. It says the sampling
rate, in a line of JSON. Then a request is a line of JSON ("text", "voice", "speed", "pitch"), and its answer another
one ("status", "words", "size") with as many bytes behind it: samples, int16.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from typing import Any

# espeak-ng/speak_lib.h
_SYNCHRONOUS, _CHARACTERS_UTF8 = 2, 1
_SPEED, _PITCH = 1, 3
_BUFFER_MS = 0
_WORD = 1

#: t_espeak_callback, made before the fork: making it takes a child longer than loading a voice.
_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)

#: Of a word: its place in the text, counted from 1; its length; its first sample.
Word = tuple[int, int, int]


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


def _synthesise(library: ctypes.CDLL, request: dict[str, Any]) -> tuple[bytes, list[Word]]:
    """Sound, and the words in it; no sound if the library refuses the voice or the text."""
    collected = bytearray()
    words: list[Word] = []

    def receive(samples: int | None, number: int, events: int | None) -> int:
        if samples and number > 0:
            collected.extend(ctypes.string_at(samples, number * 2))
        while events and (event := _Event.from_address(events)).type:
            if event.type == _WORD:
                words.append((event.text_position, event.length, event.sample))
            events += ctypes.sizeof(_Event)
        return 0

    callback = _CALLBACK(receive)
    library.espeak_SetSynthCallback(callback)
    # Voices with breath draw from it; espeak_Initialize seeds it by the clock.
    library.espeak_ng_SetRandSeed(ctypes.c_long(1))
    failed = library.espeak_SetVoiceByName(request["voice"].encode())
    failed |= library.espeak_SetParameter(_SPEED, request["speed"], 0)
    failed |= library.espeak_SetParameter(_PITCH, request["pitch"], 0)
    data = request["text"].encode() + b"\0"
    failed |= library.espeak_Synth(data, ctypes.c_size_t(len(data)), 0, 0, 0, _CHARACTERS_UTF8, None, None)
    failed |= library.espeak_Synchronize()
    return (b"", []) if failed else (bytes(collected), words)


def _speak(library: ctypes.CDLL, request: dict[str, Any], answers: int) -> None:
    """Let a child speak and answer; answer in its place if it ends without."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            _answer(answers, 0, *_synthesise(library, request))
            status = 0
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    if status:
        _answer(answers, status, b"", [])


def _answer(answers: int, status: int, sound: bytes, words: list[Word]) -> None:
    """Write exit status, words and sound to a file descriptor."""
    head = {"status": status, "words": words, "size": len(sound)}
    left = memoryview(json.dumps(head).encode() + b"\n" + sound)
    while left:
        left = left[os.write(answers, left) :]


def serve(library_file: str, data: str) -> None:
    """Answer requests from standard input until it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, whose end closes our input
    answers = os.dup(1)
    os.dup2(2, 1)  # whatever the library prints must not stand between the answers
    library = ctypes.CDLL(library_file)
    # The library keeps the path in a buffer of fixed length, which a deep virtual environment overflows: so ".".
    os.chdir(data)
    rate = library.espeak_Initialize(_SYNCHRONOUS, _BUFFER_MS, b".", 0)
    library.espeak_ListVoices(None)  # reads some 250 files, which each child would read anew
    os.write(answers, json.dumps({"rate": rate}).encode() + b"\n")
    for line in sys.stdin.buffer:
        _speak(library, json.loads(line), answers)


if __name__ == "__main__":
    serve(*sys.argv[1:])
