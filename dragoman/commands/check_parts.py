"""A check in parts: machines that share a disk listen to some sound files each, and the last one writes the report.

All machines read the texts, which is quick. What each found in the sound files of a part of the rows stands in a file
beside the report; whoever finds those of all parts goes through the texts once more, with what is known, as a single
check does: the report is the same, byte for byte.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import groupby, islice
from pathlib import Path
from typing import Any

from dragoman.commands.inspection import Known, Rows, chunks_of
from dragoman.commands.output_parts import OutputParts
from dragoman.preparing.preparation import Progress, segments
from dragoman.preparing.probing import Examination, Pool, Segment, examine_segments
from dragoman.shared.batches.manifest import Row
from dragoman.shared.errors import UsageError
from dragoman.shared.machine.nesting import from_json
from dragoman.shared.preparing.findings import Problem
from dragoman.shared.text.lines import Unusable

#: Chunks of rows in a part.
PART = 16


def examine_parts(
    splits: Iterable[Callable[[], Rows]],
    parts: OutputParts,
    *,
    workers: int,
    listen: bool,
    progress: Progress,
) -> int:
    """Look into the sound files of the parts that this machine has to make; return how many parts there are in all.

    Args:
        splits: what reads the rows of each, in the order in which they are checked.
        parts: gets what is found, a line of JSON for each chunk of rows.
        workers: processes; 0 means one per processor.
        listen: decode every sample.
        progress: called with the number of rows that were looked at.

    Raises:
        DataError: if a process of the pool dies.
    """
    chunks = (chunk for rows in splits for chunk in chunks_of(rows, []))  # what is broken, the report tells
    count = 0

    def todo() -> Iterator[tuple[int, list[Segment], None]]:
        nonlocal count
        while part := list(islice(chunks, PART)):
            if parts.is_to_do(count):
                yield from ((count, segments(items), None) for items in part)
            count += 1

    done = 0
    with Pool(workers) as pool:
        looked = pool.check(partial(examine_segments, listen=listen), todo())
        for number, chunk in groupby(looked, key=lambda labelled: labelled[0]):
            found = [results for _, results in chunk]
            parts.write(number, [json.dumps(results) for results in found])
            done += sum(map(len, found))
            progress(done, None)
    return count


def known_of(parts: Iterator[Path]) -> Known:
    """Return what gives the findings of each chunk of rows in turn, of files that :func:`examine_parts` has written."""
    lines = ((place, line) for place in parts for line in place.read_bytes().splitlines())

    def known(items: list[Row | Unusable]) -> list[Examination]:
        place, line = next(lines, (None, b"[]"))
        results: list[Any] = from_json(line)
        if len(results) != len(items):
            of = "more rows than" if place is None else f"{place}: other rows than"
            raise UsageError(f"{of} sound files were looked into for: a text has changed meanwhile, or a disk failed")
        return [(seconds, [Problem(*problem) for problem in problems]) for seconds, problems in results]

    return known
