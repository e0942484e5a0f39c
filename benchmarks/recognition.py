"""Whisper here and in faster-whisper (CTranslate2): word errors, time and memory, in float32 and in eight bits.

    python -m benchmarks.recognition MODEL CONVERTED MANIFEST [--rows 40] [--threads 1] [--arms "ours int8" ...]

MODEL is an imported Whisper, CONVERTED a folder of the same weights as ct2-transformers-converter writes it, with
tokenizer.json, MANIFEST what ``dragoman prepare`` wrote of recordings with transcripts. faster-whisper is asked for
what ours does: beam 5 without times, one window a recording, and no second try at another temperature. Each arm is a
process of its own and is given the same samples. Ours has batches of two, faster-whisper one recording at a time.

faster-whisper is given sound that is padded with silence to the window's end, as Whisper's authors and this project do.
By itself it pads the features with zeros, which are not the features of silence; its texts then differ, and those of
clips of a second are better.

It prints word errors (the metric ``wer``), seconds and CPU seconds for each second of sound (without loading), and the
peak of memory (with loading). Wall time means something on an idle machine only.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.worker import peak_memory

BEAM = 5
WINDOW = 30 * 16000
THREADS = "OMP_NUM_THREADS"
ARMS = {
    "ours fp32": ("ours", "fp32"),
    "ours int8": ("ours", "int8"),
    "faster-whisper float32": ("theirs", "float32"),
    "faster-whisper int8": ("theirs", "int8"),
}


class Found(NamedTuple):
    """The text of each row, wall and CPU seconds, and the peak of memory in bytes."""

    texts: list[str]
    seconds: float
    cpu_seconds: float
    peak: int


def ours(model: Path, precision: str, sounds: list[np.ndarray], language: str) -> Callable[[], list[str]]:
    """Load a model; return a function that transcribes sounds, float32 at 16 kHz."""
    import dragoman

    loaded = dragoman.load(model, device="cpu", precision=precision).for_task(writes="transcript")
    options: dict[str, Any] = {"sample_rate": 16000, "beam": BEAM, "source_language": language, "keep_silence": True}
    return lambda: loaded.translate(sounds, **options)


def theirs(model: Path, precision: str, sounds: list[np.ndarray], language: str) -> Callable[[], list[str]]:
    """Return the same of faster-whisper, in a process that imports neither torch nor this project."""
    from faster_whisper import WhisperModel

    loaded = WhisperModel(str(model), device="cpu", compute_type=precision, cpu_threads=int(os.environ[THREADS]))
    options: dict[str, Any] = {"language": language, "beam_size": BEAM, "without_timestamps": True}
    options |= {"temperature": 0.0, "condition_on_previous_text": False}
    options |= dict.fromkeys(("no_speech_threshold", "log_prob_threshold", "compression_ratio_threshold"))
    windows = [np.pad(sound, (0, max(0, WINDOW - len(sound)))) for sound in sounds]
    return lambda: [" ".join(one.text.strip() for one in loaded.transcribe(sound, **options)[0]) for sound in windows]


def serve(arm: str, model: Path, sounds: list[np.ndarray], language: str, channel: Connection) -> None:
    """Run an arm in this process, and send what it found."""
    kind, precision = ARMS[arm]
    work = {"ours": ours, "theirs": theirs}[kind](model, precision, sounds, language)
    clock, cpu_clock = time.perf_counter(), time.process_time()
    texts = work()
    channel.send(Found(texts, time.perf_counter() - clock, time.process_time() - cpu_clock, peak_memory()))


def found_by(arm: str, *given: Any) -> Found:
    """Return what an arm finds in a fresh process."""
    context = get_context("spawn")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=serve, args=(arm, *given, there))
    process.start()
    there.close()
    try:
        result: Found = here.recv()
    except EOFError:
        raise SystemExit(f"{arm}: the process has ended without a result") from None
    finally:
        process.join()
    return result


def main(words: Sequence[str] | None = None) -> None:
    """Print a line for each arm."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="folder of an imported Whisper")
    parser.add_argument("converted", type=Path, help="folder of CTranslate2")
    parser.add_argument("manifest", type=Path, help="recordings with transcripts")
    parser.add_argument("--rows", type=int, default=0, help="the first ones only; 0: all")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--arms", nargs="+", default=[*ARMS], choices=[*ARMS])
    given = parser.parse_args(words)
    os.environ[THREADS] = str(given.threads)  # of the processes that follow
    from dragoman.shared.batches.manifest import Manifest
    from dragoman.shared.evaluation.metrics import EditRate
    from dragoman.shared.sound.audio import read_audio

    manifest = Manifest.open(given.manifest)
    rows = [manifest[number] for number in range(min(given.rows or len(manifest), len(manifest)))]
    sounds = [read_audio(row["audio"], row["start"] or 0.0, row["duration"]) for row in rows]
    language = rows[0]["source_language"]
    metric = EditRate("wer", [[row["source_text"] for row in rows]], language)
    seconds = sum(map(len, sounds)) / 16000
    print(f"{len(rows)} recordings, {seconds:.0f} s; threads: {given.threads}")
    print(f"{'':24}{'wer':>7}{'memory':>10}   wall and CPU seconds a second of sound")
    for arm in given.arms:
        found = found_by(arm, given.model if ARMS[arm][0] == "ours" else given.converted, sounds, language)
        rate = metric.count(found.texts).score
        costs = f"{found.seconds / seconds:10.3f}{found.cpu_seconds / seconds:10.3f}"
        print(f"{arm:24}{rate:7.2f}{found.peak / 2**20:7,.0f} MB{costs}", flush=True)


if __name__ == "__main__":
    main()
