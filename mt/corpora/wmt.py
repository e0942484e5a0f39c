"""WMT: training text in line-aligned files, test sets as .sgm (to 2020) or .xml (from 2021).

Training text is found as by :class:`dragoman.mt.corpora.moses.Moses`. Test sets (de to en as an example; the pair of
languages in an .sgm file's name stands in either order, or is missing)::

    {root}/newstest2014-deen-src.de.sgm    {root}/newstest2014-deen-ref.en.sgm
    {root}/newstest2013-src.de.sgm         {root}/newstest2013-ref.en.sgm
    {root}/newstest2021.de-en.xml          sources and references of one direction in one file

Each is a split that is called like its file: "newstest2014". A segment's document becomes the column ``document``.
Several references (documents that come again with another ``sysid``, or several ``translator`` in .xml) become
``target_text`` and ``target_text_1`` ...; as in sacreBLEU, segments of .xml files without any are left out, and so are
test suites.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from dragoman.mt.corpora.moses import Moses
from dragoman.mt.corpora.segments import Segment, read_segments
from dragoman.shared.errors import DataError
from dragoman.shared.preparing.reader import SourceRow
from dragoman.shared.text.compressed import beside, opened, plain_name, plain_or_packed


class WMT(Moses):
    """Reads one direction of WMT's training text and test sets."""

    name = "wmt"

    def _find(self, root: Path) -> dict[str, tuple[Path, Path]]:
        """Return the file pairs by the names of splits; both sides of an .xml file are that file."""
        source, target = self.source_language, self.target_language
        pairs = super()._find(root)
        for path in plain_or_packed(root, f"*.{source}-{target}.xml"):
            name = plain_name(path).removesuffix(f".{source}-{target}.xml")
            if name in pairs:
                raise DataError(f"{path}: both this and {pairs[name][0]} would be {name!r}")
            pairs[name] = path, path
        marks = [f"-{source}{target}", f"-{target}{source}", ""]
        alone = []
        for path in plain_or_packed(root, f"*-src.{source}.sgm"):
            stem = plain_name(path).removesuffix(f"-src.{source}.sgm")
            reference = beside(path.with_name(f"{stem}-ref.{target}.sgm"))
            mark = next(mark for mark in marks if stem.endswith(mark))
            if reference is None:
                alone.append(path)
            elif mark or not re.search(r"\d-[a-z]{4,6}$", stem):
                name = stem.removesuffix(mark)
                if name in pairs:
                    raise DataError(f"{path}: both this and {pairs[name][0]} would be {name!r}")
                pairs[name] = path, reference
        self._pass_files("files without references", alone)
        return pairs

    def _files(self, source: Path, target: Path) -> list[Path]:
        if _is_test_set(source):
            return list(dict.fromkeys((source, target)))
        return super()._files(source, target)

    def _count(self, source: Path, target: Path) -> int:
        if _is_test_set(source):
            return sum(1 for _ in self._rows("", source, target, Counter()))
        return super()._count(source, target)

    def _rows(self, stem: str, source_file: Path, target_file: Path, passed: Counter[str]) -> Iterator[SourceRow]:
        if plain_name(source_file).endswith(".xml"):
            segments = read_document_file(source_file, passed)
            yield from self._numbered(stem, segments, source_file, target_file)
        elif _is_test_set(source_file):
            yield from self._numbered(stem, read_test_set(source_file, target_file), source_file, target_file)
        else:
            yield from super()._rows(stem, source_file, target_file, passed)

    def _numbered(
        self, stem: str, segments: Iterator[tuple[Segment, list[str]]], source_file: Path, target_file: Path
    ) -> Iterator[SourceRow]:
        """Return rows of segments with their references."""
        for number, (segment, references) in enumerate(segments, 1):
            row = {
                **{f"target_text_{n}": text or None for n, text in enumerate(references[1:], 1)},
                "id": f"{stem}_{number}",
                "source_text": segment.text,
                "source_language": self.source_language,
                "target_text": references[0],
                "target_language": self.target_language,
                "document": segment.document or None,
            }
            yield SourceRow(row, file=source_file, line=segment.line, files={"target_text": target_file})


def read_test_set(source: Path, target: Path) -> Iterator[tuple[Segment, list[str]]]:
    """Go through the segments of a file of sources, each with its references, one for each translator.

    Raises:
        DataError: if the two files do not hold the same documents and segments in the same order, or a broken segment.
    """
    sources = list(read_segments(source))
    by_translator: dict[str, list[Segment]] = {}
    for segment in read_segments(target):
        by_translator.setdefault(segment.translator, []).append(segment)
    for translator, segments in by_translator.items():
        if len(segments) != len(sources):
            who = f" by {translator}" if translator else ""
            raise DataError(f"{source}: {len(sources)} segments, but {target.name} has {len(segments)}{who}")
        for one, other in zip(sources, segments, strict=True):
            if (one.document, one.number) != (other.document, other.number):
                raise DataError(
                    f"{source}, line {one.line}: segment {one.number} of document {one.document!r}, but {target.name}, "
                    f"line {other.line}, has segment {other.number} of {other.document!r}"
                )
    for number, segment in enumerate(sources):
        yield segment, [segments[number].text for segments in by_translator.values()]


def _is_test_set(path: Path) -> bool:
    return plain_name(path).endswith((".sgm", ".xml"))


def read_document_file(path: Path, passed: Counter[str]) -> Iterator[tuple[Segment, list[str]]]:
    """Go through the segments of an .xml file, each with its references; "" where a translator has none.

    Args:
        path: the file.
        passed: counts the documents and segments that are passed over.

    Raises:
        DataError: if the file is no XML, or a segment has no number, or that of another one.
    """
    try:
        with opened(path) as file:
            found_documents = list(ET.parse(file).getroot().iter("doc"))
    except (ET.ParseError, LookupError, ValueError) as error:  # an encoding that there is not, or that expat has not
        raise DataError(f"{path}: {error}") from error
    documents = [doc for doc in found_documents if "testsuite" not in doc.attrib]
    if len(documents) < len(found_documents):
        passed["documents of test suites"] += len(found_documents) - len(documents)
    translators = list(dict.fromkeys(ref.get("translator", "") for doc in documents for ref in doc.iter("ref")))
    for doc in documents:
        references = {ref.get("translator", ""): _texts(ref, path) for ref in doc.iter("ref")}
        for source in doc.iter("src"):
            for number, text in _texts(source, path).items():
                texts = [references.get(translator, {}).get(number, "") for translator in translators]
                if any(texts):
                    texts = [texts[0] or next(filter(None, texts)), *texts[1:]]
                    yield Segment(doc.get("id", ""), "", number, text, 1), texts
                else:
                    passed["segments without a reference"] += 1


def _texts(element: ET.Element, path: Path) -> dict[str, str]:
    """Return the texts of an element's segments by their numbers."""
    texts: dict[str, str] = {}
    for segment in element.iter("seg"):
        number = segment.get("id", "")
        if not number:
            raise DataError(f"{path}: a segment without an id")
        if number in texts:
            raise DataError(f"{path}: two segments {number!r} in one text: {texts[number]!r} is the first")
        texts[number] = " ".join("".join(segment.itertext()).split())
    return texts
