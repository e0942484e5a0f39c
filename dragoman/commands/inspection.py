"""Check a corpus or manifests: everything that is wrong or strange, counted by kind; nothing is written.

``prepare`` stops at errors; this goes on to the end, listens to every sample, compares splits, and gives warnings too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path

from dragoman.preparing.preparation import CHUNK, Progress, expected_rows, segments
from dragoman.preparing.probing import Examination, Pool, examine_segments
from dragoman.preparing.seen import Seen
from dragoman.shared.batches.manifest import Manifest, Row
from dragoman.shared.errors import DataError
from dragoman.shared.preparing.findings import TEXTS, Findings, row_errors, row_warnings
from dragoman.shared.preparing.reader import Corpus, SourceRow, is_training, passed_over, place
from dragoman.shared.text.lines import Unusable

#: The share by which a total may differ from a published one that is rounded (hours).
TOLERANCE = 0.01

Rows = Iterator[Row | Unusable]

#: Returns what is known of the sound files of the next chunk of rows, in the order in which they are checked.
Known = Callable[[list[Row | Unusable]], list[Examination]]


@dataclass
class Checked:
    """The result of a check: how much was examined, and what was found.

    Attributes:
        findings: by kind.
        rows: number of rows, bad ones too.
        seconds: of audio that can be used.
    """

    findings: Findings
    rows: int = 0
    seconds: float = 0.0


def check_corpus(
    corpus: Corpus,
    *,
    workers: int = 0,
    listen: bool = True,
    progress: Progress | None = None,
    known: Known | None = None,
) -> Checked:
    """Check all splits of a corpus as it lies on disk.

    Args:
        corpus: the reader.
        workers: processes that look into sound files; 0 means one per processor.
        listen: decode every sample (silent, clipped); otherwise only as much as tells that files are whole.
        progress: called as rows get done.
        known: what has been found in the sound files before, by other machines.
    """
    splits = splits_of(corpus)
    files = {split: str(corpus.inputs(split)[0]) for split in splits}
    checked = _check(splits, files, corpus.published, workers, listen, progress, expected_rows(corpus), known)
    for split in splits:
        for what, count in passed_over(corpus, split).items():
            checked.findings.add("passed over", "", f"{split}: {what}: {count:,}")
    return checked


def check_manifests(
    paths: Sequence[Path],
    *,
    workers: int = 0,
    listen: bool = True,
    progress: Progress | None = None,
    known: Known | None = None,
) -> Checked:
    """Check manifests; those whose file name begins with "train" are compared with the others.

    A sentence of a test is found in parallel text, and in text without translations by each of its sides.
    """
    splits = splits_of(paths)
    return _check(splits, {split: split for split in splits}, {}, workers, listen, progress, None, known)


def splits_of(target: Corpus | Sequence[Path]) -> dict[str, Callable[[], Rows]]:
    """Return what reads each split of a corpus, or each manifest, in the order in which they are checked."""
    splits: dict[str, Callable[[], Rows]] = (
        {str(path): partial(_manifest_rows, path) for path in target}
        if isinstance(target, Sequence)
        else {split: partial(target.rows, split) for split in target.splits()}
    )
    return {name: splits[name] for name in sorted(splits, key=lambda name: not is_training(Path(name).name))}


def _manifest_rows(path: Path) -> Rows:
    for number, row in enumerate(Manifest.open(path), 1):
        yield SourceRow(row, file=path, line=number)


def _check(
    splits: dict[str, Callable[[], Rows]],
    files: dict[str, str],
    published: Mapping[str, Mapping[str, float]],
    workers: int,
    listen: bool,
    progress: Progress | None,
    total: int | None,
    known: Known | None,
) -> Checked:
    checked = Checked(Findings())
    trained_on = _Content()
    with Pool(workers) as pool:
        for split, rows in splits.items():
            work = _Split(checked, trained_on, training=is_training(Path(split).name))
            before = checked.rows, checked.seconds
            broken: list[DataError] = []
            try:
                chunks = ((items, segments(items), known and known(items)) for items in chunks_of(rows, broken))
                for items, examinations in pool.check(partial(examine_segments, listen=listen), chunks):
                    work.take(items, examinations)
                    if progress:
                        progress(checked.rows, total)
            except DataError as error:
                broken.append(error)
            if broken:
                checked.findings.add("broken files", "", str(broken[0]))
                continue
            work.finish()
            if checked.rows == before[0]:
                checked.findings.add("no rows", "", f"{files[split]}: no rows")
            counts = {"rows": checked.rows - before[0], "hours": (checked.seconds - before[1]) / 3600}
            _compare(checked.findings, split, counts, published.get(split, {}))
    return checked


def chunks_of(rows: Callable[[], Rows], broken: list[DataError]) -> Iterator[list[Row | Unusable]]:
    """Yield the rows of a split in chunks; an error that ends them is noted, so that those before it are all taken."""
    try:
        reading = rows()
        while items := list(islice(reading, CHUNK)):
            yield items
    except DataError as error:
        broken.append(error)


class _Split:
    """The state of the checks within one split: whether it is for training, and the ids in it."""

    def __init__(self, checked: Checked, trained_on: _Content, *, training: bool) -> None:
        self.checked = checked
        self.trained_on = trained_on
        self.training = training
        self.ids = Seen()
        self.rows = 0
        self.lacking = {column: Findings() for column in TEXTS}

    def take(self, items: list[Row | Unusable], examinations: list[Examination]) -> None:
        """Check a chunk of rows."""
        findings = self.checked.findings
        rows = []
        for item, (duration, problems) in zip(items, examinations, strict=True):
            self.checked.rows += 1
            self.checked.seconds += duration or 0.0
            if isinstance(item, Unusable):
                findings.add("broken lines", place(item), item.reason)
                continue
            rows.append(item)
            for column in TEXTS:
                if item.get(column) is None:
                    self.lacking[column].add("missing text", place(item), f"row {item['id']}: no {column}")
            for kind, detail, column in (*row_errors(item), *problems, *row_warnings(item, duration)):
                findings.add(kind, place(item, column), f"row {item['id']}: {detail}")
        lines = [row.line if isinstance(row, SourceRow) else 0 for row in rows]
        for row, before in zip(rows, self.ids.add([row["id"] or "" for row in rows], lines), strict=True):
            if before is not None and row["id"]:
                findings.add("duplicate id", place(row), f"id {row['id']!r} is already used in line {before}")
        self.rows += len(rows)
        if self.training:
            self.trained_on.add(rows, lines)
        else:
            self.trained_on.compare(rows, findings)

    def finish(self) -> None:
        """Report the rows without a text that other rows of the split have."""
        for lacking in self.lacking.values():
            if lacking.warnings < self.rows:
                self.checked.findings.update(lacking)


class _Content:
    """The texts and segments that training has."""

    def __init__(self) -> None:
        self._seen = {"text": Seen(), "audio": Seen()}
        self._monolingual = Seen()

    def add(self, rows: list[Row], lines: list[int]) -> None:
        """Note rows of a training split."""
        alone = [(keys, line) for row, line in zip(rows, lines, strict=True) if (keys := _monolingual_keys(row))]
        self._monolingual.add([key for [key], _ in alone], [line for _, line in alone])
        for kind, seen in self._seen.items():
            keyed = [(key, line) for row, line in zip(rows, lines, strict=True) if (key := _KEYS[kind](row))]
            seen.add([key for key, _ in keyed], [line for _, line in keyed])

    def compare(self, rows: list[Row], findings: Findings) -> None:
        """Look for rows of another split."""
        for kind, seen in self._seen.items():
            keyed = [(key, row) for row in rows if (key := _KEYS[kind](row))]
            for (key, row), line in zip(keyed, seen.find([key for key, _ in keyed]), strict=True):
                if line is not None:
                    shown = " / ".join(key.split("\0"))[:120]
                    findings.add(
                        f"{kind} in train and test", place(row), f"row {row['id']}: line {line} of train: {shown}"
                    )
        sides = [(row, column, key) for row in rows for column, key in _sentence_keys(row).items()]
        places = self._monolingual.find([key for _, _, key in sides])
        for (row, column, _), line in zip(sides, places, strict=True):
            if line is not None:
                detail = f"row {row['id']}: line {line} of text without translations: {row[column][:120]}"
                findings.add("test sentence in monolingual text", place(row, column), detail)


def _sentence_keys(row: Row) -> dict[str, str]:
    """Return each text of a row with its language, by column."""
    languages = {column: row.get(column.replace("_text", "_language")) for column in TEXTS}
    return {column: f"{languages[column]}\0{row[column]}" for column in TEXTS if row.get(column)}


def _monolingual_keys(row: Row) -> list[str]:
    """Return the text of a row that has neither sound nor another text, as a list; [] for other rows."""
    keys = [*_sentence_keys(row).values()]
    return keys if len(keys) == 1 and row.get("audio") is None else []


def _text_key(row: Row) -> str:
    texts = [row.get(column) or "" for column in TEXTS]
    return "\0".join(texts) if all(texts) else ""


def _audio_key(row: Row) -> str:
    if row.get("audio") is None:
        return ""
    start, duration = row.get("start") or 0.0, row.get("duration")
    return f"{row['audio']}\0{start:.3f}\0{'' if duration is None else f'{duration:.3f}'}"


_KEYS: dict[str, Callable[[Row], str]] = {"text": _text_key, "audio": _audio_key}


def _compare(findings: Findings, split: str, counts: dict[str, float], published: Mapping[str, float]) -> None:
    """Compare totals with published ones: a title is "rows" or "hours" and perhaps a remark."""
    for title, number in published.items():
        count = counts.get(title.split()[0])
        if count is not None and abs(count - number) > TOLERANCE * number * (title.split()[0] == "hours"):
            findings.add(
                "published counts", "", f"{split}: {count:,.10g} {title.split()[0]}, published {title}: {number:,.10g}"
            )
