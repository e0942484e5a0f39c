"""Preparing on several machines with a common disk: each looks into its share of the sound files.

All machines read the texts, which is quick, and take turns with the chunks of rows. What each found stands in a journal
beside the manifest; whoever finds the journals of all complete writes the manifests, as a single run would: they are
the same, byte for byte. ``prepare`` without a shard does so too, and looks at whatever is missing.
"""

from __future__ import annotations

from pathlib import Path

from dragoman.commands.shard_numbers import Shard, Waiting
from dragoman.preparing.finished import Finished
from dragoman.preparing.preparation import (
    Allowed,
    Progress,
    Split,
    expected_rows,
    finished_reports,
    prepare_locked,
)
from dragoman.preparing.probing import Pool
from dragoman.preparing.report import SplitReport
from dragoman.shared.machine.files import locked
from dragoman.shared.preparing.reader import Corpus
from dragoman.shared.sound.audio import END_TOLERANCE


def prepare_shard(
    corpus: Corpus,
    out: str | Path,
    *,
    shard: Shard,
    workers: int = 0,
    progress: Progress | None = None,
    skip_bad: bool = False,
    end_tolerance: float = END_TOLERANCE,
) -> list[SplitReport] | Waiting:
    """Do the share of one machine; the last one to be done writes the manifests.

    Args:
        corpus: the reader, the same on all machines.
        out: the folder for all manifests, on a disk that all machines see.
        shard: number of this machine, and how many there are.
        workers: as in :func:`dragoman.preparing.preparation.prepare`, like what follows.
        progress: called as rows get done.
        skip_bad: leave bad rows out of training splits.
        end_tolerance: seconds by which a segment may run past the end of its recording.

    Returns:
        A report per split, or which machines have yet to finish.

    Raises:
        DataError: for rows of this share that cannot be used.
    """
    folder = Path(out) / corpus.folder
    number, of = shard
    allowed = Allowed(skip_bad, end_tolerance)
    reports = finished_reports(corpus, folder, allowed)
    if reports is not None:
        return reports
    with locked(folder / f".{number}-of-{of}.lock"), Pool(workers) as pool:
        finished = Finished(folder / "prepared.json")
        total, done = expected_rows(corpus), 0
        for split in corpus.splits():
            work = Split(corpus, split, folder, pool, allowed)
            part = work.part(number, of)
            part.read()
            if work.earlier(finished) is None and not part.complete:

                def tell(rows: int, before: int = done) -> None:
                    if progress:
                        progress(before + rows, total and total // of)

                work.look(part, lambda chunk: chunk % of == number - 1, tell)
                done += work.seen
    with locked(folder / ".prepare.lock"):
        missing = _missing(corpus, folder, of, allowed)
        if missing:
            return Waiting(missing)
        return prepare_locked(corpus, folder, allowed, workers=workers, progress=progress)


def _missing(corpus: Corpus, folder: Path, of: int, allowed: Allowed) -> list[int]:
    """Return the numbers of the machines of which some split's part is not complete."""
    finished = Finished(folder / "prepared.json")
    missing = set()
    with Pool(1) as pool:
        for split in corpus.splits():
            work = Split(corpus, split, folder, pool, allowed)
            if work.earlier(finished) is None:
                for number in range(1, of + 1):
                    part = work.part(number, of)
                    part.read()
                    if not part.complete:
                        missing.add(number)
    return sorted(missing)
