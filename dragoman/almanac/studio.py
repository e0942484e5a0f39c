"""The studio: clean processes that speak recordings, in parallel, to files.

They are processes of their own (not forks of the caller) because each utterance is spoken by a forked child, and
forking is safe only where no other library has started threads. One line of JSON is one recording, one line answers it.
What a recording holds depends on its own lines and seed only, never on the process that speaks it.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import queue
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType

import numpy as np

from dragoman.almanac import rooms, voices
from dragoman.almanac.frames import randomness
from dragoman.shared.errors import DataError
from dragoman.shared.machine.memory import check_workers

PAUSE = (0.3, 1.0)  # seconds between two utterances of a talk


@dataclass(frozen=True)
class Recording:
    """A sound file to be made: `texts` spoken one after the other by one voice.

    A .wav or .flac is 16 kHz and has pauses around its utterances, like a talk; an .mp3 is 22,050 Hz and has none, like
    a clip. `name` seeds what is random in it; `spans` is the file that keeps where each utterance lies; `words` is a
    table of the words and their times, "" for none; `room` lets it be spoken in a room and heard by a microphone of
    its own.
    """

    name: str
    path: str
    spans: str
    language: str
    variant: str
    texts: tuple[str, ...]
    words: str = ""
    room: bool = False


def perform(speaker: voices.Speaker, recording: Recording) -> list[tuple[int, int]]:
    """Speak a recording to its file; returns (start, length) of each utterance, in samples."""
    import soundfile

    talk = recording.path.endswith((".wav", ".flac"))
    rate = voices.RATE if talk else voices.ESPEAK_RATE
    pieces: list[np.ndarray] = []
    spans: list[tuple[int, int]] = []
    table = ["utterance\tword\tstart\tend"]
    position = 0
    utterances = [randomness(recording.name, index) for index in range(len(recording.texts))]
    manners = [
        voices.manner(recording.language, recording.variant, randomness(recording.name), utterance)
        for utterance in utterances
    ]
    answers = speaker.speak_words(list(zip(recording.texts, manners, strict=True)))
    for index, (utterance, (spoken, said)) in enumerate(zip(utterances, answers, strict=True)):
        samples = voices.at_rate(spoken) if talk else spoken.astype(np.float64) / 32768.0
        before = 0
        if talk:
            seconds = PAUSE[0] + (PAUSE[1] - PAUSE[0]) * utterance.random()
            before = int(seconds * rate) // voices.GRID * voices.GRID
            samples = np.pad(samples, (before, -len(samples) % voices.GRID))
        pieces.append(samples)
        spans.append((position + before, len(samples) - before))
        table += word_times(index, said, (position + before) / rate, len(spoken))
        position += len(samples)
    room = rooms.draw(randomness("room", recording.name)) if recording.room else None
    if room is not None:
        ends = np.cumsum([len(samples) for samples in pieces])[:-1]
        pieces = np.split(room.filled(np.concatenate(pieces), rate), ends)
    pieces = [voices.noisy(samples, utterance) for samples, utterance in zip(pieces, utterances, strict=True)]
    whole = np.concatenate(pieces)
    if room is not None:
        whole = room.heard(whole, rate)
    path, spans_path = Path(recording.path), Path(recording.spans)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = spans_path.with_suffix(path.suffix)
    encoded = io.BytesIO()  # libsndfile's own writing calls a full disk a "System error"
    soundfile.write(encoded, voices.pcm(whole), rate, format=path.suffix[1:].upper())
    if recording.words:
        words = spans_path.with_suffix(".words")
        words.write_text("".join(f"{row}\n" for row in table), encoding="utf-8")
        os.replace(words, recording.words)
    temporary.write_bytes(encoded.getbuffer())
    os.replace(temporary, path)
    return spans


def word_times(utterance: int, said: list[voices.SpokenWord], start: float, length: int) -> list[str]:
    """Rows of a table: a word ends where the next one begins; times are seconds in the file."""
    rate = voices.ESPEAK_RATE
    ends = [*(word.start for word in said[1:]), length]
    return [
        f"{utterance}\t{word.text}\t{start + word.start / rate:.3f}\t{start + end / rate:.3f}"
        for word, end in zip(said, ends, strict=False)
    ]


def serve() -> None:
    """Answer recordings from standard input until it ends: the main function of a process of the studio."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, whose end closes our input
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever the library prints must not stand between the answers
    try:
        speaker = voices.Speaker()
        for line in sys.stdin:
            job = json.loads(line)
            recording = Recording(**{**job, "texts": tuple(job["texts"])})
            spans = perform(speaker, recording)
            keep = Path(recording.spans)
            keep.with_suffix(".new").write_text(json.dumps(spans), encoding="utf-8")
            os.replace(keep.with_suffix(".new"), keep)
            print(json.dumps({"spans": spans}), file=answers, flush=True)
    except (DataError, OSError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        print(json.dumps({"error": reason}), file=answers, flush=True)


class Studio:
    """A pool of `workers` speaking processes, started when the first recording comes; a context manager."""

    def __init__(self, *, workers: int) -> None:
        if workers < 0:
            raise ValueError(f"workers must be 0 (as many as there are processors) or more, not {workers}")
        check_workers(workers)
        self.workers = workers or min(os.cpu_count() or 1, 16)
        self._idle: queue.SimpleQueue[subprocess.Popen[str]] = queue.SimpleQueue()
        self._processes: list[subprocess.Popen[str]] = []

    def __enter__(self) -> Studio:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._processes:
            assert process.stdin is not None
            if kind is not None:
                process.terminate()
            with contextlib.suppress(BrokenPipeError):  # it has ended by itself, and `_ask` has said so
                process.stdin.close()
        for process in self._processes:
            process.wait()
            assert process.stdout is not None
            process.stdout.close()
        self._processes.clear()

    def record(self, recordings: Iterable[Recording]) -> Iterator[Recording]:
        """Make the recordings that are not there yet; yields each when it is, in any order.

        Raises DataError for what eSpeak NG or the disk refuses.
        """
        missing = []
        for recording in recordings:
            if Path(recording.spans).exists() and Path(recording.path).exists():
                yield recording
            else:
                missing.append(recording)
        if not missing:
            return
        voices.require()  # here too: a process that cannot start has no good place to say why
        self._start(min(self.workers, len(missing)))
        with ThreadPoolExecutor(len(self._processes)) as threads:
            running = [threads.submit(self._ask, recording) for recording in missing]
            try:
                for future in as_completed(running):
                    yield future.result()
            finally:
                threads.shutdown(wait=True, cancel_futures=True)

    def _start(self, number: int) -> None:
        root = Path(__file__).resolve().parents[2]
        paths = [str(root), *filter(None, [os.environ.get("PYTHONPATH")])]
        single = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        while len(self._processes) < number:
            process = subprocess.Popen(
                [sys.executable, "-c", "from dragoman.almanac.studio import serve; serve()"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                encoding="utf-8",
                env={**os.environ, **single, "PYTHONPATH": os.pathsep.join(paths)},
            )
            self._processes.append(process)
            self._idle.put(process)

    def _ask(self, recording: Recording) -> Recording:
        process = self._idle.get()
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(json.dumps(asdict(recording)) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except (BrokenPipeError, ValueError):
            line = ""
        finally:
            self._idle.put(process)
        if not line:
            raise DataError(f"{recording.path}: the process that speaks it ended (status {process.poll()})")
        answer = json.loads(line)
        if "error" in answer:
            raise DataError(f"{recording.path}: {answer['error']}")
        return recording


def spans(recording: Recording) -> list[tuple[int, int]]:
    """The places of the utterances of a made recording: (start, length) in samples."""
    return [(start, length) for start, length in json.loads(Path(recording.spans).read_text(encoding="utf-8"))]
