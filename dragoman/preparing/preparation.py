"""Prepare a corpus: every row checked and counted once, in parallel, and written to a manifest per split.

Reading texts is quick and stays in one process; what takes long, looking into sound files, goes in chunks of rows to a
pool of processes. What a chunk found is noted in a journal beside the manifest, so that an interrupted split goes on
where it stopped; a finished split is kept as long as the corpus' settings and files do not change. Several machines can
share the looking (dragoman/commands/prepare_shard.py).
"""

from __future__ import annotations

import glob
import hashlib
import json
from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import islice
from pathlib import Path
from reprlib import repr as shown
from typing import IO, NamedTuple

from dragoman.preparing.finished import Finished
from dragoman.preparing.journal import Journal
from dragoman.preparing.probing import Finding, Pool, Segment, check_segments
from dragoman.preparing.report import NAMED, SplitReport
from dragoman.preparing.seen import Seen
from dragoman.shared.batches.manifest import Manifest, Row
from dragoman.shared.described import describe
from dragoman.shared.errors import DataError
from dragoman.shared.machine.files import forget_left, locked, replaced_file
from dragoman.shared.machine.remote import remote_stamp, uri_of
from dragoman.shared.preparing.findings import TEXTS, Problem, row_errors
from dragoman.shared.preparing.reader import Corpus, SourceRow, is_training, passed_over, place, source
from dragoman.shared.sound.audio import END_TOLERANCE
from dragoman.shared.text import languages
from dragoman.shared.text.lines import Unusable
from dragoman.shared.text.surrogates import printable

#: Rows per task and per line of the journal.
CHUNK = 256

#: Training rows with an empty text are left out and listed; more than this share (and more than ten) is an error.
EMPTY_SHARE = 0.05

#: If bad training rows may be left out, more than this share of them (and more than ten) is still an error.
BAD_SHARE = 0.25

#: Called with the rows done and the rows expected (None if not known), over all splits.
Progress = Callable[[int, "int | None"], None]

_VERSION = 2


class Allowed(NamedTuple):
    """The faults that a corpus may have.

    Attributes:
        skip_bad: training rows that cannot be used are left out.
        end_tolerance: seconds by which a segment may run past the end of its recording.
    """

    skip_bad: bool
    end_tolerance: float


def prepare(
    corpus: Corpus,
    out: str | Path,
    *,
    workers: int = 0,
    progress: Progress | None = None,
    skip_bad: bool = False,
    end_tolerance: float = END_TOLERANCE,
) -> list[SplitReport]:
    """Write ``<out>/<corpus.folder>/<split>.arrow`` for every split, and ``prepared.json``.

    Rows of a training split that are left out are listed in ``<split>.skipped.tsv`` beside its manifest.

    Args:
        corpus: the reader.
        out: the folder for all manifests; a second process that prepares the same waits for the first. If all splits
            are prepared, nothing is written: the disk may be read-only.
        workers: processes that look into sound files; 0 means one per processor.
        progress: called as rows get done.
        skip_bad: leave rows out of training splits that cannot be used (a missing or broken clip, a broken line). From
            other splits nothing is ever left out.
        end_tolerance: seconds by which a segment may run past the end of its recording; it is then cut there.

    Returns:
        A report per split, in the order of ``corpus.splits()``.

    Raises:
        DataError: for rows that cannot be used (their number and the first few), for texts that are empty in more
            than ``EMPTY_SHARE`` of a training split, and for whatever the reader finds wrong.
    """
    folder = Path(out) / corpus.folder
    allowed = Allowed(skip_bad, end_tolerance)
    reports = finished_reports(corpus, folder, allowed)
    if reports is not None:
        done = sum(report.total for report in reports)
        (progress or _silent)(done, done)
        return reports
    with locked(folder / ".prepare.lock"):
        return prepare_locked(corpus, folder, allowed, workers=workers, progress=progress)


def finished_reports(corpus: Corpus, folder: Path, allowed: Allowed) -> list[SplitReport] | None:
    """Return the reports of all splits if each is prepared and nothing has changed since, otherwise None."""
    finished = Finished(folder / "prepared.json")
    reports = []
    with Pool(1) as pool:
        for split in corpus.splits():
            report = Split(corpus, split, folder, pool, allowed).earlier(finished)
            if report is None:
                return None
            reports.append(report)
    return reports


def prepare_locked(
    corpus: Corpus, folder: Path, allowed: Allowed, *, workers: int, progress: Progress | None
) -> list[SplitReport]:
    """Do what :func:`prepare` does in a folder in which no other process is at work."""
    forget_left(folder / "prepared.json")
    finished = Finished(folder / "prepared.json")
    tell, total = progress or _silent, expected_rows(corpus)
    done, reports = 0, []
    with Pool(workers) as pool:
        for split in corpus.splits():
            work = Split(corpus, split, folder, pool, allowed)
            report = work.earlier(finished)
            if report is None:
                report = work.write(lambda rows, before=done: tell(before + rows, total))  # type: ignore[misc]
                finished.add(split, work.fingerprint, report, corpus)
            work.clear()
            reports.append(report)
            done += report.total
            tell(done, total)
    return reports


