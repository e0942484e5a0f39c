"""The phase that divides manifests into parts, none of which has a text of another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from dragoman.shared.batches.find import find_manifests
from dragoman.shared.batches.manifest import Manifest, Row
from dragoman.shared.errors import DataError, UsageError
from dragoman.shared.machine.processes import MainPhase
from dragoman.shared.machine.workspace import Workspace
from dragoman.shared.preparing.held_out import folded, hashed
from dragoman.shared.ranges import PositiveInt


class Divide(MainPhase):
    """Divide the rows of manifests into parts, such as some to be spoken and the others as text.

    Writes ``<out>/<pair>/<part>.arrow`` for each part of a manifest ``.../<pair>/<split>.arrow``, with rows in their
    order. A part takes whole documents, in the order of a hash of their names, until it has its rows; of the last one
    it leaves the rest, which no other part gets. Rows that share a text with an earlier part, on either side and in
    whatever case and spaces, are left out. So every part is of the whole corpus, and the first ones stay the same
    whatever the later ones are.

    Args:
        manifests: paths or patterns, one for each pair.
        out: the folder.
        parts: the rows of each; None, which the last one may have, means all that are left.

    Raises:
        UsageError: if there is no part, or a part follows one that has all that are left.
        DataError: when it runs, for a row without a document, too few rows, or manifests that would be written over
            each other or over what is read.
    """

    def __init__(self, *, manifests: Sequence[str], out: str, parts: Mapping[str, PositiveInt | None]) -> None:
        self.manifests = list(manifests)
        self.out = Path(out)
        self.parts = dict(parts)
        if not parts or None in list(parts.values())[:-1]:
            raise UsageError(f"parts must be named, and only the last may be null: {self.parts}")

    def outputs(self) -> list[Path]:
        """Name the folder."""
        return [self.out]

    def work(self, workspace: Workspace) -> None:
        """Write the parts."""
        paths = find_manifests(self.manifests)
        written: set[Path] = set()
        for path in paths:
            place = self.out / path.parent.name
            if place in written:
                raise DataError(f"{place}: two manifests would be divided there; the second is {path}")
            if place.resolve() in {other.parent.resolve() for other in paths}:
                raise DataError(f"{place}: what is read may be written over: choose another folder")
            written.add(place)
            for name, rows, left in self._divide(path):
                Manifest.write(place / f"{name}.arrow", rows)
                said = f"{len(rows):,} rows of {len({row['document'] for row in rows}):,} documents"
                said += f"; {left:,} with a text of another part are left out" if left else ""
                workspace.log.info("%s: %s/%s: %s", workspace.phase, place, name, said)

    def _divide(self, path: Path) -> Iterator[tuple[str, list[Row], int]]:
        """Go through the parts of a manifest: the name, the rows, and the number of rows that were left out."""
        documents: dict[str, list[tuple[int, Row]]] = {}
        for number, row in enumerate(Manifest.open(path)):
            if not row["document"]:
                raise DataError(f"{path}: row {row['id']} has no document, by which rows are divided")
            documents.setdefault(row["document"], []).append((number, row))
        waiting = iter(sorted(documents, key=lambda name: (hashed(name), name)))
        taken: set[str] = set()
        for part, wanted in self.parts.items():
            found: list[tuple[int, Row]] = []
            left = 0
            while wanted is None or len(found) < wanted:
                document = next(waiting, None)
                if document is None:
                    break
                fresh = [(number, row) for number, row in documents[document] if not taken & _texts(row)]
                left += len(documents[document]) - len(fresh)
                found += fresh[: None if wanted is None else wanted - len(found)]
            if wanted is not None and len(found) < wanted:
                raise DataError(f"{path}: {len(found):,} rows are left for the part {part}, not {wanted:,}")
            rows = [row for _, row in sorted(found, key=lambda one: one[0])]
            taken = taken.union(*map(_texts, rows))
            yield part, rows, left


def _texts(row: Row) -> set[str]:
    """Return what a row says in its two languages, each with its side: that a name stays itself is no repetition."""
    return {f"{side} {folded(row[side])}" for side in ("source_text", "target_text") if row[side]}
