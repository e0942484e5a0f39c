"""Links between the words of a sentence and those of its translation: files of them, and two directions made into one.

A link is (source word, target word), counted from 0. A line of a file in Pharaoh's format, as fast_align and GIZA++'s
tools write it, holds the links of one sentence pair: ``0-0 1-2 2-1``.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from pathlib import Path

from dragoman.shared.errors import DataError, UsageError
from dragoman.shared.machine.digits import whole_number

Link = tuple[int, int]

#: What of the two directions is kept, from the fewest links to the most.
SYMMETRISATIONS = ("intersection", "grow-diag-final-and", "grow-diag-final", "union")

#: A link's neighbours, in the order in which they are tried.
_NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


def check_symmetrisation(name: str) -> None:
    """Refuse a name that is not one of ``SYMMETRISATIONS``, by UsageError."""
    if name not in SYMMETRISATIONS:
        raise UsageError(f"symmetrisation must be one of {', '.join(SYMMETRISATIONS)}, not {name!r}")


def symmetrised(forward: Set[Link], backward: Set[Link], how: str) -> list[Link]:
    """Return one set of links for two, in order (Koehn et al. 2003, section 4.4; Koehn et al. 2005, section 2).

    ``grow-diag-final`` begins with the intersection; adds neighbours of what is there, diagonal ones as well, if they
    are in the union and link a word that has no link yet, until there are none; then adds from the forward and from the
    backward links those of a word that has none yet. In ``grow-diag-final-and``, both words must have none.

    Args:
        forward: the links of one direction.
        backward: of the other, as (source word, target word), too.
        how: one of ``SYMMETRISATIONS``.

    Raises:
        UsageError: for another name.
    """
    check_symmetrisation(how)
    union = forward | backward
    if how == "union":
        return sorted(union)
    chosen = set(forward & backward)
    if how == "intersection":
        return sorted(chosen)
    sources, targets = {source for source, _ in chosen}, {target for _, target in chosen}

    def add(link: Link) -> None:
        chosen.add(link)
        sources.add(link[0])
        targets.add(link[1])

    grown = True
    while grown:
        grown = False
        for source, target in sorted(chosen):
            for down, right in _NEIGHBOURS:
                near = source + down, target + right
                free = near[0] not in sources or near[1] not in targets
                if near in union and free:
                    add(near)
                    grown = True
    for links in (forward, backward):
        for source, target in sorted(links):
            both = source not in sources, target not in targets
            if all(both) if how == "grow-diag-final-and" else any(both):
                add((source, target))
    return sorted(chosen)


def written(links: list[Link]) -> str:
    """Return a line in Pharaoh's format."""
    return " ".join(f"{source}-{target}" for source, target in links)


def read(line: str) -> list[Link]:
    """Return the links of a line in Pharaoh's format; links that are marked as unsure, "3?4", are refused.

    Raises:
        DataError: for anything else.
    """
    links = []
    for item in line.split():
        source, _, target = item.partition("-")
        link = whole_number(source), whole_number(target)
        if link[0] is None or link[1] is None:
            raise DataError(f"{item[:40]!r} is not a link of two words, such as 3-4")
        links.append((link[0], link[1]))
    return links


def read_links(path: Path, lines: Iterator[str], sizes: Iterator[tuple[int, int]]) -> Iterator[list[Link]]:
    """Yield the links of each line of a file; ``sizes`` has the numbers of words of both sentences of a line.

    Raises:
        DataError: naming file and line, if a line is not in Pharaoh's format, links a word that is not there, or there
            are not as many lines as sentence pairs.
    """
    number = 0
    for number, (source, target) in enumerate(sizes, 1):
        line = next(lines, None)
        if line is None:
            raise DataError(f"{path}: {number - 1} lines, but there are more sentence pairs")
        try:
            links = read(line)
        except DataError as error:
            raise DataError(f"{path}, line {number}: {error}") from error
        wrong = next((link for link in links if link[0] >= source or link[1] >= target), None)
        if wrong:
            raise DataError(
                f"{path}, line {number}: {wrong[0]}-{wrong[1]} links a word that is not there: the sentences have "
                f"{source} and {target} words"
            )
        yield links
    if next(lines, None) is not None:
        raise DataError(f"{path}: more lines than the {number} sentence pairs")
