"""Prepare a corpus: every row checked and counted once, in parallel, and written to a manifest per split.

Reading texts is quick and stays in one process; what takes long, looking into sound files, goes in chunks of rows to a
pool of processes. What a chunk found is noted in a journal beside the manifest, so that an interrupted split goes on
where it stopped; a finished split is kept as long as the corpus' settings and files do not change.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

from shared import languages
from shared.corpus.manifest import Manifest, Row
from shared.corpus.probing import Finding, Journal, Pool, Segment
from shared.corpus.report import NAMED, SplitReport, render
from shared.described import describe
from shared.errors import DataError
from shared.files import replaced_file

__all__ = ["CHUNK", "Corpus", "Progress", "SplitReport", "Unusable", "prepare", "render"]

#: Rows per task and per line of the journal.
CHUNK = 256

#: Training rows with an empty text are left out and listed; more than this share (and more than ten) is an error.
EMPTY_SHARE = 0.05

#: Called with the rows done and the rows expected (None if not known), over all splits.
Progress = Callable[[int, "int | None"], None]

_VERSION = 1


@dataclass(frozen=True)
class Unusable:
    """What a reader gives in place of a row that it cannot make; ``reason`` names file, line and value."""

    reason: str


class Corpus(Protocol):
    """A reader. A class that inherits :class:`shared.described.Described` has ``arguments`` already."""

    name: str
    #: Subfolder of the output for this instance: "en-de", or "" for none.
    folder: str
    #: The constructor's arguments: with other ones, the corpus is prepared anew.
    arguments: dict[str, Any]
    #: Split -> column title -> number that the makers published.
    published: dict[str, dict[str, float]]

    def splits(self) -> list[str]:
        """Return the names of the splits."""
        ...

    def inputs(self, split: str) -> list[Path]:
        """Return the text files that the rows are made from: when one changes, the split is prepared anew."""
        ...

    def count(self, split: str) -> int | None:
        """Return how many rows are to be expected, if that is quickly known, for a progress bar."""
        ...

    def rows(self, split: str) -> Iterator[Row | Unusable]:
        """Go through the rows; ``duration`` may be None where the audio is a whole file."""
        ...


def prepare(
    corpus: Corpus, out: str | Path, *, workers: int = 0, progress: Progress | None = None, skip: float = 0.0
) -> list[SplitReport]:
    """Write ``<out>/<corpus.folder>/<split>.arrow`` for every split, and ``prepared.json``.

    Args:
        corpus: the reader.
        out: the folder for all manifests; one process at a time may write there.
        workers: processes that look into sound files; 0 means one per processor.
        progress: called as rows get done.
        skip: the share of a training split's rows that may be left out because they cannot be used (a missing or
            broken clip). From other splits nothing is ever left out.

    Returns:
        A report per split, in the order of ``corpus.splits()``.

    Raises:
        DataError: for rows that cannot be used (their number and the first few), for texts that are empty in more
            than ``EMPTY_SHARE`` of a training split, and for whatever the reader finds wrong.

    """
    if not 0 <= skip < 1:
        raise ValueError(f"skip is a share of rows, from 0 up to 1, not {skip}")
    folder = Path(out) / corpus.folder
    folder.mkdir(parents=True, exist_ok=True)
    finished = _Finished(folder / "prepared.json")
    splits = corpus.splits()
    expected = [corpus.count(split) for split in splits]
    known = [count for count in expected if count is not None]
    total = sum(known) if len(known) == len(expected) else None
    tell: Progress = progress or (lambda done, total: None)
    done, reports = 0, []
    with Pool(workers) as pool:
        for split in splits:
            path = folder / f"{split}.arrow"
            fingerprint = _fingerprint(corpus, split, skip)
            report = finished.get(split, fingerprint, path)
            if report is None:
                work = _Split(corpus, split, path, fingerprint, pool, skip)
                report = work.run(lambda rows, before=done: tell(before + rows, total))  # type: ignore[misc]
                finished.add(corpus, split, fingerprint, report)
                work.journal.remove()
            reports.append(report)
            done += report.rows + report.empty + report.unusable
            tell(done, total)
    return reports


class _Split:
    """The preparation of one split."""

    def __init__(self, corpus: Corpus, split: str, path: Path, fingerprint: str, pool: Pool, skip: float) -> None:
        self.corpus, self.split, self.pool, self.path = corpus, split, pool, path
        self.training = split.startswith("train")
        self.skip = skip if self.training else 0.0
        self.journal = Journal(path.with_name(f".{path.name}.journal"), fingerprint)
        self.report = SplitReport(split, str(path), published=dict(corpus.published.get(split, {})))
        self.speakers: set[str] = set()
        self.seen = 0

    def run(self, progress: Callable[[int], None]) -> SplitReport:
        """Write the manifest, and return what was counted on the way."""
        for left in self.path.parent.glob(f".{self.path.name}.*.tmp"):  # by a kill
            left.unlink()
        with self.journal:
            Manifest.write(self.path, self._rows(progress))
        self.report.speakers = len(self.speakers)
        return self.report

    def _rows(self, progress: Callable[[int], None]) -> Iterator[Row]:
        """Yield the rows that go into the manifest; raise at the end if too many cannot."""
        for (number, items), findings in self.pool.check(self._chunks()):
            for item, finding in zip(items, findings, strict=True):
                self.seen += 1
                if isinstance(item, Unusable):
                    self._unusable(item.reason)
                elif isinstance(finding, str):
                    self._unusable(f"row {item['id']}: {finding}")
                elif not any(item.get(column) is not None for column in ("audio", "source_text", "target_text")):
                    self._unusable(f"row {item['id']}: neither audio nor text")
                elif self._take(item, finding):
                    yield item
            if not any(isinstance(finding, str) for finding in findings):
                self.journal.add(number, findings)
            progress(self.seen)
        if self.report.unusable > self.skip * self.seen:
            raise self._error("cannot be used", self.report.unusable)
        if self.report.empty > max(10, EMPTY_SHARE * self.seen):
            raise self._error("have an empty text", self.report.empty)
        if not self.report.rows:
            raise self._error("are left", 0)

    def _chunks(self) -> Iterator[tuple[tuple[int, list[Row | Unusable]], list[Segment], list[Finding] | None]]:
        stream = self.corpus.rows(self.split)
        number = 0
        while items := list(islice(stream, CHUNK)):
            segments: list[Segment] = [
                (None, None, None)
                if isinstance(item, Unusable)
                else (item.get("audio"), item.get("start"), item.get("duration"))
                for item in items
            ]
            yield (number, items), segments, self.journal.chunks.get(number)
            number += 1

    def _take(self, row: Row, duration: float | None) -> bool:
        """Complete and count a row; False if it is left out because a text of it is empty."""
        report = self.report
        source, target = row.get("source_text"), row.get("target_text")
        if self.training and any(text is not None and not text.strip() for text in (source, target)):
            report.empty += 1
            self._example(
                f"row {row['id']}: {'source' if source is not None and not source.strip() else 'target'} empty"
            )
            return False
        if duration is not None:
            announced = row.get("duration")
            report.clipped += announced is not None and duration < announced
            report.seconds += duration
            row["start"], row["duration"] = row.get("start") or 0.0, duration
        report.rows += 1
        report.source_words += _words(source, row.get("source_language"))
        report.target_words += _words(target, row.get("target_language"))
        if row.get("speaker"):
            self.speakers.add(row["speaker"])
        return True

    def _unusable(self, reason: str) -> None:
        self.report.unusable += 1
        self._example(reason)

    def _example(self, reason: str) -> None:
        if len(self.report.examples) < NAMED:
            self.report.examples.append(reason)

    def _error(self, what: str, count: int) -> DataError:
        name = "/".join(part for part in (self.corpus.name, self.corpus.folder, self.split) if part)
        named = "; ".join(self.report.examples)
        more = "; ..." if self.report.empty + self.report.unusable > len(self.report.examples) else ""
        return DataError(f"{name}: {count} of {self.seen} rows {what}{named and ': '}{named}{more}")


def _words(text: str | None, language: str | None) -> int:
    if text is None:
        return 0
    return len(text.split()) if language is None or _spaced(language) else sum(not sign.isspace() for sign in text)


_spaced = cache(languages.spaced)


class _Finished:
    """The splits that are done, in ``prepared.json``."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.splits: dict[str, Any] = {}
        if path.exists():
            try:
                self.splits = json.loads(path.read_text(encoding="utf-8"))["splits"]
            except (ValueError, KeyError, TypeError) as error:
                raise DataError(f"{path}: not what prepare writes ({error}); delete it to prepare anew") from error

    def get(self, split: str, fingerprint: str, path: Path) -> SplitReport | None:
        """Return the report of a split if nothing has changed since and its manifest is the one written then."""
        entry = self.splits.get(split)
        if entry is None or entry["fingerprint"] != fingerprint or not path.exists():
            return None
        try:
            if Manifest.open(path).fingerprint != entry["manifest"]:
                return None
        except DataError:  # damaged: it is written again
            return None
        return SplitReport(**entry["report"] | {"path": str(path)})

    def add(self, corpus: Corpus, split: str, fingerprint: str, report: SplitReport) -> None:
        """Note a split as done."""
        self.splits[split] = {
            "fingerprint": fingerprint,
            "manifest": Manifest.open(Path(report.path)).fingerprint,
            "report": report.to_json(),
        }
        content = {"corpus": corpus.name, "arguments": describe(corpus.arguments), "splits": self.splits}
        with replaced_file(self.path) as temporary:
            temporary.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _fingerprint(corpus: Corpus, split: str, skip: float) -> str:
    """Return a hash of the reader, its settings, and the names, sizes and times of the split's text files."""
    files = []
    for path in corpus.inputs(split):
        try:
            status = path.stat()
        except OSError as error:
            raise DataError(f"{path}: cannot be read ({error.strerror})") from error
        files.append([str(path.resolve()), status.st_size, status.st_mtime_ns])
    content = [_VERSION, corpus.name, describe(corpus.arguments), split, skip, files]
    return hashlib.blake2b(json.dumps(content, sort_keys=True).encode(), digest_size=16).hexdigest()
