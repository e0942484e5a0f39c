"""Scores of whole talks, divided as for a user, beside those of the segments that the references give (docs/talks.md).

    python -m benchmarks.talks MODEL MANIFEST [--maximum 5 10 20] [--longest-pause 0.2 0.5 inf] [--talks 10]

MANIFEST has the rows of talks: tst-COMMON of Almanac in the layout of MuST-C, for example. The first line of a table
translates the rows one by one. For the others each talk is divided by a segmenter into segments of at most
``--maximum`` seconds at pauses longer than ``--longest-pause``, cut to their speech with ``--margin``, and translated
whole; the text is cut to the references' lines before it is scored. "cuts in speech" is the share of cuts that lie more
than 50 ms within a row: a sentence was cut in two there. ``--noise 20 10`` adds tables of the same talks with pink
noise so many decibels below them. ``--talks`` takes the first ones only.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping, Sequence
from itertools import pairwise, product
from pathlib import Path
from typing import Any, NamedTuple

import soundfile

import dragoman
from benchmarks.silence import in_noise
from dragoman.commands.whole_talks import evaluate_talks
from dragoman.shared.batches.manifest import Manifest
from dragoman.shared.batches.stream import translation_budget
from dragoman.shared.evaluation.scoring import Evaluation, evaluate_system
from dragoman.shared.machine.workspace import Workspace
from dragoman.shared.sound.audio import SAMPLE_RATE, read_audio
from dragoman.shared.sound.pauses import Segment
from dragoman.shared.sound.segmentation import SEGMENTERS, Segmenter, named_segmenter
from dragoman.shared.sound.speech_spans import LONGEST_PAUSE, MARGIN
from dragoman.shared.systems.system import System

#: Seconds that a cut may lie within a row without cutting speech: rows are rounded, and begin or end with some silence.
EDGE = 0.05


class Kept:
    """A segmenter that keeps the segments that it gives, by file."""

    def __init__(self, segmenter: Segmenter) -> None:
        self.segmenter = segmenter
        self.found: dict[str, list[Segment]] = {}

    def __call__(self, path: str | Path, *, maximum: float) -> list[Segment]:
        self.found[str(path)] = self.segmenter(path, maximum=maximum)
        return self.found[str(path)]


class Division(NamedTuple):
    """A way to divide talks, what came of it, and the scores."""

    name: str
    segments: int
    seconds: float
    cuts_in_speech: float
    evaluation: Evaluation


def first_talks(manifest: Manifest, count: int) -> list[dict[str, Any]]:
    """Return the rows of the first recordings; of all, if the count is 0."""
    files = list(dict.fromkeys(row["audio"] for row in manifest))
    chosen = {*files[: count or None]}
    return [dict(row) for row in manifest if row["audio"] in chosen]


def with_noise(rows: Sequence[Mapping[str, Any]], decibels: float, folder: Path) -> list[dict[str, Any]]:
    """Write the recordings with pink noise, and return the rows of these."""
    copies = {}
    for number, file in enumerate(dict.fromkeys(row["audio"] for row in rows)):
        copies[file] = str(folder / f"{number}_{decibels:g}.wav")
        soundfile.write(copies[file], in_noise(read_audio(file), decibels), SAMPLE_RATE, subtype="PCM_16")
    return [{**row, "audio": copies[row["audio"]]} for row in rows]


def share_in_speech(rows: Sequence[Mapping[str, Any]], found: Mapping[str, Sequence[Segment]]) -> float:
    """Return the share of cuts that lie within a row: where a segment ends, or the next one begins; 0 without any."""
    spoken: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        span = (row["start"] + EDGE, row["start"] + row["duration"] - EDGE)
        spoken.setdefault(row["audio"], []).append(span)
    cuts = [
        (file, start + duration, following)
        for file, segments in found.items()
        for (start, duration), (following, _) in pairwise(segments)
    ]
    within = [any(a < end < b or a < begin < b for a, b in spoken[file]) for file, end, begin in cuts]
    return sum(within) / max(len(cuts), 1)


def divisions(
    system: System, rows: Sequence[Mapping[str, Any]], given: argparse.Namespace, folder: Path
) -> list[Division]:
    """Translate and score the talks in all ways."""
    manifest = Manifest.write(folder / "talks.arrow", rows)
    workspace = Workspace(output=folder, device=given.device, noprogressbar=True)
    options: dict[str, Any] = {
        "search": system.default_search(),
        "metrics": ["bleu"],
        "workspace": workspace,
        "texts": {"transcript": ["wer"]} if "transcript" in system.texts else {},
    }
    budget = translation_budget(given.batch_size)
    seconds = sum(row["duration"] for row in rows) / len(rows)
    found = [
        Division("references", len(rows), seconds, 0.0, evaluate_system(system, manifest, budget=budget, **options))
    ]
    for name in given.segmenters:
        for maximum, pause in product(given.maximum, given.longest_pause):
            kept = Kept(named_segmenter(name, margin=given.margin, longest_pause=pause))
            evaluation, *further = evaluate_talks(
                system, manifest, segmenter=kept, maximum_seconds=maximum, batch_size=given.batch_size, **options
            )
            evaluation.further.extend(further)
            segments = [segment for own in kept.found.values() for segment in own]
            seconds = sum(duration for _, duration in segments) / len(segments)
            cuts = share_in_speech(rows, kept.found)
            found.append(Division(f"{name}, {maximum:g} s, {pause:g} s", len(segments), seconds, cuts, evaluation))
    return found


def table(title: str, found: Sequence[Division]) -> str:
    """Return a table of divisions, a line each."""
    names = [score.name for one in found[0].evaluation.by_text for score in one.scores]
    head = "".join(f"{name.upper():>8}" for name in names)
    lines = [f"{title:24}{'segments':>10}{'seconds':>9}{'cuts in speech':>16}{head}"]
    for division in found:
        scores = [score.value for one in division.evaluation.by_text for score in one.scores]
        figures = "".join(f"{value:8.1f}" for value in scores)
        line = f"{division.name:24}{division.segments:10}{division.seconds:9.1f}{division.cuts_in_speech:16.1%}"
        lines.append(line + figures)
    return "\n".join(lines)


def main(words: Sequence[str] | None = None) -> None:
    """Print a table without noise, and one for each noise."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="folder of a model that reads speech")
    parser.add_argument("manifest", type=Path, help="rows of talks (*.arrow)")
    parser.add_argument("--segmenters", nargs="+", default=list(SEGMENTERS), choices=SEGMENTERS)
    parser.add_argument("--maximum", type=float, nargs="+", default=[5.0, 10.0, 20.0], help="seconds")
    parser.add_argument("--longest-pause", type=float, nargs="+", default=[LONGEST_PAUSE], help="seconds")
    parser.add_argument("--margin", type=float, default=MARGIN, help="seconds kept around speech")
    parser.add_argument("--noise", type=float, nargs="*", default=[], help="decibels below the talks")
    parser.add_argument("--talks", type=int, default=0, help="how many, from the first; 0: all")
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--device", default="cpu")
    given = parser.parse_args(words)
    system = dragoman.load(given.model, device=given.device)
    rows = first_talks(Manifest.open(given.manifest), given.talks)
    hours = sum(row["duration"] for row in rows) / 3600
    print(f"{len(rows)} rows, {len({row['audio'] for row in rows})} talks, {hours:.2f} hours of speech")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        print(table("as they are", divisions(system, rows, given, folder)), flush=True)
        for decibels in given.noise:
            noisy = divisions(system, with_noise(rows, decibels, folder), given, folder)
            print("\n" + table(f"{decibels:g} dB above noise", noisy), flush=True)


if __name__ == "__main__":
    main()
