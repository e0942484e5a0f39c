"""``dragoman stream``: translate a recording or standard input while it is heard."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import BinaryIO

import numpy as np
import torch
from torch import Tensor

from dragoman.commands.endings import warn
from dragoman.commands.input_files import report_cut
from dragoman.commands.loading import load_models
from dragoman.commands.model_options import ModelOptions
from dragoman.commands.search_options import SearchOptions
from dragoman.commands.searching import search_for
from dragoman.commands.talk_options import ListeningOptions, PolicyOptions
from dragoman.shared.errors import DataError, UsageError
from dragoman.shared.machine.device import Machine
from dragoman.shared.sound.audio import SAMPLE_RATE
from dragoman.shared.sound.speech_activity import speech_detector
from dragoman.simultaneous.hearing import heard_in, keeping_up, pieces_of
from dragoman.simultaneous.latency import timed
from dragoman.simultaneous.listening import Emission, Listener, Policy
from dragoman.simultaneous.live_talk import listen
from dragoman.simultaneous.policies import AlignAtt, Hold, LocalAgreement, WaitK

#: What a sample of 16 bits counts as 1.
_FULL = 32768.0
#: Kilobits a second of MPEG 1 and 2, layer III, by their number in a frame's header.
_BITS_1 = (32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320)
_BITS_2 = (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160)


def translate_live(
    model: Path,
    input: Path | None,
    *,
    languages: tuple[str | None, str | None],
    kind: str,
    listening: ListeningOptions,
    search: SearchOptions,
    models: ModelOptions,
) -> None:
    """Hear a file or standard input, and print what is certain after each chunk.

    Raises:
        DataError: if the sound cannot be read.
        UsageError: if options do not fit together, or the model cannot translate while it listens.
    """
    if kind not in ("text", "json", "simuleval"):
        raise UsageError(f"--format must be text, json or simuleval, not {kind!r}")
    search_for(search)
    detector = speech_detector(listening.speech_detector)
    machine = Machine(device=models.device, precision=models.precision)
    system = load_models(model, models, machine, ctc=search.ctc)
    size, count = pieces_of(listening.chunk)
    begin = partial(
        Listener,
        system,
        policy_of(listening),
        search=search_for(search, tokenizer=system.output.tokenizer),
        source_language=languages[0],
        target_language=languages[1],
    )
    name = "standard input" if input is None else str(input)
    chunks = heard_in(input, size) if input else keeping_up(heard_from(sys.stdin.buffer, size), pieces=count)
    length = 0

    def counted() -> Iterator[Tensor]:
        nonlocal length
        for chunk in chunks:
            length += len(chunk)
            yield chunk

    options = {name: getattr(listening, name) for name in ("maximum_seconds", "pause", "chunk")}
    emissions = _warned(name, listen(begin, counted(), detector=detector, **options))
    if kind == "simuleval":
        [language] = begin().languages["target"]
        whole = timed(emissions, language, source=name)
        record = replace(whole, source_length=1000 * length / SAMPLE_RATE).record(0, language)
        print(json.dumps(record, ensure_ascii=False), flush=True)
        wrote = bool(whole.prediction)
    else:
        wrote = (_print_objects if kind == "json" else _print_lines)(emissions)
    if not wrote:
        warn(f"{name}: nothing was written: there is no speech in it (detector: {detector.name}), or no words for it")


def _warned(name: str, emissions: Iterable[Emission]) -> Iterator[Emission]:
    """Yield emissions, each sentence without the end of its text with a warning behind it."""
    for emission in emissions:
        yield emission
        if emission.cut:
            report_cut([f"{name}, {emission.start:.2f} to {emission.end:.2f} s"])


def _print_objects(emissions: Iterable[Emission]) -> bool:
    """Print an object for whatever is written; tell whether there were words."""
    wrote = False
    for emission in emissions:
        wrote = wrote or bool(emission.text)
        if emission.text or emission.last:
            times = {"heard": round(emission.heard, 3), "elapsed": round(emission.elapsed, 3)}
            ends = {"last": emission.last} | ({"cut": True} if emission.cut else {})
            print(json.dumps({"text": emission.text, **times, **ends}, ensure_ascii=False), flush=True)
    return wrote


def _print_lines(emissions: Iterable[Emission]) -> bool:
    """Print words as they are written, a line for each sentence; tell whether there were any."""
    begun = wrote = False
    for emission in emissions:
        begun = begun or bool(emission.text)
        print(emission.text, end="\n" if emission.last and begun else "", flush=True)
        wrote, begun = wrote or begun, begun and not emission.last
    return wrote


def policy_of(options: PolicyOptions) -> Policy:
    """Return the policy that checked options describe."""
    if options.policy == "alignatt":
        return AlignAtt(frames=options.frames, layer=options.layer or None)
    if options.policy == "hold":
        return Hold(tokens=options.hold)
    if options.policy == "wait-k":
        return WaitK(k=options.k, tokens=options.tokens)
    return LocalAgreement(agree=options.agree)


def _format_of(data: bytes) -> str | None:
    """Return the format of which data has the header, None for raw samples."""
    marks = {b"RIFF": "WAV", b"RF64": "WAV", b"riff": "W64", b"fLaC": "FLAC", b"OggS": "Ogg", b"FORM": "AIFF"}
    marks |= {
        b"ID3": "MP3",
        b".snd": "AU",
        b"caff": "CAF",
        b"\x1aE\xdf\xa3": "WebM",
        b"NIST": "NIST sphere",
    }
    for mark, name in marks.items():
        if data.startswith(mark):
            return name
    if data[4:8] == b"ftyp":
        return "MP4"
    return "MP3" if _is_mpeg(data) else None


def _is_mpeg(data: bytes) -> bool:
    """Tell whether data begins with two frames of MPEG audio, layer III: the second where the first one ends."""
    header = data[:4]
    if len(header) < 4 or header[0] != 0xFF or header[1] & 0xE6 != 0xE2:
        return False
    version, rate, padding = header[1] >> 3 & 3, header[2] >> 2 & 3, header[2] >> 1 & 1
    place = header[2] >> 4
    if version == 1 or rate == 3 or place in (0, 15):
        return False
    rates = {3: (44100, 48000, 32000), 2: (22050, 24000, 16000), 0: (11025, 12000, 8000)}
    bits = (_BITS_1 if version == 3 else _BITS_2)[place - 1] * 1000
    size = (144 if version == 3 else 72) * bits // rates[version][rate] + padding
    return data[size : size + 2] == header[:2]


def heard_from(file: BinaryIO, size: int) -> Iterator[Tensor]:
    """Yield 16-bit samples in chunks of ``size``, as soon as a whole one is there; the last may be shorter.

    Raises:
        DataError: if the file has a header, which would be heard as noise.
    """
    first = True
    while data := file.read(2 * size):
        if first and (kind := _format_of(data)):
            raise DataError(f"standard input: is a file ({kind}): give its name, or raw samples (arecord -t raw)")
        first = False
        yield torch.from_numpy(np.frombuffer(data[: len(data) // 2 * 2], dtype="<i2").astype(np.float32) / _FULL)
