"""The commands that use a model folder: translate, evaluate, score."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from itertools import islice
from pathlib import Path

from shared.corpus.manifest import Manifest
from shared.corpus.stream import Budget
from shared.errors import DataError, UsageError
from shared.evaluation.evaluate import ONE_LINE, check_metrics, evaluate_system
from shared.evaluation.scores import Score
from shared.evaluation.scores import score as score_texts
from shared.phases import Evaluate
from shared.running import log_to_terminal
from shared.search.beam import BeamSearch
from shared.search.greedy import GreedySearch
from shared.search.search import Search
from shared.system import AUDIO_SUFFIXES, System
from shared.workspace import Workspace

CHUNK = 2048  # lines held in memory at a time


def search_for(beam: int, length_penalty: float, n_best: int = 1) -> Search:
    """Return beam search, or greedy search for a beam of 1.

    Raises:
        UsageError: if the numbers do not fit together.

    """
    if beam == 1 and n_best == 1:
        return GreedySearch()
    try:
        return BeamSearch(beam=beam, length_penalty=length_penalty, n_best=n_best)
    except ValueError as error:
        raise UsageError(str(error)) from error


def translate_inputs(
    model: Path,
    inputs: list[Path],
    *,
    languages: tuple[str | None, str | None],
    beam: int,
    length_penalty: float,
    n_best: int,
    maximum_seconds: float,
    batch_size: int,
    device: str,
    precision: str,
) -> None:
    """Translate files or standard input and print the result."""
    workspace = Workspace(output=Path(), device=device, precision=precision)
    search = search_for(beam, length_penalty, n_best)
    system = System.load(model, workspace.device)
    speech = "speech" in system.inputs
    items: Iterable[str | Path] = sound_files(inputs) if speech else lines(inputs)
    iterator = iter(items)
    while chunk := list(islice(iterator, CHUNK)):
        with workspace.autocast():
            found = system.translate(
                chunk,
                source_language=languages[0],
                target_language=languages[1],
                search=search,
                batch_size=batch_size,
                maximum_seconds=maximum_seconds,
            )
        for item, hypotheses in zip(chunk, found, strict=True):
            for hypothesis in hypotheses[:n_best]:
                cells = [str(item)] if speech else []
                cells += [f"{hypothesis.score:.4f}"] if n_best > 1 else []
                print("\t".join([*cells, hypothesis.texts[system.output_name].translate(ONE_LINE)]))
        sys.stdout.flush()


def sound_files(inputs: list[Path]) -> list[Path]:
    """Return the sound files among the inputs and in the folders among them, sorted within a folder."""
    if not inputs:
        raise UsageError("this system reads speech: give sound files, or folders of them")
    found: list[Path] = []
    for path in inputs:
        if path.is_dir():
            inside = sorted(file for file in path.rglob("*") if file.suffix.lower() in AUDIO_SUFFIXES)
            if not inside:
                raise DataError(f"{path}: holds no sound file ({', '.join(sorted(AUDIO_SUFFIXES))})")
            found += inside
        else:
            found.append(path)
    return found


def lines(inputs: list[Path]) -> Iterator[str]:
    """Yield the lines of text files, or of standard input if there are none; only a newline ends a line."""
    if not inputs:
        yield from _decoded(sys.stdin.buffer, "standard input")
    for path in inputs:
        try:
            with open(path, "rb") as file:
                yield from _decoded(file, str(path))
        except OSError as error:
            raise DataError(f"{path}: cannot be read ({error.strerror})") from error


def _decoded(file: Iterable[bytes], name: str) -> Iterator[str]:
    for number, line in enumerate(file, start=1):
        try:
            yield line.decode("utf-8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise DataError(f"{name}: line {number} is not UTF-8 (byte {error.object[error.start]:#04x})") from error


def evaluate_manifests(
    model: Path,
    manifests: list[Path],
    *,
    metrics: list[str],
    out: Path | None,
    beam: int,
    length_penalty: float,
    batch_size: int,
    device: str,
    precision: str,
    limit: int,
) -> None:
    """Translate manifests, print the scores, and write hypotheses and results if ``out`` is given."""
    log_to_terminal()
    check_metrics(metrics)
    if out is not None and limit:
        raise UsageError("--limit is for a quick look: without --out, since no part of a test is a result")
    search = search_for(beam, length_penalty)
    budget = Budget(rows=batch_size)
    command = " ".join(["dragoman", *sys.argv[1:]])
    workspace = Workspace(output=out or Path(), device=device, precision=precision, command=command, phase="evaluate")
    system = System.load(model, workspace.device)
    phase = Evaluate(
        model=str(model), manifests=[str(p) for p in manifests], search=search, budget=budget, metrics=metrics
    )
    with workspace.locked() if out is not None else nullcontext():
        for path in manifests:
            if out is not None:
                evaluation = phase.evaluate(system, path, workspace)
            else:
                manifest = Manifest.open(path)
                manifest = manifest.select(range(min(limit, len(manifest)))) if limit else manifest
                evaluation = evaluate_system(
                    system, manifest, search=search, budget=budget, metrics=metrics, workspace=workspace
                )
                for alarm in evaluation.alarms:
                    workspace.log.warning("%s: %s", path, alarm)
            print_scores(evaluation.scores, str(path))


def score_files(hypotheses: Path, references: list[Path], language: str, metrics: list[str]) -> None:
    """Score a file of hypotheses against one or more files of references."""
    check_metrics(metrics)
    streams = [list(lines([path])) for path in references]
    for path, stream in zip(references, streams, strict=True):
        if len(stream) != len(streams[0]):
            raise DataError(f"{path}: {len(stream)} lines, but {references[0]} has {len(streams[0])}")
    print_scores(
        score_texts(list(lines([hypotheses])), streams[0] if len(streams) == 1 else streams, language, metrics),
        str(hypotheses),
    )


def print_scores(scores: list[Score], name: str) -> None:
    """Print a line per score: name of what was scored, metric, value, lines, signature."""
    for item in scores:
        print(f"{name}\t{item.name}\t{item.value:.2f}\t{item.lines} lines\t{item.signature}")