def expected_rows(corpus: Corpus) -> int | None:
    """Return how many rows all splits have together, None if that is not known."""
    expected = [corpus.count(split) for split in corpus.splits()]
    counts = [count for count in expected if count is not None]
    return sum(counts) if len(counts) == len(expected) else None


def _silent(done: int, total: int | None) -> None:
    pass


class Split:
    """The preparation of one split.

    Attributes:
        path: the manifest.
        fingerprint: hash of all that the manifest follows from.
        report: what has been counted so far.
        seen: rows gone through, bad ones too.
    """

    def __init__(self, corpus: Corpus, split: str, folder: Path, pool: Pool, allowed: Allowed) -> None:
        self.corpus = corpus
        self.split = split
        self.pool = pool
        self.path = folder / f"{split}.arrow"
        self.skip_bad = allowed.skip_bad and is_training(split)
        self._look = partial(check_segments, end_tolerance=allowed.end_tolerance)
        self.fingerprint = _fingerprint(corpus, split, allowed)
        self.report = SplitReport(split, str(self.path), published=dict(corpus.published.get(split, {})))
        self.journal = Journal(self.path.with_name(f".{self.path.name}.journal"), self.fingerprint)
        self._parts: list[Journal] = []
        self._speakers: set[str] = set()
        self._ids = Seen()
        self.seen = 0
        self._list: IO[str] | None = None

    def earlier(self, finished: Finished) -> SplitReport | None:
        """Return the report on the split as it was prepared before; None if it has to be prepared."""
        return finished.get(self.split, self.fingerprint, self.path)

    def part(self, number: int, of: int) -> Journal:
        """Return the journal of one of several machines."""
        return Journal(self.path.with_name(f".{self.path.name}.{number}-of-{of}.part"), self.fingerprint)

    def _part_files(self) -> list[Path]:
        return list(self.path.parent.glob(f".{glob.escape(self.path.name)}.*.part"))

    def write(self, progress: Callable[[int], None]) -> SplitReport:
        """Write the manifest and the list of what is not in it, and return what was counted on the way."""
        skipped = self.path.with_name(f"{self.split}.skipped.tsv")
        forget_left(self.path)
        forget_left(skipped)
        for part in self._part_files():
            self._parts.append(Journal(part, self.fingerprint))
            self._parts[-1].read()
        with self.journal, replaced_file(skipped) as temporary:
            with open(temporary, "w", encoding="utf-8", errors="backslashreplace") as self._list:
                self._list.write("id\tfile\tline\treason\n")
                Manifest.write(self.path, self._rows(progress))
        if not self.report.left_out:
            skipped.unlink()
        self.report.speakers = len(self._speakers)
        self.report.passed_over = passed_over(self.corpus, self.split)
        return self.report

    def look(self, part: Journal, mine: Callable[[int], bool], progress: Callable[[int], None]) -> None:
        """Look only at the chunks whose number is ``mine``, and note in ``part`` what is found.

        Raises:
            DataError: for rows among them that cannot be used.
        """
        with part:
            self._parts = [part]
            for number, items, findings in self._examined(mine):
                for item, finding in zip(items, findings, strict=True):
                    self.seen += 1
                    self._usable(item, finding, None)
                part.add(number, findings)
                progress(self.seen)
            self._complain()
            part.finish()

    def clear(self) -> None:
        """Delete the journals, of other machines too: the split is finished."""
        for journal in (self.journal.path, *self._part_files()):
            journal.unlink(missing_ok=True)

    def _rows(self, progress: Callable[[int], None]) -> Iterator[Row]:
        """Yield the rows that go into the manifest; raise at the end if too many cannot."""
        for number, items, findings in self._examined(lambda number: True):
            places = [item.line if isinstance(item, SourceRow) else self.seen + i for i, item in enumerate(items, 1)]
            ids = ["" if isinstance(item, Unusable) else _id(item) for item in items]
            for item, finding, before in zip(items, findings, self._ids.add(ids, places), strict=True):
                self.seen += 1
                if self._usable(item, finding, before) and isinstance(item, dict) and self._take(item, finding):
                    yield item
            self.journal.add(number, findings)
            progress(self.seen)
        self._complain()
        if not self.report.rows:
            raise self._error("are left", 0)

    def _examined(self, mine: Callable[[int], bool]) -> Iterator[tuple[int, list[Row | Unusable], list[Finding]]]:
        """Yield the number, the rows and the findings of each chunk that is ``mine``."""
        for (number, items), findings in self.pool.check(self._look, self._chunks(mine)):
            yield number, items, findings

    def _chunks(
        self, mine: Callable[[int], bool]
    ) -> Iterator[tuple[tuple[int, list[Row | Unusable]], list[Segment], list[Finding] | None]]:
        stream = self.corpus.rows(self.split)
        number = 0
        while items := list(islice(stream, CHUNK)):
            if mine(number):
                entries = (journal.find(number, len(items)) for journal in (self.journal, *self._parts))
                yield (number, items), segments(items), next((entry for entry in entries if entry is not None), None)
            number += 1

    def _usable(self, item: Row | Unusable, finding: Finding, before: int | None) -> bool:
        """Tell whether a row can be used; if not, count and list it. ``before``: the place of another with its id."""
        if isinstance(item, Unusable):
            problem: Problem | None = Problem("broken lines", item.reason)
        elif before is not None and _id(item):
            problem = Problem("duplicate id", f"id {shown(item['id'])} is already used in line {before}")
        else:
            problem = next(row_errors(item), None)
        if problem is None and isinstance(finding, str):
            problem = Problem("unreadable audio", finding)
        if problem is not None:
            self.report.unusable += 1
            self._leave_out(item, problem.detail, problem.column)
        return problem is None

    def _take(self, row: Row, finding: Finding) -> bool:
        """Complete and count a row; False if it is left out because a text of it is empty."""
        report = self.report
        empty = [column for column in TEXTS if row.get(column) is not None and not row[column].strip()]
        if empty and is_training(self.split):
            report.empty += 1
            self._leave_out(row, f"{empty[0].removesuffix('_text')} empty", empty[0])
            return False
        if isinstance(finding, float):
            announced = row.get("duration")
            report.clipped += announced is not None and finding < announced
            report.seconds += finding
            row["start"], row["duration"] = row.get("start") or 0.0, finding
        report.rows += 1
        report.source_words += _words(row.get("source_text"), row.get("source_language"))
        report.target_words += _words(row.get("target_text"), row.get("target_language"))
        if row.get("speaker"):
            self._speakers.add(row["speaker"])
        return True

    def _leave_out(self, item: Row | Unusable, reason: str, column: str = "") -> None:
        if len(self.report.examples) < NAMED:
            example = f"{place(item, column)}{_id(item) and f'row {_id(item)[:60]}: '}{reason}"
            self.report.examples.append(printable(example))
        if self._list is not None:
            cells = [_id(item), *("" if part is None else str(part) for part in source(item, column)), reason]
            self._list.write("\t".join(" ".join(cell.split()) for cell in cells) + "\n")

    def _complain(self) -> None:
        """Raise if too many rows cannot be used."""
        report = self.report
        if report.unusable and not self.skip_bad:
            raise self._error("cannot be used", report.unusable)
        if report.unusable > max(10, BAD_SHARE * self.seen):
            raise self._error(f"(more than {BAD_SHARE:.0%}) cannot be used", report.unusable)
        if report.empty > max(10, (BAD_SHARE if self.skip_bad else EMPTY_SHARE) * self.seen):
            raise self._error("have an empty text", report.empty)

    def _error(self, what: str, count: int) -> DataError:
        name = "/".join(part for part in (self.corpus.name, self.corpus.folder, self.split) if part)
        named = "; ".join(self.report.examples or map(str, self.corpus.inputs(self.split)[:NAMED]))
        more = "; ..." if self.report.left_out > len(self.report.examples) else ""
        return DataError(f"{name}: {count} of {self.seen} rows {what}{named and ': '}{named}{more}")


