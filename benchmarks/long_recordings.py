"""Peak memory and time of translating long recordings with their times (docs/talks.md).

    python -m benchmarks.long_recordings MODEL TALK [--minutes 10 120] [--segmenters pauses silero] [--maximum 20]
    python -m benchmarks.long_recordings MODEL TALK --live [--minutes 10 60] [--chunk 0.5] [--from fr]

TALK is a sound file, which is repeated to recordings of each length; they are written block by block, as 16-bit wav at
16 kHz. Each is translated by ``dragoman translate --format json`` in a process of its own, with ``--live`` by
``dragoman stream``, which hears one chunk after the other as fast as it can. Printed are the peak of its memory, as a
ratio to that of the first length too (at most 1.2 is wanted), and wall and CPU seconds for a second of sound, with
loading and searching for the places to cut. Wall time means something on a quiet machine only.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import tempfile
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

import numpy as np
import soundfile

from benchmarks.worker import peak_memory
from dragoman.shared.sound.audio import SAMPLE_RATE, read_audio
from dragoman.shared.sound.segmentation import SEGMENTERS

#: What the memory of the longest recording may be, in those of the first.
MOST = 1.2


class Measured(NamedTuple):
    """The cost of a recording: segments, bytes, wall and CPU seconds."""

    segments: int
    peak: int
    seconds: float
    cpu_seconds: float


def write_repeated(talk: np.ndarray, seconds: float, path: Path) -> None:
    """Write a waveform again and again until a recording has its length; no more of it is in memory.

    Args:
        talk: (N,) in [-1, 1] at 16 kHz.
        seconds: of the recording.
        path: a wav file.

    """
    left = round(seconds * SAMPLE_RATE)
    with soundfile.SoundFile(path, "w", SAMPLE_RATE, 1, "PCM_16") as file:
        while left:
            part = talk[:left]
            file.write(part)
            left -= len(part)


def translate(words: list[str], out: Path, channel: Connection) -> None:
    """Run a command, which prints objects, in this process and send its cost; for a process of its own."""
    from dragoman.cli.main import app

    clock = time.perf_counter()
    with out.open("w", encoding="utf-8") as file, contextlib.redirect_stdout(file):
        app([*words, "--format", "json"], standalone_mode=False)
    seconds = time.perf_counter() - clock
    found = Measured(segments_of(out.read_text(encoding="utf-8")), peak_memory(), seconds, time.process_time())
    channel.send(found)


def segments_of(printed: str) -> int:
    """Return the number of segments, or of sentences heard live, in what a command has printed."""
    objects = [json.loads(line) for line in printed.splitlines()]
    return sum(len(found["segments"]) if "segments" in found else found["last"] for found in objects)


def measured(words: list[str]) -> Measured:
    """Return what the command costs in a fresh process."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe(duplex=False)
    with tempfile.TemporaryDirectory() as folder:
        process = context.Process(target=translate, args=(words, Path(folder, "printed"), there))
        process.start()
        there.close()
        try:
            result: Measured = here.recv()
        except EOFError:
            raise SystemExit("the process that translates has ended without a result") from None
        finally:
            process.join()
    return result


def main(words: Sequence[str] | None = None) -> None:
    """Print a line for each segmenter and length."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="folder of a model that reads speech")
    parser.add_argument("talk", type=Path, help="sound file with speech")
    parser.add_argument("--minutes", type=float, nargs="+", default=[10.0, 120.0])
    parser.add_argument("--segmenters", nargs="+", default=list(SEGMENTERS), choices=SEGMENTERS)
    parser.add_argument(
        "--live", action="store_true", help="hear each recording as somebody speaks, by dragoman stream"
    )
    parser.add_argument("--chunk", type=float, default=0.5, help="seconds of a chunk, with --live")
    parser.add_argument("--from", dest="source", help="language that is spoken, if the model knows several")
    parser.add_argument("--maximum", type=float, default=20.0, help="seconds of the longest segment")
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--precision", default="auto")
    given = parser.parse_args(words)
    talk = read_audio(given.talk)
    options = ["--maximum-seconds", given.maximum, "--beam", given.beam]
    options += ["--device", given.device, "--precision", given.precision]
    options += ["--from", given.source] if given.source else []
    arms = {name: ["translate", "--segmenter", name] for name in given.segmenters}
    if given.live:
        arms = {"live": ["stream", "--chunk", given.chunk]}
    print(f"{'':10}{'minutes':>9}{'segments':>10}{'memory':>12}{'ratio':>7}   wall and CPU seconds a second of sound")
    with tempfile.TemporaryDirectory() as folder:
        for name, (command, *own) in arms.items():
            first = 0
            for minutes in given.minutes:
                path = Path(folder, "talk.wav")
                write_repeated(talk, 60 * minutes, path)
                found = measured([command, str(given.model), str(path), *map(str, own + options)])
                first = first or found.peak
                ratio = found.peak / first
                mark = "" if ratio <= MOST else f"   ABOVE {MOST}"
                costs = f"{found.seconds / minutes / 60:10.4f}{found.cpu_seconds / minutes / 60:10.4f}"
                sizes = f"{minutes:9g}{found.segments:10}{found.peak / 2**20:9,.0f} MB{ratio:7.2f}"
                print(f"{name:10}{sizes}{costs}{mark}", flush=True)


if __name__ == "__main__":
    main()
