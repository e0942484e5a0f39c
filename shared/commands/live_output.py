"""``dragoman stream``: translate a recording or standard input while it is heard."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import BinaryIO

import numpy as np
import torch
from torch import Tensor

from shared.commands.loading import load_models
from shared.commands.options import ListeningOptions, ModelOptions, SearchOptions
from shared.commands.searching import search_for
from shared.corpus.audio import read_audio, samples
from shared.corpus.speech_activity import speech_detector
from shared.errors import DataError, UsageError
from shared.machine.device import Machine
from shared.systems.policies import AlignAtt, Hold, LocalAgreement, WaitK
from shared.systems.simultaneous import Listener, Policy, listen

#: What a sample of 16 bits counts as 1.
_FULL = 32768.0


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
    if kind not in ("text", "json"):
        raise UsageError(f"--format must be text or json, not {kind!r}")
    search_for(search)
    detector = speech_detector(listening.speech_detector)
    machine = Machine(device=models.device, precision=models.precision)
    system = load_models(model, models, machine, ctc=search.ctc)
    size = samples(listening.chunk)
    begin = partial(
        Listener,
        system,
        policy_of(listening),
        search=search_for(search, tokenizer=system.output.tokenizer),
        source_language=languages[0],
        target_language=languages[1],
    )
    emissions = listen(
        begin,
        heard_from(sys.stdin.buffer, size) if input is None else heard_in(input, size),
        detector=detector,
        maximum_seconds=listening.maximum_seconds,
        pause=listening.pause,
    )
    begun = False
    for emission in emissions:
        if kind == "json":
            if emission.text or emission.last:
                times = {"heard": round(emission.heard, 3), "elapsed": round(emission.elapsed, 3)}
                line = {"text": emission.text, **times, "last": emission.last}
                print(json.dumps(line, ensure_ascii=False), flush=True)
            continue
        begun = begun or bool(emission.text)
        print(emission.text, end="\n" if emission.last and begun else "", flush=True)
        begun = begun and not emission.last


def policy_of(options: ListeningOptions) -> Policy:
    """Return the policy that checked options describe."""
    if options.policy == "alignatt":
        return AlignAtt(frames=options.frames, layer=options.layer or None)
    if options.policy == "hold":
        return Hold(tokens=options.hold)
    if options.policy == "wait-k":
        return WaitK(k=options.k, tokens=options.tokens)
    return LocalAgreement(agree=options.agree)


def heard_in(path: Path, size: int) -> Iterator[Tensor]:
    """Yield a sound file in chunks of ``size`` samples, the last of which may be shorter."""
    waveform = torch.from_numpy(read_audio(path))
    yield from waveform.split(size)


def heard_from(file: BinaryIO, size: int) -> Iterator[Tensor]:
    """Yield 16-bit samples in chunks of ``size``, as soon as a whole one is there; the last may be shorter.

    Raises:
        DataError: if the file has a header, which would be heard as noise.

    """
    first = True
    while data := file.read(2 * size):
        if first and data[:4] in (b"RIFF", b"fLaC", b"OggS"):
            raise DataError("standard input: is a sound file: give its name, or raw samples (arecord -t raw)")
        first = False
        yield torch.from_numpy(np.frombuffer(data[: len(data) // 2 * 2], dtype="<i2").astype(np.float32) / _FULL)