def segments(items: list[Row | Unusable]) -> list[Segment]:
    """Return where the audio of rows is."""
    return [
        (None, None, None)
        if isinstance(item, Unusable)
        else (item.get("audio"), item.get("start"), item.get("duration"))
        for item in items
    ]


def _id(item: Row | Unusable) -> str:
    return item.id if isinstance(item, Unusable) else str(item.get("id") or "")


def _words(text: str | None, language: str | None) -> int:
    if text is None:
        return 0
    return len(text.split()) if language is None or _spaced(language) else sum(not sign.isspace() for sign in text)


_spaced = cache(languages.spaced)


def file_stamp(path: Path) -> list[str | int]:
    """Return the name, the size and the time of a file, on a disk or by URI, by which a changed one is noticed.

    Raises:
        DataError: if it cannot be read.
    """
    uri = uri_of(path)
    if uri is not None:
        return [uri, *remote_stamp(uri)]
    try:
        status = path.stat()
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from error
    return [str(path.resolve()), status.st_size, status.st_mtime_ns]


def _fingerprint(corpus: Corpus, split: str, allowed: Allowed) -> str:
    """Return a hash of the reader, its settings, and the names, sizes and times of the split's text files."""
    files = [file_stamp(path) for path in corpus.inputs(split)]
    content = [_VERSION, corpus.name, describe(corpus.arguments), split, allowed.skip_bad, files]
    edition = getattr(corpus, "edition", 0)
    if edition or allowed.end_tolerance != END_TOLERANCE:  # what was prepared before there were any stays finished
        content += [edition, allowed.end_tolerance]
    return hashlib.blake2b(json.dumps(content, sort_keys=True).encode(), digest_size=16).hexdigest()
