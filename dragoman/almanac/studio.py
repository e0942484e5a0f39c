"""The studio: threads that speak recordings, in parallel, to files.

Each has a process of eSpeak NG (voices.py). What it computes itself, in numpy, scipy and libsndfile, holds up no other
thread. What a recording holds depends on its own lines and seed only, never on who speaks it.
"""

from __future__ import annotations

import io
import json
import os
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
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


class Studio:
    """A pool of `workers` threads that speak, started when the first recording comes; a context manager."""

    def __init__(self, *, workers: int) -> None:
        if workers < 0:
            raise ValueError(f"workers must be 0 (as many as there are processors) or more, not {workers}")
        check_workers(workers)
        self.workers = workers or min(os.cpu_count() or 1, 16)
        self._threads = ThreadPoolExecutor(self.workers, "studio")
        self._mine = threading.local()

    def __enter__(self) -> Studio:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._threads.shutdown(cancel_futures=True)

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
        voices.require()
        for future in as_completed([self._threads.submit(self._make, recording) for recording in missing]):
            yield future.result()

    def _make(self, recording: Recording) -> Recording:
        """Speak a recording, in a thread, and keep where its utterances lie: then it is there."""
        try:
            if not hasattr(self._mine, "speaker"):
                self._mine.speaker = voices.Speaker()
            kept = json.dumps(perform(self._mine.speaker, recording))
            keep = Path(recording.spans)
            keep.with_suffix(".new").write_text(kept, encoding="utf-8")
            os.replace(keep.with_suffix(".new"), keep)
        except (DataError, OSError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise DataError(f"{recording.path}: {reason}") from error
        return recording


def spans(recording: Recording) -> list[tuple[int, int]]:
    """The places of the utterances of a made recording: (start, length) in samples."""
    return [(start, length) for start, length in json.loads(Path(recording.spans).read_text(encoding="utf-8"))]
