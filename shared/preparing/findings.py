"""Kinds of fault that a row can have, their severity, and the checks that need nothing but the row.

An error is what ``prepare`` stops at (or leaves out of a training split, if it may); a warning is what a person should
look at once. Published corpora have warnings: recordings that are too loud, sentences that need no translation.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from reprlib import repr as shown
from typing import NamedTuple

from dragoman.shared.batches.manifest import Row
from dragoman.shared.preparing.placeholders import differing
from dragoman.shared.text.languages import LANGUAGES, spaced
from dragoman.shared.text.surrogates import find_surrogate, printable


class Problem(NamedTuple):
    """A finding about one row.

    Attributes:
        kind: of :data:`ERRORS` or :data:`WARNINGS`.
        detail: what is wrong, with the value.
        column: of the row, if it is about one.
    """

    kind: str
    detail: str
    column: str = ""


ERRORS = (
    "broken files",  # line counts that differ, no yaml, a missing column: the split cannot be read
    "no rows",  # a table with nothing but its header, an empty text, a manifest of nothing
    "broken lines",  # a line of a table that cannot become a row
    "missing audio",
    "unreadable audio",  # no samples, cut off, not sound, not a number
    "segment outside its file",
    "neither audio nor text",
    "invalid UTF-8",
    "text too long",
    "unknown language",
    "missing id",
    "duplicate id",
)
WARNINGS = (
    "segment cut at the end",
    "damaged audio",  # mp3 frames that the decoder replaces by something
    "silent audio",
    "cancelling channels",  # the mean of which has next to nothing of them
    "clipped audio",
    "short audio",
    "implausible duration",
    "implausible length ratio",
    "missing text",  # that other rows of the split have
    "empty text",
    "untranslated text",
    "placeholders differ",
    "control characters",
    "text in train and test",
    "test sentence in monolingual text",
    "audio in train and test",
    "passed over",  # by the reader: blank lines, sentences without a translation, files that it does not read
    "published counts",
)

TEXTS = ("source_text", "target_text")

#: Characters of a text; a longer one is a file without line ends. It is also the limit of Python's csv.
LONGEST_TEXT = 131072

#: Seconds below which a recording is short: there is hardly a word of 0.1 s.
SHORTEST = 0.1

#: Letters a second. Fast speech has 25 in alphabetic scripts; characters of other scripts count for three.
FASTEST, SLOWEST = 40.0, 1.0

#: Texts do not match if the longer one has more letters than RATIO_FROM, and more than RATIO times the other one's.
RATIO_FROM, RATIO = 40, 4.0

_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffd]")
_SHOWN = 60


def row_errors(row: Row) -> Iterator[Problem]:
    """Yield the errors of a row that can be seen without its audio."""
    if not row.get("id"):
        yield Problem("missing id", f"id is {shown(row.get('id'))}")
    if row.get("audio") is None and all(row.get(column) is None for column in TEXTS):
        yield Problem("neither audio nor text", "neither audio nor text")
    for column, text in row.items():
        if isinstance(text, str) and (broken := find_surrogate(text)):
            byte = ord(broken[0]) - 0xDC00
            value = f"byte 0x{byte:02x}" if 0x80 <= byte <= 0xFF else f"U+{ord(broken[0]):04X}"
            detail = f"{column} is not UTF-8 ({value} at character {broken.start()}): {_show(text)}"
            yield Problem("invalid UTF-8", detail, column)
    for column in TEXTS:
        text = row.get(column) or ""
        if len(text) > LONGEST_TEXT:
            detail = f"{column} has {len(text):,} characters, more than {LONGEST_TEXT:,}: {_show(text)}"
            yield Problem("text too long", detail, column)
    for column in ("source_language", "target_language"):
        code = row.get(column)
        if code is not None and code not in LANGUAGES:
            yield Problem("unknown language", f"{column} is {shown(code)}")


def row_warnings(row: Row, duration: float | None) -> Iterator[Problem]:
    """Yield what is strange about a row's texts, by themselves, side by side, and for ``duration`` seconds."""
    for column in TEXTS:
        text = row.get(column)
        if text is None:
            continue
        if not text.strip():
            yield Problem("empty text", f"{column} is empty", column)
        if control := _CONTROL.search(text):
            detail = f"{column} has U+{ord(control[0]):04X} at character {control.start()}: {_show(text)}"
            yield Problem("control characters", detail, column)
    source, target = (row.get(column) for column in TEXTS)
    if source and target:
        yield from _side_by_side(row, source.strip(), target.strip())
    text, language = (source, "source_language") if source else (target, "target_language")
    if duration is not None and text:
        rate = _extent(text, row.get(language)) / duration
        if (rate > FASTEST and duration >= 1) or (rate < SLOWEST and duration > 5):
            yield Problem("implausible duration", f"{duration:.2f} s for {len(text)} characters: {_show(text)}")


