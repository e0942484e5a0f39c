"""Files of translations of any number, as translators exchange them: their splits, and their XML read unit by unit."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

from dragoman.shared.errors import DataError
from dragoman.shared.machine.extras import require
from dragoman.shared.preparing.held_out import DEV, LARGEST_SHARE, TEST, TRAIN, HeldOut
from dragoman.shared.preparing.line_pairs import pair_row
from dragoman.shared.preparing.reader import Reader, SourceRow
from dragoman.shared.ranges import Range
from dragoman.shared.text import languages
from dragoman.shared.text.compressed import opened, plain_name
from dragoman.shared.text.lines import Unusable

#: What a file, or a folder that it is in, is called if it is no training text.
_HELD_OUT = (DEV, "valid", TEST)
#: The values of attributes that say of a code that it breaks the line.
_BREAKS = {"lb", "xlf:lb"}


class Memories(Reader, ABC):
    """Reads one direction of files; a subclass names their endings and goes through the pairs of one.

    Attributes:
        endings: of the files that are read, with their dots; those of a compression may follow.
        library: that reads them.
    """

    name: str
    endings: tuple[str, ...] = ()
    library = "lxml"

    def __init__(
        self,
        *,
        root: str | Path,
        source_language: str,
        target_language: str,
        held_out: Annotated[float, Range(least=0, most=LARGEST_SHARE)] = 0.0,
    ) -> None:
        """Look for the files.

        Args:
            root: a file, or a folder with files at any depth.
            source_language: a code; one without a region stands for all regions (en for en-US).
            target_language: likewise.
            held_out: the share of the training data that becomes ``dev``, and as much ``test``, where there are no
                such files; 0 for none.

        Raises:
            DataError: if there are no files, or both languages are the same.
            UsageError: if the library that reads them is not installed.
        """
        require(self.library, "memories", f"the reader {self.name}")
        self.source_language, self.target_language = languages.check_pair(source_language, target_language)
        self.folder = f"{source_language}-{target_language}"
        self._root = Path(root).absolute()
        self._files: dict[str, list[Path]] = {}
        self._names = {path: self._name_of(path) for path in self._find()}
        for path, name in self._names.items():
            heads = (part.partition(".")[0] for part in name.split("/"))  # "test" of test.de.po
            split = next((head for head in heads if head in _HELD_OUT), TRAIN)
            self._files.setdefault(split, []).append(path)
        self._drawn = [split for split in (DEV, TEST) if held_out and split not in self._files]
        self._share = held_out
        if self._drawn and TRAIN not in self._files:
            raise DataError(f"{root}: no {TRAIN}, from which {' and '.join(self._drawn)} could be drawn")

    def _find(self) -> list[Path]:
        """Return the files of all splits.

        Raises:
            DataError: if there are none.
        """
        paths = [self._root] if self._root.is_file() else sorted(self._root.rglob("*"))
        files = [path for path in paths if plain_name(path).lower().endswith(self.endings) and path.is_file()]
        if not files:
            raise DataError(f"{self._root}: neither a file that ends in {' or '.join(self.endings)} nor any below it")
        return files

    def _name_of(self, path: Path) -> str:
        """Return the path of a file in the root, without its endings."""
        name = plain_name(path).rpartition(".")[0]
        return name if path == self._root else path.relative_to(self._root).with_name(name).as_posix()

    def splits(self) -> list[str]:
        """Return the names of the splits, training first."""
        return [split for split in (TRAIN, *_HELD_OUT) if split in self._files or split in self._drawn]

    def inputs(self, split: str) -> list[Path]:
        """Return the files."""
        return list(self._files[TRAIN if split in self._drawn else split])

    def rows(self, split: str) -> Iterator[SourceRow | Unusable]:
        """Go through the pairs.

        Raises:
            DataError: if a file is broken, or no unit has both languages.
        """
        if split in self._drawn:
            rows = (row for row in self._all(TRAIN, Counter(), set()) if not isinstance(row, Unusable))
            yield from (row for row in rows if self._held_out.split_of(row) == split)
            return
        passed, there = self._passed(split, anew=True), set[str]()
        any_row, divided = False, bool(self._drawn) and split == TRAIN
        for row in self._all(split, passed, there):
            any_row = True
            if not divided or isinstance(row, Unusable) or self._held_out.split_of(row) not in self._drawn:
                yield row
        if not any_row:
            why = "".join(f"; {what}: {count:,}" for what, count in passed.items())
            found = f"; there are {', '.join(sorted(there))}" if there else ""
            both = f"{self.source_language} and {self.target_language}"
            raise DataError(f"{self._root}: no text of {split} is in {both}{found}{why}")

    @cached_property
    def _held_out(self) -> HeldOut:
        rows = (row for row in self._all(TRAIN, Counter(), set()) if not isinstance(row, Unusable))
        return HeldOut(rows, self._share, self._root)

    def _all(self, split: str, passed: Counter[str], there: set[str]) -> Iterator[Any]:
        for path in self._files[split]:
            yield from self._pairs(path, passed, there)

    @abstractmethod
    def _pairs(self, path: Path, passed: Counter[str], there: set[str]) -> Iterator[SourceRow | Unusable]:
        """Go through the pairs of a file, count what is passed over, and add the languages that are there."""

    def _row(self, path: Path, key: object, texts: Sequence[str], line: int, **further: str | None) -> SourceRow:
        """Return the row of a pair; ``key`` tells it from others of the file."""
        codes = self.source_language, self.target_language
        return SourceRow(pair_row(f"{self._names[path]}_{key}", texts, codes, **further), file=path, line=line)


def read_units(path: Path, root: str, *units: str) -> Iterator[Any]:
    """Go through the elements of some names in an XML file, each forgotten when the next is asked for.

    Neither a DTD nor an entity is read from elsewhere, and none is expanded.

    Args:
        path: the file.
        root: the name of its outermost element, in any namespace.
        units: the names of the elements.

    Raises:
        DataError: if the file is no XML, or another one, or declares entities.
    """
    from lxml import etree

    with opened(path) as file:
        # resolve_entities=False: nothing is expanded, and what was declared is refused, as its text would be missing.
        events = etree.iterparse(
            file,
            events=("start", "end"),
            tag=[f"{{*}}{name}" for name in (root, *units)],
            resolve_entities=False,
            no_network=True,
            load_dtd=False,
        )
        begun = False
        try:
            for event, element in events:
                if element.getparent() is None:
                    begun = True
                    _refuse_entities(path, element)
                elif begun and event == "end":
                    yield element
                    _forget(element)
        except etree.XMLSyntaxError as error:
            first = next(iter(events.error_log), None)
            raise DataError(f"{path}, line {first.line}: {first.message}" if first else f"{path}: no XML") from error
        if not begun:
            raise DataError(f"{path}: its outermost element is not <{root}>")


def _refuse_entities(path: Path, element: Any) -> None:
    dtd = element.getroottree().docinfo.internalDTD
    name = None if dtd is None else next((entity.name for entity in dtd.iterentities()), None)
    if name is not None:
        raise DataError(f"{path}: declares the entity {name!r}; none is expanded here: write out what it stands for")


def _forget(element: Any) -> None:
    """Free an element and all that stands before it."""
    element.clear()
    for one in (element, *element.iterancestors()):
        parent = one.getparent()
        while parent is not None and one.getprevious() is not None:
            del parent[0]


def plain(path: Path, element: Any, code: Collection[str]) -> str:
    """Return the text of an element, spaces collapsed, without the elements that hold codes of its layout.

    Args:
        path: the file, for messages.
        element: an lxml element.
        code: the names of elements that are left out with all that is in them; of other ones the text stays. One that
            breaks the line (``lb``) becomes a space.

    Raises:
        DataError: for an entity, which is not expanded.
    """
    return " ".join("".join(_parts(path, element, code)).split())


def _parts(path: Path, element: Any, code: Collection[str]) -> Iterator[str]:
    from lxml import etree

    yield element.text or ""
    for child in element:
        if child.tag is etree.Entity:
            raise DataError(f"{path}, line {child.sourceline}: the entity {child.text} is not known")
        if isinstance(child.tag, str):
            if child.tag.rpartition("}")[2] not in code:
                yield from _parts(path, child, code)
            elif _BREAKS & {child.get(name) for name in ("type", "ctype", "subType")}:
                yield " "
        yield child.tail or ""
