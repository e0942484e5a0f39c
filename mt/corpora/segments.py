"""Test sets in the markup of NIST, as WMT's .sgm and IWSLT's .xml files have it: documents of numbered segments.

These files look like XML and are none: an ampersand may stand alone, attributes may lack quotes. So segments are found
by their tags, not by a parser.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dragoman.shared.errors import DataError
from dragoman.shared.text.lines import read_lines


@dataclass(frozen=True)
class Segment:
    """A sentence of a test set.

    Attributes:
        document: the name of its document; "" outside of any.
        translator: who translated the document ("ref", "refB", ...); "" if the file does not say.
        number: as the file has it; it begins anew in each document.
        text: without tags, entities resolved, one space for several.
        line: in the file, from 1.
    """

    document: str
    translator: str
    number: str
    text: str
    line: int


_TAG = re.compile(r"<doc\b([^>]*)>|<seg\b([^>]*)>(.*?)</seg\s*>", re.IGNORECASE | re.DOTALL)


def read_segments(path: Path) -> Iterator[Segment]:
    """Go through the segments of a file, in order.

    Raises:
        DataError: if the file is missing or holds no segment, or one has no number or no end, with its line.
    """
    content = "\n".join(read_lines(path, "surrogateescape"))
    document = translator = ""
    position, line = 0, 1
    any_segment = False
    for match in _TAG.finditer(content):
        line += content.count("\n", position, match.start())
        position = match.start()
        of_document, of_segment, text = match.groups()
        if of_document is not None:
            document, translator = _attribute(of_document, "docid"), _attribute(of_document, "sysid")
            continue
        number = _attribute(of_segment, "id")
        if not number:
            raise DataError(f"{path}, line {line}: a segment without an id")
        if re.search(r"<seg\b", text, re.IGNORECASE):
            raise DataError(f"{path}, line {line}: segment {number} of document {document!r} has no end")
        plain = " ".join(html.unescape(re.sub(r"<[^<>]*>", " ", text)).split())
        yield Segment(document, translator, number, plain, line)
        any_segment = True
    if not any_segment:
        raise DataError(f"{path}: no <seg> in it")


def _attribute(attributes: str, name: str) -> str:
    match = re.search(rf"""\b{name}\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))""", attributes, re.IGNORECASE)
    return next((value for value in match.groups() if value is not None), "") if match else ""