def _side_by_side(row: Row, source: str, target: str) -> Iterator[Problem]:
    languages = row.get("source_language"), row.get("target_language")
    if source == target and languages[0] != languages[1] and any(map(str.isalpha, source)):
        yield Problem("untranslated text", f"both sides are {_show(source)}")
    if difference := differing(source, target):
        yield Problem("placeholders differ", f"{difference}: {_show(source)}, {_show(target)}")
    sizes = _extent(source, languages[0]), _extent(target, languages[1])
    if max(sizes) > RATIO_FROM and max(sizes) > RATIO * min(sizes):
        detail = f"{len(source)} to {len(target)} characters: {_show(source)}, {_show(target)}"
        yield Problem("implausible length ratio", detail)


def _extent(text: str, language: str | None) -> int:
    """Return the length in letters of an alphabet."""
    return len(text) * (3 if language in LANGUAGES and not spaced(language) else 1)


def _show(text: str) -> str:
    return (
        ascii(text)[:_SHOWN] if find_surrogate(text) else repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "...")
    )


class Findings:
    """Findings counted by kind, with the first few of each.

    Attributes:
        counts: by kind.
        examples: the first :data:`NAMED` of each kind: place and detail.
    """

    NAMED = 3

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.examples: dict[str, list[str]] = {}

    def add(self, kind: str, place: str, detail: str) -> None:
        """Count a finding; ``place`` is "file, line n: " or empty."""
        if kind not in ERRORS + WARNINGS:
            raise ValueError(f"{kind!r} is no kind of finding")
        self.counts[kind] += 1
        examples = self.examples.setdefault(kind, [])
        if len(examples) < self.NAMED:
            examples.append(printable(" ".join(f"{place}{detail}".split())))

    def update(self, others: Findings) -> None:
        """Take over the findings of others."""
        for kind, examples in others.examples.items():
            self.counts[kind] += others.counts[kind]
            mine = self.examples.setdefault(kind, [])
            mine += examples[: self.NAMED - len(mine)]

    @property
    def errors(self) -> int:
        """The number of findings that are errors."""
        return sum(self.counts[kind] for kind in ERRORS)

    @property
    def warnings(self) -> int:
        """The number of those that are not."""
        return sum(self.counts[kind] for kind in WARNINGS)

    def render(self) -> str:
        """Return a table, errors first, with the first few findings below each kind."""
        width = max(map(len, ERRORS + WARNINGS))
        lines = [f"{'finding':{width}}  severity      count", f"{'-' * width}  --------  ---------"]
        for severity, kinds in (("error", ERRORS), ("warning", WARNINGS)):
            for kind in kinds:
                if self.counts[kind]:
                    lines.append(f"{kind:{width}}  {severity:8}  {self.counts[kind]:9,}")
                    lines += [f"    {example}" for example in self.examples[kind]]
                    if self.counts[kind] > self.NAMED:
                        lines.append(f"    and {self.counts[kind] - self.NAMED:,} more")
        return "\n".join(lines) if self.counts else "nothing found"
