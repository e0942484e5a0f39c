"""The number of a machine among those that share work: "2/8"."""

from __future__ import annotations

import re
from dataclasses import dataclass
from reprlib import repr as shown

from dragoman.preparing.report import NAMED
from dragoman.shared.errors import UsageError

#: The most machines that share a corpus: whoever is done looks for what each has left.
MOST_SHARDS = 10_000

_SHARD = re.compile(r"0*([0-9]{1,9})/0*([0-9]{1,9})")

#: Number of the machine, from 1, and how many there are.
Shard = tuple[int, int]


@dataclass(frozen=True)
class Waiting:
    """The numbers of the machines that have yet to finish."""

    shards: list[int]

    def __str__(self) -> str:
        """Return the numbers, of many the first ones."""
        more = f" and {len(self.shards) - NAMED:,} more" if len(self.shards) > NAMED else ""
        return ", ".join(map(str, self.shards[:NAMED])) + more


def read_shard(text: str) -> Shard:
    """Read "2/8".

    Raises:
        UsageError: if it is no such thing.
    """
    written = _SHARD.fullmatch(text)
    number, of = map(int, written.groups()) if written else (0, 0)
    if not 1 <= number <= of <= MOST_SHARDS:
        raise UsageError(
            f"a shard is written i/n, such as 2/8, with i from 1 to n and n at most {MOST_SHARDS:,}, not {shown(text)}"
        )
    return number, of
